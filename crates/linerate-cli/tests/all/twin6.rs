//! Comparison of our IPv6 router with the kernel's: the same input packets must leave by the same
//! links.
//!
//! The kernel's router has TAP devices as links. Ours has pairs of the library, in virtual time.
//! Packets are drawn from a seed, which is printed (`LINERATE_SEED` sets it), with addresses of
//! every kind, hop limits, extension headers, and lengths around the second link's MTU. Packets
//! that leave are compared byte by byte. The list [`KNOWN`] has all differences, each with its
//! reason. Any other difference fails the test.

use crate::common::{Dir, Rng, has, isolated, run};
use buf::{Burst, Pool, PoolConfig};
use clock::{Clock, Instant, SimClock};
use inet::iface::IfaceId;
use inet::ip6::IfaceAddr6;
use inet::route::Via6;
use lock::Up;
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::tap::{self, TapConfig};
use port::{Caps, Port};
use std::net::Ipv6Addr;
use std::process::Command;
use std::time::Duration;
use wire::icmp6;
use wire::ip6::{self, Chain};
use wire::{Mac, Proto};

const PACKETS: usize = 3000;
const PATIENCE: Duration = Duration::from_millis(100);
/// Addresses, MTUs and MAC addresses of the router.
const LINKS: [(&str, u16, Mac); 2] =
    [("fd00::1", 1500, Mac([2, 0, 0, 0, 0xfe, 0])), ("fd01::1", 1300, Mac([2, 0, 0, 0, 0xfe, 1]))];
/// Stations on the links, which are static neighbors.
const STATIONS: [(usize, &str); 4] = [(0, "fd00::2"), (0, "fd00::3"), (1, "fd01::2"), (1, "fd01::3")];
const ROUTES: [(&str, &str); 5] = [
    ("2001:db8:1::/48", "via fd00::2"),
    ("2001:db8:2::/48", "via fd01::2"),
    ("2001:db8:3::/48", "unreachable"),
    ("2001:db8:4::/48", "prohibit"),
    ("2001:db8:5::/48", "blackhole"),
];

type Out = [Vec<Vec<u8>>; 2];

fn at(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

fn station(addr: Ipv6Addr) -> Mac {
    let [.., last] = addr.octets();
    Mac([2, 0, 0, 0, addr.octets()[1], last])
}

/// Returns the IPv6 packets that wait at a port, except those that a host sends unsolicited:
/// neighbor discovery and MLD.
fn received(port: &mut Port) -> Vec<Vec<u8>> {
    let (mut all, mut burst) = (Vec::new(), Burst::new());
    while port.rx.rx_burst(&mut burst, 32, Instant::ZERO) > 0 {
        all.extend(burst.drain().map(|frame| frame.bytes().to_vec()));
    }
    all.retain(|frame| {
        let packet = frame.get(14..).unwrap_or_default();
        let Ok(header) = ip6::Header::parse_quoted(packet) else { return false };
        let unasked = Chain::walk(&header, packet).is_ok_and(|chain| {
            let ty = chain.payload(&header, packet).first().copied().unwrap_or(0);
            chain.upper == Proto::IPV6_ICMP && (130..=143).contains(&ty)
        });
        frame[12..14] == [0x86, 0xdd] && !unasked
    });
    all.sort();
    all
}

struct Ours {
    host: Host<Up>,
    ends: Vec<Port>,
    pool: Pool,
}

impl Ours {
    fn new() -> Ours {
        let config = HostConfig { seed: Some(1), ..HostConfig::default() };
        let host = Host::<Up>::new(&config, Clock::sim(&SimClock::new())).unwrap();
        let sysctls = &host.stack.sysctls;
        sysctls.forwarding6.set(1);
        [&sysctls.icmp6_rate, &sysctls.echo_rate, &sysctls.dad_count].into_iter().for_each(|sysctl| sysctl.set(0));
        let ends = LINKS.iter().enumerate().map(|(n, (addr, mtu, mac))| {
            let (near, far) = port::pair::pair(&format!("p{n}"), 64, Caps::PLAIN);
            let addresses6 = vec![IfaceAddr6::new(at(addr), 64)];
            let config = IfaceConfig { mtu: Some(*mtu), addresses6, ..IfaceConfig::default() };
            host.attach(&format!("em{n}"), *mac, near, &config).unwrap();
            far
        });
        let ends = ends.collect();
        let (stack, cx) = (&host.stack, host.cx());
        for (link, addr) in STATIONS {
            stack.set_neighbor6(cx, IfaceId(link as u16 + 1), at(addr), station(at(addr)));
        }
        for (prefix, to) in ROUTES {
            let via = match to {
                "unreachable" => Via6::Reject,
                "prohibit" => Via6::Prohibit,
                "blackhole" => Via6::Blackhole,
                via => {
                    let gateway = at(via.strip_prefix("via ").unwrap());
                    Via6::Gateway(IfaceId(u16::from(gateway.octets()[1]) + 1), gateway)
                }
            };
            stack.add_route6(cx, prefix.parse().unwrap(), via).unwrap();
        }
        let pool = Pool::new(&PoolConfig { buffers: 4096, ..PoolConfig::default() }).unwrap();
        let mut ours = Ours { host, ends, pool };
        ours.turn();
        ours.ends.iter_mut().for_each(|end| drop(received(end)));
        ours
    }

    fn turn(&self) {
        while self.host.step().frames > 0 {}
    }

    fn pass(&mut self, from: usize, bytes: &[u8]) -> Out {
        put(&mut self.ends[from], &self.pool, bytes);
        self.turn();
        [received(&mut self.ends[0]), received(&mut self.ends[1])]
    }
}

fn put(port: &mut Port, pool: &Pool, bytes: &[u8]) {
    let mut frame = pool.get().unwrap();
    frame.extend(bytes).unwrap();
    assert!(port.tx.tx_one(frame, Instant::ZERO).is_ok());
}

struct Theirs {
    ends: Vec<Port>,
    pool: Pool,
}

impl Theirs {
    fn new() -> Theirs {
        let pool = Pool::new(&PoolConfig { buffers: 256, ..PoolConfig::default() }).unwrap();
        let config = TapConfig { vnet_hdr: false, up: true, ..TapConfig::default() };
        for (name, value) in [
            ("conf/all/forwarding", 1),
            ("conf/default/accept_dad", 0),
            ("conf/default/dad_transmits", 0),
            ("conf/default/router_solicitations", 0),
            ("icmp/ratelimit", 0),
            ("auto_flowlabels", 0),
        ] {
            ok(&format!("echo {value} > /proc/sys/net/ipv6/{name}"));
        }
        for name in ["icmp_msgs_per_sec", "icmp_msgs_burst"] {
            ok(&format!("echo 1000000 > /proc/sys/net/ipv4/{name}")); // of both families
        }
        let mut ends: Vec<Port> =
            (0..LINKS.len()).map(|n| tap::open(&format!("t{n}"), &config, &pool).unwrap()).collect();
        let mut script = String::from("link set lo up\n");
        for (n, (addr, mtu, mac)) in LINKS.iter().enumerate() {
            script += &format!("link set t{n} address {mac} mtu {mtu} up\naddr add {addr}/64 dev t{n} nodad\n");
        }
        for (link, addr) in STATIONS {
            script += &format!("neigh replace {addr} lladdr {} dev t{link} nud permanent\n", station(at(addr)));
        }
        for (prefix, to) in ROUTES {
            script += &match to.strip_prefix("via ") {
                Some(gateway) => format!("-6 route replace {prefix} via {gateway}\n"),
                None => format!("-6 route replace {to} {prefix}\n"),
            };
        }
        let dir = Dir::new("twin6");
        for line in script.lines() {
            ok(&format!("ip {line}"));
        }
        drop(dir);
        std::thread::sleep(Duration::from_millis(300));
        ends.iter_mut().for_each(|end| drop(received(end)));
        Theirs { ends, pool }
    }

    /// Passes a frame in. Returns the packets that leave, once as many as expected have arrived.
    /// Additional or late packets are found with the next call.
    fn pass(&mut self, from: usize, bytes: &[u8], expected: usize) -> Out {
        put(&mut self.ends[from], &self.pool, bytes);
        let begun = std::time::Instant::now();
        let mut all = Out::default();
        loop {
            all.iter_mut().zip(&mut self.ends).for_each(|(all, end)| all.extend(received(end)));
            if all.iter().map(Vec::len).sum::<usize>() >= expected || begun.elapsed() > PATIENCE {
                all.iter_mut().for_each(|all| all.sort());
                return all;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Returns the packets without the fragment identifications, which each router draws at random.
fn drawn(out: &Out) -> Out {
    let mut out = out.clone();
    for frame in out.iter_mut().flatten().filter(|frame| frame.len() > 62 && frame[20] == Proto::FRAGMENT.0) {
        frame[58..62].fill(0);
    }
    out.iter_mut().for_each(|all| all.sort());
    out
}

#[track_caller]
fn ok(line: &str) {
    let output = run(Command::new("sh").args(["-c", line]));
    assert!(output.status.success(), "{line}: {output:?}");
}

/// Draws source and destination of a packet by the link of its arrival. No source is link-local:
/// errors that wait for neighbor resolution would fill the kernel's socket buffer for errors, and
/// it would then send none at all.
fn addresses(rng: &mut Rng, from: usize) -> (Ipv6Addr, Ipv6Addr) {
    let near = [["fd00::2", "2001:db8:1::9"], ["fd01::2", "2001:db8:2::9"]][from];
    let src = match rng.below(24) {
        0 => "ff02::9",
        1 => "::1",
        2 => LINKS[from].0,
        _ => near[rng.below(2)],
    };
    let beyond = [["fd01::3", "2001:db8:2::7"], ["fd00::3", "2001:db8:1::7"]][from];
    let dst = match rng.below(24) {
        0 => "2001:db8:3::7",
        1 => "2001:db8:4::7",
        2 => "2001:db8:5::7",
        3 => "3fff::7",
        4..=6 => LINKS[from].0,
        7 => LINKS[1 - from].0,
        8 => "ff02::9",
        9 => "::1",
        10 => "fe80::99",
        _ => beyond[rng.below(2)],
    };
    (at(src), at(dst))
}

fn draw(rng: &mut Rng) -> (usize, Vec<u8>) {
    let from = rng.below(2);
    let (src, dst) = addresses(rng, from);
    let len = match rng.below(6) {
        0 => 1200 + rng.below(300),
        1 => rng.one(&[1240, 1260, 1261, 1400, 1452]),
        _ => 8 + rng.below(120),
    };
    let mut next =
        rng.one(&[Proto::IPV6_ICMP, Proto::IPV6_ICMP, Proto::IPV6_ICMP, Proto::UDP, Proto(200), Proto::NO_NEXT]);
    let body: Vec<u8> = (0..len).map(|_| rng.next() as u8).collect();
    let mut payload = match next {
        Proto::IPV6_ICMP => {
            let mut message = vec![0; len + 8];
            icmp6::emit_echo(icmp6::ty::ECHO_REQUEST, (7, 1), (src, dst), &body, &mut message).unwrap();
            message
        }
        Proto::UDP => {
            let mut datagram = [&[0x9c, 0x40, 0x82, 0x35, 0, 0, 0, 0][..], &body].concat();
            let total = datagram.len() as u16;
            datagram[4..6].copy_from_slice(&total.to_be_bytes());
            let pseudo = wire::checksum::Partial::pseudo6(src, dst, Proto::UDP, u32::from(total));
            let sum = pseudo.add(wire::checksum::sum(&datagram)).finish_nonzero();
            datagram[6..8].copy_from_slice(&sum.to_be_bytes());
            datagram
        }
        _ => body,
    };
    for _ in 0..if rng.below(3) == 0 { 1 + rng.below(2) } else { 0 } {
        let option = rng.one(&[0x1e, 0x5e, 0x9e, 0xde]);
        let (proto, mut header) = match rng.below(5) {
            0 | 1 => (Proto::DEST_OPTIONS, vec![0, 0, option, 4, 0, 0, 0, 0]),
            2 => (Proto::ROUTING, vec![0, 0, 9, rng.below(2) as u8, 0, 0, 0, 0]),
            3 => (Proto::FRAGMENT, ip6::Fragment { offset: 0, more: false, id: 9 }.emit(next).to_vec()),
            _ => (Proto::DEST_OPTIONS, vec![0, 0, 1, 4, 0, 0, 0, 0]),
        };
        header[0] = next.0;
        payload = [header, payload].concat();
        next = proto;
    }
    if rng.below(8) == 0 {
        let option = rng.one(&[0x1e, 0x5e, 0x9e, 0xde, 0x05]);
        let header =
            if option == 5 { vec![next.0, 0, 5, 2, 0, 1, 1, 0] } else { vec![next.0, 0, option, 4, 0, 0, 0, 0] };
        payload = [header, payload].concat();
        next = Proto::HOP_BY_HOP;
    }
    let hop_limit = rng.one(&[0, 1, 2, 64, 64, 64]);
    let traffic_class = rng.next() as u8;
    let mut packet = vec![0; ip6::HEADER_LEN];
    let payload_len = payload.len() as u16;
    ip6::Header { traffic_class, flow_label: rng.below(1 << 20) as u32, payload_len, next, hop_limit, src, dst }
        .emit(packet.first_chunk_mut().unwrap());
    packet.extend(payload);
    packet.truncate(1500); // no link carries more; what is longer ends before it says so
    if rng.below(40) == 0 {
        let at = rng.below(ip6::HEADER_LEN);
        packet[at] ^= 1 << rng.below(8);
    }
    let to = if dst.is_multicast() { Mac::multicast6(dst) } else { LINKS[from].2 };
    let mut frame = vec![0; 14];
    let src = station(at(["fd00::2", "fd01::2"][from]));
    wire::eth::Header { dst: to, src, ethertype: wire::eth::EtherType::IPV6 }.emit(frame.first_chunk_mut().unwrap());
    frame.extend(packet);
    (from, frame)
}

/// The packets that each router sent for a frame.
struct Case {
    came: Vec<u8>,
    ours: Out,
    theirs: Out,
}

impl Case {
    /// Returns whether our router sent no packet.
    fn is_silent(&self) -> bool {
        self.ours.iter().all(Vec::is_empty)
    }

    fn header(&self) -> Option<ip6::Header> {
        ip6::Header::parse_quoted(&self.came[14..]).ok()
    }
}

/// A known difference: its reason, and whether it applies to a case.
type Known = (&'static str, fn(&Case) -> bool);

const KNOWN: &[Known] = &[
    ("an address of the router's own as the source: we take that for LAND, it for a packet", |case| {
        case.header().is_some_and(|header| LINKS.iter().any(|(own, ..)| at(own) == header.src)) && case.is_silent()
    }),
    (
        "a link-local destination that is not the router's: we do not look at it, it tells that hops ran out or asks for it on the same link",
        |case| case.header().is_some_and(|header| ip6::is_link_local(header.dst)) && case.is_silent(),
    ),
    ("a group that nobody here listens to: we look no further, it at the Hop-by-Hop options before", |case| {
        case.header().is_some_and(|header| header.dst.is_multicast() && header.next == Proto::HOP_BY_HOP)
            && case.is_silent()
    }),
    ("to nobody: we drop what may stand on no wire, it says that there is no route", |case| {
        case.header().is_some_and(|header| header.dst.is_unspecified()) && case.is_silent()
    }),
    ("a link's prefix without a host: it is every router's there (RFC 4291 2.6.1), and not ours", |case| {
        let on_link = |addr: Ipv6Addr| [0xfd00, 0xfd01].contains(&addr.segments()[0]) && addr.segments()[4..] == [0; 4];
        case.header().is_some_and(|header| on_link(header.dst))
    }),
    (
        "a chain of headers that cannot be followed may hide an error: we do not answer it (RFC 4443 2.4 e), it does",
        |case| {
            let packet = &case.came[14..];
            case.header().is_some_and(|header| Chain::walk(&header, packet).is_err()) && case.is_silent()
        },
    ),
];

#[test]
fn ipv6_forwarding_equals_the_kernels() {
    let test = "ipv6_forwarding_equals_the_kernels";
    isolated(test, || {
        if !has("ip") || !std::path::Path::new("/proc/sys/net/ipv6").exists() {
            return println!("skipped: {test}: no ip, or a kernel without IPv6");
        }
        let seed = std::env::var("LINERATE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
        println!("LINERATE_SEED={seed}");
        let (mut rng, mut ours, mut theirs) = (Rng(seed), Ours::new(), Theirs::new());
        let (mut known, mut same, mut wrong) = (vec![0; KNOWN.len()], 0, Vec::new());
        for n in 0..PACKETS {
            let (from, came) = draw(&mut rng);
            let mine = ours.pass(from, &came);
            let expected = mine.iter().map(Vec::len).sum();
            let mut yours = theirs.pass(from, &came, expected);
            // The kernel sends no error while another one is being sent by the same core
            // (icmpv6_xmit_lock), so the packet is repeated.
            for _ in 0..3 {
                if expected > 0 && yours.iter().all(Vec::is_empty) {
                    yours = theirs.pass(from, &came, expected);
                }
            }
            let case = Case { theirs: yours, came, ours: mine };
            match KNOWN.iter().position(|(_, explains)| explains(&case)) {
                _ if drawn(&case.ours) == drawn(&case.theirs) => same += 1,
                Some(at) => known[at] += 1,
                None => wrong.push(format!(
                    "packet {n}: {}\n  ours   {}\n  theirs {}",
                    wire::dissect::line(&case.came),
                    printed(&case.ours),
                    printed(&case.theirs)
                )),
            }
        }
        println!("{same} alike, known {known:?}");
        assert!(wrong.is_empty(), "{} differ, the first:\n{}", wrong.len(), wrong[..wrong.len().min(12)].join("\n"));
        assert!(same > PACKETS / 2);
        let audit = ours.host.stack.audit(ours.host.cx());
        assert_eq!(audit.imbalance(), 0, "{audit:#?}");
    });
}

fn printed(out: &Out) -> String {
    let line = |frame: &Vec<u8>| {
        let head = frame.iter().skip(14).take(56).map(|byte| format!("{byte:02x}")).collect::<String>();
        format!("[{}: {head} ({})]", wire::dissect::line(frame), frame.len())
    };
    out.iter().flatten().map(line).collect::<Vec<_>>().join(" ")
}
