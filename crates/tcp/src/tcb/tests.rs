use super::*;
use crate::SegmentOptions;
use crate::tests::handshake;

/// A connection in a reused slot equals a new one, regardless of what the previous connection did.
#[test]
fn a_connection_in_a_reused_slot_starts_as_new() {
    let now = Instant::from_millis(1000);
    let (config, other) =
        (Arc::new(Config::default()), Arc::new(Config { mss: 900, sack: false, ..Config::default() }));
    let done = Handshake { ecn: true, ..handshake() };
    let mut place = Tcb::from_handshake(&other, &done, now);
    place.queued(100_000, true);
    place.set_keepalive(true, None, now);
    while place.poll_segment(now, 0).is_some() {}
    let early = Segment { seq: SeqNum(500), ack: SeqNum(6), flags: Flags::ACK, len: 7, ..Segment::default() };
    let options =
        SegmentOptions { timestamps: Some(crate::Timestamps { val: 71, ecr: 4 }), ..SegmentOptions::default() };
    place.on_segment(&Segment { options, ..early }, now.after(Duration::from_millis(3)));
    place.on_timer(now.after(Duration::from_secs(3)));
    for _ in 0..2 {
        place.reset();
        place.connect_again(&config, SeqNum(77), 8, now);
        assert_eq!(format!("{place:?}"), format!("{:?}", Tcb::connect(&config, SeqNum(77), 8, now)));
        place.reset();
        place.from_handshake_again(&config, &done, now);
        assert_eq!(format!("{place:?}"), format!("{:?}", Tcb::from_handshake(&config, &done, now)));
    }
}
