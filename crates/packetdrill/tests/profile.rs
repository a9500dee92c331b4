//! `profile=linux`: one conversation for each entry of the profile, and its outcome under `linux`
//! and under `rfc`.
#![allow(unsafe_code)]

mod common;

use common::{Loaded, PORT, Version, address, call, errno};
use libc::c_int;
use std::ptr;
use wire::tcp::Flags;

/// `tcpi_unacked`, `tcpi_snd_ssthresh` and `tcpi_snd_cwnd` in `struct tcp_info`.
const UNACKED: usize = 24;
const SSTHRESH: usize = 76;
const CWND: usize = 80;

const ACK: Flags = Flags::ACK;
const PSH: Flags = Flags(Flags::PSH.0 | Flags::ACK.0);
const FIN: Flags = Flags(Flags::FIN.0 | Flags::ACK.0);
/// Data bytes of a full segment without options.
const MSS: u32 = 1460;

/// A sysctl of the profile, a conversation that depends on it, and its outcome under `linux` and
/// under `rfc`.
type Habit = (&'static str, fn(&Loaded) -> String, &'static str, &'static str);

const HABITS: &[Habit] = &[
    ("tcp_rmem", receive_buffer, "540000 bytes, scale 8", "131072 bytes, scale 7"),
    ("tcp_wmem", send_buffer, "262144 bytes", "131072 bytes"),
    ("tcp_ecn", ecn_of_a_syn_ack, "no ECN", "ECN"),
    ("tcp_slow_start_after_idle", flight_after_silence, "20 segments", "10 segments"),
    // Also our default.
    ("tcp_congestion_control", congestion_control, "cubic", "cubic"),
    ("net.inet.tcp.rfc3465", window_after_a_stretch_ack, "20 segments", "18 segments"),
    ("net.inet.tcp.reduce_cwnd", ssthresh_of_a_short_flight, "14 segments", "4 segments"),
    ("net.inet.tcp.push_runs", pushed_segments, "PSH on 5, 10", "PSH on none"),
    ("net.inet.tcp.delay_fin_ack", delay_of_a_fins_ack, "40 ms", "0 ms"),
    ("tcp_syn_retries", syns_sent, "6 SYNs", "8 SYNs"),
    ("tcp_synack_retries", syn_acks_sent, "6 SYN-ACKs", "8 SYN-ACKs"),
];

/// With `linux`, each conversation has the outcome that scripts for Linux expect. With `rfc`, it
/// has the outcome of our default settings.
#[test]
fn each_entry_takes_effect_only_with_the_profile() {
    let mut wrong = Vec::new();
    for (sysctl, seen, linux, rfc) in HABITS {
        for (profile, expected) in [("linux", linux), ("rfc", rfc)] {
            for version in Version::ALL {
                let found = seen(&Loaded::of(version, &format!("profile={profile}")));
                if found != *expected {
                    wrong.push(format!("{sysctl}, profile={profile}, {version:?}: {found}, expected {expected}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Every entry of the profile needs a conversation here.
#[test]
fn each_entry_of_the_profile_has_a_conversation() {
    let source = include_str!("../src/flags.rs");
    let list = source.split_once("const LINUX").unwrap().1.split_once("];").unwrap().0;
    let listed: Vec<&str> =
        list.lines().filter_map(|line| line.trim().strip_prefix("(\"")?.split('"').next()).collect();
    assert_eq!(listed, HABITS.iter().map(|(sysctl, ..)| *sysctl).collect::<Vec<_>>());
}

fn info(linux: &Loaded, fd: c_int, at: usize) -> u32 {
    let (mut bytes, mut len) = ([0u8; 280], 280u32);
    let into: *mut libc::c_void = bytes.as_mut_ptr().cast();
    assert_eq!(call!(linux.getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, into, &raw mut len)), 0);
    u32::from_ne_bytes(*bytes[at..].first_chunk().unwrap())
}

/// Returns an accepted connection over which `segments` full segments were sent, and the sequence
/// numbers of our first byte and of the peer's first byte.
fn sent(linux: &Loaded, segments: u32) -> (c_int, u32, u32) {
    let listener = linux.listener();
    let (fd, ours, theirs) = linux.accepted(listener);
    let bytes = vec![b'x'; (segments * MSS) as usize];
    assert_eq!(linux.write(fd, &bytes), bytes.len() as isize);
    (fd, ours, theirs)
}

/// The peer acknowledges ten segments, one at a time. The congestion window grows from 10 to 20,
/// regardless of whether ACKs or bytes are counted.
fn ten_acks(linux: &Loaded, ours: u32, theirs: u32) {
    (1..=10).for_each(|n| linux.input(&linux.packet(ACK, theirs, ours + n * MSS, &[])));
}

fn receive_buffer(linux: &Loaded) -> String {
    let fd = linux.listener();
    let bytes = linux.option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF).unwrap();
    linux.input(&linux.packet(Flags::SYN, 1000, 0, &[2, 4, 5, 180, 1, 3, 3, 7]));
    let options = linux.output().unwrap().0.options;
    let at = options.windows(2).position(|two| two == [3, 3]).unwrap();
    format!("{bytes} bytes, scale {}", options[at + 2])
}

fn send_buffer(linux: &Loaded) -> String {
    format!("{} bytes", linux.option(linux.stream(), libc::SOL_SOCKET, libc::SO_SNDBUF).unwrap())
}

/// A SYN that requests ECN (RFC 3168 6.1.1).
fn ecn_of_a_syn_ack(linux: &Loaded) -> String {
    linux.listener();
    linux.input(&linux.packet(Flags::SYN | Flags::ECE | Flags::CWR, 1000, 0, &[2, 4, 5, 180]));
    let flags = linux.output().unwrap().0.flags;
    if flags.contains(Flags::ECE) { "ECN".to_owned() } else { "no ECN".to_owned() }
}

/// Number of segments sent at once after ten idle seconds, with a congestion window of 20 before
/// (RFC 5681 4.1).
fn flight_after_silence(linux: &Loaded) -> String {
    let (fd, ours, theirs) = sent(linux, 10);
    ten_acks(linux, ours, theirs);
    assert_eq!((info(linux, fd, CWND), info(linux, fd, UNACKED)), (20, 0));
    assert_eq!(call!(linux.usleep(10_000_000)), 0);
    let bytes = vec![b'x'; 30 * MSS as usize];
    assert_eq!(linux.write(fd, &bytes), bytes.len() as isize);
    format!("{} segments", info(linux, fd, UNACKED))
}

fn congestion_control(linux: &Loaded) -> String {
    let (mut algorithm, mut len) = ([0u8; 16], 16u32);
    let into: *mut libc::c_void = algorithm.as_mut_ptr().cast();
    let fd = linux.stream();
    assert_eq!(call!(linux.getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_CONGESTION, into, &raw mut len)), 0);
    String::from_utf8_lossy(algorithm.split(|byte| *byte == 0).next().unwrap()).into_owned()
}

/// The congestion window after one ACK for ten segments in slow start. It grows by all ten
/// segments, or by at most eight (RFC 9406 4.2).
fn window_after_a_stretch_ack(linux: &Loaded) -> String {
    let (fd, ours, theirs) = sent(linux, 40);
    assert_eq!(info(linux, fd, UNACKED), 10);
    linux.input(&linux.packet(ACK, theirs, ours + 10 * MSS, &[]));
    format!("{} segments", info(linux, fd, CWND))
}

/// The slow start threshold after a loss with six segments in flight and a congestion window of 20:
/// seven tenths of the window, or of the data in flight (RFC 5681 3.1, RFC 9438 4.6).
fn ssthresh_of_a_short_flight(linux: &Loaded) -> String {
    let (fd, ours, theirs) = sent(linux, 10);
    ten_acks(linux, ours, theirs);
    let bytes = vec![b'x'; 6 * MSS as usize];
    assert_eq!(linux.write(fd, &bytes), bytes.len() as isize);
    (0..4).for_each(|_| linux.input(&linux.packet(ACK, theirs, ours + 10 * MSS, &[])));
    format!("{} segments", info(linux, fd, SSTHRESH))
}

/// Segments with PSH among the first ten of a long write. Linux passes at most half a congestion
/// window to a port with TSO (`tcp_write_xmit`); its scripts expect `P. 1:5001(5000)` and `P.
/// 5001:10001(5000)`.
fn pushed_segments(linux: &Loaded) -> String {
    let _ = sent(linux, 30);
    let pushed = (1..=10).filter(|_| linux.output().unwrap().0.flags.contains(Flags::PSH));
    let pushed: Vec<String> = pushed.map(|n| n.to_string()).collect();
    format!("PSH on {}", if pushed.is_empty() { "none".to_owned() } else { pushed.join(", ") })
}

/// Time from a FIN without data to its ACK.
fn delay_of_a_fins_ack(linux: &Loaded) -> String {
    let listener = linux.listener();
    let (fd, ours, theirs) = linux.accepted(listener);
    linux.input(&linux.packet(PSH, theirs, ours, b"hello"));
    assert_eq!(linux.output().unwrap().0.ack, theirs + 5);
    assert_eq!(linux.read(fd, 100).unwrap(), b"hello");
    let before = linux.now();
    linux.input(&linux.packet(FIN, theirs + 5, ours, &[]));
    let (seen, at) = linux.output().unwrap();
    assert_eq!(seen.ack, theirs + 6);
    format!("{} ms", (at - before) / 1000)
}

/// Number of SYNs of an unanswered connect, with retransmissions.
fn syns_sent(linux: &Loaded) -> String {
    let fd = linux.stream();
    assert_eq!(call!(linux.fcntl(fd, libc::F_SETFL, i64::from(libc::O_NONBLOCK))), 0);
    let to = linux.name(linux.version.peer(), PORT);
    assert_eq!((call!(linux.connect(fd, address(&to), to.len() as u32)), errno()), (-1, libc::EINPROGRESS));
    let sent = std::iter::from_fn(|| linux.output()).filter(|(seen, _)| seen.flags == Flags::SYN).count();
    assert_eq!(linux.option(fd, libc::SOL_SOCKET, libc::SO_ERROR), Ok(libc::ETIMEDOUT));
    format!("{sent} SYNs")
}

/// Number of SYN-ACKs of a handshake that the peer does not complete.
fn syn_acks_sent(linux: &Loaded) -> String {
    let listener = linux.listener();
    linux.input(&linux.packet(Flags::SYN, 1000, 0, &[2, 4, 5, 180]));
    let sent = std::iter::from_fn(|| linux.output()).filter(|(seen, _)| seen.flags == (Flags::SYN | ACK)).count();
    assert_eq!(call!(linux.fcntl(listener, libc::F_SETFL, i64::from(libc::O_NONBLOCK))), 0);
    assert_eq!((call!(linux.accept(listener, ptr::null_mut(), ptr::null_mut())), errno()), (-1, libc::EAGAIN));
    format!("{sent} SYN-ACKs")
}
