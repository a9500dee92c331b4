//! Opening a [`Port`] from a [`Spec`]: first the port itself, then each wrapper, from the inside
//! out.

// Ports on devices of the kernel.
#[cfg_attr(not(target_os = "linux"), path = "open/no_devices.rs")]
mod devices;
mod env;
mod fit;
mod pairs;
#[cfg(test)]
mod tests;
mod wires;

pub use devices::DeviceError;
pub use env::Env;
pub use fit::{buffer_len, fit_pool, is_zero_copy, pool_for, stride_for};
pub use pairs::{PairError, Pairs};
pub use wires::WireError;

use crate::impair::{self, Impairment};
use crate::nic::{self, NicError, Settings};
use crate::own::unix::open::{self as unix, UnixConfig, UnixError, UnixKind};
use crate::pcap::{self, Format, PcapConfig, PcapFileError};
use crate::pktgen::{self, Family, Order, Source};
use crate::spec::{Kind, Layer, Spec};
use crate::text::{self, TextConfig, TextFileError};
use crate::tracer::{self, TracerConfig};
use crate::{Caps, Port, null};
use buf::{Pool, PoolError};
use env::narrow;
use std::fmt;
use std::io;
use std::net::IpAddr;
use wire::{L4Port, Mac};

/// Reasons why a port could not be opened.
#[derive(Debug)]
pub enum OpenError {
    /// The longest frame of the port does not fit into the pool's buffers.
    SmallBuffers {
        /// Spec of the port.
        spec: String,
        /// Number of bytes that a frame needs.
        need: usize,
        /// Number of bytes in a buffer after its headroom.
        have: usize,
    },
    /// The generator's options contradict each other.
    Generator {
        /// Spec of the port.
        spec: String,
        /// Description of the contradiction.
        why: &'static str,
    },
    /// A pool of longer buffers, for the port's MTU, could not be created.
    Pool {
        /// Spec of the port.
        spec: String,
        /// Cause of the failure.
        error: PoolError,
    },
    /// Both ends of the pair are open already, or the two ends have different options.
    Pair(PairError),
    /// The Ethernet controller could not be opened.
    Nic {
        /// Spec of the port.
        spec: String,
        /// Cause of the failure.
        error: NicError,
    },
    /// The wire already has two ends, or the two nics have different speeds.
    Wire(WireError),
    /// The device of the kernel could not be opened.
    Device(DeviceError),
    /// The UNIX socket could not be opened.
    Unix(UnixError),
    /// The options of a port on a UNIX socket contradict each other.
    UnixOptions {
        /// Spec of the port.
        spec: String,
        /// Description of the contradiction.
        why: &'static str,
    },
    /// The capture file could not be opened.
    Pcap(PcapFileError),
    /// The text files could not be opened.
    Text(TextFileError),
    /// The tracer's file could not be written.
    Trace {
        /// Path of the file.
        file: String,
        /// Cause of the failure.
        error: io::Error,
    },
    /// A wrapper was given without a port.
    NotAPort(Kind),
    /// A port was given as a wrapper of another port.
    NotAWrapper(Kind),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::SmallBuffers { spec, need, have } => {
                write!(
                    f,
                    "{spec}: frames of {need} bytes do not fit in the pool's buffers of {have} bytes: raise pool.data"
                )
            }
            OpenError::Generator { spec, why } => write!(f, "{spec}: {why}"),
            OpenError::Pool { spec, error } => write!(f, "{spec}: {error}"),
            OpenError::Pair(error) => error.fmt(f),
            OpenError::Nic { spec, error } => write!(f, "{spec}: {error}"),
            OpenError::Wire(error) => error.fmt(f),
            OpenError::Device(error) => error.fmt(f),
            OpenError::Unix(error) => error.fmt(f),
            OpenError::UnixOptions { spec, why } => write!(f, "{spec}: {why}"),
            OpenError::Pcap(error) => error.fmt(f),
            OpenError::Text(error) => error.fmt(f),
            OpenError::Trace { file, error } => write!(f, "tracer: {file}: {error}"),
            OpenError::NotAPort(kind) => write!(f, "{kind} is a wrapper and needs a port: {kind}:PORT"),
            OpenError::NotAWrapper(kind) => write!(f, "{kind} is a port and cannot wrap another port"),
        }
    }
}

impl std::error::Error for OpenError {}

/// Joins the name of a port and an error message. Errors of devices already begin with the port's
/// kind and name, which are then not repeated.
pub fn port_message(spec: &str, why: &dyn fmt::Display) -> String {
    let why = why.to_string();
    let named = why.split_once(": ").map(|(first, _)| without_options(first));
    let own = without_options(spec);
    let is_named = named.is_some_and(|named| {
        own == named || named.contains(':') && own.strip_suffix(&named).is_some_and(|rest| rest.ends_with(':'))
    });
    if is_named { why } else { format!("{spec}: {why}") }
}

/// Removes the options from a spec: `impair(loss=1%):tap:tap0` becomes `impair:tap:tap0`.
fn without_options(spec: &str) -> String {
    let mut depth = 0_u32;
    let mut out = String::new();
    for c in spec.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}

/// Opens the port described by `spec`.
///
/// # Errors
/// See [`OpenError`].
pub fn open(spec: &Spec, env: &Env<'_>) -> Result<Port, OpenError> {
    let mut port = open_port(spec, env)?;
    for wrapper in spec.wrappers.iter().rev() {
        port = wrap(wrapper, port, &env.pool)?;
    }
    port.spec = spec.to_string();
    Ok(port)
}

fn open_port(spec: &Spec, env: &Env<'_>) -> Result<Port, OpenError> {
    let (layer, name) = (&spec.port, spec.name.as_str());
    match layer.kind {
        Kind::Pktgen => open_pktgen(spec, env),
        Kind::Null => Ok(null::open(name, plain(layer))),
        Kind::Pair => env.pairs.open(name, layer, joined(layer)).map_err(OpenError::Pair),
        Kind::Nic => open_nic(spec, env),
        Kind::Tap | Kind::Tun | Kind::Packet | Kind::Xdp => devices::open(spec, env).map_err(OpenError::Device),
        Kind::Unix => unix::open(name, &unix_config(spec)?, &env.pool).map_err(OpenError::Unix),
        Kind::Pcap => pcap::open(name, &pcap_config(layer, name), &env.pool).map_err(OpenError::Pcap),
        Kind::Text => text::open(name, &text_config(layer, name), &env.pool).map_err(OpenError::Text),
        // The parser never accepts a wrapper as the innermost port.
        Kind::Tracer | Kind::Impair => Err(OpenError::NotAPort(layer.kind)),
    }
}

fn wrap(layer: &Layer, port: Port, pool: &Pool) -> Result<Port, OpenError> {
    match layer.kind {
        Kind::Tracer => {
            let file = layer.get_text("file").unwrap_or_default();
            let config = TracerConfig { snaplen: snaplen(layer), wall: layer.word("time") == "wall" };
            tracer::open(&file, config, port).map_err(|error| OpenError::Trace { file, error })
        }
        Kind::Impair => Ok(impair::wrap(&impairment(layer), direction(layer), port, pool)),
        kind => Err(OpenError::NotAWrapper(kind)),
    }
}

/// Returns the capabilities of an end of a pair: plain Ethernet, plus the checksum and segmentation
/// offloads that the options enable.
fn joined(layer: &Layer) -> Caps {
    let large = layer.switch("tso");
    let csum = large || layer.switch("csum");
    let tso_max = if large { u32::from(u16::MAX) } else { 0 };
    Caps { tx_l4_csum: csum, rx_csum: csum, tso_max, lro: large, ..plain(layer) }
}

/// Returns the capabilities of plain Ethernet, with the MTU given in the options.
fn plain(layer: &Layer) -> Caps {
    Caps { mtu: narrow(layer.count("mtu")), ..Caps::PLAIN }
}

fn open_nic(spec: &Spec, env: &Env<'_>) -> Result<Port, OpenError> {
    let (layer, sysctls) = (&spec.port, Settings::default());
    layer.options().for_each(|(option, value)| sysctls.preset(option, value));
    let end = match layer.get_text("wire") {
        Some(wire) => Some(env.pairs.wires().end(&wire, &spec.name, layer.word("speed")).map_err(OpenError::Wire)?),
        None => None,
    };
    let error = |error| OpenError::Nic { spec: spec.to_string(), error };
    nic::open(&spec.name, sysctls, narrow(layer.count("mtu")), end, &env.pool).map_err(error)
}

fn open_pktgen(spec: &Spec, env: &Env<'_>) -> Result<Port, OpenError> {
    let source = source(spec, env)?;
    let (need, have) = (source.headers() + source.size, env.pool.size() - env.pool.headroom());
    let active = spec.port.switch("source");
    if active && need > have {
        return Err(OpenError::SmallBuffers { spec: spec.to_string(), need, have });
    }
    Ok(pktgen::open(&spec.name, active.then_some(&source), &env.pool))
}

fn source(spec: &Spec, env: &Env<'_>) -> Result<Source, OpenError> {
    let (layer, base) = (&spec.port, Source::default());
    let family = if layer.word("family") == "6" { Family::V6 } else { Family::V4 };
    let net = |host: u8| pktgen::net(family, env.unit, host);
    let (src, dst) = (layer.get_ip("src").unwrap_or(net(2)), layer.get_ip("dst").unwrap_or(net(1)));
    let is_other = |addr: &IpAddr| addr.is_ipv6() != (family == Family::V6);
    let wrong = match family {
        _ if [src, dst].iter().any(is_other) => Some("src and dst must match family (4: IPv4, 6: IPv6)"),
        Family::V6 if layer.switch("random_dst") => Some("random_dst requires family=4"),
        _ => None,
    };
    if let Some(why) = wrong {
        return Err(OpenError::Generator { spec: spec.to_string(), why });
    }
    Ok(Source {
        size: usize::from(narrow(layer.count("size"))),
        rate: layer.count("rate"),
        count: layer.count("count"),
        flows: u32::try_from(layer.count("flows")).unwrap_or(u32::MAX),
        order: if layer.word("order") == "random" { Order::Random } else { Order::Sequence },
        rotate: layer.switch("rotate"),
        random_dst: layer.switch("random_dst"),
        destinations: base.destinations,
        id: layer.switch("id") && !layer.switch("static"),
        udp_csum: layer.switch("udp_csum"),
        rx_csum: layer.switch("rx_csum"),
        dst_mac: layer.get_mac("dst_mac").unwrap_or(env.mac),
        src_mac: layer.get_mac("src_mac").unwrap_or(Mac([0x12, 0x23, 0x34, 0x45, 0x56, env.unit as u8])),
        src,
        src_port: L4Port(narrow(layer.count("src_port"))),
        dst,
        dst_port: L4Port(narrow(layer.count("dst_port"))),
        ttl: u8::try_from(layer.count("ttl")).unwrap_or(base.ttl),
        mtu: base.mtu,
    })
}

fn unix_config(spec: &Spec) -> Result<UnixConfig, OpenError> {
    let layer = &spec.port;
    let wrong = |why| Err(OpenError::UnixOptions { spec: spec.to_string(), why });
    let kind = match (layer.word("type"), layer.switch("server"), layer.get_text("local")) {
        ("dgram", true, _) => return wrong("server requires type=stream"),
        ("dgram", false, None) => return wrong("type=dgram requires local=PATH, the path of this port's socket"),
        ("dgram", false, Some(local)) => UnixKind::Datagram(local.into()),
        (_, _, Some(_)) => return wrong("local requires type=dgram"),
        (_, true, None) => UnixKind::Server,
        (_, false, None) => UnixKind::Client,
    };
    let reconnect = Some(layer.duration("reconnect")).filter(|interval| !interval.is_zero());
    Ok(UnixConfig { kind, reconnect, mtu: narrow(layer.count("mtu")) })
}

/// Converts the options of `pcap:`. With `read=off`, NAME is the file to be written.
fn pcap_config(layer: &Layer, name: &str) -> PcapConfig {
    let read = layer.switch("read");
    PcapConfig {
        read: read.then(|| name.to_string()),
        write: layer.get_text("write").or_else(|| (!read).then(|| name.to_string())),
        pace: layer.switch("pace"),
        loops: layer.count("loop"),
        format: match layer.word("format") {
            "pcap" => Some(Format::Pcap),
            "pcapng" => Some(Format::Pcapng),
            _ => None,
        },
        snaplen: snaplen(layer),
        wall: layer.word("time") == "wall",
    }
}

/// Converts the options of `text:`. With `read=off`, NAME is the file to be written. If frames are
/// read from standard input, frames are written to standard output by default.
fn text_config(layer: &Layer, name: &str) -> TextConfig {
    let read = layer.switch("read");
    TextConfig {
        read: read.then(|| name.to_string()),
        write: layer.get_text("write").or_else(|| (!read || name == "-").then(|| name.to_string())),
        strict: layer.switch("strict"),
    }
}

fn snaplen(layer: &Layer) -> u32 {
    u32::try_from(layer.count("snaplen")).unwrap_or(u32::MAX)
}

fn impairment(layer: &Layer) -> Impairment {
    Impairment {
        loss: layer.percent("loss"),
        dup: layer.percent("dup"),
        corrupt: layer.percent("corrupt"),
        reorder: layer.percent("reorder"),
        gap: layer.count("gap"),
        delay: layer.duration("delay"),
        jitter: layer.duration("jitter"),
        rate: layer.count("rate"),
        limit: usize::try_from(layer.count("limit")).unwrap_or(usize::MAX),
        seed: layer.count("seed"),
    }
}

fn direction(layer: &Layer) -> impair::Direction {
    match layer.word("dir") {
        "rx" => impair::Direction::Rx,
        "both" => impair::Direction::Both,
        _ => impair::Direction::Tx,
    }
}
