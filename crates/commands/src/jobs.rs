//! Kinds of jobs ([`node::jobs`]): `ping`, `traceroute`, a TCP connection, a UDP socket, and a job
//! that first looks up a name.

mod datagrams;
mod named;
mod ping;
mod stream;
#[cfg(test)]
mod tests;
mod trace;

pub(crate) use datagrams::Datagrams;
pub(crate) use named::{Make, Named};
pub(crate) use ping::{Ping, PingConfig};
pub(crate) use stream::Stream;
pub(crate) use trace::{Trace, TraceConfig};

use clock::Duration;

/// Returns a time in milliseconds with three decimals, as ping prints it.
fn ms(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64() * 1e3)
}
