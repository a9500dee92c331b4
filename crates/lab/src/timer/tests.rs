use super::*;

#[test]
fn the_gap_is_the_median_not_the_mean() {
    // Five pairs with gaps 40 40 40 40 9000: one interrupt does not change the median.
    let mut readings = [0, 40, 100, 140, 200, 240, 300, 340, 400, 9400].into_iter();
    assert_eq!(median_gap(|| readings.next().unwrap(), 5), 40);
}

#[test]
fn the_timer_costs_something_but_not_much() {
    let cost = cost();
    assert!((1..2000).contains(&cost), "{cost} ticks");
}

#[test]
fn two_calibrations_agree_within_one_percent() {
    let (a, b) = (calibrate(Duration::from_millis(20)) as f64, calibrate(Duration::from_millis(20)) as f64);
    assert!((a / b - 1.0).abs() < 0.01, "{a} {b}");
}

#[test]
fn a_second_of_ticks_is_a_second() {
    let rate = Rate { hz: 2_300_000_000, source: "test" };
    assert_eq!(rate.ns(2_300_000_000.0), 1e9);
}
