//! `struct tcp_info` in the layout of Linux 6, and related structures.

use std::time::Duration;
use tcp::{Info, State};

/// Linux's numbers of `TCP_CLOSE` and `TCP_LISTEN`.
const CLOSE: u8 = 7;
const LISTEN: u8 = 10;
/// `INT_MAX`, which Linux reports as slow-start threshold if it was never set.
const NO_SSTHRESH: u32 = 0x7fff_ffff;

/// Bytes of the fields of a C structure, in order.
#[derive(Default)]
struct Layout(Vec<u8>);

impl Layout {
    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_ne_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        self.0.extend(value.to_ne_bytes());
    }

    fn us(&mut self, span: Duration) {
        self.u32(u32::try_from(span.as_micros()).unwrap_or(u32::MAX));
    }

    fn ms(&mut self, span: Duration) {
        self.u32(u32::try_from(span.as_millis()).unwrap_or(u32::MAX));
    }
}

/// Returns Linux's number of a state.
fn number(state: State) -> u8 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed => CLOSE,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
    }
}

/// Returns the complete `struct tcp_info` of a connection.
pub(crate) fn bytes(info: &Info) -> Vec<u8> {
    let mut out = Layout::default();
    out.0.extend([
        number(info.state),
        info.ca_state,
        info.retransmits,
        info.probes,
        info.backoff,
        info.options,
        info.snd_wscale & 15 | info.rcv_wscale << 4,
        0,
    ]);
    out.us(info.rto);
    out.us(info.ato);
    for field in [info.snd_mss, info.rcv_mss, info.unacked, info.sacked, info.lost, info.retrans] {
        out.u32(field);
    }
    out.u32(0); // fackets: no longer used by Linux either
    out.ms(info.last_data_sent);
    out.u32(0); // last_ack_sent: never set by Linux either
    out.ms(info.last_data_recv);
    out.ms(info.last_ack_recv);
    out.u32(info.pmtu);
    out.u32(info.rcv_ssthresh);
    out.us(info.rtt);
    out.us(info.rttvar);
    for field in [info.snd_ssthresh, info.snd_cwnd, info.advmss, info.reordering] {
        out.u32(field);
    }
    out.us(info.rcv_rtt);
    out.u32(info.rcv_space);
    out.u32(info.total_retrans);
    out.u64(info.pacing_rate);
    out.u64(u64::MAX); // max_pacing_rate: no limit
    out.u64(info.bytes_acked);
    out.u64(info.bytes_received);
    out.u32(info.segs_out);
    out.u32(info.segs_in);
    out.u32(info.notsent_bytes);
    out.us(info.min_rtt);
    out.u32(info.data_segs_in);
    out.u32(info.data_segs_out);
    out.u64(0); // delivery_rate: not measured
    out.u64(info.busy_time.as_micros() as u64);
    out.u64(info.rwnd_limited.as_micros() as u64);
    out.u64(info.sndbuf_limited.as_micros() as u64);
    out.u32(info.delivered);
    out.u32(info.delivered_ce);
    out.u64(info.bytes_sent);
    out.u64(info.bytes_retrans);
    for field in [info.dsack_dups, info.reord_seen, info.rcv_ooopack, info.snd_wnd, info.rcv_wnd] {
        out.u32(field);
    }
    out.u32(0); // rehash: not counted (concerns the IPv6 flow label)
    finish(out)
}

/// Returns the `struct tcp_info` of a socket without a connection.
pub(crate) fn idle(listens: bool) -> Vec<u8> {
    let mut out = Layout(vec![0; 8]);
    if let Some(state) = out.0.first_mut() {
        *state = if listens { LISTEN } else { CLOSE };
    }
    out.0.resize(76, 0);
    out.u32(NO_SSTHRESH);
    finish(out)
}

/// Length of the structure in bytes, including the Accurate ECN fields at its end in Linux 6.16 and
/// later.
const LEN: usize = 280;

/// Pads the structure with zeros for the fields that are not measured here.
fn finish(mut out: Layout) -> Vec<u8> {
    out.0.resize(LEN, 0);
    out.0
}

/// Returns the value of `SO_MEMINFO`, which is nine numbers. Only the received and unacknowledged
/// bytes and the buffer sizes are filled in.
pub(crate) fn memory(unread: u32, recv: u32, unacked: u32, send: u32) -> Vec<u8> {
    let mut out = Layout::default();
    for field in [unread, recv, unacked, send, 0, unacked, 0, 0, 0] {
        out.u32(field);
    }
    out.0
}
