//! Implements iperf3's protocol for both sides: [`Iperf3`] is a server for original iperf3 clients,
//! and [`Client`] measures against original iperf3 servers. "Stock iperf3" below means the original
//! program.
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
//! ACCESS_DENIED (-1), which stock servers send to every client but the first. Every phase of a
//! test has a time limit. Requests for SCTP or for authentication are answered with SERVER_ERROR
//! (-2) and the number of stock iperf3's error "not implemented yet".
//!
//! The payload repeats one block of data. Progress is counted in bytes, and the client decides when
//! the test ends.
//!
//! Latency under load is reported in two ways. As in stock iperf3, the report contains the
//! round-trip time that TCP measured in each interval. On request, and only against our own server,
//! the client also sends eight bytes every few milliseconds on a second connection, and the server
//! echoes them ([`probe`]). Stock servers send ACCESS_DENIED on that connection, and the test
//! continues without it.

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
/// Maximum number of parallel streams of a test in each direction.
pub const STREAMS_MAX: u32 = 128;

/// CPU time that the process has used so far.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct CpuTimes {
    /// CPU time in user mode, in seconds.
    pub user_s: f64,
    /// CPU time in the kernel, in seconds.
    pub system_s: f64,
}

impl CpuTimes {
    /// Returns the CPU times of this process.
    pub fn of_process() -> CpuTimes {
        let [user_s, system_s] = dispatch::process_cpu_s();
        CpuTimes { user_s, system_s }
    }
}

#[cfg(test)]
mod tests;
