//! Configuration of a NAT44 translator, and the command-line words for some of its values.

use clock::Duration;
use std::fmt;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Direction in which frames cross the translator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Dir {
    /// Determined by the addresses of each frame.
    #[default]
    Auto,
    /// All frames go from inside to outside.
    Out,
    /// All frames go from outside to inside.
    In,
}

/// Configuration of a translator.
#[derive(Clone, Debug)]
pub struct Config {
    /// Inside network and outside address.
    pub between: Between,
    /// Direction in which frames cross the translator.
    pub dir: Dir,
    /// L4 ports of the outside address that sessions may use.
    pub ports: RangeInclusive<u16>,
    /// Maximum number of sessions. At the maximum, each new session evicts an idle one.
    pub limit: usize,
    /// Timeouts of idle sessions.
    pub timeouts: Timeouts,
}

impl Config {
    /// Creates a configuration with the defaults of the RFCs.
    pub fn new(between: Between) -> Config {
        let (dir, timeouts) = (Dir::default(), Timeouts::default());
        Config { between, dir, ports: 1..=u16::MAX, limit: 65_536, timeouts }
    }
}

/// An inside network and its outside address, as in `10.0.0.0/8=192.0.2.1`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Between {
    net: u32,
    mask: u32,
    /// Address that replaces all addresses of the inside network.
    pub outside: Ipv4Addr,
}

impl Between {
    /// Returns whether `addr` is an inside address.
    pub fn contains(&self, addr: Ipv4Addr) -> bool {
        addr.to_bits() & self.mask == self.net
    }
}

/// Idle times after which sessions end, by kind of session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// Timeout of UDP sessions. It should be at least 2 minutes; 5 minutes are recommended (RFC
    /// 4787 REQ-5).
    pub udp: Duration,
    /// Timeout of ICMP echo sessions. It should be at least 60 seconds (RFC 5508 REQ-1).
    pub icmp: Duration,
    /// Timeout of established TCP connections. It should be at least 2 hours and 4 minutes (RFC
    /// 5382 REQ-5).
    pub tcp: Duration,
    /// Timeout of half-open or closed TCP connections. It should be at least 4 minutes (RFC 5382
    /// REQ-5).
    pub transitory: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        let [udp, icmp, tcp, transitory] = [300, 60, 7440, 240].map(Duration::from_secs);
        Timeouts { udp, icmp, tcp, transitory }
    }
}

/// Error for an invalid configuration value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadOption(String);

impl fmt::Display for BadOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadOption {}

impl FromStr for Between {
    type Err = BadOption;

    fn from_str(text: &str) -> Result<Between, BadOption> {
        let bad = || BadOption("expected INSIDE_NET=OUTSIDE_ADDR, as in 10.0.0.0/8=192.0.2.1".to_owned());
        let (net, outside) = text.split_once('=').ok_or_else(bad)?;
        let (net, len) = net.split_once('/').unwrap_or((net, "32"));
        let (net, outside): (Ipv4Addr, Ipv4Addr) =
            (net.parse().map_err(|_| bad())?, outside.parse().map_err(|_| bad())?);
        let len: u32 = len.parse().ok().filter(|len| *len <= 32).ok_or_else(bad)?;
        let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
        let between = Between { net: net.to_bits() & mask, mask, outside };
        if between.contains(outside) {
            return Err(BadOption(format!("outside address '{outside}' must not belong to the inside network")));
        }
        Ok(between)
    }
}

impl FromStr for Timeouts {
    type Err = BadOption;

    fn from_str(text: &str) -> Result<Timeouts, BadOption> {
        let mut timeouts = Timeouts::default();
        for word in text.split(',') {
            let (name, seconds) = word.split_once('=').unwrap_or((word, ""));
            let place = match name {
                "udp" => &mut timeouts.udp,
                "icmp" => &mut timeouts.icmp,
                "tcp" => &mut timeouts.tcp,
                "transitory" => &mut timeouts.transitory,
                _ => return Err(BadOption(format!("unknown timeout '{name}': must be udp, icmp, tcp or transitory"))),
            };
            let seconds = seconds.parse().ok().filter(|seconds| (1..=31_536_000).contains(seconds));
            let seconds =
                seconds.ok_or_else(|| BadOption(format!("'{word}': expected 1 to 31536000 seconds, as in udp=300")))?;
            *place = Duration::from_secs(seconds);
        }
        Ok(timeouts)
    }
}
