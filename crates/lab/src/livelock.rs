//! `linerate livelock`: frames forwarded against frames offered, by who decides when frames are taken (bridge2004: "only possible using
//! polling"; Mogul and Ramakrishnan 1996, Rizzo, BSDCon 2001).
//!
//! ```text
//!  generator -> wire -> nic:em0 -> one processor: bridge, and so much work a frame -> nic:em1 -> wire -> counted
//!  interrupts    a cause: the handler moves all frames from the ring into a queue of 50, before anything else; then one frame's work, and
//!                the cause is looked at again. What the queue does not take is dropped after work was spent on it
//!  moderated     the same, but an interrupt comes no sooner than itr after the one before
//!  clock         dispatch::polling, each tick a burst that leaves others their share; what is not taken in time is missed by the card,
//!  adaptive      at no cost
//! ```
//! One thread on the processor's own time: generator, wire and cards are stepped in between, and what that takes is subtracted ([`rig`]).
//! Registers cost what `nic:`'s model says. On virtual time all costs are numbers: so are those that the test holds to. Whether a switch's loop
//! obeys polling's knobs on the machine's own time is measured beside it ([`obeyed`]).

mod modes;
mod obeyed;
mod rig;
#[cfg(test)]
mod tests;

pub use modes::Mode;
pub use obeyed::Obeyed;

use crate::plot::Axis;
use crate::plot::lines::{Curve, LineChart};
use crate::table;
use modes::Engine;
use rig::{Rig, Tally, Time};
use serde::Serialize;
use std::fmt::Write;

/// Loads, as shares of the highest: closer together where the knees are.
const LOADS: [f64; 14] = [0.04, 0.08, 0.12, 0.16, 0.2, 0.24, 0.28, 0.34, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0];

/// Whose time it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// The machine's.
    Live,
    /// Virtual: costs are numbers, and the same each time.
    Virtual,
}

/// What is to be measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Nanoseconds of work for a frame, beside the bridge's.
    pub cost_ns: u64,
    /// Microseconds between two moderated interrupts.
    pub itr_us: u64,
    /// The highest load, frames a second.
    pub most: f64,
    /// Milliseconds that are measured at each load.
    pub span_ms: u64,
    /// Times that all is measured; figures are medians.
    pub rounds: usize,
    /// On whose time.
    pub timing: Timing,
    /// The core that polling's loop and its user share.
    pub core: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { cost_ns: 1000, itr_us: 50, most: 4e6, span_ms: 20, rounds: 5, timing: Timing::Live, core: 0 }
    }
}

impl Options {
    /// To see that it works, not to quote.
    pub fn quick() -> Options {
        Options { span_ms: 5, rounds: 1, ..Options::default() }
    }
}

/// One load.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Point {
    /// Frames offered a second.
    pub offered: f64,
    /// Frames forwarded a second.
    pub forwarded: f64,
    /// Frames a second that the card missed: dropped before any work.
    pub missed: f64,
    /// Frames a second that the queue had no room for: dropped after the handler's work.
    pub queue_full: f64,
    /// Interrupts a second.
    pub interrupts: f64,
}

/// What one mode did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// Its word.
    pub mode: &'static str,
    /// Lightest load first.
    pub points: Vec<Point>,
    /// The most frames forwarded a second.
    pub peak: f64,
    /// The load at which that was.
    pub peak_at: f64,
    /// Frames forwarded a second at the highest load.
    pub last: f64,
    /// The last against the peak.
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

/// All modes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curves {
    /// What has an effect on the figures.
    pub notes: Vec<String>,
    /// One for each mode.
    pub series: Vec<Series>,
    /// Polling's knobs, on the machine's time.
    pub obeyed: Vec<Obeyed>,
}

/// How often [`measure`] says what it does.
pub fn steps(options: &Options) -> usize {
    let live = if options.timing == Timing::Live { obeyed::spans(options) } else { 0 };
    Mode::ALL.len() * options.rounds.max(1) + live
}

/// Measures all modes, each at all loads.
///
/// # Errors
/// No memory for buffers, or the system's (an event to interrupt by).
pub fn measure(options: &Options, mut progress: impl FnMut(&str)) -> anyhow::Result<Curves> {
    let (mut series, mut gaps) = (Vec::new(), 0);
    for mode in Mode::ALL {
        let mut rounds = Vec::new();
        for _ in 0..options.rounds.max(1) {
            progress(mode.name());
            let (points, lost) = sweep(mode, options)?;
            gaps += lost;
            rounds.push(points);
        }
        series.push(Series::of(mode, medians(&rounds)));
    }
    let obeyed = match options.timing {
        Timing::Live => obeyed::measure(options, progress)?,
        Timing::Virtual => Vec::new(),
    };
    Ok(Curves { notes: notes(options, gaps), series, obeyed })
}

/// One mode at all loads; and how often the machine was somewhere else.
fn sweep(mode: Mode, options: &Options) -> anyhow::Result<(Vec<Point>, u64)> {
    let rig = Rig::new(mode, options, Time::of(options.timing))?;
    let mut engine = Engine::new(mode, rig);
    let span = options.span_ms * 1_000_000;
    let mut points = Vec::new();
    for (at, load) in LOADS.into_iter().enumerate() {
        engine.rig.offer(load * options.most);
        // A polling loop's burst grows by one a tick: the first load waits for that.
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

/// Of each load's rounds the one in the middle, by what was forwarded.
fn medians(rounds: &[Vec<Point>]) -> Vec<Point> {
    let at = |load: usize| {
        let mut points: Vec<Point> = rounds.iter().filter_map(|round| round.get(load)).copied().collect();
        points.sort_by(|a, b| a.forwarded.total_cmp(&b.forwarded));
        points.get(points.len() / 2).copied().unwrap_or_default()
    };
    (0..LOADS.len()).map(at).collect()
}

fn notes(options: &Options, gaps: u64) -> Vec<String> {
    let knobs = port::nic::Knobs::default();
    vec![
        format!(
            "64 bytes with FCS, {} ns of work a frame beside the bridge's; register read {} ns, write {} ns, one write a frame and direction",
            options.cost_ns,
            knobs.reg_read_ns.get(),
            knobs.reg_write_ns.get()
        ),
        format!(
            "moderated: {} us; clock: hz {}, user_frac {}; rings of {} descriptors; input queue of {} frames",
            options.itr_us,
            modes::HZ,
            modes::USER_FRAC,
            rig::RING,
            modes::QUEUE
        ),
        "an interrupt is a register read and a system call (read of an eventfd); trap and return are not counted"
            .to_owned(),
        match options.timing {
            Timing::Live => "on the machine's time".to_owned(),
            Timing::Virtual => "on virtual time: drivers and looks are numbers as well".to_owned(),
        },
        format!(
            "medians of {} rounds of {} ms a load; generator, wire and cards are subtracted; so were {gaps} gaps of more than {} us",
            options.rounds,
            options.span_ms,
            rig::GAP / 1000
        ),
    ]
}

impl Curves {
    /// The table: loads, then what each mode made of it.
    pub fn text(&self) -> String {
        let mut out = String::from("forwarded, thousands of frames a second, by offered load\n\n   offered");
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
            "", "peak", "at", "highest load", "ratio", "missed there", "queue full", "interrupts"
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

    /// One JSON object.
    ///
    /// # Errors
    /// None that could be provoked.
    pub fn to_json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// The picture, as SVG.
    pub fn svg(&self) -> String {
        let curve = |series: &Series| Curve {
            label: series.mode.to_owned(),
            points: series.points.iter().map(|point| (point.offered / 1e3, point.forwarded / 1e3)).collect(),
        };
        let chart = LineChart {
            title: "Forwarded against offered load".to_owned(),
            across: "thousands of frames offered a second".to_owned(),
            up: "thousands of frames forwarded a second".to_owned(),
            axis: Axis::Linear,
            marks: Vec::new(),
            curves: self.series.iter().map(curve).collect(),
            foot: self.notes.clone(),
        };
        chart.svg()
    }
}

/// A mode in one line, with its curve from nothing to `top`.
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
