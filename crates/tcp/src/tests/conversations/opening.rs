use super::*;

fn open(name: &'static str, script: &str) {
    Talk::new(name, plain()).run(script);
}

// --- SYN-SENT (RFC 9293 3.10.7.3)

#[test]
fn an_active_open_connects() {
    Talk::new("active open", Config { recv_space: 64_240, ..Config::default() }).run(
        "connect
         > S 0:0(0) win 64240 <mss 1460,sackOK,TS 10000 0,wscale 7>
         +10
         < S. 0:0(0) ack 1 win 65535 <mss 1460,sackOK,TS 700 10000,wscale 8> = WRITABLE CONNECTED
         > . 1:1(0) ack 1 win 502 <TS 10010 700>
         state = Established
         options = 7
         cwnd = 10
         rto = 210
         timer = never",
    );
}

#[test]
fn without_options_from_the_peer_none_are_used() {
    Talk::new("no options", Config { recv_space: 64_240, ..Config::default() }).run(
        "connect
         > S 0:0(0) win 64240 <mss 1460,sackOK,TS 10000 0,wscale 7>
         < S. 0:0(0) ack 1 win 5000 = WRITABLE CONNECTED
         > . 1:1(0) ack 1 win 64240
         options = 0
         mss = 536",
    );
}

#[test]
fn a_syn_is_retransmitted_for_three_minutes() {
    open(
        "lost SYNs",
        "connect
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         +1000 = 
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         +2000
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         +4000
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         +8000
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         +16000
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         +32000
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         +64000
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         +120000 = TIMED_OUT CLOSED
         timer = never",
    );
}

#[test]
fn the_number_of_syns_can_be_chosen() {
    open(
        "TCP_SYNCNT",
        "connect
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         syncnt 1
         +1000
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         +2000 = TIMED_OUT CLOSED",
    );
}

#[test]
fn after_a_lost_syn_one_segment_and_three_seconds() {
    open(
        "RFC 6298 5.7",
        "connect
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         +1000
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         +10
         < S. 0:0(0) ack 1 win 65535 <mss 1000,sackOK> = WRITABLE CONNECTED
         > . 1:1(0) ack 1 win 64240
         cwnd = 1
         rto = 3000",
    );
}

#[test]
fn a_reset_that_acknowledges_the_syn_refuses() {
    open(
        "refused",
        "connect
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         < R. 0:0(0) ack 1 win 0 = REFUSED CLOSED
         state = Closed
         timer = never",
    );
}

#[test]
fn a_reset_that_does_not_acknowledge_the_syn_is_ignored() {
    open(
        "blind RST in SYN-SENT",
        "connect
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         < R 0:0(0) win 0 = drop ResetUnacknowledged
         < R. 0:0(0) ack 2 win 0 = drop AckInHandshake
         state = SynSent",
    );
}

#[test]
fn a_wrong_ack_in_syn_sent_is_reset() {
    open(
        "half-open (RFC 9293 Figure 9)",
        "connect
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         < . 300:300(0) ack 100 win 1000 = drop AckInHandshake
         ! R 100:100(0) win 0
         < S. 300:300(0) ack 0 win 1000 = drop AckInHandshake
         ! R 0:0(0) win 0
         state = SynSent",
    );
}

#[test]
fn an_ack_without_syn_in_syn_sent_is_dropped() {
    open(
        "RFC 9293 3.10.7.3 fifth; split handshake",
        "connect
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         < . 300:300(0) ack 1 win 1000 = drop BadFlags
         < F 0:0(0) win 10 = drop BadFlags
         state = SynSent",
    );
}

#[test]
fn a_simultaneous_open_connects() {
    open(
        "RFC 9293 Figure 7",
        "connect
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         < S 0:0(0) win 65535 <mss 1000,sackOK>
         > S. 0:0(0) ack 1 win 64240 <mss 1460,sackOK>
         state = SynReceived
         < S. 0:0(0) ack 1 win 65535 <mss 1000,sackOK> = WRITABLE CONNECTED
         > . 1:1(0) ack 1 win 64240
         state = Established
         write 10
         > P. 1:11(10) ack 1 win 64240",
    );
}

#[test]
fn a_simultaneous_open_ends_by_a_bare_ack_too() {
    // In a split handshake (a SYN, then an ACK of our SYN), the client does not become a server.
    open(
        "simultaneous, ACK",
        "connect
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         < S 0:0(0) win 65535 <mss 1000,sackOK>
         > S. 0:0(0) ack 1 win 64240 <mss 1460,sackOK>
         < . 1:1(0) ack 1 win 65535 = WRITABLE CONNECTED
         state = Established",
    );
}

#[test]
fn data_on_a_syn_ack_is_accepted() {
    open(
        "SYN-ACK with text",
        "connect
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         < S. 0:100(100) ack 1 win 65535 <mss 1000,sackOK> = text 0/100@0 order 100 READABLE WRITABLE CONNECTED
         > . 1:1(0) ack 101 win 64140",
    );
}

#[test]
fn impossible_flags_are_dropped_in_every_state() {
    open(
        "SYN with FIN or RST",
        "connect
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         < SF 0:0(0) win 10 = drop BadFlags
         < SF. 0:0(0) ack 1 win 10 = drop BadFlags
         < SR. 0:0(0) ack 1 win 10 = drop BadFlags
         state = SynSent",
    );
    talk(
        "xmas and null",
        "< SF 1:1(0) win 10 = drop BadFlags
         < SR 1:1(0) win 10 = drop BadFlags
         < - 1:1(0) win 10 = drop NoAck
         < FPU 1:1(0) win 10 urg 3 = drop NoAck
         state = Established",
    );
}

#[test]
fn close_in_syn_sent_frees_the_connection() {
    open(
        "close in SYN-SENT",
        "connect
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         close = over
         state = Closed
         timer = never
         < S. 0:0(0) ack 1 win 65535 = drop NoConnection
         ! R 1:1(0) win 0",
    );
}

#[test]
fn a_closed_connection_answers_with_a_reset() {
    open(
        "RFC 9293 3.10.7.1",
        "connect
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         abort
         < S 5:5(0) win 10 = drop NoConnection
         ! R. 3001:3001(0) ack 6 win 0             // sequence number 0
         < R 5:5(0) win 10 = drop NoConnection",
    );
}

#[test]
fn hard_icmp_errors_end_only_a_handshake() {
    open(
        "ICMP in SYN-SENT",
        "connect
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         icmp refused 1 =                 // not what is under way (RFC 5927 4.1)
         icmp unreachable 0 = SOFT_ERROR
         icmp refused 0 = REFUSED CLOSED",
    );
    // The host's own ARP request had no reply. This is not ICMP, so MUST-56 does not apply (Linux:
    // EHOSTUNREACH).
    open(
        "no neighbor in SYN-SENT",
        "connect
         > S 0:0(0) win 64240 <mss 1460,sackOK>
         icmp no-neighbor 1 =
         icmp no-neighbor 0 = CLOSED UNREACHABLE",
    );
}

// --- SYN-RECEIVED

#[test]
fn a_syn_ack_is_retransmitted_and_times_out() {
    open(
        "no ACK",
        "< S 0:0(0) win 65535 <mss 1000>
         > S. 0:0(0) ack 1 win 64240 <mss 1460>
         +1000
         > S. 0:0(0) ack 1 win 64240 <mss 1460>
         +2000
         > S. 0:0(0) ack 1 win 64240 <mss 1460>
         < S 0:0(0) win 65535 <mss 1000> = drop SynDuplicate   // the peer did not see it
         > S. 0:0(0) ack 1 win 64240 <mss 1460>
         +4000
         > S. 0:0(0) ack 1 win 64240 <mss 1460>
         +8000
         > S. 0:0(0) ack 1 win 64240 <mss 1460>
         +16000
         > S. 0:0(0) ack 1 win 64240 <mss 1460>
         +32000
         > S. 0:0(0) ack 1 win 64240 <mss 1460>
         +64000
         > S. 0:0(0) ack 1 win 64240 <mss 1460>
         +120000 = TIMED_OUT CLOSED
         state = Closed",
    );
}

#[test]
fn a_wrong_ack_in_syn_received_is_reset() {
    open(
        "RFC 9293 3.10.7.4 fifth",
        "< S 0:0(0) win 65535 <mss 1000>
         > S. 0:0(0) ack 1 win 64240 <mss 1460>
         < . 1:1(0) ack 2 win 100 = drop AckInHandshake
         ! R 2:2(0) win 0
         < . 1:1(0) ack 0 win 100 = drop AckInHandshake
         ! R 0:0(0) win 0
         state = SynReceived",
    );
}

#[test]
fn a_reset_in_syn_received_must_be_exact() {
    open(
        "RFC 5961 3.2",
        "< S 0:0(0) win 65535 <mss 1000>
         > S. 0:0(0) ack 1 win 64240 <mss 1460>
         < R 100:100(0) win 0 = drop ResetInWindow
         ! . 1:1(0) ack 1 win 64240
         < R 1:1(0) win 0 = CLOSED
         state = Closed",
    );
}

#[test]
fn the_ack_of_the_handshake_may_carry_data_and_fin() {
    open(
        "ACK with text and FIN",
        "< S 0:0(0) win 65535 <mss 1000>
         > S. 0:0(0) ack 1 win 64240 <mss 1460>
         < FP. 1:101(100) ack 1 win 1000 = text 0/100@0 order 100 READABLE WRITABLE ACCEPTABLE PEER_CLOSED
         > . 1:1(0) ack 102 win 64139
         state = CloseWait",
    );
}

#[test]
fn a_close_in_syn_received_sends_fin_after_the_handshake() {
    open(
        "close in SYN-RECEIVED",
        "< S 0:0(0) win 65535 <mss 1000>
         > S. 0:0(0) ack 1 win 64240 <mss 1460>
         close
         state = SynReceived
         < . 1:1(0) ack 1 win 1000 = WRITABLE ACCEPTABLE
         > F. 1:1(0) ack 1 win 64240
         state = FinWait1",
    );
}

#[test]
fn abort_in_syn_received_resets() {
    open(
        "abort in SYN-RECEIVED",
        "< S 0:0(0) win 65535 <mss 1000>
         > S. 0:0(0) ack 1 win 64240 <mss 1460>
         abort
         ! R. 1:1(0) ack 1 win 0
         state = Closed",
    );
}

#[test]
fn window_scale_is_answered_only_if_offered_and_at_most_14() {
    let config = Config { timestamps: false, recv_space: 64_240, ..Config::default() };
    Talk::new("wscale 15", config.clone()).run(
        "< S 0:0(0) win 65535 <mss 1460,wscale 15>
         > S. 0:0(0) ack 1 win 64240 <mss 1460,wscale 7>
         < . 1:1(0) ack 1 win 1 = WRITABLE ACCEPTABLE
         options = 4
         write 20000                     // 1 << 14 = 16384
         > . 1:1461(1460) ack 1 win 502
         > . 1461:2921(1460) ack 1 win 502
         > . 2921:4381(1460) ack 1 win 502
         > . 4381:5841(1460) ack 1 win 502
         > . 5841:7301(1460) ack 1 win 502
         > . 7301:8761(1460) ack 1 win 502
         > . 8761:10221(1460) ack 1 win 502
         > . 10221:11681(1460) ack 1 win 502
         > . 11681:13141(1460) ack 1 win 502
         > . 13141:14601(1460) ack 1 win 502",
    );
    Talk::new("no wscale", config).run(
        "< S 0:0(0) win 65535 <mss 1460>
         > S. 0:0(0) ack 1 win 64240 <mss 1460>
         < . 1:1(0) ack 1 win 1 = WRITABLE ACCEPTABLE
         options = 0",
    );
}

#[test]
fn an_mss_is_accepted_down_to_48() {
    for (mss, sent) in [(0, 536), (1, 48), (8, 48), (48, 48), (100, 100), (215, 215)] {
        let mut talk = Talk::new("RFC 9293 MUST-16, CVE-2019-11479", plain());
        talk.run(&format!(
            "< S 0:0(0) win 65535 <mss {mss}>
             > S. 0:0(0) ack 1 win 64240 <mss 1460>
             < . 1:1(0) ack 1 win 65535 = WRITABLE ACCEPTABLE
             mss = {sent}"
        ));
    }
}

/// The MSS option of a SYN-ACK has the same effect as that of a SYN: each segment of a write is
/// that long, and none is longer.
#[test]
fn an_mss_of_a_syn_ack_is_accepted_down_to_48() {
    for (mss, sent) in [(0, 536), (1, 48), (8, 48), (48, 48), (100, 100), (215, 215)] {
        let mut talk = Talk::new("RFC 9293 MUST-16, CVE-2019-11479: active open", plain());
        let segments = (0..5).map(|n| {
            let (push, first) = (if n == 4 { "P." } else { "." }, 1 + n * sent);
            format!("> {push} {first}:{}({sent}) ack 1 win 64240\n", first + sent)
        });
        talk.run(&format!(
            "connect
             > S 0:0(0) win 64240 <mss 1460,sackOK>
             < S. 0:0(0) ack 1 win 65535 <mss {mss}> = WRITABLE CONNECTED
             > . 1:1(0) ack 1 win 64240
             mss = {sent}
             write {}
             {}",
            5 * sent,
            segments.collect::<String>()
        ));
    }
}

#[test]
fn ecn_is_negotiated_on_request() {
    let config = Config { ecn: EcnMode::On, ..plain() };
    Talk::new("active", config.clone()).run(
        "connect
         > SEW 0:0(0) win 64240 <mss 1460,sackOK>
         +1000
         > S 0:0(0) win 64240 <mss 1460,sackOK>     // perhaps somebody drops such SYNs (RFC 3168 6.1.1.1)
         < S. 0:0(0) ack 1 win 65535 <mss 1000> = WRITABLE CONNECTED
         > . 1:1(0) ack 1 win 64240
         options = 0",
    );
    Talk::new("agreed", config.clone()).run(
        "connect
         > SEW 0:0(0) win 64240 <mss 1460,sackOK>
         < S.E 0:0(0) ack 1 win 65535 <mss 1000> = WRITABLE CONNECTED
         > . 1:1(0) ack 1 win 64240
         options = 8",
    );
    Talk::new("a reflected SYN is no consent", config).run(
        "connect
         > SEW 0:0(0) win 64240 <mss 1460,sackOK>
         < S.EW 0:0(0) ack 1 win 65535 <mss 1000> = WRITABLE CONNECTED
         > . 1:1(0) ack 1 win 64240
         options = 0",
    );
    Talk::new("passive", plain()).run(
        "< SEW 0:0(0) win 65535 <mss 1000>
         > S.E 0:0(0) ack 1 win 64240 <mss 1460>
         < . 1:1(0) ack 1 win 65535 = WRITABLE ACCEPTABLE
         options = 8",
    );
}

#[test]
fn timestamps_are_used_only_when_both_offer_them() {
    Talk::new("timestamps", Config { timestamps: true, ..plain() }).run(
        "< S 0:0(0) win 65535 <mss 1000,TS 77 0>
         > S. 0:0(0) ack 1 win 64240 <mss 1460,TS 10000 77>
         +20
         < . 1:1(0) ack 1 win 65535 <TS 97 10000> = WRITABLE ACCEPTABLE
         mss = 988
         srtt = 20
         write 5
         > P. 1:6(5) ack 1 win 64240 <TS 10020 97>",
    );
}
