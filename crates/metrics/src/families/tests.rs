use super::*;
use dispatch::netisr::WorkRow;
use node::config::SERIES_MAX;
use node::figures::{PortFigures, RttHistogram};
use node::fpm::FpmStatus;
use node::fpm::Protocol;
use stats::{Stage, StageTimes};

fn entry(name: &str, value: u64) -> Entry {
    Entry { name: name.to_owned(), sentence: "", value }
}

fn sample<'f>(all: &'f [Family], name: &str, labels: &[&str]) -> &'f Sample {
    let family = all.iter().find(|family| family.name == name).unwrap_or_else(|| panic!("no {name}"));
    let has = |sample: &&Sample| sample.labels.iter().map(|(_, value)| value.as_str()).eq(labels.iter().copied());
    family.samples.iter().find(has).unwrap_or_else(|| panic!("{family:?}"))
}

fn host() -> Figures {
    let queue = |frames| PortFigures {
        name: "eth0".to_owned(),
        counters: ["rx.frames", "rx.bytes", "rx.errors", "tx.frames", "tx.bytes", "tx.errors", "rx.malformed"]
            .into_iter()
            .zip(1u64..)
            .map(|(name, n)| entry(&format!("port.{name}"), 10 * n + frames))
            .collect(),
        is_up: frames > 3,
        speed: (frames > 3).then_some(1_000_000_000),
    };
    let rtt = RttHistogram::default();
    [99, 100, 101, 50_000_000].into_iter().for_each(|us| rtt.add(us));
    Figures {
        node: "h".to_owned(),
        counters: vec![
            entry("inet.ip4.forwarded", 5),
            entry("tcp.out.retransmitted", 2),
            entry("inet.punt.bgp", 21),
            entry("inet.punt.policed.bgp", 22),
            entry("inet.punt.policed", 23),
            entry("inet.arp.x", 9),
            entry("inet.ip4.forward.no_route", 0),
            entry("dataflow.post.lane_full", 8),
            entry("node.fpm.new_routes", 11),
            entry("node.fpm.frames", 12),
        ],
        ports: vec![queue(3), queue(4)],
        pool: [10, 100],
        routes: Some([1_000_000, 3]),
        fpm: Some(FpmStatus {
            listen: "127.0.0.1:2620".parse().unwrap(),
            peer: None,
            since: 1.0,
            last_frame: None,
            resync_s: Some(2.5),
            queued: 0,
            routes: vec![(Protocol(186), [999_900, 0]), (Protocol(99), [50, 2])],
            stale: 7,
            waiting: 8,
            next_hops: 9,
            diverted: 0,
            shadowed: [10, 0],
        }),
        neighbors: Some([[0, 1, 0, 0, 2], [0; 5]]),
        connections: Some([1; 11]),
        rtt: Some(rtt.figures()),
        isr: vec![WorkRow {
            workstream: 1,
            name: "ip",
            len: 2,
            watermark: 3,
            dispatched: 4,
            hybrid_dispatched: 5,
            qdrops: 6,
            queued: 7,
            handled: 8,
            ..WorkRow::default()
        }],
        stage_times: vec![StageTimes {
            stage: Stage::Demux,
            buckets: [0, 5, 0, 0, 0, 0, 0, 0, 0, 1],
            sum_ps: 2_500_000,
        }],
        dispatched: vec![("h.0".to_owned(), 31), ("h.1".to_owned(), 32)],
        ..Figures::default()
    }
}

#[test]
fn figures_of_hosts_and_bridges_become_families() {
    let bridge = Figures { node: "b".to_owned(), addresses: Some(12), ..Figures::default() };
    let collected = Collected { figures: vec![host(), bridge], silent: vec!["s".to_owned()] };
    let all = families(&collected, Times { started: 1.5, took: 0.25 }, SERIES_MAX);
    for (name, labels, value) in [
        ("linerate_build_info", &[env!("CARGO_PKG_VERSION")][..], 1.0),
        ("process_start_time_seconds", &[], 1.5),
        ("linerate_scrape_duration_seconds", &[], 0.25),
        ("linerate_up", &["h"], 1.0),
        ("linerate_up", &["s"], 0.0),
        ("linerate_port_receive_packets", &["h", "eth0"], 27.0),
        ("linerate_port_receive_bytes", &["h", "eth0"], 47.0),
        ("linerate_port_receive_errors", &["h", "eth0"], 67.0),
        ("linerate_port_transmit_packets", &["h", "eth0"], 87.0),
        ("linerate_port_transmit_bytes", &["h", "eth0"], 107.0),
        ("linerate_port_transmit_errors", &["h", "eth0"], 127.0),
        ("linerate_pool_buffers", &["h", "used"], 10.0),
        ("linerate_routes", &["h", "ipv6", "own"], 1.0),
        ("linerate_routes", &["h", "ipv4", "bgp"], 999_900.0),
        ("linerate_routes", &["h", "ipv6", "99"], 2.0),
        ("linerate_fpm_connected", &["h"], 0.0),
        ("linerate_fpm_messages", &["h", "new_route"], 11.0),
        ("linerate_fpm_resync_seconds", &["h"], 2.5),
        ("linerate_fpm_stale_routes", &["h"], 7.0),
        ("linerate_fpm_waiting_routes", &["h"], 8.0),
        ("linerate_statistic", &["h", "node.fpm.frames"], 12.0),
        ("linerate_port_statistic", &["h", "eth0", "port.rx.malformed"], 147.0),
        ("linerate_port_up", &["h", "eth0"], 1.0),
        ("linerate_port_speed_bits_per_second", &["h", "eth0"], 1e9),
        ("linerate_tcp_rtt_seconds", &["h", "0.0001"], 2.0),
        ("linerate_tcp_rtt_seconds", &["h", "0.0004"], 3.0),
        ("linerate_tcp_rtt_seconds", &["h", "6.5536"], 3.0),
        ("linerate_tcp_rtt_seconds", &["h", "+Inf"], 4.0),
        ("linerate_drops", &["h", "inet.ip4.forward.no_route"], 0.0),
        ("linerate_drops", &["h", "dataflow.post.lane_full"], 8.0),
        ("linerate_frames_unaccounted", &["b"], 0.0),
        ("linerate_forwarded_packets", &["h", "ipv4"], 5.0),
        ("linerate_punted_packets", &["h", "bgp"], 21.0),
        ("linerate_policed_packets", &["h", "bgp"], 22.0),
        ("linerate_drops", &["h", "inet.punt.policed"], 23.0),
        ("linerate_tcp_retransmits", &["h"], 2.0),
        ("linerate_statistic", &["h", "inet.arp.x"], 9.0),
        ("linerate_routes", &["h", "ipv4", "own"], 60.0),
        ("linerate_neighbors", &["h", "ipv4", "permanent"], 2.0),
        ("linerate_tcp_connections", &["h", "listen"], 1.0),
        ("linerate_pool_buffers", &["h", "free"], 90.0),
        ("linerate_bridge_addresses", &["b"], 12.0),
        ("linerate_isr_queue_length", &["h", "1", "ip"], 2.0),
        ("linerate_isr_queue_watermark", &["h", "1", "ip"], 3.0),
        ("linerate_isr_dispatched", &["h", "1", "ip"], 4.0),
        ("linerate_isr_hybrid_dispatched", &["h", "1", "ip"], 5.0),
        ("linerate_isr_drops", &["h", "1", "ip"], 6.0),
        ("linerate_isr_queued", &["h", "1", "ip"], 7.0),
        ("linerate_isr_handled", &["h", "1", "ip"], 8.0),
        ("linerate_stage_seconds", &["h", "inet.demux", "0.000000016"], 0.0),
        ("linerate_stage_seconds", &["h", "inet.demux", "0.000000064"], 5.0),
        ("linerate_stage_seconds", &["h", "inet.demux", "0.001048576"], 5.0),
        ("linerate_stage_seconds", &["h", "inet.demux", "+Inf"], 6.0),
        ("linerate_stage_seconds", &["h", "inet.demux"], 0.0000025),
        ("linerate_dispatcher_frames", &["h", "h.1"], 32.0),
        ("linerate_metrics_truncated", &[], 0.0),
    ] {
        assert_eq!(sample(&all, name, labels).value, value, "{name} {labels:?}");
    }
    assert!(all.iter().all(|family| !family.samples.is_empty()), "a family without samples is left out");
    let names: std::collections::BTreeSet<_> = all.iter().map(|family| family.name).collect();
    assert_eq!(names.len(), all.len(), "a family has one place");
}

#[test]
fn too_many_samples_are_cut_and_this_is_a_metric() {
    let mut many: Vec<Entry> = (0..SERIES_MAX as u64).map(|n| entry(&format!("c{n}"), n)).collect();
    many.push(entry("inet.ip4.forward.no_route", 1));
    let collected = Collected { figures: vec![Figures { counters: many, ..host() }], silent: Vec::new() };
    let all = families(&collected, Times::default(), SERIES_MAX);
    assert_eq!(all.iter().map(|family| family.samples.len()).sum::<usize>(), SERIES_MAX + 1);
    assert_eq!(sample(&all, "linerate_metrics_truncated", &[]).value, 1.0);
    sample(&all, "linerate_drops", &["h", "inet.ip4.forward.no_route"]); // statistics are cut first
}

/// The limit cuts at any place, and no histogram loses a part.
#[test]
fn every_limit_is_kept() {
    let collected = Collected { figures: vec![host()], silent: Vec::new() };
    let count = |all: &[Family]| all.iter().map(|family| family.samples.len()).sum::<usize>() - 1;
    let most = count(&families(&collected, Times::default(), SERIES_MAX));
    for limit in 1..=most {
        let all = families(&collected, Times::default(), limit);
        assert!(count(&all) <= limit, "{limit}");
        let is_cut = f64::from(u8::from(limit < most));
        assert_eq!(sample(&all, "linerate_metrics_truncated", &[]).value, is_cut, "{limit}");
        let mut times = all.iter().filter(|family| family.kind == Kind::Histogram);
        assert!(times.all(|times| times.samples.len() == 12), "{limit}: {times:?}");
    }
}

#[test]
fn a_histogram_has_buckets_then_sum_and_count() {
    let collected = Collected { figures: vec![host()], silent: Vec::new() };
    let all = families(&collected, Times::default(), SERIES_MAX);
    let rtt = all.iter().find(|family| family.name == "linerate_tcp_rtt_seconds").expect("round-trip times");
    let ends: Vec<_> = rtt.samples.iter().rev().take(3).map(|sample| (sample.suffix, sample.value)).collect();
    assert_eq!(ends, [("_count", 4.0), ("_sum", 50.0003), ("_bucket", 4.0)]);
    assert!(rtt.samples.iter().map(|sample| sample.value).take(10).is_sorted(), "the buckets are cumulative");
}
