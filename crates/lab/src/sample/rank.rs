//! Ranks of the order statistics that bound an interval: binomial for a median, signed-rank for
//! Walsh averages.
//!
//! Both kinds of rank are the largest number k of values to leave out at each end such that the two
//! tails together contain no more than the requested share. If even k = 0 leaves out more (fewer
//! than six values for 5 %), all values are kept and the actual coverage is returned.

/// Share that an interval may leave out at both ends together, and the corresponding quantile of
/// the normal distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tails {
    share: f64,
    z: f64,
}

/// 5 %: the printed interval.
pub const FIVE_PER_CENT: Tails = Tails { share: 0.05, z: 1.959_963_984_540_054 };
/// 1 %: the interval used for verdicts.
pub const ONE_PER_CENT: Tails = Tails { share: 0.01, z: 2.575_829_303_548_901 };

impl Tails {
    /// Returns the two-sided quantile of the normal distribution: 1.96 for 5 %.
    pub fn z(self) -> f64 {
        self.z
    }
}

/// Largest n with the exact null distribution; beyond it the normal approximation is used, which at
/// this n differs by at most three ranks.
const EXACT_UP_TO: usize = 50;
/// Largest n with Walsh averages; beyond it there would be about a million, and the median of the
/// ratios is used.
const WALSH_UP_TO: usize = 1400;

/// Returns the number of sorted values to leave out at each end for the median of `n` values, and
/// the coverage.
pub fn median_interval(n: usize, tails: Tails) -> (usize, f64) {
    if n > EXACT_UP_TO {
        let n = n as f64;
        return normal_cut(n / 2.0, n.sqrt() / 2.0, tails);
    }
    let mut probability = 0.5f64.powi(n as i32); // probability that no value is below the median
    let tail = (1..=n).map(|below| {
        let this = probability;
        probability *= (n + 1 - below) as f64 / below as f64;
        this
    });
    cut(tail, tails)
}

/// Centre of a set of logarithms: the estimate, and the interval for each of two [`Tails`].
pub struct Centre {
    /// Hodges-Lehmann estimate of the centre.
    pub estimate: f64,
    /// Ends and coverage of the interval that leaves out [`FIVE_PER_CENT`].
    pub shown: (f64, f64, f64),
    /// Ends and coverage of the interval that leaves out [`ONE_PER_CENT`].
    pub firm: (f64, f64, f64),
}

/// Estimates the centre of `logs`. Panics on an empty slice.
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

/// Returns the value at `index` in sorted order.
fn nth(values: &mut [f64], index: usize) -> f64 {
    *values.select_nth_unstable_by(index, f64::total_cmp).1
}

/// Returns the means of all n (n + 1) / 2 pairs, including each value paired with itself.
fn walsh_averages(values: &[f64]) -> Vec<f64> {
    let pairs = values.iter().enumerate().flat_map(|(i, a)| values[i..].iter().map(move |b| (a + b) / 2.0));
    pairs.collect()
}

/// Returns the number of sorted Walsh averages of `n` values to leave out at each end, and the
/// coverage.
fn signed_rank_interval(n: usize, tails: Tails) -> (usize, f64) {
    if n > EXACT_UP_TO {
        let n = n as f64;
        return normal_cut(n * (n + 1.0) / 4.0, (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt(), tails);
    }
    cut(signed_rank_distribution(n).into_iter(), tails)
}

/// Returns the probability of each sum of positive ranks 0, 1 ... n (n + 1) / 2 with random signs.
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

/// Returns the largest k with P(X <= k) of at most half of `tails`, and the coverage; `tail` yields
/// the probabilities of 0, 1, 2 ... The interval begins at the value with index k from 0: it lies
/// above the true value only if at most k values lie below the true value.
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
    // 1 is subtracted for the continuity correction of 1/2 and for rounding, so that the coverage
    // is not less than stated.
    ((mean - tails.z * deviation - 1.0).floor().max(0.0) as usize, 1.0 - tails.share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_medians_interval_is_the_published_one() {
        // Published table of order statistics: n = 6 first to last 96.9 %, n = 10 2nd to 9th
        // 97.9 %, n = 30 10th to 21st 95.7 %.
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
        // Critical values of Wilcoxon's T, two-sided 5 %: 0 at n = 6, 8 at 10, 52 at 20, 137 at 30,
        // 434 at 50.
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
