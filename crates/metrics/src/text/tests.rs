use super::*;
use crate::families::Sample;

fn family(kind: Kind) -> Family {
    let labels = vec![("host", "a\\b\"c\nd".to_owned()), ("port", "eth0".to_owned())];
    let samples =
        vec![Sample { suffix: "", labels, value: 7.0 }, Sample { suffix: "", labels: Vec::new(), value: 0.5 }];
    Family { name: "linerate_x", kind, help: "A \"sentence\".", samples }
}

#[test]
fn counters_have_their_suffix_in_both_formats() {
    let text = Format::Prometheus.text(&[family(Kind::Counter)]);
    assert_eq!(
        text,
        "# HELP linerate_x_total A \"sentence\".\n# TYPE linerate_x_total counter\n\
         linerate_x_total{host=\"a\\\\b\\\"c\\nd\",port=\"eth0\"} 7\nlinerate_x_total 0.5\n"
    );
    let text = Format::OpenMetrics.text(&[family(Kind::Counter)]);
    assert_eq!(
        text,
        "# HELP linerate_x A \\\"sentence\\\".\n# TYPE linerate_x counter\n\
         linerate_x_total{host=\"a\\\\b\\\"c\\nd\",port=\"eth0\"} 7\nlinerate_x_total 0.5\n# EOF\n"
    );
}

#[test]
fn other_kinds_have_the_names_of_their_format() {
    for (kind, prometheus, openmetrics) in [(Kind::Gauge, "gauge", "gauge"), (Kind::Unknown, "untyped", "unknown")] {
        for (format, name) in [(Format::Prometheus, prometheus), (Format::OpenMetrics, openmetrics)] {
            assert!(format.text(&[family(kind)]).contains(&format!("\n# TYPE linerate_x {name}\n")));
        }
    }
    assert_eq!(Format::OpenMetrics.text(&[]), "# EOF\n");
}

#[test]
fn control_characters_are_replaced() {
    let labels = vec![("host", "a\tb\u{7}é".to_owned())];
    let odd = Family { samples: vec![Sample { suffix: "", labels, value: 1.0 }], ..family(Kind::Gauge) };
    assert!(Format::Prometheus.text(&[odd]).contains("{host=\"a?b?é\"} 1\n"));
}
