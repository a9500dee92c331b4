use super::*;
use crate::SeqNum;

const MSS: u32 = 1000;
const NOW: Instant = Instant::ZERO;

fn ack(bytes: u32) -> Ack {
    Ack {
        bytes,
        prior_in_flight: 0,
        limit_growth: true,
        in_flight: 0,
        rtt_us: None,
        round_start: false,
        cwnd_limited: true,
        in_recovery: false,
        snd_una: SeqNum(0),
        snd_nxt: SeqNum(0),
    }
}

fn begun() -> NewReno {
    NewReno::new(1000, 10 * MSS)
}

#[test]
fn slow_start_counts_bytes_and_at_most_two_segments_an_ack() {
    let mut cc = begun();
    cc.on_ack(&ack(1), NOW); // ACK splitting gains nothing
    assert_eq!(cc.cwnd(), 10 * MSS + 1);
    cc.on_ack(&ack(MSS), NOW);
    assert_eq!(cc.cwnd(), 11 * MSS + 1);
    cc.on_ack(&ack(8 * MSS), NOW);
    assert_eq!(cc.cwnd(), 13 * MSS + 1);
}

#[test]
fn an_idle_or_recovering_sender_does_not_grow() {
    let mut cc = begun();
    cc.on_ack(&Ack { cwnd_limited: false, ..ack(MSS) }, NOW);
    cc.on_ack(&Ack { in_recovery: true, ..ack(MSS) }, NOW);
    assert_eq!(cc.cwnd(), 10 * MSS);
}

#[test]
fn congestion_avoidance_adds_a_segment_a_window() {
    let mut cc = begun();
    cc.on_congestion(20 * MSS, Signal::Loss, NOW);
    assert_eq!((cc.cwnd(), cc.ssthresh()), (10 * MSS, 10 * MSS));
    for _ in 0..9 {
        cc.on_ack(&ack(MSS), NOW);
    }
    assert_eq!(cc.cwnd(), 10 * MSS);
    cc.on_ack(&ack(MSS), NOW);
    assert_eq!(cc.cwnd(), 11 * MSS);
}

#[test]
fn a_timeout_leaves_one_segment_and_one_segment_an_ack_until_ssthresh() {
    let mut cc = begun();
    cc.on_rto(8 * MSS, true, NOW);
    assert_eq!((cc.cwnd(), cc.ssthresh()), (MSS, 4 * MSS));
    cc.on_rto(MSS, false, NOW); // again: ssthresh stays (RFC 5681 3.1)
    assert_eq!((cc.cwnd(), cc.ssthresh()), (MSS, 4 * MSS));
    cc.on_ack(&ack(3 * MSS), NOW);
    assert_eq!(cc.cwnd(), 2 * MSS);
    cc.on_ack(&ack(MSS), NOW);
    cc.on_ack(&ack(MSS), NOW);
    assert_eq!(cc.cwnd(), 4 * MSS);
}

#[test]
fn ssthresh_is_at_least_two_segments() {
    let mut cc = begun();
    cc.on_congestion(MSS, Signal::Ecn, NOW);
    assert_eq!(cc.ssthresh(), 2 * MSS);
}

#[test]
fn undo_restores_the_previous_window() {
    let mut cc = begun();
    cc.on_rto(10 * MSS, true, NOW);
    cc.undo();
    assert_eq!((cc.cwnd(), cc.ssthresh()), (10 * MSS, u32::MAX));
}

#[test]
fn idle_time_halves_the_window_down_to_the_initial_window() {
    let (idle, rto) = (Duration::from_millis(500), Duration::from_millis(200));
    let mut cc = begun();
    cc.set_cwnd(80 * MSS);
    cc.on_idle_restart(idle, rto);
    assert_eq!(cc.cwnd(), 20 * MSS);
    cc.on_idle_restart(Duration::from_secs(3600), rto);
    assert_eq!(cc.cwnd(), 10 * MSS);
    cc.set_cwnd(4 * MSS);
    cc.on_idle_restart(idle, rto);
    assert_eq!(cc.cwnd(), 4 * MSS);
}
