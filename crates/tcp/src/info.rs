//! Connection statistics for `getsockopt(TCP_INFO)` and `ss -i`: the fields of Linux's struct
//! tcp_info under its names.

use crate::State;
use crate::cc::Congestion;
use crate::tcb::{Ca, ColdEvents, Rtx, Tcb};
use clock::{Duration, Instant};

/// Statistics of a connection. Windows are in segments where Linux reports segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names and meanings are those of struct tcp_info")]
pub struct Info {
    pub state: State,
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    /// TCPI_OPT_*: timestamps 1, SACK 2, window scale 4, ECN 8, ECN seen 16.
    pub options: u8,
    pub snd_wscale: u8,
    pub rcv_wscale: u8,
    pub rto: Duration,
    pub ato: Duration,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub last_data_sent: Duration,
    pub last_data_recv: Duration,
    pub last_ack_recv: Duration,
    /// Path MTU minus the IP header: the MSS plus the fixed TCP header of 20 bytes.
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    pub rtt: Duration,
    pub rttvar: Duration,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt: Duration,
    pub rcv_space: u32,
    pub total_retrans: u32,
    pub pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub notsent_bytes: u32,
    pub min_rtt: Duration,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    pub delivered: u32,
    pub delivered_ce: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub snd_wnd: u32,
    pub rcv_wnd: u32,
    pub busy_time: Duration,
    pub rwnd_limited: Duration,
    pub sndbuf_limited: Duration,
    /// Congestion window in bytes.
    pub cwnd_bytes: u32,
    /// Bytes in flight (RFC 6675: pipe).
    pub in_flight: u32,
    /// Name of the congestion control algorithm (`TCP_CONGESTION`).
    pub congestion: &'static str,
}

impl Tcb {
    /// Returns the smoothed round-trip time; `None` before the first sample.
    pub fn srtt(&self) -> Option<Duration> {
        self.rtt.srtt()
    }

    /// Returns the connection's statistics at `now`.
    pub fn info(&self, now: Instant) -> Info {
        let (snd, rcv, counts) = (&self.snd, &self.rcv, &self.counts);
        let mss = u32::from(snd.mss.max(1));
        let segments = |bytes: u32| if bytes == u32::MAX { i32::MAX as u32 } else { bytes / mss };
        let persisting = self.timers.rtx == Rtx::Persist;
        let keepalive = self
            .cold_options
            .as_ref()
            .and_then(|cold_options| cold_options.keepalive)
            .map_or(0, |keepalive| keepalive.probes);
        let none = ColdEvents::new(snd.iss);
        let cold_events = self.cold_events.as_deref().unwrap_or(&none);
        let [busy_time, rwnd_limited, sndbuf_limited] = self.chrono_report(now);
        Info {
            state: self.state,
            ca_state: self.recovery.ca as u8,
            retransmits: if persisting { 0 } else { self.recovery.retransmits },
            probes: if persisting { self.recovery.retransmits } else { keepalive },
            backoff: self.recovery.backoff,
            options: self.option_bits(),
            snd_wscale: snd.wscale,
            rcv_wscale: rcv.wscale,
            rto: self.rto(),
            ato: Duration::from_micros(rcv.ato_us.into()),
            snd_mss: mss,
            rcv_mss: rcv.mss_seen.into(),
            unacked: self.board.len() as u32,
            sacked: if self.sack { self.board.sacked().segments } else { self.recovery.dupacks.into() },
            lost: self.board.lost().segments,
            retrans: self.board.retrans().segments,
            last_data_sent: now.since(snd.last_at),
            // If no data has arrived, the time since the end of the handshake or since the last
            // segment is reported (as Linux does).
            last_data_recv: now.since(if rcv.last_at == Instant::ZERO { self.recovery.heard_at } else { rcv.last_at }),
            last_ack_recv: now.since(self.recovery.heard_at),
            pmtu: u32::from(self.pmtu.as_ref().map_or(self.config.mss, |pmtu| pmtu.mss)) + 40,
            rcv_ssthresh: rcv.space,
            rtt: self.rtt.srtt().unwrap_or_default(),
            rttvar: self.rtt.rttvar(),
            snd_ssthresh: segments(self.cc.ssthresh()),
            snd_cwnd: segments(self.cc.cwnd()).max(1),
            advmss: self.own_mss().into(),
            reordering: self.rack.degree.into(),
            rcv_rtt: Duration::from_micros(rcv.sizing.rtt_us.into()),
            rcv_space: rcv.sizing.most.max(rcv.space.min(u16::MAX.into())),
            total_retrans: cold_events.total_retrans,
            pacing_rate: self.pacing_rate(),
            bytes_acked: counts.bytes_acked,
            bytes_received: counts.bytes_received,
            segs_out: counts.segs_out,
            segs_in: counts.segs_in,
            notsent_bytes: self.not_sent(),
            min_rtt: self.rtt.min().unwrap_or_default(),
            data_segs_in: counts.data_segs_in,
            data_segs_out: counts.data_segs_out,
            delivered: counts.delivered,
            delivered_ce: cold_events.delivered_ce,
            bytes_sent: counts.bytes_sent.wrapping_add(cold_events.bytes_retrans),
            bytes_retrans: cold_events.bytes_retrans,
            dsack_dups: cold_events.dsack_dups,
            reord_seen: cold_events.reord_seen,
            rcv_ooopack: cold_events.ooo_packets,
            snd_wnd: snd.wnd,
            rcv_wnd: self.recv_window(),
            busy_time,
            rwnd_limited,
            sndbuf_limited,
            cwnd_bytes: self.cc.cwnd(),
            in_flight: self.in_flight(),
            congestion: self.cc.name(),
        }
    }

    fn option_bits(&self) -> u8 {
        let scaled = self.snd.wscale > 0 || self.rcv.wscale > 0;
        u8::from(self.ts.is_some())
            | u8::from(self.sack) << 1
            | u8::from(scaled) << 2
            | u8::from(self.ecn.on) << 3
            | u8::from(self.ecn.echo) << 4
    }

    /// Returns whether loss recovery is in progress (state Recovery or Loss).
    pub fn is_recovering(&self) -> bool {
        self.recovery.ca >= Ca::Recovery
    }
}
