//! Settings and counters of a host's netisr, as `netstat -Q` shows them.

use super::protocols::PROTOCOLS;
use super::setup::WORKSTREAMS_MAX;
use crate::Host;
use dispatch::netisr::{Config, ProtocolRow, Settings, Snapshot, WorkRow};
use lock::Locks;

/// Returns the data of `netstat -Q`. Packets that the host sends to itself are queued for its loop.
/// They are counted as Queued in workstream 0, or in the stack's workstream if the host is split.
/// For a host without netisr, the loop is shown as the only workstream, which processes all other
/// frames directly.
#[inline(never)]
pub fn snapshot<L: Locks>(host: &Host<L>) -> Snapshot {
    let mut snapshot = match &host.isr {
        Some(isr) => isr.netisr.snapshot(),
        None => of_loop(host),
    };
    let own = host.stack.loop_use(host.cx());
    let at = host.isr.as_ref().and_then(|isr| isr.shard.as_ref()).map_or(0, |shard| shard.at);
    if let Some(row) = snapshot.row(at, "ip") {
        row.len += own.len;
        row.watermark = row.watermark.max(own.watermark);
        row.qdrops += own.dropped;
        row.queued += own.queued;
        row.handled += own.handled;
    }
    snapshot
}

fn of_loop<L: Locks>(host: &Host<L>) -> Snapshot {
    let defaults = Config::default();
    let counter = |name| host.stack.counter(name);
    let own = host.stack.loop_use(host.cx());
    let ip = counter("inet.ip4.received").saturating_sub(own.handled);
    let arp = counter("inet.arp.requests_received") + counter("inet.arp.replies_received");
    let ether = counter("inet.link.ether.received").saturating_sub(ip + arp);
    let work = PROTOCOLS.iter().zip([ip, arp, ether, 0]).map(|((name, _), n)| WorkRow {
        name,
        dispatched: n,
        handled: n,
        ..WorkRow::default()
    });
    let protocol = |(name, number): &(&'static str, u8)| ProtocolRow {
        name,
        number: *number,
        qlimit: if *name == "ip" { host.stack.sysctls.loop_queue.get() as usize } else { 0 },
        policy: Default::default(),
        dispatch: None,
        m2cpuid: false,
        m2flow: false,
        overtaken: 0,
    };
    Snapshot {
        settings: Settings {
            threads: 1,
            max_threads: WORKSTREAMS_MAX,
            default_qlimit: defaults.default_qlimit,
            max_qlimit: defaults.max_qlimit,
            ..Settings::default()
        },
        protocols: PROTOCOLS.iter().map(protocol).collect(),
        work: work.collect(),
        ..Snapshot::default()
    }
}
