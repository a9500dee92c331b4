//! Ports that disappear while frames pass: they are removed and added again by commands, or their
//! devices are deleted. The bridge continues, and every frame is accounted for.

use super::lan::Kind::{Packet, Tap, Xdp};
use super::lan::{Host, Kind, Lan, dropped, ok, prepare, until};
use super::traffic::Iperf;
use crate::common::{has, isolated, run};
use std::process::Output;
use std::time::Duration;

const SOON: Duration = Duration::from_millis(500);

/// Sends TCP from one host to another for `seconds`, at most twice as long, while `meanwhile` runs.
fn under_load(from: &Host, to: &Host, seconds: u32, meanwhile: impl FnOnce()) -> Output {
    std::thread::scope(|scope| {
        let line = format!("timeout {} iperf3 -c {} -t {seconds}", seconds * 2, to.addr());
        let load = scope.spawn(move || run(&mut from.sh(&line)));
        std::thread::sleep(SOON);
        meanwhile();
        load.join().unwrap()
    })
}

/// Connects host 2 to its port again.
fn replug(lan: &Lan, how: impl FnOnce(&Host)) {
    let host = &lan.hosts[1];
    how(host);
    lan.bridge.ok(&format!("ifconfig bridge0 addm {}", lan.kind(host).port(host.n)));
    lan.plug(host);
}

/// Removes and adds a port by commands. A connection survives.
fn by_words(kind: Kind, flags: &[&str]) {
    if !has("iperf3") {
        return println!("skipped: iperf3 is not installed");
    }
    let lan = Lan::new(&[kind; 3], flags);
    lan.ping_all(2);
    let server = Iperf::serve(&lan.hosts[1]);
    let load = under_load(&lan.hosts[0], &lan.hosts[1], 4, || {
        lan.bridge.ok("ifconfig bridge0 deletem p2");
        assert_eq!(lan.port_of(&lan.hosts[1].mac()), None, "its addresses went with it");
        std::thread::sleep(SOON / 2);
        replug(&lan, |_| {});
    });
    assert!(load.status.success(), "{load:?}");
    drop(server);
    lan.ping_all(2);
    lan.all_known();
    lan.end();
}

/// Deletes a device. Its port is closed, and the others stay open.
fn by_deletion(kind: Kind, flags: &[&str]) {
    if !has("iperf3") {
        return println!("skipped: iperf3 is not installed");
    }
    let lan = Lan::new(&[kind; 3], flags);
    lan.ping_all(2);
    let (one, two, three) = (&lan.hosts[0], &lan.hosts[1], &lan.hosts[2]);
    let server = Iperf::serve(two);
    under_load(one, two, 1, || _ = two.ok("ip link del eth0"));
    until("its port is gone", 5, || !lan.bridge.json("show ports")[1]["gone"].is_null());
    assert_eq!(one.ping(three, 3), 3);
    drop(server);
    lan.bridge.ok("ifconfig bridge0 deletem p2");
    replug(&lan, |host| prepare(host, kind));
    lan.ping_all(2);
    lan.all_known();
    lan.end();
}

#[test]
fn a_tap_taken_out_and_put_back() {
    isolated("a_tap_taken_out_and_put_back", || by_words(Tap, &[]));
}

#[test]
fn a_tap_taken_out_and_put_back_with_two_loops() {
    isolated("a_tap_taken_out_and_put_back_with_two_loops", || by_words(Tap, &["--loops", "2"]));
}

#[test]
fn a_packet_port_taken_out_and_put_back() {
    isolated("a_packet_port_taken_out_and_put_back", || by_words(Packet, &[]));
}

#[test]
fn an_xdp_port_taken_out_and_put_back() {
    isolated("an_xdp_port_taken_out_and_put_back", || by_words(Xdp, &[]));
}

#[test]
fn a_tap_deleted() {
    isolated("a_tap_deleted", || by_deletion(Tap, &["--loops", "2"]));
}

#[test]
fn a_veth_device_deleted() {
    isolated("a_veth_device_deleted", || by_deletion(Packet, &[]));
}

#[test]
fn a_device_with_a_program_deleted() {
    isolated("a_device_with_a_program_deleted", || by_deletion(Xdp, &[]));
}

/// When all its devices are deleted, the bridge ends and reports the reasons.
#[test]
fn all_devices_deleted() {
    isolated("all_devices_deleted", || {
        let lan = Lan::new(&[Tap, Tap], &[]);
        lan.ping_all(2);
        lan.hosts.iter().for_each(|host| _ = host.ok("ip link del eth0"));
        let (code, out, err) = lan.bridge.wait();
        assert_eq!(code, Some(1), "{out}{err}");
        assert!(out.contains("\"holds\":true") && err.contains("tap:p1: "), "{out}{err}");
    });
}

/// Stations on a link that went down may now be at another port, so their addresses are removed.
#[test]
fn addresses_of_a_link_that_went_down_are_flushed() {
    isolated("addresses_of_a_link_that_went_down_are_flushed", || {
        let lan = Lan::new(&[Packet, Xdp, Tap], &[]);
        lan.ping_all(2);
        lan.all_known();
        for host in &lan.hosts[..2] {
            ok(&format!("ip link set p{} down", host.n));
            until("its address is forgotten", 5, || lan.port_of(&host.mac()).is_none());
            assert!(lan.port_of(&lan.hosts[2].mac()).is_some());
            ok(&format!("ip link set p{} up", host.n));
        }
        lan.ping_all(2);
        lan.all_known();
        lan.end();
    });
}

/// A host's link goes down while another host sends to it. Frames that its device does not accept
/// have a drop reason and are not counted as sent, and broadcasts are not sent to it. When the link
/// comes up again, frames reach the host.
fn goes_down(kind: Kind) {
    let lan = Lan::new(&[kind; 3], &[]);
    lan.ping_all(2);
    let (one, two) = (&lan.hosts[0], &lan.hosts[1]);
    one.ok(&format!("ip neigh replace {} lladdr {} nud permanent dev eth0", two.addr(), two.mac()));
    lan.bridge.ok(&format!("bridge fdb replace {} dev p2 static", two.mac()));
    two.ok("ip link set eth0 down");
    let flood = format!("ping -n -q -c 500 -i 0.002 -W 1 {}; true", two.addr());
    std::thread::scope(|scope| _ = scope.spawn(|| one.ok(&flood)));
    let why = ["bridge.in.no_carrier", "bridge.in.port_down", "bridge.out.port_failed"];
    let dropped: u64 = why.iter().map(|why| dropped(&lan.bridge, why)).sum();
    let ports = lan.bridge.json("show ports");
    // The kernel accepts frames of an XDP socket for a link that is down without an error, until
    // the bridge detects the state within a tenth of a second.
    let least = if kind == Xdp { 300 } else { 500 };
    assert!(dropped >= least, "{dropped}: {} {ports}", lan.bridge.json("show drops"));
    assert_eq!(lan.bridge.json("audit")["holds"], true, "{}", lan.bridge.json("audit"));
    two.ok("ip link set eth0 up");
    until("it is spoken to again", 10, || one.ping(two, 1) == 1);
    lan.end();
}

#[test]
fn a_tap_goes_down() {
    isolated("a_tap_goes_down", || goes_down(Tap));
}

#[test]
fn the_other_end_of_a_veth_goes_down() {
    isolated("the_other_end_of_a_veth_goes_down", || goes_down(Packet));
}

#[test]
fn the_other_end_of_a_veth_with_a_program_goes_down() {
    isolated("the_other_end_of_a_veth_with_a_program_goes_down", || goes_down(Xdp));
}

/// A host is sent more frames than its device accepts. Every frame was received by the host's
/// kernel, dropped there and counted, or has a drop reason here.
fn is_flooded(kind: Kind) {
    const FRAMES: u64 = 50_000;
    let lan = Lan::new(&[kind; 2], &[]);
    lan.ping_all(2);
    let two = &lan.hosts[1];
    let in_kernel = || {
        let stats = two.ok("ip -s -j link show eth0");
        let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
        let rx = &stats[0]["stats64"]["rx"];
        rx["packets"].as_u64().unwrap() + rx["dropped"].as_u64().unwrap()
    };
    let of_port = |at: usize, counter: &str| lan.bridge.json("show ports")[at]["counters"][counter].as_u64().unwrap();
    let before = (in_kernel(), of_port(1, "port.tx.frames"));
    let port = format!("pktgen(count={FRAMES},size=1000,dst_mac={},src_mac=02:00:00:00:00:77):flood", two.mac());
    lan.bridge.ok(&format!("ifconfig bridge0 addm {port}"));
    until("all have come", 20, || of_port(2, "port.rx.frames") >= FRAMES);
    until("none waits", 20, || lan.bridge.json("audit")["held"].as_u64() == Some(0));
    let sent = of_port(1, "port.tx.frames") - before.1;
    until("the kernel has counted them", 5, || in_kernel() - before.0 >= sent);
    // Other frames may have been sent, too.
    assert!(sent + dropped(&lan.bridge, "bridge.out.full") >= FRAMES, "{sent} {}", lan.bridge.json("show drops"));
    assert_eq!(lan.bridge.json("audit")["holds"], true, "{}", lan.bridge.json("audit"));
    assert_eq!(in_kernel() - before.0, sent);
    lan.end();
}

#[test]
fn a_tap_is_flooded() {
    isolated("a_tap_is_flooded", || is_flooded(Tap));
}

#[test]
fn a_veth_is_flooded() {
    isolated("a_veth_is_flooded", || is_flooded(Packet));
}

#[test]
fn a_veth_with_a_program_is_flooded() {
    isolated("a_veth_with_a_program_is_flooded", || is_flooded(Xdp));
}
