//! Metric families as text: Prometheus' format 0.0.4, and OpenMetrics 1.0.

#[cfg(test)]
mod tests;

use crate::families::{Family, Kind};
use std::fmt::Write;

/// Format of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Prometheus' text format, version 0.0.4.
    Prometheus,
    /// OpenMetrics, version 1.0.
    OpenMetrics,
}

impl Format {
    /// Returns the media type of the format.
    pub fn media_type(self) -> &'static str {
        match self {
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Returns the families as text.
    pub fn text(self, families: &[Family]) -> String {
        let samples: usize = families.iter().map(|family| family.samples.len()).sum();
        let mut out = String::with_capacity(100 * samples + 200 * families.len());
        families.iter().for_each(|family| self.family(family, &mut out));
        if self == Format::OpenMetrics {
            out += "# EOF\n";
        }
        out
    }

    fn family(self, family: &Family, out: &mut String) {
        let suffix = if family.kind == Kind::Counter { "_total" } else { "" };
        // OpenMetrics describes a counter by its name without the suffix.
        let described = if self == Format::OpenMetrics { "" } else { suffix };
        let kind = match (family.kind, self) {
            (Kind::Counter, _) => "counter",
            (Kind::Gauge, _) => "gauge",
            (Kind::Histogram, _) => "histogram",
            (Kind::Unknown, Format::Prometheus) => "untyped",
            (Kind::Unknown, Format::OpenMetrics) => "unknown",
        };
        let name = family.name;
        // Writing to a string does not fail.
        let _ = write!(out, "# HELP {name}{described} ");
        escape(family.help, self == Format::OpenMetrics, out);
        let _ = write!(out, "\n# TYPE {name}{described} {kind}\n");
        for sample in &family.samples {
            out.push_str(name);
            out.push_str(suffix);
            out.push_str(sample.suffix);
            for (at, (label, value)) in sample.labels.iter().enumerate() {
                let _ = write!(out, "{}{label}=\"", if at == 0 { '{' } else { ',' });
                escape(value, true, out);
                out.push('"');
            }
            let end = if sample.labels.is_empty() { "" } else { "}" };
            let _ = writeln!(out, "{end} {}", sample.value);
        }
    }
}

/// Appends `text` with backslashes and line breaks escaped, and with double quotes if `quotes` is
/// set. Control characters, which the formats do not exclude but readers may, become `?`.
fn escape(text: &str, quotes: bool, out: &mut String) {
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            c if c.is_control() => out.push('?'),
            c => out.push(c),
        }
    }
}
