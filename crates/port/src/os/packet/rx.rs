//! The ring of slots that a packet socket fills (TPACKET_V2).
//!
//! The kernel puts each frame into the next slot and gives it away at once: its status word, the first of the slot, says USER. Who has
//! read it gives it back. A frame that is longer than a slot, a large segment mostly, waits as a whole in the socket's queue as well
//! (`PACKET_COPY_THRESH`; its status says COPY), from which it is read with one copy. TPACKET_V3, whose blocks take frames without
//! gaps, gives a block away only when it is full or a timer of at least a millisecond has expired.

use super::map::Map;
use super::{Failure, bind, get, open, ring, set, widen_rx};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, IoSliceMut, Read};
use std::os::fd::{AsFd, BorrowedFd};

/// Which socket of a fanout group gets a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FanoutMode {
    /// The one of the frame's flow: a hash over addresses and L4 ports, the same for both directions.
    #[default]
    Hash,
    /// One after the other.
    Lb,
    /// The one of the processor that received it.
    Cpu,
    /// The first, until its ring is full; then the next.
    Rollover,
}

/// How a socket is to receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Slots in the ring: a power of two.
    pub slots: u32,
    /// Bytes of a slot: a power of two, at least 256.
    pub slot: u32,
    /// Queue frames that are longer than a slot as a whole.
    pub queue_long: bool,
    /// A virtio header in front of every frame.
    pub vnet_hdr: bool,
    /// Receive also what is addressed to other stations.
    pub promisc: bool,
    /// Leave out what the interface sends.
    pub ignore_outgoing: bool,
    /// Share the interface's frames with the other sockets of this group.
    pub fanout: Option<(u16, FanoutMode)>,
}

/// A socket with its ring.
#[derive(Debug)]
pub struct RxRing {
    map: Map,
    socket: File,
    slot: usize,
    slots: usize,
    /// The slot that is read, or that is waited for.
    at: usize,
    /// An error of the socket was consumed by reading its queue.
    failed: Cell<bool>,
}

/// Bytes of `struct tpacket2_hdr`, with which a slot begins; the status word is the first.
pub const HEADER_LEN: usize = size_of::<libc::tpacket2_hdr>();
/// Bytes of a slot in front of a frame, at most: header, address, alignment, virtio header (net/packet/af_packet.c, tpacket_rcv).
pub const FRONT: usize = 128;

impl RxRing {
    /// Opens a socket on interface number `index`, with a ring. It receives from now on.
    ///
    /// # Errors
    /// The step that failed: `socket` (EPERM: no CAP_NET_RAW), `PACKET_RX_RING` (ENOMEM), `PACKET_FANOUT` (EINVAL: the group is of
    /// another kind) ...
    pub fn open(index: u32, config: &Config) -> Result<RxRing, Failure> {
        let socket = open()?;
        set(&socket, "PACKET_VERSION", libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as i32))?;
        if config.vnet_hdr {
            set(&socket, "PACKET_VNET_HDR", libc::PACKET_VNET_HDR, &1i32)?;
        }
        if config.ignore_outgoing {
            set(&socket, "PACKET_IGNORE_OUTGOING", libc::PACKET_IGNORE_OUTGOING, &1i32)?;
        }
        if config.queue_long {
            set(&socket, "PACKET_COPY_THRESH", libc::PACKET_COPY_THRESH, &1i32)?;
            widen_rx(&socket);
        }
        let steps = ["PACKET_RX_RING", "mmap of PACKET_RX_RING"];
        let map = ring(&socket, libc::PACKET_RX_RING, steps, config.slot, config.slots)?;
        // Only now: what came before would wait in a queue that nobody reads.
        bind(socket.as_fd(), index, libc::ETH_P_ALL as u16)?;
        if config.promisc {
            let mode = libc::packet_mreq {
                mr_ifindex: index.cast_signed(),
                mr_type: libc::PACKET_MR_PROMISC as u16,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            set(&socket, "PACKET_ADD_MEMBERSHIP", libc::PACKET_ADD_MEMBERSHIP, &mode)?;
        }
        if let Some((group, mode)) = config.fanout {
            set(&socket, "PACKET_FANOUT", libc::PACKET_FANOUT, &fanout(group, mode, config.ignore_outgoing))?;
        }
        let (slot, slots) = (config.slot as usize, config.slots as usize);
        Ok(RxRing { map, socket: File::from(socket), slot, slots, at: 0, failed: Cell::new(false) })
    }

    /// The bytes of the next slot, if the kernel has given it away.
    #[inline]
    pub fn next(&self) -> Option<&[u8]> {
        let from = self.at * self.slot;
        if self.map.status(from) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the kernel has given this slot away, and does not write to it before `release`, which needs `&mut self`.
        Some(unsafe { self.map.bytes(from, from + self.slot) })
    }

    /// Gives the slot back that [`RxRing::next`] returned, and goes on to the one after it.
    #[inline]
    pub fn release(&mut self) {
        self.map.set_status(self.at * self.slot, libc::TP_STATUS_KERNEL);
        self.at = if self.at + 1 < self.slots { self.at + 1 } else { 0 };
    }

    /// Gives a slot back unread, and drops the frame that the queue has for it.
    #[cold]
    pub fn skip(&mut self) {
        if self.map.status(self.at * self.slot) & libc::TP_STATUS_COPY != 0 {
            // Too short for what is there: the kernel drops the rest (packet(7)).
            let _ = self.read_long(&mut [IoSliceMut::new(&mut [0; 64])]);
        }
        self.release();
    }

    /// Takes the first frame of the socket's queue, its virtio header in front: the one of the next slot, if its status says COPY. Says
    /// how long it is, at most as long as `parts`.
    ///
    /// # Errors
    /// EAGAIN: there is none.
    pub fn read_long(&self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match (&self.socket).read_vectored(parts) {
            // The socket's own error (ENETDOWN) comes first and takes nothing from the queue.
            Err(why) if why.kind() != io::ErrorKind::WouldBlock => {
                self.failed.set(true);
                (&self.socket).read_vectored(parts)
            }
            read => read,
        }
    }

    /// Returns whether [`RxRing::read_long`] consumed an error of the socket since the last call.
    pub fn take_failed(&self) -> bool {
        self.failed.take()
    }

    /// Frames that were lost since the last call, as no slot was free (PACKET_STATISTICS: the kernel begins at 0 again).
    pub fn lost(&self) -> u64 {
        // struct tpacket_stats: tp_packets, tp_drops
        let [_, drops]: [u32; 2] =
            get(self.socket.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS).unwrap_or_default();
        drops.into()
    }
}

impl AsFd for RxRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// PACKET_FANOUT's word: the group, the mode, and that the group too leaves out what is sent (the socket's own option has no say there).
fn fanout(group: u16, mode: FanoutMode, ignore_outgoing: bool) -> u32 {
    let mode = match mode {
        FanoutMode::Hash => libc::PACKET_FANOUT_HASH,
        FanoutMode::Lb => libc::PACKET_FANOUT_LB,
        FanoutMode::Cpu => libc::PACKET_FANOUT_CPU,
        FanoutMode::Rollover => libc::PACKET_FANOUT_ROLLOVER,
    };
    let flags = if ignore_outgoing { libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING } else { 0 };
    u32::from(group) | (mode | flags) << 16
}

/// Opens a socket on interface number `index` without a ring: a read of its file takes a frame, and never waits. What the interface sends
/// is not received.
///
/// # Errors
/// As [`RxRing::open`].
pub fn open_plain(index: u32) -> Result<File, Failure> {
    let socket = open()?;
    set(&socket, "PACKET_IGNORE_OUTGOING", libc::PACKET_IGNORE_OUTGOING, &1i32)?;
    bind(socket.as_fd(), index, libc::ETH_P_ALL as u16)?;
    Ok(File::from(socket))
}

/// May this process open packet sockets at all?
///
/// # Errors
/// EPERM: no CAP_NET_RAW; EAFNOSUPPORT: a kernel without them.
pub fn available() -> io::Result<()> {
    open().map(drop).map_err(|(_, error)| error)
}
