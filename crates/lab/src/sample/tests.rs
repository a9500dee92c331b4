use super::*;
use crate::verdict::synthetic::Noise;

fn summary(values: &[f64]) -> Summary {
    Summary::of(values).unwrap()
}

#[test]
fn median_mad_and_interval_of_ten() {
    let s = summary(&[19.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 10.0]);
    assert_eq!((s.median, s.lo, s.hi, s.n), (14.5, 11.0, 18.0, 10));
    assert_eq!((s.mad, s.outliers), (2.5, 0));
}

#[test]
fn an_outlier_is_counted_and_kept() {
    let s = summary(&[10.0, 10.1, 10.2, 9.9, 9.8, 10.0, 10.1, 9.9, 10.0, 500.0]);
    assert_eq!((s.outliers, s.n), (1, 10));
    assert!(s.hi <= 10.2);
}

#[test]
fn invalid_values_are_errors() {
    assert_eq!(Summary::of(&[]), Err(StatError::Empty));
    assert_eq!(Summary::of(&[1.0, f64::NAN]), Err(StatError::NotPositive { index: 1 }));
    assert_eq!(Ratio::paired(&[1.0], &[0.0]), Err(StatError::NotPositive { index: 0 }));
    assert_eq!(Ratio::paired(&[1.0], &[1.0, 2.0]), Err(StatError::Unpaired { left: 1, right: 2 }));
    assert_eq!(StatError::NotPositive { index: 3 }.to_string(), "value 3 is not positive");
}

#[test]
fn common_disturbances_of_a_pair_cancel() {
    let drift: Vec<f64> = (0..20).map(|i| 100.0 * 1.2f64.powi(i % 7)).collect();
    let faster: Vec<f64> = drift.iter().map(|value| value / 1.25).collect();
    let ratio = Ratio::paired(&drift, &faster).unwrap();
    assert!((ratio.median - 1.25).abs() < 1e-9 && (ratio.lo - 1.25).abs() < 1e-9 && (ratio.hi - 1.25).abs() < 1e-9);
    assert!(!ratio.includes_one());
    assert!((ratio.inverse().median - 0.8).abs() < 1e-9 && ratio.inverse().lo <= ratio.inverse().hi);
}

#[test]
fn one_pair_has_no_firm_interval() {
    let ratio = Ratio::paired(&[3.0], &[2.0]).unwrap();
    assert_eq!((ratio.median, ratio.coverage, ratio.firm, ratio.n), (1.5, 0.0, None, 1));
}

#[test]
fn very_many_pairs_are_reduced_too() {
    let a: Vec<f64> = (0..3000).map(|i| 10.0 + f64::from(i % 100) / 100.0).collect();
    let ratio = Ratio::paired(&a, &a).unwrap();
    assert_eq!((ratio.median, ratio.n), (1.0, 3000));
}

/// 2000 seeded samples of a skewed distribution with median 1: the interval must contain 1 at least
/// 95 % of the time.
#[test]
fn the_medians_interval_covers_what_it_claims() {
    let covered = |n: usize| {
        let held = (0..2000).filter(|seed| {
            let mut noise = Noise::new(*seed);
            let values: Vec<f64> = (0..n).map(|_| (0.3 * noise.normal()).exp()).collect();
            let s = summary(&values);
            s.lo <= 1.0 && 1.0 <= s.hi
        });
        held.count() as f64 / 2000.0
    };
    for n in [10, 30, 150] {
        assert!(covered(n) >= 0.942, "n = {n}: {}", covered(n)); // 0.95 less 1.6 standard errors
    }
}

/// The ratio's interval must contain the true ratio of 1.1 at least 95 % of the time, with common
/// drift and heavy tails.
#[test]
fn the_ratios_interval_covers_what_it_claims() {
    for n in [10, 30, 120] {
        let held = (0..2000).filter(|seed| {
            let mut noise = Noise::new(1_000_000 + *seed);
            let (a, b) = noise.pair(n, 1.1, 0.02);
            let ratio = Ratio::paired(&a, &b).unwrap();
            ratio.lo <= 1.1 && 1.1 <= ratio.hi
        });
        let held = held.count() as f64 / 2000.0;
        assert!(held >= 0.942, "n = {n}: {held}");
    }
}

/// A value is a build: five trials of one build count as one value.
#[test]
fn a_value_is_the_median_of_a_builds_trials() {
    let trial =
        |round, ticks| Trial { round, reading: Reading { ops: 1, ticks, wall_ns: 1, cpu_ns: 1 }, disturbed: None };
    let ticks = [(0, 10), (0, 12), (0, 99), (1, 20), (3, 30), (3, 40)];
    let trials = ticks.iter().map(|(round, ticks)| trial(*round, *ticks)).collect();
    let sample = Sample { trials, ..Sample::new("a") };
    assert_eq!(sample.values(), [12.0, 20.0, 35.0]);
    assert_eq!(sample.summary().unwrap().n, 3);
}

/// The 99 % interval, used for verdicts, contains the 95 % interval and has its stated coverage.
#[test]
fn the_firm_interval_covers_what_it_claims() {
    for n in [8, 20, 120] {
        let held = (0..2000).filter(|seed| {
            let (a, b) = Noise::new(5_000_000 + *seed).pair(n, 1.1, 0.02);
            let ratio = Ratio::paired(&a, &b).unwrap();
            let (lo, hi) = ratio.firm.unwrap();
            assert!(lo <= ratio.lo && hi >= ratio.hi);
            lo <= 1.1 && 1.1 <= hi
        });
        let held = held.count() as f64 / 2000.0;
        assert!(held >= 0.985, "n = {n}: {held}");
    }
}
