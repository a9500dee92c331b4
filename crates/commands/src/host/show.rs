//! `show`: pools, locks, ports, drops and the places where they occur, counters, netisr, the cost
//! ledger (CPU ticks by processing stage), sockets, topology.

use super::context::{Ctl, DONE, HostForm};
use super::{fpm, isr, lcp, places, reload, ss, topology};
use crate::statement;
use buf::PoolStats;
use grammar::Form;
use lock::Locks;
use serde_json::{Map, Value, json};
use stats::{DropReason, Entry};
use std::marker::PhantomData;

/// Syntax forms of `show`.
pub(super) struct Forms<L>(PhantomData<L>);

impl<L: Locks> Forms<L> {
    pub(super) const ALL: &[HostForm<L>] = &[
        Form { grammar: "pools", about: "Show the buffer pools.", run: |ctl, _| Ok(pools(ctl)) },
        Form { grammar: "locks", about: "Show the number of acquisitions of each lock.", run: |ctl, _| Ok(locks(ctl)) },
        Form {
            grammar: "ports",
            about: "Show each port: capabilities, state, warnings, counters.",
            run: |ctl, _| Ok(ports(ctl)),
        },
        Form {
            grammar: "nic",
            about: "Show the state of nic ports.",
            run: |ctl, _| {
                let of = |port: node::PortInfo| Some((ctl.iface_name(port.iface).to_string(), port.nic?));
                crate::cards::shown(&ctl.host.ports().into_iter().filter_map(of).collect::<Vec<_>>(), ctl.json)
            },
        },
        Form {
            grammar: "drops",
            about: "Show dropped packets by reason.",
            run: |ctl, _| {
                let is_reason = |entry: &Entry| DropReason::ALL.iter().any(|reason| reason.name() == entry.name);
                Ok(entries(ctl, |entry| entry.value > 0 && is_reason(entry)))
            },
        },
        Form {
            grammar: "places",
            about: "Show the source lines that dropped packets.",
            run: |ctl, _| Ok(places::shown(ctl)),
        },
        Form {
            grammar: "counters",
            about: "Show all counters with their descriptions.",
            run: |ctl, _| Ok(entries(ctl, |_| true)),
        },
        Form { grammar: "isr", about: "Show the workstreams of netisr.", run: |ctl, _| Ok(isr::shown(ctl)) },
        Form {
            grammar: "ledger [on|off]",
            about: "Show the CPU ticks spent in each stage; on and off start and stop the accounting.",
            run: |ctl, args| match args.get("ledger") {
                Some(word @ ("on" | "off")) => {
                    ctl.host.stack.set_ledger(word == "on");
                    DONE
                }
                _ => Ok(ledger(ctl)),
            },
        },
        Form {
            grammar: "fpm",
            about: "Show the routing engine (FRR): connection, routes, counters.",
            run: |ctl, _| fpm::shown(ctl),
        },
        Form {
            grammar: "lcp",
            about: "Show the mirrors of ifaces in the kernel, and the control packets passed to them.",
            run: |ctl, _| lcp::shown(ctl),
        },
        Form {
            grammar: "running-config",
            about: "Show the configuration as it is now, as the text of a file.",
            run: |ctl, _| Ok(reload::running(ctl)),
        },
        Form { grammar: "sockets", about: "Show all sockets.", run: |ctl, _| Ok(ss::list(ctl)) },
        Form {
            grammar: "topology",
            about: "Show the hosts and switches of the file, and how they are connected.",
            run: |ctl, _| {
                let (all, this) = (ctl.host.topology(), &ctl.host.stack.name);
                Ok(ctl.listing(|| topology::to_json(&all, this), || topology::to_text(&all, this)))
            },
        },
    ];
}

/// Returns every pool of the host. The main pool has the name of the host; the purpose of each
/// other pool is appended to that name.
pub(super) fn pools<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let host = &ctl.host.stack.name;
    let named = |(part, stats): (&str, PoolStats)| match part {
        "main" => (host.clone(), stats),
        part => (format!("{host}.{part}"), stats),
    };
    let pools: Vec<(String, PoolStats)> = ctl.host.stack.pools(ctl.cx).into_iter().map(named).collect();
    let json = |(name, pool): &(String, PoolStats)| {
        json!({
            "name": name, "kind": pool.kind.to_string(), "buffers": pool.buffers, "size": pool.size,
            "bytes": pool.bytes, "live": pool.live(), "gets": pool.gets, "puts": pool.puts, "empty": pool.empty,
            "foreign": pool.foreign, "notice": pool.notice,
        })
    };
    let head = format!(
        "{:<20} {:<9} {:>8} {:>6} {:>10} {:>8} {:>12} {:>12} {:>8} {:>8}\n",
        "pool", "kind", "buffers", "size", "bytes", "live", "gets", "puts", "empty", "foreign"
    );
    let text = |(name, pool): &(String, PoolStats)| {
        let line = format!(
            "{name:<20} {:<9} {:>8} {:>6} {:>10} {:>8} {:>12} {:>12} {:>8} {:>8}\n",
            pool.kind.to_string(),
            pool.buffers,
            pool.size,
            pool.bytes,
            pool.live(),
            pool.gets,
            pool.puts,
            pool.empty,
            pool.foreign
        );
        line + &pool.notice.iter().map(|notice| format!("note: {notice}\n")).collect::<String>()
    };
    ctl.listing(
        || Value::Array(pools.iter().map(json).collect()),
        || head + &pools.iter().map(text).collect::<String>(),
    )
}

fn locks<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let parts = ctl.host.stack.lock_use();
    let row = |part: &inet::LockUse| json!({ "part": part.part, "kind": L::NAME, "locks": part.locks, "acquisitions": part.acquisitions });
    ctl.listing(
        || Value::Array(parts.iter().map(row).collect()),
        || {
            let head = format!("{:<22} {:<6} {:>8} {:>14}\n", "part", "kind", "locks", "acquisitions");
            let line =
                |p: &inet::LockUse| format!("{:<22} {:<6} {:>8} {:>14}\n", p.part, L::NAME, p.locks, p.acquisitions);
            head + &parts.iter().map(line).collect::<String>()
        },
    )
}

fn ports<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let (ports, gone) = (ctl.host.ports(), ctl.host.gone());
    let why = |port: &node::PortInfo| gone.iter().find(|(id, _)| *id == port.iface).map(|(_, why)| why.clone());
    let warnings = ctl.host.warnings();
    let of = |port: &node::PortInfo| {
        let of_it = warnings.iter().filter(|(id, _)| *id == port.iface);
        of_it.map(|(_, warning)| warning.clone()).collect::<Vec<_>>()
    };
    let row = |port: &node::PortInfo| {
        let caps = port.caps;
        json!({
            "ifname": ctl.iface_name(port.iface), "queue": port.queue, "port": port.spec,
            "link": if port.counts.link.is_up() { "up" } else { "down" }, "gone": why(port).is_some(),
            "why": why(port).flatten(), "warnings": of(port), "mtu": caps.mtu,
            "caps": { "tx_ip_csum": caps.tx_ip_csum, "tx_l4_csum": caps.tx_l4_csum, "rx_csum": caps.rx_csum,
                      "tso_max": caps.tso_max, "lro": caps.lro },
            "counters": port.counters().into_iter().map(|e| (e.name, e.value.into())).collect::<Map<_, _>>(),
        })
    };
    let text = |port: &node::PortInfo| {
        let caps = port.caps;
        let can = [("tx_ip_csum", caps.tx_ip_csum), ("tx_l4_csum", caps.tx_l4_csum), ("rx_csum", caps.rx_csum)];
        let can: Vec<&str> = can.iter().filter(|(_, can)| *can).map(|(name, _)| *name).collect();
        let queue = if port.queue > 0 { format!(" queue {}", port.queue) } else { String::new() };
        let name = ctl.iface_name(port.iface);
        let mut out = format!("{name}: {}{queue} mtu {} can <{}>\n", port.spec, caps.mtu, can.join(","));
        if let Some(why) = why(port) {
            out += &format!("\tgone{}\n", why.map(|why| format!(": {why}")).unwrap_or_default());
        }
        if !port.counts.link.is_up() {
            out += "\tlink down\n";
        }
        out.extend(of(port).iter().map(|warning| format!("\t{warning}\n")));
        let reported = port.counters().into_iter().filter(|entry| entry.value > 0);
        out + &reported.map(|entry| format!("\t{:<20} {:>12}\n", entry.name, entry.value)).collect::<String>()
    };
    ctl.listing(|| Value::Array(ports.iter().map(row).collect()), || ports.iter().map(text).collect())
}

fn entries<L: Locks>(ctl: &Ctl<'_, L>, keep: impl Fn(&Entry) -> bool) -> String {
    let mut entries = ctl.host.stack.snapshot();
    entries.retain(keep);
    let row = |e: &Entry| json!({ "name": e.name, "value": e.value, "sentence": e.sentence });
    let line = |e: &Entry| format!("{:<40} {:>12}  {}\n", e.name, e.value, e.sentence);
    ctl.listing(|| Value::Array(entries.iter().map(row).collect()), || entries.iter().map(line).collect())
}

/// Returns the CPU ticks by processing stage, the cost of the accounting itself, and the remaining
/// ticks of the time during which accounting was enabled. The remaining ticks were spent on sleep,
/// on programs, and outside of all stages.
fn ledger<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let statement = statement::of(&ctl.host.stack.ledger());
    ctl.listing(|| statement::json(&statement, None), || statement::text(&statement, None))
}
