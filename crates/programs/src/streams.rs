//! Sockets of a host that the calling thread runs.
//!
//! [`Streams::poll`](apps::streams::Streams::poll) of [`HostStreams`] is one iteration of the
//! host's main loop. It runs one round of the host, which also runs the timers, and then collects
//! the events of the sockets. If there are no events, it sleeps. Incoming segments are therefore
//! answered before the thread sleeps.

use apps::streams::net::{NetStreams, Token, Wait};
use clock::Instant;
use linerate::net::Poll;
use lock::Locks;
use node::Host;
use node::run::{Runner, Running};
use port::Pairs;
use socket::Calls;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

/// The sockets of one host, used by the thread that runs the applications. Their calls use the time
/// of the last round.
pub type HostStreams<'h, L> = NetStreams<Rc<Calls<'h, L>>, Rounds<'h, L>>;

/// Runs rounds of a host.
pub struct Rounds<'h, L: Locks> {
    host: &'h Host<L>,
    calls: Rc<Calls<'h, L>>,
    around: Option<Around<'h, L>>,
    notices: Vec<String>,
}

/// State needed to run the host's main loop: the runner, the programs, and the paired ports of this
/// process.
struct Around<'h, L: Locks> {
    runner: Runner<L>,
    programs: Running<'h>,
    pairs: &'h Pairs,
}

/// Creates the sockets of `host`. Polling runs the host with `runner`, which also serves the host's
/// datagram services and control socket. It also runs `programs`, for the other services of the
/// host.
pub fn running<'h, L: Locks>(
    host: &'h Host<L>,
    runner: Runner<L>,
    programs: Running<'h>,
    pairs: &'h Pairs,
) -> HostStreams<'h, L> {
    with(host, Some(Around { runner, programs, pairs }))
}

/// Creates sockets on a `host` whose main loop runs elsewhere, so that polling never waits. The
/// caller sets the time with [`Rounds::set_now`] before each turn.
pub fn beside<L: Locks>(host: &Host<L>) -> HostStreams<'_, L> {
    with(host, None)
}

fn with<'h, L: Locks>(host: &'h Host<L>, around: Option<Around<'h, L>>) -> HostStreams<'h, L> {
    let calls = Rc::new(host.calls());
    NetStreams::waiting(&calls, Rounds { host, calls: calls.clone(), around, notices: Vec::new() })
}

impl<L: Locks> Rounds<'_, L> {
    /// Sets the time that the following socket calls use.
    pub fn set_now(&mut self, now: Instant) {
        self.calls.set_now(now);
    }

    /// Returns the runner, if polling runs the host's main loop.
    pub fn runner(&self) -> Option<&Runner<L>> {
        self.around.as_ref().map(|around| &around.runner)
    }

    /// Ends the programs that were passed to [`running`].
    pub fn end_programs(&mut self) {
        if let Some(around) = &mut self.around {
            around.programs.end();
        }
    }

    /// Returns the pending notices about ports that have ended, and clears them.
    pub fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }
}

impl<'h, L: Locks> Wait<Rc<Calls<'h, L>>> for Rounds<'h, L> {
    fn wait(&mut self, poll: &Poll<Rc<Calls<'h, L>>>, ready: &mut Vec<Token>, timeout: Duration) {
        let Rounds { host, calls, around, notices } = self;
        let before = ready.len();
        let mut look = || {
            calls.set_now(host.clock.now());
            poll.take_ready(ready);
            ready.len() - before
        };
        match around {
            Some(Around { runner, programs, pairs }) => {
                let patience = programs.patience(|| host.clock.now(), timeout);
                let mut others = || look() + programs.turn(host);
                runner.round_with(host, pairs, &mut |text| notices.push(text), patience, &[], &mut others);
                programs.report(&mut |line| notices.push(format!("{}: {line}", host.stack.name)));
            }
            None => _ = look(),
        }
        calls.set_now(host.clock.now());
    }
}

impl<L: Locks> fmt::Debug for Rounds<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rounds").field("host", &self.host).finish_non_exhaustive()
    }
}
