//! Devices with several queues, each polled by its own loop. Together they are one member of the
//! bridge.

use super::lan::{Host, Kind, end, fdb, ok, prepare};
use super::traffic::{Iperf, iperf};
use crate::common::{Running, has, isolated};

/// iperf3 flags with enough flows that every queue has at least one.
const FLOWS: &str = "-t 1 -P 16";

/// Connects host 1 to the two queues `ports` of `p1`, and host 2 to a TAP. The hosts send in both
/// directions, and both queues must receive frames.
fn talk(ports: [&str; 2], prepare: impl FnOnce(&Host)) {
    let hosts = [Host::new(1), Host::new(2)];
    prepare(&hosts[0]);
    let words = ["bridge", "--json", ports[0], ports[1], "tap:p2", "--loops", "2"];
    let bridge = Running::start_as("bridge", &words);
    if ports[0].starts_with("tap") {
        hosts[0].take("p1");
    }
    hosts[1].take("p2");
    assert_eq!(hosts[0].ping(&hosts[1], 3), 3);
    if has("iperf3") {
        let _server = Iperf::serve(&hosts[1]);
        iperf(&hosts[0], &hosts[1], FLOWS);
        iperf(&hosts[0], &hosts[1], &format!("{FLOWS} -R"));
    } else {
        println!("skipped: iperf3 is not installed");
    }
    let known = fdb(&bridge);
    let at: Vec<&str> = known.as_array().unwrap().iter().map(|row| row["ifname"].as_str().unwrap()).collect();
    assert_eq!(at.iter().filter(|name| **name == "p1").count(), 1, "{known}");
    let shown = bridge.json("show ports");
    let rows = shown.as_array().unwrap();
    assert_eq!(rows.len(), 3);
    for (row, number) in rows.iter().take(2).zip(0..) {
        assert_eq!((&row["ifname"], &row["loop"]), (&"p1".into(), &number.into()), "{row}");
        if has("iperf3") {
            assert!(row["counters"]["port.rx.frames"].as_u64() > Some(0), "nothing came through queue {number}: {row}");
        }
    }
    assert_eq!(bridge.json("show bridge")["members"][0]["loops"], serde_json::json!([0, 1]));
    let (audit, err) = end(bridge);
    // 16 connections fill a queue that is not polled for a while. On a busy machine more frames are
    // dropped, but not most of them.
    let [dropped, received] = ["dropped", "received"].map(|name| audit[name].as_u64().unwrap());
    assert!(dropped * 4 <= received.max(20_000), "{audit} {err}");
}

#[test]
fn a_tap_of_two_queues() {
    isolated("a_tap_of_two_queues", || talk(["tap(queues=2):p1"; 2], |_| {}));
}

#[test]
fn a_fanout_group_of_two() {
    isolated("a_fanout_group_of_two", || talk(["packet(fanout=9):p1"; 2], |host| prepare(host, Kind::Packet)));
}

#[test]
fn a_veth_device_of_two_queues_by_xdp() {
    isolated("a_veth_device_of_two_queues_by_xdp", || {
        talk(["xdp(queue=0):p1", "xdp(queue=1):p1"], |host| {
            ok("echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6");
            ok("ip link add p1 numrxqueues 2 numtxqueues 2 type veth peer name e1 numrxqueues 2 numtxqueues 2");
            ok("ip link set p1 up");
            host.take("e1");
        });
    });
}
