//! Loom model of a thread that sends more events than fit the ring, while another thread receives.

use super::*;
use bridge::{BridgeConfig, FdbConfig, Key, Member};
use std::sync::atomic::AtomicUsize;
use wire::Mac;

const TOLD: u8 = 2; // one more than the ring holds, unless the receiver runs meanwhile

fn address(n: u8) -> Key {
    Key::new(0, Mac([2, 0, 0, 0, 0, n]))
}

/// Returns the replica of the receiver, with two ports.
fn replica() -> Bridge {
    let mut bridge =
        Bridge::new(BridgeConfig { fdb: FdbConfig { most: 16, ..FdbConfig::new() }, ..BridgeConfig::default() });
    (0..2).for_each(|_| assert!(bridge.add(Member::default()).is_some()));
    bridge
}

#[test]
fn loom_news_what_is_lost_is_noticed_and_asked_for_again() {
    let seen = Arc::new([const { AtomicUsize::new(0) }; 2]); // runs without loss, runs with loss
    let runs = seen.clone();
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let (mut sender, mut receiver) = channel(1, 1);
        let now = Instant::from_millis(1);
        let teller = loom::thread::spawn(move || {
            let tell = |n| sender.send(&SyncEvent::At(address(n), 1, now));
            let reported = (0..TOLD).map(tell).filter(|reported| *reported).count();
            (sender, reported)
        });
        let (mut bridge, counts) = (replica(), SyncCounts::default());
        let mut missed = receiver.receive(&mut bridge, &counts, now);
        let (sender, reported) = teller.join().unwrap();
        missed |= receiver.receive(&mut bridge, &counts, now);
        let lost = reported < usize::from(TOLD);
        assert_eq!(missed, lost, "the loss is noticed if and only if an event was lost");
        assert_eq!(sender.take_resend_request(), lost, "a repetition is requested after a loss");
        assert!(!sender.take_resend_request(), "once");
        assert!(!receiver.receive(&mut bridge, &counts, now), "a loss is noticed once");
        runs[usize::from(lost)].fetch_add(1, Ordering::Relaxed);
        if !lost {
            let known = bridge.fdb().entries(now).count();
            assert_eq!(known, usize::from(TOLD), "events that were not lost are applied");
        }
    });
    assert!(seen.iter().all(|runs| runs.load(Ordering::Relaxed) > 0), "{seen:?}");
}
