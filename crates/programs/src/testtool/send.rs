//! `send`: one thread calls sendto in a loop without pause.

use super::{Options, Outcome};
use anyhow::Context;
use lock::Locks;
use node::Host;
use port::pktgen;
use socket::Domain;
use std::net::SocketAddr;
use std::time::Instant;

/// Number of sendto calls between two checks of the stop flag and the timers.
const ROUND: u64 = 4096;
/// Destination L4 port of the datagrams.
const PORT: u16 = 55_443;

pub(super) fn run<L: Locks>(host: &Host<L>, options: &Options) -> anyhow::Result<Outcome> {
    let calls = host.calls();
    let to = SocketAddr::new(pktgen::net(options.family, 0, 2), PORT);
    let fd = calls.socket_of(Domain::of(&to))?;
    host.stack.sysctls.tx_burst.set(options.burst as i64);
    let payload = vec![0x5a; options.size];
    host.step(); // finishes the work of the configuration
    let port = host.ports().into_iter().next().context("the rc script did not create an interface")?.counts;
    let (frames, bytes) = (port.tx.frames.get(), port.tx.bytes.get());
    let mut sent = 0;
    let start = Instant::now();
    while !dispatch::stop_requested() && (options.count == 0 || sent < options.count) {
        let round = if options.count == 0 { ROUND } else { ROUND.min(options.count - sent) };
        for _ in 0..round {
            calls.send_to(fd, &payload, &to).with_context(|| format!("sendto {to} failed after {sent} datagrams"))?;
        }
        sent += round;
        calls.set_now(host.step().now);
    }
    host.stack.flush(host.cx());
    let mut outcome = Outcome::new(options.mode, 1, start.elapsed());
    (outcome.source_count, outcome.source_bytes) = (sent, sent * options.size as u64);
    (outcome.sink_count, outcome.sink_bytes) = (port.tx.frames.get() - frames, port.tx.bytes.get() - bytes);
    calls.close(fd)?;
    Ok(outcome.audited(host))
}
