//! Events of a running host for logs: links, neighbors that move, routes that are lost, limits that
//! are met.

use crate::{Host, PortInfo};
use clock::{Duration, Instant};
use inet::iface::IfaceId;
use lock::Locks;
use stats::Entry;
use std::collections::HashMap;
use std::fmt;

/// Interval at which a host is checked for events.
const INTERVAL: Duration = Duration::from_secs(1);
/// Minimum time between two events about the same limit, or about lost routes.
const QUIET: Duration = Duration::from_secs(60);

/// Kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LogKind {
    /// The link of a port came up.
    LinkUp,
    /// The link of a port went down.
    LinkDown,
    /// A neighbor has another MAC address than before.
    NeighborMoved,
    /// The host has fewer routes than before.
    RoutesLost,
    /// A limit was met: packets were dropped, or entries removed to make room.
    LimitMet,
}

impl LogKind {
    /// Returns the name of the kind, as in `link_up`.
    pub fn name(self) -> &'static str {
        match self {
            LogKind::LinkUp => "link_up",
            LogKind::LinkDown => "link_down",
            LogKind::NeighborMoved => "neighbor_moved",
            LogKind::RoutesLost => "routes_lost",
            LogKind::LimitMet => "limit_met",
        }
    }

    /// Returns whether an operator should look at events of this kind.
    pub fn is_warning(self) -> bool {
        self != LogKind::LinkUp
    }
}

/// An event of a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEvent {
    /// Name of the host.
    pub host: String,
    /// Kind of the event.
    pub kind: LogKind,
    /// Values of the event, as (name, value), with names such as `iface`.
    pub fields: Vec<(&'static str, String)>,
    /// Description of the event, without the name of the host.
    pub text: String,
}

impl fmt::Display for LogEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.host, self.text)
    }
}

/// State of a host at the last check for events.
#[derive(Debug, Default)]
pub(crate) struct Monitor {
    next: Instant,
    links: HashMap<IfaceId, bool>,
    /// Numbers of IPv4 and IPv6 routes; `None` before the first check.
    routes: Option<[usize; 2]>,
    /// Counters of limits, with the values that were reported last.
    limits: HashMap<String, u64>,
    /// End of the time in which no further event about a subject is reported.
    quiet: HashMap<String, Instant>,
}

impl Monitor {
    /// Returns the events since the last check, if a check is due. The first check has none.
    pub(crate) fn check<L: Locks>(&mut self, host: &Host<L>, now: Instant) -> Vec<LogEvent> {
        if now < self.next {
            return Vec::new();
        }
        let is_first = self.routes.is_none();
        self.next = now.after(INTERVAL);
        self.quiet.retain(|_, until| *until > now);
        let mut events = Vec::new();
        let mut event = |kind, fields, text| {
            events.push(LogEvent { host: host.stack.name.clone(), kind, fields, text });
        };
        let gone = host.gone();
        let is_up = |port: &PortInfo| port.counts.link.is_up() && gone.iter().all(|(id, _)| *id != port.iface);
        let links: HashMap<IfaceId, bool> = host.ports().iter().map(|port| (port.iface, is_up(port))).collect();
        for (id, is_up) in &links {
            let name = host.stack.iface(*id).map_or("?", |iface| &iface.name).to_string();
            if self.links.get(id).is_some_and(|before| before != is_up) {
                let (kind, word) = if *is_up { (LogKind::LinkUp, "up") } else { (LogKind::LinkDown, "down") };
                event(kind, vec![("iface", name.clone())], format!("{name}: link {word}"));
            }
        }
        self.links = links;
        for moved in host.stack.take_moved_neighbors(host.cx()) {
            // A station that changes its address all the time is reported once a minute.
            let subject = format!("{} {}", moved.iface.0, moved.addr);
            if self.quiet.insert(subject, now.after(QUIET)).is_some() {
                continue;
            }
            let iface = host.stack.iface(moved.iface).map_or("?", |iface| &iface.name).to_string();
            let text = format!("{iface}: neighbor {} moved from {} to {}", moved.addr, moved.from, moved.to);
            let fields = vec![
                ("iface", iface),
                ("neighbor", moved.addr.to_string()),
                ("from", moved.from.to_string()),
                ("to", moved.to.to_string()),
            ];
            event(LogKind::NeighborMoved, fields, text);
        }
        let routes = host.stack.route_counts(host.cx());
        let before = self.routes.unwrap_or(routes);
        let has_lost = before.iter().zip(&routes).any(|(before, now)| now < before);
        let is_quiet = self.quiet.contains_key("routes");
        if has_lost && !is_quiet {
            let [[was, was6], [is, is6]] = [before, routes].map(|counts| counts.map(|count| count.to_string()));
            let text = format!("routes lost: {is} IPv4 and {is6} IPv6 routes are left of {was} and {was6}");
            let fields = vec![("ipv4_before", was), ("ipv4", is), ("ipv6_before", was6), ("ipv6", is6)];
            event(LogKind::RoutesLost, fields, text);
            self.quiet.insert("routes".to_string(), now.after(QUIET));
        }
        // A loss within the quiet time is reported at its end.
        if !has_lost || !is_quiet {
            self.routes = Some(routes);
        }
        let of_ports = host.ports().into_iter().flat_map(|port| {
            let iface = host.stack.iface(port.iface).map_or("?", |iface| &iface.name).to_string();
            let named = move |entry: Entry| Entry { name: format!("{iface} {}", entry.name), ..entry };
            port.counters().into_iter().map(named)
        });
        let counters = host.stack.snapshot().into_iter().chain(of_ports);
        for entry in counters.filter(|entry| is_limit(&entry.name)) {
            let reported = self.limits.get(&entry.name).copied().unwrap_or(0);
            if entry.value <= reported && !is_first || self.quiet.contains_key(&entry.name) {
                continue;
            }
            let count = entry.value.saturating_sub(reported).to_string();
            if !is_first {
                let text = format!("limit met {count} times: {}: {}", entry.name, entry.sentence);
                event(LogKind::LimitMet, vec![("counter", entry.name.clone()), ("count", count)], text);
                self.quiet.insert(entry.name.clone(), now.after(QUIET));
            }
            self.limits.insert(entry.name, entry.value);
        }
        events
    }
}

/// Ends of the names of counters that count what a limit has refused or removed.
const LIMITS: &[&str] = &[
    "_full",
    "evicted",
    "overflows",
    "no_buffer",
    "no_copy",
    "no_memory",
    "order_refused",
    "text_refused",
    "sends_refused",
    "orphans_refused",
    "quota",
    "displaced",
    "stalled",
];

fn is_limit(name: &str) -> bool {
    LIMITS.iter().any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{HostConfig, IfaceConfig};
    use buf::Burst;
    use clock::{Clock, SimClock};
    use lock::Up;
    use port::Pairs;
    use wire::{Mac, arp, eth};

    #[test]
    fn each_kind_of_event_is_reported_once() {
        let (clock, pairs) = (SimClock::new(), Pairs::new());
        let config = |name: &str, addr: [u8; 4]| {
            let mut iface = IfaceConfig::on("pair:x");
            iface.add_address(addr.into(), 24);
            HostConfig { name: name.to_string(), ifaces: vec![iface], ..HostConfig::default() }
        };
        let host: Host<Up> = crate::build(&config("h", [10, 0, 0, 1]), &pairs, Clock::sim(&clock)).unwrap();
        let other: Host<Up> = crate::build(&config("o", [10, 0, 0, 2]), &pairs, Clock::sim(&clock)).unwrap();
        let mut monitor = Monitor::default();
        let mut check = || {
            clock.advance(INTERVAL);
            let events = monitor.check(&host, clock.now());
            events.iter().map(|event| format!("{} {event}", event.kind.name())).collect::<Vec<_>>()
        };
        assert_eq!(check(), [""; 0]);
        // The other host answers for an address that had another MAC address before.
        let calls = host.calls_at(clock.now());
        let ping = || {
            let fd = calls.socket().unwrap();
            let _ = calls.send_to(fd, b"x", &"10.0.0.2:9".parse().unwrap());
            for _ in 0..4 {
                host.step();
                other.step();
            }
            calls.close(fd).unwrap();
        };
        ping();
        let id = host.stack.iface_named("x").unwrap().id;
        let first = host.stack.neighbors(host.cx())[0].mac;
        assert_eq!(check(), [""; 0]);
        let route = "10.9.0.0/16".parse().unwrap();
        host.stack.add_route(host.cx(), route, inet::route::Via::Gateway(id, [10, 0, 0, 2].into())).unwrap();
        assert_eq!(check(), [""; 0]);
        host.stack.remove_route(host.cx(), route);
        let events = check();
        assert!(events.len() == 1 && events[0].starts_with("routes_lost h: routes lost: "), "{events:?}");
        let mac = Mac([2, 0, 0, 0, 0, 9]);
        let packet = arp::Packet {
            op: arp::Op::Reply,
            sha: mac,
            spa: [10, 0, 0, 2].into(),
            tha: host.mac_of("x"),
            tpa: [10, 0, 0, 1].into(),
        };
        let header = eth::Header { dst: host.mac_of("x"), src: mac, ethertype: eth::EtherType::ARP };
        let mut start = [0; eth::HEADER_LEN];
        header.emit(&mut start);
        let mut frame = host.stack.pool.get().unwrap();
        frame.append(start.len()).unwrap().copy_from_slice(&start);
        frame.append(arp::PACKET_LEN).unwrap().copy_from_slice(&packet.emit());
        host.stack.input(host.cx(), id, &mut Burst::of(frame));
        assert_eq!(check(), [format!("neighbor_moved h: x: neighbor 10.0.0.2 moved from {first} to {mac}")]);
        assert_eq!(check(), [""; 0]);
        // The packets for an address without an answer exceed their queue.
        let fd = calls.socket().unwrap();
        for _ in 0..40 {
            let _ = calls.send_to(fd, b"x", &"10.0.0.77:9".parse().unwrap());
        }
        let events = check();
        let expected = "limit_met h: limit met 24 times: inet.neigh.queue_full: ";
        assert!(events.len() == 1 && events[0].starts_with(expected), "{events:?}");
        let _ = calls.send_to(fd, b"x", &"10.0.0.77:9".parse().unwrap());
        assert_eq!(check(), [""; 0], "reported at most once a minute");
        for _ in 0..60 {
            assert!(check().iter().all(|event| event.contains("met 1 times: inet.neigh.queue_full")));
        }
        drop(other);
        host.step();
        assert_eq!(check(), ["link_down h: x: link down"]);
        assert_eq!(check(), [""; 0]);
    }
}
