//! Workloads: clients send a mix of requests to a service for some time and report the request rate
//! and the response times.
//!
//! ```text
//!  Load (a netperf Play)   client side: Clients, with requests in flight; server side: Hosted
//!  Mix                     creates requests, checks answers: kv::Kvload, files::Fileload
//!  hosted::Hosted          runs an app::App as the server side
//! ```
//!
//! The load is closed-loop: once a client's maximum number of requests is in flight, it sends a new
//! request only after an answer, so a slow server receives fewer requests. A response time is
//! measured from writing a request to reading its answer. Requests that fill the service with data
//! beforehand, and requests in flight at the end, are not counted. All requests are derived from a
//! fixed seed.

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
pub use zipf::Zipf;

use crate::app::App;
use crate::netperf::session::{FarEnd, Play, Round};
use crate::netperf::sockets::{Pace, Setup, Sockets, Waits};
use crate::slots::Limits;
use crate::streams::Failure;
use anyhow::Context;
use clients::Clients;
use std::io::Write;
use std::marker::PhantomData;
use std::net::SocketAddr;
use std::time::Duration;

/// Time for which the thread polls without sleeping after activity, since the next request or
/// answer is expected soon.
const AWAKE: Duration = Duration::from_micros(300);
/// Maximum number of clients.
pub const CLIENTS_MAX: usize = 512;
/// Maximum number of requests in flight per client.
pub const DEPTH_MAX: usize = 1024;

/// A mix of requests for one kind of service.
pub trait Mix {
    /// The application that serves the requests.
    type App: App + std::fmt::Debug;

    const PORT: u16;

    /// Name of the workload.
    const NAME: &'static str;

    /// Names of the kinds of requests, such as GET and SET.
    const KINDS: &'static [&'static str];

    /// Creates the service without data, with limits for the largest data set that the flags
    /// permit.
    fn app() -> Self::App;

    /// Writes the next request that fills the service with data before the measurement; returns
    /// `false` when the service is filled.
    fn fill(&mut self, out: &mut Vec<u8>) -> bool;

    /// Writes the next request of a client; returns the index of its kind in [`Mix::KINDS`].
    fn ask(&mut self, client: usize, out: &mut Vec<u8>) -> usize;

    /// Parses the first answer in `bytes`, which belongs to the client's oldest request in flight.
    /// `kind` is the kind of that request, `None` if it filled the service. Returns the length of
    /// the answer in bytes, or `None` while the answer is incomplete.
    ///
    /// # Errors
    /// The bytes are not a valid answer to the request.
    fn on_reply(&mut self, client: usize, kind: Option<usize>, bytes: &[u8]) -> anyhow::Result<Option<usize>>;

    /// Describes the mix in one line.
    fn describe(&self) -> String;
}

pub struct Load<'o, M> {
    /// The mix of requests to send.
    pub mix: M,
    /// Duration of the measurement.
    pub time: Duration,
    pub clients: usize,
    /// Number of requests in flight per client.
    pub depth: usize,
    /// Prints one JSON object instead of text.
    pub json: bool,
    /// Destination of the output.
    pub out: &'o mut dyn Write,
    /// The results of the measurement, once it is complete.
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
            .context("cannot fill the service with data")
            .and_then(|()| clients.run(sockets, round, &mut self.mix, self.time, self.depth.clamp(1, DEPTH_MAX)));
        clients.close(sockets);
        round(sockets, Pace::Go);
        let report = Report { clients: self.clients, depth: self.depth, ..played? };
        let text = if self.json { report.json::<M>(&self.mix) } else { report.text::<M>(&self.mix) };
        self.report = Some(report);
        Ok(self.out.write_all(text.as_bytes())?)
    }
}

/// The server side of a workload: runs the application of `M` as the far end of a [`Play`].
#[derive(Debug)]
pub struct Service<M>(PhantomData<M>);

impl<M: Mix> FarEnd for Service<M> {
    type End<S: Sockets> = Hosted<M::App, S>;

    const PORT: u16 = M::PORT;

    const CONNECTIONS: usize = CLIENTS_MAX;

    /// Opens the service. `Limits` are not used, since the application has its own limits.
    fn open<S: Sockets>(sockets: &mut S, at: SocketAddr, _: Limits) -> Result<(Hosted<M::App, S>, u16), Failure> {
        Hosted::open(sockets, at, M::app())
    }
}
