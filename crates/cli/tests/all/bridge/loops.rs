//! Two bridges of ours, two links between them: a loop. A broadcast must not go round for ever, and hosts must get through again.

use super::lan::{Host, Kind, dropped, end, ok, until};
use crate::common::{Running, isolated};
use std::time::Duration;

/// What keeps frames from going round.
struct Guard {
    flags: &'static [&'static str],
    /// A reason for which frames are dropped then.
    reason: &'static str,
    /// Hosts get through after so many seconds, though the loop is still there.
    meet_s: Option<u64>,
}

/// Ports are muted when addresses move to and fro: without flags. Each bridge chooses for itself, and when one mutes the one wire and the
/// other the other, hosts do not get through until it is over: only who takes the loop away can count on it.
const MUTE: Guard = Guard { flags: &[], reason: "bridge.in.muted", meet_s: None };

/// The same of two loops, each of which sees what the other muted.
const MUTE_BY_TWO: Guard = Guard { flags: &["--loops", "2"], ..MUTE };

/// A spanning tree: one port discards.
const STP: Guard = Guard { flags: &["--stp"], reason: "bridge.in.discarding", meet_s: Some(5) };
const STP_BY_TWO: Guard = Guard { flags: &["--stp", "--loops", "2"], ..STP };

/// What joins a port of one bridge to one of the other.
#[derive(Clone, Copy)]
enum Wire {
    /// Two TAP devices, and a bridge of the kernel's that learns nothing and so is a wire. BPDUs pass it, as it runs no spanning tree.
    Taps,
    /// A pair of veth devices, and the kind of port at its ends.
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

    /// Before the bridges are there: both ends, down.
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

/// One bridge, a host at a TAP device of it, two wires.
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

/// Fewer than a hundred frames pass in a fifth of a second.
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
    until("without the loop", 15, reaches);
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
