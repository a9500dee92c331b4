use super::*;
use crate::result;

#[test]
fn columns_are_aligned_and_complete() {
    let (mut report, mut samples) = result::tests::example();
    let trial = samples[0].trials[0];
    samples[0].dropped.push(trial);
    samples[1].noisy = true;
    samples[1].cut = Some("interrupted".into());
    report.samples = samples;
    report.note_disturbances();
    // A report from a file has no trials.
    let file = result::Report::from_json(&report.to_json().unwrap()).unwrap();
    assert_eq!(file.disturbed, report.disturbed);
    assert!(render(&file).contains("1 trials dropped"));
    let text = render(&report);
    let lines: Vec<&str> = text.lines().collect();
    let head = lines.iter().find(|line| line.starts_with("row")).unwrap();
    let row = lines.iter().find(|line| line.starts_with("udp.send")).unwrap();
    let place = |line: &str, word: &str| line[..line.find(word).unwrap()].chars().count();
    assert_eq!(place(head, "unit"), place(row, "ticks/op"));
    assert_eq!(place(head, "builds"), place(row, "▁"));
    assert_eq!(place(head, "then") + 4, place(row, "2357") + 4);
    for word in [
        "faster",
        "lwip.udp.send",
        "noise floor",
        "1 trials dropped",
        "NOISY",
        "requested: interrupted",
        "64-byte",
        "WARNING",
    ] {
        assert!(text.contains(word) || (word == "WARNING" && !cfg!(debug_assertions)), "{word} in\n{text}");
    }
    assert!(lines.iter().all(|line| !line.ends_with(' ')), "{text}");
}

#[test]
fn additional_tables_are_printed_and_survive_json() {
    let (mut report, samples) = result::tests::example();
    report.samples = samples;
    assert!(render(&report).contains("against the row before"));
    let sheet = Sheet {
        title: "shares".into(),
        head: vec!["row".into(), "locks".into(), "why".into()],
        rows: vec![vec!["a".into(), 22.54.into(), "-".into()], vec!["freelist".into(), 3.0.into(), "words".into()]],
    };
    let texts = vec![vec!["name____|ratio___|".to_owned(), "memcpy  | 10.430%|===".to_owned()]];
    report.beside = Some(result::Beside { baseline: Some("A".into()), sheets: vec![sheet], texts });
    let text = render(&report);
    assert!(text.contains("against A\n") && !text.contains("against the row before"), "{text}");
    let table = "\nshares\nrow       locks  why\na         22.54  -\nfreelist  3.000  words\n";
    assert!(text.contains(table), "{text}");
    assert!(text.contains("\nname____|ratio___|\nmemcpy  | 10.430%|===\n"), "{text}");
    let place = |what: &str| text.find(what).unwrap();
    assert!(place("noise floor") < place("shares") && place("memcpy") < place("note: 64-byte"));
    report.samples.clear();
    assert_eq!(result::Report::from_json(&report.to_json().unwrap()).unwrap(), report);
}

#[test]
fn sparks() {
    assert_eq!(sparkline(&[1.0, 8.0, 4.0, f64::NAN]), "▁█▄ ");
    assert_eq!(sparkline(&[3.0, 3.0]), "▁▁");
    assert_eq!(sparkline(&[]), "");
    let many: Vec<f64> = (0..1000).map(f64::from).collect();
    let line = sparkline(&many);
    assert_eq!((line.chars().count(), line.chars().last()), (20, Some('█')));
}

#[test]
fn numbers_keep_four_digits() {
    let shown = [0.0, 0.00123, 0.5, 57.24, 969.99, 2357.4, 371275.0].map(number);
    assert_eq!(shown, ["0", "1.23e-3", "0.500", "57.24", "970.0", "2357", "371275"]);
    assert_eq!([1.0, 1.04, 2.345, 20.61].map(times), ["1.0000x", "1.0400x", "2.35x", "20.6x"]);
}

/// Fewer than six values have a range and no 95 % interval.
#[test]
fn small_numbers_have_a_range_and_no_interval() {
    let shown = |n| interval("1.0".into(), "2.0".into(), n);
    assert_eq!([1, 2, 5, 6].map(shown), ["", "1.0..2.0", "1.0..2.0", "[1.0, 2.0]"]);
}

/// Cells may be wider than 65,535 characters, the largest width of a format string.
#[test]
fn cells_may_be_of_any_width() {
    let long = "x".repeat(70_000);
    let text = aligned(&[vec![long.clone(), "1".into()], vec!["y".into(), long.clone()]], &[Align::Left, Align::Right]);
    assert!(text.lines().all(|line| line.len() == 140_002), "{}", text.len());
}
