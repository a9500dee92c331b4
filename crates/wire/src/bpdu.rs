//! BPDUs: what bridges tell each other about the spanning tree (IEEE 802.1D-2004 clause 9).
//!
//! An 802.3 frame to 01-80-C2-00-00-00 comes in, or its LLC payload; a [`Bpdu`] leaves: a configuration, a topology change
//! notification, or a rapid configuration (RST). A BPDU of a later version reads as one of the latest version known here, by its
//! first octets (9.3.4). Whether a message is too old, or our own, is the receiver's check, not the parser's.

use crate::eth::{self, EtherType, Mac};
use crate::{Layer, Malformed};
use std::fmt;

#[cfg(test)]
mod tests;

/// The group address of all bridges (IEEE 802.1D-2004 table 7-10).
pub const BRIDGE_GROUP: Mac = Mac([0x01, 0x80, 0xc2, 0, 0, 0]);
/// DSAP, SSAP and control octet before a BPDU (IEEE 802.1D-2004 7.12.3, ISO/IEC 8802-2).
pub const LLC: [u8; 3] = [0x42, 0x42, 0x03];
/// Octets of a topology change notification (9.3.2).
pub const TCN_LEN: usize = 4;
/// Octets of a configuration BPDU (9.3.1).
pub const CONFIG_LEN: usize = 35;
/// Octets of an RST BPDU (9.3.3).
pub const RST_LEN: usize = 36;
/// Bytes of a frame with a BPDU: every one is padded to the shortest frame, without the FCS.
pub const FRAME_LEN: usize = eth::MIN_FRAME_LEN;

const TYPE_CONFIG: u8 = 0x00;
const TYPE_RST: u8 = 0x02;
const TYPE_TCN: u8 = 0x80;

/// A bridge's identifier: 16 bits of priority before its address; the less, the better (9.2.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct BridgeId(pub u64);

impl BridgeId {
    /// From a priority and an address.
    pub const fn new(priority: u16, address: Mac) -> BridgeId {
        let [a, b, c, d, e, f] = address.0;
        let [p, q] = priority.to_be_bytes();
        BridgeId(u64::from_be_bytes([p, q, a, b, c, d, e, f]))
    }

    /// The priority, its system ID extension among it.
    pub const fn priority(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The bridge's address.
    pub const fn address(self) -> Mac {
        let [_, _, mac @ ..] = self.0.to_be_bytes();
        Mac(mac)
    }
}

impl fmt::Display for BridgeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}.{}", self.priority(), self.address())
    }
}

impl fmt::Debug for BridgeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A port's identifier: 4 bits of priority before 12 of number; the less, the better (9.2.7).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct PortId(pub u16);

impl PortId {
    /// From a priority, of which the high 4 bits count, and a number, of which the low 12 do.
    pub const fn new(priority: u8, number: u16) -> PortId {
        PortId((priority as u16 & 0xf0) << 8 | number & 0x0fff)
    }

    /// The priority, 0 to 240 in steps of 16.
    pub const fn priority(self) -> u8 {
        (self.0 >> 8) as u8 & 0xf0
    }

    /// The port's number at its bridge, from 1.
    pub const fn number(self) -> u16 {
        self.0 & 0x0fff
    }
}

impl fmt::Display for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}", self.0)
    }
}

impl fmt::Debug for PortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The role that the sending port has, as two bits say it (9.2.9).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SenderRole {
    /// 0; as in a configuration BPDU, which says none (9.3.3).
    Unknown,
    /// 1: alternate or backup.
    AlternateOrBackup,
    /// 2: root.
    Root,
    /// 3: designated.
    Designated,
}

/// The flags octet (9.3.1 for the first and last bit, 9.3.3 for all).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// None is set.
    pub const NONE: Flags = Flags(0);
    /// The topology has changed.
    pub const TOPOLOGY_CHANGE: Flags = Flags(0x01);
    /// May I forward?
    pub const PROPOSAL: Flags = Flags(0x02);
    /// The sending port learns.
    pub const LEARNING: Flags = Flags(0x10);
    /// The sending port forwards.
    pub const FORWARDING: Flags = Flags(0x20);
    /// You may.
    pub const AGREEMENT: Flags = Flags(0x40);
    /// Your notification came.
    pub const TOPOLOGY_CHANGE_ACK: Flags = Flags(0x80);

    /// Are all of `others` set?
    pub const fn contains(self, others: Flags) -> bool {
        self.0 & others.0 == others.0
    }

    /// With `others` too.
    #[must_use]
    pub const fn with(self, others: Flags) -> Flags {
        Flags(self.0 | others.0)
    }

    /// With the two bits of a role.
    #[must_use]
    pub const fn with_role(self, role: SenderRole) -> Flags {
        Flags(self.0 & !0x0c | (role as u8) << 2)
    }

    /// The sender's role.
    pub const fn role(self) -> SenderRole {
        match self.0 >> 2 & 3 {
            0 => SenderRole::Unknown,
            1 => SenderRole::AlternateOrBackup,
            2 => SenderRole::Root,
            _ => SenderRole::Designated,
        }
    }

    /// Each flag's name as tcpdump prints it, in the order of the bits.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let all = [
            (Flags::TOPOLOGY_CHANGE, "Topology change"),
            (Flags::PROPOSAL, "Proposal"),
            (Flags::LEARNING, "Learn"),
            (Flags::FORWARDING, "Forward"),
            (Flags::AGREEMENT, "Agreement"),
            (Flags::TOPOLOGY_CHANGE_ACK, "Topology change ACK"),
        ];
        all.into_iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, name)| name)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#04x}", self.0)
    }
}

/// What a configuration BPDU and an RST BPDU say. Times are in 1/256 of a second (9.2.8).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Config {
    /// What there is to agree about.
    pub flags: Flags,
    /// Who is taken for the root.
    pub root: BridgeId,
    /// What the sender pays to get there.
    pub root_path_cost: u32,
    /// Who sends.
    pub bridge: BridgeId,
    /// Through which of its ports.
    pub port: PortId,
    /// How old the root's word is.
    pub message_age: u16,
    /// How old it may become.
    pub max_age: u16,
    /// How often the root says it.
    pub hello_time: u16,
    /// How long a port listens and learns.
    pub forward_delay: u16,
}

/// A BPDU whose protocol, type and length were checked (9.3.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bpdu {
    /// Configuration, version 0.
    Config(Config),
    /// Topology change notification, version 0.
    Tcn,
    /// Rapid configuration, version 2 or later.
    Rst(Config),
}

impl Bpdu {
    /// Reads a whole frame, without FCS: to whom, how long, LLC, BPDU. What pads it is not looked at.
    pub fn parse_frame(frame: &[u8]) -> Result<Bpdu, Malformed> {
        let header = eth::Header::parse(frame)?;
        if header.dst != BRIDGE_GROUP || !header.ethertype.is_length() {
            return Err(Malformed::BadLlc);
        }
        let rest = frame.get(eth::HEADER_LEN..).unwrap_or_default();
        let len = usize::from(header.ethertype.0);
        Bpdu::parse_llc(rest.get(..len).ok_or(Malformed::truncated(Layer::Bpdu, len, rest.len()))?)
    }

    /// Reads what an 802.3 header's length counts: LLC, BPDU.
    pub fn parse_llc(payload: &[u8]) -> Result<Bpdu, Malformed> {
        let Some((llc, bpdu)) = payload.split_first_chunk() else {
            return Err(Malformed::truncated(Layer::Bpdu, LLC.len(), payload.len()));
        };
        if *llc == LLC { Bpdu::parse(bpdu) } else { Err(Malformed::BadLlc) }
    }

    /// Reads a BPDU (9.3.4).
    pub fn parse(bpdu: &[u8]) -> Result<Bpdu, Malformed> {
        let Some(&[p0, p1, version, ty]) = bpdu.first_chunk::<TCN_LEN>() else {
            return Err(Malformed::truncated(Layer::Bpdu, TCN_LEN, bpdu.len()));
        };
        match (u16::from_be_bytes([p0, p1]), ty) {
            (0, TYPE_CONFIG) => Ok(Bpdu::Config(parse_config(bpdu)?)),
            (0, TYPE_TCN) => Ok(Bpdu::Tcn),
            (0, TYPE_RST) if version < 2 => Err(Malformed::BadVersion { layer: Layer::Bpdu, found: version }),
            (0, TYPE_RST) if bpdu.len() < RST_LEN => Err(Malformed::truncated(Layer::Bpdu, RST_LEN, bpdu.len())),
            (0, TYPE_RST) => Ok(Bpdu::Rst(parse_config(bpdu)?)),
            (0, ty) => Err(Malformed::BadBpduType(ty)),
            (protocol, _) => Err(Malformed::BadBpduProtocol(protocol)),
        }
    }

    /// What it says, if it is not a notification.
    pub const fn config(&self) -> Option<&Config> {
        match self {
            Bpdu::Config(config) | Bpdu::Rst(config) => Some(config),
            Bpdu::Tcn => None,
        }
    }

    /// Its octets, without LLC.
    #[allow(clippy::len_without_is_empty, reason = "no BPDU is empty")]
    pub const fn len(&self) -> usize {
        match self {
            Bpdu::Config(_) => CONFIG_LEN,
            Bpdu::Tcn => TCN_LEN,
            Bpdu::Rst(_) => RST_LEN,
        }
    }

    /// The whole frame from `src`, padded with zeros.
    pub fn emit_frame(&self, src: Mac) -> [u8; FRAME_LEN] {
        let mut frame = [0; FRAME_LEN];
        let ethertype = EtherType((LLC.len() + self.len()) as u16);
        if let Some((header, payload)) = frame.split_first_chunk_mut() {
            eth::Header { dst: BRIDGE_GROUP, src, ethertype }.emit(header);
            if let Some((llc, bpdu)) = payload.split_first_chunk_mut() {
                *llc = LLC;
                self.emit(bpdu);
            }
        }
        frame
    }

    /// Writes its octets at the beginning of `out`, as many as have room.
    fn emit(&self, out: &mut [u8]) {
        let (version, ty) = match self {
            Bpdu::Config(_) => (0, TYPE_CONFIG),
            Bpdu::Tcn => (0, TYPE_TCN),
            Bpdu::Rst(_) => (2, TYPE_RST),
        };
        let mut octets = [0; RST_LEN];
        let (head, tail) = octets.split_at_mut(TCN_LEN);
        head.copy_from_slice(&[0, 0, version, ty]);
        if let Some(config) = self.config() {
            emit_config(config, tail);
        }
        for (out, octet) in out.iter_mut().zip(octets).take(self.len()) {
            *out = octet;
        }
    }
}

/// The fields behind the type: offsets 4 to 34 (figure 9-1).
fn parse_config(bpdu: &[u8]) -> Result<Config, Malformed> {
    let short = Malformed::truncated(Layer::Bpdu, CONFIG_LEN, bpdu.len());
    let Some((&[flags], rest)) = bpdu.get(TCN_LEN..).and_then(<[u8]>::split_first_chunk) else { return Err(short) };
    let Some((root, rest)) = rest.split_first_chunk() else { return Err(short) };
    let Some((cost, rest)) = rest.split_first_chunk() else { return Err(short) };
    let Some((bridge, rest)) = rest.split_first_chunk() else { return Err(short) };
    let Some(&[p0, p1, a0, a1, m0, m1, h0, h1, f0, f1]) = rest.first_chunk() else { return Err(short) };
    Ok(Config {
        flags: Flags(flags),
        root: BridgeId(u64::from_be_bytes(*root)),
        root_path_cost: u32::from_be_bytes(*cost),
        bridge: BridgeId(u64::from_be_bytes(*bridge)),
        port: PortId(u16::from_be_bytes([p0, p1])),
        message_age: u16::from_be_bytes([a0, a1]),
        max_age: u16::from_be_bytes([m0, m1]),
        hello_time: u16::from_be_bytes([h0, h1]),
        forward_delay: u16::from_be_bytes([f0, f1]),
    })
}

fn emit_config(config: &Config, out: &mut [u8]) {
    let shorts = [config.port.0, config.message_age, config.max_age, config.hello_time, config.forward_delay];
    let fields = [config.flags.0]
        .into_iter()
        .chain(config.root.0.to_be_bytes())
        .chain(config.root_path_cost.to_be_bytes())
        .chain(config.bridge.0.to_be_bytes())
        .chain(shorts.into_iter().flat_map(u16::to_be_bytes));
    for (out, field) in out.iter_mut().zip(fields) {
        *out = field;
    }
}
