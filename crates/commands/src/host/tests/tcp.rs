//! TCP output of a host: two connected hosts on virtual time.

use super::*;
use clock::Duration;
use socket::{Errno, Fd, Opt};
use std::net::{Shutdown, SocketAddr};

struct Two {
    a: Bench,
    b: Bench,
    clock: SimClock,
}

impl Two {
    fn new() -> Two {
        let (clock, pairs) = (SimClock::new(), Arc::new(Pairs::new()));
        clock.advance(Duration::from_secs(1));
        let host = |name: &str, addr: &str, seed| {
            let config =
                HostConfig { name: name.to_string(), pool_buffers: 512, seed: Some(seed), ..HostConfig::default() };
            let bench = Bench(Host::new(&config, Clock::sim(&clock)).unwrap(), pairs.clone());
            bench.ok("ifconfig em0 create port pair:ab");
            bench.ok(&format!("ifconfig em0 inet {addr}/24"));
            bench
        };
        let (a, b) = (host("a", "10.0.0.1", 1), host("b", "10.0.0.2", 2));
        Two { a, b, clock }
    }

    /// Runs both hosts until nothing happens, at most for `most`, with 100 microseconds per frame.
    fn settle(&self, most: Duration) {
        let until = self.clock.now().after(most);
        for _ in 0..100_000 {
            let steps = [self.a.0.step(), self.b.0.step()];
            if steps.iter().any(|step| step.frames > 0) {
                self.clock.advance(Duration::from_micros(100));
                continue;
            }
            let next = steps.iter().filter_map(|step| step.next).min().filter(|next| *next <= until);
            let Some(next) = next else { return self.clock.advance_to(until) };
            self.clock.advance_to(next);
        }
        panic!("the hosts do not become idle");
    }

    /// Returns (listener, client, server): host a listens on port 80, and host b has connected.
    fn connect(&self) -> (Fd, Fd, Fd) {
        let a = self.a.0.shared_calls();
        let listener = a.stream_socket().unwrap();
        a.set_option(listener, Opt::NonBlocking(true)).unwrap();
        a.bind(listener, addr("10.0.0.1:80")).unwrap();
        a.listen(listener, 5).unwrap();
        let client = self.client();
        self.settle(Duration::from_millis(20));
        let (server, _) = self.a.0.shared_calls().accept(listener).unwrap();
        self.a.0.shared_calls().set_option(server, Opt::NonBlocking(true)).unwrap();
        (listener, client, server)
    }

    /// Returns a socket of b that connects to port 80 of a.
    fn client(&self) -> Fd {
        let b = self.b.0.shared_calls();
        let client = b.stream_socket().unwrap();
        b.set_option(client, Opt::NonBlocking(true)).unwrap();
        assert_eq!(b.connect(client, addr("10.0.0.1:80")), Err(Errno::EINPROGRESS));
        client
    }
}

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Returns the value of `name` in `netstat -ssj`.
fn count(bench: &Bench, name: &str) -> u64 {
    bench.json("netstat -ss")[name].as_u64().unwrap_or_else(|| panic!("no counter {name}"))
}

#[test]
fn ss_shows_every_state_with_what_belongs_to_it() {
    let two = Two::new();
    let (_, client, server) = two.connect();
    let waiting = two.client(); // connected, not accepted
    two.settle(Duration::from_millis(20));
    two.b.0.shared_calls().send(client, &[7; 5000]).unwrap();
    two.settle(Duration::from_millis(300));

    let text = two.a.ok("ss -tln");
    let line = text.lines().nth(1).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["tcp", "LISTEN", "1", "5", "10.0.0.1:80", "0.0.0.0:*"]);

    let text = two.a.ok("ss -tiepmo");
    assert_eq!(text.lines().count(), 5, "{text}"); // the header, and two connections of two lines
    let (first, second) = (text.lines().nth(1).unwrap(), text.lines().nth(2).unwrap());
    for part in ["ESTAB", " 5000      0 ", "10.0.0.1:80", "users:((\"a\",pid=", " <-> nonblock"] {
        assert!(first.contains(part), "{part:?} not in {first}");
    }
    for part in [
        " skmem:(r5000,rb",
        " ts sack cubic wscale:7,7 rto:",
        " mss:1448 pmtu:1500 rcvmss:1448 advmss:1460 cwnd:10",
        " bytes_received:5000",
        " segs_in:",
        " data_segs_in:4",
        " lastrcv:",
        " rcv_space:",
    ] {
        assert!(second.contains(part), "{part:?} not in {second}");
    }
    assert!(!second.contains("bytes_sent"), "{second}");
    assert!(two.b.ok("ss -ti").contains(" bytes_sent:5000 bytes_acked:5000 "), "{}", two.b.ok("ss -ti"));

    let row = &two.a.json("ss -t")[0];
    assert_eq!((&row["state"], &row["recv_q"]), (&"ESTAB".into(), &5000.into()));
    let info = &row["tcp_info"];
    assert_eq!((&info["tcpi_state"], &info["tcpi_bytes_received"]), (&1.into(), &5000.into()));
    assert_eq!((&info["tcpi_snd_mss"], &info["congestion"]), (&1448.into(), &"cubic".into()));
    assert_eq!(info.as_object().unwrap().len(), 52);
    assert!(row["skmem"]["r"] == 5000 && row["timer"].is_null(), "{row}");

    // The retransmission timer runs while data is unacknowledged. Otherwise, with keepalive
    // enabled, the keepalive timer runs.
    two.b.0.shared_calls().send(client, b"x").unwrap();
    let text = two.b.ok("ss -to");
    assert!(text.contains(" timer:(on,") && text.contains("ESTAB           0      1 "), "{text}");
    two.settle(Duration::from_millis(300));
    two.b.0.shared_calls().set_option(waiting, Opt::KeepAlive(true)).unwrap();
    assert!(two.b.ok("ss -toe").contains("timer:(keepalive,120min,0)"), "{}", two.b.ok("ss -toe"));

    // b closes first: b is in FIN-WAIT-2 and a in CLOSE-WAIT. After a closes, LAST-ACK ends at once
    // at a, and TIME-WAIT remains at b.
    two.b.0.shared_calls().shutdown(client, Shutdown::Write).unwrap();
    two.settle(Duration::from_millis(20));
    assert!(two.b.ok("ss -t").contains("FIN-WAIT-2") && two.a.ok("ss -t").contains("CLOSE-WAIT"));
    two.a.0.shared_calls().recv(server, &mut [0; 6000]).unwrap();
    two.a.0.shared_calls().close(server).unwrap();
    two.b.0.shared_calls().close(client).unwrap();
    two.settle(Duration::from_millis(20));
    assert!(!two.b.ok("ss -t").contains("TIME-WAIT"), "it is not listed by default");
    let text = two.b.ok("ss -tao");
    assert!(text.contains("TIME-WAIT") && text.contains("timer:(timewait,59sec,0)"), "{text}");
    assert_eq!(two.b.json("ss -s")["tcp"]["timewait"], 1);
    assert!(two.b.ok("ss -s").contains("(estab 1, closed 0, orphaned 0, timewait 1, listen 0, synrecv 0)"));
}

/// As in Linux, handshakes are listed with -a only, with the time until the SYN-ACK is
/// retransmitted.
#[test]
fn ss_lists_handshakes_under_way() {
    let two = Two::new();
    let a = two.a.0.shared_calls();
    let listener = a.stream_socket().unwrap();
    a.bind(listener, addr("10.0.0.1:80")).unwrap();
    a.listen(listener, 5).unwrap();
    two.client();
    let begun = (0..10).any(|_| {
        two.clock.advance(Duration::from_micros(100));
        two.b.0.step();
        two.a.0.step();
        two.a.ok("ss -ta").contains("SYN-RECV")
    });
    let text = two.a.ok("ss -tano");
    let line = text.lines().find(|line| line.contains("SYN-RECV")).unwrap_or_else(|| panic!("{begun}: {text}"));
    assert!(line.contains(" 10.0.0.1:80 ") && line.contains(" 10.0.0.2:") && line.contains("timer:(on,"), "{line}");
    assert!(!two.a.ok("ss -t").contains("SYN-RECV"), "it is not listed by default");
    assert!(two.a.ok("ss -s").contains("synrecv 1)"), "{}", two.a.ok("ss -s"));
    assert!(two.a.ok("netstat -an").contains("SYN_RCVD"), "{}", two.a.ok("netstat -an"));
    two.settle(Duration::from_millis(20));
    let text = two.a.ok("ss -ta");
    assert!(text.contains("ESTAB") && !text.contains("SYN-RECV"), "{text}");
}

#[test]
fn handshakes_under_way_are_counted_at_their_listener() {
    let two = Two::new();
    let a = two.a.0.shared_calls();
    let listener = a.stream_socket().unwrap();
    a.bind(listener, addr("10.0.0.1:80")).unwrap();
    a.listen(listener, 5).unwrap();
    two.client();
    for _ in 0..6 {
        two.b.0.step();
        two.a.0.step();
        if count(&two.a, "tcp.listen.added") == 1 {
            break;
        }
    }
    assert!(two.b.ok("ss -ta").contains("SYN-SENT"));
    assert_eq!(two.a.json("ss -tl")[0]["syn_recv"], 1);
    assert!(two.a.ok("ss -tle").contains(" synrecv:1/1024"), "{}", two.a.ok("ss -tle"));
    assert!(two.a.ok("netstat -sp tcp").contains("\t1 connection in SYN_RCVD state\n"));
    assert!(two.a.ok("netstat -sp tcp").contains("\t1 syncache entry added\n"));
}

#[test]
fn netstat_speaks_as_freebsds_does() {
    let two = Two::new();
    let (_, client, server) = two.connect();
    two.b.0.shared_calls().send(client, &[7; 5000]).unwrap();
    two.settle(Duration::from_millis(300));
    let text = two.a.ok("netstat -an -p tcp");
    assert_eq!(text.lines().next(), Some("Active Internet connections (including servers)"));
    assert!(text.contains("tcp4       0      0 *.80") || text.contains("tcp4       0      0 10.0.0.1.80"), "{text}");
    assert!(
        text.lines().any(|l| l.starts_with("tcp4    5000      0 10.0.0.1.80") && l.ends_with("ESTABLISHED")),
        "{text}"
    );
    assert!(!two.a.ok("netstat").contains("LISTEN") && !two.a.ok("netstat -ap udp").contains("tcp4"));

    let text = two.a.ok("netstat -sp tcp");
    for line in [
        "tcp:",
        "\t1 connection accept",
        "\t1 connection established (including accepts)",
        "\t\t4 packets (5000 bytes) received in-sequence",
        "\t1 syncache entry added",
        "\t\t1 completed",
        "TCP connection count by state:",
        "\t1 connection in LISTEN state",
        "\t1 connection in ESTABLISHED state",
        "\t0 connections in TIME_WAIT state",
    ] {
        assert!(text.lines().any(|found| found == line), "{line:?} not in {text}");
    }
    assert!(!text.contains("inet.arp") && !text.contains("retransmit timeout"), "{text}");
    assert!(
        two.a.ok("netstat -ssp tcp").contains("\t0 retransmit timeouts\n\t\t0 connections dropped by rexmit timeout\n")
    );
    let text = two.b.ok("netstat -sp tcp");
    assert!(text.contains("\t\t4 data packets (5000 bytes)\n"), "{text}");
    assert!(text.contains("\t1 connection request\n"), "{text}");
    assert!(two.b.no("netstat -s -p tpc").contains("did you mean 'tcp'?"));
    two.a.0.shared_calls().close(server).unwrap(); // with unread data: a reset
    two.settle(Duration::from_millis(20));
    assert_eq!((count(&two.a, "tcp.out.resets"), count(&two.b, "tcp.in.resets")), (1, 1));
    assert_eq!((count(&two.a, "tcp.state.aborted_on_close"), count(&two.b, "tcp.state.reset")), (1, 1));
    assert!(two.b.ok("netstat -sp tcp").contains("\t1 connection closed (including 1 drop)\n"));
}

#[test]
fn the_audit_balances_with_streams_open_closed_and_reset() {
    let two = Two::new();
    let balanced = || {
        for bench in [&two.a, &two.b] {
            let audit = bench.json("audit");
            assert_eq!((&audit["imbalance"], &audit["held"]), (&0.into(), &0.into()), "{audit}");
            assert_eq!((&audit["ports"]["rx_imbalance"], &audit["ports"]["tx_imbalance"]), (&0.into(), &0.into()));
        }
    };
    let (listener, client, server) = two.connect();
    balanced();
    let (a, b) = (two.a.0.shared_calls(), two.b.0.shared_calls());
    let mut left = 300_000;
    while left > 0 {
        // Segments sent by a call have the time of the call's context.
        let (a, b) = (two.a.0.shared_calls(), two.b.0.shared_calls());
        if let Ok(n) = b.send(client, &vec![1; left.min(20_000)]) {
            left -= n;
        }
        while matches!(a.recv(server, &mut [0; 9000]), Ok(1..)) {}
        two.settle(Duration::from_millis(1));
    }
    balanced();
    let reset = two.client();
    two.settle(Duration::from_millis(20));
    b.send(reset, b"nobody reads this").unwrap();
    two.settle(Duration::from_millis(20));
    a.close(listener).unwrap();
    b.shutdown(client, Shutdown::Write).unwrap();
    two.settle(Duration::from_millis(20));
    balanced();
    let refused = two.client();
    two.settle(Duration::from_millis(20));
    assert_eq!(two.a.0.stack.counter("inet.tcp.in.no_connection"), 1);
    [(&a, server), (&b, client), (&b, reset), (&b, refused)]
        .into_iter()
        .for_each(|(calls, fd)| calls.close(fd).unwrap());
    two.settle(Duration::from_secs(100));
    balanced();
    assert!(two.a.json("audit")["consumed"].as_u64().unwrap() > 200);
    for bench in [&two.a, &two.b] {
        assert_eq!(bench.json("ss -ta").as_array().unwrap().len(), 0);
        assert_eq!(bench.json("show pools")[0]["live"], 0);
    }
}

#[test]
fn tcps_sysctls_are_listed_set_and_named() {
    let two = Two::new();
    let b = &two.b;
    assert!(b.ok("sysctl net.inet.tcp").lines().count() > 20);
    assert_eq!(b.ok("sysctl -n net.inet.tcp.msl"), "30000\n");
    assert_eq!(b.ok("sysctl net.inet.tcp.msl=5"), "net.inet.tcp.msl: 30000 -> 5\n");
    assert!(b.no("sysctl net.inet.tcp.ecn.enable=3").contains("a number from 0 to 2"));
    assert_eq!(b.ok("sysctl net.inet.tcp.cc.algorithm"), "net.inet.tcp.cc.algorithm: cubic\n");
    assert_eq!(b.ok("sysctl net.inet.tcp.cc.algorithm=newreno"), "net.inet.tcp.cc.algorithm: cubic -> newreno\n");
    assert_eq!(b.ok("sysctl -n net.inet.tcp.cc.cubic"), "0\n");
    let fault = b.no("sysctl net.inet.tcp.cc.algorithm=vegas");
    assert!(fault.contains("net.inet.tcp.cc.algorithm 'vegas': expected newreno or cubic"), "{fault}");
    assert_eq!(b.ok("sysctl -n net.inet.tcp.cc.algorithm=reno"), "newreno\n");
    assert_eq!(b.json("sysctl -a")["net.inet.tcp.cc.algorithm"], "newreno");
    two.connect();
    assert_eq!(b.json("ss -t")[0]["tcp_info"]["congestion"], "reno"); // Linux's name
    assert_eq!(two.a.json("ss -t")[0]["tcp_info"]["congestion"], "cubic");
    let mut config = HostConfig::default();
    config.set("net.inet.tcp.cc.algorithm", "newreno").unwrap();
    let host: Host<Up> = Host::new(&config, Clock::sim(&two.clock)).unwrap();
    assert!(!host.stack.sysctls.tcp_cc_cubic.on());
}
