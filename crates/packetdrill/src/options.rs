//! Socket options by Linux's numbers.
//!
//! Most options map to an option of [`socket`]. Some are stored with the descriptor. Some are
//! accepted without effect, because they request the default behavior. Buffer sizes follow Linux:
//! the value set is doubled to account for overhead. The receive window is based on half of the
//! doubled value; [`crate::calls`] implements the send buffer.

use crate::Errno;
use crate::addr;
use crate::calls::Done;
use crate::door::{Door, State};
use crate::info;
use clock::Duration;
use inet::iface::IfaceId;
use libc::c_int;
use socket::{Opt, OptKind};
use std::net::{IpAddr, Ipv6Addr};
use tcp::cc::Algorithm;

/// Numbers of options that the crate `libc` does not define.
const SO_MEMINFO: c_int = 55;
const SO_ZEROCOPY: c_int = 60;
const TCP_ULP: c_int = 31;
const TCP_INQ: c_int = 36;
const TCP_CC_INFO: c_int = 26;

/// Minimum buffer sizes, as doubled values (Linux: SOCK_MIN_SNDBUF and SOCK_MIN_RCVBUF).
const MIN_SNDBUF: usize = 4608;
const MIN_RCVBUF: usize = 2304;
/// Maximum buffer size before doubling (Linux: net.core.wmem_max and rmem_max).
const MAX_BUFFER: usize = 4 << 20;

/// Encoding of an option's value.
enum Value {
    Number(i64),
    Bytes(Vec<u8>),
}

fn int(bytes: &[u8]) -> Done<i64> {
    bytes.first_chunk().map(|four| i32::from_ne_bytes(*four).into()).ok_or(libc::EINVAL)
}

/// Parses a `struct timeval`; zero means no timeout.
fn time(bytes: &[u8]) -> Done<Option<Duration>> {
    let half = |at: usize| bytes.get(at..at + 8).and_then(|eight| eight.first_chunk());
    let (s, us) = half(0).zip(half(8)).ok_or(libc::EINVAL)?;
    let (s, us) = (i64::from_ne_bytes(*s), i64::from_ne_bytes(*us));
    if !(0..1_000_000).contains(&us) {
        return Err(libc::EDOM);
    }
    let span = Duration::from_secs(s.max(0) as u64) + Duration::from_micros(us as u64);
    Ok((!span.is_zero()).then_some(span))
}

/// Returns the buffer size that `getsockopt` reports after `setsockopt` with `requested`.
fn buffer(requested: i64, least: usize) -> usize {
    (2 * usize::try_from(requested).unwrap_or(usize::MAX / 2).min(MAX_BUFFER)).max(least)
}

/// Returns the option for a C level and name; `None` if the option is accepted without effect.
fn option(level: c_int, name: c_int, bytes: &[u8]) -> Done<Option<Opt>> {
    let on = || int(bytes).map(|n| n != 0);
    let seconds = || match int(bytes)? {
        n @ 1..=32_767 => Ok(Duration::from_secs(n as u64)),
        _ => Err(libc::EINVAL),
    };
    Ok(Some(match (level, name) {
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => Opt::ReuseAddr(on()?),
        (libc::SOL_SOCKET, libc::SO_REUSEPORT) => Opt::ReusePort(on()?),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => Opt::KeepAlive(on()?),
        (libc::SOL_SOCKET, libc::SO_BROADCAST) => Opt::Broadcast(on()?),
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => Opt::RecvTimeout(time(bytes)?),
        (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => Opt::SendTimeout(time(bytes)?),
        (libc::SOL_SOCKET, libc::SO_LINGER) => {
            let seconds = int(bytes.get(4..).unwrap_or_default())?.max(0) as u64;
            Opt::Linger(on()?.then(|| Duration::from_secs(seconds)))
        }
        (libc::SOL_SOCKET, libc::SO_PRIORITY | libc::SO_MARK | libc::SO_OOBINLINE | libc::SO_BUSY_POLL) => {
            int(bytes)?;
            return Ok(None);
        }
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => Opt::NoDelay(on()?),
        (libc::IPPROTO_TCP, libc::TCP_CORK) => Opt::Cork(on()?),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => Opt::KeepIdle(seconds()?),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => Opt::KeepInterval(seconds()?),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => Opt::KeepCount(u8::try_from(int(bytes)?).map_err(|_| libc::EINVAL)?),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => {
            let ms = u64::try_from(int(bytes)?).map_err(|_| libc::EINVAL)?;
            Opt::UserTimeout((ms > 0).then(|| Duration::from_millis(ms)))
        }
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => Opt::MaxSegment(u16::try_from(int(bytes)?).map_err(|_| libc::EINVAL)?),
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => {
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            match bytes.get(..end) {
                Some(b"cubic") => Opt::Congestion(Algorithm::Cubic),
                Some(b"reno") => Opt::Congestion(Algorithm::NewReno),
                _ => return Err(libc::ENOENT),
            }
        }
        // Accepted without effect. TCP_QUICKACK is not needed, since the delay of ACKs depends on
        // the received segments. Linux does not keep it permanently, either.
        (
            libc::IPPROTO_TCP,
            libc::TCP_QUICKACK | libc::TCP_DEFER_ACCEPT | libc::TCP_SYNCNT | libc::TCP_WINDOW_CLAMP,
        ) => {
            int(bytes)?;
            return Ok(None);
        }
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => match int(bytes)? {
            -1 => return Ok(None),
            ttl => Opt::Ttl(u8::try_from(ttl).map_err(|_| libc::EINVAL)?),
        },
        (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => Opt::Tos(byte(bytes)?),
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => Opt::V6Only(on()?),
        (libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG) => Opt::DontFragment(on()?),
        (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS) => {
            Opt::MulticastTtl(byte(bytes)?)
        }
        (libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP) | (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP) => {
            Opt::MulticastLoop(byte(bytes)? != 0)
        }
        (libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP) => {
            let (group, iface) = membership(bytes)?;
            Opt::Join(group, iface)
        }
        (libc::IPPROTO_IPV6, libc::IPV6_DROP_MEMBERSHIP) => {
            let (group, iface) = membership(bytes)?;
            Opt::Leave(group, iface)
        }
        (libc::IPPROTO_IP, libc::IP_TRANSPARENT | libc::IP_FREEBIND) => Opt::BindAny(on()?),
        // The path MTU is always discovered without fragmenting (RFC 1191), as with
        // IP_PMTUDISC_WANT and _DO.
        (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER | libc::IP_RECVERR)
        | (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER | libc::IPV6_RECVERR) => {
            byte(bytes)?;
            return Ok(None);
        }
        _ => return Err(libc::ENOPROTOOPT),
    }))
}

/// Parses a `struct ipv6_mreq`: a group, and the index of an iface. Index 0 means any iface.
fn membership(bytes: &[u8]) -> Done<(IpAddr, Option<IfaceId>)> {
    let (group, rest) = bytes.split_first_chunk::<16>().ok_or(libc::EINVAL)?;
    let iface = match int(rest)? {
        0 => None,
        index => Some(inet::zone::iface_of(index as u32).ok_or(libc::ENODEV)?),
    };
    Ok((Ipv6Addr::from(*group).into(), iface))
}

/// Parses a byte, which may be passed as an int.
fn byte(bytes: &[u8]) -> Done<u8> {
    match int(bytes) {
        Ok(n) => Ok(n as u8),
        Err(_) => bytes.first().copied().ok_or(libc::EINVAL),
    }
}

/// Returns the kind of option for a C level and name.
fn kind(level: c_int, name: c_int) -> Done<OptKind> {
    Ok(match (level, name) {
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => OptKind::ReuseAddr,
        (libc::SOL_SOCKET, libc::SO_REUSEPORT) => OptKind::ReusePort,
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => OptKind::KeepAlive,
        (libc::SOL_SOCKET, libc::SO_BROADCAST) => OptKind::Broadcast,
        (libc::SOL_SOCKET, libc::SO_RCVTIMEO) => OptKind::RecvTimeout,
        (libc::SOL_SOCKET, libc::SO_SNDTIMEO) => OptKind::SendTimeout,
        (libc::SOL_SOCKET, libc::SO_LINGER) => OptKind::Linger,
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => OptKind::RecvBuffer,
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => OptKind::NoDelay,
        (libc::IPPROTO_TCP, libc::TCP_CORK) => OptKind::Cork,
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => OptKind::KeepIdle,
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL) => OptKind::KeepInterval,
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT) => OptKind::KeepCount,
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT) => OptKind::UserTimeout,
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => OptKind::MaxSegment,
        (libc::IPPROTO_TCP, libc::TCP_CONGESTION) => OptKind::Congestion,
        (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS) => OptKind::Ttl,
        (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => OptKind::Tos,
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => OptKind::V6Only,
        (libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG) => OptKind::DontFragment,
        (libc::IPPROTO_IP, libc::IP_MULTICAST_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_HOPS) => {
            OptKind::MulticastTtl
        }
        (libc::IPPROTO_IP, libc::IP_MULTICAST_LOOP) | (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_LOOP) => {
            OptKind::MulticastLoop
        }
        (libc::IPPROTO_IP, libc::IP_TRANSPARENT) => OptKind::BindAny,
        _ => return Err(libc::ENOPROTOOPT),
    })
}

/// Encodes an option's value in its C representation.
fn value(opt: Opt) -> Value {
    let time = |time: Option<Duration>| {
        let time = time.unwrap_or_default();
        [time.as_secs().to_ne_bytes(), u64::from(time.subsec_micros()).to_ne_bytes()].concat()
    };
    Value::Number(match opt {
        Opt::ReuseAddr(on) | Opt::ReusePort(on) | Opt::KeepAlive(on) | Opt::Broadcast(on) => on.into(),
        Opt::NoDelay(on) | Opt::Cork(on) | Opt::BindAny(on) => on.into(),
        Opt::V6Only(on) | Opt::DontFragment(on) | Opt::MulticastLoop(on) => on.into(),
        Opt::RecvBuffer(bytes) => bytes as i64,
        Opt::KeepIdle(time) | Opt::KeepInterval(time) => time.as_secs() as i64,
        Opt::UserTimeout(time) => time.map_or(0, |time| time.as_millis() as i64),
        Opt::KeepCount(n) | Opt::Ttl(n) | Opt::Tos(n) | Opt::MulticastTtl(n) => n.into(),
        Opt::MaxSegment(mss) => mss.into(),
        Opt::RecvTimeout(timeout) | Opt::SendTimeout(timeout) => return Value::Bytes(time(timeout)),
        Opt::Linger(linger) => {
            let seconds = linger.map_or(0, |time| time.as_secs() as i32);
            let on = i32::from(linger.is_some());
            return Value::Bytes([on.to_ne_bytes(), seconds.to_ne_bytes()].concat());
        }
        Opt::Congestion(algorithm) => {
            let mut name = algorithm.name().as_bytes().to_vec();
            name.resize(16, 0); // TCP_CA_NAME_MAX
            return Value::Bytes(name);
        }
        _ => return Value::Bytes(Vec::new()),
    })
}

impl Door {
    /// Implements setsockopt(2).
    pub fn set_option(&self, token: c_int, level: c_int, name: c_int, bytes: &[u8]) -> Done<()> {
        self.enter(|state| state.set_option(token, level, name, bytes))
    }

    /// Implements getsockopt(2). Returns the value, truncated to `len` bytes.
    pub fn option(&self, token: c_int, level: c_int, name: c_int, len: usize) -> Done<Vec<u8>> {
        let mut bytes = self.enter(|state| match state.option(token, level, name)? {
            Value::Number(n) => Ok::<_, Errno>((n as c_int).to_ne_bytes().to_vec()),
            Value::Bytes(bytes) => Ok(bytes),
        })?;
        bytes.truncate(len);
        Ok(bytes)
    }
}

impl State {
    fn set_option(&mut self, token: c_int, level: c_int, name: c_int, bytes: &[u8]) -> Done<()> {
        let socket = self.files.socket(token)?;
        let fd = socket.fd;
        let opt = match (level, name) {
            (libc::SOL_SOCKET, libc::SO_SNDBUF | libc::SO_SNDBUFFORCE) => {
                socket.send_buffer = Some(buffer(int(bytes)?, MIN_SNDBUF));
                return Ok(());
            }
            (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_RCVBUFFORCE) => {
                let reported = buffer(int(bytes)?, MIN_RCVBUF);
                socket.recv_buffer = Some(reported);
                Opt::RecvBuffer((reported / 2).max(2048)) // minimum receive buffer of our stack
            }
            (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT) if fd.is_stream() => {
                socket.lowat = Some(int(bytes)? as u32).filter(|bytes| *bytes != 0);
                return Ok(());
            }
            (libc::IPPROTO_TCP, TCP_INQ) => {
                socket.inq = match int(bytes)? {
                    0 => false,
                    1 => true,
                    _ => return Err(libc::EINVAL),
                };
                return Ok(());
            }
            (libc::SOL_SOCKET, SO_ZEROCOPY) | (libc::IPPROTO_TCP, TCP_ULP) => return Err(libc::ENOPROTOOPT),
            _ => match option(level, name, bytes)? {
                Some(opt) => opt,
                None => return Ok(()),
            },
        };
        self.host.calls().set_option(fd, opt).map_err(|errno| errno.raw())
    }

    fn option(&self, token: c_int, level: c_int, name: c_int) -> Done<Value> {
        let socket = self.files.get(token)?;
        let (fd, calls) = (socket.fd, self.host.calls());
        Ok(match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR) => {
                let error = calls.take_error(fd).map_err(|errno| errno.raw())?;
                Value::Number(error.map_or(0, |errno| errno.raw().into()))
            }
            (libc::SOL_SOCKET, libc::SO_TYPE) => {
                Value::Number(if fd.is_stream() { libc::SOCK_STREAM } else { libc::SOCK_DGRAM }.into())
            }
            (libc::SOL_SOCKET, libc::SO_PROTOCOL) => {
                Value::Number(if fd.is_stream() { libc::IPPROTO_TCP } else { libc::IPPROTO_UDP }.into())
            }
            (libc::SOL_SOCKET, libc::SO_DOMAIN) => Value::Number(addr::number(socket.domain).into()),
            (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => {
                let id = self.stream(token)?;
                let listens = self.host.stack.with_sock(self.host.cx(), id, |sock| sock.is_listening());
                Value::Number((listens == Some(true)).into())
            }
            (libc::SOL_SOCKET, SO_MEMINFO) => {
                let recv = match calls.option(fd, OptKind::RecvBuffer) {
                    Ok(Opt::RecvBuffer(n)) => n as u32,
                    _ => 0,
                };
                let send = self.send_buffer(token)? as u32;
                let queues = match self.stream(token) {
                    Ok(id) => self.host.stack.with_sock(self.host.cx(), id, |sock| sock.queues()),
                    Err(_) => None,
                };
                let (unread, unacked) = queues.unwrap_or_default();
                Value::Bytes(info::memory(unread as u32, recv, unacked as u32, send))
            }
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => Value::Number(self.send_buffer(token)? as i64),
            (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT) => Value::Number(socket.lowat.unwrap_or(0) as i32 as i64),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) if socket.recv_buffer.is_some() => {
                Value::Number(socket.recv_buffer.unwrap_or_default() as i64)
            }
            (libc::IPPROTO_TCP, libc::TCP_INFO) => {
                let listens = match self.stream(token) {
                    Ok(id) => self.host.stack.with_sock(self.host.cx(), id, |sock| sock.is_listening()) == Some(true),
                    Err(_) => return Err(libc::ENOPROTOOPT),
                };
                Value::Bytes(match calls.tcp_info(fd) {
                    Ok(known) => info::bytes(&known),
                    Err(_) => info::idle(listens),
                })
            }
            // Neither algorithm has statistics to report.
            (libc::IPPROTO_TCP, TCP_CC_INFO) => Value::Bytes(Vec::new()),
            (libc::IPPROTO_TCP, TCP_INQ) => Value::Number(socket.inq.into()),
            (libc::IPPROTO_TCP, libc::TCP_QUICKACK) => Value::Number(1),
            _ => value(calls.option(fd, kind(level, name)?).map_err(|errno| errno.raw())?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_doubled_and_not_too_small() {
        assert_eq!(buffer(21_000, MIN_SNDBUF), 42_000);
        assert_eq!(buffer(1, MIN_SNDBUF), 4608);
        assert_eq!(buffer(i64::from(i32::MAX), MIN_SNDBUF), 8 << 20);
        assert_eq!(buffer(-1, MIN_RCVBUF), 8 << 20); // Linux treats it as unsigned
    }

    #[test]
    fn values_of_the_wrong_size_are_refused() {
        assert_eq!(option(libc::SOL_SOCKET, libc::SO_REUSEADDR, &[1]), Err(libc::EINVAL));
        assert_eq!(option(libc::SOL_SOCKET, libc::SO_RCVTIMEO, &[0; 8]), Err(libc::EINVAL));
        assert_eq!(option(libc::IPPROTO_TCP, 9999, &[0; 4]), Err(libc::ENOPROTOOPT));
        assert_eq!(option(libc::IPPROTO_IPV6, libc::IPV6_ADD_MEMBERSHIP, &[0; 19]), Err(libc::EINVAL));
        assert_eq!(option(libc::IPPROTO_TCP, libc::TCP_CONGESTION, b"vegas"), Err(libc::ENOENT));
    }
}
