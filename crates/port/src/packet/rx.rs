//! The receiving half: reads the ring slot by slot.
//!
//! A frame of at most the MTU goes into a buffer of the pool. A large segment goes into a large
//! buffer; if that is the last large buffer, the segment is split (`offload::large`). The slot of a
//! large segment contains only its beginning, and the whole segment waits in the socket's queue. If
//! no buffer is free, the frame stays in its slot until the next poll. When the ring is empty, the
//! port checks periodically how many frames the kernel lost and whether the interface is up.

use super::config::PacketConfig;
use super::slot::{self, Extent, Packet};
use crate::offload::large::{Cut, Large};
use crate::offload::{self, RxCsum, virtio};
use crate::os::packet::rx::RxRing;
use crate::os::packet::{bound_to, is_running, take_error};
use crate::os::tun::VNET_HDR_LEN;
use crate::{PortCounts, RxHalf};
use buf::{Burst, Flags, Frame, Pool};
use clock::{Duration, Instant};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use wire::{eth, vlan};

/// Number of empty polls between two checks of the socket's state.
const LOOK_EVERY: u32 = 64;
/// Time between two checks while the interface is down.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

pub(super) struct PacketRx {
    name: String,
    ring: RxRing,
    pool: Pool,
    /// Maximum length, in bytes, of a frame that fits into a buffer of `pool`.
    room: usize,
    large: Large,
    counts: Arc<PortCounts>,
    rx_csum: RxCsum,
    /// True if large segments are passed on unsplit.
    whole: bool,
    vnet_hdr: bool,
    requested: u32,
    /// Time of the last poll.
    now: Instant,
    is_down: bool,
    gone: bool,
    seen: ReceivedPacket,
}

/// Events since the port was opened, for the port's warnings.
#[derive(Default)]
struct ReceivedPacket {
    lost: u64,
    downs: u64,
    uncuttable: u64,
    cut_short: u64,
    crowded: u64,
}

/// Result of reading the ring.
enum Got {
    Frame(Frame),
    /// The frame was invalid and was dropped.
    Malformed,
    /// The frame was dropped and counted.
    Dropped,
    /// No frame is available now.
    Empty,
}

impl PacketRx {
    pub(super) fn new(
        name: &str,
        ring: RxRing,
        counts: Arc<PortCounts>,
        config: &PacketConfig,
        pool: Pool,
        large: Option<Pool>,
    ) -> PacketRx {
        let rx_csum = if config.rx_csum == RxCsum::Trust { RxCsum::Trust } else { RxCsum::Complete };
        PacketRx {
            name: name.to_string(),
            ring,
            room: pool.size() - pool.headroom(),
            pool,
            large: Large::new(large),
            counts,
            rx_csum,
            whole: config.lro,
            vnet_hdr: config.vnet_hdr,
            requested: 0,
            now: Instant::ZERO,
            is_down: false,
            gone: false,
            seen: ReceivedPacket::default(),
        }
    }

    #[inline]
    fn next(&mut self) -> Got {
        if self.large.is_cutting() {
            let cut = self.large.cut(&self.pool);
            return self.cut(cut);
        }
        let Some(slot) = self.ring.next() else { return Got::Empty };
        let Some(packet) = Packet::parse(slot) else {
            self.ring.skip();
            return Got::Malformed;
        };
        if packet.status & libc::TP_STATUS_LOSING != 0 {
            count_lost(&self.ring, &self.counts, &mut self.seen);
        }
        let buffer = match packet.extent() {
            Extent::Whole if packet.len() <= self.room => self.pool.get(),
            Extent::Whole | Extent::Queued if self.large.is_some() => large_buffer(&mut self.large, self.whole),
            _ => return self.leave_out(),
        };
        let Some(mut frame) = buffer else {
            self.counts.rx.no_buffer.bump();
            return Got::Empty;
        };
        let is_large = packet.vnet.get(1).is_some_and(|kind| *kind != virtio::GSO_NONE) && self.vnet_hdr;
        let got = match packet.extent() {
            Extent::Queued => read_queued(&self.ring, &packet, &mut frame),
            _ => packet.copy_to(&mut frame),
        };
        let understood = got.and_then(|()| self.understand(&packet, &mut frame));
        self.ring.release();
        if understood.is_none() {
            self.seen.uncuttable += u64::from(is_large);
            self.large.keep(frame);
            return Got::Malformed;
        }
        if frame.flags().has(Flags::GSO) && (!self.whole || self.large.is_spent()) {
            let cut = self.large.split(frame, &self.pool);
            return self.cut(cut);
        }
        if self.large.is_spent() {
            // The last large buffer contains a packet of a large MTU, which cannot be split.
            self.large.keep(frame);
            self.counts.rx.no_buffer.bump();
            return Got::Dropped;
        }
        Got::Frame(frame)
    }

    /// Drops a frame that is longer than any buffer, or that the kernel truncated.
    #[cold]
    fn leave_out(&mut self) -> Got {
        // If the port has large buffers, the kernel queues long frames in the socket, so a
        // truncated frame means that this queue was full.
        let crowded = self.large.is_some();
        self.seen.crowded += u64::from(crowded);
        self.seen.cut_short += u64::from(!crowded);
        self.ring.release();
        Got::Malformed
    }

    /// Sets the frame's flags, or completes its checksum, according to the virtio header or the
    /// slot's status. Returns `None` if the frame or the header is invalid.
    #[inline]
    fn understand(&self, packet: &Packet<'_>, frame: &mut Frame) -> Option<()> {
        if packet.bytes.len() < eth::HEADER_LEN {
            return None;
        }
        if self.vnet_hdr {
            let mut header = virtio::Header::parse(&packet.vnet);
            if packet.tag.is_some() {
                header.csum_start = header.csum_start.saturating_add(vlan::TAG_LEN as u16);
            }
            // The checksums of a segment that is to be split are filled in during the split.
            let cuts = header.gso_type != virtio::GSO_NONE && (!self.whole || self.large.is_spent());
            let rx_csum = if cuts { RxCsum::Trust } else { self.rx_csum };
            return virtio::understand(&header, frame, rx_csum, usize::MAX);
        }
        if packet.status & (libc::TP_STATUS_CSUM_VALID | libc::TP_STATUS_CSUMNOTREADY) != 0 {
            frame.set_flags(frame.flags().with(Flags::RX_L4_OK));
        }
        if packet.status & libc::TP_STATUS_CSUMNOTREADY != 0 {
            frame.set_flags(frame.flags().with(Flags::TX_L4_CSUM));
            if self.rx_csum != RxCsum::Trust {
                return offload::complete(frame);
            }
        }
        Some(())
    }

    #[cold]
    fn cut(&mut self, cut: Cut) -> Got {
        match cut {
            Cut::Piece(piece) => Got::Frame(piece),
            Cut::Uncuttable => Got::Malformed,
            Cut::NoBuffer => {
                self.counts.rx.no_buffer.bump();
                Got::Empty
            }
        }
    }

    /// Checks for lost frames, and the interface's state. Called after an empty poll.
    fn look(&mut self) {
        self.requested = self.requested.wrapping_add(1);
        if self.requested % LOOK_EVERY != 1 {
            return;
        }
        count_lost(&self.ring, &self.counts, &mut self.seen);
        if take_error(self.ring.as_fd()).is_some() | self.ring.take_failed() {
            self.seen.downs += 1;
            self.is_down = true;
        }
        // Frames received earlier still arrive. If the interface was down, the kernel does not
        // report the deletion of the interface.
        if self.is_down && bound_to(self.ring.as_fd()).is_none() {
            self.gone = true;
            self.counts.rx.errors.bump();
        } else if self.is_down {
            self.is_down = !is_running(&self.name);
        }
    }
}

#[cold]
fn count_lost(ring: &RxRing, counts: &PortCounts, seen: &mut ReceivedPacket) {
    let lost = ring.lost();
    counts.rx.missed.add(lost);
    seen.lost += lost;
}

/// Reads a frame that is longer than its slot from the socket's queue into `frame`. Returns `None`
/// if the frame is longer than the buffer too.
#[cold]
fn read_queued(ring: &RxRing, packet: &Packet<'_>, frame: &mut Frame) -> Option<()> {
    // The virtio header is also in the slot, so the copy read here is ignored.
    let (mut vnet, mut beyond) = ([0; VNET_HDR_LEN], [0]);
    let room = frame.tailroom();
    let mut parts = [IoSliceMut::new(&mut vnet), IoSliceMut::new(frame.append(room)?), IoSliceMut::new(&mut beyond)];
    let len = ring.read_long(&mut parts).ok()?.checked_sub(VNET_HDR_LEN)?;
    if len > room {
        return None;
    }
    frame.truncate(len);
    packet.tag.map_or(Some(()), |tag| slot::insert_tag(frame, tag))
}

/// Returns a buffer for a frame too long for the pool's buffers.
#[cold]
fn large_buffer(large: &mut Large, whole: bool) -> Option<Frame> {
    let buffer = if whole { large.get() } else { None };
    buffer.or_else(|| large.take())
}

impl RxHalf for PacketRx {
    fn rx_burst(&mut self, into: &mut Burst, most: usize, now: Instant) -> usize {
        let (mut frames, mut bytes) = (0, 0);
        let most = if self.gone { 0 } else { most.min(into.room()) };
        self.now = now;
        while frames < most {
            match self.next() {
                Got::Frame(frame) => {
                    frames += 1;
                    bytes += frame.len() as u64;
                    // The push cannot fail, because `most` is limited to the free slots of `into`.
                    into.put(frame, || self.counts.rx.bugs.bump());
                }
                Got::Malformed => self.counts.rx.malformed.bump(),
                Got::Dropped => {}
                Got::Empty => break,
            }
        }
        self.counts.rx.frames.add(frames as u64);
        self.counts.rx.bytes.add(bytes);
        if frames == 0 && most > 0 {
            self.counts.rx.idle.bump();
            self.look();
        }
        frames
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        (!self.gone).then(|| self.ring.as_fd())
    }

    fn next_event(&self) -> Option<Instant> {
        if self.large.is_cutting() {
            return Some(Instant::ZERO); // at once
        }
        (self.is_down && !self.gone).then(|| self.now.after(LOOK_AGAIN))
    }

    fn is_gone(&self) -> bool {
        self.gone
    }

    fn why_gone(&self) -> Option<String> {
        self.gone.then(|| format!("interface {} is gone: deleted, or moved to another namespace", self.name))
    }

    fn warnings(&self) -> Vec<String> {
        let ReceivedPacket { lost, downs, uncuttable, cut_short, crowded } = self.seen;
        let name = &self.name;
        let all = [
            (lost, format!("{lost} frames lost: the receive ring was full; raise rx_ring")),
            (downs, format!("interface {name} was found down {downs} times")),
            (
                uncuttable,
                format!(
                    "{uncuttable} large segments dropped: not TCP over IPv4; turn off tso and gso at the sender of \
                     {name} (ethtool -K)"
                ),
            ),
            (
                cut_short,
                format!(
                    "{cut_short} frames dropped: longer than a buffer; the MTU of {name} was raised, or vnet_hdr is off"
                ),
            ),
            (
                crowded,
                format!(
                    "{crowded} large segments dropped: the socket's buffer was full; raise net.core.rmem_max, or turn \
                     off gso at the sender of {name} (ethtool -K)"
                ),
            ),
        ];
        all.into_iter().filter(|(count, _)| *count > 0).map(|(_, sentence)| sentence).collect()
    }
}
