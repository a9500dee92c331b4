//! Translation of values by their qualifiers: `80` is a port after `port`, an address after `host`.

use super::names::{self, Carrier};
use super::primitive::{Compiler, Dir};
use super::program::Code;
use super::protocol::Word;
use super::token::Token;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

/// Kind of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// No kind was given; the value is treated as a host.
    Unsaid,
    Host,
    Net,
    Port,
    PortRange,
    Proto,
    ProtoChain,
    Gateway,
}

/// Qualifiers before a value, such as `tcp src port`; the values after it inherit them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Qualifiers {
    pub layer: Option<Word>,
    pub dir: Dir,
    pub kind: Kind,
}

type Outcome = Result<Code, String>;

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

/// Length of the network part of an address, as a prefix length or a mask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Prefix<'a> {
    Len(u32),
    Mask(&'a str),
}

impl Qualifiers {
    /// Compiles the test for one value.
    pub fn value(&self, to: &mut Compiler, token: Token<'_>, prefix: Option<Prefix<'_>>) -> Outcome {
        match (self.kind, token) {
            (Kind::Gateway, _) => Err("'gateway' is not supported: host names are not resolved".to_owned()),
            (Kind::ProtoChain, _) => Err("'protochain' is not supported: use 'proto'".to_owned()),
            (_, Token::Mac(mac)) => self.mac(to, mac),
            (_, Token::Address6(address)) => self.address6(to, address.to_bits(), prefix),
            (_, Token::Dotted(text)) => self.dotted(to, text, prefix),
            (_, Token::Number(number)) => self.number(to, number),
            (_, Token::Name(name)) => self.name(to, name),
            _ => Err("expected a value".to_owned()),
        }
    }

    fn mac(&self, to: &mut Compiler, mac: [u8; 6]) -> Outcome {
        match (self.layer, self.kind) {
            (Some(Word::Link), Kind::Unsaid | Kind::Host) => to.ether_host(self.dir, mac),
            _ => Err("an Ethernet address requires 'ether': 'ether host 02:00:00:00:00:01'".to_owned()),
        }
    }

    fn address6(&self, to: &mut Compiler, address: u128, prefix: Option<Prefix<'_>>) -> Outcome {
        let len = match prefix {
            None => 128,
            Some(Prefix::Len(len)) => len,
            Some(Prefix::Mask(_)) => return Err("an IPv6 net needs a prefix length, not a mask".to_owned()),
        };
        let mask = match len {
            0 => 0,
            1..=128 => u128::MAX << (128 - len),
            _ => return Err(format!("IPv6 prefix length {len}: must be at most 128")),
        };
        match self.kind {
            Kind::Unsaid | Kind::Host if len != 128 => return Err("a prefix length requires 'net'".to_owned()),
            Kind::Unsaid | Kind::Host | Kind::Net => {}
            _ => return Err("an IPv6 address is not allowed here".to_owned()),
        }
        if address & !mask != 0 {
            return Err(format!("the address has bits set beyond the prefix length {len}"));
        }
        to.host6(self.layer, self.dir, address, mask)
    }

    fn dotted(&self, to: &mut Compiler, text: &str, prefix: Option<Prefix<'_>>) -> Outcome {
        let (address, own) = address4(text)?;
        let mask = match prefix {
            None => own,
            Some(Prefix::Len(0)) => 0,
            Some(Prefix::Len(len @ 1..=32)) => u32::MAX << (32 - len),
            Some(Prefix::Len(len)) => return Err(format!("IPv4 prefix length {len}: must be at most 32")),
            Some(Prefix::Mask(mask)) => address4(mask)?.0,
        };
        if address & !mask != 0 {
            return Err(format!("the address has bits set outside the mask {}", core::net::Ipv4Addr::from_bits(mask)));
        }
        match self.kind {
            Kind::Net => self.host4(to, address, mask),
            Kind::Unsaid | Kind::Host if prefix.is_none() => self.host4(to, address, mask),
            Kind::Unsaid | Kind::Host => Err("a prefix or mask requires 'net'".to_owned()),
            _ => Err("an address is not allowed here".to_owned()),
        }
    }

    fn number(&self, to: &mut Compiler, number: u32) -> Outcome {
        match self.kind {
            Kind::Unsaid | Kind::Host => self.host4(to, number, u32::MAX),
            Kind::Net => {
                // `net 10` is 10.0.0.0/8: a short number is shifted to the left.
                let shift = if number == 0 { 0 } else { number.leading_zeros() / 8 * 8 };
                self.host4(to, number << shift, u32::MAX << shift)
            }
            Kind::Port | Kind::PortRange => {
                let port = l4_port(number)?;
                self.ports(to, port, port, None)
            }
            _ => to.proto(self.proto_layer()?, number),
        }
    }

    fn name(&self, to: &mut Compiler, name: &str) -> Outcome {
        match self.kind {
            Kind::Unsaid | Kind::Host | Kind::Net => {
                Err(format!("expected an address: names such as '{name}' are not resolved"))
            }
            Kind::Port => {
                let (port, carrier) = port_name(name)?;
                self.ports(to, port, port, carrier)
            }
            Kind::PortRange => {
                let (low, high) =
                    name.split_once('-').ok_or("expected two ports separated by a hyphen, or a number")?;
                let ((low, of_low), (high, of_high)) = (port_name(low)?, port_name(high)?);
                self.ports(to, low, high, of_low.filter(|_| of_low == of_high))
            }
            _ => {
                let layer = self.proto_layer()?;
                let number = match layer {
                    None | Some(Word::Ip | Word::Ip6) => names::ip_protocol(name),
                    Some(Word::Link) => names::ether_protocol(name),
                    Some(Word::Iso) => names::osi_protocol(name),
                    _ => None,
                };
                to.proto(layer, number.ok_or_else(|| format!("unknown protocol '{name}': use its number"))?)
            }
        }
    }

    fn host4(&self, to: &mut Compiler, address: u32, mask: u32) -> Outcome {
        to.host4(self.layer, self.dir, address, mask)
    }

    /// Returns the layer before the qualifier `proto`. Fails if there is a direction such as `src`.
    fn proto_layer(&self) -> Result<Option<Word>, String> {
        if self.dir == Dir::Either { Ok(self.layer) } else { Err("'proto' cannot have a direction".to_owned()) }
    }

    /// Compiles a port test for the transport protocols that both the qualifier and the service
    /// name allow.
    fn ports(&self, to: &mut Compiler, low: u16, high: u16, carrier: Option<Carrier>) -> Outcome {
        let proto = match (self.layer, carrier) {
            (Some(Word::Tcp), Some(Carrier::Udp)) => return Err("this service uses UDP only".to_owned()),
            (Some(Word::Udp), Some(Carrier::Tcp)) => return Err("this service uses TCP only".to_owned()),
            (Some(Word::Sctp), Some(Carrier::Tcp | Carrier::Udp)) => {
                return Err("this service does not use SCTP".to_owned());
            }
            (Some(Word::Tcp), _) | (None, Some(Carrier::Tcp)) => Some(TCP),
            (Some(Word::Udp), _) | (None, Some(Carrier::Udp)) => Some(UDP),
            (Some(Word::Sctp), _) => Some(SCTP),
            (None, None | Some(Carrier::Both)) => None,
            (Some(other), _) => return Err(format!("'{}' has no ports", other.name())),
        };
        to.ports(proto, self.dir, low, high)
    }
}

/// Parses a service name or a port number. A number applies to every transport protocol.
fn port_name(name: &str) -> Result<(u16, Option<Carrier>), String> {
    if let Some((port, carrier)) = names::service(name) {
        return Ok((port, Some(carrier)));
    }
    let digits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
    match name.parse() {
        Ok(number) if digits => Ok((l4_port(number)?, None)),
        _ => Err(format!("expected a port: '{name}' is neither a number nor a known service")),
    }
}

fn l4_port(number: u32) -> Result<u16, String> {
    u16::try_from(number).map_err(|_| format!("port {number}: must be at most 65535"))
}

/// Parses an address prefix: `10.1` is 10.1.0.0 with the mask 255.255.0.0.
fn address4(text: &str) -> Result<(u32, u32), String> {
    let (mut address, mut parts) = (0, 0);
    for part in text.split('.') {
        let byte = if part.bytes().all(|byte| byte.is_ascii_digit()) { part.parse::<u8>().ok() } else { None };
        address = address << 8 | u32::from(byte.ok_or_else(|| format!("'{text}' is not an IPv4 address"))?);
        parts += 1;
    }
    let missing = 32u32.saturating_sub(8 * parts);
    Ok((address << missing, u32::MAX << missing))
}
