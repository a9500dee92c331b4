//! Searches that derive figures from trials: RFC 2544 26.1, 26.3 and 26.4. They are independent of
//! ports: a trial is a closure.

use super::trial::Cut;
use serde::Serialize;

/// Maximum number of trials in a search.
const TRIALS_MAX: usize = 40;
/// Number of trials in which the tester may miss the rate before the rate is taken as its limit.
const SHORTS_MAX: u32 = 3;
/// Divisor of the highest rate; the search ends at rates below the quotient.
const FLOOR: u64 = 1000;

/// Result of a trial, as used by a search. Rates are frames per second in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tried {
    /// Rate at which the tester should send.
    pub requested: u64,
    /// Rate at which frames were actually sent.
    pub reached: u64,
    /// Number of frames sent, in all directions together.
    pub sent: u64,
    /// Number of frames that were sent and did not arrive.
    pub lost: u64,
}

impl Tried {
    /// Returns whether the tester missed the rate by more than `resolution`.
    pub fn is_short(&self, resolution: f64) -> bool {
        (self.reached as f64) < self.requested as f64 * (1.0 - resolution)
    }

    /// Returns the frames lost, in per cent of those sent (RFC 2544 26.3).
    pub fn loss_percent(&self) -> f64 {
        if self.sent == 0 { 0.0 } else { self.lost as f64 * 100.0 / self.sent as f64 }
    }
}

/// Meaning of a throughput figure: the device's rate itself, or a bound of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The highest rate without loss, within the resolution.
    Found,
    /// No frame was lost at the highest rate tested.
    Line,
    /// The tester could not send faster: the device's rate is at least this one.
    AtLeast,
    /// Frames were lost at every rate tried.
    Never,
}

/// Two trials that contradict each other: the slower one lost frames, the faster one none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Contradiction {
    /// The slower trial, which lost frames.
    pub slower: Tried,
    /// The faster trial, which lost none.
    pub faster: Tried,
}

/// Throughput of one size (RFC 2544 26.1).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Throughput {
    /// Highest rate at which the tester should send.
    pub max: u64,
    /// Highest rate without loss, in frames per second in each direction; 0 if every rate had loss.
    pub rate: u64,
    /// Meaning of `rate`: exact, or a bound.
    pub bound: Bound,
    /// All trials, in order.
    pub trials: Vec<Tried>,
}

/// Function that runs a trial at a rate.
pub type AtRate<'a> = dyn FnMut(u64) -> Result<Tried, Cut> + 'a;

/// Finds the highest rate up to `max` without loss, by bisection until the remaining interval is at
/// most `resolution` of its upper end. The rate found is tried again. If frames are lost in this
/// second trial, the search continues at lower rates.
///
/// # Errors
/// The error of a trial.
pub fn throughput(max: u64, resolution: f64, trial: &mut AtRate<'_>) -> Result<Throughput, Cut> {
    let (mut low, mut high, mut rate) = (0, max.max(1), max.max(1));
    let mut trials: Vec<Tried> = Vec::new();
    let (mut confirmed, mut shorts) = (0, 0);
    while trials.len() < TRIALS_MAX {
        let tried = trial(rate)?;
        trials.push(tried);
        let reached = tried.reached.min(rate);
        if tried.lost == 0 && tried.sent > 0 {
            if tried.is_short(resolution) {
                shorts += 1;
                // A single miss may be due to another process.
                if reached <= low || shorts > SHORTS_MAX {
                    return Ok(Throughput { max, rate: reached.max(low), bound: Bound::AtLeast, trials });
                }
            } else if rate == max {
                return Ok(Throughput { max, rate: reached, bound: Bound::Line, trials });
            }
            if rate == low {
                confirmed = low;
            }
            low = low.max(reached);
        } else {
            high = rate.min(reached.max(1));
            low = if high <= low { 0 } else { low };
        }
        let is_close = (high - low) as f64 <= (high as f64 * resolution).max(1.0);
        match (is_close, low) {
            (true, low) if low > 0 && confirmed == low => break,
            (true, low) if low > 0 => rate = low,
            _ if high <= (max / FLOOR).max(1) => break,
            _ => rate = low + (high - low) / 2,
        }
    }
    // If a search runs out of trials, only a confirmed rate is reported.
    let rate = if confirmed > 0 && confirmed < high { confirmed } else { 0 };
    let bound = if rate == 0 { Bound::Never } else { Bound::Found };
    Ok(Throughput { max, rate, bound, trials })
}

/// Returns the clearest contradiction among trials: the slowest trial with loss and the fastest
/// trial without loss, if the trial with loss is not the faster one.
pub fn contradiction(trials: &[Tried]) -> Option<Contradiction> {
    let slower = trials.iter().filter(|tried| tried.lost > 0).min_by_key(|tried| tried.reached)?;
    let faster = trials.iter().filter(|tried| tried.lost == 0 && tried.sent > 0).max_by_key(|tried| tried.reached)?;
    (slower.reached <= faster.reached).then_some(Contradiction { slower: *slower, faster: *faster })
}

/// Measures the loss (RFC 2544 26.3) at rates from `max` down in steps of a tenth of `max`, until
/// two consecutive rates have no loss.
///
/// # Errors
/// The error of a trial.
pub fn loss(max: u64, trial: &mut AtRate<'_>) -> Result<Vec<Tried>, Cut> {
    let mut trials: Vec<Tried> = Vec::new();
    for tenths in (1..=10).rev() {
        trials.push(trial((max * tenths / 10).max(1))?);
        if matches!(trials.as_slice(), [.., a, b] if a.lost == 0 && b.lost == 0) {
            break;
        }
    }
    Ok(trials)
}

/// Back-to-back frames of one size (RFC 2544 26.4).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackToBack {
    /// Rate within a burst, in frames per second in each direction.
    pub rate: u64,
    /// The longest burst tried, in frames.
    pub most: u64,
    /// The longest burst without loss, for each search.
    pub bursts: Vec<u64>,
    /// Set if the tester sent every burst at `rate`.
    pub at_rate: bool,
}

impl BackToBack {
    /// Returns the average of the longest bursts, the figure that the RFC reports.
    pub fn average(&self) -> f64 {
        self.bursts.iter().sum::<u64>() as f64 / self.bursts.len().max(1) as f64
    }
}

/// Finds the longest burst without loss, up to `most` frames; 0 if not even one frame arrives.
/// `trial` sends one burst.
///
/// # Errors
/// The error of a trial.
pub fn longest(most: u64, trial: &mut AtRate<'_>) -> Result<u64, Cut> {
    let (mut low, mut high) = (0, most + 1);
    let mut burst = most;
    while high - low > 1 {
        let tried = trial(burst)?;
        if tried.lost == 0 && tried.sent > 0 {
            low = burst;
        } else {
            high = burst;
        }
        burst = low + (high - low) / 2;
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a device that loses frames above `most` per second; the tester sends at most
    /// `reach`.
    fn device(most: u64, reach: u64) -> impl FnMut(u64) -> Result<Tried, Cut> {
        move |requested| {
            let reached = requested.min(reach);
            Ok(Tried { requested, reached, sent: reached, lost: reached.saturating_sub(most) })
        }
    }

    #[test]
    fn the_rate_is_found_within_the_resolution() {
        for (most, resolution) in [(123_456, 0.01), (999_999, 0.01), (5_000, 0.001), (1_001, 0.1)] {
            let found = throughput(1_000_000, resolution, &mut device(most, u64::MAX)).unwrap();
            assert_eq!(found.bound, Bound::Found, "{most}");
            let ratio = found.rate as f64 / most as f64;
            assert!(ratio <= 1.0 && ratio >= 1.0 - 1.2 * resolution, "{most}: {found:?}");
            assert!(found.trials.len() < 25 && contradiction(&found.trials).is_none());
        }
    }

    #[test]
    fn rates_at_both_ends_of_the_range() {
        let all = throughput(1000, 0.01, &mut device(1000, u64::MAX)).unwrap();
        assert_eq!((all.rate, all.bound, all.trials.len()), (1000, Bound::Line, 1));
        let none = throughput(1_000_000, 0.01, &mut device(0, u64::MAX)).unwrap();
        assert_eq!((none.rate, none.bound), (0, Bound::Never));
        assert!(none.trials.len() < 15);
        assert_eq!(throughput(0, 0.01, &mut device(0, 9)).unwrap().bound, Bound::Never);
    }

    #[test]
    fn a_slow_tester_gives_a_lower_bound() {
        let slow = throughput(1000, 0.01, &mut device(900, 700)).unwrap();
        assert_eq!((slow.rate, slow.bound), (700, Bound::AtLeast));
        let found = throughput(1000, 0.01, &mut device(500, 700)).unwrap();
        assert_eq!(found.bound, Bound::Found);
        assert!((495..=500).contains(&found.rate), "{found:?}");
    }

    #[test]
    fn a_rate_that_loses_frames_on_repetition_is_rejected() {
        let (mut good, mut calls) = (device(500, u64::MAX), 0);
        let found = throughput(1000, 0.01, &mut |rate| {
            calls += 1;
            // From the ninth trial on, the device loses frames above 250.
            if calls > 8 { device(250, u64::MAX)(rate) } else { good(rate) }
        })
        .unwrap();
        assert_eq!(found.bound, Bound::Found);
        assert!(found.rate <= 250 && found.rate > 240, "{found:?}");
        assert!(contradiction(&found.trials).is_some_and(|odd| odd.slower.reached <= odd.faster.reached));
    }

    #[test]
    fn loss_trials_end_after_two_without_loss() {
        let trials = loss(1000, &mut device(750, u64::MAX)).unwrap();
        let requested: Vec<u64> = trials.iter().map(|tried| tried.requested).collect();
        assert_eq!(requested, [1000, 900, 800, 700, 600]);
        assert_eq!(trials[0].loss_percent(), 25.0);
        assert_eq!(loss(1000, &mut device(0, u64::MAX)).unwrap().len(), 10);
    }

    #[test]
    fn the_longest_burst() {
        for most in [0, 1, 57, 999, 1000] {
            assert_eq!(longest(1000, &mut device(most, u64::MAX)), Ok(most));
        }
        assert_eq!(longest(1000, &mut |_| Err(Cut::Stopped)), Err(Cut::Stopped));
    }
}
