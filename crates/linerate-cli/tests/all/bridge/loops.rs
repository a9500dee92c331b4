//! Two bridges of linerate with two links between them, which form a loop. A broadcast must not
//! circulate endlessly, and hosts must reach each other again.

use super::lan::{Host, Kind, dropped, end, ok, until};
use crate::common::{Running, isolated};
use std::time::Duration;

/// Mechanism that stops frames from circulating.
struct Guard {
    flags: &'static [&'static str],
    /// Reason for which frames are dropped by this mechanism.
    reason: &'static str,
    /// Seconds after which hosts reach each other while the loop still exists; `None` if that is
    /// not guaranteed.
    meet_s: Option<u64>,
}

/// Muting, which is on by default: a port is muted when addresses move back and forth. Each bridge
/// decides alone. If the two bridges mute different links, hosts do not reach each other until the
/// muting ends. Only the removal of the loop guarantees that they do.
const MUTE: Guard = Guard { flags: &[], reason: "bridge.in.muted", meet_s: None };

/// Muting with two forwarding loops, each of which must apply what the other muted.
const MUTE_BY_TWO: Guard = Guard { flags: &["--loops", "2"], ..MUTE };

/// A spanning tree, in which one port discards frames.
const STP: Guard = Guard { flags: &["--stp"], reason: "bridge.in.discarding", meet_s: Some(5) };
const STP_BY_TWO: Guard = Guard { flags: &["--stp", "--loops", "2"], ..STP };

/// Link between a port of one bridge and a port of the other.
#[derive(Clone, Copy)]
enum Wire {
    /// Two TAP devices and a bridge of the kernel that learns no addresses and so acts as a wire.
    /// BPDUs pass it, since it runs no spanning tree.
    Taps,
    /// A veth pair, with ports of this kind at its ends.
    Veth(Kind),
}

impl Wire {
    fn port(self, side: char, n: usize) -> String {
        match self {
            Wire::Taps => format!("tap:{side}{n}"),
            Wire::Veth(Kind::Xdp) => format!("xdp:{side}{n}"),
            Wire::Veth(_) => format!("packet:{side}{n}"),
        }
    }

    /// Creates both ends, which are down, before the bridges start.
    fn make(self, n: usize) {
        match self {
            Wire::Taps => ok(&format!("ip link add hub{n} type bridge ageing_time 0 mcast_snooping 0")),
            Wire::Veth(_) => ok(&format!("ip link add a{n} type veth peer name b{n}")),
        };
    }

    fn join(self, n: usize) {
        if matches!(self, Wire::Taps) {
            ok(&format!("ip link set a{n} master hub{n} && ip link set b{n} master hub{n} && ip link set hub{n} up"));
        }
        ok(&format!("ip link set a{n} up && ip link set b{n} up"));
    }

    fn part(self, n: usize) {
        ok(&format!("ip link set a{n} down && ip link set b{n} down"));
    }
}

/// Starts one bridge with a host at a TAP device and two links.
fn bridge(wire: Wire, guard: &Guard, side: char, host: &Host) -> Running {
    let ports = [format!("tap:p{}", host.n), wire.port(side, 1), wire.port(side, 2)];
    let mut words = vec!["bridge", "--json"];
    words.extend(ports.iter().map(String::as_str));
    words.extend(guard.flags);
    let bridge = Running::start_as(&side.to_string(), &words);
    host.take(&format!("p{}", host.n));
    bridge
}

fn received(bridges: &[&Running; 2]) -> u64 {
    bridges.iter().map(|bridge| bridge.json("audit")["received"].as_u64().unwrap()).sum()
}

/// Returns whether fewer than a hundred frames pass in a fifth of a second.
fn is_calm(bridges: &[&Running; 2]) -> bool {
    let before = received(bridges);
    std::thread::sleep(Duration::from_millis(200));
    received(bridges) - before < 100
}

fn survives(wire: Wire, guard: &Guard) {
    ok("echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6");
    let hosts = [Host::new(1), Host::new(2)];
    [1, 2].into_iter().for_each(|n| wire.make(n));
    let (a, b) = (bridge(wire, guard, 'a', &hosts[0]), bridge(wire, guard, 'b', &hosts[1]));
    let both = [&a, &b];
    let reaches = || hosts[0].ping(&hosts[1], 3) == 3;
    wire.join(1);
    until("by one wire", 10, reaches);
    wire.join(2);
    let cut = until("frames are kept from going round", 5, || {
        hosts[0].ok("ping -n -q -c 1 -W 0.1 10.0.0.99; true");
        both.iter().any(|it| dropped(it, guard.reason) > 0)
    });
    let calm = until("nothing goes round", 5, || is_calm(&both));
    let frames = received(&both);
    println!("cut after {cut:.1?}, calm after {calm:.1?} and {frames} frames");
    if let Some(most) = guard.meet_s {
        until("with the loop still there", most, reaches);
    }
    wire.part(2);
    let mended = until("without the loop", 30, reaches);
    println!("they reach each other {mended:.1?} after the loop ended");
    [a, b].into_iter().for_each(|bridge| _ = end(bridge));
}

#[test]
fn taps_joined_twice() {
    isolated("taps_joined_twice", || survives(Wire::Taps, &MUTE));
}

#[test]
fn veth_joined_twice() {
    isolated("veth_joined_twice", || survives(Wire::Veth(Kind::Packet), &MUTE));
}

#[test]
fn taps_joined_twice_with_a_spanning_tree() {
    isolated("taps_joined_twice_with_a_spanning_tree", || survives(Wire::Taps, &STP));
}

#[test]
fn veth_joined_twice_with_a_spanning_tree() {
    isolated("veth_joined_twice_with_a_spanning_tree", || survives(Wire::Veth(Kind::Packet), &STP));
}

#[test]
fn xdp_ports_joined_twice() {
    isolated("xdp_ports_joined_twice", || survives(Wire::Veth(Kind::Xdp), &MUTE));
}

#[test]
fn xdp_ports_joined_twice_with_a_spanning_tree() {
    isolated("xdp_ports_joined_twice_with_a_spanning_tree", || survives(Wire::Veth(Kind::Xdp), &STP));
}

#[test]
fn taps_of_two_loops_joined_twice() {
    isolated("taps_of_two_loops_joined_twice", || survives(Wire::Taps, &MUTE_BY_TWO));
}

#[test]
fn veth_of_two_loops_joined_twice_with_a_spanning_tree() {
    let wire = Wire::Veth(Kind::Packet);
    isolated("veth_of_two_loops_joined_twice_with_a_spanning_tree", || survives(wire, &STP_BY_TWO));
}
