//! `-i` and `-I`: repeats a test until the confidence interval of its mean is narrow enough, using
//! Student's t as netperf does.
//!
//! The width of the interval is 2 t s/sqrt(n), relative to the mean, where s is the standard
//! deviation with n-1 in its denominator (netperf's own formula gives the same number). `-I 95,5`
//! requests a width of 5 %, that is 2.5 % to either side. t is the two-sided value for a confidence
//! level of 95 or 99 %.

/// Width of the confidence interval that the user requested, and limits on the number of runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ConfidenceGoal {
    /// Minimum number of runs.
    pub min: usize,
    /// Maximum number of runs.
    pub max: usize,
    /// Confidence level: 95 or 99 percent.
    pub level: u32,
    /// Width of the interval, relative to the mean: 0.05 is 5 %.
    pub width: f64,
}

/// Maximum number of runs, limited by the length of the table of t.
pub const RUNS_MAX: usize = 30;

impl ConfidenceGoal {
    /// Returns the goal that `-i max,min` and `-I level,width` request. If only one of them is
    /// given, the other has netperf's default (10,3 or 99,5). Returns `None` if neither is given.
    pub fn of(runs: Option<(usize, usize)>, interval: Option<(u32, f64)>) -> Option<ConfidenceGoal> {
        if runs.is_none() && interval.is_none() {
            return None;
        }
        let (max, min) = runs.unwrap_or((10, 3));
        let (level, percent) = interval.unwrap_or((99, 5.0));
        let within = |n: usize| n.clamp(3, RUNS_MAX);
        Some(ConfidenceGoal { min: within(min), max: within(max.max(min)), level, width: percent / 100.0 })
    }
}

/// Results of the runs so far.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    figures: Vec<f64>,
}

impl Runs {
    /// Adds the result of a run.
    pub fn add(&mut self, figure: f64) {
        self.figures.push(figure);
    }

    /// Returns the number of runs so far.
    pub fn len(&self) -> usize {
        self.figures.len()
    }

    /// Returns whether no run has been added yet.
    pub fn is_empty(&self) -> bool {
        self.figures.is_empty()
    }

    pub fn mean(&self) -> f64 {
        self.figures.iter().sum::<f64>() / self.figures.len().max(1) as f64
    }

    /// Returns the width of the confidence interval, relative to the mean; infinite for fewer than
    /// two runs.
    pub fn width(&self, level: u32) -> f64 {
        let n = self.figures.len();
        if n < 2 {
            return f64::INFINITY;
        }
        let mean = self.mean();
        let squares: f64 = self.figures.iter().map(|x| (x - mean).powi(2)).sum();
        let sd = (squares / (n - 1) as f64).sqrt();
        2.0 * t(level, n - 1) * sd / (n as f64).sqrt() / mean
    }

    /// Returns whether no further run is needed: the interval is narrow enough, or the maximum is
    /// reached.
    pub fn is_enough(&self, wish: &ConfidenceGoal) -> bool {
        let n = self.figures.len();
        n >= wish.min && (n >= wish.max || self.width(wish.level) <= wish.width)
    }
}

/// Returns the two-sided value of Student's t to three decimals (NIST/SEMATECH handbook 1.3.6.7.2),
/// for 1 to 30 degrees of freedom.
fn t(level: u32, freedom: usize) -> f64 {
    let row = T.get(freedom.clamp(1, T.len()) - 1).copied().unwrap_or_default();
    if level == 95 { row.0 } else { row.1 }
}

#[rustfmt::skip]
#[allow(clippy::approx_constant)] // 3.106 resembles a known constant by chance
const T: [(f64, f64); 30] = [
    (12.706, 63.657), (4.303, 9.925), (3.182, 5.841), (2.776, 4.604), (2.571, 4.032),
    (2.447, 3.707), (2.365, 3.499), (2.306, 3.355), (2.262, 3.250), (2.228, 3.169),
    (2.201, 3.106), (2.179, 3.055), (2.160, 3.012), (2.145, 2.977), (2.131, 2.947),
    (2.120, 2.921), (2.110, 2.898), (2.101, 2.878), (2.093, 2.861), (2.086, 2.845),
    (2.080, 2.831), (2.074, 2.819), (2.069, 2.807), (2.064, 2.797), (2.060, 2.787),
    (2.056, 2.779), (2.052, 2.771), (2.048, 2.763), (2.045, 2.756), (2.042, 2.750),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn confidence_options_have_netperf_defaults_and_limits() {
        assert_eq!(ConfidenceGoal::of(None, None), None);
        assert_eq!(
            ConfidenceGoal::of(Some((10, 3)), None),
            Some(ConfidenceGoal { min: 3, max: 10, level: 99, width: 0.05 })
        );
        assert_eq!(
            ConfidenceGoal::of(None, Some((95, 10.0))),
            Some(ConfidenceGoal { min: 3, max: 10, level: 95, width: 0.1 })
        );
        assert_eq!(ConfidenceGoal::of(Some((99, 1)), None).map(|wish| (wish.min, wish.max)), Some((3, 30)));
        assert_eq!(ConfidenceGoal::of(Some((2, 7)), None).map(|wish| (wish.min, wish.max)), Some((7, 7)));
    }

    #[test]
    fn the_width_of_three_runs_matches_a_manual_calculation() {
        let mut runs = Runs::default();
        [100.0, 102.0, 104.0].into_iter().for_each(|figure| runs.add(figure));
        // s = 2, t(2) = 4.303: 2 * 4.303 * 2 / sqrt(3) / 102
        assert!((runs.width(95) - 0.097_42).abs() < 1e-5, "{}", runs.width(95));
        let wish = |width| ConfidenceGoal { min: 3, max: 10, level: 95, width };
        assert!(runs.is_enough(&wish(0.1)) && !runs.is_enough(&wish(0.09)));
        (0..7).for_each(|_| runs.add(50.0));
        assert!(runs.is_enough(&wish(0.0001)), "ten are all there may be");
    }
}
