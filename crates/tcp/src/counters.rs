//! TCP counters: those of FreeBSD's `struct tcpstat`, in the words of its `netstat -s -p tcp`, and
//! those of Linux's `TcpExt` that FreeBSD lacks.
//!
//! No counter is global: a host has one [`Counters`] per thread and passes it in. A counter is
//! incremented once, at the decision about the event. The reason for which a segment was dropped is
//! reported with the drop itself.

use stats::{Described, counters};

counters! {
    /// Received segments.
    pub struct In at "tcp.in" {
        /// packets received.
        received,
        /// acks.
        acks,
        /// bytes acknowledged by received acks.
        acked_bytes,
        /// duplicate acks.
        duplicate_acks,
        /// acks for unsent data.
        acks_unsent,
        /// acks for data acknowledged more than a window ago (RFC 5961 5.2).
        acks_too_old,
        /// packets received in-sequence.
        in_sequence,
        /// bytes received in-sequence.
        in_sequence_bytes,
        /// completely duplicate packets.
        duplicates,
        /// bytes of completely duplicate packets.
        duplicate_bytes,
        /// packets with some dup. data.
        partial_duplicates,
        /// duplicate bytes of packets with some dup. data.
        partial_duplicate_bytes,
        /// out-of-order packets.
        out_of_order,
        /// bytes in out-of-order packets.
        out_of_order_bytes,
        /// out-of-order packets dropped because of too many gaps.
        out_of_order_dropped,
        /// packets of data after window.
        after_window,
        /// bytes of data after window.
        after_window_bytes,
        /// window probes.
        window_probes,
        /// window update packets.
        window_updates,
        /// packets received after close.
        after_close,
        /// old duplicate packets, detected by their timestamps (PAWS).
        paws,
        /// resets received.
        resets,
        /// RSTs ignored because they were in the window but not at RCV.NXT.
        resets_ignored,
        /// SYNs on open connections, answered with a challenge ack.
        syns_challenged,
        /// urgent pointers.
        urgent,
        /// SACK options (SACK blocks) received.
        sacks,
        /// D-SACKs for retransmitted segments.
        dsacks,
        /// D-SACKs for data older than SND.UNA.
        dsacks_old,
        /// SACK options with invalid or empty blocks, or blocks of data never sent.
        sacks_invalid,
        /// correct ACK header predictions.
        predicted_acks,
        /// correct data packet header predictions.
        predicted_data,
    }
}

counters! {
    /// Sent segments.
    pub struct Out at "tcp.out" {
        /// packets sent.
        sent,
        /// data packets.
        data,
        /// bytes in data packets.
        data_bytes,
        /// data packets retransmitted.
        retransmitted,
        /// bytes retransmitted.
        retransmitted_bytes,
        /// ack-only packets.
        acks,
        /// delayed acks.
        delayed_acks,
        /// URG only packets.
        urgent,
        /// window probe packets.
        window_probes,
        /// window update packets.
        window_updates,
        /// control packets (SYN, FIN, RST).
        control,
        /// resets sent.
        resets,
        /// challenge acks sent (RFC 5961).
        challenges,
        /// challenge acks not sent because of the rate limit.
        challenges_limited,
        /// acks of old duplicates not sent because of the rate limit.
        invalid_limited,
        /// keepalive probes sent.
        keepalives,
        /// SACK options (SACK blocks) sent.
        sacks,
        /// D-SACKs sent.
        dsacks,
        /// advertisements of a window that was zero before.
        window_opened,
        /// advertisements of a zero window.
        window_closed,
        /// segments not sent because the host had no buffer.
        not_sent,
    }
}

counters! {
    /// Connection states, counted on entry.
    pub struct States at "tcp.state" {
        /// connection requests.
        syn_sent,
        /// connection accepts.
        syn_received,
        /// connections established (including accepts).
        established,
        /// connections that the peer closed first.
        close_wait,
        /// connections closed here first.
        fin_wait_1,
        /// connections whose FIN was acknowledged before the peer's FIN arrived.
        fin_wait_2,
        /// connections closed by both sides at once.
        closing,
        /// connections closed after the peer.
        last_ack,
        /// connections that entered TIME-WAIT.
        time_wait,
        /// connections closed (including drops).
        closed,
        /// connections dropped: reset, aborted or timed out.
        dropped,
        /// embryonic connections dropped.
        embryonic_dropped,
        /// bad connection attempts.
        bad_attempts,
        /// connections reset by the peer.
        reset,
        /// connections reset because data came after close.
        aborted_on_data,
        /// connections reset because unread data was discarded at close.
        aborted_on_close,
        /// connections reset at close by SO_LINGER.
        aborted_on_linger,
    }
}

counters! {
    /// Expired timers.
    pub struct Timers at "tcp.timer" {
        /// retransmit timeouts.
        rexmit,
        /// connections dropped by rexmit timeout.
        rexmit_dropped,
        /// persist timeouts.
        persist,
        /// connections dropped by persist timeout.
        persist_dropped,
        /// keepalive timeouts.
        keepalive,
        /// connections dropped by keepalive.
        keepalive_dropped,
        /// connections (fin_wait_2) dropped because of timeout.
        fin_wait_2_dropped,
        /// connections dropped by the user timeout.
        user_dropped,
        /// tail loss probes.
        loss_probes,
        /// losses that a tail loss probe repaired.
        loss_probe_recoveries,
        /// reordering timeouts (RACK).
        rack,
        /// segments that updated the rtt.
        rtt_updated,
    }
}

counters! {
    /// Loss recovery.
    pub struct Recovery at "tcp.recovery" {
        /// SACK recovery episodes.
        sack_episodes,
        /// recovery episodes without SACK.
        reno_episodes,
        /// segment rexmits in recovery episodes.
        rexmits,
        /// byte rexmits in recovery episodes.
        rexmit_bytes,
        /// SACK retransmissions lost.
        rexmits_lost,
        /// SACK scoreboard overflows: a short segment waited because too many were in flight.
        scoreboard_overflows,
        /// times a peer discarded selectively acknowledged data (reneging).
        reneged,
        /// reorderings detected.
        reordered,
        /// spurious retransmit timeouts (F-RTO).
        spurious_rtos,
        /// window reductions undone by timestamps.
        undone_by_timestamp,
        /// window reductions undone by D-SACK.
        undone_by_dsack,
        /// slow starts left because the round trip grew (HyStart++).
        hystart_exits,
        /// restarts of the congestion window after idle time.
        idle_restarts,
    }
}

counters! {
    /// Explicit congestion notification.
    pub struct EcnCounts at "tcp.ecn" {
        /// packets with ECN CE bit set.
        ce,
        /// packets with ECN ECT(0) bit.
        ect0,
        /// packets with ECN ECT(1) bit.
        ect1,
        /// successful ECN handshakes.
        handshakes,
        /// times ECN reduced the congestion window.
        reductions,
    }
}

counters! {
    /// Path MTU discovery.
    pub struct PmtuCounts at "tcp.pmtu" {
        /// resends initiated by MTU discovery.
        resends,
        /// Path MTU discovery black hole detections activated.
        black_holes,
        /// Path MTU discovery black hole detections that made segments smaller.
        lowered,
        /// MTU probes that arrived.
        probes_acked,
        /// MTU probes that were lost.
        probes_lost,
        /// ICMP messages ignored because their sequence number was not in flight (RFC 5927).
        icmp_refused,
    }
}

counters! {
    /// Listeners: FreeBSD's syncache.
    pub struct Listen at "tcp.listen" {
        /// syncache entries added.
        added,
        /// SYN-ACKs retransmitted.
        retransmitted,
        /// duplicate SYNs (dupsyn).
        duplicate_syns,
        /// connections completed out of the SYN queue.
        completed,
        /// SYN queue overflows.
        overflows,
        /// oldest entries dropped to make space.
        evicted,
        /// listen queue overflows: SYNs dropped because the accept queue was full.
        accept_overflows,
        /// ACKs dropped because the accept queue was full.
        accept_overflow_acks,
        /// handshakes reset by the peer.
        reset,
        /// handshakes ended by an ICMP unreachable error.
        unreachable,
        /// handshakes dropped because the last SYN-ACK was not answered (stale).
        stale,
        /// acks of something other than our SYN (badack).
        bad_acks,
        /// old duplicates, detected by their timestamps or sequence numbers.
        old_duplicates,
        /// segments with impossible flags (SYN with FIN or RST), or from our own address and port.
        bad_segments,
        /// replies not sent because of the rate limit.
        limited,
        /// handshakes dropped because their listener was closed (aborted).
        aborted,
        /// cookies sent.
        cookies_sent,
        /// cookies received.
        cookies_received,
        /// cookies that were forged or too old.
        cookies_failed,
        /// peers whose MSS was below the minimum.
        mss_raised,
    }
}

counters! {
    /// TIME-WAIT entries (compact records).
    pub struct TimeWaitCounts at "tcp.time_wait" {
        /// connections kept in TIME-WAIT.
        added,
        /// TIME-WAIT entries expired.
        expired,
        /// TIME-WAIT entries dropped early because there were too many.
        evicted,
        /// TIME-WAIT entries reused by a new connection (RFC 6191).
        reused,
        /// retransmitted FINs that were acknowledged again.
        fins_again,
        /// RSTs ignored (RFC 1337).
        resets_ignored,
        /// other late segments that were acknowledged.
        late,
        /// acknowledgments not sent because of the rate limit.
        limited,
    }
}

/// TCP counters of one thread.
#[derive(Debug, Default)]
pub struct Counters {
    /// Received segments.
    pub input: In,
    /// Sent segments.
    pub output: Out,
    /// Connection states, counted on entry.
    pub states: States,
    /// Timer expirations.
    pub timers: Timers,
    /// Loss recovery.
    pub recovery: Recovery,
    /// Explicit congestion notification.
    pub ecn: EcnCounts,
    /// Path MTU discovery.
    pub pmtu: PmtuCounts,
    /// Listeners and the SYN queue.
    pub listen: Listen,
    /// TIME-WAIT entries.
    pub time_wait: TimeWaitCounts,
}

impl Described for Counters {
    fn visit(&self, each: &mut dyn FnMut(&'static str, &'static str, &'static str, u64)) {
        let groups: [&dyn Described; 9] = [
            &self.input,
            &self.output,
            &self.states,
            &self.timers,
            &self.recovery,
            &self.ecn,
            &self.pmtu,
            &self.listen,
            &self.time_wait,
        ];
        groups.iter().for_each(|group| group.visit(each));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_sentences_follow_a_number() {
        let shards = stats::Shards::<Counters>::new(1);
        shards.at(0).listen.cookies_sent.add(3);
        let entries = shards.snapshot();
        let names: BTreeSet<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names.len(), entries.len());
        assert!(entries.iter().all(|entry| entry.name.starts_with("tcp.") && entry.sentence.ends_with('.')));
        let sent: Vec<_> = entries.iter().filter(|entry| entry.value > 0).collect();
        assert_eq!(
            (sent.len(), sent[0].name.as_str(), sent[0].sentence),
            (1, "tcp.listen.cookies_sent", "cookies sent.")
        );
    }
}
