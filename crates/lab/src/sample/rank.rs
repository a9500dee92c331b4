//! Which order statistics bound an interval: binomial for a median, signed-rank for Walsh averages.
//!
//! Both look for the largest number k of values to leave out at each end such that the two tails together hold no more
//! than 5 %. Where even k = 0 leaves more (fewer than six values) all is kept and the true coverage is given.

const TAILS: f64 = 0.05;
/// The normal distribution's two-sided 95 % point.
pub const Z95: f64 = 1.959_963_984_540_054;
/// Above this the null distribution is taken as normal; at this n the two cut within three ranks.
const EXACT_UP_TO: usize = 50;
/// Above this the Walsh averages would be more than a million; the plain median of the ratios takes their place.
const WALSH_UP_TO: usize = 1400;

/// For the median of `n` values: how many to leave out at each end of their order, and the coverage.
pub fn median_interval(n: usize) -> (usize, f64) {
    if n > EXACT_UP_TO {
        let n = n as f64;
        return normal_cut(n / 2.0, n.sqrt() / 2.0);
    }
    let mut probability = 0.5f64.powi(n as i32); // of no value below the median
    let tail = (1..=n).map(|below| {
        let this = probability;
        probability *= (n + 1 - below) as f64 / below as f64;
        this
    });
    cut(tail)
}

/// Lower end, estimate and upper end of the centre of `logs`, and the interval's coverage. Not for empty slices.
pub fn hodges_lehmann(logs: &[f64]) -> ((f64, f64, f64), f64) {
    let (mut values, (skip, coverage)) = match logs.len() {
        ..=WALSH_UP_TO => (walsh_averages(logs), signed_rank_interval(logs.len())),
        _ => (logs.to_vec(), median_interval(logs.len())),
    };
    let last = values.len() - 1;
    let middle = (nth(&mut values, last / 2) + nth(&mut values, last.div_ceil(2))) / 2.0;
    ((nth(&mut values, skip), middle, nth(&mut values, last - skip)), coverage)
}

/// The value that would stand at `index` if all were in order.
fn nth(values: &mut [f64], index: usize) -> f64 {
    *values.select_nth_unstable_by(index, f64::total_cmp).1
}

/// The means of all pairs, each value with itself among them: n (n + 1) / 2.
fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let pairs = values.iter().enumerate().flat_map(|(i, a)| values[i..].iter().map(move |b| (a + b) / 2.0));
    pairs.collect()
}

/// For the Walsh averages of `n` values: how many to leave out at each end of their order, and the coverage.
fn signed_rank_interval(n: usize) -> (usize, f64) {
    if n > EXACT_UP_TO {
        let n = n as f64;
        return normal_cut(n * (n + 1.0) / 4.0, (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt());
    }
    cut(signed_rank_distribution(n).into_iter())
}

/// The probability of each sum of positive ranks 0, 1 ... n (n + 1) / 2 when every sign is a fair coin.
fn signed_rank_distribution(n: usize) -> Vec<f64> {
    let mut chance = vec![0.0; n * (n + 1) / 2 + 1];
    chance[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..=rank * (rank + 1) / 2).rev() {
            let with = if sum >= rank { chance[sum - rank] } else { 0.0 };
            chance[sum] = (chance[sum] + with) / 2.0;
        }
    }
    chance
}

/// From the probabilities of 0, 1, 2 ...: the largest k with P(X <= k) no more than half of [`TAILS`]. The interval begins
/// at value number k counted from zero: it misses the truth below only if at most k values lie under the truth.
fn cut(tail: impl Iterator<Item = f64>) -> (usize, f64) {
    let (mut below, mut kept, mut first) = (0.0, None, 1.0);
    for (k, probability) in tail.enumerate() {
        below += probability;
        if k == 0 {
            first = probability;
        }
        if 2.0 * below > TAILS {
            break;
        }
        kept = Some((k, 1.0 - 2.0 * below));
    }
    kept.unwrap_or((0, 1.0 - 2.0 * first))
}

fn normal_cut(mean: f64, deviation: f64) -> (usize, f64) {
    // One is taken off for the half-step of continuity and for rounding, so that the coverage is not less than stated.
    ((mean - Z95 * deviation - 1.0).floor().max(0.0) as usize, 1.0 - TAILS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_medians_interval_is_the_published_one() {
        // The usual table of order statistics: n = 6 first to last 96.9 %, n = 10 2nd to 9th 97.9 %, n = 30 10th to 21st 95.7 %.
        for (n, skip, coverage) in [(6, 0, 0.969), (10, 1, 0.979), (20, 5, 0.959), (30, 9, 0.957), (50, 17, 0.967)] {
            let (k, c) = median_interval(n);
            assert_eq!(k, skip, "n = {n}");
            assert!((c - coverage).abs() < 0.001, "n = {n}: {c}");
        }
        assert_eq!(median_interval(1), (0, 0.0));
        assert_eq!(median_interval(5), (0, 0.9375));
    }

    #[test]
    fn the_signed_rank_interval_is_the_published_one() {
        // Critical values of Wilcoxon's T, two-sided 5 %: 0 at n = 6, 8 at 10, 52 at 20, 137 at 30, 434 at 50.
        for (n, critical) in [(6, 0), (10, 8), (20, 52), (30, 137), (50, 434)] {
            assert_eq!(signed_rank_interval(n).0, critical, "n = {n}");
        }
        assert_eq!(signed_rank_interval(5), (0, 0.9375));
    }

    #[test]
    fn exact_and_normal_meet() {
        let n = EXACT_UP_TO as f64;
        let exact = signed_rank_interval(EXACT_UP_TO).0 as f64;
        let normal = normal_cut(n * (n + 1.0) / 4.0, (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt()).0 as f64;
        assert!((exact - normal).abs() <= 3.0, "{exact} {normal}");
        assert!(median_interval(51).0.abs_diff(median_interval(50).0) <= 1);
    }

    #[test]
    fn probabilities_sum_to_one() {
        let sum: f64 = signed_rank_distribution(37).iter().sum();
        assert!((sum - 1.0).abs() < 1e-12);
    }
}
