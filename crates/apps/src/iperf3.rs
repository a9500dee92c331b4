//! iperf3's protocol in both roles: stock clients can measure against [`Iperf3`], and [`Client`]
//! against stock servers.
//!
//! ```text
//!  client                                     server
//!  connects, cookie (36 characters, NUL) ->
//!                                        <-   9  PARAM_EXCHANGE
//!  length, JSON: time, parallel, ...     ->
//!                                        <-   10 CREATE_STREAMS
//!  TCP: one connection per stream, starting with the cookie; UDP: one datagram each, answered
//!                                        <-   1  TEST_START, 2 TEST_RUNNING
//!  bytes                                 <->  bytes
//!  4 TEST_END                            ->
//!                                        <-   13 EXCHANGE_RESULTS
//!  length, JSON: bytes of each stream    ->
//!                                        <-   length, JSON; 14 DISPLAY_RESULTS
//!  16 IPERF_DONE                         ->   (the report)
//! ```
//!
//! The server runs up to [`Config::clients_max`] tests at a time. Further clients receive
//! ACCESS_DENIED (-1), which stock servers send to any client but the first. Every phase has a
//! time limit. SCTP and passwords are answered with SERVER_ERROR (-2) and the number of "not
//! implemented".
//!
//! The payload is the same block again and again. Blocks are counted in bytes; the client decides
//! when the test ends.
//!
//! Latency under load is reported in two ways: the round-trip times measured by our TCP in each
//! interval, as in stock iperf3; and, on request and only against our server, a connection beside
//! the test that echoes eight bytes every few milliseconds ([`probe`]). Stock servers send
//! ACCESS_DENIED on that connection, and the test continues without it.

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

/// Default L4 port.
pub const PORT: u16 = 5201;
/// Maximum number of streams of a test per direction.
pub const STREAMS_MAX: u32 = 128;

/// CPU time used so far.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CpuTimes {
    /// Seconds in user mode.
    pub user_s: f64,
    /// Seconds in the kernel.
    pub system_s: f64,
}

impl CpuTimes {
    /// Returns the times of this process.
    pub fn of_process() -> CpuTimes {
        let [user_s, system_s] = dispatch::process_cpu_s();
        CpuTimes { user_s, system_s }
    }
}

#[cfg(test)]
mod tests;
