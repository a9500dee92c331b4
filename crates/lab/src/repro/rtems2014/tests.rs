//! The table of rows, and what is printed of made-up figures.

use super::*;
use crate::verdict::Verdict;

#[test]
fn rates_look_as_curl_prints_them() {
    let k = 1024.0;
    let shown =
        [500.0, 99_999.0, 9101.0 * k, 9999.0 * k, 97.66 * k * k, 1205.0 * k * k, 12.29 * k * k * k].map(curl_form);
    assert_eq!(shown, ["500", "99999", "9101k", "9999k", "97.6M", "1205M", "12.2G"]);
}

#[test]
fn each_row_changes_one_thing_of_what_it_is_compared_with() {
    let all = variants();
    let of = |id: &str| all.iter().find(|variant| variant.id == id).unwrap();
    let changes = |variant: &Variant| {
        let (now, before) = (variant.setup, of(variant.against).setup);
        let changed = [
            now.locks != before.locks,
            now.clock != before.clock,
            now.pool != before.pool,
            now.checksum != before.checksum,
            now.offload != before.offload,
            now.burst != before.burst,
        ];
        changed.into_iter().filter(|changed| *changed).count()
    };
    let counted: Vec<(&str, usize)> = all.iter().map(|variant| (variant.id, changes(variant))).collect();
    let (last, single) = counted.split_last().unwrap();
    assert_eq!((single[0], *last), (("a", 0), ("all", 6)));
    assert!(single[1..].iter().all(|(_, changed)| *changed == 1), "{counted:?}");
    let then: Vec<Option<f64>> = all.iter().map(|variant| dload_then(variant.id)).collect();
    assert_eq!(then[..4], [Some(9101.0), Some(8834.0), Some(8438.0), None]);
}

/// A row of a run in which each trial took `ticks` a byte.
fn row(id: &str, ticks: f64, vs: Option<f64>) -> Row {
    let figure = Figure { median: dload(ticks), lo: dload(ticks), hi: dload(ticks), n: 20, unit: "k".into() };
    let mut row = Row::new(id, id, figure);
    let change = |ratio: f64| Change { ratio, lo: ratio - 0.01, hi: ratio + 0.01, n: 20, floor_pct: 1.0, verdict: Verdict::Slower };
    row.vs_previous = vs.map(change);
    row
}

#[test]
fn the_reports_figures_stand_beside_ours() {
    let hertz = timer::rate().hz as f64;
    let ticks = |k: f64| hertz / (k * 1024.0);
    let mut rows = vec![
        row("down.a", ticks(1_000_000.0), None),
        row("down.b", ticks(970_000.0), Some(0.97)),
        row("down.c", ticks(500_000.0), Some(0.5)),
    ];
    rows.push(row("down.undivided", ticks(1_000_000.0), Some(1.25)));
    let sheet = then::and_now(&rows, &[]);
    let word = |cell: &Cell| match cell {
        Cell::Text(text) => text.clone(),
        Cell::Count(count) => count.to_string(),
        Cell::Number(number) => number.to_string(),
    };
    let lines: Vec<Vec<String>> = sheet.rows.iter().map(|line| line.iter().map(word).collect()).collect();
    let line =
        |what: &str| lines.iter().find(|line| line[0].contains(what)).unwrap_or_else(|| panic!("{what}")).clone();
    assert_eq!(line("A: Dload")[1..], ["9101k", "976M"]);
    assert_eq!(line("B against A")[1..], ["0.97x (-3 %)", "0.9700x [0.9600x, 0.9800x] slower"]);
    // 1.25 times as fast without the divisions: they were a fifth of the time.
    assert_eq!(line("divisions")[1..], ["4.2 %", "20.0 % [19.4, 20.6]"]);
    assert_eq!(line("C: mutex operations")[1..], ["8.5 %", "-"], "not sampled");
}

#[test]
fn where_curl_cannot_be_had_its_rows_say_why() {
    let all = variants();
    let chosen: Vec<&Variant> = all.iter().filter(|variant| ["a", "c"].contains(&variant.id)).collect();
    let seen = curl::missing(&chosen, "curl is not installed");
    let ids: Vec<&str> = seen.rows.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids, ["curl.down.a", "curl.down.c", "curl.up.a", "curl.up.c"]);
    assert!(seen.rows.iter().all(|row| row.missing.as_deref() == Some("curl is not installed") && row.now.is_none()));
    let then: Vec<Option<f64>> = seen.rows.iter().map(|row| row.then.as_ref().map(|then| then.median)).collect();
    assert_eq!(then, [Some(9101.0), Some(8438.0), None, None]);
}
