//! Our TCP against the kernel's over a TAP device: over IPv4 and IPv6, in both roles, with each of
//! the kernel's congestion controls, with and without offloads and large segments, with several
//! MTUs, and closed in every order. Finally, either side omits the options of RFC 2018, 3168 and
//! 7323.
//!
//! The test steps our host; the kernel's socket is used by a thread. Each conversation transfers
//! the same amount in both directions, and every byte is compared. The host's audit must account
//! for all frames, and no checksum may be wrong.

use crate::common::isolated;
use clock::{Clock, Strategy};
use lock::Up;
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::os::netlink::Netlink;
use socket::{Calls, Domain, Errno, Fd, Opt};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Addresses of one address family.
#[derive(Clone, Copy)]
struct Ends {
    ours: IpAddr,
    theirs: IpAddr,
    prefix_len: u8,
    /// Length of the IP header in bytes.
    ip_len: usize,
    /// Minimum MTU.
    mtu: u16,
}

const FOUR: Ends = Ends {
    ours: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)),
    theirs: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
    prefix_len: 24,
    ip_len: 20,
    mtu: 576,
};
const SIX: Ends = Ends {
    ours: IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2)),
    theirs: IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)),
    prefix_len: 64,
    ip_len: 40,
    mtu: 1280,
};
const PORT: u16 = 7777;
/// Number of bytes that each side sends: more than the kernel's first window, and not a multiple of
/// a common segment size.
const BYTES: usize = 150_001;
/// Time limit of one conversation, so that the test cannot hang.
const PATIENCE: Duration = Duration::from_secs(30);
/// MTUs from the minimum of IPv4 to the maximum of a TAP device.
const MTUS: [u16; 5] = [576, 1280, 1500, 9000, 65_521];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Opens {
    We,
    They,
}

/// Side that closes first and then waits for the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Closes {
    We,
    They,
    Both,
}

const ROLES: [(Opens, Closes); 6] = [
    (Opens::We, Closes::We),
    (Opens::We, Closes::They),
    (Opens::We, Closes::Both),
    (Opens::They, Closes::We),
    (Opens::They, Closes::They),
    (Opens::They, Closes::Both),
];

/// Returns byte `i` of the data that side `side` sends.
fn byte(side: usize, i: usize) -> u8 {
    (i * 7 + (i >> 8) * 13 + (i >> 16) * 29 + side * 101) as u8
}

fn text(side: usize) -> Vec<u8> {
    (0..BYTES).map(|i| byte(side, i)).collect()
}

/// Creates our host on tap0 and configures the kernel's side.
fn start(ends: Ends, options: &str, mtu: u16) -> Host<Up> {
    let port = format!("tap({options}mtu={mtu}):tap0");
    let config = HostConfig { pool_buffers: 1024, pool_data: usize::from(mtu).max(2048) + 64, ..HostConfig::default() };
    let host: Host<Up> = Host::new(&config, Clock::live(Strategy::default())).unwrap();
    // No other host has these addresses, so neither side waits for duplicate address detection.
    assert_eq!(host.stack.sysctls.set("net.inet6.ip6.dad_count", 0), Some(Ok(())));
    let mut iface = IfaceConfig { mtu: Some(mtu), ..IfaceConfig::on(&port) };
    iface.add_address(ends.ours, ends.prefix_len);
    host.add_port(&iface, &port::Pairs::new()).unwrap();
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/tap0/accept_dad", "0");
    let mut netlink = Netlink::open().unwrap();
    netlink.set_up("tap0").unwrap();
    netlink.add_addr("tap0", ends.theirs, ends.prefix_len).unwrap();
    host
}

/// Checks that every frame is accounted for, and that none was damaged.
fn end(host: &Host<Up>) {
    let audit = host.stack.audit(host.cx());
    assert_eq!(audit.imbalance(), 0, "{audit:?}");
    assert_eq!(host.stack.counter("inet.tcp.in.bad_checksum") + host.stack.counter("inet.ip4.in.bad_checksum"), 0);
}

/// Sets a kernel sysctl in this namespace. Returns false if the kernel does not have this value.
fn kernel(sysctl: &str, value: &str) -> bool {
    std::fs::write(format!("/proc/sys/net/ipv4/{sysctl}"), value).is_ok()
}

/// Runs the kernel's side: sends its data and receives ours.
fn theirs(mut stream: TcpStream, algorithm: &str, closes: Closes) -> Vec<u8> {
    lab::os::set_congestion(stream.as_fd(), algorithm).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    let mut heard = Vec::new();
    if closes == Closes::We {
        stream.read_to_end(&mut heard).unwrap();
    }
    stream.write_all(&text(1)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    if closes != Closes::We {
        stream.read_to_end(&mut heard).unwrap();
    }
    heard
}

/// Our side, which performs as much as possible without blocking.
struct Ours {
    fd: Fd,
    sent: usize,
    shut: bool,
    heard: Vec<u8>,
    over: bool,
}

impl Ours {
    fn new(fd: Fd) -> Ours {
        Ours { fd, sent: 0, shut: false, heard: Vec::new(), over: false }
    }

    fn step(&mut self, calls: &Calls<'_, Up>, printed: &[u8], closes: Closes) {
        let may_speak = closes != Closes::They || self.over;
        while may_speak && self.sent < printed.len() {
            match calls.send(self.fd, &printed[self.sent..]) {
                Ok(n) => self.sent += n,
                Err(Errno::EAGAIN) => break,
                Err(error) => panic!("after {} bytes sent: {error}", self.sent),
            }
        }
        if self.sent == printed.len() && !self.shut {
            calls.shutdown(self.fd, Shutdown::Write).unwrap();
            self.shut = true;
        }
        let mut into = [0; 8192];
        while !self.over {
            match calls.recv(self.fd, &mut into) {
                Ok(0) => self.over = true,
                Ok(n) => self.heard.extend_from_slice(&into[..n]),
                Err(Errno::EAGAIN) => break,
                Err(error) => panic!("after {} bytes read: {error}", self.heard.len()),
            }
        }
    }
}

/// Steps the host until `done`.
fn drive(host: &Host<Up>, what: &str, mut done: impl FnMut(&Calls<'_, Up>) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let step = host.step();
        if done(&host.calls()) {
            return;
        }
        if step.frames == 0 {
            let soon = host.clock.now().after(Duration::from_millis(1));
            host.wait(step.next.unwrap_or(soon).min(soon), None);
        }
        assert!(Instant::now() < deadline, "{what}: stalled");
    }
}

fn stream(calls: &Calls<'_, Up>, ends: Ends) -> Fd {
    let fd = calls.stream_socket_of(if ends.ours.is_ipv6() { Domain::Inet6 } else { Domain::Inet }).unwrap();
    calls.set_option(fd, Opt::NonBlocking(true)).unwrap();
    calls.set_option(fd, Opt::ReuseAddr(true)).unwrap();
    fd
}

/// Opens a connection between our host and the kernel, from the given side, and starts the kernel's
/// side of it.
fn open(
    host: &Host<Up>,
    ends: Ends,
    (opens, closes): (Opens, Closes),
    algorithm: &'static str,
    what: &str,
) -> (Fd, JoinHandle<Vec<u8>>) {
    let (calls, fd) = (host.calls(), stream(&host.calls(), ends));
    if opens == Opens::We {
        let listener = TcpListener::bind((ends.theirs, 0)).unwrap();
        let to = listener.local_addr().unwrap();
        let peer = std::thread::spawn(move || theirs(listener.accept().unwrap().0, algorithm, closes));
        assert_eq!(calls.connect(fd, to), Err(Errno::EINPROGRESS));
        drive(host, what, |calls| calls.peer_addr(fd).is_ok());
        return (fd, peer);
    }
    calls.bind(fd, SocketAddr::from((ends.ours, PORT))).unwrap();
    calls.listen(fd, 1).unwrap();
    let to = SocketAddr::from((ends.ours, PORT));
    let connect = move || TcpStream::connect_timeout(&to, PATIENCE).unwrap();
    let peer = std::thread::spawn(move || theirs(connect(), algorithm, closes));
    let mut accepted = None;
    drive(host, what, |calls| {
        accepted = calls.accept(fd).ok().map(|(child, _)| child);
        accepted.is_some()
    });
    let (calls, child) = (host.calls(), accepted.unwrap());
    calls.set_option(child, Opt::NonBlocking(true)).unwrap();
    calls.close(fd).unwrap();
    (child, peer)
}

/// Runs one conversation. Returns the TCP_INFO at its end.
fn converse(host: &Host<Up>, ends: Ends, role: (Opens, Closes), algorithm: &'static str, what: &str) -> tcp::Info {
    let ((opens, closes), what) = (role, format!("{algorithm}, {what}, {:?} open, {:?} close", role.0, role.1));
    let (fd, peer) = open(host, ends, (opens, closes), algorithm, &what);
    let (printed, mut ours) = (text(0), Ours::new(fd));
    drive(host, &what, |calls| {
        ours.step(calls, &printed, closes);
        ours.over && ours.shut
    });
    let info = host.calls().tcp_info(fd).unwrap();
    host.calls().close(fd).unwrap();
    drive(host, &what, |_| peer.is_finished());
    let heard = peer.join().unwrap_or_else(|_| panic!("{what}: the kernel's side failed"));
    assert!(heard == printed, "{what}: the kernel heard {} bytes, of {BYTES}", heard.len());
    assert!(ours.heard == text(1), "{what}: we heard {} bytes, of {BYTES}", ours.heard.len());
    info
}

/// Direction in which large segments pass the device without segmentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Large {
    Neither,
    Sent,
    Received,
    Both,
}

/// Tests every congestion control of the kernel with every MTU and role, over a TAP with these
/// options.
fn all_roles(test: &str, options: &str, large: Large) {
    isolated(test, || {
        let mut there = vec!["cubic", "reno", "bbr"];
        there.retain(|algorithm| has_congestion(test, algorithm));
        assert!(there.contains(&"reno"), "the kernel has it always");
        let every_size = |ends: Ends| MTUS.into_iter().filter(move |mtu| *mtu >= ends.mtu).map(move |mtu| (ends, mtu));
        for (ends, mtu) in [FOUR, SIX].into_iter().flat_map(every_size) {
            let host = start(ends, options, mtu);
            for (algorithm, role) in there.iter().flat_map(|algorithm| ROLES.map(|role| (*algorithm, role))) {
                converse(&host, ends, role, algorithm, &format!("{}, MTU {mtu}", ends.ours));
            }
            if mtu == ends.mtu {
                let conversations = (there.len() * ROLES.len()) as u64;
                are_as_large_as_asked(&host, ends, conversations, large);
            }
            end(&host);
        }
    });
}

/// Checks the number of frames of `conversations` conversations over the minimum MTU: about one per
/// segment with segmentation, and far fewer without.
fn are_as_large_as_asked(host: &Host<Up>, ends: Ends, conversations: u64, large: Large) {
    let segments = (BYTES / (usize::from(ends.mtu) - ends.ip_len - 20)) as u64 * conversations;
    let (sent, received) = (host.stack.counter("inet.audit.sent"), host.stack.counter("inet.audit.received"));
    let reported = format!("{sent} frames sent, {received} received, {segments} segments of text each way");
    assert_eq!(matches!(large, Large::Sent | Large::Both), sent < segments, "sent uncut: {reported}");
    assert_eq!(matches!(large, Large::Received | Large::Both), received < segments, "received uncut: {reported}");
}

/// Returns whether the kernel has this congestion control.
fn has_congestion(test: &str, algorithm: &str) -> bool {
    let probe = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let set = lab::os::set_congestion(probe.as_fd(), algorithm);
    if let Err(why) = &set {
        println!("skipped: {test}: {algorithm}: {why}");
    }
    set.is_ok()
}

#[test]
fn with_large_segments_both_ways() {
    all_roles("with_large_segments_both_ways", "", Large::Both);
}

#[test]
fn with_large_segments_sent() {
    all_roles("with_large_segments_sent", "lro=off,", Large::Sent);
}

#[test]
fn with_large_segments_received() {
    all_roles("with_large_segments_received", "tso=off,", Large::Received);
}

#[test]
fn with_checksums_left_to_the_kernel() {
    all_roles("with_checksums_left_to_the_kernel", "tso=off,lro=off,", Large::Neither);
}

#[test]
fn with_checksums_that_the_kernel_left_open_completed() {
    all_roles("with_checksums_that_the_kernel_left_open_completed", "rx_csum=complete,", Large::Both);
}

#[test]
fn with_checksums_in_software() {
    all_roles("with_checksums_in_software", "vnet_hdr=off,", Large::Neither);
}

/// Linux's numbers TCPI_OPT_*.
const TIMESTAMPS: u8 = 1;
const SACK: u8 = 2;
const SCALE: u8 = 4;
const ECN: u8 = 8;

/// The kernel, then our host, omits an option, and the other side works without it.
#[test]
fn options_are_agreed_with_the_kernel() {
    isolated("options_are_agreed_with_the_kernel", || {
        let usual = TIMESTAMPS | SACK | SCALE;
        // The kernel's sysctl with its value, our sysctl with its value, and the options that both
        // agree on.
        let cases = [
            ("tcp_ecn", "1", "net.inet.tcp.ecn.enable", 1, usual | ECN),
            ("tcp_ecn", "0", "net.inet.tcp.ecn.enable", 1, usual),
            ("tcp_ecn", "1", "net.inet.tcp.ecn.enable", 0, usual),
            ("tcp_sack", "0", "net.inet.tcp.sack.enable", 1, usual & !SACK),
            ("tcp_sack", "1", "net.inet.tcp.sack.enable", 0, usual & !SACK),
            ("tcp_timestamps", "0", "net.inet.tcp.rfc1323", 1, usual & !TIMESTAMPS),
            ("tcp_timestamps", "1", "net.inet.tcp.rfc1323", 2, usual & !TIMESTAMPS),
            ("tcp_window_scaling", "0", "net.inet.tcp.rfc1323", 1, usual & !SCALE),
            ("tcp_window_scaling", "1", "net.inet.tcp.rfc1323", 0, 2),
        ];
        for (theirs, value, ours, set, agreed) in cases {
            let host = start(FOUR, "", 1500);
            let usually = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{theirs}")).unwrap();
            assert!(kernel(theirs, value), "{theirs}={value}");
            assert_eq!(host.stack.sysctls.set(ours, set), Some(Ok(())), "{ours}");
            for role in ROLES {
                let what = format!("{theirs}={value}, {ours}={set}");
                let info = converse(&host, FOUR, role, "reno", &what);
                assert_eq!(info.options & (usual | ECN), agreed, "{what}, {role:?}");
            }
            assert!(kernel(theirs, usually.trim()));
            end(&host);
        }
    });
}
