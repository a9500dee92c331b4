use super::*;
use crate::result;

#[test]
fn columns_line_up_and_everything_is_said() {
    let (report, mut samples) = result::tests::example();
    let trial = samples[0].trials[0];
    samples[0].dropped.push(trial);
    samples[1].noisy = true;
    let text = render(&report, &samples);
    let lines: Vec<&str> = text.lines().collect();
    let head = lines.iter().find(|line| line.starts_with("row")).unwrap();
    let row = lines.iter().find(|line| line.starts_with("udp.send")).unwrap();
    let place = |line: &str, word: &str| line[..line.find(word).unwrap()].chars().count();
    assert_eq!(place(head, "unit"), place(row, "ticks/op"));
    assert_eq!(place(head, "trials"), place(row, "▁"));
    assert_eq!(place(head, "then") + 4, place(row, "2357") + 4);
    for word in ["faster", "lwip.udp.send", "noise floor", "1 trials dropped", "NOISY", "64-byte", "WARNING"] {
        assert!(text.contains(word) || (word == "WARNING" && !cfg!(debug_assertions)), "{word} in\n{text}");
    }
    assert!(lines.iter().all(|line| !line.ends_with(' ')), "{text}");
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
