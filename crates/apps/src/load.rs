//! Workloads: clients send requests to a service in given proportions for some time and report the
//! rate and the response times.
//!
//! ```text
//!  Load (a netperf Play)   near: Clients, connections with requests in flight; far: Hosted
//!  Mix                     creates requests, checks answers: kv::Kvload, files::Fileload
//!  hosted::Hosted          an app::App as a far end, wherever plays run
//! ```
//!
//! The loop is closed: a client sends a new request after an answer, so a slow server receives
//! fewer. Times run from writing a request to reading its answer. Filling the service beforehand
//! and requests in flight at the end are not counted. Requests are derived from a fixed seed.

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
use crate::netperf::session::{FarEnd, Play, Round};
use crate::netperf::sockets::{Pace, Setup, Sockets, Waits};
use crate::slots::Limits;
use crate::streams::Failure;
use anyhow::Context;
use clients::Clients;
use clock::Duration;
use std::io::Write;
use std::marker::PhantomData;
use std::net::SocketAddr;

/// Time the thread stays awake after activity, since the next request or answer is expected soon.
const AWAKE: Duration = Duration::from_micros(300);
/// Maximum number of clients.
pub const CLIENTS_MAX: usize = 512;
/// Maximum number of requests in flight per client.
pub const DEPTH_MAX: usize = 1024;

/// A mix of requests for a service.
pub trait Mix {
    /// The service under load.
    type App: App + std::fmt::Debug;

    const PORT: u16;

    /// Name of the workload.
    const NAME: &'static str;

    /// Names of the kinds of requests.
    const KINDS: &'static [&'static str];

    /// Creates an empty service with room for the largest data set that the flags permit.
    fn app() -> Self::App;

    /// Writes the next request for filling the service; returns `false` when it is filled.
    fn fill(&mut self, out: &mut Vec<u8>) -> bool;

    /// Writes the next request of a client; returns its kind.
    fn ask(&mut self, client: usize, out: &mut Vec<u8>) -> usize;

    /// Parses the first answer in `bytes`, which belongs to a client's oldest request of this kind
    /// (`None`: a filling request). Returns its length, or `None` while it is incomplete.
    ///
    /// # Errors
    /// It is not a valid answer to the request.
    fn on_reply(&mut self, client: usize, kind: Option<usize>, bytes: &[u8]) -> anyhow::Result<Option<usize>>;

    /// Describes the mix in one line.
    fn describe(&self) -> String;
}

pub struct Load<'o, M> {
    /// The mix of requests.
    pub mix: M,
    /// Duration of the measurement.
    pub time: Duration,
    pub clients: usize,
    /// Requests in flight per client.
    pub depth: usize,
    /// Prints one JSON object instead of text.
    pub json: bool,
    /// Destination of the output.
    pub out: &'o mut dyn Write,
    /// The results, once done.
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

/// The service under load.
#[derive(Debug)]
pub struct Service<M>(PhantomData<M>);

impl<M: Mix> FarEnd for Service<M> {
    type End<S: Sockets> = Hosted<M::App, S>;

    const PORT: u16 = M::PORT;

    const CONNECTIONS: usize = CLIENTS_MAX;

    /// `Limits` is not used: the application has its own limits.
    fn open<S: Sockets>(sockets: &mut S, at: SocketAddr, _: Limits) -> Result<(Hosted<M::App, S>, u16), Failure> {
        Hosted::open(sockets, at, M::app())
    }
}
