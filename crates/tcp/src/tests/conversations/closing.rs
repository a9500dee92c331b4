use super::*;

#[test]
fn the_peer_closes_first() {
    talk(
        "RFC 9293 Figure 5, the other side",
        "< F. 1:1(0) ack 1 win 65535 = READABLE PEER_CLOSED
         > . 1:1(0) ack 2 win 64239
         state = CloseWait
         write 10
         > P. 1:11(10) ack 2 win 64239
         shut
         > F. 11:11(0) ack 2 win 64239
         state = LastAck
         < . 2:2(0) ack 11 win 65535 = acked 10 WRITABLE
         state = LastAck
         < . 2:2(0) ack 12 win 65535 = CLOSED
         state = Closed
         timer = never",
    );
}

#[test]
fn we_close_first() {
    talk(
        "RFC 9293 Figure 5",
        "close
         > F. 1:1(0) ack 1 win 64240
         state = FinWait1
         < . 1:1(0) ack 2 win 65535 =
         state = FinWait2
         timer = 60000
         < F. 1:1(0) ack 2 win 65535 = READABLE PEER_CLOSED TIME_WAIT
         > . 2:2(0) ack 2 win 64239
         state = TimeWait
         +60000 = CLOSED
         timer = never",
    );
}

#[test]
fn fin_and_ack_come_together() {
    talk(
        "FIN-WAIT-1 to TIME-WAIT",
        "shut
         > F. 1:1(0) ack 1 win 64240
         < F. 1:1(0) ack 2 win 65535 = READABLE PEER_CLOSED TIME_WAIT
         > . 2:2(0) ack 2 win 64239
         state = TimeWait",
    );
}

#[test]
fn both_close_at_once() {
    talk(
        "RFC 9293 Figure 12",
        "shut
         > F. 1:1(0) ack 1 win 64240
         < F. 1:1(0) ack 1 win 65535 = READABLE PEER_CLOSED
         > . 2:2(0) ack 2 win 64239
         state = Closing
         < . 2:2(0) ack 2 win 65535 = TIME_WAIT
         state = TimeWait",
    );
}

#[test]
fn half_closed_we_still_read() {
    talk(
        "half close",
        "shut
         > F. 1:1(0) ack 1 win 64240
         < . 1:1(0) ack 2 win 65535 =
         < . 1:1001(1000) ack 2 win 65535 = text 0/1000@0 order 1000 READABLE
         > . 2:2(0) ack 1001 win 63240
         timer = never                            // a process still reads: no limit on FIN-WAIT-2
         < F. 1001:1001(0) ack 2 win 65535 = READABLE PEER_CLOSED TIME_WAIT
         > . 2:2(0) ack 1002 win 63239",
    );
}

#[test]
fn fin_follows_the_queue() {
    talk(
        "FIN with the last text",
        "write 1500
         > . 1:1001(1000) ack 1 win 64240
         > P. 1001:1501(500) ack 1 win 64240
         write 100
         close
         > FP. 1501:1601(100) ack 1 win 64240    // FIN does not wait for Nagle
         state = FinWait1
         < . 1:1(0) ack 1601 win 65535 = acked 1600 WRITABLE
         state = FinWait1
         < . 1:1(0) ack 1602 win 65535 =
         state = FinWait2",
    );
}

#[test]
fn fin_is_retransmitted() {
    talk(
        "lost FIN",
        "close
         > F. 1:1(0) ack 1 win 64240
         +210
         > F. 1:1(0) ack 1 win 64240
         +210
         > F. 1:1(0) ack 1 win 64240
         < . 1:1(0) ack 2 win 65535 =
         state = FinWait2",
    );
}

#[test]
fn a_fin_after_missing_data_waits() {
    talk(
        "FIN out of order",
        "< F. 1001:1501(500) ack 1 win 65535 = text 0/500@1000
         > . 1:1(0) ack 1 win 64240 <sack 1001:1501>
         state = Established
         < . 1:1001(1000) ack 1 win 65535 = text 0/1000@0 order 1500 READABLE PEER_CLOSED
         > . 1:1(0) ack 1502 win 62739
         state = CloseWait",
    );
}

#[test]
fn data_after_a_fin_is_discarded() {
    talk(
        "RFC 9293 3.10.7.4 seventh",
        "< F. 101:101(0) ack 1 win 65535 =
         > . 1:1(0) ack 1 win 64240
         < . 1:201(200) ack 1 win 65535 = text 0/100@0 order 100 READABLE PEER_CLOSED
         > . 1:1(0) ack 102 win 64139
         < . 102:202(100) ack 1 win 65535 = drop TextAfterFin
         state = CloseWait",
    );
}

#[test]
fn a_fin_below_stored_data_is_ignored() {
    talk(
        "FIN in the middle",
        "< . 201:301(100) ack 1 win 65535 = text 0/100@200
         > . 1:1(0) ack 1 win 64240 <sack 201:301>
         < F. 101:151(50) ack 1 win 65535 = text 0/50@100
         > . 1:1(0) ack 1 win 64240 <sack 101:151 201:301>
         < . 1:101(100) ack 1 win 65535 = text 0/100@0 order 150 READABLE
         > . 1:1(0) ack 151 win 64090 <sack 201:301>
         state = Established",
    );
}

#[test]
fn the_peers_fin_again_is_acknowledged_again() {
    talk(
        "our ACK was lost",
        "< F. 1:1(0) ack 1 win 65535 = READABLE PEER_CLOSED
         > . 1:1(0) ack 2 win 64239
         < F. 1:1(0) ack 1 win 65535
         > . 1:1(0) ack 2 win 64239
         state = CloseWait",
    );
}

#[test]
fn close_with_unread_data_resets() {
    talk(
        "RFC 9293 3.6.1",
        "< . 1:101(100) ack 1 win 65535 = text 0/100@0 order 100 READABLE
         > . 1:1(0) ack 101 win 64140
         close = over
         ! R. 1:1(0) ack 101 win 0
         state = Closed",
    );
}

#[test]
fn data_after_close_resets() {
    talk(
        "RFC 1122 4.2.2.13",
        "close
         > F. 1:1(0) ack 1 win 64240
         < . 1:1(0) ack 2 win 65535 =
         < . 1:101(100) ack 2 win 65535 = CLOSED drop TextAfterClose
         ! R 2:2(0) win 0
         state = Closed",
    );
}

#[test]
fn abort_resets_in_every_state_that_requires_it() {
    talk("ESTABLISHED", "abort\n! R. 1:1(0) ack 1 win 0\nstate = Closed\ntimer = never");
    talk(
        "FIN-WAIT-1",
        "shut
         > F. 1:1(0) ack 1 win 64240
         abort
         ! R. 2:2(0) ack 1 win 0",
    );
    talk(
        "CLOSE-WAIT",
        "< F. 1:1(0) ack 1 win 65535 = READABLE PEER_CLOSED
         > . 1:1(0) ack 2 win 64239
         abort
         ! R. 1:1(0) ack 2 win 0",
    );
    talk(
        "TIME-WAIT: none",
        "shut
         > F. 1:1(0) ack 1 win 64240
         < F. 1:1(0) ack 2 win 65535 = READABLE PEER_CLOSED TIME_WAIT
         > . 2:2(0) ack 2 win 64239
         abort
         state = Closed",
    );
}

#[test]
fn nothing_can_be_queued_after_shutdown() {
    talk(
        "write after shutdown",
        "shut
         > F. 1:1(0) ack 1 win 64240
         write 100
         oob 5
         shut",
    );
}

// --- Limits for a silent peer

#[test]
fn fin_wait_2_without_a_process_ends() {
    talk(
        "FIN-WAIT-2 hoarding",
        "linger2 3000
         close
         > F. 1:1(0) ack 1 win 64240
         < . 1:1(0) ack 2 win 65535 =
         +3000 = CLOSED",
    );
}

#[test]
fn an_unresponsive_peer_is_dropped_in_every_closing_state() {
    // CVE-2015-5358: no state lasts forever.
    for (name, before) in [
        ("FIN-WAIT-1", "close\n> F. 1:1(0) ack 1 win 64240"),
        (
            "LAST-ACK",
            "< F. 1:1(0) ack 1 win 65535 = READABLE PEER_CLOSED\n> . 1:1(0) ack 2 win 64239\nclose\n> F. 1:1(0) ack 2 win 64239",
        ),
        (
            "CLOSING",
            "close\n> F. 1:1(0) ack 1 win 64240\n< F. 1:1(0) ack 1 win 65535 = READABLE PEER_CLOSED\n> . 2:2(0) ack 2 win 64239",
        ),
    ] {
        let mut talk = established(name, plain());
        talk.run(before);
        let begun = talk.now;
        let mut seen = crate::Events::NONE;
        while talk.tcb.next_timer() != clock::Instant::NEVER {
            talk.now = talk.tcb.next_timer();
            seen |= talk.tcb.on_timer(talk.now);
            while talk.tcb.poll_segment(talk.now, 0).is_some() {}
        }
        assert!(seen.contains(crate::Events::TIMED_OUT | crate::Events::CLOSED), "{name}: {seen:?}");
        assert!(talk.now.since(begun).as_secs() < 1000, "{name}: R2");
        assert!(talk.now.since(begun).as_secs() >= 60, "{name}");
    }
}

#[test]
fn unacknowledged_data_drops_the_connection_after_fifteen_timeouts() {
    let mut talk = established("R2", plain());
    talk.run("write 10\n> P. 1:11(10) ack 1 win 64240");
    let (begun, mut copies, mut doubtful) = (talk.now, 0, 0);
    while talk.tcb.next_timer() != clock::Instant::NEVER {
        talk.now = talk.tcb.next_timer();
        let events = talk.tcb.on_timer(talk.now);
        doubtful += u32::from(events.contains(crate::Events::PATH_DOUBTFUL));
        while let Some(out) = talk.tcb.poll_segment(talk.now, 0) {
            assert!(out.retransmission);
            copies += 1;
        }
    }
    // One of them is the tail loss probe.
    assert_eq!((copies, doubtful), (16, 1), "R1 is told once");
    assert!(talk.now.since(begun).as_secs() >= 100, "R2 (RFC 9293 3.8.3)");
}

// --- TIME-WAIT

fn time_wait(name: &'static str, script: &str) {
    let mut talk = established(name, plain());
    talk.run(
        "shut
         > F. 1:1(0) ack 1 win 64240
         < F. 1:1(0) ack 2 win 65535 = READABLE PEER_CLOSED TIME_WAIT
         > . 2:2(0) ack 2 win 64239",
    )
    .run(script);
}

#[test]
fn a_reset_does_not_end_time_wait() {
    time_wait(
        "RFC 1337",
        "< R 2:2(0) win 0 = drop ResetInTimeWait
         < R. 2:2(0) ack 2 win 0 = drop ResetInTimeWait
         state = TimeWait",
    );
}

#[test]
fn fin_again_restarts_time_wait() {
    time_wait(
        "2 MSL from the last FIN",
        "+30000
         < F. 1:1(0) ack 2 win 65535 = drop TimeWaitDuplicate
         > . 2:2(0) ack 2 win 64239
         +30000
         state = TimeWait
         +30000 = CLOSED",
    );
}

#[test]
fn late_data_is_answered_and_discarded() {
    time_wait(
        "an old duplicate",
        "< . 1:101(100) ack 2 win 65535 = drop TimeWaitDuplicate
         > . 2:2(0) ack 2 win 64239
         < . 2:2(0) ack 2 win 65535 = drop TimeWaitDuplicate
         state = TimeWait",
    );
}

#[test]
fn a_new_syn_may_reuse_time_wait() {
    time_wait(
        "RFC 9293 3.6.1, RFC 6191",
        "< S 2:2(0) win 65535 <mss 1000> = drop SynInWindow
         ! . 2:2(0) ack 2 win 64239
         < S 3:3(0) win 65535 <mss 1000> = REUSABLE",
    );
    let mut talk = Talk::new("by timestamp", Config { timestamps: true, ..plain() });
    talk.run(
        "< S 0:0(0) win 65535 <mss 1000,TS 5 0>
         > S. 0:0(0) ack 1 win 64240 <mss 1460,TS 10000 5>
         < . 1:1(0) ack 1 win 65535 <TS 5 10000> = WRITABLE ACCEPTABLE
         shut
         > F. 1:1(0) ack 1 win 64240 <TS 10000 5>
         < F. 1:1(0) ack 2 win 65535 <TS 6 10000> = READABLE PEER_CLOSED TIME_WAIT
         > . 2:2(0) ack 2 win 64239 <TS 10000 6>
         < S 50:50(0) win 65535 <mss 1000,TS 6 0> = drop SynInWindow
         ! . 2:2(0) ack 2 win 64239 <TS 10000 6>
         < S -50:-50(0) win 65535 <mss 1000,TS 7 0> = REUSABLE",
    );
}
