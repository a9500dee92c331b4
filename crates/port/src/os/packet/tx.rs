//! The ring of slots from which a packet socket sends (TPACKET_V2), and a plain socket for frames
//! that are longer than a slot.
//!
//! The owner fills a slot and sets its status to SEND_REQUEST. A single send(2) makes the kernel
//! send all these slots in order, up to one that it rejects (WRONG_FORMAT) or cannot queue. The
//! kernel returns a sent slot with the status AVAILABLE. A slot begins with `struct tpacket2_hdr`,
//! which contains the status word and the frame's length; the frame begins at byte 32.

use super::map::Map;
use super::{Failure, bind, open, ring, set, widen};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Configuration of a sending socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Number of slots in the ring, a power of two.
    pub slots: u32,
    /// Size of a slot in bytes, a power of two and at least 256.
    pub slot: u32,
    /// True to put a virtio header in front of every frame.
    pub vnet_hdr: bool,
    /// True to pass frames directly to the driver, bypassing the interface's queueing discipline.
    pub qdisc_bypass: bool,
}

/// State of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// The slot is owned by this process, which may fill it.
    Free,
    /// The slot was passed to the kernel, which has not taken it yet.
    Waiting,
    /// The kernel rejected the slot, and sends no later slot until this one is changed.
    Refused,
    /// The kernel is sending the slot.
    Leaving,
}

/// A sending socket with its ring.
#[derive(Debug)]
pub struct TxRing {
    map: Map,
    socket: OwnedFd,
    slot: usize,
    slots: usize,
}

/// Offset in a slot of the frame or its virtio header: after `struct tpacket2_hdr`.
pub const DATA: usize = size_of::<libc::tpacket2_hdr>();
/// Offset in a slot of the frame's length (`tp_len`).
const LEN: usize = 4;

impl TxRing {
    /// Opens a socket on interface number `index` with a ring.
    ///
    /// # Errors
    /// The failed step and its error, such as `socket` (EPERM: CAP_NET_RAW is missing) or
    /// `PACKET_TX_RING` (ENOMEM).
    pub fn open(index: u32, config: &Config) -> Result<TxRing, Failure> {
        let socket = open()?;
        set(&socket, "PACKET_VERSION", libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V2 as i32))?;
        if config.vnet_hdr {
            set(&socket, "PACKET_VNET_HDR", libc::PACKET_VNET_HDR, &1i32)?;
        }
        if config.qdisc_bypass {
            set(&socket, "PACKET_QDISC_BYPASS", libc::PACKET_QDISC_BYPASS, &1i32)?;
        }
        widen(&socket);
        let steps = ["PACKET_TX_RING", "mmap of PACKET_TX_RING"];
        let map = ring(&socket, libc::PACKET_TX_RING, steps, config.slot, config.slots)?;
        bind(socket.as_fd(), index, 0)?;
        Ok(TxRing { map, socket, slot: config.slot as usize, slots: config.slots as usize })
    }

    /// Returns the number of slots.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Returns the maximum length of a frame in a slot, including its virtio header.
    pub fn longest(&self) -> usize {
        self.slot - DATA
    }

    /// Returns the byte offset of slot `n` (modulo the number of slots) in the ring.
    #[inline]
    fn start(&self, n: usize) -> usize {
        (n & (self.slots - 1)) * self.slot
    }

    /// Returns the state of slot `n`.
    #[inline]
    pub fn state(&self, n: usize) -> Slot {
        match self.map.status(self.start(n)) {
            libc::TP_STATUS_AVAILABLE => Slot::Free,
            libc::TP_STATUS_SEND_REQUEST => Slot::Waiting,
            status if status & libc::TP_STATUS_WRONG_FORMAT != 0 => Slot::Refused,
            status if status & (libc::TP_STATUS_SENDING | libc::TP_STATUS_SEND_REQUEST) != 0 => Slot::Leaving,
            _ => Slot::Free, // sent, with a timestamp in the slot
        }
    }

    /// Returns the bytes of slot `n` for a frame; empty while the kernel is sending this slot. At
    /// other times the kernel does not read them, because it sends only during [`TxRing::send`].
    #[inline]
    pub fn data(&mut self, n: usize) -> &mut [u8] {
        let start = self.start(n);
        if matches!(self.state(n), Slot::Leaving) {
            return &mut [];
        }
        // SAFETY: the bytes are within one slot, after its header, and the slot is not being sent.
        unsafe { self.map.bytes_mut(start + DATA, start + self.slot) }
    }

    /// Requests that the next call of [`TxRing::send`] sends the first `len` bytes of slot `n`.
    #[inline]
    pub fn request(&mut self, n: usize, len: usize) {
        let start = self.start(n);
        self.map.set_status(start + LEN, len as u32);
        self.map.set_status(start, libc::TP_STATUS_SEND_REQUEST);
    }

    /// Returns the length of the frame in slot `n`.
    pub fn len_of(&self, n: usize) -> usize {
        self.map.status(self.start(n) + LEN) as usize
    }

    /// Withdraws the request to send slot `n`.
    pub fn recall(&mut self, n: usize) {
        self.map.set_status(self.start(n), libc::TP_STATUS_AVAILABLE);
    }

    /// Makes the kernel send as many of the requested slots as it can without blocking.
    ///
    /// # Errors
    /// ENETDOWN; ENXIO if the interface is deleted; ENOBUFS or EAGAIN if the kernel accepts no more
    /// now; EINVAL or EMSGSIZE if a slot is rejected.
    pub fn send(&self) -> io::Result<()> {
        // SAFETY: send(2) is called without a buffer, because the frames are in the ring.
        let answer = unsafe { libc::send(self.socket.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl AsFd for TxRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Opens a socket on interface number `index` that sends each write as one frame. Frames pass
/// through the interface's queueing discipline, because only there does the kernel split large
/// segments for a device that cannot split them.
///
/// # Errors
/// The same errors as [`TxRing::open`].
pub fn open_plain(index: u32, vnet_hdr: bool) -> Result<File, Failure> {
    let socket = open()?;
    if vnet_hdr {
        set(&socket, "PACKET_VNET_HDR", libc::PACKET_VNET_HDR, &1i32)?;
    }
    widen(&socket);
    bind(socket.as_fd(), index, 0)?;
    Ok(File::from(socket))
}
