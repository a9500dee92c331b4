//! The path's MTU: told by ICMP, or searched for (RFC 1191, RFC 8201, RFC 5927 7, RFC 8899).
//!
//! In units of MSS: text and TCP options, that is the MTU less IP and the fixed TCP header. An ICMP message only counts when
//! it quotes a segment that is under way, when it says less than what is used and no less than the floor. When large
//! segments vanish and nothing says why, after some timeouts the MSS falls to what any path carries (RFC 8899 4.3); with
//! probing on, the search then goes up again, by halves, with text as probes.

use crate::note::Notes;
use crate::scoreboard::mark;
use crate::tcb::{Pmtu, Tcb};
use crate::{Events, SeqNum, State};
use clock::{Duration, Instant};

/// Timeouts in a row that look like a black hole: fewer are more often congestion, or a peer that is away.
const BLACK_HOLE: u8 = 4;
/// RFC 8899 5.1.2: a probe is tried so often.
const MAX_PROBES: u8 = 3;
/// RFC 8899 5.1.1: PMTU_RAISE_TIMER; RFC 1191 6.3: at least 5 minutes after a message.
const RAISE: Duration = Duration::from_secs(600);
/// Where a search that knows nothing begins: Ethernet's payload is common, so is half of it.
const BASE: u16 = 1024;

/// An error about a segment of ours: an ICMP message as the host read it, or its own neighbor resolution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcmpNotice {
    /// Port, protocol or administratively unreachable: nobody there who would answer.
    Refused,
    /// Host or network unreachable, time exceeded: this may pass.
    Unreachable,
    /// The next hop did not answer this host's own ARP or neighbor solicitations. Unlike an ICMP message
    /// this cannot be forged from afar, and it is no transient fault of a distant router.
    NoNeighbor,
    /// Too big and not to be fragmented; the next hop carries `mss` bytes after the fixed headers, 0: it does not say.
    TooBig {
        /// MTU less IP and fixed TCP header.
        mss: u16,
    },
    /// Source quench: ignored (RFC 6633).
    SourceQuench,
}

impl Tcb {
    /// An ICMP message quotes a segment of this connection that began at `seq`.
    pub fn on_icmp(&mut self, what: IcmpNotice, seq: SeqNum, now: Instant) -> Events {
        // RFC 5927 4.1: only what is under way can have been dropped.
        if !(seq.at_or_after(self.snd.una) && seq.before(self.snd.nxt)) || self.state == State::Closed {
            self.notes |= Notes::ICMP_REFUSED;
            return Events::NONE;
        }
        match what {
            IcmpNotice::SourceQuench => Events::NONE,
            IcmpNotice::TooBig { mss } => {
                self.on_too_big(mss, now);
                Events::NONE
            }
            // RFC 5927 5.2: once synchronized no message ends a connection.
            _ if self.state.is_synchronized() => Events::SOFT_ERROR,
            IcmpNotice::Refused => {
                self.over();
                Events::REFUSED | Events::CLOSED
            }
            // As Linux and BSD: a connect fails as soon as neighbor resolution does (arp_error_report,
            // EHOSTDOWN), and not with the last retransmission of its SYN. MUST-56 is about ICMP.
            IcmpNotice::NoNeighbor => {
                self.over();
                Events::UNREACHABLE | Events::CLOSED
            }
            // RFC 9293 3.9.2.2 (MUST-56): soft errors do not abort; the timers will, if it lasts.
            IcmpNotice::Unreachable => Events::SOFT_ERROR,
        }
    }

    /// A path that the host has used before carries `mss` (RFC 1191 6.3); what we advertise is not about the path (RFC 6691).
    pub fn know_path(&mut self, mss: u16, now: Instant) {
        let mss = mss.max(self.floor());
        if mss < self.path_mss() {
            self.shrink(mss, now);
        }
    }

    /// RFC 1191 6.4: what did not fit is sent again at once, smaller; the congestion window does not pay for it.
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
            self.notes |= Notes::MTU_RESEND;
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

    /// Another timeout: if full segments were sent, perhaps they are too large, and nothing says so (RFC 8899 4.3).
    pub(crate) fn black_hole_suspected(&mut self, now: Instant) {
        let large = self.board.front().is_some_and(|front| front.text_len() > u32::from(self.floor()));
        if self.recovery.retransmits < BLACK_HOLE || !large {
            return;
        }
        let present = self.path_mss();
        let next = if present > BASE { BASE } else { self.floor() };
        self.notes |= Notes::BLACK_HOLE;
        if next < present {
            self.notes |= Notes::MTU_LOWERED;
            self.shrink(next, now);
        }
    }

    /// The size of a probe to send now, in bytes of text (RFC 8899 5.3.2): only when nothing is amiss.
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
        // Enough text behind it that its loss is noticed without a timeout.
        let enough = unsent >= text + 3 * u32::from(self.snd.mss) && room >= text + 3 * u32::from(self.snd.mss);
        enough.then_some(text)
    }

    /// A probe of `text` bytes that ends at `end` left.
    pub(crate) fn on_mtu_probe(&mut self, text: u32, end: SeqNum) {
        let options = self.path_mss().saturating_sub(self.snd.mss);
        if let Some(pmtu) = &mut self.pmtu {
            pmtu.probe = Some(((text as u16).saturating_add(options), end));
        }
    }

    /// SND.UNA moved past a probe: it passed.
    pub(crate) fn check_mtu_probe(&mut self) {
        let una = self.snd.una;
        let Some(pmtu) = &mut self.pmtu else { return };
        let Some((size, end)) = pmtu.probe else { return };
        if una.at_or_after(end) {
            (pmtu.mss, pmtu.failed, pmtu.probe) = (pmtu.mss.max(size), 0, None);
            self.notes |= Notes::MTU_PROBE_ACKED;
            self.set_mss();
        }
    }

    /// The one record taken for lost is the probe: it was too large, and that is no congestion (RFC 8899 3, (7)).
    pub(crate) fn only_mtu_probe_lost(&mut self) -> bool {
        let Some((size, end)) = self.pmtu.as_ref().and_then(|pmtu| pmtu.probe) else { return false };
        if self.board.lost().segments != 1 || !self.board.ending_at(end).is_some_and(|record| record.has(mark::LOST)) {
            return false;
        }
        self.notes |= Notes::MTU_PROBE_LOST;
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

/// RFC 1191 7.1: the next lower MTU that is in use somewhere, less 40, for routers that do not say theirs.
fn plateau_below(mss: u16) -> u16 {
    const PLATEAUS: [u16; 10] = [32_000, 17_914, 8166, 4352, 2002, 1492, 1006, 576, 552, 296];
    PLATEAUS.iter().map(|mtu| mtu - 40).find(|plateau| *plateau < mss).unwrap_or(256)
}
