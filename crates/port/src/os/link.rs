//! Link status of an interface: whether it can pass frames, and its speed (netdevice(7),
//! linux/ethtool.h).

#[cfg(target_os = "linux")]
use super::tun::{control, ifreq, ioctl_ifreq};
use std::io;

/// Link status as reported by the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkStatus {
    /// True if the interface is up and its driver reports carrier (IFF_UP, IFF_RUNNING).
    pub up: bool,
    /// True if the interface is administratively up (IFF_UP), with or without carrier.
    pub admin_up: bool,
    /// Speed in megabits per second; `None` if the driver does not report it.
    pub speed_mbps: Option<u32>,
    /// True if the link is half duplex.
    pub half_duplex: bool,
}

/// Returns the link status of interface `name`.
///
/// # Errors
/// `Unsupported`: the status can be read on Linux only.
#[cfg(not(target_os = "linux"))]
pub fn status(_name: &str) -> io::Result<LinkStatus> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns the link status of interface `name`.
///
/// # Errors
/// Errors of SIOCGIFFLAGS, such as ENODEV if there is no such interface.
#[cfg(target_os = "linux")]
pub fn status(name: &str) -> io::Result<LinkStatus> {
    let control = control()?;
    let mut request = ifreq(name)?;
    ioctl_ifreq(&control, libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: SIOCGIFFLAGS succeeded, so the kernel wrote `ifru_flags`.
    let flags = i32::from(unsafe { request.ifr_ifru.ifru_flags });
    let carries = libc::IFF_UP | libc::IFF_RUNNING;
    let (speed_mbps, half_duplex) = settings(&control, name).unwrap_or((None, false));
    let (up, admin_up) = (flags & carries == carries, flags & libc::IFF_UP != 0);
    Ok(LinkStatus { up, admin_up, speed_mbps, half_duplex })
}

/// Reads speed and duplex mode by ETHTOOL_GSET, which all drivers support and which is sufficient
/// up to 4 Tb/s.
#[cfg(target_os = "linux")]
fn settings(control: &impl std::os::fd::AsRawFd, name: &str) -> io::Result<(Option<u32>, bool)> {
    const GET_SETTINGS: u32 = 1;
    // struct ethtool_cmd: see `set_speed`.
    let mut value = [0u32; 11];
    let [cmd, ..] = &mut value;
    *cmd = GET_SETTINGS;
    let at = std::ptr::from_mut(&mut value);
    let mut request = ifreq(name)?;
    request.ifr_ifru.ifru_data = at.cast();
    ioctl_ifreq(control, libc::SIOCETHTOOL, &mut request)?;
    // SAFETY: `value` is alive and aligned; volatile because the compiler does not see the kernel's
    // write to it.
    let [_, _, _, speed_duplex, _, _, _, speed_hi, ..] = unsafe { at.read_volatile() };
    let ([low0, low1, duplex, _], [high0, high1, ..]) = (speed_duplex.to_ne_bytes(), speed_hi.to_ne_bytes());
    let [low, high] = [[low0, low1], [high0, high1]].map(u16::from_ne_bytes);
    let speed = u32::from(high) << 16 | u32::from(low);
    let known = ![0, u32::from(u16::MAX), u32::MAX].contains(&speed);
    Ok((known.then_some(speed), duplex == 0))
}

/// Sets the speed of interface `name`, in megabits per second, if it is a device that only reports
/// it, such as a TAP device.
///
/// # Errors
/// Errors of SIOCETHTOOL, such as EOPNOTSUPP.
#[cfg(target_os = "linux")]
pub fn set_speed(name: &str, mbps: u32) -> io::Result<()> {
    const SET_SETTINGS: u32 = 2;
    const FULL_DUPLEX: u8 = 1;
    // struct ethtool_cmd has 44 bytes: cmd at 0, speed at 12, duplex at 14, port at 15, speed_hi at
    // 28.
    let (low, high) = (mbps as u16, (mbps >> 16) as u16);
    let ([low0, low1], [high0, high1]) = (low.to_ne_bytes(), high.to_ne_bytes());
    let high = u32::from_ne_bytes([high0, high1, 0, 0]);
    let mut value = [SET_SETTINGS, 0, 0, u32::from_ne_bytes([low0, low1, FULL_DUPLEX, 0]), 0, 0, 0, high, 0, 0, 0];
    let mut request = ifreq(name)?;
    request.ifr_ifru.ifru_data = std::ptr::from_mut(&mut value).cast();
    ioctl_ifreq(&control()?, libc::SIOCETHTOOL, &mut request)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the loopback has carrier but no speed, and that a missing interface is an error.
    #[test]
    fn link_state_is_read_from_the_kernel() {
        let lo = status("lo").unwrap();
        assert_eq!((lo.speed_mbps, lo.half_duplex), (None, false));
        assert!(status("no-such-if0").is_err());
    }
}
