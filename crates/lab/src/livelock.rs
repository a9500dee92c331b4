//! `linerate livelock`: measures the forwarding rate by offered load, for interrupts and for
//! polling (Mogul and Ramakrishnan 1996; Rizzo, BSDCon 2001; the report bridge2004).
//!
//! ```text
//!  generator -> wire -> nic:em0 -> processor: bridge, extra work -> nic:em1 -> wire -> counter
//!
//!  interrupts    the handler moves all frames from the ring into a queue of 50 before any other
//!                work; then one frame is processed and the cause is checked again. Frames that
//!                find the queue full are dropped after the handler has spent work on them
//!  moderated     as interrupts, with at least itr_us microseconds between two interrupts
//!  clock and     dispatch::polling: a burst each tick, which leaves other threads their share;
//!  adaptive      frames not taken in time are missed by the card, at no cost to the processor
//! ```
//! One thread measures the processor's own time: generator, wire and cards are stepped in between,
//! and the time they take is subtracted ([`rig`]). Register accesses take as long as in the model
//! of `nic:` ports. On virtual time all costs are constants, and the tests check those results.
//! [`obeyed`] measures whether the loop of a switch follows the polling sysctls in real time.

mod modes;
mod obeyed;
mod rig;
#[cfg(test)]
mod tests;

pub use modes::Mode;
pub use obeyed::Checked;

use crate::env::Environment;
use crate::measuring::Measuring;
use crate::plot::Axis;
use crate::plot::lines::{Curve, LineChart};
use crate::table;
use modes::Engine;
use rig::{Rig, Tally, Time};
use serde::Serialize;
use std::fmt::Write;

/// Offered loads as shares of the highest, closer together around the knees of the curves.
const LOADS: [f64; 14] = [0.04, 0.08, 0.12, 0.16, 0.2, 0.24, 0.28, 0.34, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0];

/// Selects the clock of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// The machine's own clock.
    Live,
    /// Virtual time: costs are constants, and results are reproducible.
    Virtual,
}

/// Parameters of the measurement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Additional work per frame, in nanoseconds, besides the bridge's forwarding.
    pub cost_ns: u64,
    /// Minimum microseconds between two moderated interrupts.
    pub itr_us: u64,
    /// The highest offered load, in frames per second.
    pub most: f64,
    /// Duration of the measurement at each load, in milliseconds.
    pub span_ms: u64,
    /// Number of repetitions; each figure is the median over all repetitions.
    pub rounds: usize,
    /// Clock of the measurement.
    pub timing: Timing,
    /// The core shared by the polling loop and the competing user thread.
    pub core: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { cost_ns: 1000, itr_us: 50, most: 4e6, span_ms: 20, rounds: 5, timing: Timing::Live, core: 0 }
    }
}

impl Options {
    /// Returns the parameters of a short measurement, for trying the command. Its figures are not
    /// precise enough to quote.
    pub fn quick() -> Options {
        Options { span_ms: 5, rounds: 1, ..Options::default() }
    }
}

/// Rates measured at one offered load.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Point {
    /// Frames offered per second.
    pub offered: f64,
    /// Frames forwarded per second.
    pub forwarded: f64,
    /// Frames per second missed by the card: dropped before any work.
    pub missed: f64,
    /// Frames per second dropped because the queue was full, after the handler's work.
    pub queue_full: f64,
    /// Interrupts delivered per second.
    pub interrupts: f64,
}

/// Results of one receive mode (interrupts or a kind of polling).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// Name of the receive mode.
    pub mode: &'static str,
    /// Rates at each offered load, lightest load first.
    pub points: Vec<Point>,
    /// Maximum frames forwarded per second.
    pub peak: f64,
    /// Offered load, in frames per second, at which `peak` was measured.
    pub peak_at: f64,
    /// Frames forwarded per second at the highest load.
    pub last: f64,
    /// Ratio of `last` to `peak`.
    pub ratio: f64,
}

impl Series {
    fn of(mode: Mode, points: Vec<Point>) -> Series {
        let best = points.iter().copied().max_by(|a, b| a.forwarded.total_cmp(&b.forwarded)).unwrap_or_default();
        let last = points.last().map_or(0.0, |point| point.forwarded);
        let ratio = if best.forwarded > 0.0 { last / best.forwarded } else { 0.0 };
        Series { mode: mode.name(), points, peak: best.forwarded, peak_at: best.offered, last, ratio }
    }
}

/// Results of all receive modes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curves {
    /// The machine; `None` on virtual time, where the results do not depend on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<Environment>,
    /// Conditions that affect the figures.
    pub notes: Vec<String>,
    /// One series for each mode.
    pub series: Vec<Series>,
    /// Results of checking whether the polling sysctls take effect in real time; empty on virtual
    /// time.
    pub obeyed: Vec<Checked>,
}

/// Returns the number of times that [`measure`] calls `progress`.
pub fn steps(options: &Options) -> usize {
    let live = if options.timing == Timing::Live { obeyed::spans(options) } else { 0 };
    Mode::ALL.len() * options.rounds.max(1) + live
}

/// Measures all receive modes, each at all loads. If the user requests a stop, returns the
/// completed rounds with a note.
///
/// # Errors
/// No memory for buffers, or a system error (creating the eventfd for interrupts).
pub fn measure(options: &Options, mut progress: impl FnMut(&str)) -> anyhow::Result<Curves> {
    // Read before the trials, which raise the load themselves.
    let (_measuring, env) = (options.timing == Timing::Live).then(Measuring::begin).unzip();
    let (mut series, mut gaps) = (Vec::new(), 0);
    for mode in Mode::ALL {
        let mut rounds = Vec::new();
        for _ in 0..options.rounds.max(1) {
            if dispatch::stop_requested() {
                break;
            }
            progress(mode.name());
            let (points, lost) = sweep(mode, options)?;
            gaps += lost;
            rounds.push(points);
        }
        if !rounds.is_empty() {
            series.push(Series::of(mode, medians(&rounds)));
        }
    }
    let obeyed = match options.timing {
        Timing::Live => obeyed::measure(options, progress)?,
        Timing::Virtual => Vec::new(),
    };
    let mut notes = notes(options, gaps);
    if dispatch::stop_requested() {
        notes.push("interrupted: the figures are of the completed rounds".to_owned());
    }
    Ok(Curves { env, notes, series, obeyed })
}

/// Measures one mode at all loads; also returns the number of gaps in which the machine ran
/// something else.
fn sweep(mode: Mode, options: &Options) -> anyhow::Result<(Vec<Point>, u64)> {
    let rig = Rig::new(mode, options, Time::of(options.timing))?;
    let mut engine = Engine::new(mode, rig);
    let span = options.span_ms * 1_000_000;
    let mut points = Vec::new();
    for (at, load) in LOADS.into_iter().enumerate() {
        engine.rig.offer(load * options.most);
        // A polling loop's burst grows by one frame per tick, so the first load has a longer
        // warm-up.
        engine.run(if at == 0 { 60_000_000 } else { span / 4 });
        let before = engine.tally();
        engine.run(span);
        points.push(point(&before, &engine.tally()));
    }
    engine.check()?;
    Ok((points, engine.rig.time.gaps()))
}

fn point(before: &Tally, after: &Tally) -> Point {
    let seconds = (after.ns - before.ns).max(1) as f64 / 1e9;
    let rate = |of: fn(&Tally) -> u64| (of(after) - of(before)) as f64 / seconds;
    Point {
        offered: rate(|t| t.offered),
        forwarded: rate(|t| t.forwarded),
        missed: rate(|t| t.missed),
        queue_full: rate(|t| t.queue_full),
        interrupts: rate(|t| t.interrupts),
    }
}

/// Returns, for each load, the rates of the round with the median number of forwarded frames.
fn medians(rounds: &[Vec<Point>]) -> Vec<Point> {
    let at = |load: usize| {
        let mut points: Vec<Point> = rounds.iter().filter_map(|round| round.get(load)).copied().collect();
        points.sort_by(|a, b| a.forwarded.total_cmp(&b.forwarded));
        points.get(points.len() / 2).copied().unwrap_or_default()
    };
    (0..LOADS.len()).map(at).collect()
}

fn notes(options: &Options, gaps: u64) -> Vec<String> {
    let settings = port::nic::Settings::default();
    vec![
        format!(
            "frames of 64 bytes with FCS, {} ns of work per frame in addition to the bridge; register read {} ns, write {} ns, one write per frame and direction",
            options.cost_ns,
            settings.reg_read_ns.get(),
            settings.reg_write_ns.get()
        ),
        format!(
            "moderated: {} us or more between interrupts; clock: hz {}, user_frac {}; rings of {} descriptors; input queue of {} frames",
            options.itr_us,
            modes::HZ,
            modes::USER_FRAC,
            rig::RING,
            modes::QUEUE
        ),
        "an interrupt is a register read and a system call (read of an eventfd); trap and return are not counted"
            .to_owned(),
        match options.timing {
            Timing::Live => "real time".to_owned(),
            Timing::Virtual => "virtual time: the costs of drivers and polls are constants, too".to_owned(),
        },
        format!(
            "medians of {} rounds of {} ms per load; the time of generator, wire and cards is subtracted, as are {gaps} gaps of more than {} us, in which the machine did other work",
            options.rounds,
            options.span_ms,
            rig::GAP / 1000
        ),
    ]
}

impl Curves {
    /// Formats the table of loads and forwarded frames by mode, a summary, and the notes.
    pub fn text(&self) -> String {
        let mut out = self.env.as_ref().map_or(String::new(), |env| format!("{env}\n"));
        out.push_str("forwarded frames by offered load, in thousands per second\n\n   offered");
        self.series.iter().for_each(|series| _ = write!(out, "  {:>10}", series.mode));
        out.push('\n');
        for at in 0..LOADS.len() {
            let points = || self.series.iter().filter_map(|series| series.points.get(at));
            let offered = points().map(|point| point.offered).sum::<f64>() / self.series.len().max(1) as f64;
            let _ = write!(out, "{:>10.1}", offered / 1e3);
            points().for_each(|point| _ = write!(out, "  {:>10.1}", point.forwarded / 1e3));
            out.push('\n');
        }
        let _ = write!(
            out,
            "\n{:<11}{:>9}{:>9}{:>13}{:>9}{:>15}{:>15}{:>13}",
            "", "peak", "at", "highest load", "ratio", "missed", "queue full", "interrupts"
        );
        let top = self.series.iter().map(|series| series.peak).fold(0.0, f64::max);
        self.series.iter().for_each(|series| out += &summary(series, top));
        out.push('\n');
        if !self.obeyed.is_empty() {
            out += &obeyed::text(&self.obeyed);
        }
        out.push('\n');
        self.notes.iter().for_each(|note| _ = writeln!(out, "note: {note}"));
        out
    }

    /// Formats the results as one JSON object.
    ///
    /// # Errors
    /// None in practice: the structure always serializes.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// Returns the chart as SVG.
    pub fn svg(&self) -> String {
        let curve = |series: &Series| Curve {
            label: series.mode.to_owned(),
            points: series.points.iter().map(|point| (point.offered / 1e3, point.forwarded / 1e3)).collect(),
        };
        let chart = LineChart {
            title: "Forwarded against offered load".to_owned(),
            across: "offered, thousand frames/s".to_owned(),
            up: "forwarded, thousand frames/s".to_owned(),
            axis: Axis::Linear,
            marks: Vec::new(),
            curves: self.series.iter().map(curve).collect(),
            foot: self.notes.clone(),
        };
        chart.svg()
    }
}

/// Formats a mode in one line, with a spark line of its curve scaled from 0 to `top`.
fn summary(series: &Series, top: f64) -> String {
    let last = series.points.last().copied().unwrap_or_default();
    let ends = [0.0, top];
    let values: Vec<f64> = ends.into_iter().chain(series.points.iter().map(|point| point.forwarded)).collect();
    let spark: String = table::sparkline(&values).chars().skip(ends.len()).collect();
    format!(
        "\n{:<11}{:>9.1}{:>9.1}{:>13.1}{:>9.2}{:>15.1}{:>15.1}{:>13.1}  {spark}",
        series.mode,
        series.peak / 1e3,
        series.peak_at / 1e3,
        series.last / 1e3,
        series.ratio,
        last.missed / 1e3,
        last.queue_full / 1e3,
        last.interrupts / 1e3
    )
}
