//! `show fpm` and `ip nexthop`: the connection with a routing engine, and its next hops.

use super::context::Ctl;
use super::iproute::{gateway_text, path_json, paths_text};
use crate::json::set;
use grammar::CommandError;
use inet::route::{Path, Via};
use lock::Locks;
use node::fpm::{FpmServer, FpmStatus, NextHopStatus};
use serde_json::{Map, Value, json};
use std::fmt::Display;

fn none() -> CommandError {
    CommandError::failed("this host accepts no routing engine: set fpm.listen, or use --fpm")
}

/// Shows the state of the connection, the numbers of routes, and the counters.
pub(super) fn shown<L: Locks>(ctl: &Ctl<'_, L>) -> Result<String, CommandError> {
    let status = ctl.host.fpm_status().ok_or_else(none)?;
    let counters = ctl.host.fpm().map(FpmServer::counters).unwrap_or_default();
    let now = ctl.cx.now.nanos() as f64 / 1e9;
    let json = || {
        let routes: Vec<Value> = status
            .routes
            .iter()
            .map(|(protocol, [v4, v6])| json!({ "protocol": protocol.to_string(), "ipv4": v4, "ipv6": v6 }))
            .collect();
        json!({
            "listen": status.listen.to_string(), "peer": status.peer.map(|peer| peer.to_string()),
            "since_s": now - status.since, "last_frame_s": status.last_frame.map(|last| now - last),
            "resync_s": status.resync_s, "queued_bytes": status.queued, "routes": routes,
            "stale": status.stale, "waiting": status.waiting, "shadowed": status.shadowed.iter().sum::<usize>(),
            "next_hops": status.next_hops, "diverted": status.diverted,
            "counters": counters.iter().map(|e| (e.name.clone(), e.value.into())).collect::<Map<_, _>>(),
        })
    };
    let text = || {
        let reported = counters.iter().filter(|entry| entry.value > 0);
        let line = |entry: &stats::Entry| format!("{:>12}  {}\n", entry.value, entry.sentence);
        status_text(&status, now) + &reported.map(line).collect::<String>()
    };
    Ok(ctl.listing(json, text))
}

fn status_text(status: &FpmStatus, now: f64) -> String {
    let since = now - status.since;
    let engine = match status.peer {
        Some(peer) => format!("{peer}, connected for {since:.1} s"),
        None => format!("not connected, for {since:.1} s"),
    };
    let resync = status.resync_s.map_or("-".to_owned(), |time| format!("{time:.2} s"));
    let last = status.last_frame.map_or("-".to_owned(), |last| format!("{:.1} s ago", now - last));
    let [v4, v6] = [0, 1].map(|at| status.routes.iter().filter_map(|(_, counts)| counts.get(at)).sum::<u32>());
    let by: Vec<String> = status.routes.iter().map(|(protocol, [v4, v6])| format!("{protocol} {}", v4 + v6)).collect();
    let by = if by.is_empty() { String::new() } else { format!(": {}", by.join(", ")) };
    format!(
        "listen      {}\nengine      {engine}\nresync      {resync}\nlast frame  {last}\nqueued      {} bytes\n\
         routes      {v4} IPv4, {v6} IPv6{by}\nstale       {}\nwaiting     {}\nshadowed    {}\nnext hops   {}, {} diverted\n",
        status.listen,
        status.queued,
        status.stale,
        status.waiting,
        status.shadowed.iter().sum::<usize>(),
        status.next_hops,
        status.diverted
    )
}

/// Lists the next hops of the routing engine, as `ip nexthop` does.
pub(super) fn next_hops<L: Locks>(ctl: &Ctl<'_, L>) -> Result<String, CommandError> {
    ctl.host.fpm().ok_or_else(none)?;
    let all = ctl.host.fpm_next_hops();
    let text = |hop: &NextHopStatus| {
        let mut out = format!("id {} routes {}", hop.id, hop.uses);
        out.extend(hop.v4.iter().map(|paths| hop_text(ctl, paths)));
        out.extend(hop.v6.iter().map(|paths| hop_text(ctl, paths)));
        out + "\n"
    };
    let json = |hop: &NextHopStatus| {
        let mut row = json!({ "id": hop.id, "routes": hop.uses });
        let four = hop.v4.iter().flatten().map(|path| path_json(ctl, path));
        let six = hop.v6.iter().flatten().map(|path| path_json(ctl, path));
        set(&mut row, "nexthops", four.chain(six).collect::<Vec<Value>>());
        row
    };
    Ok(ctl.listing(|| Value::Array(all.iter().map(json).collect()), || all.iter().map(text).collect()))
}

fn hop_text<L: Locks, A: Display>(ctl: &Ctl<'_, L>, paths: &[Path<A>]) -> String {
    match paths {
        [] => " unreachable".to_owned(),
        [Path { via: Via::Blackhole, .. }] => " blackhole".to_owned(),
        [only] => {
            let dev = only.via.iface().map_or("-", |id| ctl.iface_name(id));
            format!("{} dev {dev}", gateway_text(&only.via))
        }
        _ => paths_text(ctl, paths),
    }
}
