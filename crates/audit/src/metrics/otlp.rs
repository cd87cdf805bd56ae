//! Metrics as OTLP: an `ExportMetricsServiceRequest` in the JSON encoding of protocol buffers, as OTLP over HTTP has
//! it. Numbers of 64 bits are strings there.

use serde_json::{Value as Json, json};

use super::family::{Family, Kind, Sample, Value};

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`: counted since the beginning and not since the last time.
const CUMULATIVE: u8 = 2;

/// What the metrics are about, besides themselves.
#[derive(Debug, Clone, Copy)]
pub struct Export<'a> {
    pub version: &'a str,
    /// Milliseconds since the epoch: since when it is counted, and when it was told.
    pub since_ms: u64,
    pub now_ms: u64,
}

/// The body of a request to `/v1/metrics`.
#[must_use]
pub fn request(families: &[Family], export: &Export<'_>) -> Json {
    let metrics: Vec<Json> = families
        .iter()
        .filter(|family| !family.samples.is_empty())
        .map(|family| metric(family, export))
        .collect();
    json!({
        "resourceMetrics": [{
            "resource": {
                "attributes": [
                    attribute("service.name", "lazaret"),
                    attribute("service.version", export.version),
                ],
            },
            "scopeMetrics": [{
                "scope": { "name": "lazaret", "version": export.version },
                "metrics": metrics,
            }],
        }],
    })
}

fn metric(family: &Family, export: &Export<'_>) -> Json {
    let points: Vec<Json> = family.samples.iter().map(|sample| point(sample, export)).collect();
    // Whoever turns it back into Prometheus' text adds the ending again.
    let name = match family.kind {
        Kind::Counter => family.name.strip_suffix("_total").unwrap_or(family.name),
        _ => family.name,
    };
    let mut metric = json!({ "name": name, "description": family.help });
    let (key, data) = match family.kind {
        Kind::Counter => (
            "sum",
            json!({ "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points }),
        ),
        Kind::Gauge => ("gauge", json!({ "dataPoints": points })),
        Kind::Histogram => {
            ("histogram", json!({ "aggregationTemporality": CUMULATIVE, "dataPoints": points }))
        }
    };
    if let Some(fields) = metric.as_object_mut() {
        fields.insert(key.to_owned(), data);
        fields.extend(unit(name).map(|unit| ("unit".to_owned(), unit.into())));
    }
    metric
}

/// In UCUM, as OpenTelemetry wants it. Not "1" for the rest: that would be taken for a ratio.
fn unit(name: &str) -> Option<&'static str> {
    if name.ends_with("_seconds") {
        Some("s")
    } else if name.ends_with("_bytes") {
        Some("By")
    } else {
        None
    }
}

fn point(sample: &Sample, export: &Export<'_>) -> Json {
    let labels: Vec<Json> = sample.labels.iter().map(|(name, value)| attribute(name, value)).collect();
    let mut point = json!({
        "attributes": labels,
        "startTimeUnixNano": nanos(export.since_ms),
        "timeUnixNano": nanos(export.now_ms),
    });
    let Some(fields) = point.as_object_mut() else { return point };
    let mut set = |key: &str, value: Json| drop(fields.insert(key.to_owned(), value));
    match &sample.value {
        Value::Count(count) => set("asInt", count.min(&i64::MAX.unsigned_abs()).to_string().into()),
        Value::Number(number) => set("asDouble", json!(number)),
        Value::Histogram(histogram) => {
            let counts: Vec<String> = histogram.counts().iter().map(u64::to_string).collect();
            set("count", histogram.count().to_string().into());
            set("sum", json!(histogram.sum()));
            set("bucketCounts", json!(counts));
            set("explicitBounds", json!(histogram.bounds()));
        }
    }
    point
}

fn attribute(key: &str, value: &str) -> Json {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn nanos(millis: u64) -> String {
    format!("{millis}000000")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Readable, Tally, Telling};

    #[test]
    fn a_request_has_sums_gauges_and_histograms_with_numbers_as_the_encoding_wants_them() {
        let telling = Telling { now_ms: 5, version: "1", one_by_one: 0, log: Readable::Yes };
        let mut tally = Tally::new();
        tally.bad_line();
        let export = Export { version: "1", since_ms: 3, now_ms: 5 };
        let request = request(&tally.families(&telling), &export);
        let metrics = request["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
        let named = |name: &str| metrics.iter().find(|it| it["name"] == name).unwrap();
        let sum = &named("lazaret_audit_bad_lines")["sum"];
        assert_eq!(sum["isMonotonic"], true);
        assert_eq!(sum["dataPoints"][0]["asInt"], "1");
        assert_eq!(sum["dataPoints"][0]["startTimeUnixNano"], "3000000");
        assert_eq!(named("lazaret_sandbox_creation_rate")["gauge"]["dataPoints"][0]["asDouble"], 0.0);
        let histogram = &named("lazaret_sandbox_memory_bytes")["histogram"]["dataPoints"][0];
        let (bounds, counts) = (&histogram["explicitBounds"], &histogram["bucketCounts"]);
        assert_eq!(bounds.as_array().unwrap().len() + 1, counts.as_array().unwrap().len());
        assert_eq!(named("lazaret_sandbox_memory_bytes")["unit"], "By");
        assert!(named("lazaret_sandboxes_active").get("unit").is_none());
        assert!(
            metrics.iter().all(|it| it["name"] != "lazaret_tool_runs"),
            "a metric without values is not sent"
        );
    }
}
