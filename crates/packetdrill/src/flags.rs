//! `--so_flags`: configuration of the interface and of its host, as comma-separated `name=value`
//! pairs.
//!
//! A name that is not a flag of the interface is the name of a sysctl, ours or Linux's:
//! `tcp_ecn=1,tcp_timestamps=0,cc=cubic`. Values that Linux separates by blanks may be separated by
//! colons: `tcp_rmem=4096:540000:15728640`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Time {
    /// Virtual time, which advances to the next event without waiting.
    Virtual,
    /// Real time, with a live clock.
    Live,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub time: Time,
    pub local: Ipv4Addr,
    pub local6: Ipv6Addr,
    pub mtu: u16,
    pub seed: Option<u64>,
    /// True if the interface also handles calls that packetdrill makes directly to the C library.
    pub interpose: bool,
    /// True if sysctls that a script sets in this network namespace are applied to the host, too.
    pub follow: bool,
    pub sysctls: Vec<(String, String)>,
}

/// Default IPv6 address of the host, as in packetdrill's own tests.
const LOCAL6: Ipv6Addr = Ipv6Addr::new(0xfd3d, 0x0a0b, 0x17d6, 0, 0, 0, 0, 1);

/// Settings that scripts for Linux expect: the production settings of their authors, and Linux's
/// choices where the RFCs permit several (`profile=linux`).
const LINUX: &[(&str, &str)] = &[
    ("tcp_rmem", "4096:540000:15728640"),
    ("tcp_wmem", "4096:262144:4194304"),
    ("tcp_ecn", "0"),
    ("tcp_slow_start_after_idle", "0"),
    ("tcp_congestion_control", "cubic"),
    ("net.inet.tcp.rfc3465", "0"),
    ("net.inet.tcp.reduce_cwnd", "1"),
    ("net.inet.tcp.push_runs", "2"),
    ("net.inet.tcp.delay_fin_ack", "1"),
    ("tcp_syn_retries", "5"),
    ("tcp_synack_retries", "5"),
];

impl Settings {
    /// Parses `text`, the argument of `--so_flags`.
    ///
    /// # Errors
    /// Returns a message that begins with the invalid flag.
    pub fn parse(text: &str) -> Result<Settings, String> {
        let mut out = Settings {
            time: Time::Virtual,
            local: Ipv4Addr::new(192, 168, 0, 1),
            local6: LOCAL6,
            mtu: 1500,
            seed: Some(1),
            interpose: true,
            follow: true,
            sysctls: Vec::new(),
        };
        let mut profile: &[_] = &[];
        for flag in text.split(',').map(str::trim).filter(|flag| !flag.is_empty()) {
            let (name, value) = flag.split_once('=').ok_or_else(|| format!("{flag}: expected name=value"))?;
            let bad = |expected: &str| format!("{name}={value}: expected {expected}");
            let switch = || match value {
                "0" => Ok(false),
                "1" => Ok(true),
                _ => Err(bad("0 or 1")),
            };
            match name {
                "clock" => {
                    out.time = match value {
                        "virtual" => Time::Virtual,
                        "live" => Time::Live,
                        _ => return Err(bad("virtual or live")),
                    };
                }
                "local_ip" => match value.parse().map_err(|_| bad("an IP address"))? {
                    IpAddr::V4(local) => out.local = local,
                    IpAddr::V6(local) => out.local6 = local,
                },
                "mtu" => {
                    let mtu = value.parse().ok().filter(|mtu| *mtu >= 68);
                    out.mtu = mtu.ok_or_else(|| bad("68 to 65535"))?;
                }
                "seed" if value == "random" => out.seed = None,
                "seed" => out.seed = Some(value.parse().map_err(|_| bad("a number, or random"))?),
                "interpose" => out.interpose = switch()?,
                "follow" => out.follow = switch()?,
                "profile" => {
                    profile = match value {
                        "linux" => LINUX,
                        "rfc" => &[],
                        _ => return Err(bad("linux or rfc")),
                    };
                }
                "cc" => out.sysctls.push(("tcp_congestion_control".to_owned(), value.to_owned())),
                _ => out.sysctls.push((name.to_owned(), value.to_owned())),
            }
        }
        let profile = profile.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        out.sysctls = profile.chain(out.sysctls).collect(); // explicit flags override the profile
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_sysctls_are_parsed() {
        let settings = Settings::parse("tcp_ecn=1, tcp_timestamps=0,cc=reno,mtu=1400,clock=live,profile=rfc").unwrap();
        assert_eq!((settings.mtu, settings.time), (1400, Time::Live));
        let sysctls: Vec<_> = settings.sysctls.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(sysctls, ["tcp_ecn=1", "tcp_timestamps=0", "tcp_congestion_control=reno"]);
        assert!(Settings::parse("").unwrap().sysctls.is_empty(), "the product's own settings, unless told otherwise");
        assert_eq!(Settings::parse("profile=linux").unwrap().sysctls.len(), LINUX.len());
    }

    #[test]
    fn invalid_flags_are_named() {
        for (text, named) in [("mtu=12", "mtu=12"), ("tcp_ecn", "tcp_ecn"), ("clock=sun", "clock=sun")] {
            assert!(Settings::parse(text).unwrap_err().starts_with(named), "{text}");
        }
    }
}
