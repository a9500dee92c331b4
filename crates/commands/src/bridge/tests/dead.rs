//! Ports that fail, are down or are full. Frames that such a port did not accept are not counted as
//! sent, and each has a drop reason.

use super::*;

impl Lan {
    fn dropped(&self, name: &str) -> u64 {
        let all = self.json("show drops");
        let row = all.as_array().unwrap().iter().find(|row| row["name"] == name);
        row.map_or(0, |row| row["value"].as_u64().unwrap())
    }

    fn assert_balanced(&self) {
        let audit = self.switch.audit();
        assert!(audit.holds(), "{audit:?}");
    }

    /// Advances the time to the next check of the links.
    fn tend(&self, sim: &SimClock) {
        sim.advance(Duration::from_millis(200));
        self.switch.tend();
    }
}

fn lan(n: usize, loops: usize, workers: usize) -> (Lan, SimClock) {
    let sim = SimClock::new();
    (Lan::with(n, loops, workers, Clock::sim(&sim)), sim)
}

/// The peer of a port is removed. Until the link is checked, the port's device rejects frames;
/// after that, no frames are passed to the port. Addresses learned on it are flushed.
#[test]
fn frames_refused_by_a_dead_port_are_not_counted_as_sent() {
    for (loops, workers) in [(1, 0), (2, 0), (1, 2)] {
        let (mut lan, sim) = lan(3, loops, workers);
        lan.tend(&sim);
        lan.send(1, &frame(1, 2));
        lan.turn();
        lan.received();
        drop(lan.ends.remove(1));
        (0..10).for_each(|_| lan.send(0, &frame(2, 1)));
        lan.turn();
        let counts = lan.switch.counts(1);
        assert_eq!((counts.bridge.given, counts.sent, counts.failed), (10, 0, 10), "{loops} {workers}");
        assert_eq!(lan.dropped("bridge.out.port_failed"), 10);
        lan.assert_balanced();
        lan.tend(&sim);
        assert_eq!(
            lan.json("ifconfig bridge0 addr").as_array().unwrap().len(),
            1,
            "the address learned on it is flushed"
        );
        (0..10).for_each(|_| lan.send(0, &frame(2, 1)));
        lan.turn();
        assert_eq!(lan.switch.counts(1).bridge.given, 10, "no frame is flooded to it");
        assert_eq!(lan.received(), [0, 10]);
        // A static entry for the port remains.
        lan.say("bridge fdb add 02:00:00:00:00:07 dev p1 static").unwrap();
        let mut to_static = frame(7, 1);
        to_static[0] = 2;
        lan.send(0, &to_static);
        lan.turn();
        assert_eq!(lan.dropped("bridge.in.port_gone"), 1);
        lan.assert_balanced();
    }
}

/// A card without a wire has no carrier. The next port with the same number is a different card.
#[test]
fn a_port_without_carrier_receives_no_frames() {
    let (mut lan, sim) = lan(2, 1, 0);
    lan.say("ifconfig bridge0 addm nic:em0").unwrap();
    lan.say("bridge fdb add 02:00:00:00:00:07 dev em0 static").unwrap();
    lan.tend(&sim);
    let mut to_card = frame(7, 1);
    to_card[0] = 2;
    lan.send(0, &to_card);
    lan.send(0, &frame(9, 1));
    lan.turn();
    assert_eq!((lan.switch.counts(2).bridge.given, lan.dropped("bridge.in.no_carrier")), (0, 1));
    assert_eq!(lan.received(), [0, 1]);
    lan.assert_balanced();
    lan.say("ifconfig bridge0 deletem em0").unwrap();
    lan.plug("p2");
    lan.tend(&sim);
    lan.send(0, &frame(9, 1));
    lan.turn();
    assert_eq!(lan.received(), [0, 1, 1]);
    lan.assert_balanced();
}

/// The peer does not read. Its queue and the port's burst fill up, and further frames are dropped
/// with a reason.
#[test]
fn a_full_port_counts_only_accepted_frames() {
    let (mut lan, sim) = lan(2, 1, 0);
    lan.tend(&sim);
    for _ in 0..40 {
        (0..50).for_each(|_| lan.send(0, &frame(9, 1)));
        (0..4).for_each(|_| lan.turn());
    }
    let counts = lan.switch.counts(1);
    assert_eq!((counts.sent, counts.held, counts.failed), (256, 256, 0));
    assert_eq!(lan.dropped("bridge.out.full"), 2_000 - 512);
    lan.assert_balanced();
    lan.switch.remove(1);
    assert_eq!(lan.dropped("bridge.out.port_removed"), 256);
    lan.assert_balanced();
}

/// A capture port and a text port whose reader closes the pipe.
#[test]
fn a_failed_pipe_receives_no_frames() {
    for kind in ["pcap", "text"] {
        let (reader, writer) = std::io::pipe().unwrap();
        let spec = format!("{kind}(read=off):/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
        let (mut lan, sim) = lan(2, 1, 0);
        lan.say(&format!("ifconfig bridge0 addm {spec}")).unwrap();
        drop(reader);
        for _ in 0..300 {
            (0..20).for_each(|_| lan.send(0, &[frame(9, 1), vec![7; 1000]].concat()));
            lan.turn();
            lan.received();
        }
        lan.assert_balanced();
        let counts = lan.switch.counts(2);
        assert!(counts.failed > 0, "{spec}: {counts:?}");
        assert_eq!(counts.bridge.given, counts.sent + counts.failed + counts.held, "{spec}");
        lan.tend(&sim);
        let given = lan.switch.counts(2).bridge.given;
        lan.send(0, &frame(9, 1));
        lan.turn();
        assert_eq!(lan.switch.counts(2).bridge.given, given, "{spec}");
        lan.assert_balanced();
    }
}
