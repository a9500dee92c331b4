//! The ring of slots that a packet socket fills (TPACKET_V2).
//!
//! The kernel puts each frame into the next slot and passes the slot to the reader at once, by
//! setting USER in the status word at the start of the slot. The reader returns the slot by
//! resetting the word. A frame that is longer than a slot, usually a large segment, is also queued
//! as a whole in the socket (`PACKET_COPY_THRESH`; the status of its slot has COPY set), from which
//! it is read with one copy. TPACKET_V3 is not used: it packs frames into blocks without gaps, and
//! passes on a block only when it is full or a timer of at least a millisecond has expired.

use super::map::Map;
use super::{Failure, bind, get, open, ring, set, widen_rx};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, IoSliceMut, Read};
use std::os::fd::{AsFd, BorrowedFd};

/// Distribution of frames among the sockets of a fanout group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FanoutMode {
    /// Selects the socket by a hash over addresses and L4 ports. Both directions of a flow have the
    /// same hash.
    #[default]
    Hash,
    /// Selects the sockets in turn (round robin).
    Lb,
    /// Selects the socket by the processor that received the frame.
    Cpu,
    /// Fills the ring of the first socket, then that of the next one.
    Rollover,
}

/// Configuration of a receiving socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Number of slots in the ring, a power of two.
    pub slots: u32,
    /// Size of a slot in bytes, a power of two and at least 256.
    pub slot: u32,
    /// True to also queue frames that are longer than a slot as a whole.
    pub queue_long: bool,
    /// True to put a virtio header in front of every frame.
    pub vnet_hdr: bool,
    /// True to also receive frames addressed to other stations.
    pub promisc: bool,
    /// True to ignore frames that the interface sends.
    pub ignore_outgoing: bool,
    /// Number and mode of the fanout group, whose sockets share the interface's frames; `None` if
    /// the socket is in no group.
    pub fanout: Option<(u16, FanoutMode)>,
}

/// A receiving socket with its ring.
#[derive(Debug)]
pub struct RxRing {
    map: Map,
    socket: File,
    slot: usize,
    slots: usize,
    /// Index of the slot to read next.
    at: usize,
    /// True if a read of the queue has consumed an error of the socket.
    failed: Cell<bool>,
}

/// Size of `struct tpacket2_hdr`, which is at the start of a slot and begins with the status word.
pub const HEADER_LEN: usize = size_of::<libc::tpacket2_hdr>();
/// Maximum number of bytes in a slot before the frame: header, address, alignment and virtio header
/// (tpacket_rcv in net/packet/af_packet.c).
pub const FRONT: usize = 128;

impl RxRing {
    /// Opens a socket on interface number `index` with a ring, and starts receiving.
    ///
    /// # Errors
    /// The failed step and its error, such as `socket` (EPERM: CAP_NET_RAW is missing),
    /// `PACKET_RX_RING` (ENOMEM) or `PACKET_FANOUT` (EINVAL: the group has another mode).
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
        // The socket is bound last: frames that are received before the ring exists would wait in a
        // queue that is never read.
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

    /// Returns the bytes of the next slot; `None` if the kernel has not filled it yet.
    #[inline]
    pub fn next(&self) -> Option<&[u8]> {
        let from = self.at * self.slot;
        if self.map.status(from) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the kernel has passed this slot to the reader, and does not write to it before
        // `release`, which needs `&mut self`.
        Some(unsafe { self.map.bytes(from, from + self.slot) })
    }

    /// Returns the slot that [`RxRing::next`] returned to the kernel, and advances to the next
    /// slot.
    #[inline]
    pub fn release(&mut self) {
        self.map.set_status(self.at * self.slot, libc::TP_STATUS_KERNEL);
        self.at = if self.at + 1 < self.slots { self.at + 1 } else { 0 };
    }

    /// Returns a slot to the kernel without reading it. If the slot's frame is also queued in the
    /// socket, removes the frame from the queue.
    #[cold]
    pub fn skip(&mut self) {
        if self.map.status(self.at * self.slot) & libc::TP_STATUS_COPY != 0 {
            // This buffer is too short for the frame, so the kernel drops the rest of the frame
            // (packet(7)).
            let _ = self.read_long(&mut [IoSliceMut::new(&mut [0; 64])]);
        }
        self.release();
    }

    /// Reads the first frame in the socket's queue, with its virtio header in front, into `parts`.
    /// If the status of the next slot has COPY set, this is the frame of that slot. Returns the
    /// number of bytes read, at most the length of `parts`.
    ///
    /// # Errors
    /// EAGAIN if the queue is empty.
    pub fn read_long(&self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match (&self.socket).read_vectored(parts) {
            // A pending socket error (ENETDOWN) is returned first, and takes no frame from the
            // queue.
            Err(why) if why.kind() != io::ErrorKind::WouldBlock => {
                self.failed.set(true);
                (&self.socket).read_vectored(parts)
            }
            read => read,
        }
    }

    /// Returns whether [`RxRing::read_long`] has consumed an error of the socket since the last
    /// call.
    pub fn take_failed(&self) -> bool {
        self.failed.take()
    }

    /// Returns the number of frames lost since the last call because no slot was free. Reading
    /// PACKET_STATISTICS resets the counter.
    pub fn lost(&self) -> u64 {
        // Fields of struct tpacket_stats: tp_packets, tp_drops.
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

/// Returns the argument of PACKET_FANOUT: group, mode, and the flag to ignore outgoing frames. The
/// flag is needed because the socket option PACKET_IGNORE_OUTGOING has no effect on the sockets of
/// a fanout group.
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

/// Opens a socket on interface number `index` without a ring. Each read of the file returns one
/// frame, without blocking. Frames that the interface sends are not received.
///
/// # Errors
/// The same errors as [`RxRing::open`].
pub fn open_plain(index: u32) -> Result<File, Failure> {
    let socket = open()?;
    set(&socket, "PACKET_IGNORE_OUTGOING", libc::PACKET_IGNORE_OUTGOING, &1i32)?;
    bind(socket.as_fd(), index, libc::ETH_P_ALL as u16)?;
    Ok(File::from(socket))
}

/// Checks whether this process can open packet sockets.
///
/// # Errors
/// EPERM if CAP_NET_RAW is missing; EAFNOSUPPORT if the kernel does not support packet sockets.
pub fn available() -> io::Result<()> {
    open().map(drop).map_err(|(_, error)| error)
}
