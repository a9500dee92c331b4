use super::*;
use buf::PoolConfig;
use proptest::prelude::*;
use std::net::Ipv4Addr;
use wire::checksum::Partial;
use wire::{L4Port, Mac, Proto, ip4, ip6, tcp};

const A: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const B: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn pool(data: usize) -> Pool {
    Pool::new(&PoolConfig { buffers: 2048, data, ..PoolConfig::default() }).unwrap()
}

/// Header fields of a sender that do not depend on how its payload is split.
#[derive(Clone, Debug)]
pub struct Sent {
    pub seq: u32,
    pub id: u16,
    pub df: bool,
    pub flags: u8,
    /// End of the urgent data, relative to `seq`; 0 if there is none.
    pub urgent: u16,
    pub options: Vec<u8>,
    pub tags: usize,
    /// True for IPv6, false for IPv4.
    pub six: bool,
}

fn six(payload_len: usize) -> ip6::Header {
    ip6::Header {
        traffic_class: 2,
        flow_label: 0x12345,
        payload_len: payload_len as u16,
        next: Proto::TCP,
        hop_limit: 64,
        src: "2001:db8::1".parse().unwrap(),
        dst: "2001:db8::2".parse().unwrap(),
    }
}

/// Returns the `n`-th frame of a sender, which contains the part `text` at offset `at` of a payload
/// of `whole` bytes. If `open` is true, the checksum is left to the port.
pub fn packet(sent: &Sent, at: usize, text: &[u8], whole: usize, n: u16, open: bool) -> Vec<u8> {
    let mut frame = vec![0; 12];
    frame[..6].copy_from_slice(&Mac([2, 0, 0, 0, 0, 2]).0);
    frame[6..12].copy_from_slice(&Mac([2, 0, 0, 0, 0, 1]).0);
    for _ in 0..sent.tags {
        frame.extend([0x81, 0, 0, 7]);
    }
    frame.extend(if sent.six { [0x86, 0xdd] } else { [8, 0] });
    let (l3, header_len) = (frame.len(), tcp::HEADER_LEN + sent.options.len());
    let id = if sent.df && sent.id == 0 { 0 } else { sent.id.wrapping_add(n) };
    if sent.six {
        frame.resize(l3 + ip6::HEADER_LEN, 0);
        six(header_len + text.len()).emit(frame[l3..].first_chunk_mut().unwrap());
    } else {
        let ip =
            ip4::Header { id, df: sent.df, ..ip4::Header::new(A, B, Proto::TCP, header_len + text.len()).unwrap() };
        frame.resize(l3 + ip4::HEADER_LEN, 0);
        ip.emit(frame[l3..].first_chunk_mut().unwrap());
    }
    let (first, last) = (at == 0, at + text.len() == whole);
    let mut flags = tcp::Flags(sent.flags);
    let urgent = usize::from(sent.urgent).saturating_sub(at) as u16;
    for (keep, flag) in
        [(first, tcp::Flags::CWR), (last, tcp::Flags::PSH), (last, tcp::Flags::FIN), (urgent > 0, tcp::Flags::URG)]
    {
        flags = if keep { flags } else { tcp::Flags(flags.0 & !flag.0) };
    }
    let header = tcp::Header {
        src: L4Port(5),
        dst: L4Port(6),
        seq: sent.seq.wrapping_add(at as u32),
        ack: 77,
        header_len,
        flags,
        window: 500,
        checksum: 0,
        urgent: if flags.contains(tcp::Flags::URG) { urgent } else { 0 },
    };
    let l4 = frame.len();
    frame.resize(l4 + tcp::HEADER_LEN, 0);
    header.emit(frame[l4..].first_chunk_mut().unwrap());
    frame.extend(&sent.options);
    frame.extend(text);
    let len = frame.len() - l4;
    let pseudo = match sent.six {
        true => Partial::pseudo6(six(0).src, six(0).dst, Proto::TCP, len as u32),
        false => Partial::pseudo4(A, B, Proto::TCP, len as u16),
    };
    match open {
        true => frame[l4 + 16..l4 + 18].copy_from_slice(&crate::offload::open_field(pseudo).to_be_bytes()),
        false => tcp::fill_checksum(pseudo, &mut frame[l4..]),
    }
    frame
}

/// Returns the large segment that contains all of `text`, as a frame.
pub fn large(sent: &Sent, text: &[u8], size: u16, pool: &Pool) -> Frame {
    let mut frame = pool.get().unwrap();
    frame.extend(&packet(sent, 0, text, text.len(), 0, true)).unwrap();
    frame.set_flags(Flags::TX_L4_CSUM);
    frame.set_gso_size(size);
    frame
}

fn plain() -> Sent {
    Sent { seq: 1000, id: 9, df: true, flags: 0x18, urgent: 0, options: vec![], tags: 0, six: false }
}

fn cut_all(frame: Frame, pool: &Pool) -> Vec<Frame> {
    let mut cutter = Cutter::new(frame).unwrap();
    let mut pieces = Vec::new();
    while !cutter.is_done() {
        pieces.push(cutter.cut(pool).unwrap());
    }
    assert!(cutter.into_frame().flags().has(Flags::GSO), "the segment itself is unchanged");
    pieces
}

prop_compose! {
    fn sent()(
        seq: u32, id: u16, df: bool, flags in 0..=255u8, urgent in 0..4000u16,
        options in prop_oneof![Just(vec![]), Just(vec![1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8])], tags in 0..3usize, six: bool,
    ) -> Sent {
        // A URG flag with pointer 0 is not generated, because a sender that sets URG points to the
        // end of some data.
        let flags = if urgent == 0 { flags & !tcp::Flags::URG.0 } else { flags };
        let urgent = if flags & tcp::Flags::URG.0 == 0 { 0 } else { urgent };
        Sent { seq, id, df, flags, urgent, options, tags, six }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn pieces_equal_the_frames_of_a_sender_without_offload(
        sent in sent(), len in 0..64_000usize, size in prop_oneof![1..=1460u16, 500..=1460u16], seed: u8,
    ) {
        let len = len.min(usize::from(size) * 1000);
        let text: Vec<u8> = (0..len).map(|n| (n as u8).wrapping_mul(31) ^ (n >> 8) as u8 ^ seed).collect();
        let (small, big) = (pool(2048), Pool::new(&PoolConfig { buffers: 2, data: 65_600, ..PoolConfig::default() }).unwrap());
        let pieces = cut_all(large(&sent, &text, size, &big), &small);
        let step = usize::from(size);
        let chunks: Vec<&[u8]> = if text.is_empty() { vec![&[]] } else { text.chunks(step).collect() };
        prop_assert_eq!(pieces.len(), chunks.len());
        for (n, (piece, chunk)) in pieces.iter().zip(chunks).enumerate() {
            let meant = packet(&sent, n * step, chunk, len, n as u16, false);
            prop_assert_eq!(piece.bytes(), &meant[..], "piece {}", n);
            prop_assert!(!piece.flags().any(Flags::TX_WORK));
        }
        drop(pieces);
        prop_assert_eq!((small.stats().live(), big.stats().live()), (0, 0));
    }
}

#[test]
fn other_frames_are_not_split() {
    let pool = pool(4096);
    let text = [7; 3000];
    assert!(Cutter::new(large(&plain(), &text, 0, &pool)).is_err(), "segment size 0");
    let mut frame = large(&plain(), &text, 1000, &pool);
    frame.set_flags(frame.flags().without(Flags::GSO));
    assert!(Cutter::new(frame).is_err(), "without the GSO flag");
    let mut udp = large(&plain(), &text, 1000, &pool);
    udp.bytes_mut()[14 + 9] = Proto::UDP.0;
    assert!(Cutter::new(udp).is_err());
    let mut fragment = large(&plain(), &text, 1000, &pool);
    fragment.bytes_mut()[14 + 6] |= 0x20;
    assert!(Cutter::new(fragment).is_err());
    let mut udp6 = large(&Sent { six: true, ..plain() }, &text, 1000, &pool);
    udp6.bytes_mut()[14 + 6] = Proto::UDP.0;
    assert!(Cutter::new(udp6).is_err());
    // A segment after destination options is valid. After a routing header, its checksum covers
    // another address.
    for (next, is_one) in [(Proto::DEST_OPTIONS, true), (Proto::ROUTING, false)] {
        let mut bytes = packet(&Sent { six: true, ..plain() }, 0, &text, text.len(), 0, true);
        bytes.splice(54..54, [Proto::TCP.0, 0, 1, 1, 0, 0, 0, 0]);
        bytes[14 + 6] = next.0;
        bytes[14 + 4..14 + 6].copy_from_slice(&3028u16.to_be_bytes());
        let mut frame = pool.get().unwrap();
        frame.extend(&bytes).unwrap();
        frame.set_gso_size(1000);
        assert_eq!(
            Cutter::new(frame).is_ok_and(|cutter| cutter.longest() == 14 + 40 + 8 + 20 + 1000),
            is_one,
            "{next}"
        );
    }
    let mut cut = large(&plain(), &text, 1000, &pool);
    cut.truncate(60);
    assert!(Cutter::new(cut).is_err(), "shorter than the length in its header");
    assert_eq!(pool.stats().live(), 0);
}

#[test]
fn splitting_pauses_without_buffers_and_resumes() {
    let (two, big) = (Pool::new(&PoolConfig { buffers: 2, ..PoolConfig::default() }).unwrap(), pool(4096));
    let mut cutter = Cutter::new(large(&plain(), &[1; 3000], 1000, &big)).unwrap();
    let kept = [cutter.cut(&two).unwrap(), cutter.cut(&two).unwrap()];
    assert!(cutter.cut(&two).is_none() && !cutter.is_done());
    drop(kept);
    let last = cutter.cut(&two).unwrap();
    assert!(cutter.is_done());
    assert_eq!(last.bytes(), packet(&plain(), 2000, &[1; 1000], 3000, 2, false));
}

#[test]
fn a_copy_of_a_large_segment_is_large_and_its_buffer_is_reset() {
    let pool = Pool::new(&PoolConfig { buffers: 2, data: 4096, ..PoolConfig::default() }).unwrap();
    let frame = large(&plain(), &[1; 3000], 1000, &pool);
    let copy = frame.try_clone().unwrap();
    assert_eq!((copy.gso_size(), copy.bytes()), (Some(1000), frame.bytes()));
    drop((frame, copy));
    assert_eq!([pool.get().unwrap().gso_size(), pool.get().unwrap().gso_size()], [None, None]);
}

// virtio 1.2, 5.1.6: VIRTIO_NET_HDR_GSO_TCPV4 is 1, VIRTIO_NET_HDR_GSO_TCPV6 is 4.
#[test]
fn large_segments_of_both_families_round_trip_through_the_virtio_header() {
    use crate::offload::{RxCsum, virtio};
    let pool = pool(4096);
    for (six, gso_type, l4) in [(false, 1, 34), (true, 4, 54)] {
        let mut frame = large(&Sent { six, ..plain() }, &[7; 3000], 1000, &pool);
        let header = virtio::prepare(&mut frame, true).unwrap();
        let places = (header.gso_type, header.gso_size, header.hdr_len, header.csum_start, header.csum_offset);
        assert_eq!(places, (gso_type, 1000, l4 + 20, l4, 16), "six: {six}");
        frame.set_flags(Flags::default());
        virtio::understand(&header, &mut frame, RxCsum::Trust, 65_535).unwrap();
        assert_eq!((frame.gso_size(), frame.flags().has(Flags::TX_L4_CSUM)), (Some(1000), true));
        assert_eq!(cut_all(frame, &pool).len(), 3);
    }
}
