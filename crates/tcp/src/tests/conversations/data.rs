use super::*;

// --- Data arrives (RFC 9293 3.10.7.4, seventh)

#[test]
fn data_is_acknowledged_at_once_at_first_then_every_second_segment() {
    talk(
        "quick ACKs, then delayed",
        "< . 1:1001(1000) ack 1 win 65535 = text 0/1000@0 order 1000 READABLE
         > . 1:1(0) ack 1001 win 63240      // quick: the first text
         quickack off
         < . 1001:2001(1000) ack 1 win 65535 = text 0/1000@0 order 1000 READABLE
         < . 2001:3001(1000) ack 1 win 65535 = text 0/1000@0 order 1000 READABLE
         > . 1:1(0) ack 3001 win 61240
         < . 3001:4001(1000) ack 1 win 65535 = text 0/1000@0 order 1000 READABLE
         +40
         > . 1:1(0) ack 4001 win 60240",
    );
}

#[test]
fn quick_acks_are_limited() {
    let mut talk = established("quick ACKs are counted", plain());
    for n in 0..16 {
        let (from, to) = (n * 100 + 1, n * 100 + 101);
        talk.run(&format!(
            "< . {from}:{to}(100) ack 1 win 65535 = text 0/100@0 order 100 READABLE
             > . 1:1(0) ack {to} win {}",
            64_240 - n * 100 - 100
        ));
    }
    talk.run(
        "< . 1601:1701(100) ack 1 win 65535 = text 0/100@0 order 100 READABLE
         timer = 40
         +40
         > . 1:1(0) ack 1701 win 62540",
    );
}

#[test]
fn data_is_sent_with_the_ack() {
    talk(
        "piggyback",
        "quickack off
         < P. 1:101(100) ack 1 win 65535 = text 0/100@0 order 100 READABLE
         write 50
         > P. 1:51(50) ack 101 win 64140
         < P. 101:201(100) ack 51 win 65535 = text 0/100@0 order 100 acked 50 READABLE WRITABLE
         write 60
         > P. 51:111(60) ack 201 win 64040
         timer = 208",
    );
}

#[test]
fn duplicate_data_is_reported() {
    talk(
        "D-SACK (RFC 2883)",
        "< . 1:1001(1000) ack 1 win 65535 = text 0/1000@0 order 1000 READABLE
         > . 1:1(0) ack 1001 win 63240
         < . 1:1001(1000) ack 1 win 65535 = drop TextDuplicate
         > . 1:1(0) ack 1001 win 63240 <sack 1:1001>
         < . 501:1501(1000) ack 1 win 65535 = text 500/500@0 order 500 READABLE
         > . 1:1(0) ack 1501 win 62740 <sack 501:1001>",
    );
}

#[test]
fn out_of_order_data_is_stored_and_reported_newest_first() {
    talk(
        "RFC 2018 4",
        "< . 1001:1501(500) ack 1 win 65535 = text 0/500@1000
         > . 1:1(0) ack 1 win 64240 <sack 1001:1501>
         < . 2001:2501(500) ack 1 win 65535 = text 0/500@2000
         > . 1:1(0) ack 1 win 64240 <sack 2001:2501 1001:1501>
         < . 3001:3501(500) ack 1 win 65535 = text 0/500@3000
         > . 1:1(0) ack 1 win 64240 <sack 3001:3501 2001:2501 1001:1501>
         < . 1501:2001(500) ack 1 win 65535 = text 0/500@1500
         > . 1:1(0) ack 1 win 64240 <sack 1001:2501 3001:3501>
         < . 1201:1401(200) ack 1 win 65535 = drop TextDuplicate
         > . 1:1(0) ack 1 win 64240 <sack 1201:1401 1001:2501 3001:3501>
         < . 1:1001(1000) ack 1 win 65535 = text 0/1000@0 order 2500 READABLE
         > . 1:1(0) ack 2501 win 61740 <sack 3001:3501>
         < . 2501:3001(500) ack 1 win 65535 = text 0/500@0 order 1000 READABLE
         > . 1:1(0) ack 3501 win 60740",
    );
}

#[test]
fn five_gaps_are_kept_and_four_reported() {
    talk(
        "four blocks",
        "< . 101:102(1) ack 1 win 65535 = text 0/1@100
         > . 1:1(0) ack 1 win 64240 <sack 101:102>
         < . 201:202(1) ack 1 win 65535 = text 0/1@200
         > . 1:1(0) ack 1 win 64240 <sack 201:202 101:102>
         < . 301:302(1) ack 1 win 65535 = text 0/1@300
         > . 1:1(0) ack 1 win 64240 <sack 301:302 201:202 101:102>
         < . 401:402(1) ack 1 win 65535 = text 0/1@400
         > . 1:1(0) ack 1 win 64240 <sack 401:402 301:302 201:202 101:102>
         < . 501:502(1) ack 1 win 65535 = text 0/1@500
         > . 1:1(0) ack 1 win 64240 <sack 501:502 401:402 301:302 201:202>",
    );
}

#[test]
fn gaps_have_a_limit() {
    let config = Config { reassembly_ranges: 2, ..plain() };
    established("SegmentSmack", config).run(
        "< . 101:102(1) ack 1 win 65535 = text 0/1@100
         > . 1:1(0) ack 1 win 64240 <sack 101:102>
         < . 201:202(1) ack 1 win 65535 = text 0/1@200
         > . 1:1(0) ack 1 win 64240 <sack 201:202 101:102>
         < . 301:302(1) ack 1 win 65535 = drop ReassemblyFull
         > . 1:1(0) ack 1 win 64240 <sack 201:202 101:102>
         < . 102:103(1) ack 1 win 65535 = text 0/1@101
         > . 1:1(0) ack 1 win 64240 <sack 101:103 201:202>
         < . 1:101(100) ack 1 win 65535 = text 0/100@0 order 102 READABLE
         > . 1:1(0) ack 103 win 64138 <sack 201:202>",
    );
}

#[test]
fn a_host_without_memory_may_renege() {
    talk(
        "renege",
        "< . 101:201(100) ack 1 win 65535 = text 0/100@100
         > . 1:1(0) ack 1 win 64240 <sack 101:201>
         renege = 101:201
         < . 1:101(100) ack 1 win 65535 = text 0/100@0 order 100 READABLE
         > . 1:1(0) ack 101 win 64140",
    );
}

#[test]
fn data_beyond_the_window_is_trimmed() {
    let config = Config { recv_space: 4000, recv_space_max: 4000, ..plain() };
    Talk::new("beyond the window (smoltcp #489)", config).run(
        "< S 0:0(0) win 65535 <mss 1000>
         > S. 0:0(0) ack 1 win 2920 <mss 1460>
         < . 1:1(0) ack 1 win 65535 = WRITABLE ACCEPTABLE
         < . 1:5001(5000) ack 1 win 65535 = text 0/2920@0 order 2920 READABLE
         > . 1:1(0) ack 2921 win 0             // 1080 are silly
         < . 2921:2922(1) ack 1 win 65535 = drop TextBeyondWindow
         > . 1:1(0) ack 2921 win 0
         read 300                              // so are 1380
         read 200
         > . 1:1(0) ack 2921 win 1580
         read 200
         < . 4501:4502(1) ack 1 win 65535 = drop TextBeyondWindow
         > . 1:1(0) ack 2921 win 1580
         < . 4502:4503(1) ack 1 win 65535 = drop OutOfWindow
         > . 1:1(0) ack 2921 win 1580
         read 2220
         > . 1:1(0) ack 2921 win 4000",
    );
}

#[test]
fn a_closed_window_lets_acks_urgent_and_resets_through() {
    let config = Config { recv_space: 1460, recv_space_max: 1460, ..plain() };
    Talk::new("MUST-66", config).run(
        "< S 0:0(0) win 65535 <mss 1460>
         > S. 0:0(0) ack 1 win 1460 <mss 1460>
         < . 1:1(0) ack 1 win 65535 = WRITABLE ACCEPTABLE
         < . 1:1461(1460) ack 1 win 65535 = text 0/1460@0 order 1460 READABLE
         > . 1:1(0) ack 1461 win 0
         write 10
         > P. 1:11(10) ack 1461 win 0
         < .U 1461:1462(1) ack 11 win 65535 urg 1 = acked 10 WRITABLE URGENT drop TextBeyondWindow
         > . 11:11(0) ack 1461 win 0
         < R 1461:1461(0) win 0 = RESET CLOSED",
    );
}

#[test]
fn the_window_is_never_taken_back() {
    talk(
        "a smaller buffer",
        "< . 1:1001(1000) ack 1 win 65535 = text 0/1000@0 order 1000 READABLE
         > . 1:1(0) ack 1001 win 63240
         space 2000
         < . 1001:2001(1000) ack 1 win 65535 = text 0/1000@0 order 1000 READABLE
         > . 1:1(0) ack 2001 win 62240",
    );
}

#[test]
fn urgent_pointers_of_every_value() {
    // URGENT/11: no underflow, no loop; urgent data stays in line.
    for urgent in [0u32, 1, 100, 101, 65_535] {
        let ahead = if urgent > 0 { " URGENT" } else { "" };
        let mark = if urgent > 0 { format!("Some({urgent})") } else { "None".to_owned() };
        established("urgent", plain()).run(&format!(
            "< P.U 1:101(100) ack 1 win 65535 urg {urgent} = text 0/100@0 order 100 READABLE{ahead}
             > . 1:1(0) ack 101 win 64140
             mark = {mark}"
        ));
    }
    talk(
        "behind us",
        "< .U -5:-5(0) ack 1 win 65535 urg 3 = drop OutOfWindow
         > . 1:1(0) ack 1 win 64240
         mark = None",
    );
}

#[test]
fn urgent_data_is_marked_until_it_is_acknowledged() {
    talk(
        "MSG_OOB",
        "oob 3
         > P.U 1:4(3) ack 1 win 64240 urg 3
         write 5
         < . 1:1(0) ack 4 win 65535 = acked 3 WRITABLE
         > P. 4:9(5) ack 1 win 64240",
    );
}

// --- Sequence and acknowledgment checks

#[test]
fn segments_out_of_window_are_answered_at_most_twice_a_second() {
    talk(
        "first check",
        "< . 70000:70000(0) ack 1 win 65535 = drop OutOfWindow
         > . 1:1(0) ack 1 win 64240
         < . 70000:70000(0) ack 1 win 65535 = drop OutOfWindow
         +500
         < . -10:-10(0) ack 1 win 65535 = drop OutOfWindow
         > . 1:1(0) ack 1 win 64240",
    );
}

#[test]
fn an_ack_of_unsent_data_is_challenged() {
    talk(
        "optimistic ACK",
        "write 100
         > P. 1:101(100) ack 1 win 64240
         < . 1:1(0) ack 102 win 65535 = drop AckUnsent
         ! . 101:101(0) ack 1 win 64240
         < . 1:101(100) ack 102 win 65535 = drop AckUnsent
         ! . 101:101(0) ack 1 win 64240",
    );
}

#[test]
fn an_ack_more_than_a_window_old_is_challenged() {
    talk(
        "RFC 5961 5.2",
        "< . 1:101(100) ack -65534 win 65535 = text 0/100@0 order 100 READABLE
         > . 1:1(0) ack 101 win 64140
         < . 101:201(100) ack -65535 win 65535 = drop AckTooOld
         ! . 1:1(0) ack 101 win 64140",
    );
}

#[test]
fn challenges_are_limited() {
    let mut talk = established("limit", plain());
    let mut answered = 0;
    for _ in 0..1000 {
        let seg =
            crate::Segment { flags: wire::tcp::Flags::RST, seq: talk.tcb.rcv_nxt().plus(5), ..Default::default() };
        answered += u32::from(talk.tcb.on_segment(&seg, talk.now).answer.is_some());
    }
    assert!((5..=15).contains(&answered), "{answered}");
}

#[test]
fn a_reset_must_be_exact() {
    talk(
        "RFC 5961 3.2",
        "< R 2:2(0) win 0 = drop ResetInWindow
         ! . 1:1(0) ack 1 win 64240
         < R 0:0(0) win 0 = drop ResetOutOfWindow
         < R 64242:64242(0) win 0 = drop ResetOutOfWindow
         state = Established
         < R. 1:1(0) ack 1 win 0 = RESET CLOSED
         state = Closed
         timer = never",
    );
}

#[test]
fn a_syn_with_any_sequence_number_is_challenged() {
    talk(
        "RFC 5961 4.2",
        "< S 1:1(0) win 65535 = drop SynInWindow
         ! . 1:1(0) ack 1 win 64240
         < S. 500:500(0) ack 1 win 65535 = drop SynInWindow
         ! . 1:1(0) ack 1 win 64240
         < S 0:0(0) win 65535 <mss 1000> = drop SynInWindow
         ! . 1:1(0) ack 1 win 64240
         state = Established",
    );
}

#[test]
fn segments_without_ack_are_dropped() {
    talk(
        "fifth",
        "< P 1:101(100) win 65535 = drop NoAck
         < F 1:1(0) win 65535 = drop NoAck
         state = Established",
    );
}

// --- Timestamps

fn stamped(name: &'static str, script: &str) {
    let mut talk = Talk::new(name, Config { timestamps: true, ..plain() });
    talk.run(
        "< S 0:0(0) win 65535 <mss 1000,TS 4294967290 0>
         > S. 0:0(0) ack 1 win 64240 <mss 1460,TS 10000 4294967290>
         +10
         < . 1:1(0) ack 1 win 65535 <TS 4 10000> = WRITABLE ACCEPTABLE",
    )
    .run(script);
}

#[test]
fn old_timestamps_are_dropped_across_the_wrap() {
    stamped(
        "PAWS",
        "< . 1:101(100) ack 1 win 65535 <TS 3 10000> = drop Paws
         > . 1:1(0) ack 1 win 64240 <TS 10010 4>
         < . 1:101(100) ack 1 win 65535 <TS 4294967291 10000> = drop Paws
         > . 1:1(0) ack 1 win 64240 <TS 10010 4>
         < . 1:101(100) ack 1 win 65535 <TS 5 10000> = text 0/100@0 order 100 READABLE
         > . 1:1(0) ack 101 win 64140 <TS 10010 5>
         < R. 101:101(0) ack 1 win 0 <TS 1 0> = RESET CLOSED",
    );
}

#[test]
fn a_timestamp_of_out_of_order_data_is_not_echoed() {
    stamped(
        "RFC 7323 4.3; CVE-2005-0356",
        "< . 101:201(100) ack 1 win 65535 <TS 900 10000> = text 0/100@100
         > . 1:1(0) ack 1 win 64240 <TS 10010 4>
         < . 1:101(100) ack 1 win 65535 <TS 8 10000> = text 0/100@0 order 200 READABLE
         > . 1:1(0) ack 201 win 64040 <TS 10010 8>
         < . 90000:90000(0) ack 1 win 65535 <TS 1000 10000> = drop OutOfWindow
         > . 1:1(0) ack 201 win 64040 <TS 10010 8>",
    );
}

#[test]
fn after_24_days_an_old_timestamp_is_accepted() {
    stamped(
        "RFC 7323 5.5",
        "+2160000000
         < . 1:101(100) ack 1 win 65535 <TS 4294960000 10000> = text 0/100@0 order 100 READABLE
         > . 1:1(0) ack 101 win 64140 <TS 2160010010 4294960000>",
    );
}

#[test]
fn a_segment_without_a_timestamp_is_accepted() {
    stamped(
        "differences.md",
        "< . 1:101(100) ack 1 win 65535 = text 0/100@0 order 100 READABLE
         > . 1:1(0) ack 101 win 64140 <TS 10010 4>",
    );
}

// --- Data is sent

#[test]
fn the_initial_window_is_ten_segments() {
    talk(
        "IW10, then two for each acknowledged",
        "tso 65535
         write 60000
         > . 1:10001(10000) ack 1 win 64240
         cwnd = 10
         +10
         < . 1:1(0) ack 2001 win 65535 = acked 2000 WRITABLE
         > . 10001:14001(4000) ack 1 win 64240
         cwnd = 12
         < . 1:1(0) ack 2002 win 65535 = acked 1 WRITABLE     // ACK splitting (Savage)
         cwnd = 12
         flight = 11999",
    );
}

/// The causes that delay data are distinguished: the path, the peer's window, and the send buffer.
#[test]
fn send_buffer_limited_time_excludes_time_with_unsent_data() {
    talk(
        "tcpi_sndbuf_limited",
        "tso 65535
         fill 2000                              // all of it under way, and the window would take more
         > P. 1:2001(2000) ack 1 win 64240
         +20
         sndbuf_limited = 20
         fill 30000                             // now it is the congestion window
         > . 2001:10001(8000) ack 1 win 64240
         +10
         sndbuf_limited = 20
         busy = 30
         < . 1:1(0) ack 10001 win 0 = acked 10000 WRITABLE
         +10
         rwnd_limited = 10
         sndbuf_limited = 20
         busy = 40",
    );
}

#[test]
fn an_ack_of_many_opens_the_window_by_two() {
    talk(
        "RFC 3465, L = 2",
        "tso 65535
         write 60000
         > . 1:10001(10000) ack 1 win 64240
         < . 1:1(0) ack 10001 win 65535 = acked 10000 WRITABLE
         > . 10001:22001(12000) ack 1 win 64240
         cwnd = 12",
    );
}

#[test]
fn nagle_holds_a_second_small_segment() {
    talk(
        "Nagle",
        "write 100
         > P. 1:101(100) ack 1 win 64240
         write 100
         write 100
         < . 1:1(0) ack 101 win 65535 = acked 100 WRITABLE
         > P. 101:301(200) ack 1 win 64240
         write 1000                             // a full segment does not wait
         > P. 301:1301(1000) ack 1 win 64240
         nodelay
         write 1
         > P. 1301:1302(1) ack 1 win 64240
         write 1
         > P. 1302:1303(1) ack 1 win 64240",
    );
}

#[test]
fn a_cork_holds_partial_segments() {
    talk(
        "TCP_CORK",
        "cork
         nodelay
         write 1500
         > . 1:1001(1000) ack 1 win 64240
         cork off
         > P. 1001:1501(500) ack 1 win 64240",
    );
}

#[test]
fn the_peers_window_is_obeyed() {
    talk(
        "window, silly and closed",
        "write 3000
         > . 1:1001(1000) ack 1 win 64240
         > . 1001:2001(1000) ack 1 win 64240
         > P. 2001:3001(1000) ack 1 win 64240
         +10
         < . 1:1(0) ack 3001 win 500 = acked 3000 WRITABLE
         write 2000                               // 500 are silly
         timer = 210
         +210
         > . 3001:3501(500) ack 1 win 64240       // the override (RFC 9293 3.8.6.2.1 (4))
         < . 1:1(0) ack 3501 win 0 = acked 500 WRITABLE
         timer = 208
         +208.75
         > . 3500:3500(0) ack 1 win 64240         // the probe
         +417.5
         > . 3500:3500(0) ack 1 win 64240
         < . 1:1(0) ack 3501 win 0 =
         +835
         > . 3500:3500(0) ack 1 win 64240
         < . 1:1(0) ack 3501 win 1000 =
         > . 3501:4501(1000) ack 1 win 64240",
    );
}

#[test]
fn a_closed_window_is_probed_while_the_peer_answers() {
    let mut talk = established("MUST-37", plain());
    talk.run(
        "< . 1:1(0) ack 1 win 0 =
         write 10",
    );
    for _ in 0..40 {
        let wait = talk.tcb.next_timer().since(talk.now);
        talk.run(&format!("+{}\n> . 0:0(0) ack 1 win 64240\n< . 1:1(0) ack 1 win 0 =", wait.as_millis()));
        assert!(wait.as_secs() <= 120);
    }
    talk.run("state = Established");
}

#[test]
fn a_closed_window_without_answers_times_out() {
    let mut talk = established("dead behind a closed window", plain());
    talk.run("< . 1:1(0) ack 1 win 0 =\nwrite 10");
    for _ in 0..15 {
        let wait = talk.tcb.next_timer().since(talk.now);
        talk.run(&format!("+{}\n> . 0:0(0) ack 1 win 64240", wait.as_millis()));
    }
    talk.run("+120000 = TIMED_OUT CLOSED\ntimer = never");
}

#[test]
fn a_shrinking_window_is_handled() {
    talk(
        "a dastardly peer (RFC 9293 3.8.6)",
        "write 3000
         > . 1:1001(1000) ack 1 win 64240
         > . 1001:2001(1000) ack 1 win 64240
         > P. 2001:3001(1000) ack 1 win 64240
         +10
         < . 1:1(0) ack 1001 win 500 = acked 1000 WRITABLE
         write 100
         < . 1:1(0) ack 2001 win 0 = acked 1000 WRITABLE
         +210                                      // the tail, probed in spite of it
         > P. 2001:3001(1000) ack 1 win 64240
         < . 1:1(0) ack 3001 win 5000 = acked 1000 WRITABLE
         > P. 3001:3101(100) ack 1 win 64240",
    );
}

#[test]
fn old_segments_do_not_update_the_window() {
    talk(
        "SND.WL1, SND.WL2",
        "write 100
         > P. 1:101(100) ack 1 win 64240
         < . 1:11(10) ack 101 win 3000 = text 0/10@0 order 10 acked 100 READABLE WRITABLE
         > . 101:101(0) ack 11 win 64230
         < . 1:1(0) ack 1 win 60000 = drop OutOfWindow
         > . 101:101(0) ack 11 win 64230
         < . 11:11(0) ack 50 win 60000 =       // an ACK from before: its window is too
         tso 65535
         write 9000
         > . 101:3101(3000) ack 11 win 64230",
    );
}

#[test]
fn ecn_marks_are_echoed_until_the_window_is_reduced() {
    let mut talk = Talk::new("receiver", plain());
    talk.run(
        "< SEW 0:0(0) win 65535 <mss 1000>
         > S.E 0:0(0) ack 1 win 64240 <mss 1460>
         < . 1:1(0) ack 1 win 65535 = WRITABLE ACCEPTABLE
         < . 1:1001(1000) ack 1 win 65535 ce = text 0/1000@0 order 1000 READABLE
         > .E 1:1(0) ack 1001 win 63240
         < . 1001:2001(1000) ack 1 win 65535 = text 0/1000@0 order 1000 READABLE
         > .E 1:1(0) ack 2001 win 62240
         < .W 2001:3001(1000) ack 1 win 65535 = text 0/1000@0 order 1000 READABLE
         > . 1:1(0) ack 3001 win 61240",
    );
}

#[test]
fn an_echo_halves_the_window_once_a_round_trip() {
    let mut talk = Talk::new("sender", plain());
    talk.run(
        "< SEW 0:0(0) win 65535 <mss 1000>
         > S.E 0:0(0) ack 1 win 64240 <mss 1460>
         +10
         < . 1:1(0) ack 1 win 65535 = WRITABLE ACCEPTABLE
         tso 65535
         write 30000
         > . 1:10001(10000) ack 1 win 64240 ect0
         < .E 1:1(0) ack 2001 win 65535 = acked 2000 WRITABLE
         ca = 2
         ssthresh = 5
         < .E 1:1(0) ack 4001 win 65535 = acked 2000 WRITABLE
         > .W 10001:11001(1000) ack 1 win 64240 ect0
         ssthresh = 5",
    );
}

#[test]
fn pacing_spreads_a_window() {
    talk(
        "pacing at 100 kB/s",
        "pace 100000
         write 4000
         > . 1:1001(1000) ack 1 win 64240
         +5                                       // half a burst was saved up
         > . 1001:2001(1000) ack 1 win 64240
         +10
         > . 2001:3001(1000) ack 1 win 64240
         +10
         > P. 3001:4001(1000) ack 1 win 64240",
    );
}

#[test]
fn packet_too_big_reduces_segments_and_retransmits_at_once() {
    let config = Config { mss: 1460, ..plain() };
    established("RFC 1191", config).run(
        "write 2000
         > . 1:1001(1000) ack 1 win 64240
         > P. 1001:2001(1000) ack 1 win 64240
         icmp 900 2001 =                        // not under way (RFC 5927 7)
         mss = 1000
         icmp 1200 1 =                          // more than what is used fits
         mss = 1000
         icmp quench 1 =                        // RFC 6633
         icmp refused 1 = SOFT_ERROR            // RFC 5927 5.2
         icmp no-neighbor 1 = SOFT_ERROR        // the neighbor may come back before R2
         icmp 600 1 =                           // all that did not fit, not its first segment alone
         > . 1:601(600) ack 1 win 64240
         > . 601:1001(400) ack 1 win 64240
         > . 1001:1601(600) ack 1 win 64240
         > P. 1601:2001(400) ack 1 win 64240
         mss = 600
         icmp 68 1 =                            // CVE-2004-1060: the floor
         > . 1:513(512) ack 1 win 64240
         > . 513:601(88) ack 1 win 64240
         > . 1001:1513(512) ack 1 win 64240
         > . 1513:1601(88) ack 1 win 64240
         mss = 512",
    );
}

#[test]
fn keepalive_probes_and_times_out() {
    talk(
        "keepalive",
        "keepalive 10 5 2
         +10000
         > . 0:0(0) ack 1 win 64240
         < . 1:1(0) ack 1 win 65535 =
         +10000
         > . 0:0(0) ack 1 win 64240
         +5000
         > . 0:0(0) ack 1 win 64240
         +5000 = TIMED_OUT CLOSED
         state = Closed",
    );
}

#[test]
fn keepalives_of_the_peer_are_answered() {
    talk(
        "the peer's keepalive",
        "< . 0:0(0) ack 1 win 65535 = drop OutOfWindow
         > . 1:1(0) ack 1 win 64240
         +1000
         < . 0:1(1) ack 1 win 65535 = drop TextDuplicate   // with a byte, as old systems do
         > . 1:1(0) ack 1 win 64240 <sack 0:1>",
    );
}

#[test]
fn the_user_timeout_ends_the_connection_on_time() {
    talk(
        "TCP_USER_TIMEOUT",
        "user_timeout 1000
         write 10
         > P. 1:11(10) ack 1 win 64240
         +210
         > P. 1:11(10) ack 1 win 64240
         +210
         > P. 1:11(10) ack 1 win 64240
         +420
         > P. 1:11(10) ack 1 win 64240
         +160 = TIMED_OUT CLOSED",
    );
}

#[test]
fn after_idle_time_the_window_restarts() {
    talk(
        "RFC 5681 4.1",
        "tso 65535
         write 10000
         > P. 1:10001(10000) ack 1 win 64240
         < . 1:1(0) ack 5001 win 65535 = acked 5000 WRITABLE
         < . 1:1(0) ack 10001 win 65535 = acked 5000 WRITABLE
         cwnd = 14
         +60000
         write 20000
         > . 10001:20001(10000) ack 1 win 64240
         cwnd = 10",
    );
}

#[test]
fn the_buffer_grows_with_the_data_read_per_round_trip() {
    let config = Config { recv_space: 8000, recv_space_max: 1 << 20, window_scaling: true, ..plain() };
    let mut talk = Talk::new("auto-tuning", config);
    talk.run(
        "< S 0:0(0) win 65535 <mss 1000,wscale 0>
         > S. 0:0(0) ack 1 win 7300 <mss 1460,wscale 5>
         < . 1:1(0) ack 1 win 65535 = WRITABLE ACCEPTABLE
         < . 1:4001(4000) ack 1 win 65535 = text 0/4000@0 order 4000 READABLE
         > . 1:1(0) ack 4001 win 104
         read 4000
         > . 1:1(0) ack 4001 win 250
         +10
         < . 4001:8001(4000) ack 1 win 65535 = text 0/4000@0 order 4000 READABLE
         > . 1:1(0) ack 8001 win 125
         +10
         < . 8001:12001(4000) ack 1 win 65535 = text 0/4000@0 order 4000 READABLE
         > . 1:1(0) ack 12001 win 0
         read 8000 = 47360
         > . 1:1(0) ack 12001 win 250",
    );
}
