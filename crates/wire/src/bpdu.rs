//! BPDUs: the spanning tree messages that bridges exchange (IEEE 802.1D-2004 clause 9).
//!
//! The input is an 802.3 frame to 01-80-C2-00-00-00, or its LLC payload. The result is a [`Bpdu`]:
//! a configuration, a topology change notification, or a rapid configuration (RST). A BPDU of a
//! later version is parsed as the latest supported version, and its additional octets are ignored
//! (IEEE 802.1D-2004 9.3.4). The parser does not check whether a message is too old or was sent by
//! this bridge; the receiver does.

use crate::eth::{self, EtherType, Mac};
use crate::{Layer, Malformed};
use core::fmt;

#[cfg(test)]
mod tests;

/// The group address of all bridges (IEEE 802.1D-2004 table 7-10).
pub const BRIDGE_GROUP: Mac = Mac([0x01, 0x80, 0xc2, 0, 0, 0]);
/// DSAP, SSAP and control octet before a BPDU (IEEE 802.1D-2004 7.12.3, ISO/IEC 8802-2).
pub const LLC: [u8; 3] = [0x42, 0x42, 0x03];
/// Length in octets of a topology change notification (IEEE 802.1D-2004 9.3.2).
pub const TCN_LEN: usize = 4;
/// Length in octets of a configuration BPDU (IEEE 802.1D-2004 9.3.1).
pub const CONFIG_LEN: usize = 35;
/// Length in octets of an RST BPDU (IEEE 802.1D-2004 9.3.3).
pub const RST_LEN: usize = 36;
/// Length in bytes of a frame that contains a BPDU, without the FCS. Each frame is padded to the
/// minimum frame length.
pub const FRAME_LEN: usize = eth::MIN_FRAME_LEN;

const TYPE_CONFIG: u8 = 0x00;
const TYPE_RST: u8 = 0x02;
const TYPE_TCN: u8 = 0x80;

/// Bridge identifier: 16 bits of priority, then the bridge's address. Lower is better (IEEE
/// 802.1D-2004 9.2.5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct BridgeId(pub u64);

impl BridgeId {
    /// Builds an identifier from a priority and an address.
    pub const fn new(priority: u16, address: Mac) -> BridgeId {
        let [a, b, c, d, e, f] = address.0;
        let [p, q] = priority.to_be_bytes();
        BridgeId(u64::from_be_bytes([p, q, a, b, c, d, e, f]))
    }

    /// Returns the priority, including the system ID extension.
    pub const fn priority(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// Returns the bridge's address.
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

/// Port identifier: 4 bits of priority, then a 12-bit number. Lower is better (IEEE 802.1D-2004
/// 9.2.7).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct PortId(pub u16);

impl PortId {
    /// Builds an identifier from the high 4 bits of `priority` and the low 12 bits of `number`.
    pub const fn new(priority: u8, number: u16) -> PortId {
        PortId((priority as u16 & 0xf0) << 8 | number & 0x0fff)
    }

    /// Returns the priority, 0 to 240 in steps of 16.
    pub const fn priority(self) -> u8 {
        (self.0 >> 8) as u8 & 0xf0
    }

    /// Returns the number of the port on its bridge, counted from 1.
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

/// Role of the sending port, a two-bit field of the flags octet (IEEE 802.1D-2004 9.2.9).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SenderRole {
    /// 0: used in configuration BPDUs, which do not contain a role (IEEE 802.1D-2004 9.3.3).
    Unknown,
    /// 1: alternate or backup.
    AlternateOrBackup,
    /// 2: root.
    Root,
    /// 3: designated.
    Designated,
}

/// Flags octet of a BPDU. Configuration BPDUs define only its lowest and highest bit (IEEE
/// 802.1D-2004 9.3.1), RST BPDUs all bits (9.3.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// No flag set.
    pub const NONE: Flags = Flags(0);
    /// The topology has changed.
    pub const TOPOLOGY_CHANGE: Flags = Flags(0x01);
    /// Proposal: the sender requests to move its port to the forwarding state.
    pub const PROPOSAL: Flags = Flags(0x02);
    /// The sending port is learning.
    pub const LEARNING: Flags = Flags(0x10);
    /// The sending port is forwarding.
    pub const FORWARDING: Flags = Flags(0x20);
    /// Agreement: the answer to a proposal.
    pub const AGREEMENT: Flags = Flags(0x40);
    /// Acknowledgment of a topology change notification.
    pub const TOPOLOGY_CHANGE_ACK: Flags = Flags(0x80);

    /// Returns whether all of `others` are set.
    pub const fn contains(self, others: Flags) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns these flags with `others` set as well.
    #[must_use]
    pub const fn with(self, others: Flags) -> Flags {
        Flags(self.0 | others.0)
    }

    /// Returns the flags with the two role bits set to `role`.
    #[must_use]
    pub const fn with_role(self, role: SenderRole) -> Flags {
        Flags(self.0 & !0x0c | (role as u8) << 2)
    }

    /// Returns the role of the sending port.
    pub const fn role(self) -> SenderRole {
        match self.0 >> 2 & 3 {
            0 => SenderRole::Unknown,
            1 => SenderRole::AlternateOrBackup,
            2 => SenderRole::Root,
            _ => SenderRole::Designated,
        }
    }

    /// Returns the tcpdump names of the flags that are set, in the order of the bits.
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

/// Fields of a configuration BPDU or an RST BPDU. Times are in units of 1/256 s (IEEE 802.1D-2004
/// 9.2.8).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Config {
    /// Flags, including the sender's role.
    pub flags: Flags,
    /// Identifier of the root bridge, as known to the sender.
    pub root: BridgeId,
    /// Path cost from the sender to the root.
    pub root_path_cost: u32,
    /// Identifier of the sending bridge.
    pub bridge: BridgeId,
    /// Identifier of the sending port.
    pub port: PortId,
    /// Time since the root sent this information.
    pub message_age: u16,
    /// Age at which the information expires.
    pub max_age: u16,
    /// Interval between the root's BPDUs.
    pub hello_time: u16,
    /// Time that a port stays in each of the listening and learning states.
    pub forward_delay: u16,
}

/// A BPDU with valid protocol identifier, type and length (IEEE 802.1D-2004 9.3.4).
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
    /// Parses a whole frame, without FCS: destination address, length, LLC header, BPDU. Padding is
    /// ignored.
    pub fn parse_frame(frame: &[u8]) -> Result<Bpdu, Malformed> {
        let header = eth::Header::parse(frame)?;
        if header.dst != BRIDGE_GROUP || !header.ethertype.is_length() {
            return Err(Malformed::BadLlc);
        }
        let rest = frame.get(eth::HEADER_LEN..).unwrap_or_default();
        let len = usize::from(header.ethertype.0);
        Bpdu::parse_llc(rest.get(..len).ok_or(Malformed::truncated(Layer::Bpdu, len, rest.len()))?)
    }

    /// Parses the part of a frame that the 802.3 length covers: LLC header, then BPDU.
    pub fn parse_llc(payload: &[u8]) -> Result<Bpdu, Malformed> {
        let Some((llc, bpdu)) = payload.split_first_chunk() else {
            return Err(Malformed::truncated(Layer::Bpdu, LLC.len(), payload.len()));
        };
        if *llc == LLC { Bpdu::parse(bpdu) } else { Err(Malformed::BadLlc) }
    }

    /// Parses a BPDU without its LLC header (IEEE 802.1D-2004 9.3.4).
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

    /// Returns the fields of a configuration or RST BPDU, `None` for a notification.
    pub const fn config(&self) -> Option<&Config> {
        match self {
            Bpdu::Config(config) | Bpdu::Rst(config) => Some(config),
            Bpdu::Tcn => None,
        }
    }

    /// Returns the length in octets, without the LLC header.
    #[allow(clippy::len_without_is_empty, reason = "no BPDU is empty")]
    pub const fn len(&self) -> usize {
        match self {
            Bpdu::Config(_) => CONFIG_LEN,
            Bpdu::Tcn => TCN_LEN,
            Bpdu::Rst(_) => RST_LEN,
        }
    }

    /// Builds the whole frame sent by `src`, padded with zeros.
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

    /// Writes the BPDU to the start of `out`, cut to the length of `out`.
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

/// Parses the fields after the BPDU type, at offsets 4 to 34 (IEEE 802.1D-2004 figure 9-1).
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
