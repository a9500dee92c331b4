//! Figures of nodes as metric families.
//!
//! Labels come from the configuration and from lists in the code only: names of nodes and ports,
//! reasons, states, stages. No label is an address, a flow or a prefix.

#[cfg(test)]
mod tests;

use node::figures::{Collected, Figures, NEIGHBOR_STATES, RTT_BOUNDS_US, TCP_STATES};
use node::switch::DISPATCH_DROPS;
use stats::{DropReason, End, Entry, STAGE_BOUNDS_NS};
use std::collections::{BTreeMap, BTreeSet};

/// Type of a metric family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A value that only increases while the process runs.
    Counter,
    /// A value that increases and decreases.
    Gauge,
    /// Numbers of samples up to each of several bounds, their sum and their number.
    Histogram,
    /// A value of either kind.
    Unknown,
}

/// Value of a metric with its labels.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// End of the name in histograms: `_bucket`, `_sum` or `_count`; otherwise empty.
    pub suffix: &'static str,
    /// Names and values of the labels.
    pub labels: Vec<(&'static str, String)>,
    /// The value.
    pub value: f64,
}

/// Metrics of the same name.
#[derive(Clone, PartialEq, Debug)]
pub struct Family {
    /// Name, without the suffix `_total` of counters.
    pub name: &'static str,
    /// Type of the values.
    pub kind: Kind,
    /// Description in one sentence.
    pub help: &'static str,
    /// The samples, one for each combination of labels.
    pub samples: Vec<Sample>,
}

impl Family {
    fn new(name: &'static str, kind: Kind, help: &'static str) -> Family {
        Family { name, kind, help, samples: Vec::new() }
    }

    fn add(&mut self, labels: &[(&'static str, &str)], value: f64) {
        self.add_part("", labels, value);
    }

    fn add_part(&mut self, suffix: &'static str, labels: &[(&'static str, &str)], value: f64) {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.samples.push(Sample { suffix, labels, value });
    }

    /// Adds a histogram. `buckets` has a number of samples for each of `bounds`, in seconds, and a
    /// last one for longer times.
    fn add_histogram(&mut self, labels: &[(&'static str, &str)], bounds: &[f64], buckets: &[u64], sum: f64) {
        let bounds: Vec<String> = bounds.iter().map(f64::to_string).collect();
        let mut count = 0;
        for (bound, samples) in bounds.iter().map(String::as_str).chain(["+Inf"]).zip(buckets) {
            count += samples;
            self.add_part("_bucket", &[labels, &[("le", bound)]].concat(), count as f64);
        }
        self.add_part("_sum", labels, sum);
        self.add_part("_count", labels, count as f64);
    }
}

/// Time at which the process started, as seconds since 1970, and the time of this collection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Times {
    /// Start of the process.
    pub started: f64,
    /// Duration of the collection in seconds.
    pub took: f64,
}

/// Counters of a port that have a family of their own, as (name of the counter, index in
/// [`port_families`]).
const PORT_COUNTERS: [(&str, usize); 6] = [
    ("port.rx.frames", 0),
    ("port.rx.bytes", 1),
    ("port.rx.errors", 2),
    ("port.tx.frames", 3),
    ("port.tx.bytes", 4),
    ("port.tx.errors", 5),
];

fn port_families() -> [Family; 6] {
    use Kind::Counter;
    [
        Family::new("linerate_port_receive_packets", Counter, "Frames received."),
        Family::new("linerate_port_receive_bytes", Counter, "Bytes received, without FCS."),
        Family::new("linerate_port_receive_errors", Counter, "Errors that ended the port or one of its connections."),
        Family::new("linerate_port_transmit_packets", Counter, "Frames sent."),
        Family::new("linerate_port_transmit_bytes", Counter, "Bytes sent, without FCS."),
        Family::new("linerate_port_transmit_errors", Counter, "Frames that the device rejected, or without a peer."),
    ]
}

/// Returns the metric families of all nodes, at most `series_max` samples in total. If there are
/// more, samples are left out, and `linerate_metrics_truncated`, which is not counted, is 1.
pub fn families(collected: &Collected, times: Times, series_max: usize) -> Vec<Family> {
    let mut all = process(collected, times);
    all.extend(of_ports(&collected.figures));
    all.extend(of_stacks(&collected.figures));
    all.extend(of_engines(&collected.figures));
    all.extend(of_netisr(&collected.figures));
    all.extend(of_counters(&collected.figures));
    all.sort_by_key(|family| family.kind == Kind::Unknown); // these are cut first
    all.retain(|family| !family.samples.is_empty());
    let (mut left, mut is_cut) = (series_max, false);
    for family in &mut all {
        if family.samples.len() > left {
            is_cut = true;
            // A histogram without some of its buckets is not valid.
            family.samples.truncate(if family.kind == Kind::Histogram { 0 } else { left });
        }
        left -= family.samples.len();
    }
    let mut cut = Family::new("linerate_metrics_truncated", Kind::Gauge, "1 if samples were left out, otherwise 0.");
    cut.add(&[], f64::from(u8::from(is_cut)));
    all.retain(|family| !family.samples.is_empty());
    all.push(cut);
    all
}

fn process(collected: &Collected, times: Times) -> Vec<Family> {
    let mut build = Family::new("linerate_build_info", Kind::Gauge, "Version of the program; the value is always 1.");
    build.add(&[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    let mut started = Family::new(
        "process_start_time_seconds",
        Kind::Gauge,
        "Start time of the process since unix epoch in seconds.",
    );
    started.add(&[], times.started);
    let help = "Duration of collecting the figures of all nodes.";
    let mut took = Family::new("linerate_scrape_duration_seconds", Kind::Gauge, help);
    took.add(&[], times.took);
    let mut up = Family::new("linerate_up", Kind::Gauge, "1 if the node answered, 0 if its thread did not in time.");
    collected.figures.iter().for_each(|figures| up.add(&[("host", &figures.node)], 1.0));
    collected.silent.iter().for_each(|node| up.add(&[("host", node)], 0.0));
    vec![build, started, took, up]
}

/// Figures of a port, of all its queues together.
#[derive(Default)]
struct PortSum<'a> {
    is_up: bool,
    speed: Option<u64>,
    counters: BTreeMap<&'a str, u64>,
}

fn of_ports(nodes: &[Figures]) -> Vec<Family> {
    let mut counted = port_families();
    let mut up = Family::new("linerate_port_up", Kind::Gauge, "1 if the link of the port is up, otherwise 0.");
    let help = "Speed of the port's link when the port was opened, if it is known.";
    let mut speeds = Family::new("linerate_port_speed_bits_per_second", Kind::Gauge, help);
    let mut others = Family::new("linerate_port_statistic", Kind::Unknown, "Other counters of ports.");
    for figures in nodes {
        let mut ports: BTreeMap<&str, PortSum<'_>> = BTreeMap::new();
        for port in &figures.ports {
            let PortSum { is_up, speed, counters } = ports.entry(&port.name).or_default();
            *is_up |= port.is_up;
            *speed = speed.or(port.speed);
            for counter in &port.counters {
                *counters.entry(&counter.name).or_default() += counter.value;
            }
        }
        for (port, PortSum { is_up, speed, counters }) in ports {
            let labels = [("host", figures.node.as_str()), ("port", port)];
            up.add(&labels, f64::from(u8::from(is_up)));
            speed.into_iter().for_each(|speed| speeds.add(&labels, speed as f64));
            for (counter, value) in counters {
                let own = PORT_COUNTERS.iter().find(|(name, _)| *name == counter);
                match own.and_then(|(_, place)| counted.get_mut(*place)) {
                    Some(family) => family.add(&labels, value as f64),
                    None => others.add(&[labels[0], labels[1], ("name", counter)], value as f64),
                }
            }
        }
    }
    let mut all = counted.to_vec();
    all.extend([up, speeds, others]);
    all
}

fn of_stacks(nodes: &[Figures]) -> Vec<Family> {
    let mut unaccounted = Family::new(
        "linerate_frames_unaccounted",
        Kind::Gauge,
        "Frames received and created, minus those sent, consumed, dropped and held; 0 unless frames were lost.",
    );
    let help = "Routes by address family and protocol; 'own' routes are those of the host's configuration.";
    let mut routes = Family::new("linerate_routes", Kind::Gauge, help);
    let mut neighbors = Family::new("linerate_neighbors", Kind::Gauge, "Neighbor entries by address family and state.");
    let mut connections =
        Family::new("linerate_tcp_connections", Kind::Gauge, "TCP connections and listeners by state.");
    let help = "Smoothed round-trip times of TCP connections, one sample for each connection and scrape.";
    let mut times = Family::new("linerate_tcp_rtt_seconds", Kind::Histogram, help);
    let mut addresses =
        Family::new("linerate_bridge_addresses", Kind::Gauge, "Entries of the address table of a bridge.");
    let mut pool = Family::new("linerate_pool_buffers", Kind::Gauge, "Buffers of the pool by state.");
    let mut busy =
        Family::new("linerate_stage_busy_seconds", Kind::Counter, "Processor time by stage, while the ledger is on.");
    let mut packets =
        Family::new("linerate_stage_packets", Kind::Counter, "Packets or calls by stage, while the ledger is on.");
    let help = "Processor time of a stage for each packet or call, sampled (one measurement of 64 for each stage), while the ledger is on.";
    let mut stage_times = Family::new("linerate_stage_seconds", Kind::Histogram, help);
    let rtt_bounds = RTT_BOUNDS_US.map(|us| us as f64 / 1e6);
    let stage_bounds = STAGE_BOUNDS_NS.map(|ns| ns as f64 / 1e9);
    for figures in nodes {
        let host = ("host", figures.node.as_str());
        unaccounted.add(&[host], figures.unaccounted as f64);
        add_routes(&mut routes, host, figures);
        for (family, counts) in ["ipv4", "ipv6"].into_iter().zip(figures.neighbors.into_iter().flatten()) {
            for (state, count) in NEIGHBOR_STATES.into_iter().zip(counts) {
                neighbors.add(&[host, ("family", family), ("state", state)], count as f64);
            }
        }
        for (state, count) in TCP_STATES.into_iter().zip(figures.connections.into_iter().flatten()) {
            connections.add(&[host, ("state", state)], count as f64);
        }
        if let Some(rtt) = &figures.rtt {
            times.add_histogram(&[host], &rtt_bounds, &rtt.buckets, rtt.sum_us as f64 / 1e6);
        }
        figures.addresses.into_iter().for_each(|count| addresses.add(&[host], count as f64));
        let [used, size] = figures.pool;
        pool.add(&[host, ("state", "used")], used as f64);
        pool.add(&[host, ("state", "free")], size.saturating_sub(used) as f64);
        for cost in &figures.stages {
            let labels = [host, ("stage", cost.stage.word())];
            busy.add(&labels, cost.ticks as f64 / clock::tsc::hertz() as f64);
            packets.add(&labels, cost.units as f64);
        }
        for times in &figures.stage_times {
            let labels = [host, ("stage", times.stage.word())];
            stage_times.add_histogram(&labels, &stage_bounds, &times.buckets, times.sum_ps as f64 / 1e12);
        }
    }
    vec![unaccounted, routes, neighbors, connections, times, addresses, pool, busy, packets, stage_times]
}

/// Adds the numbers of a host's own routes, and of those of a routing engine by protocol.
fn add_routes(routes: &mut Family, host: (&'static str, &str), figures: &Figures) {
    for ((at, family), count) in ["ipv4", "ipv6"].into_iter().enumerate().zip(figures.routes.into_iter().flatten()) {
        let mut own = count;
        if let Some(fpm) = &figures.fpm {
            for (protocol, counts) in &fpm.routes {
                let count = counts.get(at).copied().unwrap_or(0);
                own = own.saturating_sub(count.into());
                routes.add(&[host, ("family", family), ("proto", &protocol.to_string())], count.into());
            }
            own += fpm.shadowed.get(at).map_or(0, |count| *count as u64); // they are not in the table
        }
        routes.add(&[host, ("family", family), ("proto", "own")], own as f64);
    }
}

/// Counters of the messages of a routing engine, as (name of the counter, value of the label
/// `type`).
const FPM_MESSAGES: [(&str, &str); 6] = [
    ("node.fpm.new_routes", "new_route"),
    ("node.fpm.del_routes", "del_route"),
    ("node.fpm.new_next_hops", "new_next_hop"),
    ("node.fpm.del_next_hops", "del_next_hop"),
    ("node.fpm.other_messages", "other"),
    ("node.fpm.malformed", "malformed"),
];

fn of_engines(nodes: &[Figures]) -> Vec<Family> {
    let help = "1 if a routing engine (FRR, over FPM) is connected, otherwise 0.";
    let mut connected = Family::new("linerate_fpm_connected", Kind::Gauge, help);
    let help = "Messages of a routing engine by type.";
    let mut messages = Family::new("linerate_fpm_messages", Kind::Counter, help);
    let help = "Time from the last connection of a routing engine to the end of its announcement of all routes.";
    let mut resync = Family::new("linerate_fpm_resync_seconds", Kind::Gauge, help);
    let help = "Routes that the current connection of a routing engine has not announced.";
    let mut stale = Family::new("linerate_fpm_stale_routes", Kind::Gauge, help);
    let mut waiting = Family::new("linerate_fpm_waiting_routes", Kind::Gauge, "Routes that wait for their next hop.");
    for figures in nodes {
        let host = ("host", figures.node.as_str());
        let Some(fpm) = &figures.fpm else { continue };
        connected.add(&[host], f64::from(u8::from(fpm.peer.is_some())));
        fpm.resync_s.into_iter().for_each(|time| resync.add(&[host], time));
        stale.add(&[host], fpm.stale.into());
        waiting.add(&[host], fpm.waiting as f64);
        for (name, ty) in FPM_MESSAGES {
            let counter = figures.counters.iter().find(|counter| counter.name == name);
            counter.into_iter().for_each(|counter| messages.add(&[host, ("type", ty)], counter.value as f64));
        }
    }
    vec![connected, messages, resync, stale, waiting]
}

fn of_netisr(nodes: &[Figures]) -> Vec<Family> {
    use Kind::{Counter, Gauge};
    let mut families = [
        Family::new("linerate_isr_dispatched", Counter, "Frames processed at once by the receiving thread (direct)."),
        Family::new("linerate_isr_hybrid_dispatched", Counter, "Frames processed at once in hybrid mode."),
        Family::new("linerate_isr_queued", Counter, "Frames queued for a workstream."),
        Family::new("linerate_isr_handled", Counter, "Frames processed completely."),
        Family::new("linerate_isr_drops", Counter, "Frames dropped because the queue of a workstream was full."),
        Family::new("linerate_isr_queue_length", Gauge, "Frames waiting in the queue of a workstream."),
        Family::new("linerate_isr_queue_watermark", Gauge, "Maximum number of frames that have waited at one time."),
    ];
    let help = "Frames that the dispatcher of a split host has queued for each of its stacks.";
    let mut dispatcher = Family::new("linerate_dispatcher_frames", Counter, help);
    for figures in nodes {
        let host = ("host", figures.node.as_str());
        for row in &figures.isr {
            let workstream = row.workstream.to_string();
            let labels = [host, ("workstream", workstream.as_str()), ("protocol", row.name)];
            let counts = [row.dispatched, row.hybrid_dispatched, row.queued, row.handled, row.qdrops];
            let values = counts.into_iter().chain([row.len as u64, row.watermark as u64]);
            families.iter_mut().zip(values).for_each(|(family, value)| family.add(&labels, value as f64));
        }
        for (worker, frames) in &figures.dispatched {
            dispatcher.add(&[host, ("worker", worker)], *frames as f64);
        }
    }
    families.into_iter().chain([dispatcher]).collect()
}

/// Prefix of the counters of control packets for mirrors, by class.
const PUNT: &str = "inet.punt.";
/// Prefix, after [`PUNT`], of the counters of those that were not passed.
const POLICED: &str = "policed.";

fn of_counters(nodes: &[Figures]) -> Vec<Family> {
    let reasons = DropReason::ALL.iter().filter(|reason| reason.end() == End::Lost);
    let reasons: BTreeSet<&str> = reasons.map(|reason| reason.name()).chain(DISPATCH_DROPS.iter().copied()).collect();
    let mut drops = Family::new("linerate_drops", Kind::Counter, "Frames dropped, by reason.");
    let mut forwarded =
        Family::new("linerate_forwarded_packets", Kind::Counter, "Packets forwarded between interfaces, by family.");
    let help = "Control packets passed to the mirrors of interfaces, by class.";
    let mut punted = Family::new("linerate_punted_packets", Kind::Counter, help);
    let help = "Control packets not passed because of the rate of their class.";
    let mut policed = Family::new("linerate_policed_packets", Kind::Counter, help);
    let mut retransmits = Family::new("linerate_tcp_retransmits", Kind::Counter, "TCP segments retransmitted.");
    let mut others = Family::new(
        "linerate_statistic",
        Kind::Unknown,
        "Other counters of hosts, by the names of 'netstat -s', and of bridges.",
    );
    for figures in nodes {
        let host = ("host", figures.node.as_str());
        for Entry { name, value, .. } in &figures.counters {
            match name.as_str() {
                "inet.ip4.forwarded" => forwarded.add(&[host, ("family", "ipv4")], *value as f64),
                "inet.ip6.forwarded" => forwarded.add(&[host, ("family", "ipv6")], *value as f64),
                "tcp.out.retransmitted" => retransmits.add(&[host], *value as f64),
                message if FPM_MESSAGES.iter().any(|(name, _)| *name == message) => {} // in of_engines
                reason if reasons.contains(reason) => drops.add(&[host, ("reason", reason)], *value as f64),
                other => match other.strip_prefix(PUNT).map(|name| (name, name.strip_prefix(POLICED))) {
                    Some((_, Some(class))) => policed.add(&[host, ("class", class)], *value as f64),
                    Some((class, None)) => punted.add(&[host, ("class", class)], *value as f64),
                    None => others.add(&[host, ("name", other)], *value as f64),
                },
            }
        }
    }
    vec![drops, forwarded, punted, policed, retransmits, others]
}
