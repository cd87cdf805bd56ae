//! Metrics as JSON, for scripts.

use serde_json::{Map, Value as Json, json};

use super::family::{Family, Value};

#[must_use]
pub fn json(families: &[Family]) -> Json {
    let metrics: Vec<Json> = families
        .iter()
        .map(|family| {
            let samples: Vec<Json> = family
                .samples
                .iter()
                .map(|sample| {
                    let labels: Map<String, Json> = sample
                        .labels
                        .iter()
                        .map(|(name, value)| ((*name).to_owned(), Json::from(value.as_ref())))
                        .collect();
                    match &sample.value {
                        Value::Count(count) => json!({ "labels": labels, "value": count }),
                        Value::Number(number) => json!({ "labels": labels, "value": number }),
                        Value::Histogram(histogram) => {
                            let buckets: Vec<Json> = histogram
                                .cumulative()
                                .map(|(bound, count)| json!({ "upTo": bound, "count": count }))
                                .collect();
                            json!({
                                "labels": labels,
                                "buckets": buckets,
                                "sum": histogram.sum(),
                                "count": histogram.count(),
                            })
                        }
                    }
                })
                .collect();
            json!({ "name": family.name, "help": family.help, "type": family.kind.name(), "samples": samples })
        })
        .collect();
    json!({ "metrics": metrics })
}
