use super::*;
use crate::config::{HostConfig, IfaceConfig};
use clock::{Clock, SimClock};
use lock::Up;
use port::Pairs;
use std::sync::Arc;
use std::time::Duration;

fn value(entries: &[Entry], name: &str) -> u64 {
    entries.iter().find(|entry| entry.name == name).unwrap_or_else(|| panic!("no {name}")).value
}

#[test]
fn a_host_has_counters_ports_routes_neighbors_and_connections() {
    let mut config = HostConfig { name: "h".to_owned(), ..HostConfig::default() };
    config.ifaces.push(IfaceConfig::on("null:eth0"));
    config.set_iface("addresses", "10.0.0.1/24").unwrap();
    let host: Host<Up> = crate::build(&config, &Pairs::new(), Clock::sim(&SimClock::new())).unwrap();
    host.set_static_neighbor(host.iface("eth0").unwrap().id, [10, 0, 0, 2].into(), wire::Mac([2; 6])).unwrap();
    let calls = host.calls();
    let listener = calls.stream_socket().unwrap();
    calls.bind(listener, "10.0.0.1:80".parse().unwrap()).unwrap();
    calls.listen(listener, 1).unwrap();
    let datagrams = calls.socket().unwrap();
    calls.send_to(datagrams, b"x", &"10.0.0.2:9".parse().unwrap()).unwrap();
    calls.stream_socket().unwrap(); // neither listens nor was connected: not counted
    let figures = Figures::of_host(&host);
    assert_eq!((figures.node.as_str(), figures.unaccounted), ("h", 0));
    let [port] = &figures.ports[..] else { panic!("{:?}", figures.ports) };
    assert_eq!(
        (port.name.as_str(), port.is_up, value(&port.counters, "port.tx.frames")),
        ("eth0", true, 2),
        "an announcement and a datagram"
    );
    assert_eq!(figures.neighbors.unwrap()[0], [0, 0, 0, 0, 1], "permanent");
    assert_eq!(figures.connections.unwrap(), [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "one listener");
    assert!(figures.routes.unwrap()[0] >= 2, "{:?}", figures.routes);
    for reason in stats::DropReason::ALL {
        value(&figures.counters, reason.name()); // reasons without drops are included
    }
    assert!(figures.addresses.is_none() && figures.pool[1] > 0);
}

/// The handshake is the only sample of the round-trip time, and each collection counts it.
#[test]
fn each_collection_adds_the_round_trip_time_of_a_connection() {
    let (clock, pairs) = (SimClock::new(), Pairs::new());
    let [a, b]: [Host<Up>; 2] = [("a", "10.0.0.1/24"), ("b", "10.0.0.2/24")].map(|(name, addr)| {
        let mut config = HostConfig { name: name.to_owned(), seed: Some(7), ..HostConfig::default() };
        config.ifaces.push(IfaceConfig { name: Some("eth0".to_owned()), ..IfaceConfig::on("pair:ab") });
        config.set_iface("addresses", addr).unwrap();
        crate::build(&config, &pairs, Clock::sim(&clock)).unwrap()
    });
    let (client, server) = (a.shared_calls(), b.shared_calls());
    let listener = server.stream_socket().unwrap();
    server.bind(listener, "10.0.0.2:80".parse().unwrap()).unwrap();
    server.listen(listener, 1).unwrap();
    let connection = client.stream_socket().unwrap();
    client.set_option(connection, socket::Opt::NonBlocking(true)).unwrap();
    assert_eq!(client.connect(connection, "10.0.0.2:80".parse().unwrap()), Err(socket::Errno::EINPROGRESS));
    assert_eq!(Figures::of_host(&a).rtt.unwrap(), crate::figures::RttFigures::default(), "not measured yet");
    for _ in 0..10 {
        a.step();
        clock.advance(clock::Duration::from_millis(1));
        b.step();
        clock.advance(clock::Duration::from_millis(1));
    }
    let taken = [0; 2].map(|_| Figures::of_host(&a).rtt.unwrap());
    assert_eq!(taken.map(|rtt| rtt.buckets), [[0, 0, 0, 1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 2, 0, 0, 0, 0, 0, 0]]);
    assert_eq!(taken.map(|rtt| rtt.sum_us), [4000, 8000], "ARP and the SYN take 2 ms each");
}

#[test]
fn figures_are_collected_from_the_threads_of_the_nodes() {
    let collector = Arc::new(Collector::default());
    let answers = collector.join("answers").unwrap();
    let silent = collector.join("silent").unwrap();
    let ends = collector.join("ends").unwrap();
    drop(ends);
    let node = std::thread::spawn(move || {
        for n in 1..=2 {
            while !dispatch::wait_readable(&[answers.fd()], None).unwrap()[0] {}
            answers.serve(|| Figures { node: "answers".to_owned(), unaccounted: n, ..Figures::default() });
        }
    });
    for n in 1..=2 {
        let all = collector.collect(Duration::from_secs(2));
        let figures: Vec<_> = all.figures.iter().map(|of| (of.node.as_str(), of.unaccounted)).collect();
        assert_eq!((figures, all.silent), (vec![("answers", n)], vec!["silent".to_owned()]));
    }
    node.join().unwrap();
    drop(silent);
    let all = collector.collect(Duration::from_secs(10));
    assert!(all.figures.is_empty() && all.silent.is_empty(), "both have ended: {all:?}");
}

/// Each state is counted under its own name.
#[test]
fn states_have_the_places_of_their_names() {
    use tcp::State;
    let plain = |name: &str| name.replace('_', "").to_lowercase();
    for state in [
        State::SynSent,
        State::SynReceived,
        State::Established,
        State::FinWait1,
        State::FinWait2,
        State::CloseWait,
        State::Closing,
        State::LastAck,
        State::TimeWait,
        State::Closed,
    ] {
        assert_eq!(plain(crate::figures::TCP_STATES[place_of(state)]), plain(&format!("{state:?}")));
    }
    use inet::neigh::State as Neighbor;
    for state in [Neighbor::Incomplete, Neighbor::Reachable, Neighbor::Stale, Neighbor::Probe, Neighbor::Permanent] {
        let place = place_of_neighbor(state);
        assert_eq!(crate::figures::NEIGHBOR_STATES[place], format!("{state:?}").to_lowercase());
    }
}

/// A node whose thread has panicked is not forgotten.
#[test]
fn a_panicked_node_is_silent() {
    let collector = Collector::default();
    let source = collector.join("broken").unwrap();
    let panics = move || {
        let _source = source;
        std::panic::resume_unwind(Box::new("a panic of this test")) // prints no message
    };
    let ended: std::thread::Result<()> = std::thread::spawn(panics).join();
    assert!(ended.is_err());
    for _ in 0..2 {
        assert_eq!(collector.collect(Duration::from_secs(10)).silent, ["broken"]);
    }
}

/// A ring without a request is removed from the doorbell, which would otherwise keep the node
/// awake.
#[test]
fn a_doorbell_is_emptied_without_a_request() {
    let collector: Arc<Collector> = Arc::default();
    let source = collector.join("h").unwrap();
    let waits = collector.clone();
    let collecting = std::thread::spawn(move || waits.collect(Duration::from_secs(600)));
    while !dispatch::wait_readable(&[source.fd()], None).unwrap()[0] {}
    source.serve(Figures::default);
    assert_eq!(collecting.join().unwrap().figures.len(), 1);
    source.serve(|| panic!("nothing is requested"));
    assert!(!dispatch::wait_readable(&[source.fd()], Some(Duration::ZERO)).unwrap()[0]);
}

/// A source that ends during a request is not waited for.
#[test]
fn a_node_that_ends_is_not_waited_for() {
    let collector = Arc::new(Collector::default());
    let source = collector.join("ends").unwrap();
    let waits = collector.clone();
    let collecting = std::thread::spawn(move || waits.collect(Duration::from_secs(600)));
    while !dispatch::wait_readable(&[source.fd()], None).unwrap()[0] {}
    drop(source);
    let all = collecting.join().unwrap();
    assert!(all.figures.is_empty() && all.silent.is_empty(), "{all:?}");
}
