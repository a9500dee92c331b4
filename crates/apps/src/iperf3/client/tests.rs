use super::*;
use crate::iperf3::stream::Datagrams;
use crate::iperf3::{Config, Iperf3, Protocol, Refused, results};
use crate::net::{Far, Net, Rig};
use serde_json::Value;
use std::collections::BTreeMap;

const COOKIE_A: [u8; COOKIE] = *b"abcdefghijklmnopqrstuvwxyz0123456789\0";

/// Our client and our server, each on its own in-memory network; bytes and datagrams are carried
/// between the networks without delay.
struct Pair {
    client: Rig<Client>,
    server: Rig<Iperf3>,
    joined: BTreeMap<usize, Far>,
    /// Drops every n-th datagram to the server and to the client; 0: none.
    lose_each: [usize; 2],
    carried: [usize; 2],
}

impl Pair {
    fn new(params: Params, more: impl FnOnce(&mut ClientConfig)) -> Pair {
        let to = SocketAddr::from(([1, 0, 0, 1], 21));
        let mut config = ClientConfig { json: true, ..ClientConfig::new(params, to, COOKIE_A) };
        more(&mut config);
        let now = Instant::from_millis(1_000);
        let mut net = Net::default();
        net.far_listens.insert(to);
        let server = Config { json: true, datagrams_at: Some(to), ..Config::default() };
        Pair {
            client: Rig::client_of(Client::new(config, now), net),
            server: Rig::new(Iperf3::new(server), Net::default()),
            joined: BTreeMap::new(),
            lose_each: [0; 2],
            carried: [0; 2],
        }
    }

    /// Carries pending data once; returns whether there was any.
    fn carry(&mut self) -> bool {
        self.client.run_until_idle();
        self.server.run_until_idle();
        for far in self.client.net.answer_connects() {
            let from = SocketAddr::from(([1, 0, 0, 2], 50_000 + far.0 as u16));
            let to = SocketAddr::from(([1, 0, 0, 1], 21));
            self.joined.insert(far.0, self.server.net.connect_from(from, to).unwrap());
        }
        let mut moved = false;
        for (ours, theirs) in &self.joined {
            let (client, server) = (&mut self.client.net, &mut self.server.net);
            let up = client.far_recv(Far(*ours), server.far_room(*theirs).min(20_000));
            server.far_send(*theirs, &up);
            let down = server.far_recv(*theirs, client.far_room(Far(*ours)).min(20_000));
            client.far_send(Far(*ours), &down);
            moved |= !up.is_empty() || !down.is_empty();
            if client.far_eof(Far(*ours)) {
                server.far_shut(*theirs);
            }
            if server.far_eof(*theirs) {
                client.far_shut(Far(*ours));
            }
        }
        let (up, down) =
            (std::mem::take(&mut self.client.net.datagrams), std::mem::take(&mut self.server.net.datagrams));
        moved |= !up.is_empty() || !down.is_empty();
        for (from, to, bytes) in up {
            if !self.is_lost(0) {
                let from = SocketAddr::from(([1, 0, 0, 2], from.port()));
                self.server.net.far_send_datagram(from, to, &bytes);
            }
        }
        for (from, to, bytes) in down {
            if !self.is_lost(1) {
                let from = SocketAddr::from(([1, 0, 0, 1], from.port()));
                self.client.net.far_send_datagram(from, to, &bytes);
            }
        }
        moved
    }

    fn is_lost(&mut self, way: usize) -> bool {
        self.carried[way] += 1;
        self.lose_each[way] > 0 && self.carried[way].is_multiple_of(self.lose_each[way])
    }

    /// Runs both sides until the client has ended.
    fn run(&mut self, most: Duration) -> &Result<(), ClientError> {
        let until = self.client.now.after(most);
        while self.client.server.app.result().is_none() && self.client.now < until {
            for _ in 0..20 {
                if !self.carry() {
                    break;
                }
            }
            self.client.pass(Duration::from_millis(1));
            self.server.pass(Duration::from_millis(1));
        }
        for _ in 0..20 {
            self.carry();
        }
        self.client.server.app.result().expect("it has ended")
    }

    fn report(&mut self) -> Value {
        serde_json::from_str(&self.client.server.app.take_output()).unwrap()
    }

    /// Checks that both sides have nothing left except the server's listener.
    fn is_clean(&mut self) {
        for _ in 0..5 {
            self.client.pass(Duration::from_secs(50));
            self.server.pass(Duration::from_secs(50));
            self.carry();
        }
        assert_eq!((self.client.net.fds(), self.server.net.fds()), (0, 2), "{:?}", self.server.net.socks);
        assert!(!self.server.server.app.is_testing());
    }
}

fn tcp() -> Params {
    Params { time: Duration::from_secs(2), block: 10_000, rate: 8_000_000, ..Params::default() }
}

fn udp() -> Params {
    Params { protocol: Protocol::Udp, block: 1000, ..tcp() }
}

fn sum(report: &Value, name: &str, what: &str) -> f64 {
    report["end"][name][what].as_f64().unwrap_or_else(|| panic!("{name} {what}: {report:#}"))
}

#[test]
fn client_and_server_interoperate_over_tcp() {
    for (reverse, bidir, streams) in [(false, false, 1), (true, false, 3), (false, true, 2)] {
        let mut pair = Pair::new(Params { reverse, bidir, streams, ..tcp() }, |config| config.latency = true);
        assert_eq!(pair.run(Duration::from_secs(9)), &Ok(()));
        let report = pair.report();
        // 8 Mbit/s for two seconds: 2 MB per stream.
        for suffix in if bidir { &["", "_bidir_reverse"][..] } else { &[""] } {
            let sent = sum(&report, &format!("sum_sent{suffix}"), "bytes");
            let received = sum(&report, &format!("sum_received{suffix}"), "bytes");
            let due = 2e6 * f64::from(streams);
            assert!((sent - due).abs() <= 0.02 * due && received <= sent && received > 0.95 * due, "{sent} {received}");
        }
        let intervals = report["intervals"].as_array().unwrap();
        let of_intervals: f64 = intervals.iter().map(|interval| interval["sum"]["bytes"].as_f64().unwrap()).sum();
        let own = if reverse { "sum_received" } else { "sum_sent" };
        assert_eq!((intervals.len(), of_intervals), (2, sum(&report, own, "bytes")), "{report:#}");
        assert!(report["end"]["latency"]["round_trips"].as_u64() > Some(100), "{report:#}");
        let server = &pair.server.server.app.counts;
        assert_eq!((server.finished.get(), server.echoes.get()), (1, 1));
        pair.is_clean();
    }
}

#[test]
fn client_and_server_interoperate_over_udp() {
    for (reverse, bidir, counters) in [
        (false, false, super::super::Counters::Wide),
        (true, false, Default::default()),
        (false, true, Default::default()),
    ] {
        let mut pair = Pair::new(Params { reverse, bidir, counters, streams: 2, ..udp() }, |_| ());
        assert_eq!(pair.run(Duration::from_secs(9)), &Ok(()));
        let report = pair.report();
        let (sent, lost) = (sum(&report, "sum_sent", "packets"), sum(&report, "sum_received", "lost_packets"));
        assert!((3_990.0..=4_010.0).contains(&sent) && lost == 0.0, "{sent} {lost}");
        assert!(sum(&report, "sum_received", "packets") > 3_980.0);
        pair.is_clean();
    }
}

#[test]
fn lost_datagrams_are_counted() {
    let mut pair = Pair::new(udp(), |_| ());
    pair.lose_each = [10, 0];
    assert_eq!(pair.run(Duration::from_secs(9)), &Ok(()));
    let report = pair.report();
    let (sent, lost) = (sum(&report, "sum_sent", "packets"), sum(&report, "sum_received", "lost_packets"));
    assert!((lost - sent / 10.0).abs() <= 2.0, "{lost} of {sent}");
    // The first datagram is lost and sent again.
    let mut pair = Pair::new(udp(), |_| ());
    pair.lose_each = [1, 1];
    while pair.carried[0] == 0 {
        pair.carry();
    }
    pair.lose_each = [0; 2];
    assert_eq!(pair.run(Duration::from_secs(9)), &Ok(()));
    pair.is_clean();
}

#[test]
fn omitted_datagrams_do_not_count_at_either_end() {
    // Omitted times shorter and longer than the test itself, in each direction and both.
    for (omit, reverse, bidir) in [(1, false, false), (1, true, false), (3, false, true), (3, true, false)] {
        let omit = Duration::from_secs(omit);
        let mut pair = Pair::new(Params { omit, reverse, bidir, ..udp() }, |_| ());
        pair.lose_each = [10, 10];
        assert_eq!(pair.run(Duration::from_secs(9)), &Ok(()));
        let report = pair.report();
        for suffix in if bidir { &["", "_bidir_reverse"][..] } else { &[""] } {
            let of = |name: &str, what: &str| sum(&report, &format!("{name}{suffix}"), what);
            let (sent, received) = (of("sum_sent", "packets"), of("sum_received", "packets"));
            let lost = of("sum_received", "lost_packets");
            assert!((1_990.0..=2_010.0).contains(&sent) && (sent - received).abs() <= 10.0, "{sent} {received}");
            assert!((lost - sent / 10.0).abs() <= 3.0, "{lost} of {sent}");
        }
        pair.is_clean();
    }
}

/// Returns the results of a peer that has one stream with these numbers.
fn of_peer(numbers: &str) -> Vec<u8> {
    let streams = format!(r#"[{{"id":1,"bytes":1,"retransmits":-1,"jitter":0,{numbers}}}]"#);
    format!(r#"{{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"streams":{streams}}}"#).into_bytes()
}

#[test]
fn results_with_omitted_datagrams_suit_all_iperf3_versions() {
    // 863 datagrams were sent before and 863 after counting began; 3 and 4 of them were lost.
    let mut test = lone(Role::Client);
    test.params = Params { omit: Duration::from_secs(1), ..udp() };
    test.add_stream(Chan(1), test.ends, Instant::ZERO);
    test.streams[0].datagrams = Datagrams { packets: 863, lost: 3, jitter_s: 1.0, ..Datagrams::default() };
    test.streams[0].forget();
    test.streams[0].datagrams = Datagrams { packets: 1_726, lost: 7, jitter_s: 0.5, ..Datagrams::default() };
    let ours = &results::give(&test, None)["streams"][0];
    let of = |what: &str| ours[what].as_f64().unwrap();
    assert_eq!((of("packets"), of("omitted_packets")), (1_726.0, 863.0));
    assert_eq!((of("errors"), of("omitted_errors"), of("jitter")), (7.0, 3.0, 0.5));
    for (peer, numbers, packets, lost) in [
        ("up to 3.13", r#""errors":7,"packets":1720"#, 857, 4),
        ("from 3.14 on", r#""errors":7,"packets":1720,"omitted_errors":2,"omitted_packets":861"#, 859, 5),
        ("fewer than were omitted", r#""errors":900,"packets":800"#, 0, 0),
        ("not numbers", r#""errors":"x","packets":-1"#, 0, 0),
    ] {
        results::take(&mut test, &of_peer(numbers)).unwrap();
        let counts = test.streams[0].peer;
        assert_eq!((counts.packets, counts.lost), (packets, lost), "{peer}");
    }
}

#[test]
fn a_test_ends_after_the_number_of_bytes_or_blocks() {
    let params = Params { time: Duration::ZERO, bytes: 300_000, rate: 0, ..tcp() };
    for reverse in [false, true] {
        let mut pair = Pair::new(Params { reverse, ..params.clone() }, |_| ());
        assert_eq!(pair.run(Duration::from_secs(9)), &Ok(()));
        assert_eq!(sum(&pair.report(), "sum_sent", "bytes"), 300_000.0);
    }
    let mut pair = Pair::new(Params { bytes: 0, blocks: 50, ..Params { time: Duration::ZERO, ..udp() } }, |_| ());
    assert_eq!(pair.run(Duration::from_secs(9)), &Ok(()));
    assert_eq!(sum(&pair.report(), "sum_sent", "packets"), 50.0);
    // The server sends more datagrams in place of those lost on the path to the client, since the
    // client counts received data.
    let down = Params { bytes: 40_000, reverse: true, ..Params { time: Duration::ZERO, ..udp() } };
    let mut pair = Pair::new(down, |_| ());
    pair.lose_each = [0, 5];
    assert_eq!(pair.run(Duration::from_secs(9)), &Ok(()));
    let report = pair.report();
    assert!(sum(&report, "sum_received", "bytes") >= 40_000.0 && sum(&report, "sum_sent", "bytes") > 40_000.0);
}

/// Creates a temporary directory.
fn directory(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("linerate-iperf3-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

#[test]
fn a_file_is_sent_and_ends_the_test() {
    let dir = directory("send");
    for len in [0, 25_000, 30_000] {
        let path = dir.join("source");
        std::fs::write(&path, vec![7; len]).unwrap();
        let mut pair = Pair::new(Params { streams: 2, ..tcp() }, |config| {
            (config.file, config.json) = (Some(path.clone()), false);
        });
        assert_eq!(pair.run(Duration::from_secs(9)), &Ok(()), "{len}");
        // The receiver does not count data in flight at the end of the test.
        let [sent, received] = pair.client.server.app.moved();
        assert!(sent == 2 * len as u64 && received <= sent, "{len}: each stream sends it: {sent}, {received}");
        let printed = pair.client.server.app.take_output();
        assert_eq!(printed.matches(&format!("(100%) of {}\n", path.display())).count(), 2, "{printed}");
        pair.is_clean();
    }
    // A missing file.
    let mut pair = Pair::new(tcp(), |config| config.file = Some(dir.join("none")));
    let why = pair.run(Duration::from_secs(9)).clone().unwrap_err().to_string();
    assert!(why.ends_with("/none: No such file or directory (os error 2)"), "{why}");
    pair.is_clean();
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn received_data_is_written_to_a_file() {
    let dir = directory("receive");
    let path = dir.join("sink");
    // The server sends digits, which shows that it has received the parameter.
    let params =
        Params { reverse: true, bytes: 25_000, time: Duration::ZERO, rate: 0, repeating_payload: true, ..tcp() };
    let mut pair = Pair::new(params, |config| config.file = Some(path.clone()));
    assert_eq!(pair.run(Duration::from_secs(9)), &Ok(()));
    let kept = std::fs::read(&path).unwrap();
    assert_eq!(kept.len() as u64, pair.client.server.app.moved()[1]);
    // Blocks of 10,000 bytes; the pattern continues across them.
    assert!(kept.len() >= 25_000 && kept.iter().zip((b'0'..=b'9').cycle()).all(|(byte, digit)| *byte == digit));
    // A file that cannot be written.
    let mut pair =
        Pair::new(Params { reverse: true, ..tcp() }, |config| config.file = Some(PathBuf::from("/dev/full")));
    let why = pair.run(Duration::from_secs(9)).clone().unwrap_err().to_string();
    assert!(why.starts_with("/dev/full: No space left on device"), "{why}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn connections_use_the_bound_address() {
    let from = std::net::IpAddr::from([1, 0, 0, 9]);
    let mut pair = Pair::new(Params { streams: 2, ..tcp() }, |config| (config.from, config.latency) = (from, true));
    assert_eq!(pair.run(Duration::from_secs(9)), &Ok(()));
    let ends = (0..4).map(|far| pair.client.net.ends_of(Far(far)).local.ip());
    assert!(ends.into_iter().all(|ip| ip == from), "control, two streams, latency");
}

/// Returns a test without connections.
fn lone(role: Role) -> Test {
    let anywhere = SocketAddr::from((std::net::Ipv4Addr::UNSPECIFIED, 0));
    let watch = Watch { interval: Duration::ZERO, cpu: None };
    Test::new(role, Ends { local: anywhere, peer: anywhere }, Vec::new(), watch, Instant::ZERO)
}

#[test]
fn a_long_test_keeps_the_last_lines_of_output() {
    for role in [Role::Client, Role::Server] {
        let (mut test, mut taken) = (lone(role), 0);
        test.start(Instant::ZERO);
        for _ in 0..40_000 {
            test.line(&"x".repeat(99));
            taken += test.take_lines().len();
        }
        assert_eq!(taken, 4_000_000, "what is taken makes room");
        test.stop(Instant::from_millis(1));
        test.line("the last");
        assert_eq!(test.take_lines(), "the last\n");
        assert!(test.printed.len() <= (1 << 20) + (128 << 10));
        assert_eq!(test.printed.ends_with("the last\n"), role == Role::Server);
    }
}

#[test]
fn server_output_is_stored_without_expansion() {
    let deep = "[".repeat(100) + &"0,".repeat(200_000) + "0" + &"]".repeat(100);
    let json = format!(
        r#"{{"cpu_util_total":0,"cpu_util_user":0,"cpu_util_system":0,"streams":[],"server_output_json":{deep}}}"#
    );
    let text = results::take(&mut lone(Role::Client), json.as_bytes()).unwrap().unwrap();
    assert!(text.len() <= json.len(), "{} bytes of {}", text.len(), json.len());
}

#[test]
fn both_ends_survive_a_vanished_peer_at_any_time() {
    // After each number of rounds both ends vanish, by closed connections and by silence.
    for params in [tcp(), udp(), Params { reverse: true, ..udp() }] {
        for rounds in 0..14 {
            for is_silent in [false, true] {
                let mut pair = Pair::new(params.clone(), |config| config.latency = true);
                for _ in 0..rounds {
                    pair.carry();
                    pair.client.pass(Duration::from_millis(200));
                    pair.server.pass(Duration::from_millis(200));
                }
                pair.server.net.datagrams.clear();
                for far in pair.joined.values().filter(|_| !is_silent) {
                    pair.server.net.far_reset(*far);
                }
                for _ in 0..40 {
                    pair.server.pass(Duration::from_secs(10));
                    pair.server.net.datagrams.clear();
                }
                assert_eq!(
                    (pair.server.net.fds(), pair.server.server.app.is_testing()),
                    (2, false),
                    "{rounds} {is_silent}"
                );
                let counts = &pair.server.server.app.counts;
                let ended = counts.finished.get() + counts.abandoned.get() + counts.failed.get();
                assert_eq!(ended, counts.tests.get());
            }
        }
    }
}

#[test]
fn a_stopped_side_reports_partial_results() {
    for params in [tcp(), udp(), Params { reverse: true, ..tcp() }, Params { bidir: true, ..udp() }] {
        for rounds in 1..14 {
            for is_client in [false, true] {
                let mut pair = Pair::new(params.clone(), |config| config.json = false);
                for _ in 0..rounds {
                    (0..4).for_each(|_| _ = pair.carry());
                    pair.client.pass(Duration::from_millis(100));
                    pair.server.pass(Duration::from_millis(100));
                }
                let was_running = pair.client.server.app.test.is_running() && pair.server.server.app.is_testing();
                let (client_now, server_now) = (pair.client.now, pair.server.now);
                let has_last_word = if is_client {
                    pair.client.server.app.stop(client_now)
                } else {
                    pair.server.server.app.stop(server_now)
                };
                assert!(has_last_word || !was_running);
                for _ in 0..20 {
                    pair.carry();
                }
                let (client, server) = (&mut pair.client.server.app, &mut pair.server.server.app);
                let (result, printed) = (client.result().cloned(), [client.take_output(), server.take_output()]);
                let case = format!("{rounds} rounds, client {is_client}: {result:?} {printed:?}");
                if was_running {
                    let why = if is_client { ClientError::Interrupted } else { ClientError::Terminated };
                    assert_eq!(result, Some(Err(why)), "{case}");
                    let expected = ["the client has terminated", "the server has terminated"];
                    assert!(printed[1].contains(expected[usize::from(!is_client)]), "{case}");
                    assert!(printed[0].contains("sender") && printed[0].contains("receiver"), "{case}");
                    assert!(printed[1].contains("sender") || printed[1].contains("receiver"), "{case}");
                    assert_eq!(server.counts.abandoned.get(), 1, "{case}");
                    assert!(!server.is_testing() && pair.client.net.fds() == 0, "{case}");
                }
                for _ in 0..20 {
                    pair.client.pass(Duration::from_secs(10));
                    pair.server.pass(Duration::from_secs(10));
                    pair.carry();
                }
                assert!(!pair.server.server.app.is_testing(), "{case}");
            }
        }
    }
}

/// Runs our client against the given server messages.
fn against(says: &[&[u8]]) -> Rig<Client> {
    let mut pair = Pair::new(tcp(), |config| config.json = false);
    let client = &mut pair.client;
    client.run_until_idle();
    let control = client.net.answer_connects()[0];
    client.run_until_idle();
    for words in says {
        client.say(control, words);
    }
    pair.client
}

#[test]
fn invalid_server_messages_are_errors() {
    let error = |rig: &Rig<Client>| rig.server.app.result().and_then(|result| result.clone().err());
    assert_eq!(error(&against(&[&[255]])), Some(ClientError::Busy));
    assert_eq!(error(&against(&[&[9], &[11]])), Some(ClientError::Terminated));
    assert_eq!(error(&against(&[&[9, 14]])), Some(ClientError::Nonsense(14)));
    assert_eq!(error(&against(&[&[9, 10, 1, 2]])), Some(ClientError::Nonsense(2)));
    assert_eq!(error(&against(&[&[9, 254], &[0, 0], &[0, 6]])), Some(ClientError::Server(Refused::Streams as u32)));
    assert_eq!(error(&against(&[&[254]])), None, "the number is waited for");
    // A server that stops sending in each phase.
    for says in [&[][..], &[&[9][..]], &[&[9, 10]], &[&[9, 254, 0]]] {
        let mut rig = against(says);
        rig.pass(Duration::from_secs(100));
        assert!(matches!(error(&rig), Some(ClientError::Silent(_))), "{says:?}: {:?}", error(&rig));
        assert_eq!(rig.net.fds(), 0, "{says:?}");
    }
    // A server that disconnects.
    let mut pair = Pair::new(tcp(), |_| ());
    for _ in 0..10 {
        pair.carry();
    }
    let far = Far(*pair.joined.keys().next().unwrap());
    pair.client.net.far_reset(far);
    pair.client.run_until_idle();
    assert_eq!(error(&pair.client), Some(ClientError::Vanished));
    assert_eq!(pair.client.net.fds(), 0);
    assert!(pair.report()["error"].is_string());
    // No server.
    let mut pair = Pair::new(tcp(), |_| ());
    pair.client.net.far_listens.clear();
    pair.carry();
    pair.client.run_until_idle();
    assert_eq!(error(&pair.client), Some(ClientError::Unable(Failure::Refused)));
}

#[test]
fn concurrent_tests_are_limited() {
    let to = SocketAddr::from(([1, 0, 0, 1], 21));
    let config = Config { clients_max: 2, datagrams_at: Some(to), ..Config::default() };
    let mut rig = Rig::new(Iperf3::new(config), Net::default());
    let begin = |rig: &mut Rig<Iperf3>, first: u8, protocol: &str| {
        let control = rig.client();
        let mut cookie = COOKIE_A;
        cookie[0] = first;
        let json = format!(r#"{{"{protocol}":true,"time":5,"len":1000,"parallel":1}}"#);
        rig.net.far_send(control, &cookie);
        rig.net.far_send(control, &(json.len() as u32).to_be_bytes());
        rig.net.far_send(control, json.as_bytes());
        rig.run_until_idle();
        (control, rig.net.far_recv(control, 100))
    };
    let (one, printed) = begin(&mut rig, b'1', "udp");
    assert_eq!(printed, [9, 10]);
    // UDP streams have no cookie, so the second UDP test of this client address waits until the
    // first one has all its streams.
    let (other, printed) = begin(&mut rig, b'2', "udp");
    assert_eq!(printed, [9]);
    let (_, printed) = begin(&mut rig, b'3', "tcp");
    assert_eq!(printed, [255]);
    let from = |port| SocketAddr::from(([1, 0, 0, 2], port));
    rig.net.far_send_datagram(from(7001), to, b"9876");
    rig.run_until_idle();
    assert_eq!(rig.net.datagrams.pop_front(), Some((to, from(7001), b"6789".to_vec())));
    assert_eq!((rig.net.far_recv(one, 100), rig.net.far_recv(other, 100)), (vec![1, 2], vec![10]));
    // A first datagram from another address is ignored.
    rig.net.far_send_datagram(SocketAddr::from(([1, 0, 0, 9], 7002)), to, b"9876");
    rig.net.far_send_datagram(from(7002), to, &[1; 1000]);
    rig.run_until_idle();
    assert_eq!((rig.server.app.counts.stray.get(), rig.server.app.testing()), (2, 2));
    rig.net.far_send_datagram(from(7003), to, b"9876");
    rig.run_until_idle();
    assert_eq!(rig.net.far_recv(other, 100), [1, 2]);
}
