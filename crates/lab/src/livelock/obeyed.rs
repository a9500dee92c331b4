//! Measures whether the polling sysctls take effect in real time. The loop of a switch receives
//! more frames than the sysctls allow it to process, and a user thread competes for its core.
//!
//! ```text
//!  core N   loop   node::switch by the clock, over generators that always have a frame;
//!                  frames from one are flooded to all others
//!           user   uses the core while the loop sleeps; has the lowest priority (nice 19),
//!                  since polling in a kernel precedes all user threads
//! ```
//! The kernel reports the processor time of each thread (CLOCK_THREAD_CPUTIME_ID), so time taken by
//! a hypervisor or another process is charged to neither thread. The user thread's share must be
//! within five percentage points of user_frac. On virtual time, where the share is exact, the tests
//! of `dispatch::polling` check it.

use super::Options;
use crate::os;
use crate::table;
use anyhow::{Context, anyhow, ensure};
use clock::{Clock, Strategy};
use node::switch::run::Until;
use node::switch::{Switch, SwitchConfig};
use port::Spec;
use serde::Serialize;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// Percentage points by which the user thread's share may differ from user_frac.
const BAND: f64 = 5.0;
/// Relative tolerance of a rate, since the loop may miss a tick.
const RATE_BAND: f64 = 0.05;
/// Milliseconds until a burst, which grows by one frame per tick, has reached its final size: with
/// [`FEW`] ports, and with [`PORTS`].
const SETTLE: [u64; 2] = [150, 600];
/// Number of generators. With 16, a burst of a thousand frames from each generator, flooded to all
/// others, takes longer than a tick. With 8 it took 0.43 ms in a release build, and the user thread
/// had the rest of the tick: 57 % with a setting of 20.
const PORTS: usize = 16;
/// Number of generators that is so small that only `burst_max` limits the rate.
const FEW: usize = 2;

/// Polling settings, with the effect that they should have on the polling loop.
struct Request {
    settings: &'static [(&'static str, i64)],
    ports: usize,
    what: &'static str,
    unit: &'static str,
    figure: fn(&Observed) -> f64,
    wanted: Wanted,
}

#[derive(Clone, Copy)]
enum Wanted {
    /// This share in per cent, give or take [`BAND`].
    Share(f64),
    /// This rate, give or take [`RATE_BAND`] as a fraction of it.
    Rate(f64),
    /// At least this value.
    Above(f64),
}

const CLOCK: (&str, i64) = ("mode", 1);
/// Setting for ticks of one millisecond. The 25 us that the loop needs to sleep and to wake up are
/// not counted as work of a tick; at 2000 ticks per second they would be 5 percentage points of the
/// share.
const HZ: (&str, i64) = ("hz", 1000);
const MOST: (&str, i64) = ("burst_max", 1000);

const ASKED: [Request; 6] = [
    share(&[CLOCK, HZ, MOST, ("user_frac", 20)], 20.0),
    share(&[CLOCK, HZ, MOST, ("user_frac", 50)], 50.0),
    share(&[CLOCK, HZ, MOST, ("user_frac", 80)], 80.0),
    Request {
        settings: &[CLOCK, HZ, ("burst_max", 50), ("user_frac", 0)],
        ports: FEW,
        what: "frames per port",
        unit: "kframe/s",
        figure: |seen| seen.frames as f64 / FEW as f64 / seen.wall_s / 1e3,
        wanted: Wanted::Rate(50.0),
    },
    Request {
        settings: &[CLOCK, HZ, ("burst_max", 50), ("user_frac", 0), ("idle_poll", 1)],
        ports: FEW,
        what: "frames per port",
        unit: "kframe/s",
        figure: |seen| seen.frames as f64 / FEW as f64 / seen.wall_s / 1e3,
        wanted: Wanted::Above(50.0),
    },
    Request {
        settings: &[CLOCK, HZ, ("burst_max", 50), ("reg_frac", 10)],
        ports: FEW,
        what: "ticks per error check",
        unit: "ticks",
        figure: |seen| seen.ticks as f64 / (seen.status as f64).max(1.0),
        wanted: Wanted::Rate(10.0),
    },
];

const fn share(settings: &'static [(&'static str, i64)], wanted: f64) -> Request {
    let figure = |seen: &Observed| 100.0 * seen.user_ns as f64 / ((seen.user_ns + seen.loop_ns) as f64).max(1.0);
    Request { settings, ports: PORTS, what: "CPU share of the user", unit: "%", figure, wanted: Wanted::Share(wanted) }
}

/// Values measured during one span of time.
#[derive(Debug, Clone, Copy, Default)]
struct Observed {
    wall_s: f64,
    loop_ns: u64,
    user_ns: u64,
    frames: u64,
    /// Number of ticks since the loop began, and not only in the measured span, since the first
    /// status check is due at the loop's first tick.
    ticks: u64,
    status: u64,
}

/// Measured effect of a set of polling sysctls.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Checked {
    /// The settings and their values, without the prefix kern.polling.
    pub settings: String,
    /// Name of the measured quantity.
    pub what: &'static str,
    /// Unit of the figures.
    pub unit: &'static str,
    /// The expected value: a figure with its tolerance, or a minimum.
    pub requested: String,
    /// Median of the figures of all rounds.
    pub median: f64,
    /// Minimum and maximum of the figures of all rounds.
    pub range: [f64; 2],
    /// Number of rounds measured.
    pub n: usize,
    /// Set if the median is as expected.
    pub obeyed: bool,
}

/// Returns the number of spans measured.
pub(super) fn spans(options: &Options) -> usize {
    ASKED.len() * options.rounds.max(1)
}

/// Measures all settings on the options' core.
pub(super) fn measure(options: &Options, mut progress: impl FnMut(&str)) -> anyhow::Result<Vec<Checked>> {
    let span = Duration::from_millis(10 * options.span_ms);
    let mut all = Vec::new();
    for requested in &ASKED {
        let mut figures = Vec::new();
        for _ in 0..options.rounds.max(1) {
            if dispatch::stop_requested() {
                break;
            }
            progress(requested.what);
            figures.push((requested.figure)(&observe(requested, options.core, span)?));
        }
        figures.sort_by(f64::total_cmp);
        if !figures.is_empty() {
            all.push(requested.judged(&figures));
        }
    }
    Ok(all)
}

impl Request {
    fn judged(&self, figures: &[f64]) -> Checked {
        let median = figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN);
        let (requested, obeyed) = match self.wanted {
            Wanted::Share(share) => (format!("{share:.0} +-{BAND:.0}"), (median - share).abs() <= BAND),
            Wanted::Rate(rate) => {
                (format!("{rate:.0} +-{:.0} %", RATE_BAND * 100.0), (median / rate - 1.0).abs() <= RATE_BAND)
            }
            Wanted::Above(least) => (format!("more than {least:.0}"), median > least * (1.0 + RATE_BAND)),
        };
        let settings: Vec<String> = self.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let range = [figures.first(), figures.last()].map(|end| end.copied().unwrap_or(f64::NAN));
        let (what, unit, n) = (self.what, self.unit, figures.len());
        Checked { settings: settings.join(" "), what, unit, requested, median, range, n, obeyed }
    }
}

/// Phase in which the user thread uses the core before the measurement.
const WAITS: u8 = 0;
/// Phase in which the processor time of the user thread is measured.
const COUNTS: u8 = 1;
/// Phase in which the user thread ends.
const ENDS: u8 = 2;

fn observe(requested: &'static Request, core: usize, span: Duration) -> anyhow::Result<Observed> {
    let config = SwitchConfig::default();
    let switch = Switch::new(&config, Clock::live(Strategy::TscScaled))?;
    for at in 0..requested.ports {
        switch.add(&Spec::parse(&format!("pktgen(static=on):pg{at}"))?, None)?;
    }
    for (name, value) in requested.settings {
        let set = switch.sysctls.set(&format!("kern.polling.{name}"), *value);
        set.context("unknown sysctl")?.map_err(|why| anyhow!("kern.polling.{name}={value}: {why:?}"))?;
    }
    let phase = Arc::new(AtomicU8::new(WAITS));
    let user = {
        let phase = phase.clone();
        dispatch::spawn_worker("user", Some(core), move |pinned| use_core(pinned, &phase))?
    };
    let polls = {
        let phase = phase.clone();
        dispatch::spawn_worker("loop", Some(core), move |pinned| {
            let seen = pinned
                .map_or(Ok(()), Err)
                .map_err(anyhow::Error::from)
                .and_then(|()| poll(&switch, requested, &phase, span));
            phase.store(ENDS, Ordering::Relaxed);
            seen
        })?
    };
    let seen = polls.join().map_err(|_| anyhow!("the loop's thread panicked"))?;
    let user_ns = user.join().map_err(|_| anyhow!("the user thread panicked"))?;
    Ok(Observed { user_ns: user_ns?, ..seen? })
}

/// Runs the polling loop until it has adapted its burst size, then measures for `span`.
fn poll(switch: &Switch, requested: &Request, phase: &AtomicU8, span: Duration) -> anyhow::Result<Observed> {
    let run = |time: Duration| {
        let until = Instant::now() + time;
        switch.run(None, Until::Stopped, || Instant::now() >= until)
    };
    run(Duration::from_millis(SETTLE[usize::from(requested.ports == PORTS)]))?;
    let counts = || {
        let thread = switch.thread(0).context("the switch has no loop")?;
        let counts = &thread.polling.counts;
        anyhow::Ok([counts.frames.get(), counts.ticks.get(), counts.status.get()])
    };
    let (before, wall, cpu) = (counts()?[0], Instant::now(), os::thread_cpu_ns());
    phase.store(COUNTS, Ordering::Relaxed);
    run(span)?;
    phase.store(ENDS, Ordering::Relaxed);
    let (loop_ns, wall_s) = (os::thread_cpu_ns() - cpu, wall.elapsed().as_secs_f64());
    let [frames, ticks, status] = counts()?;
    let audit = switch.audit();
    ensure!(audit.holds(), "{audit:?}");
    Ok(Observed { wall_s, loop_ns, user_ns: 0, frames: frames - before, ticks, status })
}

/// Uses the core until the phase is `ENDS`; returns this thread's CPU time in the phase `COUNTS`,
/// in nanoseconds.
fn use_core(pinned: Option<std::io::Error>, phase: &AtomicU8) -> anyhow::Result<u64> {
    pinned.map_or(Ok(()), Err)?;
    os::be_nice().context("cannot lower the thread's priority")?;
    let until = |now: u8| {
        while phase.load(Ordering::Relaxed) < now {
            std::hint::spin_loop();
        }
        os::thread_cpu_ns()
    };
    let began = until(COUNTS);
    Ok(until(ENDS) - began)
}

pub(super) fn text(rows: &[Checked]) -> String {
    let mut out = format!(
        "\nkern.polling in real time, with a user thread on the loop's core\n\n{:<52}{:<24}{:>14}{:>11}  {:<19}{:>3}  met\n",
        "settings", "what", "expected", "median", "least, most", "n"
    );
    for row in rows {
        let range = row.range.map(table::number).join(", ");
        let _ = writeln!(
            out,
            "{:<52}{:<24}{:>14}{:>11}  {:<19}{:>3}  {}",
            row.settings,
            format!("{}, {}", row.what, row.unit),
            row.requested,
            table::number(row.median),
            range,
            row.n,
            if row.obeyed { "yes" } else { "no" }
        );
    }
    out
}
