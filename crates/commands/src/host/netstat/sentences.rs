//! `netstat -s` for TCP, UDP, IPv6 and ICMPv6: FreeBSD's sentences, in FreeBSD's order, each with
//! the counters whose values it contains.
//!
//! A `#` is replaced by the value of the next counter. `(s)`, `(es)` and `(y|ies)` become singular
//! or plural according to the number before them. Counters for which FreeBSD has no sentence
//! follow, with their own descriptions.

use super::super::sockets::{Netid, SockState, Socket};
use stats::Entry;
use std::collections::BTreeSet;
use tcp::State;

/// A sentence: indentation in tabs, text, and names of the counters whose values replace each `#`.
type Sentence = (usize, &'static str, &'static [&'static str]);

pub(super) const TCP: &[Sentence] = &[
    (0, "# packet(s) sent", &["tcp.out.sent"]),
    (1, "# data packet(s) (# byte(s))", &["tcp.out.data", "tcp.out.data_bytes"]),
    (1, "# data packet(s) (# byte(s)) retransmitted", &["tcp.out.retransmitted", "tcp.out.retransmitted_bytes"]),
    (1, "# resend(s) initiated by MTU discovery", &["tcp.pmtu.resends"]),
    (1, "# ack-only packet(s) (# delayed)", &["tcp.out.acks", "tcp.out.delayed_acks"]),
    (1, "# URG only packet(s)", &["tcp.out.urgent"]),
    (1, "# window probe packet(s)", &["tcp.out.window_probes"]),
    (1, "# window update packet(s)", &["tcp.out.window_updates"]),
    (1, "# control packet(s)", &["tcp.out.control"]),
    (0, "# packet(s) received", &["tcp.in.received"]),
    (1, "# ack(s) (for # byte(s))", &["tcp.in.acks", "tcp.in.acked_bytes"]),
    (1, "# duplicate ack(s)", &["tcp.in.duplicate_acks"]),
    (1, "# ack(s) for unsent data", &["tcp.in.acks_unsent"]),
    (1, "# packet(s) (# byte(s)) received in-sequence", &["tcp.in.in_sequence", "tcp.in.in_sequence_bytes"]),
    (1, "# completely duplicate packet(s) (# byte(s))", &["tcp.in.duplicates", "tcp.in.duplicate_bytes"]),
    (1, "# old duplicate packet(s)", &["tcp.in.paws"]),
    (
        1,
        "# packet(s) with some dup. data (# byte(s) duped)",
        &["tcp.in.partial_duplicates", "tcp.in.partial_duplicate_bytes"],
    ),
    (1, "# out-of-order packet(s) (# byte(s))", &["tcp.in.out_of_order", "tcp.in.out_of_order_bytes"]),
    (1, "# packet(s) (# byte(s)) of data after window", &["tcp.in.after_window", "tcp.in.after_window_bytes"]),
    (1, "# window probe(s)", &["tcp.in.window_probes"]),
    (1, "# window update packet(s)", &["tcp.in.window_updates"]),
    (1, "# packet(s) received after close", &["tcp.in.after_close"]),
    (1, "# discarded for bad checksum(s)", &["inet.tcp.in.bad_checksum"]),
    (1, "# discarded for bad header offset field(s)", &["inet.tcp.in.malformed"]),
    (1, "# discarded due to full reassembly queue", &["tcp.in.out_of_order_dropped"]),
    (0, "# connection request(s)", &["tcp.state.syn_sent"]),
    (0, "# connection accept(s)", &["tcp.state.syn_received"]),
    (0, "# bad connection attempt(s)", &["tcp.state.bad_attempts"]),
    (0, "# listen queue overflow(s)", &["tcp.listen.accept_overflows"]),
    (0, "# ignored RST(s) in the windows", &["tcp.in.resets_ignored"]),
    (0, "# connection(s) established (including accepts)", &["tcp.state.established"]),
    (0, "# connection(s) closed (including # drop(s))", &["tcp.state.closed", "tcp.state.dropped"]),
    (0, "# embryonic connection(s) dropped", &["tcp.state.embryonic_dropped"]),
    (0, "# segment(s) updated rtt", &["tcp.timer.rtt_updated"]),
    (0, "# retransmit timeout(s)", &["tcp.timer.rexmit"]),
    (1, "# connection(s) dropped by rexmit timeout", &["tcp.timer.rexmit_dropped"]),
    (0, "# persist timeout(s)", &["tcp.timer.persist"]),
    (1, "# connection(s) dropped by persist timeout", &["tcp.timer.persist_dropped"]),
    (0, "# Connection(s) (fin_wait_2) dropped because of timeout", &["tcp.timer.fin_wait_2_dropped"]),
    (0, "# keepalive timeout(s)", &["tcp.timer.keepalive"]),
    (1, "# keepalive probe(s) sent", &["tcp.out.keepalives"]),
    (1, "# connection(s) dropped by keepalive", &["tcp.timer.keepalive_dropped"]),
    (0, "# correct ACK header prediction(s)", &["tcp.in.predicted_acks"]),
    (0, "# correct data packet header prediction(s)", &["tcp.in.predicted_data"]),
    (0, "# syncache entr(y|ies) added", &["tcp.listen.added"]),
    (1, "# retransmitted", &["tcp.listen.retransmitted"]),
    (1, "# dupsyn", &["tcp.listen.duplicate_syns"]),
    (1, "# dropped", &["tcp.listen.evicted"]),
    (1, "# completed", &["tcp.listen.completed"]),
    (1, "# cache overflow", &["tcp.listen.overflows"]),
    (1, "# reset", &["tcp.listen.reset"]),
    (1, "# stale", &["tcp.listen.stale"]),
    (1, "# aborted", &["tcp.listen.aborted"]),
    (1, "# badack", &["tcp.listen.bad_acks"]),
    (1, "# unreach", &["tcp.listen.unreachable"]),
    (0, "# cookie(s) sent", &["tcp.listen.cookies_sent"]),
    (0, "# cookie(s) received", &["tcp.listen.cookies_received"]),
    (0, "# SACK recovery episode(s)", &["tcp.recovery.sack_episodes"]),
    (0, "# segment rexmit(s) in recovery episodes", &["tcp.recovery.rexmits"]),
    (0, "# byte rexmit(s) in recovery episodes", &["tcp.recovery.rexmit_bytes"]),
    (0, "# SACK option(s) (SACK blocks) received", &["tcp.in.sacks"]),
    (0, "# SACK option(s) (SACK blocks) sent", &["tcp.out.sacks"]),
    (0, "# SACK retransmission(s) lost", &["tcp.recovery.rexmits_lost"]),
    (0, "# SACK scoreboard overflow(s)", &["tcp.recovery.scoreboard_overflows"]),
    (0, "# packet(s) with ECN CE bit set", &["tcp.ecn.ce"]),
    (0, "# packet(s) with ECN ECT(0) bit", &["tcp.ecn.ect0"]),
    (0, "# packet(s) with ECN ECT(1) bit", &["tcp.ecn.ect1"]),
    (0, "# successful ECN handshake(s)", &["tcp.ecn.handshakes"]),
    (0, "# time(s) ECN reduced the congestion window", &["tcp.ecn.reductions"]),
    (0, "# Path MTU discovery black hole detection activation(s)", &["tcp.pmtu.black_holes"]),
];

pub(super) const UDP: &[Sentence] = &[
    (0, "# datagram(s) received", &["inet.udp.received"]),
    (1, "# with bad data length field(s)", &["inet.udp.in.bad_length"]),
    (1, "# with bad checksum(s)", &["inet.udp.in.bad_checksum"]),
    (1, "# with no checksum(s)", &["inet.udp.no_checksum"]),
    (1, "# dropped due to no socket", &["inet.udp.in.no_socket"]),
    (1, "# broadcast/multicast datagram(s) undelivered", &["inet.udp.in.no_socket_broadcast"]),
    (1, "# dropped due to full socket buffer(s)", &["inet.udp.in.buffer_full"]),
    (1, "# delivered", &["inet.udp.delivered"]),
    (0, "# datagram(s) output", &["inet.udp.sent"]),
];

pub(super) const IP6: &[Sentence] = &[
    (0, "# total packet(s) received", &["inet.ip6.received"]),
    (1, "# with data size < data length", &["inet.ip6.in.malformed"]),
    (1, "# with bad options", &["inet.ip6.in.unknown_option"]),
    (1, "# with incorrect version number", &["inet.ip6.in.bad_version"]),
    (1, "# fragment(s) received", &["inet.ip6.fragments_received"]),
    (1, "# packet(s) reassembled ok", &["inet.ip6.reassembled"]),
    (1, "# packet(s) for this host", &["inet.ip6.delivered"]),
    (1, "# packet(s) forwarded", &["inet.ip6.forwarded"]),
    (1, "# packet(s) not forwardable", &["inet.ip6.in.not_forwarding"]),
    (0, "# packet(s) sent from this host", &["inet.ip6.sent"]),
    (1, "# output packet(s) discarded due to no route", &["inet.ip6.no_route"]),
    (1, "# output datagram(s) fragmented", &["inet.ip6.fragmented"]),
    (1, "# fragment(s) created", &["inet.ip6.fragments_sent"]),
    (0, "# packet(s) that violated scope rules", &["inet.ip6.forward.beyond_scope"]),
    (0, "# multicast packet(s) which we don't join", &["inet.ip6.in.not_member"]),
];

pub(super) const ICMP6: &[Sentence] = &[
    (0, "# error(s) sent", &["inet.icmp6.errors_sent"]),
    (0, "# error(s) not generated in response to an icmp6 message", &["inet.icmp6.errors_forbidden"]),
    (0, "# error(s) not generated because of rate limitation", &["inet.icmp6.errors_limited"]),
    (0, "# bad checksum(s)", &["inet.icmp6.in.bad_checksum"]),
    (0, "# message(s) with bad length", &["inet.icmp6.in.malformed"]),
    (0, "# message response(s) generated", &["inet.icmp6.echoes_answered"]),
];

/// Returns the sentences with nonzero counters (all sentences if `all` is set) as text, and the
/// names of all counters in `sentences`.
pub(super) fn paragraph(
    sentences: &'static [Sentence],
    entries: &[Entry],
    all: bool,
) -> (String, BTreeSet<&'static str>) {
    let value = |name: &&str| entries.iter().find(|entry| entry.name == *name).map_or(0, |entry| entry.value);
    let mut out = String::new();
    for (at, (indent, words, names)) in sentences.iter().enumerate() {
        let below = sentences.iter().skip(at + 1).take_while(|(deeper, ..)| deeper > indent);
        let mut those = names.iter().chain(below.flat_map(|(.., names)| names.iter()));
        if all || those.any(|name| value(name) > 0) {
            let values: Vec<u64> = names.iter().map(value).collect();
            out += &format!("{}{}\n", "\t".repeat(indent + 1), say(words, &values));
        }
    }
    (out, sentences.iter().flat_map(|(.., names)| names.iter().copied()).collect())
}

/// Replaces each `#` in `words` by the next of `values`, and selects singular or plural.
fn say(words: &str, values: &[u64]) -> String {
    let mut values = values.iter();
    let (mut out, mut last, mut rest) = (String::new(), 0u64, words);
    while let Some(at) = rest.find(['#', '(']) {
        let (before, from) = rest.split_at(at);
        out += before;
        if let Some(after) = from.strip_prefix('#') {
            last = values.next().copied().unwrap_or_default();
            out += &last.to_string();
            rest = after;
            continue;
        }
        let forms = [("(s)", "", "s"), ("(es)", "", "es"), ("(y|ies)", "y", "ies")];
        let form = forms.iter().find_map(|(mark, one, more)| Some((from.strip_prefix(mark)?, one, more)));
        match form {
            Some((after, one, more)) => {
                out += if last == 1 { one } else { more };
                rest = after;
            }
            None => {
                out.push('(');
                rest = from.strip_prefix('(').unwrap_or_default();
            }
        }
    }
    out + rest
}

/// Returns the number of connections in each state, in FreeBSD's format.
pub(super) fn by_state(sockets: &[Socket]) -> String {
    let states = [
        SockState::Tcp(State::Closed),
        SockState::Listen,
        SockState::Tcp(State::SynSent),
        SockState::Tcp(State::SynReceived),
        SockState::Tcp(State::Established),
        SockState::Tcp(State::CloseWait),
        SockState::Tcp(State::FinWait1),
        SockState::Tcp(State::Closing),
        SockState::Tcp(State::LastAck),
        SockState::Tcp(State::FinWait2),
        SockState::Tcp(State::TimeWait),
    ];
    let line = |state: &SockState| {
        let n = sockets.iter().filter(|socket| socket.netid == Netid::Tcp && socket.state == *state).count();
        say(&format!("\t# connection(s) in {} state\n", state.bsd()), &[n as u64])
    };
    format!("TCP connection count by state:\n{}", states.iter().map(line).collect::<String>())
}

/// Nouns at the beginning of counter descriptions, as (plural, singular).
const NOUNS: &[(&str, &str)] = &[
    ("replies", "reply"),
    ("entries", "entry"),
    ("losses", "loss"),
    ("queries", "query"),
    ("acks", "ack"),
    ("announcements", "announcement"),
    ("bytes", "byte"),
    ("connections", "connection"),
    ("cookies", "cookie"),
    ("datagrams", "datagram"),
    ("echo requests", "echo request"),
    ("errors", "error"),
    ("fragments", "fragment"),
    ("frames", "frame"),
    ("leaves", "leave"),
    ("messages", "message"),
    ("packets", "packet"),
    ("peers", "peer"),
    ("redirects", "redirect"),
    ("reports", "report"),
    ("requests", "request"),
    ("resets", "reset"),
    ("segments", "segment"),
    ("SYN-ACKs", "SYN-ACK"),
    ("probes", "probe"),
    ("timeouts", "timeout"),
];

/// Returns a description with its first noun in the singular.
pub(super) fn about_one(sentence: &str) -> String {
    let first = NOUNS.iter().filter_map(|(many, one)| Some((sentence.find(many)?, many, one)));
    match first.min_by_key(|(at, many, _)| (*at, std::cmp::Reverse(many.len()))) {
        Some((_, many, one)) => sentence.replacen(many, one, 1),
        None => sentence.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_plurals() {
        assert_eq!(say("# data packet(s) (# byte(s))", &[1, 1448]), "1 data packet (1448 bytes)");
        assert_eq!(
            say("# packet(s) (# byte(s)) of data after window", &[2, 1]),
            "2 packets (1 byte) of data after window"
        );
        assert_eq!(say("# syncache entr(y|ies) added", &[1]), "1 syncache entry added");
        assert_eq!(say("# syncache entr(y|ies) added", &[0]), "0 syncache entries added");
        assert_eq!(say("# packet(s) with ECN ECT(0) bit", &[1]), "1 packet with ECN ECT(0) bit");
        assert_eq!(about_one("gratuitous announcements sent"), "gratuitous announcement sent");
        assert_eq!(about_one("SACK blocks"), "SACK blocks");
    }

    #[test]
    fn every_counter_in_a_sentence_exists_and_stands_in_one_only() {
        let entries = stats::Shards::<inet::counters::Counters>::new(1).snapshot();
        for sentences in [TCP, UDP] {
            let mut seen = BTreeSet::new();
            for (_, words, names) in sentences {
                assert_eq!(words.matches('#').count(), names.len(), "{words}");
                for name in *names {
                    assert!(entries.iter().any(|entry| entry.name == *name), "{name}");
                    assert!(seen.insert(*name), "{name}: twice");
                }
            }
        }
    }
}
