use super::*;

/// A connection with ten segments of 1000 bytes in flight and a round trip of 10 ms.
fn flying(name: &'static str, config: Config) -> Talk {
    let mut talk = established(name, config);
    talk.run("tso 65535\nwrite 10000\n> P. 1:10001(10000) ack 1 win 64240\ntso 0\n+10");
    talk
}

/// A connection as `flying` returns, but without SACK.
fn flying_without_sack(name: &'static str) -> Talk {
    let mut talk = flying(name, Config { sack: false, ..plain() });
    talk.run("options = 0");
    talk
}

#[test]
fn three_duplicate_acks_trigger_a_fast_retransmit() {
    flying("RFC 6675, RFC 8985", plain()).run(
        "write 10000
         < . 1:1(0) ack 1 win 65535 <sack 1001:2001> =
         > . 10001:11001(1000) ack 1 win 64240         // limited transmit (RFC 3042)
         ca = 1
         < . 1:1(0) ack 1 win 65535 <sack 1001:3001> =
         > . 11001:12001(1000) ack 1 win 64240
         < . 1:1(0) ack 1 win 65535 <sack 1001:4001> =
         > . 1:1001(1000) ack 1 win 64240
         ca = 3
         ssthresh = 5
         lost = 1
         retrans = 1
         sacked = 3
         +10
         < . 1:1(0) ack 12001 win 65535 = acked 12000 WRITABLE
         > . 12001:13001(1000) ack 1 win 64240
         > . 13001:14001(1000) ack 1 win 64240
         > . 14001:15001(1000) ack 1 win 64240
         > . 15001:16001(1000) ack 1 win 64240
         > . 16001:17001(1000) ack 1 win 64240
         ca = 0
         cwnd = 5",
    );
}

#[test]
fn without_sack_newreno_repairs_one_hole_per_round_trip() {
    flying_without_sack("RFC 6582").run(
        "< . 1:1(0) ack 1 win 65535 =
         < . 1:1(0) ack 1 win 65535 =
         ca = 1
         < . 1:1(0) ack 1 win 65535 =
         > . 1:1001(1000) ack 1 win 64240
         ca = 3
         ssthresh = 5
         < . 1:1(0) ack 1 win 65535 =
         < . 1:1(0) ack 1 win 65535 =
         < . 1:1(0) ack 1 win 65535 =
         < . 1:1(0) ack 1 win 65535 =
         < . 1:1(0) ack 1 win 65535 =
         +10
         < . 1:1(0) ack 5001 win 65535 = acked 5000 WRITABLE     // partial: another hole
         > . 5001:6001(1000) ack 1 win 64240
         ca = 3
         +10
         < . 1:1(0) ack 10001 win 65535 = acked 5000 WRITABLE
         ca = 0
         cwnd = 5",
    );
}

#[test]
fn acks_with_data_or_another_window_are_not_duplicates() {
    flying_without_sack("RFC 5681 2").run(
        "< . 1:1(0) ack 1 win 65534 =
         < . 1:1(0) ack 1 win 65533 =
         < . 1:1(0) ack 1 win 65532 =
         < P. 1:11(10) ack 1 win 65532 = text 0/10@0 order 10 READABLE
         > . 10001:10001(0) ack 11 win 64230
         < P. 11:21(10) ack 1 win 65532 = text 0/10@0 order 10 READABLE
         > . 10001:10001(0) ack 21 win 64220
         < P. 21:31(10) ack 1 win 65532 = text 0/10@0 order 10 READABLE
         > . 10001:10001(0) ack 31 win 64210
         ca = 0
         retrans = 0",
    );
}

#[test]
fn two_reordered_segments_wait_for_the_reordering_window() {
    flying("RACK's reordering window", plain()).run(
        "< . 1:1(0) ack 1 win 65535 <sack 1001:3001> =
         ca = 1
         timer = 2                      // a quarter of the least round trip
         +2.5
         > . 1:1001(1000) ack 1 win 64240
         ca = 3",
    );
    flying("it was only late", plain()).run(
        "< . 1:1(0) ack 1 win 65535 <sack 1001:3001> =
         +1
         < . 1:1(0) ack 3001 win 65535 = acked 3000 WRITABLE
         ca = 0
         retrans = 0",
    );
}

#[test]
fn a_lost_retransmission_is_detected() {
    flying("RACK", plain()).run(
        "< . 1:1(0) ack 1 win 65535 <sack 1001:4001> =
         > . 1:1001(1000) ack 1 win 64240
         write 3000
         +10
         < . 1:1(0) ack 1 win 65535 <sack 1001:10001> =
         > . 10001:11001(1000) ack 1 win 64240
         > . 11001:12001(1000) ack 1 win 64240
         > P. 12001:13001(1000) ack 1 win 64240
         +10
         < . 1:1(0) ack 1 win 65535 <sack 1001:13001> =
         > . 1:1001(1000) ack 1 win 64240",
    );
}

#[test]
fn a_timestamp_of_the_original_undoes_the_reduction() {
    let mut talk = Talk::new("Eifel (RFC 4015)", Config { timestamps: true, ..plain() });
    talk.run(
        "< S 0:0(0) win 65535 <mss 1012,sackOK,TS 5 0>
         > S. 0:0(0) ack 1 win 64240 <mss 1460,sackOK,TS 10000 5>
         +10
         < . 1:1(0) ack 1 win 65535 <TS 15 10000> = WRITABLE ACCEPTABLE
         tso 65535
         write 10000
         > P. 1:10001(10000) ack 1 win 64240 <TS 10010 15>
         +10
         < . 1:1(0) ack 1 win 65535 <TS 25 10010,sack 1001:4001> =
         > . 1:1001(1000) ack 1 win 64240 <TS 10020 25>
         ssthresh = 5
         +1
         < . 1:1(0) ack 4001 win 65535 <TS 26 10010> = acked 4000 WRITABLE
         ca = 0
         cwnd = 12
         ssthresh = 2147483647",
    );
}

#[test]
fn a_dsack_undoes_the_reduction() {
    flying("RFC 3708", plain()).run(
        "< . 1:1(0) ack 1 win 65535 <sack 1001:4001> =
         > . 1:1001(1000) ack 1 win 64240
         +1
         < . 1:1(0) ack 4001 win 65535 = acked 4000 WRITABLE
         ca = 3
         +10
         < . 1:1(0) ack 4001 win 65535 <sack 1:1001> =
         dsack_dups = 1
         ca = 0
         cwnd = 10",
    );
}

#[test]
fn the_tail_is_probed_after_two_round_trips() {
    flying("TLP (RFC 8985 7)", plain()).run(
        "timer = 12                                      // 2 SRTT + 2 ms, 10 of which have passed
         +12
         > P. 9001:10001(1000) ack 1 win 64240
         +10
         < . 1:1(0) ack 1 win 65535 <sack 9001:10001> =
         > . 1:1001(1000) ack 1 win 64240
         ca = 3",
    );
}

#[test]
fn a_probe_that_repaired_a_loss_halves_the_window() {
    flying("RFC 8985 7.4", plain()).run(
        "< . 1:1(0) ack 9001 win 65535 = acked 9000 WRITABLE
         +210
         > P. 9001:10001(1000) ack 1 win 64240
         +10
         < . 1:1(0) ack 10001 win 65535 = acked 1000 WRITABLE
         write 1000
         > P. 10001:11001(1000) ack 1 win 64240
         +10
         < . 1:1(0) ack 11001 win 65535 = acked 1000 WRITABLE
         ssthresh = 2
         ca = 0",
    );
    flying("both copies came", plain()).run(
        "< . 1:1(0) ack 9001 win 65535 = acked 9000 WRITABLE
         +210
         > P. 9001:10001(1000) ack 1 win 64240
         +10
         < . 1:1(0) ack 10001 win 65535 = acked 1000 WRITABLE
         < . 1:1(0) ack 10001 win 65535 <sack 9001:10001> =
         ssthresh = 2147483647",
    );
}

#[test]
fn the_timeout_doubles_and_everything_is_retransmitted() {
    flying_without_sack("RFC 6298 5").run(
        "rto = 210
         +200
         > . 1:1001(1000) ack 1 win 64240
         ca = 4
         cwnd = 1
         ssthresh = 5
         backoff = 1
         +420
         > . 1:1001(1000) ack 1 win 64240
         ssthresh = 5
         +840 = PATH_DOUBTFUL
         > . 1:1001(1000) ack 1 win 64240
         backoff = 3
         < . 1:1(0) ack 1001 win 65535 = acked 1000 WRITABLE
         > . 1001:2001(1000) ack 1 win 64240
         > . 2001:3001(1000) ack 1 win 64240
         backoff = 0
         +10
         < . 1:1(0) ack 2001 win 65535 = acked 1000 WRITABLE
         > . 3001:4001(1000) ack 1 win 64240
         > . 4001:5001(1000) ack 1 win 64240",
    );
}

#[test]
fn a_spurious_timeout_is_undone() {
    let mut talk = flying("F-RTO (RFC 5682 3.1)", Config { rack: false, ..plain() });
    talk.run(
        "write 5000
         +200
         > . 1:1001(1000) ack 1 win 64240
         ca = 4
         < . 1:1(0) ack 1001 win 65535 = acked 1000 WRITABLE
         > . 10001:11001(1000) ack 1 win 64240       // new text, not what may not be lost
         > . 11001:12001(1000) ack 1 win 64240
         < . 1:1(0) ack 2001 win 65535 = acked 1000 WRITABLE
         > . 12001:13001(1000) ack 1 win 64240
         ca = 0
         ssthresh = 2147483647",
    );
}

#[test]
fn a_real_loss_ends_the_detection_of_a_spurious_timeout() {
    flying("F-RTO, conventional", Config { rack: false, ..plain() }).run(
        "write 5000
         +200
         > . 1:1001(1000) ack 1 win 64240
         < . 1:1(0) ack 1001 win 65535 = acked 1000 WRITABLE
         > . 10001:11001(1000) ack 1 win 64240
         > . 11001:12001(1000) ack 1 win 64240
         < . 1:1(0) ack 1001 win 65535 <sack 10001:11001> =
         > . 1001:2001(1000) ack 1 win 64240
         ca = 4",
    );
}

#[test]
fn reneging_is_handled() {
    flying("RFC 2018 8", Config { rack: false, ..plain() }).run(
        "< . 1:1(0) ack 1 win 65535 <sack 1001:2001> =
         sacked = 1
         +10
         < . 1:1(0) ack 1001 win 65535 = acked 1000 WRITABLE       // and 1001:2001 is thrown away
         +211.25
         > . 1001:2001(1000) ack 1 win 64240
         sacked = 0
         < . 1:1(0) ack 2001 win 65535 = acked 1000 WRITABLE
         > . 2001:3001(1000) ack 1 win 64240
         > . 3001:4001(1000) ack 1 win 64240",
    );
}

#[test]
fn sack_of_unsent_data_and_empty_blocks_is_ignored() {
    flying("bad blocks (smoltcp 0.13)", plain()).run(
        "< . 1:1(0) ack 1 win 65535 <sack 9001:10002> =
         < . 1:1(0) ack 1 win 65535 <sack 5001:5001> =
         < . 1:1(0) ack 1 win 65535 <sack 5001:4001> =
         < . 1:1(0) ack 1 win 65535 <sack -5000:-4000> =
         < . 1:1(0) ack 1 win 65535 <sack 1500:1999> =
         < . 1:1(0) ack 1 win 65535 <sack 2147480000:2147490000> =
         sacked = 0
         ca = 0",
    );
}

#[test]
fn smaller_segments_pass_a_black_hole() {
    let mut talk = flying_without_sack("RFC 8899 4.3");
    talk.run(
        "+200
         > . 1:1001(1000) ack 1 win 64240
         +420
         > . 1:1001(1000) ack 1 win 64240
         +840 = PATH_DOUBTFUL
         > . 1:1001(1000) ack 1 win 64240
         +1680
         > . 1:1001(1000) ack 1 win 64240
         +3360
         > . 1:1001(1000) ack 1 win 64240               // 1024 would do
         +6720
         > . 1:513(512) ack 1 win 64240
         mss = 512
         +10
         < . 1:1(0) ack 513 win 65535 = acked 512 WRITABLE
         > . 513:1001(488) ack 1 win 64240
         > . 1001:1513(512) ack 1 win 64240",
    );
}

#[test]
fn a_segment_that_could_not_be_sent_is_sent_again() {
    let mut talk = established("no buffer", plain());
    talk.tcb.queued(1000, true);
    let out = talk.tcb.poll_segment(talk.now, 0).expect("text");
    talk.tcb.on_not_sent(&out, talk.now);
    talk.tcb.check_invariants();
    talk.run("> P. 1:1001(1000) ack 1 win 64240".replace("> ", "cwnd = 10\n> ").as_str());
}

#[test]
fn no_round_trip_is_measured_from_retransmitted_segments() {
    flying_without_sack("Karn (RFC 6298 3)").run(
        "srtt = 10
         +200
         > . 1:1001(1000) ack 1 win 64240
         +100
         < . 1:1(0) ack 10001 win 65535 = acked 10000 WRITABLE
         srtt = 10
         rto = 210",
    );
}

#[test]
fn a_round_trip_is_measured_from_segments_sent_once() {
    flying_without_sack("RFC 6298 2.3").run(
        "+30
         < . 1:1(0) ack 10001 win 65535 = acked 10000 WRITABLE
         srtt = 13",
    );
}

/// ACKs arrive in a batch: those before the one that indicates the loss have emptied the path.
#[test]
fn a_burst_of_acks_reduces_the_window_that_was_used() {
    talk(
        "RFC 5681 3.1",
        "tso 65535
         write 60000
         > . 1:10001(10000) ack 1 win 64240
         <+ . 1:1(0) ack 6001 win 65535 = acked 6000 WRITABLE
         < . 1:1(0) ack 6001 win 65535 <sack 7001:10001> =
         > . 6001:7001(1000) ack 1 win 64240
         > . 10001:12001(2000) ack 1 win 64240
         ssthresh = 5",
    );
}
