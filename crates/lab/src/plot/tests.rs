use super::scale::Scale;
use super::*;
use crate::result;

/// Returns the boxes of all texts: left, right, base line, text.
fn texts(svg: &str) -> Vec<(f64, f64, f64, String)> {
    let attribute = |tag: &str, name: &str| {
        let from = tag.find(&format!(" {name}=\"")).unwrap() + name.len() + 3;
        tag[from..].split('"').next().unwrap().to_owned()
    };
    let tags = svg.split("<text").skip(1).map(|rest| {
        let (tag, words) = rest.split_once('>').unwrap();
        let words = words.split("</text>").next().unwrap();
        let words = words.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        let width = words.trim_end().chars().count() as f64 * 13.0 * 0.6;
        let x: f64 = attribute(tag, "x").parse().unwrap();
        let left = if attribute(tag, "text-anchor") == "middle" { x - width / 2.0 } else { x };
        (left, left + width, attribute(tag, "y").parse().unwrap(), words)
    });
    tags.collect()
}

fn assert_no_overlap(svg: &str) {
    let texts = texts(svg);
    for (i, a) in texts.iter().enumerate() {
        for b in &texts[i + 1..] {
            let apart = (a.2 - b.2).abs() >= 13.0 || a.1 <= b.0 || b.1 <= a.0;
            assert!(apart, "{a:?} and {b:?}");
        }
    }
}

#[test]
fn one_panel_per_unit_with_peers_under_their_rows() {
    let (report, _) = result::tests::example();
    let chart = Chart::of(&report, None);
    assert_eq!(chart.panels.iter().map(|panel| panel.unit.as_str()).collect::<Vec<_>>(), ["ticks/op", "GB/s"]);
    let labels: Vec<&str> = chart.panels[0].lines.iter().map(|line| line.label.as_str()).collect();
    assert_eq!(labels, ["UDP send, 22-byte payload", "  lwip", "  linux"]);
    assert_eq!(chart.panels[0].axis, Axis::Log);
    assert_eq!(chart.panels[1].axis, Axis::Linear);
    assert_eq!(chart.panels[0].lines[0].then, Some(2357.0));
}

#[test]
fn a_faster_peer_is_labelled() {
    let (mut report, _) = result::tests::example();
    for (ratio, said) in [(20.6, "ours 20.6x better"), (0.8, "ours 1.25x worse"), (1.0, "ours 1.0000x better")] {
        report.peers[1].ratio.as_mut().unwrap().median = ratio;
        let chart = Chart::of(&report, None);
        assert!(chart.panels[0].lines[2].value.ends_with(said), "{}", chart.panels[0].lines[2].value);
    }
}

/// With the report in cycles and our figures in ticks no diamond is drawn, so the legend explains
/// none.
#[test]
fn the_legend_has_only_the_marks_in_use() {
    let (mut report, _) = result::tests::example();
    let drawn = |report: &Report| {
        let svg = Chart::of(report, None).svg();
        (svg.contains("<path "), svg.contains("diamond: report (then)"), svg.contains("dot: median"))
    };
    assert_eq!(drawn(&report), (true, true, true));
    for then in report.rows.iter_mut().filter_map(|row| row.then.as_mut()) {
        then.unit = "cycles/op".into();
    }
    assert_eq!(drawn(&report), (false, false, true));
    assert!(Chart::of(&report, None).panels[0].lines[0].value.ends_with("then 2357 cycles/op"));
    report.rows.clear();
    report.peers.clear();
    assert_eq!(drawn(&report), (false, false, false));
}

#[test]
fn texts_do_not_overlap_on_either_axis() {
    let (report, _) = result::tests::example();
    for axis in [None, Some(Axis::Linear), Some(Axis::Log)] {
        assert_no_overlap(&Chart::of(&report, axis).svg());
    }
}

#[test]
fn all_elements_are_inside_the_picture() {
    let (mut report, _) = result::tests::example();
    report.rows.truncate(1);
    report.peers.clear();
    (report.rows[0].then, report.rows[0].vs_previous) = (None, None);
    let long = "10^6bits of a long unit/s";
    report.rows[0].now = Some(Figure { median: 1.0, lo: 1.0, hi: 1.0, n: 1, unit: long.into(), range: None });
    let svg = Chart::of(&report, None).svg();
    let width: f64 = svg.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().parse().unwrap();
    assert!(texts(&svg).iter().any(|text| text.3 == long), "{svg}");
    assert!(texts(&svg).iter().all(|(left, right, ..)| *left >= 0.0 && *right <= width), "{width}: {:?}", texts(&svg));
}

#[test]
fn the_picture_is_well_formed_and_escaped() {
    let (mut report, _) = result::tests::example();
    report.name = "a\u{1}b \"<&>\"".into();
    let svg = Chart::of(&report, None).svg();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("a b &quot;&lt;&amp;&gt;&quot;") && svg.contains("five MACs &lt;fixed columns&gt; &amp; all"));
    assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

#[test]
fn extreme_figures_give_a_valid_chart() {
    let (mut report, _) = result::tests::example();
    for (median, hi) in [(0.0, 0.0), (-5.0, 3.0), (f64::NAN, f64::INFINITY), (1e-300, 1e300), (7.0, 7.0)] {
        report.rows[0].now = Some(Figure { median, lo: median, hi, n: 1, unit: "ticks/op".into(), range: None });
        for axis in [None, Some(Axis::Linear), Some(Axis::Log)] {
            let svg = Chart::of(&report, axis).svg();
            let numbers = svg.split(['"', ' ']).filter(|word| *word == "NaN" || *word == "inf");
            assert_eq!(numbers.count(), 0, "{median}");
            assert_no_overlap(&svg);
        }
    }
    report.rows.clear();
    report.peers.clear();
    assert!(Chart::of(&report, None).svg().ends_with("</svg>\n"));
}

#[test]
fn scales() {
    let linear = Scale::new(Axis::Linear, &[40.0, 100.0]);
    assert_eq!(linear.place(0.0), 0.0);
    assert!(linear.place(100.0) > 0.9 && linear.place(1e9) == 1.0);
    assert_eq!(linear.ticks(8), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
    let log = Scale::new(Axis::Log, &[10.0, 1000.0]);
    assert!((log.place(100.0) - 0.5).abs() < 1e-12);
    assert_eq!(log.ticks(8), [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]);
    assert_eq!(Scale::new(Axis::Log, &[1.0, 1e6]).ticks(8), [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
    assert_eq!(scale::fitting(&[1.0, 19.0]), Axis::Linear);
    assert_eq!(scale::fitting(&[1.0, 21.0]), Axis::Log);
}

/// `cargo test -p linerate-lab -- --ignored writes_the_example` writes the picture to $TMPDIR for
/// inspection.
#[test]
#[ignore = "writes a file for people to look at"]
fn writes_the_example() {
    let (mut report, samples) = result::tests::example();
    report.samples = samples;
    std::fs::write(std::env::temp_dir().join("lab-plot.svg"), Chart::of(&report, None).svg()).unwrap();
    println!("{}", table::render(&report));
}
