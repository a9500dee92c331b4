//! Tests that fragments follow RFC 791 3.2. The round trip with reassembly is tested in `reass`.

use super::*;
use buf::PoolConfig;
use proptest::prelude::*;
use std::net::Ipv4Addr;
use wire::ip4::header_checksum_ok;

const SRC: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const DST: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);

fn pool(buffers: usize) -> Pool {
    Pool::new(&PoolConfig { buffers, ..PoolConfig::default() }).unwrap()
}

fn big() -> Pool {
    Pool::new(&PoolConfig { buffers: 2, data: 1 << 16, ..PoolConfig::default() }).unwrap()
}

fn packet(pool: &Pool, options: &[u8], len: usize, change: impl Fn(&mut Header)) -> (Frame, Header) {
    let mut header = Header { id: 0x1234, df: false, ..Header::new(SRC, DST, Proto::UDP, 0).unwrap() };
    header.ihl_len += options.len();
    header.total_len = (header.ihl_len + len) as u16;
    change(&mut header);
    let mut frame = pool.get().unwrap();
    let bytes = frame.append(header.ihl_len + len).unwrap();
    header.emit(bytes.first_chunk_mut().unwrap());
    bytes[20..header.ihl_len].copy_from_slice(options);
    ip4::fill_checksum(&mut bytes[..header.ihl_len]);
    bytes[header.ihl_len..].iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 7 % 251) as u8);
    let header = Header::parse(frame.bytes()).unwrap();
    (frame, header)
}

fn cut_up(frame: Frame, header: &Header, mtu: usize, pool: &Pool) -> Result<Vec<Frame>, FragError> {
    let mut out = Vec::new();
    let before = frame.bytes().to_vec();
    match fragment(frame, header, mtu, pool, &mut |part| out.push(part)) {
        Ok(original) => {
            assert_eq!(original.bytes(), before, "the original comes back as it was");
            Ok(out)
        }
        Err((original, why)) => {
            assert_eq!(original.bytes(), before, "the original comes back as it was");
            assert!(out.is_empty(), "all or none");
            Err(why)
        }
    }
}

/// Returns (offset, payload length, MF, header length) of each fragment.
fn shape(parts: &[Frame]) -> Vec<(u16, usize, bool, usize)> {
    let parse = |part: &Frame| {
        let header = Header::parse(part.bytes()).unwrap();
        assert!(header_checksum_ok(part.bytes(), header.ihl_len));
        assert_eq!(part.len(), usize::from(header.total_len));
        (header.frag_off, part.len() - header.ihl_len, header.mf, header.ihl_len)
    };
    parts.iter().map(parse).collect()
}

#[test]
fn an_ethernet_mtu_gives_fragments_of_1480_bytes() {
    let (big, pool) = (big(), pool(8));
    let (frame, header) = packet(&big, &[], 4000, |_| {});
    let parts = cut_up(frame, &header, 1500, &pool).unwrap();
    assert_eq!(shape(&parts), [(0, 1480, true, 20), (1480, 1480, true, 20), (2960, 1040, false, 20)]);
    assert!(parts.iter().all(|part| part.headroom() == 128 && part.l3_bytes() == part.bytes()));
    let ids = parts.iter().map(|part| Header::parse(part.bytes()).unwrap());
    assert!(ids.into_iter().all(|h| (h.id, h.ttl, h.src, h.dst) == (0x1234, 64, SRC, DST)));
}

#[test]
fn the_last_fragment_fills_the_mtu_to_the_byte() {
    let (big, pool) = (big(), pool(8));
    let (frame, header) = packet(&big, &[], 1472 + 1479, |_| {});
    let parts = cut_up(frame, &header, 1499, &pool).unwrap();
    assert_eq!(shape(&parts), [(0, 1472, true, 20), (1472, 1479, false, 20)]);
}

#[test]
fn a_fragment_is_fragmented_again_at_its_offset() {
    let (big, pool) = (big(), pool(8));
    for mf in [true, false] {
        let (frame, header) = packet(&big, &[], 1480, |header| (header.mf, header.frag_off) = (mf, 2960));
        let parts = cut_up(frame, &header, 1000, &pool).unwrap();
        assert_eq!(shape(&parts), [(2960, 976, true, 20), (3936, 504, mf, 20)]);
    }
}

#[test]
fn only_options_with_the_copied_bit_go_into_later_fragments() {
    let (big, pool) = (big(), pool(8));
    // No Operation, Record Route (7), Router Alert (148), End.
    let options = [1, 7, 7, 4, 0, 0, 0, 0, 148, 4, 0, 0, 0, 0, 0, 0];
    let (frame, header) = packet(&big, &options, 3000, |_| {});
    let parts = cut_up(frame, &header, 1500, &pool).unwrap();
    assert_eq!(shape(&parts), [(0, 1464, true, 36), (1464, 1472, true, 24), (2936, 64, false, 24)]);
    assert_eq!(parts[0].bytes()[20..36], options);
    assert!(parts[1..].iter().all(|part| part.bytes()[20..24] == [148, 4, 0, 0]));
}

#[test]
fn copied_options_are_padded_and_malformed_ones_end_the_copy() {
    assert_eq!(copied(&[]), []);
    assert_eq!(copied(&[1, 1, 1, 0]), []);
    assert_eq!(copied(&[0x82, 3, 9, 0x83, 3, 8]), [0x82, 3, 9, 0x83, 3, 8, 0, 0]);
    assert_eq!(copied(&[148, 4, 0, 0, 0x82, 0, 1, 1]), [148, 4, 0, 0], "a length of 0");
    assert_eq!(copied(&[148, 4, 0, 0, 0x82, 1, 1, 1]), [148, 4, 0, 0], "a length of 1");
    assert_eq!(copied(&[148, 4, 0, 0, 0x82, 5, 1, 1]), [148, 4, 0, 0], "a length past the end");
    assert_eq!(copied(&[148, 4, 0, 0, 0x82]), [148, 4, 0, 0], "no length");
    assert_eq!(copied(&[0, 2, 0x82, 2]), [], "nothing after the end of the list");
}

/// A shared payload cannot be changed in place.
#[test]
fn a_checksum_that_cannot_be_computed_is_an_error() {
    let one = Pool::new(&PoolConfig { buffers: 1, data: 8192, ..PoolConfig::default() }).unwrap();
    let pool = pool(8);
    let (frame, header) = packet(&one, &[], 4000, |_| {});
    let mut held = buf::Held::new(frame).unwrap();
    let mut lent = held.lend().unwrap();
    lent.set_flags(Flags::TX_L4_CSUM);
    assert_eq!(cut_up(lent, &header, 1500, &pool).unwrap_err(), FragError::NoBuffer);
}

#[test]
fn errors_produce_no_fragments() {
    let (big, pool) = (big(), pool(3));
    let refused = |mtu, change: fn(&mut Header)| {
        let (frame, header) = packet(&big, &[], 4000, change);
        cut_up(frame, &header, mtu, &pool).unwrap_err()
    };
    assert_eq!(refused(1500, |header| header.df = true), FragError::DontFragment);
    assert!([0, 19, 20, 27].into_iter().all(|mtu| refused(mtu, |_| {}) == FragError::MtuTooSmall));
    assert_eq!(refused(1300, |_| {}), FragError::NoBuffer, "no buffer for the fourth fragment");
    assert_eq!(refused(576, |_| {}), FragError::NoBuffer);
    assert_eq!(refused(1500, |header| header.frag_off = 65_528), FragError::Malformed);
    assert_eq!(pool.stats().live(), 0);
}

#[test]
fn a_fragment_may_end_at_65_535_and_no_further() {
    let (big, pool) = (big(), pool(8));
    for (len, ends) in [(2515, true), (2516, false)] {
        let (frame, header) = packet(&big, &[], len, |header| header.frag_off = 63_000);
        let parts = cut_up(frame, &header, 1500, &pool);
        let expected = if ends {
            Ok(vec![(63_000, 1480, true, 20), (64_480, 1035, false, 20)])
        } else {
            Err(FragError::Malformed)
        };
        assert_eq!(parts.map(|parts| shape(&parts)), expected);
    }
}

#[test]
fn a_fragment_has_no_checksum_to_compute() {
    let (big, pool) = (big(), pool(8));
    let (mut frame, header) = packet(&big, &[], 3000, |header| (header.mf, header.proto) = (true, Proto::TCP));
    frame.set_flags(Flags::TX_L4_CSUM);
    let parts = cut_up(frame, &header, 1500, &pool).unwrap();
    assert!(parts.iter().all(|part| part.flags() == Flags::default()));
}

#[test]
fn a_buffer_smaller_than_the_mtu_sets_the_size() {
    let (big, pool) = (big(), pool(8));
    let (frame, header) = packet(&big, &[], 8000, |_| {});
    let parts = cut_up(frame, &header, 9000, &pool).unwrap();
    assert_eq!(parts.len(), 4);
    assert_eq!(shape(&parts)[0], (0, 2024, true, 20));
}

#[test]
fn flags_valid_for_a_fragment_are_kept() {
    let (big, pool) = (big(), pool(8));
    let (mut frame, header) = packet(&big, &[], 3000, |_| {});
    frame.set_flags(Flags::LOOPBACK.with(Flags::RX_L4_OK).with(Flags::TX_IP_CSUM));
    let parts = cut_up(frame, &header, 1500, &pool).unwrap();
    assert!(parts.iter().all(|part| part.flags() == Flags::LOOPBACK));
}

#[test]
fn an_offloaded_checksum_is_computed_first() {
    let (big, pool) = (big(), pool(8));
    for proto in [Proto::UDP, Proto::TCP] {
        let (mut frame, header) = packet(&big, &[], 3000, |header| header.proto = proto);
        let pseudo = Partial::pseudo4(SRC, DST, proto, 3000);
        let payload = &mut frame.bytes_mut()[20..];
        if proto == Proto::UDP {
            let (src, dst) = (wire::L4Port(5), wire::L4Port(6));
            let datagram = udp::Header { src, dst, len: 3000, checksum: !pseudo.finish() };
            datagram.emit(payload.first_chunk_mut().unwrap());
        }
        frame.set_flags(Flags::TX_L4_CSUM);
        let mut parts = Vec::new();
        let original = fragment(frame, &header, 1500, &pool, &mut |part| parts.push(part)).unwrap();
        let whole: Vec<u8> = parts.iter().flat_map(|part| part.bytes()[20..].to_vec()).collect();
        assert_eq!(whole, original.bytes()[20..]);
        assert!(udp::checksum_ok(pseudo, &whole), "{proto}");
        assert!(parts.iter().all(|part| !part.flags().has(Flags::TX_L4_CSUM)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Fragments are contiguous and complete, have payloads in blocks of 8 bytes, and are as long
    /// as the MTU permits.
    #[test]
    fn fragments_follow_rfc_791(
        kinds in prop::collection::vec(any::<u8>(), 0..=10usize),
        len in 1..9000usize,
        mtu in 68..1500usize,
        off in prop_oneof![Just(0u16), 0..7000u16],
        mf: bool,
    ) {
        let (big, pool) = (big(), pool(2048));
        let options: Vec<u8> = kinds.iter().flat_map(|&kind| [kind, 4, 9, 9]).collect();
        let len = if mf { len.next_multiple_of(8) } else { len };
        let (frame, header) = packet(&big, &options, len, |header| (header.mf, header.frag_off) = (mf, off * 8));
        let payload = header.payload(frame.bytes()).to_vec();
        let parts = cut_up(frame, &header, mtu, &pool).unwrap();
        let mut at = 0;
        for (i, &(frag_off, len, more, ihl_len)) in shape(&parts).iter().enumerate() {
            prop_assert_eq!(usize::from(frag_off), usize::from(off) * 8 + at);
            let last = i == parts.len() - 1;
            prop_assert_eq!(more, !last || mf);
            prop_assert!(ihl_len + len <= mtu && (last || len % 8 == 0 && ihl_len + len + 8 > mtu));
            prop_assert_eq!(&parts[i].bytes()[ihl_len..], &payload[at..at + len]);
            at += len;
        }
        prop_assert_eq!(at, payload.len());
    }

    /// Random bytes that parse as a header never cause a panic, and after an error nothing was
    /// output.
    #[test]
    fn random_packets_break_no_invariant(bytes in prop::collection::vec(any::<u8>(), 20..400), mtu in 0..600usize, fix: bool) {
        let pool = pool(64);
        let mut frame = pool.get().unwrap();
        frame.extend(&bytes).unwrap();
        if fix {
            let total_len = (bytes.len() as u16).to_be_bytes();
            frame.bytes_mut()[0] = 0x40 | (bytes[0] & 0x0f).max(5);
            frame.bytes_mut()[2..4].copy_from_slice(&total_len);
        }
        frame.set_flags(Flags::TX_L4_CSUM);
        if let Ok(header) = Header::parse(frame.bytes()) {
            let mut parts = Vec::new();
            match fragment(frame, &header, mtu, &pool, &mut |part| parts.push(part)) {
                Ok(_) => prop_assert!(!parts.is_empty()),
                Err(_) => prop_assert!(parts.is_empty()),
            }
            prop_assert!(parts.iter().all(|part| part.len() <= mtu));
        }
    }
}
