//! Tests of delays, with simulated and measured ones.

use super::*;

/// Returns a simulated delay that identifies its path: the block size, and whether blocks are
/// filled.
fn reported(_: usize, between: Between) -> anyhow::Result<Delays> {
    let median = match between {
        Between::Pipe => 1.0,
        Between::Dd(block, Blocks::Full) => block as f64,
        Between::Dd(block, Blocks::AsRead) => block as f64 / 2.0,
    };
    Ok(Delays { median, p99: median * 2.0, frames: 7 })
}

#[test]
fn every_block_size_has_its_measured_median_and_percentile() {
    let mut rows = Vec::new();
    let sheet = delays_by(3, 64, &mut rows, reported);
    let figures: Vec<(&str, f64, u32)> = rows
        .iter()
        .map(|row| (row.id.as_str(), row.now.as_ref().unwrap().median, row.now.as_ref().unwrap().n))
        .collect();
    assert_eq!(figures.len(), 2 * (1 + BLOCKS.len()));
    assert_eq!(
        figures[..4],
        [
            ("delay.64.none", 1.0, 3),
            ("delay.64.none.p99", 2.0, 3),
            ("delay.64.64", 64.0, 3),
            ("delay.64.64.p99", 128.0, 3)
        ]
    );
    assert_eq!(figures.last(), Some(&("delay.64.4M.p99", f64::from(8 << 20), 3)));
    assert_eq!(sheet.rows[0], ["none".into(), 1.0.into(), 2.0.into(), 1.0.into(), 2.0.into(), Cell::Count(7)]);
    assert_eq!(sheet.rows[1], ["64".into(), 64.0.into(), 128.0.into(), 32.0.into(), 64.0.into(), Cell::Count(7)]);
    assert!(sheet.rows.iter().all(|row| row.len() == sheet.head.len()));
}

#[test]
fn a_failed_block_size_has_the_reason_and_is_not_retried() {
    let (mut rows, mut tried) = (Vec::new(), 0);
    let fails = |size: usize, between: Between| {
        if between == Between::Dd(1 << 20, Blocks::Full) {
            tried += 1;
            anyhow::bail!("dd: killed");
        }
        reported(size, between)
    };
    let sheet = delays_by(3, 1518, &mut rows, fails);
    let missing: Vec<&str> =
        rows.iter().filter(|row| row.missing.as_deref() == Some("dd: killed")).map(|row| row.id.as_str()).collect();
    assert_eq!((missing, tried), (vec!["delay.1518.1M", "delay.1518.1M.p99"], 1));
    assert!(rows.iter().filter(|row| row.missing.is_none()).all(|row| row.now.is_some()));
    let line = sheet.rows.iter().find(|row| row[0] == "1M".into()).unwrap();
    assert_eq!(line[1..], ["-".into(), "-".into(), f64::from(1 << 19).into(), f64::from(1 << 20).into(), "-".into()]);
}
