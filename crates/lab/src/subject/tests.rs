use super::*;

#[test]
fn ticks_per_op_divides_and_handles_zero_operations() {
    let reading = Reading { ops: 4, ticks: 10, wall_ns: 2_000_000_000, cpu_ns: 0 };
    assert_eq!(reading.ticks_per_op(), 2.5);
    assert_eq!(reading.ops_per_second(), 2.0);
    assert!(Reading { ops: 0, ..reading }.ticks_per_op().is_nan());
}

#[test]
fn measure_sees_the_work_in_all_three_clocks() {
    let reading = measure(7, || {
        let start = os::monotonic_ns();
        while os::monotonic_ns() - start < 3_000_000 {}
    });
    assert_eq!(reading.ops, 7);
    assert!(reading.wall_ns >= 3_000_000);
    assert!(reading.cpu_ns > 0);
    let ns = timer::rate().ns(reading.ticks as f64);
    assert!((ns / reading.wall_ns as f64 - 1.0).abs() < 0.05, "{ns} against {}", reading.wall_ns);
}

#[test]
fn an_empty_region_is_nearly_free() {
    let mut ticks: Vec<u64> = (0..101).map(|_| measure(1, || ()).ticks).collect();
    ticks.sort_unstable();
    assert!(ticks[50] < 200, "{} ticks", ticks[50]);
}

#[test]
fn a_closure_is_a_subject() {
    let mut subject = from_fn("a.b", || Ok(measure(1, || 1 + 1)));
    assert_eq!(subject.id(), "a.b");
    assert_eq!(subject.trial().unwrap().ops, 1);
}
