//! The template, of which all frames are copies.

use super::flow::flow_address;
use super::source::{ETH, Family, Source, UDP};
use buf::Frame;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::checksum::Partial;
use wire::{L4Port, eth, ip4, ip6, udp};

/// Returns the frame of the first flow.
pub(super) fn template(source: &Source) -> Box<[u8]> {
    let payload: Vec<u8> = (0..source.size).map(|i| i as u8).collect();
    let (src, port) = match source.flows {
        0 | 1 => (source.src, source.src_port),
        _ => {
            let (src, port) = flow_address(source.src, 0);
            (src, L4Port(port))
        }
    };
    let ethertype = match source.family() {
        Family::V4 => eth::EtherType::IPV4,
        Family::V6 => eth::EtherType::IPV6,
    };
    let (mut link, mut transport) = ([0; ETH], [0; UDP]);
    eth::Header { dst: source.dst_mac, src: source.src_mac, ethertype }.emit(&mut link);
    let len = (UDP + source.size) as u16;
    let network = network(source, src, len);
    let mut datagram = udp::Header { src: port, dst: source.dst_port, len, checksum: 0 };
    datagram.emit(&mut transport);
    let pseudo = match (src, source.dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => source.udp_csum.then(|| Partial::pseudo4(src, dst, ip4::Proto::UDP, len)),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Some(Partial::pseudo6(src, dst, ip6::Proto::UDP, len.into())),
        _ => None,
    };
    if let Some(pseudo) = pseudo {
        let whole = pseudo.add(wire::checksum::sum(&transport)).add(wire::checksum::sum(&payload));
        datagram.checksum = whole.finish_nonzero();
        datagram.emit(&mut transport);
    }
    [&link, network.as_slice(), &transport, &payload].concat().into()
}

/// Returns the IP header of a packet with `len` bytes of payload. If source and destination have
/// different address families, the source is unspecified.
fn network(source: &Source, src: IpAddr, len: u16) -> Vec<u8> {
    match source.dst {
        IpAddr::V4(dst) => {
            let src = if let IpAddr::V4(src) = src { src } else { Ipv4Addr::UNSPECIFIED };
            let header = ip4::Header {
                ihl_len: 20,
                tos: 0,
                total_len: len + 20,
                id: 0,
                df: false,
                mf: false,
                frag_off: 0,
                ttl: source.ttl,
                proto: ip4::Proto::UDP,
                checksum: 0,
                src,
                dst,
            };
            let mut bytes = [0; ip4::HEADER_LEN];
            header.emit(&mut bytes);
            bytes.to_vec()
        }
        IpAddr::V6(dst) => {
            let src = if let IpAddr::V6(src) = src { src } else { Ipv6Addr::UNSPECIFIED };
            let header = ip6::Header {
                traffic_class: 0,
                flow_label: 0,
                payload_len: len,
                next: ip6::Proto::UDP,
                hop_limit: source.ttl,
                src,
                dst,
            };
            let mut bytes = [0; ip6::HEADER_LEN];
            header.emit(&mut bytes);
            bytes.to_vec()
        }
    }
}

/// Copies the template into a frame: with moves of constant size for 64 bytes, and with memcpy for
/// longer frames.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) fn fill(frame: &mut Frame, template: &[u8]) {
    let room = frame.bytes_mut();
    match (room.first_chunk_mut::<64>(), template.first_chunk::<64>()) {
        (Some(to), Some(from)) if template.len() == 64 => *to = *from,
        _ => room.copy_from_slice(template),
    }
}
