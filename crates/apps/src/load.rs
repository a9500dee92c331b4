//! Workloads: clients of a service that ask in given proportions for a time, and say how often and how fast they were answered.
//!
//! ```text
//!  Load (a netperf Play)   near: Clients, each a connection with so many requests under way   far: hosted::Hosted
//!  Mix                     what is asked, and whether the answer is one: kv::Kvload (a database), files::Fileload
//!  hosted::Hosted          an app::App as a far end, at all the places where plays run
//! ```
//! The loop is closed: a client asks again when it was answered, so a slow server is asked less. Times are from a request's writing to
//! its answer's reading. Filling the service before is not counted, nor what is under way at the end. What is asked follows from a fixed seed.

mod clients;
mod files;
mod hosted;
mod kv;
mod report;
#[cfg(test)]
mod tests;
mod zipf;

pub use files::{FILE_MAX, FILES_MAX, Fileload, Files, TRANSFER};
pub use hosted::Hosted;
pub use kv::{KEYS_MAX, Kvload, Proportions, VALUE_MAX};
pub use report::Report;
pub use zipf::{Draw, Zipf};

use crate::app::App;
use crate::netperf::session::{Asked, Play, Round};
use crate::netperf::sockets::{Pace, Setup, Sockets, Waits};
use crate::slots::Limits;
use crate::streams::Failure;
use anyhow::Context;
use clients::Clients;
use clock::Duration;
use std::io::Write;
use std::marker::PhantomData;
use std::net::SocketAddr;

/// So long after something came the thread does not sleep: the next request, or its answer, is on its way.
const AWAKE: Duration = Duration::from_micros(300);
/// Clients there may be.
pub const CLIENTS_MAX: usize = 512;
/// Requests that each may have under way.
pub const DEPTH_MAX: usize = 1024;

/// What is asked.
pub trait Mix {
    /// The service that is asked.
    type App: App + std::fmt::Debug;

    /// Its L4 port.
    const PORT: u16;

    /// The workload's name.
    const NAME: &'static str;

    /// What kinds of requests there are.
    const KINDS: &'static [&'static str];

    /// Such a service, empty, with room for whatever the mix may be told to fill it with.
    fn app() -> Self::App;

    /// Writes the next request that fills the service; `false`: it is full, and nothing is written.
    fn fill(&mut self, out: &mut Vec<u8>) -> bool;

    /// Writes the next request of a client; says which kind it is.
    fn ask(&mut self, client: usize, out: &mut Vec<u8>) -> usize;

    /// The first answer in `bytes`, to a client's oldest request, which is of this kind (`None`: it was one that fills); says how
    /// long it is, or `None` while it is not whole.
    ///
    /// # Errors
    /// It is no answer to that.
    fn hear(&mut self, client: usize, kind: Option<usize>, bytes: &[u8]) -> anyhow::Result<Option<usize>>;

    /// What is asked, in a line.
    fn describe(&self) -> String;
}

/// A workload.
pub struct Load<'o, M> {
    /// What is asked.
    pub mix: M,
    /// For so long.
    pub time: Duration,
    /// Clients.
    pub clients: usize,
    /// Requests that each has under way.
    pub depth: usize,
    /// One JSON object instead of lines.
    pub json: bool,
    /// Where it prints.
    pub out: &'o mut dyn Write,
    /// What it found, once it is done.
    pub report: Option<Report>,
}

impl<M> std::fmt::Debug for Load<'_, M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Load").field("time", &self.time).field("clients", &self.clients).finish_non_exhaustive()
    }
}

impl<M: Mix> Play for Load<'_, M> {
    type Far = Service<M>;

    fn near<S: Sockets>(&mut self, sockets: &mut S, round: Round<'_, S>, at: SocketAddr) -> anyhow::Result<()> {
        let setup = Setup { nodelay: true, waits: Waits::Never, ..Setup::default() };
        let mut clients = Clients::connect(sockets, round, at, &setup, self.clients.clamp(1, CLIENTS_MAX))?;
        let played = clients
            .fill(sockets, round, &mut self.mix)
            .context("filling the service")
            .and_then(|()| clients.run(sockets, round, &mut self.mix, self.time, self.depth.clamp(1, DEPTH_MAX)));
        clients.close(sockets);
        round(sockets, Pace::Go);
        let report = Report { clients: self.clients, depth: self.depth, ..played? };
        let text = if self.json { report.json::<M>(&self.mix) } else { report.text::<M>(&self.mix) };
        self.report = Some(report);
        Ok(self.out.write_all(text.as_bytes())?)
    }
}

/// The service that a workload asks.
#[derive(Debug)]
pub struct Service<M>(PhantomData<M>);

impl<M: Mix> Asked for Service<M> {
    type End<S: Sockets> = Hosted<M::App, S>;

    const PORT: u16 = M::PORT;

    const CONNECTIONS: usize = CLIENTS_MAX;

    /// The application has limits of its own.
    fn open<S: Sockets>(sockets: &mut S, at: SocketAddr, _: Limits) -> Result<(Hosted<M::App, S>, u16), Failure> {
        Hosted::open(sockets, at, M::app())
    }
}
