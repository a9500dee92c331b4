//! Path MTU discovery: from ICMP, or by search (RFC 1191, RFC 8201, RFC 5927 7, RFC 8899).
//! Sizes are MSS values: data and TCP options, that is, the MTU minus the IP header and the fixed
//! TCP header. An ICMP message is accepted only if it quotes a segment in flight and reports a size
//! below the current one. No message reduces the MSS below the minimum. When large segments are
//! lost without an ICMP message, the MSS is reduced after some timeouts to a size that fits any
//! path (RFC 8899 4.3). With probing enabled, the search then raises the MSS again by bisection,
//! with segments of data as probes.

use crate::rare_events::RareEvents;
use crate::scoreboard::mark;
use crate::tcb::{Pmtu, Tcb};
use crate::{Events, SeqNum, State};
use alloc::boxed::Box;
use clock::{Duration, Instant};

/// Number of consecutive timeouts that indicate a black hole. Fewer timeouts are more often caused
/// by congestion or by an absent peer.
const BLACK_HOLE: u8 = 4;
/// Attempts per probe size (RFC 8899 5.1.2).
const MAX_PROBES: u8 = 3;
/// Interval between searches for a larger MTU: PMTU_RAISE_TIMER (RFC 8899 5.1.1). RFC 1191 6.3
/// requires at least 5 minutes after an ICMP message.
const RAISE: Duration = Duration::from_secs(600);
/// First size, in bytes, to which the MSS is reduced when a black hole is suspected. It is below
/// the MSS of Ethernet, so that segments fit most paths.
const BASE: u16 = 1024;

/// Error about a segment that we sent: an ICMP message parsed by the host, or a failure of the
/// host's own neighbor resolution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcmpNotice {
    /// Port or protocol unreachable, or communication administratively prohibited.
    Refused,
    /// Host or network unreachable, or time exceeded: possibly transient.
    Unreachable,
    /// The next hop did not answer this host's own ARP or neighbor solicitations. Unlike an ICMP
    /// message, this cannot be forged remotely and is not a transient fault of a distant router.
    NoNeighbor,
    /// The packet was too big and had the don't-fragment bit set. The next hop forwards at most
    /// `mss` bytes after the fixed headers; 0 if unknown.
    TooBig {
        /// MTU of the next hop minus the IP and fixed TCP headers.
        mss: u16,
    },
    /// Source quench: ignored (RFC 6633).
    SourceQuench,
}

impl Tcb {
    /// Processes an ICMP message that quotes a segment of this connection starting at `seq`.
    pub fn on_icmp(&mut self, what: IcmpNotice, seq: SeqNum, now: Instant) -> Events {
        // RFC 5927 4.1: only a segment in flight can have been dropped.
        if !(seq.at_or_after(self.snd.una) && seq.before(self.snd.nxt)) || self.state == State::Closed {
            self.rare_events |= RareEvents::ICMP_REFUSED;
            return Events::NONE;
        }
        match what {
            IcmpNotice::SourceQuench => Events::NONE,
            IcmpNotice::TooBig { mss } => {
                self.on_too_big(mss, now);
                Events::NONE
            }
            // RFC 5927 5.2: no message ends a synchronized connection.
            _ if self.state.is_synchronized() => Events::SOFT_ERROR,
            IcmpNotice::Refused => {
                self.over();
                Events::REFUSED | Events::CLOSED
            }
            // As in Linux and BSD, a connect fails as soon as neighbor resolution fails
            // (arp_error_report, EHOSTDOWN), and not with the last SYN retransmission. MUST-56
            // applies to ICMP only.
            IcmpNotice::NoNeighbor => {
                self.over();
                Events::UNREACHABLE | Events::CLOSED
            }
            // RFC 9293 3.9.2.2 (MUST-56): soft errors do not abort the connection. If the error
            // persists, a timer does.
            IcmpNotice::Unreachable => Events::SOFT_ERROR,
        }
    }

    /// Applies the MTU that the host has already stored for this path (RFC 1191 6.3). The
    /// advertised MSS does not depend on the path (RFC 6691).
    pub fn know_path(&mut self, mss: u16, now: Instant) {
        let mss = mss.max(self.floor());
        if mss < self.path_mss() {
            self.shrink(mss, now);
        }
    }

    /// Lowers the MSS. Segments that did not fit are retransmitted at once in smaller ones. The
    /// congestion window is not reduced (RFC 1191 6.4).
    fn on_too_big(&mut self, mss: u16, now: Instant) {
        let present = self.path_mss();
        let mss = if mss == 0 { plateau_below(present) } else { mss };
        let mss = mss.max(self.floor());
        if mss >= present {
            return;
        }
        self.shrink(mss, now);
        if self.state.may_send() && self.board.mark_lost_above(self.snd.mss.into()) {
            self.recovery.force_front = true;
            self.rare_events |= RareEvents::MTU_RESEND;
            self.enter_loss_of_size();
        }
    }

    fn floor(&self) -> u16 {
        self.config.min_path_mss.min(self.config.mss)
    }

    fn path_mss(&self) -> u16 {
        self.pmtu.as_ref().map_or(self.config.mss, |pmtu| pmtu.mss)
    }

    fn shrink(&mut self, mss: u16, now: Instant) {
        let above = self.path_mss();
        let raise_at = now.after(RAISE);
        self.pmtu = Some(Box::new(Pmtu { mss, above, probe: None, failed: 0, raise_at }));
        self.set_mss();
    }

    /// Handles another consecutive timeout. If full segments were sent, they may be too large for
    /// the path although no ICMP message arrived (RFC 8899 4.3).
    pub(crate) fn black_hole_suspected(&mut self, now: Instant) {
        let large = self.board.front().is_some_and(|front| front.text_len() > u32::from(self.floor()));
        if self.recovery.retransmits < BLACK_HOLE || !large {
            return;
        }
        let present = self.path_mss();
        let next = if present > BASE { BASE } else { self.floor() };
        self.rare_events |= RareEvents::BLACK_HOLE;
        if next < present {
            self.rare_events |= RareEvents::MTU_LOWERED;
            self.shrink(next, now);
        }
    }

    /// Returns the number of data bytes of a probe to send now (RFC 8899 5.3.2). Returns `None` if
    /// no probe is due, and always during loss recovery.
    pub(crate) fn mtu_probe(&mut self, unsent: u32, room: u32, now: Instant) -> Option<u32> {
        if !self.config.mtu_probing || !self.recovery.is_quiet() {
            return None;
        }
        let peer = self.snd.peer_mss;
        let options = self.path_mss().saturating_sub(self.snd.mss);
        let pmtu = self.pmtu.as_mut()?;
        if now >= pmtu.raise_at && pmtu.candidate().is_none() {
            pmtu.above = self.config.mss.saturating_add(1);
            pmtu.raise_at = now.after(RAISE);
        }
        if pmtu.probe.is_some() {
            return None;
        }
        let size = pmtu.candidate().filter(|size| *size <= peer && *size <= self.config.mss)?;
        let text = u32::from(size.saturating_sub(options));
        // Enough data follows the probe that its loss is detected without a timeout.
        let enough = unsent >= text + 3 * u32::from(self.snd.mss) && room >= text + 3 * u32::from(self.snd.mss);
        enough.then_some(text)
    }

    /// Records that a probe of `text` bytes ending at `end` was sent.
    pub(crate) fn on_mtu_probe(&mut self, text: u32, end: SeqNum) {
        let options = self.path_mss().saturating_sub(self.snd.mss);
        if let Some(pmtu) = &mut self.pmtu {
            pmtu.probe = Some(((text as u16).saturating_add(options), end));
        }
    }

    /// Records a probe as successful once SND.UNA passes it.
    pub(crate) fn check_mtu_probe(&mut self) {
        let una = self.snd.una;
        let Some(pmtu) = &mut self.pmtu else { return };
        let Some((size, end)) = pmtu.probe else { return };
        if una.at_or_after(end) {
            (pmtu.mss, pmtu.failed, pmtu.probe) = (pmtu.mss.max(size), 0, None);
            self.rare_events |= RareEvents::MTU_PROBE_ACKED;
            self.set_mss();
        }
    }

    /// Returns whether the only lost record is the MTU probe. If so, records that the probe failed:
    /// it was too large, which is not a sign of congestion (RFC 8899 3, (7)).
    pub(crate) fn only_mtu_probe_lost(&mut self) -> bool {
        let Some((size, end)) = self.pmtu.as_ref().and_then(|pmtu| pmtu.probe) else { return false };
        if self.board.lost().segments != 1 || !self.board.ending_at(end).is_some_and(|record| record.has(mark::LOST)) {
            return false;
        }
        self.rare_events |= RareEvents::MTU_PROBE_LOST;
        if let Some(pmtu) = &mut self.pmtu {
            pmtu.probe = None;
            pmtu.failed += 1;
            if pmtu.failed >= MAX_PROBES {
                (pmtu.above, pmtu.failed) = (size, 0);
            }
        }
        true
    }
}

/// Returns the next common MTU below the current one, minus 40 bytes of headers, for routers that
/// do not report theirs (RFC 1191 7.1).
fn plateau_below(mss: u16) -> u16 {
    const PLATEAUS: [u16; 10] = [32_000, 17_914, 8166, 4352, 2002, 1492, 1006, 576, 552, 296];
    PLATEAUS.iter().map(|mtu| mtu - 40).find(|plateau| *plateau < mss).unwrap_or(256)
}
