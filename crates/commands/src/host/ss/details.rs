//! Details that `ss` adds to a socket, in iproute2's format: timers (-o), extended information
//! (-e), memory (-m) and tcp_info (-i).

use super::super::sockets::{SockState, Socket};
use clock::Duration;
use serde_json::{Map, Value, json};
use std::fmt::{Display, Write};
use tcp::pacing::UNLIMITED;
use tcp::{Info, State};

/// Returns the timer, such as ` timer:(keepalive,119min,0)`.
pub(super) fn timer(row: &Socket) -> String {
    row.timer.map_or(String::new(), |(timer, left, tries)| format!(" timer:({},{},{tries})", timer.word(), span(left)))
}

/// Returns a time span in the format of `ss`: the two largest units, with milliseconds only below
/// ten seconds.
fn span(left: Duration) -> String {
    let ms = left.as_millis();
    let (minutes, seconds, ms) = (ms / 60_000, ms / 1000 % 60, ms % 1000);
    match (minutes, seconds, ms) {
        (0, 0, ms) => format!("{ms}ms"),
        (0, seconds @ 1..=9, ms) => format!("{seconds}.{ms:03}sec"),
        (0, seconds, _) => format!("{seconds}sec"),
        (minutes, 0, _) => format!("{minutes}min"),
        (minutes @ 1..=9, seconds, _) => format!("{minutes}min{seconds}sec"),
        (minutes, ..) => format!("{minutes}min"),
    }
}

/// Returns the descriptor, the open directions, and the options that are set.
pub(super) fn extended(row: &Socket) -> String {
    let mut out = row.fd.map_or(String::new(), |fd| format!(" sk:{fd:x}"));
    if let SockState::Tcp(state) = row.state {
        out += match state {
            State::Closed | State::TimeWait => " ---",
            State::CloseWait => " -->",
            state if state.is_closing() => " <--",
            _ => " <->",
        };
    }
    if let Some(options) = &row.options {
        let set = [
            (options.nodelay, "nodelay"),
            (options.cork, "cork"),
            (options.keepalive, "keepalive"),
            (options.reuse_addr, "reuseaddr"),
            (options.reuse_port, "reuseport"),
            (options.bind_any, "transparent"),
            (options.nonblocking, "nonblock"),
        ];
        set.iter().filter(|(on, _)| *on).for_each(|(_, name)| out += &format!(" {name}"));
        if options.tos != 0 {
            out += &format!(" tos:{:#x}", options.tos);
        }
        out += &options.ttl.map_or(String::new(), |ttl| format!(" ttl:{ttl}"));
    }
    if let Some((now, most)) = row.embryonic {
        out += &format!(" synrecv:{now}/{most}");
    }
    out
}

/// Returns the memory use of a socket, such as ` skmem:(r0,rb131072,t0,tb16384,f0,w0,o0,bl0,d0)`.
/// Fields of Linux for memory that is allocated ahead are 0, because all buffers belong to the
/// pool.
pub(super) fn memory(row: &Socket) -> String {
    let m = row.memory;
    format!(" skmem:(r{},rb{},t{},tb{},f0,w{},o0,bl0,d0)", m.recv, m.recv_space, m.in_flight, m.send_space, m.send)
}

pub(super) fn memory_json(row: &Socket) -> Value {
    let m = row.memory;
    json!({ "r": m.recv, "rb": m.recv_space, "t": m.in_flight, "tb": m.send_space, "w": m.send })
}

pub(super) fn timer_json(row: &Socket) -> Value {
    row.timer.map_or(
        Value::Null,
        |(timer, left, tries)| json!({ "name": timer.word(), "expires_ms": left.as_millis() as u64, "retrans": tries }),
    )
}

fn ms(span: Duration) -> f64 {
    span.as_micros() as f64 / 1000.0
}

/// Returns a rate in bits per second with a unit prefix, such as `463Mbps`.
fn rate(bits: f64) -> String {
    let (value, prefix) = match bits {
        b if b >= 1e9 => (b / 1e9, "G"),
        b if b >= 1e6 => (b / 1e6, "M"),
        b if b >= 1e3 => (b / 1e3, "k"),
        b => (b, ""),
    };
    let digits = if prefix.is_empty() || value >= 100.0 { 0 } else { 1 };
    format!("{value:.digits$}{prefix}bps")
}

/// Value of the slow start threshold before the first loss (Linux: TCP_INFINITE_SSTHRESH).
const SSTHRESH_NONE: u32 = 0xffff;

/// Line of words separated by spaces.
struct Line(String);

impl Line {
    fn put(&mut self, word: impl Display) {
        // Writing to a String cannot fail.
        let _ = write!(self.0, " {word}");
    }

    /// Adds `name:value`, unless the value is 0.
    fn some(&mut self, name: &str, value: impl Into<u64>) {
        let value = value.into();
        if value != 0 {
            self.put(format_args!("{name}:{value}"));
        }
    }
}

/// Returns tcp_info with the names and in the order of `ss`. As in `ss`, meaningless zeros are
/// omitted.
pub(super) fn info(row: &Socket) -> String {
    let Some(i) = &row.info else { return String::new() };
    let mut line = Line(String::new());
    let flags = [(1, "ts"), (2, "sack"), (8, "ecn"), (16, "ecnseen")];
    flags.iter().filter(|(bit, _)| i.options & bit != 0).for_each(|(_, name)| line.put(name));
    line.put(i.congestion);
    if i.options & 4 != 0 {
        line.put(format_args!("wscale:{},{}", i.snd_wscale, i.rcv_wscale));
    }
    line.put(format_args!("rto:{}", ms(i.rto)));
    line.some("backoff", i.backoff);
    line.put(format_args!("rtt:{}/{} ato:{}", ms(i.rtt), ms(i.rttvar), ms(i.ato)));
    line.put(format_args!("mss:{} pmtu:{} rcvmss:{} advmss:{}", i.snd_mss, i.pmtu, i.rcv_mss, i.advmss));
    line.put(format_args!("cwnd:{}", i.snd_cwnd));
    line.some("ssthresh", if i.snd_ssthresh < SSTHRESH_NONE { i.snd_ssthresh } else { 0 });
    line.some("bytes_sent", i.bytes_sent);
    line.some("bytes_retrans", i.bytes_retrans);
    line.some("bytes_acked", i.bytes_acked);
    line.some("bytes_received", i.bytes_received);
    line.some("segs_out", i.segs_out);
    line.some("segs_in", i.segs_in);
    line.some("data_segs_out", i.data_segs_out);
    line.some("data_segs_in", i.data_segs_in);
    if !i.rtt.is_zero() {
        let bits = f64::from(i.snd_cwnd) * f64::from(i.snd_mss) * 8e6 / i.rtt.as_micros().max(1) as f64;
        line.put(format_args!("send {}", rate(bits)));
    }
    line.some("lastsnd", i.last_data_sent.as_millis() as u64);
    line.some("lastrcv", i.last_data_recv.as_millis() as u64);
    line.some("lastack", i.last_ack_recv.as_millis() as u64);
    if i.pacing_rate != 0 && i.pacing_rate != UNLIMITED {
        line.put(format_args!("pacing_rate {}", rate(i.pacing_rate as f64 * 8.0)));
    }
    if !i.busy_time.is_zero() {
        let share = |part: Duration| part.as_secs_f64() * 100.0 / i.busy_time.as_secs_f64();
        line.put(format_args!("busy:{}ms", i.busy_time.as_millis()));
        for (name, part) in [("rwnd_limited", i.rwnd_limited), ("sndbuf_limited", i.sndbuf_limited)] {
            if !part.is_zero() {
                line.put(format_args!("{name}:{}ms({:.1}%)", part.as_millis(), share(part)));
            }
        }
    }
    line.some("delivered", i.delivered);
    line.some("delivered_ce", i.delivered_ce);
    line.some("unacked", i.unacked);
    if i.retrans != 0 || i.total_retrans != 0 {
        line.put(format_args!("retrans:{}/{}", i.retrans, i.total_retrans));
    }
    line.some("lost", i.lost);
    line.some("sacked", i.sacked);
    line.some("dsack_dups", i.dsack_dups);
    line.some("reord_seen", i.reord_seen);
    if !i.rcv_rtt.is_zero() {
        line.put(format_args!("rcv_rtt:{}", ms(i.rcv_rtt)));
    }
    line.put(format_args!("rcv_space:{} rcv_ssthresh:{}", i.rcv_space, i.rcv_ssthresh));
    line.some("notsent", i.notsent_bytes);
    if !i.min_rtt.is_zero() {
        line.put(format_args!("minrtt:{}", ms(i.min_rtt)));
    }
    line.some("rcv_ooopack", i.rcv_ooopack);
    line.some("snd_wnd", i.snd_wnd);
    line.some("rcv_wnd", i.rcv_wnd);
    line.0
}

/// Returns the number of a state in struct tcp_info, from include/net/tcp_states.h.
fn number(state: SockState) -> u8 {
    match state {
        SockState::Tcp(State::Established) => 1,
        SockState::Tcp(State::SynSent) => 2,
        SockState::Tcp(State::SynReceived) => 3,
        SockState::Tcp(State::FinWait1) => 4,
        SockState::Tcp(State::FinWait2) => 5,
        SockState::Tcp(State::TimeWait) => 6,
        SockState::Tcp(State::Closed) => 7,
        SockState::Tcp(State::CloseWait) => 8,
        SockState::Tcp(State::LastAck) => 9,
        SockState::Listen => 10,
        SockState::Tcp(State::Closing) => 11,
    }
}

/// Returns the fields of struct tcp_info, with their names and units: microseconds, except that the
/// `last` fields are in milliseconds.
pub(super) fn info_json(i: &Info, state: SockState) -> Value {
    let us = |span: Duration| span.as_micros() as u64;
    let ms = |span: Duration| span.as_millis() as u64;
    let fields: [(&str, u64); 51] = [
        ("tcpi_state", number(state).into()),
        ("tcpi_ca_state", i.ca_state.into()),
        ("tcpi_retransmits", i.retransmits.into()),
        ("tcpi_probes", i.probes.into()),
        ("tcpi_backoff", i.backoff.into()),
        ("tcpi_options", i.options.into()),
        ("tcpi_snd_wscale", i.snd_wscale.into()),
        ("tcpi_rcv_wscale", i.rcv_wscale.into()),
        ("tcpi_rto", us(i.rto)),
        ("tcpi_ato", us(i.ato)),
        ("tcpi_snd_mss", i.snd_mss.into()),
        ("tcpi_rcv_mss", i.rcv_mss.into()),
        ("tcpi_unacked", i.unacked.into()),
        ("tcpi_sacked", i.sacked.into()),
        ("tcpi_lost", i.lost.into()),
        ("tcpi_retrans", i.retrans.into()),
        ("tcpi_last_data_sent", ms(i.last_data_sent)),
        ("tcpi_last_data_recv", ms(i.last_data_recv)),
        ("tcpi_last_ack_recv", ms(i.last_ack_recv)),
        ("tcpi_pmtu", i.pmtu.into()),
        ("tcpi_rcv_ssthresh", i.rcv_ssthresh.into()),
        ("tcpi_rtt", us(i.rtt)),
        ("tcpi_rttvar", us(i.rttvar)),
        ("tcpi_snd_ssthresh", i.snd_ssthresh.into()),
        ("tcpi_snd_cwnd", i.snd_cwnd.into()),
        ("tcpi_advmss", i.advmss.into()),
        ("tcpi_reordering", i.reordering.into()),
        ("tcpi_rcv_rtt", us(i.rcv_rtt)),
        ("tcpi_rcv_space", i.rcv_space.into()),
        ("tcpi_total_retrans", i.total_retrans.into()),
        ("tcpi_pacing_rate", i.pacing_rate),
        ("tcpi_bytes_acked", i.bytes_acked),
        ("tcpi_bytes_received", i.bytes_received),
        ("tcpi_segs_out", i.segs_out.into()),
        ("tcpi_segs_in", i.segs_in.into()),
        ("tcpi_notsent_bytes", i.notsent_bytes.into()),
        ("tcpi_min_rtt", us(i.min_rtt)),
        ("tcpi_data_segs_in", i.data_segs_in.into()),
        ("tcpi_data_segs_out", i.data_segs_out.into()),
        ("tcpi_busy_time", us(i.busy_time)),
        ("tcpi_rwnd_limited", us(i.rwnd_limited)),
        ("tcpi_sndbuf_limited", us(i.sndbuf_limited)),
        ("tcpi_delivered", i.delivered.into()),
        ("tcpi_delivered_ce", i.delivered_ce.into()),
        ("tcpi_bytes_sent", i.bytes_sent),
        ("tcpi_bytes_retrans", i.bytes_retrans),
        ("tcpi_dsack_dups", i.dsack_dups.into()),
        ("tcpi_reord_seen", i.reord_seen.into()),
        ("tcpi_rcv_ooopack", i.rcv_ooopack.into()),
        ("tcpi_snd_wnd", i.snd_wnd.into()),
        ("tcpi_rcv_wnd", i.rcv_wnd.into()),
    ];
    let mut out: Map<String, Value> = fields.iter().map(|(name, value)| (name.to_string(), (*value).into())).collect();
    out.insert("congestion".to_string(), i.congestion.into());
    Value::Object(out)
}
