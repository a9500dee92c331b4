//! Socket options with their names and units in the C API.

use crate::play::Player;
use crate::script::Expr;
use crate::value::value;
use clock::Duration;
use socket::{Errno, Fd, Opt, OptKind};
use tcp::cc::Algorithm;

fn name(expr: &Expr) -> Result<&str, String> {
    match expr {
        Expr::Word(word) => Ok(word),
        other => Err(format!("{other:?}: expected an option name")),
    }
}

/// Returns an option with the value in the script. The inner `Err` is the errno for an invalid
/// value.
fn option(name: &str, given: &Expr) -> Result<Result<Opt, Errno>, String> {
    let number = || match given {
        Expr::List(parts) => value(parts.first().unwrap_or(&Expr::Int(0))),
        other => value(other),
    };
    let on = || number().map(|n| n != 0);
    let size = || number().map(|n| usize::try_from(n).unwrap_or(0));
    let seconds = || number().map(|n| Duration::from_secs(n.max(0) as u64));
    let byte = |n: i64| u8::try_from(n).map_err(|_| Errno::EINVAL);
    Ok(Ok(match name {
        "SO_REUSEADDR" => Opt::ReuseAddr(on()?),
        "SO_REUSEPORT" => Opt::ReusePort(on()?),
        "SO_KEEPALIVE" => Opt::KeepAlive(on()?),
        "SO_BROADCAST" => Opt::Broadcast(on()?),
        "SO_RCVBUF" => Opt::RecvBuffer(size()?),
        "SO_SNDBUF" => Opt::SendBuffer(size()?),
        "SO_RCVTIMEO" => Opt::RecvTimeout(time(given)?),
        "SO_SNDTIMEO" => Opt::SendTimeout(time(given)?),
        "SO_LINGER" => {
            let field = |name: &str| given.field(name).map_or(Ok(0), value);
            let time = Duration::from_secs(field("linger")?.max(0) as u64);
            Opt::Linger((field("onoff")? != 0).then_some(time))
        }
        "TCP_NODELAY" => Opt::NoDelay(on()?),
        "TCP_CORK" | "TCP_NOPUSH" => Opt::Cork(on()?),
        "TCP_KEEPIDLE" => Opt::KeepIdle(seconds()?),
        "TCP_KEEPINTVL" => Opt::KeepInterval(seconds()?),
        "TCP_KEEPCNT" => match byte(number()?) {
            Ok(count) => Opt::KeepCount(count),
            Err(errno) => return Ok(Err(errno)),
        },
        "TCP_USER_TIMEOUT" => {
            let ms = number()?.max(0) as u64;
            Opt::UserTimeout((ms > 0).then(|| Duration::from_millis(ms)))
        }
        "TCP_MAXSEG" => match u16::try_from(number()?) {
            Ok(mss) => Opt::MaxSegment(mss),
            Err(_) => return Ok(Err(Errno::EINVAL)),
        },
        "TCP_CONGESTION" => match given {
            Expr::Str(text) if text == "cubic" => Opt::Congestion(Algorithm::Cubic),
            Expr::Str(text) if text == "reno" => Opt::Congestion(Algorithm::NewReno),
            other => return Err(format!("TCP_CONGESTION: {other:?}: must be cubic or reno")),
        },
        "TCP_NOTSENT_LOWAT" => Opt::NotSentLowat(number()? as u32),
        "IPV6_V6ONLY" => Opt::V6Only(on()?),
        "IP_TTL" | "IPV6_UNICAST_HOPS" => match byte(number()?) {
            Ok(ttl) => Opt::Ttl(ttl),
            Err(errno) => return Ok(Err(errno)),
        },
        "IP_TOS" | "IPV6_TCLASS" => Opt::Tos(number()? as u8),
        "IP_DONTFRAG" | "IPV6_DONTFRAG" => Opt::DontFragment(on()?),
        "IP_TRANSPARENT" | "IP_BINDANY" | "IP_FREEBIND" => Opt::BindAny(on()?),
        other => return Err(format!("unknown socket option '{other}'")),
    }))
}

/// Parses `{tv_sec=1, tv_usec=0}`; zero means no timeout.
fn time(given: &Expr) -> Result<Option<Duration>, String> {
    let field = |name: &str| given.field(name).map_or(Ok(0), value).map(|n| n.max(0) as u64);
    let time = Duration::from_secs(field("tv_sec")?) + Duration::from_micros(field("tv_usec")?);
    Ok((!time.is_zero()).then_some(time))
}

/// Executes `setsockopt`.
pub(crate) fn set(
    player: &Player<'_>,
    fd: Fd,
    _level: &Expr,
    opt: &Expr,
    given: &Expr,
) -> Result<Result<(), Errno>, String> {
    match option(name(opt)?, given)? {
        Ok(opt) => Ok(player.calls().set_option(fd, opt)),
        Err(errno) => Ok(Err(errno)),
    }
}

/// Compares a value with the value in the script, which is `number`, `[number]`, or `...` for any
/// value.
pub(crate) fn same(came: i64, stated: &Expr) -> Result<(), String> {
    let stated = match stated {
        Expr::Ellipsis => return Ok(()),
        Expr::List(parts) => value(parts.first().unwrap_or(&Expr::Int(0)))?,
        other => value(other)?,
    };
    if stated == came {
        return Ok(());
    }
    Err(format!("wrong value\n  expected: {stated}\n  actual:   {came}"))
}

/// Executes `getsockopt`.
pub(crate) fn get(
    player: &Player<'_>,
    fd: Fd,
    _level: &Expr,
    opt: &Expr,
    stated: &Expr,
) -> Result<Result<i64, Errno>, String> {
    let calls = player.calls();
    let opt = name(opt)?;
    if opt == "SO_ERROR" {
        return match calls.take_error(fd) {
            Err(errno) => Ok(Err(errno)),
            Ok(error) => {
                // The script may also state an errno by its name: [ECONNREFUSED].
                if let (Expr::List(parts), Some(errno)) = (stated, error)
                    && let [Expr::Word(word)] = parts.as_slice()
                    && word == errno.name()
                {
                    return Ok(Ok(0));
                }
                same(error.map_or(0, |errno| errno.raw().into()), stated).map(|()| Ok(0))
            }
        };
    }
    let kind = match opt {
        "SO_REUSEADDR" => OptKind::ReuseAddr,
        "SO_REUSEPORT" => OptKind::ReusePort,
        "SO_KEEPALIVE" => OptKind::KeepAlive,
        "SO_RCVBUF" => OptKind::RecvBuffer,
        "SO_SNDBUF" => OptKind::SendBuffer,
        "TCP_NODELAY" => OptKind::NoDelay,
        "TCP_CORK" => OptKind::Cork,
        "TCP_KEEPIDLE" => OptKind::KeepIdle,
        "TCP_KEEPINTVL" => OptKind::KeepInterval,
        "TCP_KEEPCNT" => OptKind::KeepCount,
        "TCP_USER_TIMEOUT" => OptKind::UserTimeout,
        "TCP_MAXSEG" => OptKind::MaxSegment,
        "TCP_CONGESTION" => OptKind::Congestion,
        "TCP_NOTSENT_LOWAT" => OptKind::NotSentLowat,
        "IPV6_V6ONLY" => OptKind::V6Only,
        "IP_TTL" | "IPV6_UNICAST_HOPS" => OptKind::Ttl,
        "IP_TOS" | "IPV6_TCLASS" => OptKind::Tos,
        "IP_DONTFRAG" | "IPV6_DONTFRAG" => OptKind::DontFragment,
        other => return Err(format!("getsockopt(): unsupported option '{other}'")),
    };
    let came = match calls.option(fd, kind) {
        Err(errno) => return Ok(Err(errno)),
        Ok(came) => came,
    };
    let number = match came {
        Opt::ReuseAddr(on) | Opt::ReusePort(on) | Opt::KeepAlive(on) | Opt::NoDelay(on) | Opt::Cork(on) => on.into(),
        Opt::V6Only(on) | Opt::DontFragment(on) => on.into(),
        Opt::RecvBuffer(n) | Opt::SendBuffer(n) => n as i64,
        Opt::KeepIdle(time) | Opt::KeepInterval(time) => time.as_secs() as i64,
        Opt::UserTimeout(time) => time.map_or(0, |time| time.as_millis() as i64),
        Opt::KeepCount(n) | Opt::Ttl(n) | Opt::Tos(n) => n.into(),
        Opt::MaxSegment(mss) => mss.into(),
        Opt::NotSentLowat(bytes) => bytes.into(),
        Opt::Congestion(algorithm) => {
            let fits = matches!(stated, Expr::Str(text) if text == algorithm.name()) || *stated == Expr::Ellipsis;
            return if fits { Ok(Ok(0)) } else { Err(format!("TCP_CONGESTION is {}", algorithm.name())) };
        }
        other => return Err(format!("getsockopt(): unsupported option {other:?}")),
    };
    same(number, stated).map(|()| Ok(0))
}
