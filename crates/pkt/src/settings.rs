//! Settings from the flags `--name=value` at the start of a script.
//!
//! A script without `--ip_version=ipv6` states lengths for IPv4. When it runs over IPv6, its MTU is
//! increased by 20 bytes, so that segments keep their length and `<mss 1460>` stays valid. The
//! tests of packetdrill do the same with `--mtu=1520`.

use crate::error::PktError;
use crate::icmp::HEADERS_DIFFER_BY;
use crate::script::{IpVersion, Script};
use clock::Duration;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const LOCAL4: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 1);
const REMOTE4: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const LOCAL6: Ipv6Addr = Ipv6Addr::new(0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, 1);
const REMOTE6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);

/// Settings of a script.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub version: IpVersion,
    pub local: IpAddr,
    pub remote: IpAddr,
    pub bind_port: u16,
    pub connect_port: u16,
    pub mtu: u16,
    pub tolerance: Duration,
    pub tick_ns: u64,
    pub strict: bool,
}

impl Settings {
    /// Returns the settings of `script` for the IP version `wanted`, or for the script's own
    /// version if `wanted` is `None`.
    pub fn of(script: &Script, wanted: Option<IpVersion>) -> Result<Settings, PktError> {
        let own = script.ip_version()?;
        let version = wanted.or(own).unwrap_or(IpVersion::V4);
        let is_six = version == IpVersion::V6;
        let mut out = Settings {
            version,
            local: if is_six { LOCAL6.into() } else { LOCAL4.into() },
            remote: if is_six { REMOTE6.into() } else { REMOTE4.into() },
            bind_port: 8080,
            connect_port: 8080,
            mtu: 1500,
            tolerance: Duration::from_micros(4000),
            tick_ns: 0,
            strict: false,
        };
        for (line, name, value) in &script.flags {
            let bad = || PktError::at(*line, format!("--{name}={value}: invalid value"));
            match name.as_str() {
                "local_ip" => out.local = address(value, is_six).ok_or_else(bad)?,
                "remote_ip" => out.remote = address(value, is_six).ok_or_else(bad)?,
                "bind_port" => out.bind_port = value.parse().map_err(|_| bad())?,
                "connect_port" => out.connect_port = value.parse().map_err(|_| bad())?,
                "mtu" => out.mtu = value.parse().ok().filter(|mtu| *mtu >= 68).ok_or_else(bad)?,
                "tolerance_usecs" => {
                    let us: u32 = value.parse().map_err(|_| bad())?;
                    out.tolerance = Duration::from_micros(us.into());
                }
                "tcp_ts_tick_usecs" => {
                    let us: u32 = value.parse().map_err(|_| bad())?;
                    out.tick_ns = u64::from(us) * 1000;
                }
                "ip_version" => {} // read above
                "strict_segments" => out.strict = true,
                // These flags are ignored: they configure a real network, or request the default
                // behavior of our host.
                "tcp_ts_ecr_scaled" | "gateway_ip" | "netmask_ip" | "speed" | "verbose" | "non_fatal" | "mss" => {}
                _ => return Err(PktError::at(*line, format!("unknown flag '--{name}'"))),
            }
        }
        if is_six && own != Some(IpVersion::V6) {
            out.mtu = out.mtu.saturating_add(HEADERS_DIFFER_BY as u16);
        }
        Ok(out)
    }
}

/// Parses an address of the given family.
fn address(text: &str, is_six: bool) -> Option<IpAddr> {
    text.parse().ok().filter(|addr: &IpAddr| addr.is_ipv6() == is_six)
}
