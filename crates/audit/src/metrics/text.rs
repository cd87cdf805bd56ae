//! Metrics as text: Prometheus' own format (also read by node_exporter from files) and OpenMetrics.

use std::fmt::Write as _;

use super::family::{Family, Histogram, Kind, Sample, Value};

/// How it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Version 0.0.4 of Prometheus' text format.
    Prometheus,
    /// Version 1.0.0.
    OpenMetrics,
}

impl Format {
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

#[must_use]
pub fn text(families: &[Family], format: Format) -> String {
    let mut out = String::with_capacity(16 * 1024);
    for family in families {
        // In OpenMetrics the ending belongs to the sample and not to the metric.
        let name = match (format, family.kind) {
            (Format::OpenMetrics, Kind::Counter) => family.name.strip_suffix("_total").unwrap_or(family.name),
            _ => family.name,
        };
        let _ = writeln!(out, "# HELP {name} {}", escaped(family.help, format == Format::OpenMetrics));
        let _ = writeln!(out, "# TYPE {name} {}", family.kind.name());
        for sample in &family.samples {
            write_sample(&mut out, family.name, sample, format);
        }
    }
    if format == Format::OpenMetrics {
        out.push_str("# EOF\n");
    }
    out
}

fn write_sample(out: &mut String, name: &str, sample: &Sample, format: Format) {
    match &sample.value {
        Value::Count(count) => {
            let _ = writeln!(out, "{name}{} {count}", labels(sample, None));
        }
        Value::Number(number) => {
            let _ = writeln!(out, "{name}{} {}", labels(sample, None), float(*number));
        }
        Value::Histogram(histogram) => write_histogram(out, name, sample, histogram, format),
    }
}

fn write_histogram(out: &mut String, name: &str, sample: &Sample, histogram: &Histogram, format: Format) {
    for (bound, count) in histogram.cumulative() {
        // OpenMetrics wants bounds to look like floating point numbers.
        let bound = match format {
            Format::OpenMetrics if bound.fract() == 0.0 => format!("{bound:.1}"),
            _ => bound.to_string(),
        };
        let _ = writeln!(out, "{name}_bucket{} {count}", labels(sample, Some(&bound)));
    }
    let _ = writeln!(out, "{name}_bucket{} {}", labels(sample, Some("+Inf")), histogram.count());
    let _ = writeln!(out, "{name}_sum{} {}", labels(sample, None), float(histogram.sum()));
    let _ = writeln!(out, "{name}_count{} {}", labels(sample, None), histogram.count());
}

fn float(number: f64) -> String {
    if number.is_finite() {
        number.to_string()
    } else if number.is_nan() {
        "NaN".to_owned()
    } else if number > 0.0 {
        "+Inf".to_owned()
    } else {
        "-Inf".to_owned()
    }
}

fn labels(sample: &Sample, bound: Option<&str>) -> String {
    let own = sample.labels.iter().map(|(name, value)| (*name, value.as_ref()));
    let pairs: Vec<String> = own
        .chain(bound.map(|bound| ("le", bound)))
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value, true)))
        .collect();
    if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) }
}

fn escaped(text: &str, quotes: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn families() -> Vec<Family> {
        let mut spread = Histogram::new(&[0.5, 1.0]);
        [0.25, 4.0].into_iter().for_each(|value| spread.observe(value));
        vec![
            Family::new(Kind::Counter, "a_total", "Says \"a\\b\"").with(vec![("tool", "x\"\\\ny".into())], 3),
            Family::single(Kind::Histogram, "h_seconds", "Time", Value::Histogram(spread)),
            Family::single(Kind::Gauge, "g", "Now", 1.5),
        ]
    }

    #[test]
    fn the_text_of_prometheus_is_as_written_here() {
        let expected = r#"# HELP a_total Says "a\\b"
# TYPE a_total counter
a_total{tool="x\"\\\ny"} 3
# HELP h_seconds Time
# TYPE h_seconds histogram
h_seconds_bucket{le="0.5"} 1
h_seconds_bucket{le="1"} 1
h_seconds_bucket{le="+Inf"} 2
h_seconds_sum 4.25
h_seconds_count 2
# HELP g Now
# TYPE g gauge
g 1.5
"#;
        assert_eq!(text(&families(), Format::Prometheus), expected);
    }

    #[test]
    fn openmetrics_differs_in_names_of_counters_in_bounds_and_at_its_end() {
        let text = text(&families(), Format::OpenMetrics);
        assert!(text.contains("# TYPE a counter\na_total{"), "{text}");
        assert!(text.contains("le=\"1.0\"") && text.ends_with("g 1.5\n# EOF\n"), "{text}");
        assert!(text.contains("# HELP a Says \\\"a\\\\b\\\"\n"), "{text}");
    }

    #[test]
    fn no_number_is_written_in_a_way_that_others_cannot_read() {
        for (number, expected) in
            [(f64::NAN, "NaN"), (f64::INFINITY, "+Inf"), (f64::NEG_INFINITY, "-Inf"), (0.1, "0.1")]
        {
            assert_eq!(float(number), expected);
        }
    }
}
