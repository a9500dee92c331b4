mod dead;
mod devices;
mod hostile;
mod ledger;
mod settings;
mod workers;

use super::*;
use ::bridge::{PortNo, StpVersion};
use buf::{Burst, Pool, PoolLocks};
use clock::{Clock, Duration, Instant, SimClock, Strategy};
use node::switch::AddError;
use port::pair::pair;
use port::{Caps, Port};
use proptest::prelude::*;

fn frame(dst: u8, src: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[5] = dst;
    frame[11] = src;
    frame
}

/// A switch with `n` ports and several loops, and the other ends of the ports.
struct Lan {
    switch: Switch,
    ends: Vec<Port>,
    pool: Pool,
}

impl Lan {
    fn new(n: usize, loops: usize) -> Lan {
        Lan::with(n, loops, 0, Clock::sim(&SimClock::new()))
    }

    /// Returns a switch on a live clock.
    fn live(n: usize, loops: usize) -> Lan {
        Lan::with(n, loops, 0, Clock::live(Strategy::TscScaled))
    }

    fn with(n: usize, loops: usize, workers: usize, clock: Clock) -> Lan {
        let config = SwitchConfig { loops, workers, ..SwitchConfig::default() };
        let switch = Switch::new(&config, clock).unwrap();
        let mut lan = Lan {
            switch,
            ends: Vec::new(),
            pool: Pool::new(&PoolConfig { locks: PoolLocks::Light, ..PoolConfig::default() }).unwrap(),
        };
        (0..n).for_each(|at| lan.plug(&format!("p{at}")));
        lan
    }

    fn plug(&mut self, name: &str) {
        let (ours, theirs) = pair(name, 256, Caps::PLAIN);
        self.switch.attach(ours, None).unwrap();
        self.ends.push(theirs);
    }

    fn send(&mut self, from: usize, bytes: &[u8]) {
        let mut frame = self.pool.get().unwrap();
        frame.extend(bytes).unwrap();
        assert!(self.ends[from].tx.tx_one(frame, Instant::ZERO).is_ok());
    }

    /// Runs three rounds. Frames and learned addresses reach other loops in the second round.
    fn turn(&self) {
        (0..3).for_each(|_| self.switch.each_thread(|thread| _ = thread.turn()));
    }

    fn receive(&mut self, at: usize) -> Vec<Vec<u8>> {
        let mut burst = Burst::new();
        self.ends[at].rx.rx_burst(&mut burst, 256, Instant::ZERO);
        let frames = burst.drain().map(|frame| frame.bytes().to_vec());
        // Leaves out BPDUs.
        frames.filter(|frame| !frame.starts_with(&[1, 0x80, 0xc2])).collect()
    }

    fn received(&mut self) -> Vec<usize> {
        (0..self.ends.len()).map(|at| self.receive(at).len()).collect()
    }

    fn say(&self, words: &str) -> Result<String, String> {
        let words: Vec<&str> = words.split_whitespace().collect();
        run(&self.switch, &words, false).map_err(|why| why.to_string())
    }

    fn json(&self, words: &str) -> serde_json::Value {
        let words: Vec<&str> = words.split_whitespace().collect();
        serde_json::from_str(&run(&self.switch, &words, true).unwrap()).unwrap()
    }
}

#[test]
fn frames_cross_between_ports_of_different_loops() {
    for threads in 1..=3 {
        let mut lan = Lan::new(3, threads);
        lan.send(0, &frame(2, 1));
        lan.turn();
        assert_eq!(lan.received(), [0, 1, 1]);
        lan.send(1, &frame(1, 2));
        lan.turn();
        assert_eq!(lan.receive(0), [frame(1, 2)]);
        lan.send(2, &frame(2, 3));
        lan.turn();
        assert_eq!(lan.receive(1), [frame(2, 3)]);
        let audit = lan.switch.audit();
        assert!(audit.holds() && audit.sent == 4 && audit.held == 0, "{audit:?}");
        let counts = lan.switch.counts(1);
        assert_eq!((counts.bridge.received, counts.bridge.given, counts.sent), (1, 2, 2));
    }
}

#[test]
fn commands_configure_and_display_a_switch() {
    let mut lan = Lan::new(3, 1);
    lan.say("ifconfig bridge0 private p0 private p1 -learn p2 cluster p2 0").unwrap();
    lan.send(0, &frame(9, 1));
    lan.send(2, &frame(9, 3));
    lan.turn();
    assert_eq!(lan.received(), [1, 1, 1], "p0 and p1 are isolated from each other");
    lan.say("bridge fdb add 02:00:00:00:00:07 dev p2 static").unwrap();
    lan.say("ifconfig bridge0 static p1 02:00:00:00:00:08 vlan 5").unwrap();
    let own = format!("{} dev bridge0 master bridge0 permanent\n", lan.switch.mac);
    assert_eq!(
        lan.say("bridge fdb show").unwrap().replace(&own, ""),
        "00:00:00:00:00:01 dev p0 master bridge0\n\
         02:00:00:00:00:07 dev p2 master bridge0 static\n\
         02:00:00:00:00:08 dev p1 vlan 5 master bridge0 static\n"
    );
    assert_eq!(
        lan.say("ifconfig bridge0 addr").unwrap(),
        "00:00:00:00:00:01 Vlan0 p0 300 flags<>\n\
         02:00:00:00:00:07 Vlan0 p2 0 flags<STATIC>\n\
         02:00:00:00:00:08 Vlan5 p1 0 flags<STATIC>\n"
    );
    assert_eq!(lan.json("bridge fdb show dev p1")[0]["vlan"], 5);
    let shown = lan.say("ifconfig").unwrap();
    assert!(shown.contains("member: p0 flags=300803<LEARNING,DISCOVER,PRIVATE,MULTICAST,BROADCAST>"), "{shown}");
    assert!(shown.contains("member: p2 flags=300002<DISCOVER,MULTICAST,BROADCAST>"), "{shown}");
    lan.say("ifconfig bridge0 flush deladdr 02:00:00:00:00:07").unwrap();
    assert_eq!(lan.json("bridge fdb").as_array().unwrap().len(), 2, "the static address and the bridge's own");
    lan.say("bridge link set dev p0 isolated off learning off flood off").unwrap();
    assert!(lan.say("ifconfig").unwrap().contains("member: p0 flags=300000<MULTICAST,BROADCAST>"));
    assert_eq!(lan.json("bridge link")[2]["master"], "bridge0");
    assert_eq!(
        lan.say("sysctl kern.polling.burst_max=200 kern.polling.mode=clock").unwrap(),
        "kern.polling.burst_max: 150 -> 200\nkern.polling.mode: adaptive -> clock\n"
    );
    assert!(lan.say("show polling").unwrap().starts_with("loop 0: clock, polls p0 p1 p2\n"));
    assert_eq!(lan.json("audit")["holds"], true);
    assert!(lan.say("sysctl -a").unwrap().contains("net.link.ether.bdg_fw_avg: "));
    let help = lan.say("help").unwrap();
    assert!(
        help.contains("ifconfig  Show and configure members") && help.lines().all(|line| line.chars().count() <= 80),
        "{help}"
    );
}

#[test]
fn vlans_storms_rules_and_limits_are_commands() {
    let mut lan = Lan::new(3, 2);
    lan.say("ifconfig bridge0 vlanfilter untagged p0 10 untagged p1 10 tagged p2 10,20-22").unwrap();
    assert_eq!(
        lan.say("bridge vlan").unwrap(),
        "port              vlan-id\n\
         p0                10 PVID Egress Untagged\n\
         p1                10 PVID Egress Untagged\n\
         p2                1 PVID Egress Untagged\n                  10\n                  20\n                  21\n                  22\n"
    );
    lan.send(0, &frame(9, 1));
    lan.turn();
    assert_eq!(lan.receive(1), [frame(9, 1)]);
    assert_eq!(lan.receive(2)[0][12..16], [0x81, 0, 0, 10], "the frame has a tag");
    lan.say("bridge vlan del dev p1 vid 10").unwrap();
    lan.say("bridge vlan add dev p1 vid 20 pvid untagged").unwrap();
    assert_eq!(lan.json("bridge vlan")[1]["vlans"][0]["flags"][0], "PVID");
    lan.send(0, &frame(9, 1));
    lan.turn();
    assert_eq!(lan.received(), [0, 0, 1]);
    lan.say("ifconfig bridge0 -vlanfilter storm p0 unknown 1 ifmaxaddr p1 1 timeout 60").unwrap();
    lan.say("ifconfig bridge0 rule p2 out drop ether dst 00:00:00:00:00:08").unwrap();
    (0..3).for_each(|_| lan.send(0, &frame(9, 1)));
    lan.turn();
    assert_eq!(lan.received(), [0, 1, 1]);
    lan.say("ifconfig bridge0 -storm p0").unwrap();
    lan.send(0, &frame(8, 1));
    lan.turn();
    assert_eq!(lan.received(), [0, 1, 0]);
    assert_eq!(lan.say("show rules").unwrap(), "           1  p2 out drop ether dst 00:00:00:00:00:08\n");
    lan.say("ifconfig bridge0 -rule p2 out snoop querier 10.0.0.1").unwrap();
    assert_eq!(lan.json("bridge mdb"), serde_json::json!([{ "mdb": [], "router": {} }]));
    let shown = lan.say("ifconfig").unwrap();
    assert!(
        shown.contains("ifmaxaddr 1 port 2 priority 128 path cost 2000\n\t        loop 1 pair:p1")
            && shown.contains("timeout 60"),
        "{shown}"
    );
    let dropped = lan.say("show drops").unwrap();
    assert!(dropped.contains("storm") && dropped.contains("rule"), "{dropped}");
    assert!(lan.switch.audit().holds());
    for (words, said) in [
        ("ifconfig bridge0 storm p0 rain 5", "expected broadcast, multicast or unknown"),
        ("ifconfig bridge0 rule p0 in drop udp prot 5", "prot"),
        ("ifconfig bridge0 tagged p0 5-4095", "VLANs"),
        ("bridge vlan add dev p0 vid 2-3 pvid", "only one VLAN"),
        ("ifconfig bridge0 edge p0", "add it with 'ifconfig bridge0 stp p0'"),
        ("ifconfig bridge0 proto mstp", "rstp, stp or none"),
        ("ifconfig bridge0 hellotime 7", "hello_s"),
        ("show nic", "there is no nic port"),
    ] {
        let answer = lan.say(words).unwrap_err();
        assert!(answer.contains(said), "{words}: {answer}");
    }
}

/// One burst in 16 is measured, with its frames and ticks. The average covers the measured bursts.
#[test]
fn bridge_cost_is_measured_one_burst_in_16() {
    let mut lan = Lan::live(2, 1);
    let read = |lan: &Lan, name: &str| -> u64 {
        lan.say(&format!("sysctl -n net.link.ether.bdg_fw_{name}")).unwrap().trim().parse().unwrap()
    };
    assert_eq!((read(&lan, "avg"), read(&lan, "count")), (0, 0));
    for _ in 0..48 {
        (0..10).for_each(|_| lan.send(0, &frame(9, 1)));
        lan.turn();
        assert_eq!(lan.received(), [0, 10]);
    }
    let (avg, count, ticks) = (read(&lan, "avg"), read(&lan, "count"), read(&lan, "ticks"));
    assert_eq!(count, 3 * 10, "three of 48 bursts");
    assert!(avg > 0 && (ticks as f64 / count as f64).round() as u64 == avg, "{avg} {count} {ticks}");
}

#[test]
fn nic_sysctls_are_set_while_it_runs() {
    let mut lan = Lan::new(1, 1);
    lan.say("ifconfig bridge0 addm nic(wire=w):em0 addm nic(wire=w):em1").unwrap();
    assert_eq!(
        lan.say("sysctl nic.rx_tail_batch=16 nic.rx_ring").unwrap(),
        "nic.rx_tail_batch: 1 -> 16\nnic.rx_ring: 256\n"
    );
    assert!(lan.say("sysctl nic.rx_ring=64").unwrap_err().contains("when the port is opened"));
    lan.say("ifconfig bridge0 -discover em1").unwrap();
    (0..64).for_each(|_| lan.send(0, &frame(9, 1)));
    (0..20).for_each(|_| lan.turn());
    let shown = lan.json("show nic");
    assert_eq!((shown[0]["ifname"].as_str(), shown[1]["ifname"].as_str()), (Some("em0"), Some("em1")));
    assert_eq!((&shown[0]["link"], &shown[0]["interrupts"]), (&"up".into(), &0.into()));
    assert!(lan.say("show nic").unwrap().contains("doorbell"), "{}", lan.say("show nic").unwrap());
    assert!(lan.switch.audit().holds());
}

/// Two switches connected by two links, with a station on each. Without a spanning tree, this is a
/// loop.
#[test]
fn a_spanning_tree_opens_one_of_two_links() {
    let clock = SimClock::new();
    let mut one = Lan::with(1, 2, 0, Clock::sim(&clock));
    let mut other = Lan::with(1, 1, 0, Clock::sim(&clock));
    for name in ["l0", "l1"] {
        let (here, there) = pair(name, 256, Caps::PLAIN);
        one.switch.attach(here, None).unwrap();
        other.switch.attach(there, None).unwrap();
    }
    [&one, &other].iter().for_each(|lan| lan.switch.span(StpVersion::Rstp).unwrap());
    let pass = |one: &Lan, other: &Lan, ms: u64| {
        for _ in 0..ms {
            clock.advance(Duration::from_millis(1));
            [one, other].iter().for_each(|lan| {
                lan.turn();
                lan.switch.tend();
            });
        }
    };
    pass(&one, &other, 40_000);
    let states = |lan: &Lan| {
        let links = lan.json("bridge link");
        links.as_array().unwrap().iter().map(|link| link["state"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    let all = [states(&one), states(&other)].concat();
    assert_eq!(all.iter().filter(|state| *state == "blocking").count(), 1, "{all:?}");
    one.send(0, &frame(0xff, 1));
    pass(&one, &other, 10);
    assert_eq!((one.received(), other.received()), (vec![0], vec![1]), "once");
    assert_eq!(one.json("ifconfig")["stp"]["ports"].as_array().unwrap().len(), 3);
    assert!(one.say("ifconfig").unwrap().contains("proto rstp"));
    // The link that forwards is cut.
    let forwards = if states(&one)[1] == "forwarding" && states(&other)[1] == "forwarding" { "l0" } else { "l1" };
    one.say(&format!("ifconfig bridge0 deletem {forwards}")).unwrap();
    pass(&one, &other, 200);
    one.send(0, &frame(0xff, 1));
    pass(&one, &other, 10);
    assert_eq!(other.received(), [1], "the other link has taken over");
    one.say("ifconfig bridge0 proto none").unwrap();
    assert!(states(&one).iter().all(|state| state == "forwarding"));
    assert!(one.switch.audit().holds() && other.switch.audit().holds());
}

#[test]
fn invalid_commands_are_rejected() {
    let lan = Lan::new(2, 1);
    for (words, said) in [
        ("", "expected a command"),
        ("brigde", "did you mean 'bridge'?"),
        ("ifconfig bridge1", "unknown bridge 'bridge1'"),
        ("ifconfig bridge0 lern p0", "did you mean 'learn'?"),
        ("ifconfig bridge0 learn p7", "unknown member 'p7'"),
        ("ifconfig bridge0 addm", "expected a port such as tap:tap0"),
        ("ifconfig bridge0 addm warp:9", "unknown kind"),
        ("ifconfig bridge0 addm null:x loop 1", "expected a number from 0 to 0"),
        ("ifconfig bridge0 static p0 7", "six hexadecimal bytes"),
        ("ifconfig bridge0 deladdr 02:00:00:00:00:07", "no such address"),
        ("bridge fdb add 02:00:00:00:00:07 dev p0 vlan 4095", "expected a number from 1 to 4094"),
        ("bridge link set dev p0 learning maybe", "expected on or off"),
        ("sysctl kern.polling.burst_max=5", "expected a number from 10 to 1000"),
        ("sysctl kern.polling.burst=5", "read only"),
        ("sysctl kern.polling.mode=interrupt", "expected"),
        ("show everything", "unknown word"),
        ("audit now", "unexpected word 'now'"),
    ] {
        let answer = lan.say(words).unwrap_err();
        assert!(answer.contains(said), "{words}: {answer}");
    }
}

#[test]
fn ports_change_at_run_time_and_have_one_loop() {
    for threads in [1, 2] {
        let mut lan = Lan::new(2, threads);
        lan.send(0, &frame(2, 1));
        lan.send(1, &frame(1, 2));
        lan.turn();
        lan.received();
        let (again, _other) = pair("p1", 8, Caps::PLAIN);
        let why = lan.switch.attach(again, None).unwrap_err().to_string();
        assert!(why.contains("EEXIST"), "{why}");
        // The port is removed while frames wait to be sent through it.
        (0..200).for_each(|_| lan.send(0, &frame(2, 3)));
        lan.switch.each_thread(|thread| _ = thread.turn());
        lan.say("ifconfig bridge0 deletem p1").unwrap();
        lan.turn();
        lan.ends.pop();
        assert!(lan.switch.member("p1").is_none());
        let audit = lan.switch.audit();
        assert!(audit.holds() && audit.held == 0, "{audit:?}");
        lan.plug("p1");
        lan.send(0, &frame(2, 1));
        lan.turn();
        assert_eq!(lan.receive(1), [frame(2, 1)], "the address is unknown again, so the frame is flooded");
        assert_eq!(lan.switch.members().iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1]);
        assert!(lan.switch.audit().holds());
    }
}

#[test]
fn a_switch_ends_after_its_last_port() {
    for threads in [1, 3] {
        let mut lan = Lan::live(4, threads);
        lan.send(0, &frame(2, 1));
        lan.ends.clear();
        lan.switch.run(None, node::switch::run::Until::Over, || false).unwrap();
        let audit = lan.switch.audit();
        assert!(audit.holds() && audit.bridge.received == 1 && audit.held == 0, "{audit:?}");
    }
}

#[test]
fn commands_wait_at_most_one_turn() {
    let mut lan = Lan::live(4, 2);
    let switch = &lan.switch;
    let end = std::sync::atomic::AtomicBool::new(false);
    let ends = std::mem::take(&mut lan.ends);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            switch
                .run(None, node::switch::run::Until::Stopped, || end.load(std::sync::atomic::Ordering::Relaxed))
                .unwrap()
        });
        for turn in 0..500 {
            switch.set_member(0, |member| member.learn = turn % 2 == 0);
            assert!(switch.audit().holds());
        }
        end.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    drop(ends);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every received frame is sent, or dropped with a reason. No frame returns to the station that
    /// sent it.
    #[test]
    fn nothing_is_lost(
        threads in 1..=3_usize,
        frames in prop::collection::vec((0..4_usize, prop::collection::vec(0..3_u8, 14..70)), 0..200),
    ) {
        let mut lan = Lan::new(4, threads);
        let mut got = [0_u64; 4];
        for (from, bytes) in &frames {
            lan.send(*from, bytes);
            lan.turn();
            prop_assert_eq!(lan.receive(*from).len(), 0);
            for (at, got) in got.iter_mut().enumerate() {
                *got += lan.receive(at).len() as u64;
            }
        }
        for (number, got) in got.iter().enumerate() {
            let counts = lan.switch.counts(number as PortNo);
            let b = counts.bridge;
            prop_assert_eq!(b.received, b.forwarded + b.flooded + b.dropped);
            prop_assert_eq!((b.given, counts.sent), (counts.sent + counts.failed + counts.full + counts.late + counts.held, *got));
        }
        let audit = lan.switch.audit();
        prop_assert!(audit.holds() && audit.bridge.received == frames.len() as u64, "{audit:?}");
    }
}
