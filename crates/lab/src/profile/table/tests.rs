use super::*;

/// The report's three tables: text, total samples, columns.
const REPORT: [(&str, u64, Layout); 3] = [
    (include_str!("../../../tests/golden/rtems2014/a.txt"), 1697, Layout { name: 28, bar: 40 }),
    (include_str!("../../../tests/golden/rtems2014/b.txt"), 1451, Layout { name: 40, bar: 28 }),
    (include_str!("../../../tests/golden/rtems2014/c.txt"), 2386, Layout { name: 40, bar: 28 }),
];

/// Returns the count of samples of a printed share; it is unique.
fn count(printed: &str, all: u64) -> u64 {
    let digits: String = printed.chars().filter(char::is_ascii_digit).collect();
    let wanted: u64 = digits.parse().unwrap();
    let fitting: Vec<u64> = (0..=all).filter(|n| share(*n, all) == wanted).collect();
    assert_eq!(fitting.len(), 1, "{printed} of {all} samples");
    fitting[0]
}

#[test]
fn the_reports_counts_print_the_reports_tables_byte_for_byte() {
    let mut rows = 0;
    for (golden, all, layout) in REPORT {
        let runtime = if all == 2386 { 99_997 } else { 99_998 };
        let mut text = coverage(100_000, runtime, 100_000) + &head("name", layout);
        for line in golden.lines().skip(2) {
            let [name, printed, _] = line.split('|').collect::<Vec<_>>()[..3] else { panic!("{line}") };
            text += &row(name.trim_end(), share(count(printed, all), all), layout);
            rows += 1;
        }
        assert_eq!(text, golden);
    }
    assert_eq!(rows, 150);
}

#[test]
fn shares_are_truncated_not_rounded() {
    assert_eq!(share(189, 1697), 11_137);
    assert_eq!(percent(share(189, 1697)), " 11.137%");
    assert_eq!(percent(share(17, 1697)), "  1.001%");
    assert_eq!(percent(share(2, 3)), " 66.666%");
    assert_eq!(percent(share(3, 3)), "100.000%");
    assert_eq!((share(0, 0), share(5, 0), share(u64::MAX, u64::MAX)), (0, 500_000, 100_000));
}

#[test]
fn bars_are_logarithmic_with_a_mark_for_small_shares() {
    for (share, marks) in [(1_113, 1), (2_000, 7), (9_786, 24), (10_430, 25), (11_137, 26), (100_000, 50)] {
        assert_eq!(bar(share, 60), "=".repeat(marks), "{share}");
    }
    assert_eq!([bar(0, 9), bar(1, 9), bar(1_001, 9)], ["<"; 3]);
    assert_eq!([bar(1_033, 9), bar(1_047, 9)], [""; 2]);
    assert_eq!(bar(50_000, 9), "=".repeat(9), "cut where the column ends");
}

#[test]
fn the_ruler_has_the_figures_that_fit() {
    assert_eq!(head("name", Layout { name: 6, bar: 8 }), "name__|ratio___|1%______|\n");
    let wide = head("bucket", Layout::WIDE);
    assert!(wide.ends_with("|1%_____2%________5%_____10%_____20%_______50%____100%|\n"), "{wide}");
    assert_eq!(wide.len(), row("inet::udp", 1, Layout::WIDE).len());
}

#[test]
fn a_name_that_is_too_long_keeps_its_end() {
    let layout = Layout { name: 10, bar: 3 };
    assert_eq!(row("inet::udp::output::emit", 1_000, layout), "~put::emit|  1.000%|<  |\n");
    assert_eq!(row("0123456789", 1_000, layout), "0123456789|  1.000%|<  |\n");
}
