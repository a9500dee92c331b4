//! The rows `idle.cpu` and `idle.wake_p99`: a two-port switch with a loop that sleeps while there
//! is no traffic.

use crate::native::forward::Idle;
use crate::result::{Figure, Row};
use crate::sample::Summary;
use crate::study::Study;

const CPU: (&str, &str) = ("idle.cpu", "processor time of a switch without traffic, adaptive, in per cent of a core");
const WAKE: (&str, &str) = ("idle.wake_p99", "99th percentile of the time of a frame through a sleeping switch");

/// Length of a window without traffic, in milliseconds.
const WINDOW_MS: u64 = 250;
/// Microseconds between two frames. This is longer than the time for which a loop busy-waits before
/// it sleeps (`kern.polling.idle_us`).
const PAUSE_US: u64 = 2_000;
/// Number of warm-up frames, which are not counted.
const FIRST: usize = 50;

/// Adds the rows `idle.cpu` and `idle.wake_p99`, with the switch's loop on processor `core`.
/// `windows` is the number of samples of `idle.cpu`, `frames` that of `idle.wake_p99`.
pub(super) fn rows(study: &mut Study<'_>, windows: u64, frames: u64, core: usize) {
    match measure(windows, frames, core) {
        Ok((cpu, wake, note)) => {
            study.rows([Row::new(CPU.0, CPU.1, cpu), Row::new(WAKE.0, WAKE.1, wake)]);
            study.note(note);
        }
        Err(why) => study.rows([CPU, WAKE].map(|(id, title)| Row::missing(id, title, &format!("{why:#}")))),
    }
}

/// Returns the figures of both rows, and a note on how they were measured.
fn measure(windows: u64, frames: u64, core: usize) -> anyhow::Result<(Figure, Figure, String)> {
    let mut idle = Idle::start()?;
    let mut used = idle.share(windows + 1, WINDOW_MS, core)?;
    used.remove(0);
    let percent: Vec<f64> = used.iter().map(|ns| *ns as f64 * 100.0 / (WINDOW_MS as f64 * 1e6)).collect();
    let mut delays = idle.wake(frames + FIRST as u64, PAUSE_US, core)?.split_off(FIRST);
    delays.sort_unstable();
    let [half, high] = [0.5, 0.99].map(|share| quantile(&delays, share));
    let note = format!(
        "idle: {}; windows of {WINDOW_MS} ms; a frame every {PAUSE_US} us, sent and awaited by a busy-polling \
         thread on another core; one switch, so n counts windows and frames, not builds; median {:.1} us [{:.1}, \
         {:.1}], longest {:.1} us",
        idle.ports(),
        half.median,
        half.lo,
        half.hi,
        delays.last().map_or(0.0, |ns| *ns as f64 / 1e3)
    );
    Ok((Figure::new(&Summary::of(&percent)?, "%"), high, note))
}

/// Returns a quantile of sorted nanoseconds, in microseconds, with its 95 % interval. The ends of
/// the interval are the order statistics at 1.96 standard deviations of the binomial distribution
/// on either side (normal approximation).
fn quantile(sorted: &[u64], share: f64) -> Figure {
    let n = sorted.len() as f64;
    let spread = 1.96 * (n * share * (1.0 - share)).sqrt();
    let at = |rank: f64| {
        let rank = (rank.ceil().max(1.0) as usize).min(sorted.len());
        sorted.get(rank.saturating_sub(1)).map_or(0.0, |ns| *ns as f64 / 1e3)
    };
    let (median, lo, hi) = (at(n * share), at(n * share - spread), at(n * share + spread + 1.0));
    Figure { median, lo, hi, n: sorted.len() as u32, unit: "us".to_owned(), range: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_ranks_with_ranks_around() {
        let sorted: Vec<u64> = (1..=1000).map(|n| n * 1000).collect();
        let high = quantile(&sorted, 0.99);
        assert_eq!((high.median, high.lo, high.hi, high.n), (990.0, 984.0, 998.0, 1000));
        assert_eq!(quantile(&sorted, 0.5).median, 500.0);
        assert_eq!(quantile(&[7000], 0.99).hi, 7.0);
    }
}
