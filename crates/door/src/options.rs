//! Options of TCP, IPv4 and IPv6 sockets with an integer value. Those of the level SOL_SOCKET are
//! of the token.

use clock::Duration;
use socket::{Opt, OptKind};

/// Returns the kind of an option that the host has.
pub fn kind(level: i32, name: i32) -> Option<OptKind> {
    Some(match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => OptKind::KeepIdle,
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => OptKind::KeepInterval,
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => OptKind::KeepCount,
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => OptKind::UserTimeout,
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => OptKind::MaxSegment,
        (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT) => OptKind::NotSentLowat,
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => OptKind::Ttl,
        (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => OptKind::Tos,
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => OptKind::V6Only,
        _ => return None,
    })
}

/// Returns whether an option is a hint, without which a host works, only slower.
pub fn is_hint(level: i32, name: i32) -> bool {
    let hints = [libc::TCP_DEFER_ACCEPT, libc::TCP_FASTOPEN, libc::TCP_FASTOPEN_CONNECT, libc::TCP_LINGER2];
    level == libc::IPPROTO_TCP && hints.contains(&name)
}

/// Returns the option of this kind with the value of a program; `None` if it is out of range.
pub fn of_value(kind: OptKind, value: i32) -> Option<Opt> {
    let unsigned = u32::try_from(value).ok();
    Some(match kind {
        OptKind::KeepIdle => Opt::KeepIdle(Duration::from_secs(unsigned?.into())),
        OptKind::KeepInterval => Opt::KeepInterval(Duration::from_secs(unsigned?.into())),
        OptKind::KeepCount => Opt::KeepCount(u8::try_from(value).ok()?),
        OptKind::UserTimeout => {
            Opt::UserTimeout(Some(unsigned?).filter(|ms| *ms != 0).map(|ms| Duration::from_millis(ms.into())))
        }
        OptKind::MaxSegment => Opt::MaxSegment(u16::try_from(value).ok()?),
        OptKind::NotSentLowat => Opt::NotSentLowat(unsigned?),
        // -1 restores the default of Linux.
        OptKind::Ttl => Opt::Ttl(if value == -1 { 64 } else { u8::try_from(value).ok().filter(|ttl| *ttl != 0)? }),
        OptKind::Tos => Opt::Tos(if value == -1 { 0 } else { u8::try_from(value).ok()? }),
        OptKind::V6Only => Opt::V6Only(value != 0),
        _ => return None,
    })
}

/// Returns the value of an option as a program gets it.
pub fn value(opt: &Opt) -> Option<i32> {
    let number = |n: u64| i32::try_from(n).unwrap_or(i32::MAX);
    Some(match opt {
        Opt::KeepIdle(time) | Opt::KeepInterval(time) => number(time.as_secs()),
        Opt::KeepCount(count) => (*count).into(),
        Opt::UserTimeout(time) => time.map_or(0, |time| number(time.as_millis() as u64)),
        Opt::MaxSegment(mss) => (*mss).into(),
        Opt::NotSentLowat(bytes) => number((*bytes).into()),
        Opt::Ttl(ttl) => (*ttl).into(),
        Opt::Tos(tos) => (*tos).into(),
        Opt::V6Only(on) => (*on).into(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_both_conversions_and_others_are_out_of_range() {
        let tcp = libc::IPPROTO_TCP;
        for (level, name, good, bad) in [
            (tcp, libc::TCP_KEEPIDLE, 7200, -1),
            (tcp, libc::TCP_KEEPINTVL, 75, -1),
            (tcp, libc::TCP_KEEPCNT, 9, 256),
            (tcp, libc::TCP_USER_TIMEOUT, 1500, -1),
            (tcp, libc::TCP_MAXSEG, 1460, 70_000),
            (tcp, libc::TCP_NOTSENT_LOWAT, 1 << 20, -1),
            (libc::IPPROTO_IP, libc::IP_TTL, 1, 0),
            (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, 255, 256),
            (libc::IPPROTO_IP, libc::IP_TOS, 0x10, 256),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, 0, -2),
        ] {
            let kind = kind(level, name).unwrap();
            assert_eq!(of_value(kind, good).as_ref().and_then(value), Some(good), "{kind:?}");
            assert_eq!(of_value(kind, bad), None, "{kind:?}");
        }
        assert_eq!(of_value(OptKind::V6Only, 5).as_ref().and_then(value), Some(1));
        assert_eq!(kind(tcp, libc::TCP_ULP), None);
        assert!(is_hint(tcp, libc::TCP_DEFER_ACCEPT) && !is_hint(libc::IPPROTO_IP, libc::TCP_DEFER_ACCEPT));
    }
}
