use super::synthetic::{Noise, Shape};
use super::*;
use crate::sample::rank::ONE_PER_CENT;

fn ratio(median: f64, lo: f64, hi: f64, n: u32) -> Ratio {
    let firm = |end: f64| median * (end / median).powf(ONE_PER_CENT.z() / FIVE_PER_CENT.z());
    Ratio { median, lo, hi, coverage: 0.95, firm: (n >= 8).then_some((firm(lo), firm(hi))), n }
}

fn floor(lo: f64, hi: f64) -> NoiseFloor {
    NoiseFloor { ratio: 1.0, lo, hi, n: 30 }
}

/// Compares as the runner does: a side, its twin, and the other side, in the same rounds.
fn compare(noise: &mut Noise, n: usize, true_ratio: f64, deviation: f64) -> (Ratio, Verdict) {
    let [a, twin, b] = noise.rounds(n, [true_ratio, true_ratio, 1.0], deviation);
    let ratio = Ratio::paired(&a, &b).unwrap();
    (ratio, judge(&ratio, &Ratio::paired(&a, &twin).unwrap().into()))
}

fn share(repetitions: u64, wanted: impl Fn(u64) -> bool) -> f64 {
    (0..repetitions).filter(|seed| wanted(*seed)).count() as f64 / repetitions as f64
}

#[test]
fn a_difference_must_exceed_the_floor_and_exclude_one() {
    let no = |floor_pct: f64| Verdict::NoDifferenceShown { floor_pct };
    assert_eq!(judge(&ratio(1.05, 1.04, 1.06, 30), &floor(0.98, 1.01)), Verdict::Faster);
    assert_eq!(judge(&ratio(0.95, 0.94, 0.96, 30), &floor(0.98, 1.01)), Verdict::Slower);
    // A difference below 1 % is never claimed, however narrow the interval.
    assert_eq!(judge(&ratio(1.005, 1.004, 1.006, 30), &floor(0.999, 1.001)).to_string(), no(1.0).to_string());
    assert_eq!(judge(&ratio(1.015, 1.01, 1.019, 30), &floor(0.98, 1.01)).to_string(), no(2.04).to_string());
    assert!(matches!(judge(&ratio(1.05, 0.99, 1.11, 30), &floor(0.98, 1.01)), Verdict::Inconclusive { .. }));
    // The 95 % interval excludes 1, but the 99 % interval does not: not enough for a claim.
    assert!(matches!(judge(&ratio(1.05, 1.005, 1.10, 30), &floor(0.99, 1.01)), Verdict::Inconclusive { .. }));
    assert!(matches!(judge(&ratio(1.015, 1.01, 1.03, 30), &floor(0.98, 1.01)), Verdict::Inconclusive { .. }));
}

#[test]
fn a_noise_floor_above_25_percent_is_unfit_at_any_ratio() {
    for median in [1.0, 1.3, 2.0, 10.0] {
        let verdict = judge(&ratio(median, median * 0.99, median * 1.01, 30), &floor(0.9, 1.26));
        assert!(matches!(verdict, Verdict::Unfit { .. }), "{verdict}");
    }
    assert_eq!(judge(&ratio(1.5, 1.48, 1.52, 30), &floor(0.9, 1.24)), Verdict::Faster);
}

#[test]
fn seven_pairs_give_no_firm_verdict() {
    for n in [1, 3, 7] {
        let verdict = judge(&ratio(2.0, 1.9, 2.1, n), &floor(0.99, 1.01));
        assert_eq!(verdict.to_string(), "inconclusive (too few builds)");
    }
    assert_eq!(judge(&ratio(2.0, 1.9, 2.1, 8), &floor(0.99, 1.01)), Verdict::Faster);
}

#[test]
fn swapped_sides_give_the_opposite_verdict() {
    for seed in 0..200 {
        let mut noise = Noise::new(seed);
        let (a, b) = noise.pair(20, 1.02, 0.02);
        let (there, back) = (Ratio::paired(&a, &b).unwrap(), Ratio::paired(&b, &a).unwrap());
        let mirrored = match judge(&there, &floor(0.99, 1.01)) {
            Verdict::Faster => Verdict::Slower,
            Verdict::Slower => Verdict::Faster,
            other => other,
        };
        assert_eq!(judge(&back, &floor(0.99, 1.01)).to_string(), mirrored.to_string());
    }
}

/// Checks the three figures of the self-test, on simulated builds of every shape: coverage, false
/// alarms, power.
#[test]
fn equal_sides_are_judged_different_at_most_once_in_a_hundred() {
    for shape in Shape::ALL {
        for n in [10, 20, 30] {
            let outcomes: Vec<(Ratio, Verdict)> =
                (0..1000).map(|seed| compare(&mut Noise::shaped(seed, shape), n, 1.0, 0.02)).collect();
            let part = |wanted: fn(&(Ratio, Verdict)) -> bool| {
                outcomes.iter().filter(|outcome| wanted(outcome)).count() as f64 / 1000.0
            };
            let (firm, covered) = (part(|(_, verdict)| verdict.is_firm()), part(|(ratio, _)| ratio.includes_one()));
            // 0.95 less two standard errors; the seeds are fixed, so the result is reproducible.
            assert!(firm <= 0.01 && covered >= 0.936, "{shape:?}, n {n}: firm {firm}, covered {covered}");
        }
    }
}

#[test]
fn a_difference_of_five_per_cent_is_found() {
    let found = |shape: Shape, n: usize, deviation: f64| {
        share(500, |seed| compare(&mut Noise::shaped(seed, shape), n, 1.05, deviation).1 == Verdict::Faster)
    };
    for shape in [Shape::Normal, Shape::Bursts] {
        assert!(found(shape, 20, 0.02) > 0.9, "{shape:?}: {}", found(shape, 20, 0.02));
        assert!(found(shape, 30, 0.03) > 0.8, "{shape:?}: {}", found(shape, 30, 0.03));
    }
    // Modes 4 % apart hide the difference; more builds find it.
    assert!(found(Shape::Bimodal, 30, 0.01) > 0.85, "{}", found(Shape::Bimodal, 30, 0.01));
    let missed = |seed| compare(&mut Noise::new(seed), 20, 1.05, 0.02).1 == Verdict::Slower;
    assert!(share(500, missed) == 0.0);
}

#[test]
fn the_reported_smallest_difference_is_found_four_times_in_five() {
    // A Cauchy distribution has no deviation to estimate.
    let shapes = Shape::ALL.into_iter().filter(|shape| *shape != Shape::Heavy);
    for (shape, n) in shapes.flat_map(|shape| [10, 20, 30].map(|n| (shape, n))) {
        let (mut requested, mut found) = (0, 0);
        for seed in 0..300 {
            let mut noise = Noise::shaped(seed, shape);
            let verdict = compare(&mut noise, n, 1.01, 0.03).1;
            let Verdict::Inconclusive { shows_pct: Some(pct) } = verdict else { continue };
            requested += 1;
            found += u32::from(compare(&mut noise, n, 1.0 + pct / 100.0, 0.03).1 == Verdict::Faster);
        }
        let share = f64::from(found) / f64::from(requested);
        println!("{shape:?}, n {n}: {requested} asked, {share:.3} found");
        assert!(requested > 50 && share >= 0.8, "{shape:?}, n {n}: {requested} asked, {share:.2} found");
    }
}

#[test]
fn equal_sides_with_little_noise_show_no_difference() {
    let none = |seed| matches!(compare(&mut Noise::new(seed), 30, 1.0, 0.005).1, Verdict::NoDifferenceShown { .. });
    assert!(share(500, none) > 0.9);
}

#[test]
fn the_words() {
    let words = [
        (Verdict::Faster, "faster"),
        (Verdict::Slower, "slower"),
        (Verdict::NoDifferenceShown { floor_pct: 1.2 }, "no difference shown (noise floor 1.2 %)"),
        (Verdict::Inconclusive { shows_pct: Some(2.5) }, "inconclusive (2.5 % and more would show)"),
        (Verdict::Inconclusive { shows_pct: None }, "inconclusive (too few builds)"),
        (Verdict::Unfit { floor_pct: 31.0 }, "unfit (noise floor 31 %)"),
    ];
    for (verdict, text) in words {
        assert_eq!(verdict.to_string(), text);
        assert_eq!(text.parse(), Ok(verdict));
        let json = serde_json::to_string(&verdict).unwrap();
        assert_eq!(serde_json::from_str::<Verdict>(&json).unwrap(), verdict);
    }
    assert_eq!("quicker".parse::<Verdict>(), Err(NotAVerdict("quicker".into())));
}

#[test]
fn the_floor_in_per_cent() {
    assert!((floor(0.98, 1.01).percent() - 2.04).abs() < 0.01);
    assert!((floor(0.999, 1.001).percent() - 1.0).abs() < 1e-9, "1 % at the least");
}
