//! iperf3's protocol, both roles: stock clients measure against [`Iperf3`], [`Client`] measures against stock servers.
//!
//! ```text
//!  client                                     server
//!  connects, cookie (36 letters, NUL)    ->
//!                                        <-   9  PARAM_EXCHANGE
//!  length, JSON: time, parallel, ...     ->
//!                                        <-   10 CREATE_STREAMS
//!  TCP: so many connections, each the cookie; UDP: a datagram for each, answered
//!                                        <-   1  TEST_START, 2 TEST_RUNNING
//!  bytes                                 <->  bytes
//!  4 TEST_END                            ->
//!                                        <-   13 EXCHANGE_RESULTS
//!  length, JSON: bytes of each stream    ->
//!                                        <-   length, JSON; 14 DISPLAY_RESULTS
//!  16 IPERF_DONE                         ->   (the report)
//! ```
//! Several tests at a time, up to [`Config::clients_max`]; who comes beyond them is told ACCESS_DENIED (-1), as stock servers
//! tell everybody who comes second. No side can be held for ever: every phase has its time. SCTP and passwords are
//! answered with SERVER_ERROR (-2) and the number of "not implemented".
//!
//! What is sent is the same block again and again. Blocks are counted in bytes; the client decides when enough has come.
//!
//! Latency under load: the round trips that our TCP measured, at each interval, as stock iperf3 reports them; and, if asked for
//! and the server is one of ours, a connection beside the test on which eight bytes go there and back every few
//! milliseconds ([`probe`]). Stock servers tell that connection ACCESS_DENIED, and the test goes on without it.

mod client;
mod file;
mod json;
mod pace;
mod params;
mod probe;
mod proto;
mod report;
mod results;
mod server;
mod session;
mod stream;
mod test;

pub use client::{Client, ClientConfig, ClientCounts, ClientError};
pub use params::{DATAGRAM, Params, Protocol, Refused, UDP_RATE};
pub use probe::Latency;
pub use proto::{COOKIE, Counters, Stamp};
pub use report::RateUnit;
pub use server::{Config, Iperf3, Iperf3Counts};

/// The usual L4 port.
pub const PORT: u16 = 5201;
/// Streams of a test in each direction.
pub const STREAMS_MAX: u32 = 128;

/// Processor time used so far.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CpuTimes {
    /// Seconds in user mode.
    pub user_s: f64,
    /// Seconds in the kernel.
    pub system_s: f64,
}

impl CpuTimes {
    /// Returns those of this process.
    pub fn of_process() -> CpuTimes {
        let [user_s, system_s] = dispatch::process_cpu_s();
        CpuTimes { user_s, system_s }
    }
}

#[cfg(test)]
mod tests;
