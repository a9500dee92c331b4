//! A host of two stacks on a TAP device, under load from the kernel and stock iperf3. Each
//! conversation belongs to one stack from its first frame to its last, both stacks have work, and
//! every frame of the stacks and of their dispatcher is accounted for.
//!
//! The tests run in their own network namespace: the test's binary runs again inside it.

use crate::common;
use crate::common::{Dir, has, isolated, linerate, run};
use port::os::netlink::Netlink;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const OURS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// `linerate up topo/tap-stacks.toml`, and the kernel's side with eight addresses. The hash that
/// assigns addresses to stacks has a fixed key. With a random key, nearly all addresses may belong
/// to one stack.
struct Up {
    child: Child,
    dir: Dir,
}

impl Up {
    fn start(name: &str) -> Up {
        let dir = Dir::new(name);
        let text = include_str!("../../../../topo/tap-stacks.toml").replace("stacks = 2\n", "stacks = 2\nseed = 1\n");
        let file = dir.path("tap-stacks.toml");
        std::fs::write(&file, text).unwrap();
        let mut command = linerate(&["up", &file, "--control-dir", &dir.path("")]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        for _ in 0..2 {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            assert!(line.contains("running; control"), "{line}");
        }
        std::thread::spawn(move || lines.read_to_string(&mut String::new()));
        let mut netlink = Netlink::open().unwrap();
        netlink.set_up("lo").unwrap();
        netlink.set_up("tap0").unwrap();
        (0..8).for_each(|n| netlink.add_addr("tap0", theirs(n), 24).unwrap());
        Up { child, dir }
    }

    fn ask(&self, stack: usize, line: &str) -> Output {
        let url = format!("unix://{}", self.dir.path(&format!("web.{stack}.sock")));
        let mut words = vec!["ctl", "--url", &url, "-j"];
        words.extend(line.split(' '));
        run(&mut linerate(&words))
    }

    #[track_caller]
    fn json(&self, stack: usize, line: &str) -> Value {
        let output = self.ask(stack, line);
        assert!(output.status.success(), "{line}: {output:?}");
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// Returns a counter of both stacks.
    fn counter(&self, name: &str) -> [u64; 2] {
        [0, 1].map(|stack| self.json(stack, "netstat -s -s")[name].as_u64().unwrap_or_else(|| panic!("{name}")))
    }

    /// Ends the host. All three audits must account for all frames.
    fn end(mut self) -> String {
        assert!(Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap().success());
        let code = common::wait(&mut self.child);
        let mut out = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        assert_eq!(code, Some(0), "{out}");
        assert_eq!(out.matches("imbalance           0\n").count(), 3, "{out}");
        assert!(["web.0:", "web.1:", "web:"].iter().all(|name| out.contains(&format!("{name}\n"))), "{out}");
        out
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn theirs(n: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 101 + n)
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns a column of netstat -Q, summed by stack.
fn by_stack(table: &Value, column: &str) -> Vec<u64> {
    let rows = table["workstreams"].as_array().unwrap();
    let of =
        |stack: u64| rows.iter().filter(move |row| row["workstream"] == stack).map(|row| row[column].as_u64().unwrap());
    (0..2).map(|stack| of(stack).sum()).collect()
}

#[test]
fn each_connection_belongs_to_one_stack() {
    isolated("each_connection_belongs_to_one_stack", || {
        let up = Up::start("split-flows");
        up.json(0, "sysctl net.isr.proto.ip.policy=flow");
        assert_eq!(up.json(1, "sysctl net.isr.proto.ip.policy")["net.isr.proto.ip.policy"], "flow");
        // All streams are open at once. Streams at this port that stay silent are closed by the
        // client, in order.
        let streams: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect((OURS, 5201)).unwrap()).collect();
        until("all accepted", || up.counter("tcp.state.established").iter().sum::<u64>() == 40);
        let accepted = up.counter("tcp.state.established");
        assert!(accepted.iter().all(|n| *n >= 8), "{accepted:?}");
        drop(streams);
        // Neither stack received a segment of the other's connections, so neither has sent a reset.
        assert_eq!(up.counter("tcp.out.resets"), [0, 0]);
        let sockets: Vec<UdpSocket> = (0..16)
            .map(|_| {
                let socket = UdpSocket::bind((theirs(0), 0)).unwrap();
                socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                socket.connect((OURS, 7)).unwrap();
                socket
            })
            .collect();
        for n in 0..200u32 {
            for socket in &sockets {
                socket.send(&n.to_be_bytes()).unwrap();
            }
            for socket in &sockets {
                let mut got = [0; 8];
                assert_eq!((socket.recv(&mut got).unwrap(), u32::from_be_bytes(got[..4].try_into().unwrap())), (4, n));
            }
        }
        let delivered = up.counter("inet.udp.delivered");
        assert!(
            delivered.iter().sum::<u64>() == 3200 && delivered.iter().all(|n| n % 200 == 0 && *n > 0),
            "{delivered:?}"
        );
        // All fragments of a datagram belong to one stack.
        let whole: Vec<u8> = (0..8000).map(|n| n as u8).collect();
        for socket in &sockets {
            socket.send(&whole).unwrap();
            let mut got = vec![0; 9000];
            assert_eq!(socket.recv(&mut got).unwrap(), 8000);
            assert_eq!(got[..8000], whole);
        }
        let table = up.json(1, "netstat -Q");
        assert_eq!((by_stack(&table, "queue-drops"), &table["threads"]), (vec![0, 0], &2.into()));
        assert!(table["dispatched"]["node.split.copied"].as_u64().unwrap() > 0, "ARP is for both: {table}");
        up.end();
    });
}

#[test]
fn iperf3_of_several_peers_loads_both_stacks() {
    if !has("iperf3") {
        return println!("skipped: iperf3 is not installed");
    }
    isolated("iperf3_of_several_peers_loads_both_stacks", || {
        let up = Up::start("split-iperf3");
        let test = |n: u8, extra: &'static [&'static str]| {
            move || {
                let mut command = Command::new("iperf3");
                let from = theirs(n).to_string();
                command.args(["-c", "10.0.0.2", "-B", &from, "-t", "2", "-P", "2", "-J"]).args(extra);
                let output = run(&mut command);
                let report: Value = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(report.get("error"), None, "{n} {extra:?}: {report:#}");
                report["end"]["sum_received"]["bytes"].as_f64().unwrap()
            }
        };
        // Eight clients, several at a time. One stack must not receive anything of a test that
        // belongs to the other.
        let mut moved = 0.0;
        for four in [[0, 1, 2, 3], [4, 5, 6, 7]] {
            let extra = [&[][..], &["-R"], &["-u", "-b", "20M"], &["--bidir"]];
            let tests: Vec<_> = four.iter().zip(extra).map(|(n, extra)| std::thread::spawn(test(*n, extra))).collect();
            moved += tests.into_iter().map(|test| test.join().unwrap()).sum::<f64>();
        }
        assert!(moved > 1e6, "{moved}");
        let (table, accepted) = (up.json(0, "netstat -Q"), up.counter("tcp.state.established"));
        assert!(by_stack(&table, "handled").iter().all(|n| *n > 500), "{table}");
        assert!(accepted.iter().all(|n| *n >= 3), "control and streams of each test: {accepted:?}");
        up.end();
    });
}
