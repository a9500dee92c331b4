use super::*;

#[test]
fn a_flamegraph_has_a_box_for_each_function() {
    let svg = svg("main;outer;inner 700\nmain;outer 300\n", "testtool send").unwrap();
    assert!(svg.starts_with("<?xml") && svg.trim_end().ends_with("</svg>"));
    for text in ["testtool send", "inner (700 microseconds, 70.00%)", "outer (1,000 microseconds, 100.00%)"] {
        assert!(svg.contains(text), "{text}");
    }
    assert!(super::svg("", "nothing").is_err());
}

#[test]
fn a_difference_compares_shares_and_colours_changes() {
    let (before, after) = ("main;a 100\nmain;b 100\n", "main;a 300\nmain;b 100\n");
    let lines = difference(before, after).unwrap();
    let mut sorted: Vec<&str> = lines.lines().collect();
    sorted.sort_unstable();
    assert_eq!(sorted, ["main;a 200 300", "main;b 200 100"], "before is scaled to the sum of after");
    let svg = svg(&lines, "difference").unwrap();
    let points = ["a (300 microseconds, 75.00%; +25.00%)", "b (100 microseconds, 25.00%; -25.00%)"];
    assert!(points.iter().all(|text| svg.contains(text)), "{svg}");
}
