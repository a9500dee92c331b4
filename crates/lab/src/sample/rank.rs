//! Which order statistics bound an interval: binomial for a median, signed-rank for Walsh averages.
//!
//! Both find the largest number k of values to leave out at each end such that the two tails together hold no more than
//! the share asked for. Where even k = 0 leaves out more (fewer than six values for 5 %) all is kept and the true coverage is given.

/// How much an interval may leave out at its two ends together, and the normal distribution's point for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tails {
    share: f64,
    z: f64,
}

/// 5 %: the interval that is printed.
pub const FIVE_PER_CENT: Tails = Tails { share: 0.05, z: 1.959_963_984_540_054 };
/// 1 %: the interval that a verdict rests on.
pub const ONE_PER_CENT: Tails = Tails { share: 0.01, z: 2.575_829_303_548_901 };

impl Tails {
    /// The normal distribution's two-sided point: 1.96 for 5 %.
    pub fn z(self) -> f64 {
        self.z
    }
}

/// Above this the null distribution is taken as normal; at this n the two cut within three ranks.
const EXACT_UP_TO: usize = 50;
/// Above this the Walsh averages would be more than a million; the plain median of the ratios takes their place.
const WALSH_UP_TO: usize = 1400;

/// For the median of `n` values: how many to leave out at each end of their order, and the coverage.
pub fn median_interval(n: usize, tails: Tails) -> (usize, f64) {
    if n > EXACT_UP_TO {
        let n = n as f64;
        return normal_cut(n / 2.0, n.sqrt() / 2.0, tails);
    }
    let mut probability = 0.5f64.powi(n as i32); // of no value below the median
    let tail = (1..=n).map(|below| {
        let this = probability;
        probability *= (n + 1 - below) as f64 / below as f64;
        this
    });
    cut(tail, tails)
}

/// The centre of some logarithms: the estimate, and the interval for each of two [`Tails`].
pub struct Centre {
    /// The Hodges-Lehmann estimate.
    pub estimate: f64,
    /// Ends of the interval that leaves out [`FIVE_PER_CENT`], and its coverage.
    pub shown: (f64, f64, f64),
    /// Ends of the interval that leaves out [`ONE_PER_CENT`], and its coverage.
    pub firm: (f64, f64, f64),
}

/// Estimates the centre of `logs`. Not for empty slices.
pub fn hodges_lehmann(logs: &[f64]) -> Centre {
    let walsh = logs.len() <= WALSH_UP_TO;
    let mut values = if walsh { walsh_averages(logs) } else { logs.to_vec() };
    let last = values.len() - 1;
    let estimate = (nth(&mut values, last / 2) + nth(&mut values, last.div_ceil(2))) / 2.0;
    let mut interval = |tails: Tails| {
        let cut = if walsh { signed_rank_interval } else { median_interval };
        let (skip, coverage) = cut(logs.len(), tails);
        (nth(&mut values, skip), nth(&mut values, last - skip), coverage)
    };
    Centre { estimate, shown: interval(FIVE_PER_CENT), firm: interval(ONE_PER_CENT) }
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
fn signed_rank_interval(n: usize, tails: Tails) -> (usize, f64) {
    if n > EXACT_UP_TO {
        let n = n as f64;
        return normal_cut(n * (n + 1.0) / 4.0, (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt(), tails);
    }
    cut(signed_rank_distribution(n).into_iter(), tails)
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

/// From the probabilities of 0, 1, 2 ...: the largest k with P(X <= k) no more than half of `tails`. The interval begins
/// at value number k counted from zero: it misses the truth below only if at most k values lie under the truth.
fn cut(tail: impl Iterator<Item = f64>, tails: Tails) -> (usize, f64) {
    let (mut below, mut kept, mut first) = (0.0, None, 1.0);
    for (k, probability) in tail.enumerate() {
        below += probability;
        if k == 0 {
            first = probability;
        }
        if 2.0 * below > tails.share {
            break;
        }
        kept = Some((k, 1.0 - 2.0 * below));
    }
    kept.unwrap_or((0, 1.0 - 2.0 * first))
}

fn normal_cut(mean: f64, deviation: f64, tails: Tails) -> (usize, f64) {
    // One is taken off for the half-step of continuity and for rounding, so that the coverage is not less than stated.
    ((mean - tails.z * deviation - 1.0).floor().max(0.0) as usize, 1.0 - tails.share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_medians_interval_is_the_published_one() {
        // The usual table of order statistics: n = 6 first to last 96.9 %, n = 10 2nd to 9th 97.9 %, n = 30 10th to 21st 95.7 %.
        for (n, skip, coverage) in [(6, 0, 0.969), (10, 1, 0.979), (20, 5, 0.959), (30, 9, 0.957), (50, 17, 0.967)] {
            let (k, c) = median_interval(n, FIVE_PER_CENT);
            assert_eq!(k, skip, "n = {n}");
            assert!((c - coverage).abs() < 0.001, "n = {n}: {c}");
        }
        assert_eq!(median_interval(1, FIVE_PER_CENT), (0, 0.0));
        assert_eq!(median_interval(5, FIVE_PER_CENT), (0, 0.9375));
    }

    #[test]
    fn the_signed_rank_interval_is_the_published_one() {
        // Critical values of Wilcoxon's T, two-sided 5 %: 0 at n = 6, 8 at 10, 52 at 20, 137 at 30, 434 at 50.
        for (n, critical) in [(6, 0), (10, 8), (20, 52), (30, 137), (50, 434)] {
            assert_eq!(signed_rank_interval(n, FIVE_PER_CENT).0, critical, "n = {n}");
        }
        assert_eq!(signed_rank_interval(5, FIVE_PER_CENT), (0, 0.9375));
        // Two-sided 1 %: 0 at n = 8, 3 at 10, 37 at 20, 109 at 30 (Wilcoxon's table).
        for (n, critical) in [(8, 0), (10, 3), (20, 37), (30, 109)] {
            assert_eq!(signed_rank_interval(n, ONE_PER_CENT).0, critical, "n = {n}");
        }
        assert!(signed_rank_interval(7, ONE_PER_CENT).1 < 0.99);
    }

    #[test]
    fn exact_and_normal_meet() {
        let n = EXACT_UP_TO as f64;
        let exact = signed_rank_interval(EXACT_UP_TO, FIVE_PER_CENT).0 as f64;
        let normal =
            normal_cut(n * (n + 1.0) / 4.0, (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt(), FIVE_PER_CENT).0 as f64;
        assert!((exact - normal).abs() <= 3.0, "{exact} {normal}");
        assert!(median_interval(51, FIVE_PER_CENT).0.abs_diff(median_interval(50, FIVE_PER_CENT).0) <= 1);
    }

    #[test]
    fn probabilities_sum_to_one() {
        let sum: f64 = signed_rank_distribution(37).iter().sum();
        assert!((sum - 1.0).abs() < 1e-12);
    }
}
