//! Packet sockets (packet(7)) and their rings (Documentation/networking/packet_mmap.rst): set-up by
//! system calls.
//!
//! Receiving and sending use separate sockets. The sending socket is bound to no protocol, so it
//! never receives a frame. The modules [`rx`] and [`tx`] use the rings. A slot belongs either to
//! the kernel or to this process, according to its status word.

mod map;
pub mod rx;
pub mod tx;

use super::{set_option, socket, tun};
use map::Map;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The failed step and its error.
pub type Failure = (&'static str, io::Error);

/// Properties of an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Iface {
    /// Index of the interface.
    pub index: u32,
    /// MTU of the interface in bytes.
    pub mtu: u32,
    /// True if frames of the interface begin with an Ethernet header (ARPHRD_ETHER,
    /// ARPHRD_LOOPBACK).
    pub ethernet: bool,
}

/// Looks up the interface `name`.
///
/// # Errors
/// ENODEV if there is no interface with this name.
pub fn iface(name: &str) -> Result<Iface, Failure> {
    let control = tun::control().map_err(|error| ("socket", error))?;
    let mut request = tun::ifreq(name).map_err(|error| ("interface name", error))?;
    tun::ioctl_ifreq(&control, libc::SIOCGIFINDEX, &mut request).map_err(|error| ("SIOCGIFINDEX", error))?;
    // SAFETY: SIOCGIFINDEX succeeded, so the kernel wrote `ifru_ifindex`; all bits are a valid int
    // anyway.
    let index = unsafe { request.ifr_ifru.ifru_ifindex };
    tun::ioctl_ifreq(&control, libc::SIOCGIFHWADDR, &mut request).map_err(|error| ("SIOCGIFHWADDR", error))?;
    // SAFETY: SIOCGIFHWADDR succeeded, so the kernel wrote `ifru_hwaddr`; all bits are a valid
    // sockaddr anyway.
    let hardware = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
    let mtu = tun::mtu(name).map_err(|error| ("SIOCGIFMTU", error))?;
    let ethernet = matches!(hardware, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK);
    Ok(Iface { index: index.cast_unsigned(), mtu, ethernet })
}

/// Returns whether the interface `name` can send, that is whether it is up and has carrier.
pub fn is_running(name: &str) -> bool {
    let flags = || {
        let mut request = tun::ifreq(name)?;
        tun::ioctl_ifreq(&tun::control()?, libc::SIOCGIFFLAGS, &mut request)?;
        // SAFETY: SIOCGIFFLAGS succeeded, so the kernel wrote `ifru_flags`.
        io::Result::Ok(libc::c_int::from(unsafe { request.ifr_ifru.ifru_flags }))
    };
    let both = libc::IFF_UP | libc::IFF_RUNNING;
    flags().is_ok_and(|flags| flags & both == both)
}

/// Opens a non-blocking packet socket. It does not receive frames until it is bound.
fn open() -> Result<OwnedFd, Failure> {
    socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_NONBLOCK, 0).map_err(|error| ("socket", error))
}

/// Binds the socket to the interface `index`. If `protocol` is 0, the socket can only send.
fn bind(fd: BorrowedFd<'_>, index: u32, protocol: u16) -> Result<(), Failure> {
    let address = address(index.cast_signed(), protocol);
    // SAFETY: a live sockaddr_ll, passed with its true size; the kernel only reads.
    let answer = unsafe {
        let at = std::ptr::from_ref(&address).cast();
        libc::bind(fd.as_raw_fd(), at, size_of::<libc::sockaddr_ll>() as libc::socklen_t)
    };
    if answer == 0 { Ok(()) } else { Err(("bind", io::Error::last_os_error())) }
}

fn address(index: i32, protocol: u16) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

/// Sets an option of packet sockets.
fn set<T: Copy>(fd: &OwnedFd, step: &'static str, option: i32, value: &T) -> Result<(), Failure> {
    set_option(fd.as_fd(), libc::SOL_PACKET, option, value).map_err(|error| (step, error))
}

/// Reads a socket option whose value is a plain structure of integers.
fn get<T: Copy + Default>(fd: BorrowedFd<'_>, level: i32, option: i32) -> io::Result<T> {
    let mut value = T::default();
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` is writable and passed with its true size; every T here consists of
    // integers, for which all bit patterns are valid.
    let answer =
        unsafe { libc::getsockopt(fd.as_raw_fd(), level, option, std::ptr::from_mut(&mut value).cast(), &mut len) };
    if answer == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Size of a block of slots in bytes. The kernel can always allocate contiguous memory of this
/// size.
const BLOCK: u32 = 64 << 10;

/// Configures the ring selected by `option`, with `slots` slots of `slot` bytes, and maps it.
/// `named` and `mapped` are the names of these two steps in error messages.
fn ring(fd: &OwnedFd, option: i32, [named, mapped]: [&'static str; 2], slot: u32, slots: u32) -> Result<Map, Failure> {
    let len = slots * slot;
    let block = slot.max(BLOCK).min(len);
    let request =
        libc::tpacket_req { tp_block_size: block, tp_block_nr: len / block, tp_frame_size: slot, tp_frame_nr: slots };
    set(fd, named, option, &request)?;
    Map::new(fd, len as usize).map_err(|error| (mapped, error))
}

/// Enlarges the send buffer: to 4 MiB with CAP_NET_ADMIN, otherwise to the system's limit.
fn widen(fd: &OwnedFd) {
    const ROOM: i32 = 4 << 20;
    if set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &ROOM).is_err() {
        let _ = set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, &ROOM);
    }
}

/// Enlarges the receive buffer, in which large segments wait to be read: to 8 MiB with
/// CAP_NET_ADMIN, otherwise to the system's limit.
fn widen_rx(fd: &OwnedFd) {
    const ROOM: i32 = 8 << 20; // the kernel doubles it: space for as many segments of 64 KiB as there are large buffers
    if set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &ROOM).is_err() {
        let _ = set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &ROOM);
    }
}

/// Returns the interface to which a socket is bound; `None` if the interface was deleted or moved
/// to another namespace.
pub fn bound_to(fd: BorrowedFd<'_>) -> Option<u32> {
    let mut address = address(0, 0);
    let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: a live, writable sockaddr_ll, passed with its true size.
    let answer = unsafe { libc::getsockname(fd.as_raw_fd(), std::ptr::from_mut(&mut address).cast(), &mut len) };
    u32::try_from(address.sll_ifindex).ok().filter(|index| answer == 0 && *index > 0)
}

/// Returns and clears the pending error of a socket.
pub fn take_error(fd: BorrowedFd<'_>) -> Option<io::Error> {
    let errno: i32 = get(fd, libc::SOL_SOCKET, libc::SO_ERROR).ok()?;
    (errno != 0).then(|| io::Error::from_raw_os_error(errno))
}
