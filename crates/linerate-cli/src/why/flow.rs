//! Flows given on the command line, and the addresses and ports of a frame.

use serde_json::Value;
use std::net::IpAddr;
use wire::eth::{self, EtherType};
use wire::{Layer, Proto, ip4, ip6, vlan};

/// Flow that `why` explains.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FlowQuery {
    /// Filter expression that matches the frames of the flow in both directions.
    pub expression: String,
    /// Addresses and ports of the flow in both directions; empty if a filter expression was given.
    pub ends: Vec<Ends>,
}

/// Addresses and ports of a packet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ends {
    /// Protocol number above IP; 0 if unknown.
    proto: u8,
    /// Source address and L4 port (0 if unknown); `None` if the source is unknown.
    src: Option<(IpAddr, u16)>,
    /// Destination address.
    pub dst: IpAddr,
    dst_port: u16,
    words: (String, String),
}

impl Ends {
    fn new(proto: u8, src: Option<(IpAddr, u16)>, (dst, dst_port): (IpAddr, u16)) -> Ends {
        let words = (src.map(|(src, _)| src.to_string()).unwrap_or_default(), dst.to_string());
        Ends { proto, src, dst, dst_port, words }
    }

    /// Parses addresses and ports from an Ethernet frame; returns `None` if the frame is not IP or
    /// is truncated.
    pub fn of(frame: &[u8]) -> Option<Ends> {
        let mut ethertype = eth::Header::parse(frame).ok()?.ethertype;
        let mut packet = frame.get(eth::HEADER_LEN..)?;
        if ethertype.is_tag() {
            ethertype = vlan::Tag::parse(packet).ok()?.ethertype;
            packet = packet.get(vlan::TAG_LEN..)?;
        }
        let (proto, src, dst, payload): (Proto, IpAddr, IpAddr, &[u8]) = match ethertype {
            EtherType::IPV4 => {
                let header = ip4::Header::parse_quoted(packet, Layer::Ip4).ok()?;
                let payload = if header.frag_off == 0 { packet.get(header.ihl_len..)? } else { &[] };
                (header.proto, header.src.into(), header.dst.into(), payload)
            }
            EtherType::IPV6 => {
                let header = ip6::Header::parse(packet).ok()?;
                let chain = ip6::Chain::walk(&header, packet).ok()?;
                (chain.upper, header.src.into(), header.dst.into(), chain.payload(&header, packet))
            }
            _ => return None,
        };
        let port = |at: usize| {
            let has_ports = matches!(proto, Proto::TCP | Proto::UDP);
            let bytes = payload.get(at..)?.first_chunk::<2>().filter(|_| has_ports)?;
            Some(u16::from_be_bytes(*bytes))
        };
        Some(Ends::new(proto.0, Some((src, port(0).unwrap_or(0))), (dst, port(2).unwrap_or(0))))
    }

    /// Returns whether the destination is valid only on one link: an IPv6 link-local or multicast
    /// address.
    pub fn is_of_link(&self) -> bool {
        matches!(self.dst, IpAddr::V6(dst) if dst.is_unicast_link_local() || dst.is_multicast())
    }

    /// Returns protocol, source port and destination port, each with its keyword in `route get`; 0
    /// if unknown.
    pub fn upper(&self) -> [(&'static str, u16); 3] {
        [("ipproto", self.proto.into()), ("sport", self.src.map_or(0, |(_, port)| port)), ("dport", self.dst_port)]
    }

    /// Returns the destination as text.
    pub fn dst_word(&self) -> &str {
        &self.words.1
    }

    /// Returns the source as text, if known.
    pub fn src_word(&self) -> Option<&str> {
        self.src.is_some().then_some(self.words.0.as_str())
    }

    /// Returns whether a socket belongs to this flow or to its reverse direction; `row` is its
    /// object in the JSON output of `ss`.
    pub fn is_of_socket(&self, row: &Value) -> bool {
        let netid = if self.proto == Proto::TCP.0 { "tcp" } else { "udp" };
        let has_ports = [0, Proto::TCP.0, Proto::UDP.0].contains(&self.proto);
        let is_proto = self.proto == 0 || row.get("netid").and_then(Value::as_str) == Some(netid);
        let addr = |key: &str| row.get(key).and_then(Value::as_str).and_then(|text| text.parse::<IpAddr>().ok());
        let port = |key: &str| row.get(key).and_then(Value::as_u64).unwrap_or_default() as u16;
        let is = |key: &str, port_key: &str, (ip, number): (IpAddr, u16)| {
            let known = addr(key);
            known.is_none_or(|own| own.is_unspecified() || own == ip) && (number == 0 || port(port_key) == number)
        };
        let reaches = |local: (IpAddr, u16), peer: Option<(IpAddr, u16)>| {
            let is_connected = addr("peer").is_some() && port("peer_port") != 0;
            is("local", "local_port", local) && (!is_connected || peer.is_none_or(|peer| is("peer", "peer_port", peer)))
        };
        let dst = (self.dst, self.dst_port);
        has_ports && is_proto && (reaches(dst, self.src) || self.src.is_some_and(|src| reaches(src, Some(dst))))
    }
}

impl FlowQuery {
    /// Parses a flow: `[tcp|udp|icmp|icmp6] A[:PORT] [B[:PORT]]` or, if the words have another
    /// form, a filter expression.
    ///
    /// # Errors
    /// No words were given.
    pub fn parse(words: &[String]) -> Result<FlowQuery, String> {
        if words.is_empty() {
            return Err("why: no flow given; expected e.g. 'tcp 10.0.0.1 10.0.0.2:80', or a filter expression".into());
        }
        let expression = words.join(" ");
        let words: Vec<&str> = expression.split_whitespace().filter(|word| !matches!(*word, ">" | "-")).collect();
        let (proto, rest) = match words.split_first() {
            Some((&word @ ("tcp" | "udp" | "icmp" | "icmp6"), rest)) => (Some(word), rest),
            _ => (None, &words[..]),
        };
        let ends: Option<Vec<(IpAddr, u16)>> = rest.iter().map(|word| end(word)).collect();
        let Some(ends) = ends.filter(|ends| (1..=2).contains(&ends.len())) else {
            return Ok(FlowQuery { expression, ends: Vec::new() });
        };
        let number = match proto {
            Some("tcp") => Proto::TCP,
            Some("udp") => Proto::UDP,
            Some("icmp") => Proto::ICMP,
            Some("icmp6") => Proto::IPV6_ICMP,
            _ => Proto(0),
        }
        .0;
        let side = |way: &str, (ip, port): (IpAddr, u16)| match port {
            0 => format!("{way} host {ip}"),
            port => format!("{way} host {ip} and {way} port {port}"),
        };
        let either = match ends[..] {
            [a, b] => {
                format!("(({} and {}) or ({} and {}))", side("src", a), side("dst", b), side("src", b), side("dst", a))
            }
            _ => format!("(({}) or ({}))", side("src", ends[0]), side("dst", ends[0])),
        };
        let expression = proto.map(|proto| format!("{proto} and ")).unwrap_or_default() + &either;
        let ends = match ends[..] {
            [a, b] => vec![Ends::new(number, Some(a), b), Ends::new(number, Some(b), a)],
            _ => vec![Ends::new(number, None, ends[0])],
        };
        Ok(FlowQuery { expression, ends })
    }
}

/// Parses an address `A`, `A:PORT` or `[A]:PORT`; without a port, the port is 0.
fn end(word: &str) -> Option<(IpAddr, u16)> {
    let socket = word.parse::<std::net::SocketAddr>().ok().map(|at| (at.ip(), at.port()));
    socket.or_else(|| Some((word.parse().ok()?, 0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn requested(text: &str) -> FlowQuery {
        FlowQuery::parse(&[text.to_string()]).unwrap()
    }

    #[test]
    fn flows_are_filters_of_both_directions() {
        assert_eq!(
            requested("tcp 10.0.0.1:4000 > 10.0.0.2:80").expression,
            "tcp and ((src host 10.0.0.1 and src port 4000 and dst host 10.0.0.2 and dst port 80) or \
             (src host 10.0.0.2 and src port 80 and dst host 10.0.0.1 and dst port 4000))"
        );
        assert_eq!(requested("10.0.0.1").expression, "((src host 10.0.0.1) or (dst host 10.0.0.1))");
        assert_eq!(requested("udp [2001:db8::1]:53").ends.len(), 1);
        for text in ["tcp port 80 and host 10.0.0.1", "arp", "udp"] {
            assert_eq!(requested(text), FlowQuery { expression: text.into(), ends: vec![] });
        }
        for text in ["tcp 10.0.0.1:4000 10.0.0.2:80", "10.0.0.1", "udp [2001:db8::1]:53", "icmp6 fe80::1 fe80::2"] {
            wire::filter::Filter::compile(&requested(text).expression).unwrap();
        }
        assert!(FlowQuery::parse(&[]).unwrap_err().contains("no flow given"));
    }

    #[test]
    fn listeners_and_connections_of_a_flow_are_found() {
        let [there, back] = &requested("tcp 10.0.0.1:4000 10.0.0.2:80").ends[..] else { panic!() };
        let row = |netid: &str, local: &str, local_port: u16, peer: Option<&str>, peer_port: Option<u16>| json!({ "netid": netid, "local": local, "local_port": local_port, "peer": peer, "peer_port": peer_port });
        let listener = row("tcp", "0.0.0.0", 80, None, None);
        let connected = row("tcp", "10.0.0.2", 80, Some("10.0.0.1"), Some(4000));
        let other = row("tcp", "10.0.0.2", 80, Some("10.0.0.1"), Some(4001));
        let datagrams = row("udp", "0.0.0.0", 80, None, None);
        for ends in [there, back] {
            let of = [&listener, &connected, &other, &datagrams].map(|row| ends.is_of_socket(row));
            assert_eq!(of, [true, true, false, false], "{ends:?}");
        }
    }
}
