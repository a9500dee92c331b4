use super::synthetic::Noise;
use super::*;

fn ratio(median: f64, lo: f64, hi: f64, n: u32) -> Ratio {
    Ratio { median, lo, hi, coverage: 0.95, n }
}

fn floor(lo: f64, hi: f64) -> NoiseFloor {
    NoiseFloor { ratio: 1.0, lo, hi, n: 30 }
}

/// A run as it is made: the floor first, then the comparison.
fn run(seed: u64, n: usize, true_ratio: f64, deviation: f64) -> Verdict {
    let mut noise = Noise::new(seed);
    let (a, again) = noise.pair(n, 1.0, deviation);
    let (before, after) = noise.pair(n, true_ratio, deviation);
    judge(&Ratio::paired(&before, &after).unwrap(), &Ratio::paired(&a, &again).unwrap().into())
}

fn share(repetitions: u64, n: usize, true_ratio: f64, deviation: f64, wanted: impl Fn(Verdict) -> bool) -> f64 {
    let hits = (0..repetitions).filter(|seed| wanted(run(*seed, n, true_ratio, deviation))).count();
    hits as f64 / repetitions as f64
}

#[test]
fn a_difference_must_exceed_the_floor_and_exclude_one() {
    assert_eq!(judge(&ratio(1.05, 1.04, 1.06, 30), &floor(0.98, 1.01)), Verdict::Faster);
    assert_eq!(judge(&ratio(0.95, 0.94, 0.96, 30), &floor(0.98, 1.01)), Verdict::Slower);
    assert_eq!(judge(&ratio(1.005, 1.004, 1.006, 30), &floor(0.999, 1.001)), Verdict::Faster);
    assert_eq!(judge(&ratio(1.015, 1.01, 1.019, 30), &floor(0.98, 1.01)), Verdict::NoDifferenceShown);
    assert_eq!(judge(&ratio(1.001, 0.992, 1.008, 30), &floor(0.999, 1.001)), Verdict::NoDifferenceShown);
    assert!(matches!(judge(&ratio(1.05, 0.99, 1.11, 30), &floor(0.98, 1.01)), Verdict::Inconclusive { .. }));
    assert!(matches!(judge(&ratio(1.015, 1.01, 1.03, 30), &floor(0.98, 1.01)), Verdict::Inconclusive { .. }));
}

#[test]
fn five_pairs_prove_nothing() {
    let verdict = judge(&ratio(2.0, 1.9, 2.1, 5), &floor(0.99, 1.01));
    assert_eq!(verdict, Verdict::Inconclusive { more_trials: 1, would_settle_pct: 100.0 });
}

#[test]
fn a_slow_second_mirrors_a_fast_one() {
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

#[test]
fn a_against_a_is_called_different_at_most_one_time_in_twenty() {
    for n in [10, 30, 100] {
        let wrong = share(2000, n, 1.0, 0.02, |verdict| matches!(verdict, Verdict::Faster | Verdict::Slower));
        assert!(wrong <= 0.05, "n = {n}: {wrong}");
    }
}

#[test]
fn three_per_cent_are_found() {
    assert!(share(500, 30, 1.03, 0.01, |verdict| verdict == Verdict::Faster) > 0.95);
    assert!(share(500, 30, 1.0 / 1.03, 0.01, |verdict| verdict == Verdict::Slower) > 0.95);
    assert!(share(500, 100, 1.03, 0.03, |verdict| verdict == Verdict::Faster) > 0.95);
    assert!(share(500, 30, 1.03, 0.01, |verdict| verdict == Verdict::Slower) == 0.0);
}

#[test]
fn no_difference_is_shown_when_there_is_none_and_the_noise_is_small() {
    assert!(share(500, 30, 1.0, 0.005, |verdict| verdict == Verdict::NoDifferenceShown) > 0.9);
}

/// Whoever follows the advice gets an answer about four times in five, if the truth is what the advice was for: a
/// difference at least as large as the one named, or none where the band itself was named.
#[test]
fn the_advice_is_honest() {
    for (true_ratio, deviation) in [(1.0, 0.03), (1.03, 0.03), (1.02, 0.04)] {
        let (mut asked, mut settled) = (0, 0);
        for seed in 0..400 {
            let mut noise = Noise::new(seed);
            let floor = floor(0.995, 1.005);
            let (mut a, mut b) = noise.pair(20, true_ratio, deviation);
            let verdict = judge(&Ratio::paired(&a, &b).unwrap(), &floor);
            let Verdict::Inconclusive { more_trials, would_settle_pct } = verdict else { continue };
            if would_settle_pct > f64::max(1.01, (true_ratio - 1.0) * 100.0) {
                continue;
            }
            let (more_a, more_b) = noise.pair(more_trials as usize, true_ratio, deviation);
            a.extend(more_a);
            b.extend(more_b);
            asked += 1;
            settled +=
                u32::from(!matches!(judge(&Ratio::paired(&a, &b).unwrap(), &floor), Verdict::Inconclusive { .. }));
        }
        let share = f64::from(settled) / f64::from(asked);
        println!("true ratio {true_ratio}, deviation {deviation}: {asked} asked, {share:.2} settled");
        assert!(asked > 60 && share > 0.75, "{true_ratio} {deviation}: {asked} {share}");
    }
}

#[test]
fn the_words() {
    let inconclusive = Verdict::Inconclusive { more_trials: 12, would_settle_pct: 2.5 };
    let words = [
        (Verdict::Faster, "faster"),
        (Verdict::Slower, "slower"),
        (Verdict::NoDifferenceShown, "no difference shown"),
        (inconclusive, "inconclusive (12 more trials would settle 2.5 %)"),
        (
            Verdict::Inconclusive { more_trials: 1, would_settle_pct: 1.0 },
            "inconclusive (1 more trials would settle 1 %)",
        ),
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
}
