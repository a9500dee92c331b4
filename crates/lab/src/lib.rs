//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! Performance measurement: trials, samples, comparisons, ladders (series of settings), and
//! reproductions of published reports.
//!
//! A [`side::Side`] builds a [`subject::Subject`], which does the same work in each trial and
//! returns a [`subject::Reading`]. [`run::interleave`] builds all sides anew for each round and
//! interleaves their trials; it returns one [`sample::Sample`] per side, aligned by round.
//! [`sample`] reduces samples to medians and paired ratios with intervals over builds; [`verdict`]
//! judges them. [`study`] collects the rows, and [`result`] defines the result file of a run.
//! [`table`] and [`plot`] render the file as text and as a chart, [`page`] displays many files in a
//! browser, [`gate`] compares a run with an earlier run, and [`mod@env`] describes the machine.
//! [`ministat`] reproduces the output of FreeBSD's ministat, byte for byte; [`cfmt`] and [`cscan`]
//! are the parts of the C library that it needs.
//!
//! ```
//! # use linerate_lab as lab; // the name by which other crates import it
//! use lab::{result::Change, run, side::Side, subject, verdict::NoiseFloor};
//!
//! let work =
//!     |n: u64| move || Ok(subject::measure(n, || (0..n).map(std::hint::black_box).sum::<u64>()));
//! let side = |id: &'static str| Side::new(id, move || Ok(subject::from_fn(id, work(20_000))));
//! let before = side("sum.before");
//! let sides = [before.clone(), before.twin(), side("sum.after")];
//!
//! let options = run::Options { keep: 10, max_seconds: Some(1.0), ..Default::default() };
//! let [before, twin, after] =
//!     run::interleave(&sides, &options)?.try_into().map_err(|_| anyhow::anyhow!("three"))?;
//! let change = Change::paired(&before, &after, &NoiseFloor::of(&before, &twin)?)?;
//! println!("{:.3} [{:.3}, {:.3}]: {}", change.ratio, change.lo, change.hi, change.verdict);
//! # anyhow::Ok(())
//! ```
//!
//! [`profile`] is a sampling profiler of a command's processor time.
//!
//! Unsafe code is confined to `tsc` (the time-stamp counter), `os` and `native::batch` (system
//! calls), `dylib` (a loaded rung's symbols), and `profile::signal` (timers, and the handler that
//! walks its thread's stack).
#![deny(unsafe_code)]

pub mod ab;
pub mod alarm;
pub mod bench;
pub mod cfmt;
mod child;
pub mod cscan;
mod dylib;
pub mod env;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod gate;
pub mod ladder;
pub mod ledger;
pub mod livelock;
pub mod measuring;
pub mod ministat;
pub mod native;
pub mod netperf;
pub mod os;
pub mod page;
pub mod plot;
pub mod profile;
pub mod repro;
pub mod result;
pub mod rfc2544;
pub mod rigs;
pub mod run;
pub mod sample;
pub mod selftest;
pub mod side;
mod source;
pub mod study;
pub mod subject;
pub mod table;
pub mod timer;
pub mod tsc;
pub mod verdict;

/// Runs the child's main loop and exits, if this process was started as a child of a rig; returns
/// otherwise. A measuring program calls it first, before it reads its arguments or starts a thread.
pub fn child_main_if_requested() {
    use native::{forward, routed, send, tap};
    use repro::curl;
    use rigs::idle;
    let Some((kind, role)) = child::requested_role() else { return };
    let served = match kind.as_str() {
        send::KIND => send::serve(&role),
        tap::KIND => tap::serve(&role),
        forward::KIND => forward::serve(&role),
        routed::KIND => routed::serve(&role),
        curl::KIND => curl::serve(&role),
        idle::KIND => idle::serve(&role),
        dylib::KIND => dylib::serve(&role),
        selftest::BUSY => selftest::serve_busy(),
        _ => child::serve(|| Err(anyhow::anyhow!("unknown child role '{kind}'")), |(), _| Ok(String::new())),
    };
    std::process::exit(if served.is_ok() { 0 } else { 1 });
}
