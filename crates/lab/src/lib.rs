//! Trials, samples, comparisons, ladders, reproductions.
//!
//! A [`subject::Subject`] does the same work each time it is asked and answers with a [`subject::Reading`].
//! [`run::interleave`] asks several subjects in turn, A B B A, and returns one [`sample::Sample`] each, aligned by round.
//! [`sample`] reduces samples to medians and paired ratios with intervals; [`verdict`] says in one word what they show.
//! [`result`] is the file a run leaves behind, [`table`] and [`plot`] are its two pictures, [`page`] is many of them in a browser,
//! [`gate`] says whether a run is as fast as an earlier one, [`mod@env`] where it was made.
//! [`ministat`] is FreeBSD's old friend, byte for byte; [`cfmt`] and [`cscan`] are the parts of C it needs.
//!
//! ```
//! # use linerate_lab as lab; // the name other crates know it by
//! use lab::{run, subject, verdict};
//!
//! let work = |n: u64| move || Ok(subject::measure(n, || (0..n).map(std::hint::black_box).sum::<u64>()));
//! let options = run::Options { keep: 10, max_seconds: Some(1.0), ..Default::default() };
//! let mut subjects = [subject::from_fn("sum.before", work(20_000)), subject::from_fn("sum.after", work(20_000))];
//!
//! let [a, again] = run::against_itself(subjects[0].as_mut(), &options, &mut |_| ())?;
//! let floor = verdict::NoiseFloor::of(&a, &again)?;
//! let samples = run::interleave(&mut subjects, &options, &mut |_| ())?;
//! let change = lab::result::Change::paired(&samples[0], &samples[1], &floor)?;
//! println!("{:.3} [{:.3}, {:.3}]: {}", change.ratio, change.lo, change.hi, change.verdict);
//! # anyhow::Ok(())
//! ```
//!
//! [`profile`] says where a command's processor time goes.
//!
//! Unsafe code is confined to `tsc` (the time-stamp counter), `os` and `native::batch` (system calls), `dylib` (loading the
//! ladder's first rungs), and `profile::signal` (timers, and the handler that walks its thread's stack).
#![deny(unsafe_code)]

pub mod ab;
pub mod bench;
pub mod cfmt;
mod child;
pub mod cscan;
mod dylib;
pub mod env;
pub mod gate;
pub mod ladder;
pub mod ledger;
pub mod livelock;
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
pub mod study;
pub mod subject;
pub mod table;
pub mod timer;
pub mod tsc;
pub mod verdict;

/// Serves and does not return, if this process was started to be a child of one of the rigs. A program that measures calls it
/// before anything else: before it reads its arguments, and before it starts a thread.
pub fn child_main_if_asked() {
    use native::{forward, routed, send, tap};
    use repro::curl;
    use rigs::idle;
    let Some((kind, role)) = child::asked() else { return };
    let served = match kind.as_str() {
        send::KIND => send::serve(&role),
        tap::KIND => tap::serve(&role),
        forward::KIND => forward::serve(&role),
        routed::KIND => routed::serve(&role),
        curl::KIND => curl::serve(&role),
        idle::KIND => idle::serve(&role),
        _ => child::serve(|| Err(anyhow::anyhow!("{kind}: nobody I know")), |(), _| Ok(String::new())),
    };
    std::process::exit(if served.is_ok() { 0 } else { 1 });
}
