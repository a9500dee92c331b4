//! A test from its banner to its figures, repeated as confidence wants it; and what carries such plays from place to place.

use super::confidence::{Runs, Wish};
use super::far::Far;
use super::near::{Interim, Near};
use super::report::{self, Style};
pub use super::sockets::Round;
use super::sockets::Sockets;
use super::{Options, PORT};
use crate::slots::Limits;
use crate::streams::Failure;
use clock::Instant;
use std::io::Write;
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

/// A far end, driven a turn at a time.
pub trait Turn<S: Sockets> {
    /// Does what can be done now; says whether that was something.
    fn turn(&mut self, sockets: &mut S, now: Instant) -> bool;
}

impl<S: Sockets> Turn<S> for Far<S> {
    #[inline]
    fn turn(&mut self, sockets: &mut S, now: Instant) -> bool {
        Far::turn(self, sockets, now)
    }
}

/// An end that is asked, whatever its sockets are and wherever it stands.
pub trait Asked {
    /// It, over sockets of a kind.
    type End<S: Sockets>: Turn<S>;

    /// Where it listens, unless another L4 port is given.
    const PORT: u16;

    /// Connections at a time, unless another number is given.
    const CONNECTIONS: usize;

    /// Makes it, at `at`; L4 port 0 picks one. Says which it has.
    ///
    /// # Errors
    /// The address is taken.
    fn open<S: Sockets>(sockets: &mut S, at: SocketAddr, limits: Limits) -> Result<(Self::End<S>, u16), Failure>;

    /// Opens it for one near end, which may have all of [`Asked::CONNECTIONS`].
    ///
    /// # Errors
    /// As [`Asked::open`].
    fn open_for_one<S: Sockets>(sockets: &mut S, at: SocketAddr) -> Result<(Self::End<S>, u16), Failure> {
        Self::open(sockets, at, Limits::shared_by_one(Self::CONNECTIONS))
    }
}

/// Something that two ends do, whatever is between them.
pub trait Play {
    /// The end that is asked.
    type Far: Asked;

    /// Does the near end's part against the far end at `at`; `round` is what passes while it waits.
    ///
    /// # Errors
    /// What went wrong, in a sentence.
    fn near<S: Sockets>(&mut self, sockets: &mut S, round: Round<'_, S>, at: SocketAddr) -> anyhow::Result<()>;
}

/// netserver: asked by netperf's tests.
#[derive(Debug)]
pub struct Netserver;

impl Asked for Netserver {
    type End<S: Sockets> = Far<S>;

    const PORT: u16 = PORT;

    const CONNECTIONS: usize = 64;

    fn open<S: Sockets>(sockets: &mut S, at: SocketAddr, limits: Limits) -> Result<(Far<S>, u16), Failure> {
        let far = Far::open(sockets, at, limits)?;
        let port = far.port(sockets)?;
        Ok((far, port))
    }
}

/// A test with its repetitions, and how it is printed.
pub struct Session<'o> {
    /// The test.
    pub options: Options,
    /// How well its mean is to be known; `None`: one run.
    pub wish: Option<Wish>,
    /// What is printed.
    pub style: Style,
    /// One JSON object instead.
    pub json: bool,
    /// Where to.
    pub out: &'o mut dyn Write,
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Play for Session<'_> {
    type Far = Netserver;

    fn near<S: Sockets>(&mut self, sockets: &mut S, round: Round<'_, S>, at: SocketAddr) -> anyhow::Result<()> {
        let Session { options, wish, style, json, out } = self;
        if style.headers && !*json {
            out.write_all(report::banner(style, options, wish.as_ref()).as_bytes())?;
            out.flush()?;
        }
        let (mut runs, mut outcomes) = (Runs::default(), Vec::new());
        loop {
            let tell = |interim: Interim| {
                if !*json {
                    // A reader that is gone is found out by the figures.
                    let _ = out.write_all(report::interim(options.test, &interim, time_of_day()).as_bytes());
                    let _ = out.flush();
                }
            };
            let outcome = Near::new(sockets, &mut *round, tell).run(at, options)?;
            runs.add(outcome.merit());
            let cut = outcome.cut;
            outcomes.push(outcome);
            if cut || wish.as_ref().is_none_or(|wish| runs.is_enough(wish)) {
                break;
            }
        }
        let Some(mean) = report::mean(&outcomes) else { return Ok(()) };
        if *json {
            return Ok(writeln!(out, "{}", report::json(style, &mean, &runs, wish.as_ref()))?);
        }
        if let Some(wish) = wish.as_ref().filter(|wish| runs.width(wish.level) > wish.width) {
            out.write_all(report::warning(&runs, wish).as_bytes())?;
        }
        Ok(out.write_all(report::figures(style, &mean).as_bytes())?)
    }
}

fn time_of_day() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
