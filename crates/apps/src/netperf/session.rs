//! Runs a test from banner to results, and repeats it until the requested confidence is reached.
//! Also defines the traits that tests and tools (together called "plays") implement. A play runs
//! between a near end and a far end, over any implementation of sockets.

use super::confidence::{ConfidenceGoal, Runs};
use super::far::Far;
use super::near::{Interim, Near};
use super::report::{self, Style};
pub use super::sockets::Round;
use super::sockets::Sockets;
use super::{Options, PORT};
use crate::slots::Limits;
use crate::streams::Failure;
use linerate::stack::Instant;
use std::io::Write;
use std::net::SocketAddr;
use std::time::{SystemTime, UNIX_EPOCH};

/// A far end (server of a test) whose caller runs it one turn at a time.
pub trait Turn<S: Sockets> {
    /// Accepts connections, receives and sends as far as is possible without waiting; returns
    /// whether there was anything to do.
    fn turn(&mut self, sockets: &mut S, now: Instant) -> bool;
}

impl<S: Sockets> Turn<S> for Far<S> {
    #[inline]
    fn turn(&mut self, sockets: &mut S, now: Instant) -> bool {
        Far::turn(self, sockets, now)
    }
}

/// A kind of far end (server of a test), which can run on any sockets.
pub trait FarEnd {
    /// Type of the running far end, on sockets of type `S`.
    type End<S: Sockets>: Turn<S>;

    /// Default L4 port on which the far end listens.
    const PORT: u16;

    /// Default maximum number of connections.
    const CONNECTIONS: usize;

    /// Opens the far end at the address `at`; L4 port 0 selects a free port. Returns the far end
    /// and its port.
    ///
    /// # Errors
    /// The address is in use.
    fn open<S: Sockets>(sockets: &mut S, at: SocketAddr, limits: Limits) -> Result<(Self::End<S>, u16), Failure>;

    /// Opens the far end for a single near end, which may use all [`FarEnd::CONNECTIONS`].
    ///
    /// # Errors
    /// The errors of [`FarEnd::open`].
    fn open_for_one<S: Sockets>(sockets: &mut S, at: SocketAddr) -> Result<(Self::End<S>, u16), Failure> {
        Self::open(sockets, at, Limits::shared_by_one(Self::CONNECTIONS))
    }
}

/// A test or tool with a near end (client) and a far end (server), which runs on any network
/// between them.
pub trait Play {
    /// The far end that the near end requires.
    type Far: FarEnd;

    /// Runs the near end against the far end at the address `at`; calls `round` while it waits.
    ///
    /// # Errors
    /// The reason why the near end failed.
    fn near<S: Sockets>(&mut self, sockets: &mut S, round: Round<'_, S>, at: SocketAddr) -> anyhow::Result<()>;
}

/// netserver, the far end of netperf's tests.
#[derive(Debug)]
pub struct Netserver;

impl FarEnd for Netserver {
    type End<S: Sockets> = Far<S>;

    const PORT: u16 = PORT;

    const CONNECTIONS: usize = 64;

    fn open<S: Sockets>(sockets: &mut S, at: SocketAddr, limits: Limits) -> Result<(Far<S>, u16), Failure> {
        let far = Far::open(sockets, at, limits)?;
        let port = far.port(sockets)?;
        Ok((far, port))
    }
}

/// A test with its repetitions and its output.
pub struct Session<'o> {
    /// Options of the test.
    pub options: Options,
    /// Width of the confidence interval that the user requested; `None`: the test runs once.
    pub wish: Option<ConfidenceGoal>,
    pub style: Style,
    /// Prints one JSON object instead of text.
    pub json: bool,
    /// Destination of the output.
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
                    // If writing fails here, it fails again when the results are written, and the
                    // error is reported then.
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
