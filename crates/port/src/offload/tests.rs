use super::*;
use buf::{Pool, PoolConfig};
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::{L4Port, Mac, udp};

/// Returns a UDP frame. If `open` is true, its UDP checksum is left to the port.
pub fn udp4(macs: (Mac, Mac), src: (Ipv4Addr, u16), dst: (Ipv4Addr, u16), payload: &[u8], open: bool) -> Vec<u8> {
    let (dst_mac, src_mac) = macs;
    let mut frame = vec![0; 42];
    eth::Header { dst: dst_mac, src: src_mac, ethertype: eth::EtherType::IPV4 }
        .emit(frame[..14].first_chunk_mut().unwrap());
    let len = (8 + payload.len()) as u16;
    ip4::Header::new(src.0, dst.0, Proto::UDP, usize::from(len)).unwrap().emit(frame[14..].first_chunk_mut().unwrap());
    ip4::fill_checksum(&mut frame[14..34]);
    let pseudo = Partial::pseudo4(src.0, dst.0, Proto::UDP, len);
    let header = udp::Header { src: L4Port(src.1), dst: L4Port(dst.1), len, checksum: open_field(pseudo) };
    let header = if open { header } else { header.with_checksum(pseudo, payload) };
    header.emit(frame[34..].first_chunk_mut().unwrap());
    frame.extend_from_slice(payload);
    frame
}

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const MACS: (Mac, Mac) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));

#[test]
fn completed_checksums_equal_those_of_the_host() {
    for payload in [&b""[..], b"x", b"hello, world", &[0xff; 1400]] {
        let mut open = udp4(MACS, (A, 5), (B, 6), payload, true);
        let place = l4_place(&open).unwrap();
        assert_eq!(place, L4Place { start: 34, field: 40, end: 42 + payload.len() });
        complete_l4(&mut open, place).unwrap();
        assert_eq!(open, udp4(MACS, (A, 5), (B, 6), payload, false));
    }
}

#[test]
fn tags_and_padding_are_handled() {
    let plain = udp4(MACS, (A, 5), (B, 6), b"abc", true);
    let mut tagged = [&plain[..12], &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2], &plain[12..], &[0xee; 15]].concat();
    let place = l4_place(&tagged).unwrap();
    assert_eq!(place, L4Place { start: 42, field: 48, end: 53 });
    complete_l4(&mut tagged, place).unwrap();
    assert_eq!(tagged[20..53], udp4(MACS, (A, 5), (B, 6), b"abc", false)[12..]);
}

#[test]
fn tcp_over_ipv6_is_found_after_extension_headers() {
    let (src, dst) = (Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST);
    let mut frame = vec![0; 14 + 40 + 8 + 20];
    eth::Header { dst: MACS.0, src: MACS.1, ethertype: eth::EtherType::IPV6 }
        .emit(frame[..14].first_chunk_mut().unwrap());
    let header = ip6::Header {
        traffic_class: 0,
        flow_label: 0,
        payload_len: 28,
        next: Proto::DEST_OPTIONS,
        hop_limit: 64,
        src,
        dst,
    };
    header.emit(frame[14..].first_chunk_mut().unwrap());
    frame[54] = Proto::TCP.0;
    assert_eq!(l4_place(&frame), Some(L4Place { start: 62, field: 78, end: 82 }));
    let pseudo = Partial::pseudo6(src, dst, Proto::TCP, 20);
    frame[78..80].copy_from_slice(&open_field(pseudo).to_be_bytes());
    complete_l4(&mut frame, L4Place { start: 62, field: 78, end: 82 }).unwrap();
    assert!(wire::tcp::checksum_ok(pseudo, &frame[62..]));
}

#[test]
fn frames_without_an_open_checksum_are_rejected() {
    let mut fragment = udp4(MACS, (A, 5), (B, 6), b"abc", true);
    fragment[20] = 0x20; // more fragments
    let mut icmp = udp4(MACS, (A, 5), (B, 6), b"abc", true);
    icmp[23] = 1;
    let cut = &udp4(MACS, (A, 5), (B, 6), b"abc", true)[..41];
    for frame in [&fragment[..], &icmp, cut, b"", &[0; 60]] {
        assert_eq!(l4_place(frame), None);
    }
    let pool = Pool::new(&PoolConfig { buffers: 2, ..PoolConfig::default() }).unwrap();
    let mut frame = pool.get().unwrap();
    frame.extend(&icmp).unwrap();
    frame.set_flags(Flags::TX_L4_CSUM);
    assert_eq!(complete(&mut frame), None);
    frame.set_flags(Flags::TX_IP_CSUM);
    frame.bytes_mut()[24..26].fill(0xaa);
    complete(&mut frame).unwrap();
    assert!(ip4::header_checksum_ok(&frame.bytes()[14..], 20) && frame.flags() == Flags::default());
}
