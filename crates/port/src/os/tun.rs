//! TAP and TUN devices: /dev/net/tun and its ioctls (Documentation/networking/tuntap.rst,
//! drivers/net/tun.c).

use super::socket;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use wire::Mac;

/// Size of `struct virtio_net_hdr`, which precedes every frame if it is enabled.
pub const VNET_HDR_LEN: usize = 10;
/// Size of `struct virtio_net_hdr_v1`, which additionally contains a number of buffers.
pub const VNET_HDR_V1_LEN: usize = 12;

/// Configuration for opening a TAP or TUN device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Size of the virtio header before every frame: 0, [`VNET_HDR_LEN`] or [`VNET_HDR_V1_LEN`].
    pub vnet_hdr: usize,
    /// True to allow the kernel to leave TCP and UDP checksums open (TUN_F_CSUM); requires a virtio
    /// header.
    pub rx_csum: bool,
    /// True to allow the kernel to pass TCP segments of up to 64 KiB unsplit (TUN_F_TSO4,
    /// TUN_F_TSO6); requires `rx_csum`.
    pub rx_large: bool,
}

/// An open TAP or TUN device with its actual configuration, which may have fewer features than
/// requested.
#[derive(Debug)]
pub struct Opened {
    /// File of the device.
    pub file: File,
    /// Actual name of the device.
    pub name: String,
    /// Actual configuration of the device.
    pub config: Config,
}

/// Opens the TAP device `name` in non-blocking mode, and creates it if it does not exist. If the
/// kernel does not support virtio headers or offloads, the device has fewer features than
/// requested; [`Opened::config`] contains the actual ones.
///
/// # Errors
/// The failed step and its error. Steps are opening /dev/net/tun, and its ioctls.
pub fn open_tap(name: &str, config: Config) -> Result<Opened, (&'static str, io::Error)> {
    open_as(name, config, libc::IFF_TAP)
}

/// Opens the TUN device `name` as [`open_tap`] opens a TAP device. A TUN device carries IP packets
/// without Ethernet headers. Offsets in virtio headers count from the beginning of the packet.
///
/// # Errors
/// The same errors as [`open_tap`].
pub fn open_tun(name: &str, config: Config) -> Result<Opened, (&'static str, io::Error)> {
    open_as(name, config, libc::IFF_TUN)
}

/// Opens a queue of the multi-queue TAP device `name` (IFF_MULTI_QUEUE). Each call opens another
/// queue.
///
/// # Errors
/// The same errors as [`open_tap`]. Also EINVAL of TUNSETIFF if the device was created as a
/// single-queue device, and E2BIG if it has no more queues.
pub fn open_tap_queue(name: &str, config: Config) -> Result<Opened, (&'static str, io::Error)> {
    open_as(name, config, libc::IFF_TAP | libc::IFF_MULTI_QUEUE)
}

fn open_as(name: &str, config: Config, kind: libc::c_int) -> Result<Opened, (&'static str, io::Error)> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .map_err(|error| ("open /dev/net/tun", error))?;
    let mut config = config;
    if config.vnet_hdr > 0 && !has_virtio_headers(&file) {
        config.vnet_hdr = 0;
    }
    let mut request = ifreq(name).map_err(|error| ("device name", error))?;
    let vnet = if config.vnet_hdr > 0 { libc::IFF_VNET_HDR } else { 0 };
    request.ifr_ifru.ifru_flags = (kind | libc::IFF_NO_PI | vnet) as i16;
    ioctl_ifreq(&file, libc::TUNSETIFF, &mut request).map_err(|error| ("TUNSETIFF", error))?;
    if config.vnet_hdr > 0 {
        let len = config.vnet_hdr as libc::c_int;
        // SAFETY: TUNSETVNETHDRSZ reads one int, which is alive during the call.
        let answer = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETHDRSZ as _, &len) };
        checked(answer).map_err(|error| ("TUNSETVNETHDRSZ", error))?;
    }
    config.rx_csum &= config.vnet_hdr > 0;
    config.rx_large &= config.rx_csum;
    // Includes ECN: a segment with the TCP flag CWR stays whole, and the code that splits it keeps
    // CWR only on the first piece.
    let large = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    config.rx_large &= set_offload(&file, large, config.rx_large).is_ok();
    if !config.rx_large {
        set_offload(&file, libc::TUN_F_CSUM, config.rx_csum).map_err(|error| ("TUNSETOFFLOAD", error))?;
    }
    Ok(Opened { file, name: name_of(&request), config })
}

/// Sets the TUN offload flags (TUNSETOFFLOAD) to `what` if `on` is true, otherwise to 0.
fn set_offload(file: &File, what: libc::c_uint, on: bool) -> io::Result<()> {
    let what = libc::c_ulong::from(if on { what } else { 0 });
    // SAFETY: TUNSETOFFLOAD takes its argument by value.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, what) })
}

fn has_virtio_headers(file: &File) -> bool {
    let mut features: libc::c_uint = 0;
    // SAFETY: TUNGETFEATURES writes one unsigned int, which is alive during the call.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNGETFEATURES as _, &mut features) };
    checked(answer).is_ok() && features & libc::IFF_VNET_HDR as libc::c_uint != 0
}

/// Returns the MTU of the interface `name`.
///
/// # Errors
/// Errors of SIOCGIFMTU, such as ENODEV if there is no such interface.
pub fn mtu(name: &str) -> io::Result<u32> {
    let mut request = ifreq(name)?;
    ioctl_ifreq(&control()?, libc::SIOCGIFMTU, &mut request)?;
    // SAFETY: SIOCGIFMTU succeeded, so the kernel wrote `ifru_mtu`; all bits are a valid int
    // anyway.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    Ok(u32::try_from(mtu).unwrap_or_default())
}

/// Sets the MTU of the interface `name`.
///
/// # Errors
/// Errors of SIOCSIFMTU, such as EPERM, or EINVAL if the MTU is outside the range that the device
/// supports.
pub fn set_mtu(name: &str, mtu: u32) -> io::Result<()> {
    let mut request = ifreq(name)?;
    request.ifr_ifru.ifru_mtu = i32::try_from(mtu).unwrap_or(i32::MAX);
    ioctl_ifreq(&control()?, libc::SIOCSIFMTU, &mut request)
}

/// Sets the MAC address of the interface `name`.
///
/// # Errors
/// Errors of SIOCSIFHWADDR, such as EADDRNOTAVAIL for a group address.
pub fn set_mac(name: &str, mac: Mac) -> io::Result<()> {
    let mut request = ifreq(name)?;
    let mut data = [0; 14];
    data.iter_mut().zip(mac.0).for_each(|(to, byte)| *to = byte as libc::c_char);
    request.ifr_ifru.ifru_hwaddr = libc::sockaddr { sa_family: libc::ARPHRD_ETHER, sa_data: data };
    ioctl_ifreq(&control()?, libc::SIOCSIFHWADDR, &mut request)
}

/// Returns whether the interface `name` computes transmit checksums for the kernel
/// (ETHTOOL_GTXCSUM).
///
/// # Errors
/// Errors of SIOCETHTOOL, such as EOPNOTSUPP if the device does not report it.
pub fn takes_tx_checksums(name: &str) -> io::Result<bool> {
    const GET_TX_CHECKSUM: u32 = 0x16;
    let mut value = [GET_TX_CHECKSUM, 0]; // struct ethtool_value: cmd, data
    let at = std::ptr::from_mut(&mut value);
    let mut request = ifreq(name)?;
    request.ifr_ifru.ifru_data = at.cast();
    ioctl_ifreq(&control()?, libc::SIOCETHTOOL, &mut request)?;
    // SAFETY: `value` is alive and aligned; volatile because the compiler does not see the kernel's
    // write to it.
    let [_, taken] = unsafe { at.read_volatile() };
    Ok(taken != 0)
}

/// Turns off TSO, GSO and GRO on the interface `name`, so that no packet on it exceeds the MTU: the
/// kernel does not pass it packets that must be split, and does not merge received packets.
///
/// # Errors
/// Errors of SIOCETHTOOL, such as EPERM, or EOPNOTSUPP if the device does not have these settings.
pub fn carry_no_large(name: &str) -> io::Result<()> {
    const SET_TSO: u32 = 0x1f;
    const SET_GSO: u32 = 0x24;
    const SET_GRO: u32 = 0x2c;
    [SET_TSO, SET_GSO, SET_GRO].into_iter().try_for_each(|what| switch_off(name, what))
}

fn switch_off(name: &str, what: u32) -> io::Result<()> {
    let mut value = [what, 0]; // struct ethtool_value: cmd, data
    let mut request = ifreq(name)?;
    request.ifr_ifru.ifru_data = std::ptr::from_mut(&mut value).cast();
    ioctl_ifreq(&control()?, libc::SIOCETHTOOL, &mut request)
}

/// Brings the interface `name` up.
///
/// # Errors
/// Errors of SIOCGIFFLAGS or SIOCSIFFLAGS.
pub fn set_up(name: &str) -> io::Result<()> {
    let mut request = ifreq(name)?;
    let control = control()?;
    ioctl_ifreq(&control, libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: SIOCGIFFLAGS succeeded, so the kernel wrote `ifru_flags`.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as i16;
    ioctl_ifreq(&control, libc::SIOCSIFFLAGS, &mut request)
}

/// Sets whether a TAP or TUN device has a carrier (TUNSETCARRIER, Linux 5.0).
///
/// # Errors
/// Errors of TUNSETCARRIER, such as EBADFD if the device was deleted.
pub fn set_carrier(file: &File, on: bool) -> io::Result<()> {
    let on = libc::c_int::from(on);
    // SAFETY: TUNSETCARRIER reads one int, which is alive during the call.
    checked(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETCARRIER as _, &on) })
}

/// Opens the socket for ioctls on interfaces. Any address family works, and AF_UNIX needs no
/// network access rights.
pub(super) fn control() -> io::Result<OwnedFd> {
    socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0)
}

pub(super) fn ifreq(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: ifreq consists of integers, arrays, a union of these, and a pointer that may be null:
    // all zeros are a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    if name.len() >= request.ifr_name.len() || name.contains('\0') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("'{name}' is not a valid interface name")));
    }
    request.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte as libc::c_char);
    Ok(request)
}

fn name_of(request: &libc::ifreq) -> String {
    request.ifr_name.iter().take_while(|c| **c != 0).flat_map(|c| c.to_ne_bytes().map(char::from)).collect()
}

pub(super) fn ioctl_ifreq(fd: &impl AsRawFd, what: libc::c_ulong, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: every `what` here and in `link` takes a pointer to a whole ifreq, which the kernel
    // reads and may write. For SIOCETHTOOL, the ifreq contains a pointer to a live structure of the
    // command's size.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), what as _, std::ptr::from_mut(request)) })
}

fn checked(answer: i32) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
