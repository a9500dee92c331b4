//! Devices and their queues: which names denote the same interface, and which loop polls which
//! queue.

use super::*;
use dispatch::polling::Taken;

/// Returns a port with the full specification `spec`, and the other end of its pair.
fn named(spec: &str) -> (Port, Port) {
    let name = spec.rsplit(':').next().unwrap();
    let (mut ours, theirs) = pair(name, 256, Caps::PLAIN);
    ours.spec = spec.to_string();
    (ours, theirs)
}

fn plug(lan: &mut Lan, spec: &str) -> Result<PortNo, AddError> {
    let (ours, theirs) = named(spec);
    let number = lan.switch.attach(ours, None)?;
    lan.ends.push(theirs);
    Ok(number)
}

/// An interface is one member, regardless of the kind of port in its specification.
#[test]
fn equivalent_specs_name_one_interface() {
    for (first, second) in [
        ("packet:x0", "packet(rx_ring=64):x0"),
        ("packet(fanout=3):x0", "packet(fanout=4):x0"),
        ("packet(fanout=3):x0", "packet:x0"),
        ("xdp:p1", "packet:p1"),
        ("xdp(queue=1):p1", "xdp(queue=1,ring=64):p1"),
        ("tap:t0", "impair(loss=1%):tap:t0"),
        ("tap(queues=2):t0", "tap(queues=2,tso=off):t0"),
        ("tap:t0", "tap:t0"),
        ("nic(wire=w):em0", "nic(wire=v):em0"),
    ] {
        let mut lan = Lan::new(0, 2);
        plug(&mut lan, first).unwrap();
        let why = plug(&mut lan, second).unwrap_err();
        assert!(matches!(why, AddError::Taken(Taken { by: 0, .. })), "{first} {second}: {why}");
        assert!(why.to_string().contains("EEXIST") && lan.switch.members().len() == 1, "{first} {second}: {why}");
        lan.switch.remove(0);
        plug(&mut lan, second).unwrap();
    }
}

/// The queues of a device are one member, and each queue has its own loop. Frames from any queue
/// are learned at that member, and a loop sends through its own queue.
#[test]
fn queues_of_a_device_are_one_member_with_a_loop_each() {
    for specs in [
        ["tap(queues=2):t0"; 2],
        ["packet(fanout=7):x0"; 2],
        ["xdp(queue=0):v0", "xdp(queue=1):v0"],
        ["impair(delay=0s):tap(queues=2):t0", "tap(queues=2):t0"],
    ] {
        let mut lan = Lan::new(0, 3);
        assert_eq!([plug(&mut lan, specs[0]).unwrap(), plug(&mut lan, specs[1]).unwrap()], [0, 0]);
        assert_eq!(plug(&mut lan, "pair:far").unwrap(), 1);
        let info = lan.switch.members().remove(0).1;
        assert_eq!((info.loops(), info.spec()), ("0,1".into(), specs.join(" ")));
        assert_eq!(lan.switch.members()[1].1.thread(), 2);
        for from in [0, 1] {
            lan.send(from, &frame(9, 1 + from as u8));
            lan.turn();
            assert_eq!(lan.received(), [0, 0, 1], "the frame does not return through the other queue");
        }
        // The receiving loop itself sends frames for the member if it polls one of the member's
        // queues. Otherwise the loop of the first queue sends them.
        lan.send(2, &frame(1, 5));
        lan.turn();
        assert_eq!(lan.received(), [1, 0, 0]);
        let known = lan.say("ifconfig bridge0 addr").unwrap();
        assert_eq!(known.lines().count(), 3, "each address is listed once: {known}");
        assert_eq!(lan.json("show ports").as_array().unwrap().len(), 3, "one row per queue");
        let shown = lan.say("ifconfig").unwrap();
        assert!(shown.contains(&format!("loop 0,1 {}", specs.join(" "))), "{shown}");
        let counts = lan.switch.counts(0);
        assert_eq!((counts.bridge.received, counts.sent), (2, 1));
        // Both queues are removed together.
        lan.switch.remove(0);
        lan.turn();
        assert_eq!(lan.switch.members().len(), 1);
        let audit = lan.switch.audit();
        assert!(audit.holds() && audit.held == 0, "{audit:?}");
        plug(&mut lan, specs[0]).unwrap();
    }
}

#[test]
fn a_queue_without_a_loop_of_its_own_is_refused() {
    let mut lan = Lan::new(0, 1);
    plug(&mut lan, "tap(queues=2):t0").unwrap();
    let why = plug(&mut lan, "tap(queues=2):t0").unwrap_err();
    assert!(matches!(why, AddError::NoLoopLeft { loops: 1, .. }) && why.to_string().contains("--loops"), "{why}");
    let mut lan = Lan::new(0, 2);
    (0..2).for_each(|_| assert_eq!(plug(&mut lan, "tap(queues=3):t0").unwrap(), 0));
    assert!(matches!(plug(&mut lan, "tap(queues=3):t0"), Err(AddError::NoLoopLeft { loops: 2, .. })));
    let (ours, _theirs) = named("tap(queues=3):t0");
    assert!(matches!(lan.switch.attach(ours, Some(1)), Err(AddError::NoLoopLeft { .. })), "loop 1 already has a queue");
}

/// Expensive checks, such as two registers of each card, are made once every `reg_frac` ticks
/// (polling(4)).
#[test]
fn errors_are_polled_once_in_reg_frac_ticks() {
    for (reg_frac, looks) in [(1, 40), (10, 4)] {
        let clock = SimClock::new();
        let lan = Lan::with(0, 1, 0, Clock::sim(&clock));
        lan.say("ifconfig bridge0 addm nic(wire=w):em0 addm nic(wire=w):em1").unwrap();
        lan.say(&format!("sysctl kern.polling.mode=clock kern.polling.reg_frac={reg_frac}")).unwrap();
        for _ in 0..40 {
            clock.advance(Duration::from_millis(1));
            lan.switch.each_thread(|thread| _ = thread.turn());
        }
        let reads = |number: usize| lan.switch.members()[number].1.nic.as_ref().unwrap().counts.register_reads.get();
        assert_eq!((reads(0), reads(1)), (2 * looks, 2 * looks));
    }
}
