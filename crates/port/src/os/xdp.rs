//! AF_XDP sockets: memory that is registered with the kernel, four rings that exchange descriptors
//! of this memory, and a queue of a device.
//!
//! Two rings are for receiving (buffers to fill, received frames) and two for sending (frames to
//! send, completed buffers). Two modules use them: [`frames`] exchanges the frames of a pool;
//! [`bare`] has neither frames nor a pool, and is the baseline for [`frames`]. The numbers are from
//! linux/if_xdp.h and net/xdp/xsk.c.

pub mod bare;
pub mod frames;
mod ring;

use super::{set_option, socket};
use ring::{Consumer, Producer, Shape};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

/// Number of bytes that the kernel reserves in front of each received frame, within the buffer
/// (`XDP_PACKET_HEADROOM`).
pub const KERNEL_HEADROOM: usize = 256;
/// Size of the shortest buffer that the kernel accepts, in bytes (`XDP_UMEM_MIN_CHUNK_SIZE`).
pub const CHUNK_MIN: usize = 2048;
/// Size of the longest buffer that the kernel accepts, in bytes: a page.
pub const CHUNK_MAX: usize = 4096;
/// Default number of frames that the kernel sends per call (`TX_BATCH_SIZE`).
pub const TX_BUDGET: u32 = 32;
/// Socket option that changes the number of frames sent per call (`XDP_MAX_TX_SKB_BUDGET`), since
/// Linux 6.17.
const MAX_TX_SKB_BUDGET: i32 = 9;

/// The failed step, as named in error messages, and its error.
pub type Failure = (&'static str, io::Error);

/// Name of the step that opens the socket.
pub const STEP_SOCKET: &str = "socket(AF_XDP)";
/// Name of the step that registers memory.
pub const STEP_UMEM: &str = "XDP_UMEM_REG";
/// Name of the step that binds the socket to a queue.
pub const STEP_BIND: &str = "bind";

/// Choice between copying frames in the kernel and zero copy between device and pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CopyMode {
    /// Zero copy if the driver supports it, copying otherwise.
    #[default]
    Auto,
    /// The kernel copies each frame. This works with any driver.
    Copy,
    /// The device accesses the pool's memory directly. It is an error if the driver does not
    /// support this.
    ZeroCopy,
}

/// When the kernel is notified of frames to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Wakeup {
    /// Only when the kernel requests it (the flag need-wakeup).
    #[default]
    Asked,
    /// After every burst.
    Always,
}

/// Requested properties of a socket.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Index of the device.
    pub ifindex: u32,
    /// Number of the device's queue.
    pub queue: u32,
    /// Number of entries in each ring, a power of two.
    pub places: u32,
    /// Choice between copying frames in the kernel and zero copy.
    pub mode: CopyMode,
    /// When to notify the kernel of frames to send.
    pub wakeup: Wakeup,
    /// True if frames may span several buffers (Linux 6.6).
    pub multi: bool,
}

/// Memory for frames: `len` bytes that start at a page boundary, in chunks of `chunk` bytes.
#[derive(Clone, Copy, Debug)]
struct Memory {
    base: NonNull<u8>,
    len: usize,
    chunk: usize,
    /// Number of bytes that are left free in addition to the kernel's own headroom.
    headroom: usize,
    /// True if chunks may begin anywhere, not only at multiples of their length.
    unaligned: bool,
}

/// A bound socket and its rings.
struct Queue {
    socket: OwnedFd,
    fill: Producer<u64>,
    rx: Consumer<libc::xdp_desc>,
    tx: Producer<libc::xdp_desc>,
    done: Consumer<u64>,
    zero_copy: bool,
}

/// Numbers of frames that the kernel has dropped or rejected since the socket was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Received frames lost for reasons other than a full ring or a missing buffer. Usually they
    /// were too long for a buffer.
    pub rx_dropped: u64,
    /// Received frames lost because the receive ring was full.
    pub rx_ring_full: u64,
    /// Received frames lost because the fill ring contained no buffer.
    pub fill_ring_empty: u64,
    /// Invalid descriptors of buffers to be filled.
    pub rx_invalid: u64,
    /// Invalid descriptors of frames to be sent.
    pub tx_invalid: u64,
}

impl Statistics {
    /// Returns the number of frames that arrived but were not received.
    pub fn missed(&self) -> u64 {
        self.rx_dropped + self.rx_ring_full + self.fill_ring_empty
    }
}

/// Opens a socket on a queue; `memory` contains its frames.
///
/// # Safety
/// The memory must outlive the socket and the mapping of its rings. No other code may access a part
/// of it while the kernel owns that part according to the rings.
unsafe fn open(memory: &Memory, ask: &Ask) -> Result<Queue, Failure> {
    let at = |step: &'static str| move |error| (step, error);
    let socket = socket(libc::AF_XDP, libc::SOCK_RAW, 0).map_err(at(STEP_SOCKET))?;
    let fd = socket.as_fd();
    let registered = libc::xdp_umem_reg {
        addr: memory.base.as_ptr() as u64,
        len: memory.len as u64,
        chunk_size: memory.chunk as u32,
        headroom: memory.headroom as u32,
        flags: if memory.unaligned { libc::XDP_UMEM_UNALIGNED_CHUNK_FLAG } else { 0 },
        tx_metadata_len: 0,
    };
    set_option(fd, libc::SOL_XDP, libc::XDP_UMEM_REG, &registered).map_err(at(STEP_UMEM))?;
    for (option, step) in [
        (libc::XDP_UMEM_FILL_RING, "XDP_UMEM_FILL_RING"),
        (libc::XDP_UMEM_COMPLETION_RING, "XDP_UMEM_COMPLETION_RING"),
        (libc::XDP_RX_RING, "XDP_RX_RING"),
        (libc::XDP_TX_RING, "XDP_TX_RING"),
    ] {
        set_option(fd, libc::SOL_XDP, option, &ask.places).map_err(at(step))?;
    }
    allow_more(fd, ask.places);
    let offsets = offsets(fd).map_err(at("XDP_MMAP_OFFSETS"))?;
    let shape = |offset, page| Shape { offset, page, places: ask.places };
    let failed = at("mmap of a ring");
    let fill = Producer::map(fd, &shape(offsets.fr, libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t)).map_err(failed)?;
    let done = libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t;
    let done = Consumer::map(fd, &shape(offsets.cr, done)).map_err(failed)?;
    let rx = Consumer::map(fd, &shape(offsets.rx, libc::XDP_PGOFF_RX_RING)).map_err(failed)?;
    let tx = Producer::map(fd, &shape(offsets.tx, libc::XDP_PGOFF_TX_RING)).map_err(failed)?;
    bind(fd, ask).map_err(at(STEP_BIND))?;
    let zero_copy = is_zero_copy(fd).map_err(at("XDP_OPTIONS"))?;
    Ok(Queue { socket, fill, rx, tx, done, zero_copy })
}

/// Allows one call to send a whole ring of frames, if the kernel and the privileges permit it.
/// Otherwise several calls are needed.
fn allow_more(fd: BorrowedFd<'_>, places: u32) {
    let _ = set_option(fd, libc::SOL_XDP, MAX_TX_SKB_BUDGET, &places);
    let room = (places as i32).saturating_mul(CHUNK_MAX as i32);
    let _ = set_option(fd, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &room);
}

fn bind(fd: BorrowedFd<'_>, ask: &Ask) -> io::Result<()> {
    let mode = match ask.mode {
        CopyMode::Auto => 0,
        CopyMode::Copy => libc::XDP_COPY,
        CopyMode::ZeroCopy => libc::XDP_ZEROCOPY,
    };
    let wakeup = if ask.wakeup == Wakeup::Asked { libc::XDP_USE_NEED_WAKEUP } else { 0 };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: mode | wakeup | if ask.multi { libc::XDP_USE_SG } else { 0 },
        sxdp_ifindex: ask.ifindex,
        sxdp_queue_id: ask.queue,
        sxdp_shared_umem_fd: 0,
    };
    let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: the address is a live sockaddr_xdp, passed with its true size.
    let answer = unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(&address).cast(), len) };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Swaps the two MAC addresses at a frame's beginning.
#[inline(always)]
pub fn swap_macs(frame: &mut [u8]) {
    let Some((dst, rest)) = frame.split_first_chunk_mut::<6>() else { return };
    if let Some(src) = rest.first_chunk_mut::<6>() {
        std::mem::swap(dst, src);
    }
}

/// Reads a socket option whose value is a structure of integers.
fn option<T: Copy>(fd: BorrowedFd<'_>, level: i32, option: i32) -> io::Result<T> {
    // SAFETY: callers request only structures of integers, for which zero is a valid value.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer is to a live `T`, passed with its true size.
    let answer = unsafe {
        let at = std::ptr::from_mut(&mut value).cast();
        libc::getsockopt(fd.as_raw_fd(), level, option, at, &mut len)
    };
    if answer == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

fn offsets(fd: BorrowedFd<'_>) -> io::Result<libc::xdp_mmap_offsets> {
    let offsets: libc::xdp_mmap_offsets = option(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)?;
    // Before Linux 5.4 the rings had no flags, and the structure was shorter.
    if offsets.cr.desc == 0 { Err(io::Error::from_raw_os_error(libc::ENOPROTOOPT)) } else { Ok(offsets) }
}

fn is_zero_copy(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let options: libc::xdp_options = option(fd, libc::SOL_XDP, libc::XDP_OPTIONS)?;
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

fn statistics(fd: BorrowedFd<'_>) -> io::Result<Statistics> {
    let all: libc::xdp_statistics = option(fd, libc::SOL_XDP, libc::XDP_STATISTICS)?;
    Ok(Statistics {
        rx_dropped: all.rx_dropped,
        rx_ring_full: all.rx_ring_full,
        fill_ring_empty: all.rx_fill_ring_empty_descs,
        rx_invalid: all.rx_invalid_descs,
        tx_invalid: all.tx_invalid_descs,
    })
}

/// Returns the pending error of the socket, if any: ENETDOWN when its device is gone.
fn waiting_error(fd: BorrowedFd<'_>) -> Option<io::Error> {
    match option::<i32>(fd, libc::SOL_SOCKET, libc::SO_ERROR) {
        Ok(0) => None,
        Ok(errno) => Some(io::Error::from_raw_os_error(errno)),
        Err(error) => Some(error),
    }
}

/// Notifies the kernel that there are frames to be sent.
fn wake_tx(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no bytes and no address are passed.
    let answer = unsafe { libc::sendto(fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Notifies the kernel that there are buffers to be filled.
fn wake_rx(fd: BorrowedFd<'_>) {
    let none = std::ptr::null_mut();
    // The result is ignored, because the next check of the socket reports errors.
    // SAFETY: no bytes and no address are passed.
    let _ = unsafe { libc::recvfrom(fd.as_raw_fd(), none, 0, libc::MSG_DONTWAIT, none.cast(), none.cast()) };
}
