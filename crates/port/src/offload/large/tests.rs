use super::*;
use crate::offload::gso::tests::{Sent, large};

const SENT: Sent = Sent {
    seq: 1,
    id: 1,
    df: false,
    flags: wire::tcp::Flags::ACK.0,
    urgent: 0,
    options: Vec::new(),
    tags: 0,
    six: false,
};

fn small(buffers: usize) -> Pool {
    Pool::new(&PoolConfig { buffers, ..PoolConfig::default() }).unwrap()
}

/// Checks that a segment is dropped if its pieces are longer than a buffer of the pool, as may
/// happen with a large MTU: 8948 bytes of payload for an MTU of 9000.
#[test]
fn a_segment_with_pieces_too_long_for_a_buffer_is_dropped() {
    let (small, all) = (small(64), pool(2).unwrap());
    let mut half = Large::new(Some(all.clone()));
    let room = small.size() - small.headroom();
    let headers = 14 + 20 + 20;
    for size in [8948, (room - headers + 1) as u16] {
        let spare = half.take().unwrap();
        assert!(half.is_spent());
        let segment = large(&SENT, &[7; 30_000], size, &all);
        drop(spare);
        assert!(matches!(half.split(segment, &small), Cut::Uncuttable));
        assert!(!half.is_cutting() && !half.is_spent(), "the buffer is in reserve again");
    }
    drop(half.take());
    let segment = large(&SENT, &[7; 3000], (room - headers) as u16, &all);
    let Cut::Piece(piece) = half.split(segment, &small) else { panic!("a piece that just fits") };
    assert_eq!(piece.len(), room);
    assert!(matches!(half.cut(&small), Cut::Piece(_)) && !half.is_cutting());
}

/// Checks that a single piece may be shorter than the segment size.
#[test]
fn a_single_piece_segment_has_the_length_of_its_payload() {
    let (small, all) = (small(1), pool(1).unwrap());
    let mut half = Large::new(Some(all.clone()));
    drop(half.take());
    let segment = large(&SENT, &[7; 100], 8948, &all);
    assert!(matches!(half.split(segment, &small), Cut::Piece(piece) if piece.len() == 154));
}

#[test]
fn reading_resumes_when_a_buffer_is_free() {
    let (small, all) = (small(1), pool(1).unwrap());
    let mut half = Large::new(Some(all.clone()));
    drop(half.take());
    let taken = small.get();
    assert!(matches!(half.split(large(&SENT, &[7; 2000], 1448, &all), &small), Cut::NoBuffer) && half.is_cutting());
    drop(taken);
    assert!(matches!(half.cut(&small), Cut::Piece(_)));
}
