//! The ring of slots from which a packet socket sends (TPACKET_V2), and a socket for what is too long for a slot.
//!
//! A slot is filled and its status set to SEND_REQUEST; one send(2) has the kernel take all such slots in turn, up to one that it refuses
//! (WRONG_FORMAT), or that it has no room for. A slot comes back as AVAILABLE. It begins with `struct tpacket2_hdr`: the status word, the
//! frame's length; the frame is at byte 32.

use super::map::Map;
use super::{Failure, bind, open, ring, set, widen};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// How a socket is to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Slots in the ring: a power of two.
    pub slots: u32,
    /// Bytes of a slot: a power of two, at least 256.
    pub slot: u32,
    /// A virtio header in front of every frame.
    pub vnet_hdr: bool,
    /// Give frames to the driver at once, not to the interface's queueing discipline.
    pub qdisc_bypass: bool,
}

/// Whose a slot is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// Ours: to be filled.
    Free,
    /// The kernel has been asked to send it, and has not.
    Waiting,
    /// The kernel has refused it, and goes no further.
    Refused,
    /// Being sent.
    Leaving,
}

/// A socket with its ring.
#[derive(Debug)]
pub struct TxRing {
    map: Map,
    socket: OwnedFd,
    slot: usize,
    slots: usize,
}

/// Where the frame (or its virtio header) is in a slot: behind `struct tpacket2_hdr`.
pub const DATA: usize = size_of::<libc::tpacket2_hdr>();
/// Where its length is (`tp_len`).
const LEN: usize = 4;

impl TxRing {
    /// Opens a socket on interface number `index`, with a ring.
    ///
    /// # Errors
    /// The step that failed: `socket` (EPERM: no CAP_NET_RAW), `PACKET_TX_RING` (ENOMEM) ...
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

    /// How many slots there are.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The longest frame, virtio header included.
    pub fn longest(&self) -> usize {
        self.slot - DATA
    }

    /// Where slot `n` begins; any number is that of a slot, as the ring goes round.
    #[inline]
    fn start(&self, n: usize) -> usize {
        (n & (self.slots - 1)) * self.slot
    }

    /// Whose slot `n` is.
    #[inline]
    pub fn state(&self, n: usize) -> Slot {
        match self.map.status(self.start(n)) {
            libc::TP_STATUS_AVAILABLE => Slot::Free,
            libc::TP_STATUS_SEND_REQUEST => Slot::Waiting,
            status if status & libc::TP_STATUS_WRONG_FORMAT != 0 => Slot::Refused,
            status if status & (libc::TP_STATUS_SENDING | libc::TP_STATUS_SEND_REQUEST) != 0 => Slot::Leaving,
            _ => Slot::Free, // with a time stamp
        }
    }

    /// The bytes of slot `n` in which a frame may stand. While the kernel has not been asked to send it, or has been and is not doing it
    /// (it sends within [`TxRing::send`] alone), it does not read them.
    #[inline]
    pub fn data(&mut self, n: usize) -> &mut [u8] {
        let start = self.start(n);
        if matches!(self.state(n), Slot::Leaving) {
            return &mut [];
        }
        // SAFETY: within one slot, behind its header; it is not being sent.
        unsafe { self.map.bytes_mut(start + DATA, start + self.slot) }
    }

    /// Asks the kernel to send the first `len` bytes of slot `n`, at the next [`TxRing::send`].
    #[inline]
    pub fn request(&mut self, n: usize, len: usize) {
        let start = self.start(n);
        self.map.set_status(start + LEN, len as u32);
        self.map.set_status(start, libc::TP_STATUS_SEND_REQUEST);
    }

    /// How long the frame in slot `n` is.
    pub fn len_of(&self, n: usize) -> usize {
        self.map.status(self.start(n) + LEN) as usize
    }

    /// Takes slot `n` back.
    pub fn recall(&mut self, n: usize) {
        self.map.set_status(self.start(n), libc::TP_STATUS_AVAILABLE);
    }

    /// Has the kernel send what it was asked to, as far as it can without waiting.
    ///
    /// # Errors
    /// ENETDOWN, ENXIO (the interface is deleted), ENOBUFS and EAGAIN (no room now), EINVAL and EMSGSIZE (a slot is refused).
    pub fn send(&self) -> io::Result<()> {
        // SAFETY: send(2) without a buffer: the frames are in the ring.
        let answer = unsafe { libc::send(self.socket.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT) };
        if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl AsFd for TxRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A socket on interface number `index` that sends what is written to it, a frame at a time, through the interface's queueing
/// discipline: only there does the kernel cut up large segments for a device that does not.
///
/// # Errors
/// As [`TxRing::open`].
pub fn open_plain(index: u32, vnet_hdr: bool) -> Result<File, Failure> {
    let socket = open()?;
    if vnet_hdr {
        set(&socket, "PACKET_VNET_HDR", libc::PACKET_VNET_HDR, &1i32)?;
    }
    widen(&socket);
    bind(socket.as_fd(), index, 0)?;
    Ok(File::from(socket))
}
