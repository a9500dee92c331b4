//! Traffic between hosts through the bridge (ping, TCP in both directions, UDP), over ports of one
//! kind and of several kinds.

use super::lan::Kind::{Packet, Tap, Xdp};
use super::lan::{Host, Kind, Lan, until};
use crate::common::{has, isolated, run};
use serde_json::Value;
use std::process::{Child, Stdio};
use std::time::Duration;

const LAST: &str = "iperf3 is not installed";

/// An iperf3 server in a host, which is killed when dropped.
pub struct Iperf(Child);

impl Iperf {
    /// Starts the server and waits until it listens.
    pub fn serve(host: &Host) -> Iperf {
        let serve = host.sh("exec iperf3 -s").stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        until("iperf3 listens", 5, || host.ok("ss -Hltn").contains(":5201"));
        Iperf(serve)
    }
}

impl Drop for Iperf {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the results of an iperf3 client, which must succeed.
///
/// A server rejects a test while it still ends another one (with exit code 0 and an error in the
/// JSON), and connections time out on a busy machine. Up to five attempts are made, half a second
/// apart.
#[track_caller]
pub fn iperf(from: &Host, to: &Host, flags: &str) -> Value {
    for _ in 0..5 {
        let output = run(&mut from.sh(&format!("exec iperf3 -J --connect-timeout 3000 -c {} {flags}", to.addr())));
        let reported: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if output.status.success() && reported["error"].is_null() {
            return reported;
        }
        println!("iperf3 {flags}: {}, {}", output.status, reported["error"]);
        std::thread::sleep(Duration::from_millis(500));
    }
    panic!("iperf3 {flags} failed five times");
}

#[track_caller]
fn bits(reported: &Value) -> f64 {
    reported["end"]["sum_received"]["bits_per_second"]
        .as_f64()
        .unwrap_or_else(|| panic!("no sum of what arrived: {reported}"))
}

/// Runs TCP in both directions, then a short UDP test.
///
/// On a busy machine, stock iperf3 also loses a quarter of its datagrams over loopback, and may end
/// without a sum. The test is then repeated once. The bridge's own losses are checked by its audit
/// at the end.
fn streams(from: &Host, to: &Host) {
    let _server = Iperf::serve(to);
    let (there, back) = (iperf(from, to, "-t 1"), iperf(from, to, "-t 1 -R"));
    println!("TCP {:.0} and {:.0} Mbit/s", bits(&there) / 1e6, bits(&back) / 1e6);
    assert!(bits(&there) > 1e6 && bits(&back) > 1e6, "{there}{back}");
    let mut udp = iperf(from, to, "-u -b 5M -l 1000 -t 1");
    if udp["end"]["sum"]["packets"].is_null() {
        println!("UDP without a sum: {udp}");
        udp = iperf(from, to, "-u -b 5M -l 1000 -t 1");
    }
    let sum = &udp["end"]["sum"];
    let (sent, lost) = (sum["packets"].as_u64(), sum["lost_packets"].as_u64());
    assert!(sent > Some(100) && lost.is_some_and(|lost| lost * 2 < sent.unwrap()), "{udp}");
}

/// Runs pings between all hosts and streams between the first and the last host, and checks the
/// audit.
fn talk(kinds: &[Kind], flags: &[&str]) {
    let lan = Lan::new(kinds, flags);
    lan.ping_all(5);
    lan.all_known();
    match has("iperf3") {
        true => streams(&lan.hosts[0], &lan.hosts[kinds.len() - 1]),
        false => println!("skipped: {LAST}"),
    }
    let drops = lan.bridge.json("show drops");
    let known = ["bridge.in.same_port", "bridge.in.nowhere", "bridge.in.reserved", "bridge.out.full"];
    let other = drops.as_array().unwrap().iter().find(|row| !known.contains(&row["name"].as_str().unwrap()));
    assert_eq!(other, None);
    let (audit, err) = lan.end();
    assert!(audit["received"].as_u64() > Some(1000), "{audit}");
    assert!(err.contains(&format!("{} addresses known, 0 moved", kinds.len())), "{err}");
}

#[test]
fn two_hosts_at_taps() {
    isolated("two_hosts_at_taps", || talk(&[Tap, Tap], &[]));
}

#[test]
fn four_hosts_at_taps_by_two_loops() {
    isolated("four_hosts_at_taps_by_two_loops", || talk(&[Tap; 4], &["--loops", "2"]));
}

#[test]
fn four_hosts_at_taps_by_two_workers() {
    isolated("four_hosts_at_taps_by_two_workers", || talk(&[Tap; 4], &["--workers", "2"]));
}

#[test]
fn two_hosts_at_packet_ports() {
    isolated("two_hosts_at_packet_ports", || talk(&[Packet, Packet], &[]));
}

#[test]
fn two_hosts_at_xdp_ports() {
    isolated("two_hosts_at_xdp_ports", || talk(&[Xdp, Xdp], &[]));
}

#[test]
fn a_packet_and_an_xdp_port() {
    isolated("a_packet_and_an_xdp_port", || talk(&[Packet, Xdp], &[]));
}

#[test]
fn a_tap_and_an_xdp_port() {
    isolated("a_tap_and_an_xdp_port", || talk(&[Tap, Xdp], &[]));
}

#[test]
fn a_tap_and_a_packet_port() {
    isolated("a_tap_and_a_packet_port", || talk(&[Tap, Packet], &[]));
}

#[test]
fn four_hosts_at_xdp_ports() {
    isolated("four_hosts_at_xdp_ports", || talk(&[Xdp; 4], &[]));
}

#[test]
fn four_hosts_at_packet_ports_by_two_loops() {
    isolated("four_hosts_at_packet_ports_by_two_loops", || talk(&[Packet; 4], &["--loops", "2"]));
}

#[test]
fn hosts_at_ports_of_several_kinds() {
    isolated("hosts_at_ports_of_several_kinds", || talk(&[Tap, Packet, Xdp, Xdp], &[]));
}
