//! Jobs on connected hosts, on virtual time.

use clock::{Clock, Duration, SimClock};
use lock::Up;
use node::Host;
use node::config::HostConfig;
use port::Pairs;
use socket::Opt;

/// Three hosts in a row. The middle one is a router.
struct Row {
    hosts: [Host<Up>; 3],
    pairs: Pairs,
    clock: SimClock,
}

impl Row {
    fn new() -> Row {
        let (clock, pairs) = (SimClock::new(), Pairs::new());
        clock.advance(Duration::from_secs(1));
        let host = |name: &str| {
            let config = HostConfig { name: name.into(), pool_buffers: 256, seed: Some(7), ..HostConfig::default() };
            Host::new(&config, Clock::sim(&clock)).unwrap()
        };
        let row = Row { hosts: [host("a"), host("r"), host("b")], pairs, clock: clock.clone() };
        for (at, line) in [
            (0, "ifconfig em0 create port pair:ar inet 10.0.1.1/24"),
            (1, "ifconfig em0 create port pair:ar inet 10.0.1.254/24"),
            (1, "ifconfig em1 create port pair:rb inet 10.0.2.254/24"),
            (2, "ifconfig em0 create port pair:rb inet 10.0.2.1/24"),
            (0, "ip route add default via 10.0.1.254"),
            (2, "ip route add default via 10.0.2.254"),
            (1, "sysctl -w net.inet.ip.forwarding=1"),
            (0, "ip -6 addr add 2001:db8::1/64 dev em0"),
            (1, "ip -6 addr add 2001:db8::ff/64 dev em0"),
        ] {
            row.ok(at, line);
        }
        row.run(3000); // IPv6 addresses are tentative at first
        row
    }

    fn say(&self, at: usize, line: &str, json: bool) -> Result<String, String> {
        let words: Vec<&str> = line.split(' ').collect();
        crate::host::run(&self.hosts[at], &self.pairs, &words, json).map_err(|e| e.to_string())
    }

    #[track_caller]
    fn ok(&self, at: usize, line: &str) -> String {
        self.say(at, line, false).unwrap_or_else(|why| panic!("{line}: {why}"))
    }

    fn run(&self, ms: u64) {
        for _ in 0..ms {
            while self.hosts.iter().map(|host| host.step().frames).sum::<usize>() > 0 {}
            self.clock.advance(Duration::from_millis(1));
        }
    }

    /// Starts a job on the first host and runs it until it ends. Returns its state and output.
    fn job(&self, line: &str, json: bool) -> (String, String) {
        let id = self.say(0, &format!("job {line}"), json).unwrap();
        let mut out = String::new();
        for _ in 0..600 {
            self.run(100);
            let text = self.ok(0, &format!("job read {}", id.trim()));
            let (state, more) = text.split_once('\n').unwrap();
            out += more;
            if state != "running" {
                assert_eq!(self.ok(0, "job list"), "", "an ended job is removed by its last read");
                return (state.to_string(), out);
            }
        }
        panic!("{line}: no end: {out}");
    }
}

#[test]
fn ping_output_matches_iputils() {
    let row = Row::new();
    let (state, out) = row.job("ping -c 3 10.0.2.1", false);
    assert_eq!(state, "done");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines[0], "PING 10.0.2.1 (10.0.2.1) 56(84) bytes of data.");
    for (at, line) in lines[1..4].iter().enumerate() {
        let begin = format!("64 bytes from 10.0.2.1: icmp_seq={} ttl=63 time=", at + 1);
        assert!(line.starts_with(&begin) && line.ends_with(" ms"), "{line}");
    }
    assert_eq!(lines[5], "--- 10.0.2.1 ping statistics ---");
    assert!(lines[6].starts_with("3 packets transmitted, 3 received, 0% packet loss, time 2000ms"), "{}", lines[6]);
    assert!(lines[7].starts_with("rtt min/avg/max/mdev = 0.000/"), "{}", lines[7]);
    let (state, out) = row.job("ping -c 2 -i 0.2 -s 1000 2001:db8::ff", false);
    assert!(state == "done" && out.contains("1008 bytes from 2001:db8::ff: icmp_seq=2 ttl=64 time="), "{state} {out}");
    let (_, out) = row.job("ping -c 1 10.0.2.1", true);
    let rows: Vec<serde_json::Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&rows[0]["seq"], &rows[0]["ttl"], &rows[1]["received"]), (&1.into(), &63.into(), &1.into()));
    let audit = row.hosts[0].stack.audit(row.hosts[0].cx());
    assert_eq!((audit.imbalance(), row.hosts[0].stack.pool.stats().live()), (0, 0));
}

/// Failures: no neighbor, no route, an expired TTL, a packet that must not be fragmented, no reply.
#[test]
fn failed_pings_report_the_reason() {
    let row = Row::new();
    for (line, says) in [
        ("ping -c 1 10.0.1.77", "From 10.0.1.1 icmp_seq=1 Destination Host Unreachable"),
        ("ping -c 1 -t 1 10.0.2.1", "From 10.0.1.254 icmp_seq=1 Time to live exceeded"),
        ("ping -c 1 -M do -s 2000 10.0.2.1", "ping: sendmsg: Message too long, mtu=1500"),
        ("ping -c 1 2001:db8:1::1", "ping: sendmsg: Network is unreachable"),
        ("ping -c 1 10.0.2.77", "From 10.0.1.254 icmp_seq=1 Destination Host Unreachable"),
    ] {
        let (state, out) = row.job(line, false);
        assert!(state == "failed no reply" && out.contains(says), "{line}: {state}: {out}");
        assert!(out.contains("1 packets transmitted, 0 received, +1 errors, 100% packet loss"), "{out}");
    }
    row.ok(2, "ifconfig em0 down");
    let (state, out) = row.job("ping -c 2 -i 0.1 -W 0.5 10.0.2.1", false);
    assert!(state.starts_with("failed") && out.contains("2 packets transmitted, 0 received,"), "{out}");
    assert!(
        row.say(0, "job ping 10.0.2", false)
            .unwrap_err()
            .contains("'10.0.2' is neither an IP address nor a domain name")
    );
    assert!(row.say(0, "job ping -i 0 10.0.2.1", false).unwrap_err().contains("seconds, from 0.001"));
}

#[test]
fn traceroute_lists_each_hop() {
    let row = Row::new();
    let (state, out) = row.job("traceroute -q 2 10.0.2.1", false);
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(state, "done", "{out}");
    assert_eq!(lines[0].join(" "), "traceroute to 10.0.2.1 (10.0.2.1), 30 hops max, 60 byte packets");
    assert_eq!(([lines[1][0], lines[1][1]], [lines[2][0], lines[2][1]]), (["1", "10.0.1.254"], ["2", "10.0.2.1"]));
    assert!(lines.len() == 3 && lines[1].len() == 6, "{out}");
    let (state, out) = row.job("traceroute -q 1 -m 2 -w 0.5 10.9.9.9", false);
    assert!(state == "done" && out.ends_with(" !N\n"), "the router has no route: {state}: {out}");
}

/// A TCP job transfers bytes in both directions and the end of both directions, and reports a
/// refused connection. A UDP job transfers datagrams.
#[test]
fn tcp_jobs_carry_the_input_of_the_client() {
    let row = Row::new();
    let calls = row.hosts[2].calls();
    let listener = calls.stream_socket().unwrap();
    calls.set_option(listener, Opt::NonBlocking(true)).unwrap();
    calls.bind(listener, "10.0.2.1:80".parse().unwrap()).unwrap();
    calls.listen(listener, 4).unwrap();
    assert_eq!(row.ok(0, "job tcp 10.0.2.1 80"), "1\n");
    assert_eq!(row.ok(0, "job write 1 68656c6c6f"), "5\n");
    row.ok(0, "job end 1");
    row.run(50);
    let calls = row.hosts[2].calls();
    let (fd, _) = calls.accept(listener).unwrap();
    let mut got = [0; 16];
    assert_eq!((calls.recv(fd, &mut got), &got[..5]), (Ok(5), &b"hello"[..]));
    assert_eq!(calls.recv(fd, &mut got), Ok(0), "end of the client's input");
    calls.send(fd, b"bye").unwrap();
    row.run(50);
    assert_eq!(row.ok(0, "job read 1"), "running\n627965");
    row.hosts[2].calls().close(fd).unwrap();
    row.run(50);
    assert_eq!(row.ok(0, "job read 1"), "done\n");
    let (state, _) = row.job("tcp 10.0.2.1 81", false);
    assert!(state.starts_with("failed 10.0.2.1:81: ECONNREFUSED"), "{state}");

    let echo = row.hosts[2].calls().socket().unwrap();
    row.hosts[2].calls().bind(echo, "10.0.2.1:7".parse().unwrap()).unwrap();
    row.hosts[2].calls().set_option(echo, Opt::NonBlocking(true)).unwrap();
    let id = row.ok(0, "job udp 10.0.2.1 7");
    row.ok(0, &format!("job write {} 0102", id.trim()));
    row.run(20);
    let (n, from) = row.hosts[2].calls().recv_from(echo, &mut got).unwrap();
    row.hosts[2].calls().send_to(echo, &got[..n], &from).unwrap();
    row.run(20);
    assert_eq!(row.ok(0, &format!("job read {}", id.trim())), "running\n0102\n");
    row.ok(0, &format!("job stop {}", id.trim()));
    for (line, says) in [
        ("job read 99", "job 99: does not exist"),
        ("job write 99 zz", "pairs of hexadecimal digits"),
        ("job tcp 10.0.2.1 0", "from 1 to 65535"),
        ("job pong", "did you mean 'ping'?"),
    ] {
        assert!(row.say(0, line, false).unwrap_err().contains(says), "{line}");
    }
}

/// The number of open jobs is limited, and jobs that are not read end.
#[test]
fn unread_jobs_end() {
    let row = Row::new();
    for _ in 0..node::jobs::JOBS_MAX {
        row.ok(0, "job ping 10.0.2.1");
    }
    assert!(row.say(0, "job ping 10.0.2.1", false).unwrap_err().contains("cannot start a job: 16 are open"));
    assert_eq!(row.ok(0, "job list").lines().count(), node::jobs::JOBS_MAX);
    row.run(31_000);
    assert_eq!(row.ok(0, "job list"), "");
    assert_eq!(row.job("ping -c 1 10.0.2.1", false).0, "done", "the exchanges of ended jobs can be used again");
}
