//! Tests of points taken from rows, and of the resulting charts.

use super::*;
use crate::plot::Chart;
use crate::result::{Figure, Row};

fn row(id: &str, median: f64) -> Row {
    Row::new(id, id, Figure { median, lo: median * 0.9, hi: median * 1.1, n: 5, unit: UNIT.to_owned(), range: None })
}

fn report() -> Report {
    let mut rows = vec![row("read", 12.0), row("cmd.64.wc", 4.0)];
    for (at, block) in ["64", "1K", "64K", "4M"].into_iter().enumerate() {
        for (share, (curve, _)) in CURVES.iter().enumerate() {
            rows.push(row(&format!("{curve}.64.{block}"), (at + 1) as f64 * (share + 1) as f64 / 3.0));
        }
        rows.push(row(&format!("read.1518.{block}"), (at + 1) as f64));
    }
    rows.push(Row::missing("fuse.read.1518", "read through FUSE", "no /dev/fuse"));
    Report { name: REPORT.to_owned(), rows, peers: Vec::new(), ..crate::result::tests::example().0 }
}

#[test]
fn blocks_are_bytes() {
    assert_eq!(
        ["64", "4K", "1M", "*", "K", "1G"].map(bytes),
        [Some(64.0), Some(4096.0), Some(1_048_576.0), None, None, None]
    );
}

#[test]
fn each_size_of_frames_has_its_picture_with_read_write_and_forward() {
    let charts = of(&report());
    let labels = |at: usize| charts[at].curves.iter().map(|curve| curve.label.as_str()).collect::<Vec<_>>();
    assert_eq!(charts.len(), 2);
    assert_eq!(labels(0), ["read", "write", "forward", "read, FUSE", "write, FUSE", "forward, FUSE"]);
    assert_eq!(labels(1), ["read"]);
    assert_eq!(charts[1].curves[0].points, [(64.0, 1.0), (1024.0, 2.0), (65_536.0, 3.0), (4_194_304.0, 4.0)]);
    assert_eq!(charts[0].marks.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["64", "1K", "64K", "4M"]);
}

#[test]
fn swept_rows_have_curves_instead_of_bars() {
    let report = report();
    let chart = Chart::of(&report, None);
    let labels: Vec<&str> =
        chart.panels.iter().flat_map(|panel| &panel.lines).map(|line| line.label.as_str()).collect();
    assert_eq!((labels, chart.curves.len()), (vec!["read", "cmd.64.wc"], 2));
    let other = Report { name: "bench text".to_owned(), ..report };
    let chart = Chart::of(&other, None);
    assert_eq!((chart.panels[0].lines.len(), chart.curves.len()), (2 + 4 * 7, 0));
}

#[test]
fn equal_ratios_of_block_sizes_are_equally_far_apart() {
    let svg = of(&report())[1].svg();
    let dots: Vec<f64> =
        svg.lines().filter_map(|line| line.strip_prefix("<circle cx=\"")?.split('"').next()?.parse().ok()).collect();
    // 64 to 1K, 1K to 64K, 64K to 4M: 4, 6 and 6 doublings.
    let [a, b, c, d] = dots[..] else { panic!("{dots:?}") };
    assert!(((b - a) / (c - b) - 4.0 / 6.0).abs() < 0.01 && ((d - c) / (c - b) - 1.0).abs() < 0.01, "{dots:?}");
}

#[test]
fn both_charts_are_stacked_on_the_page() {
    let svg = Chart::of(&report(), None).svg();
    assert_eq!(svg.matches("<svg ").count(), 1);
    let groups: Vec<f64> = svg
        .lines()
        .filter_map(|line| line.strip_prefix("<g transform=\"translate(0,")?.split(')').next()?.parse().ok())
        .collect();
    assert_eq!((groups.len(), svg.matches("</g>").count()), (2, 2));
    let height: f64 = svg.split("height=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap();
    assert!(groups[0] > 0.0 && groups[1] > groups[0] + 360.0 && height > groups[1] + 360.0, "{groups:?} {height}");
    assert!(svg.contains("64-byte frames") && svg.contains("1518-byte frames"));
}
