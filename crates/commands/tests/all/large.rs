//! Large segments between hosts: unsegmented over a pair with TSO, and segmented in software for a
//! pair without TSO.

use clock::{Clock, Strategy};
use lock::Up;
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::Pairs;
use serde_json::Value;
use socket::{Calls, Errno, Fd, Opt};
use std::net::{Ipv4Addr, SocketAddr};

struct Net {
    hosts: Vec<Host<Up>>,
    pairs: Pairs,
}

impl Net {
    /// Creates hosts from (name, [(port, address)]).
    fn new(hosts: &[(&str, &[(&str, &str)])]) -> Net {
        let pairs = Pairs::new();
        let make = |(name, ports): &(&str, &[(&str, &str)])| {
            let sysctl = [("net.inet.ip.forwarding".to_string(), 1)].into();
            let config = HostConfig { name: name.to_string(), seed: Some(1), sysctl, ..HostConfig::default() };
            let host = Host::<Up>::new(&config, Clock::live(Strategy::Timespec)).unwrap();
            for (port, addr) in *ports {
                let addr = inet::iface::IfaceAddr { addr: addr.parse().unwrap(), len: 24 };
                host.add_port(&IfaceConfig { addresses: vec![addr], ..IfaceConfig::on(port) }, &pairs).unwrap();
            }
            host
        };
        Net { hosts: hosts.iter().map(make).collect(), pairs }
    }

    fn step(&self) {
        for host in &self.hosts {
            host.step();
        }
    }

    fn calls(&self, at: usize) -> Calls<'_, Up> {
        let host = &self.hosts[at];
        Calls::new(&host.stack, host.cx())
    }

    fn json(&self, at: usize, words: &str) -> Value {
        let words: Vec<&str> = words.split(' ').collect();
        let said = linerate_commands::host::run(&self.hosts[at], &self.pairs, &words, true).unwrap();
        serde_json::from_str(&said).unwrap()
    }

    /// Opens a connection from the first host to the last, and returns the sockets of both.
    fn connect(&self, to: Ipv4Addr) -> (Fd, Fd) {
        let last = self.hosts.len() - 1;
        let listener = self.calls(last).stream_socket().unwrap();
        self.calls(last).set_option(listener, Opt::NonBlocking(true)).unwrap();
        self.calls(last).bind(listener, SocketAddr::from((Ipv4Addr::UNSPECIFIED, 80))).unwrap();
        self.calls(last).listen(listener, 1).unwrap();
        let client = self.calls(0).stream_socket().unwrap();
        self.calls(0).set_option(client, Opt::NonBlocking(true)).unwrap();
        assert_eq!(self.calls(0).connect(client, SocketAddr::from((to, 80))), Err(Errno::EINPROGRESS));
        for _ in 0..1000 {
            self.step();
            if let Ok((server, _)) = self.calls(last).accept(listener) {
                self.calls(last).set_option(server, Opt::NonBlocking(true)).unwrap();
                return (client, server);
            }
        }
        panic!("no connection");
    }

    /// Sends 2 MiB from the first host to the last. Then checks that every frame is accounted for
    /// in stacks and ports.
    fn carry(&self, to: Ipv4Addr) {
        let (client, server) = self.connect(to);
        let text: Vec<u8> = (0..2u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let (mut sent, mut got) = (0, Vec::<u8>::new());
        let mut into = vec![0; 100_000];
        for _ in 0..1_000_000 {
            if sent < text.len() {
                sent += self.calls(0).send(client, &text[sent..text.len().min(sent + 100_000)]).unwrap_or(0);
            }
            self.step();
            let n = self.calls(self.hosts.len() - 1).recv(server, &mut into).unwrap_or(0);
            got.extend(&into[..n]);
            if got.len() == text.len() {
                break;
            }
        }
        assert!(got == text, "{} of {} bytes", got.len(), text.len());
        (0..100).for_each(|_| self.step());
        for at in 0..self.hosts.len() {
            let audit = self.json(at, "audit");
            let zero = serde_json::json!({ "rx_imbalance": 0, "tx_imbalance": 0 });
            assert_eq!((&audit["imbalance"], &audit["ports"]), (&Value::from(0), &zero), "{audit}");
        }
    }

    /// Returns counters of the last port of host `at`: (frames sent, large segments split, segments
    /// created from them).
    fn sent(&self, at: usize) -> (u64, u64, u64) {
        let ports = self.hosts[at].ports();
        let tx = &ports.last().unwrap().counts.tx;
        (tx.frames.get(), tx.segmented.get(), tx.segments.get())
    }
}

#[test]
fn large_segments_cross_a_capable_pair_unsegmented() {
    let net = Net::new(&[("a", &[("pair(tso=on):p", "10.0.0.1")]), ("b", &[("pair(tso=on):p", "10.0.0.2")])]);
    net.carry(Ipv4Addr::new(10, 0, 0, 2));
    let (frames, cut, _) = net.sent(0);
    assert!(frames < (2 << 20) / 1448 / 4 && cut == 0, "{frames} frames");
    let shown = linerate_commands::host::run(&net.hosts[0], &net.pairs, &["ifconfig", "p"], false).unwrap();
    assert!(shown.contains("tso4"), "{shown}");
}

#[test]
fn a_router_segments_them_for_a_port_without_tso() {
    let net = Net::new(&[
        ("a", &[("pair(tso=on):p", "10.0.0.1")]),
        ("router", &[("pair(tso=on):p", "10.0.0.2"), ("pair(slots=64):q", "10.0.1.1")]),
        ("b", &[("pair(slots=64):q", "10.0.1.2")]),
    ]);
    let way = |at: usize, to: &str, via: &str| {
        let words: Vec<&str> = ["ip", "route", "add", to, "via", via].to_vec();
        linerate_commands::host::run(&net.hosts[at], &net.pairs, &words, false).unwrap();
    };
    way(0, "10.0.1.0/24", "10.0.0.2");
    way(2, "10.0.0.0/24", "10.0.1.1");
    net.carry(Ipv4Addr::new(10, 0, 1, 2));
    assert!(net.sent(0).0 < (2 << 20) / 1448 / 4, "segments are sent unsegmented to the router");
    let (frames, cut, pieces) = net.sent(1);
    assert!(cut > 20 && pieces > 10 * cut && frames >= pieces, "{frames} frames, {pieces} pieces of {cut}");
    assert_eq!(net.json(2, "netstat -s").get("inet.tcp.in.bad_checksum"), None);
}
