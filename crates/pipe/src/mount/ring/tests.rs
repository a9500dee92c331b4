use super::*;
use proptest::prelude::*;

fn block(records: &[&[u8]]) -> Block {
    let mut block = Block::default();
    for record in records {
        block.bytes.extend_from_slice(record);
        block.ends.push(block.bytes.len() as u32);
    }
    block
}

fn text(taken: Taken) -> Option<Vec<u8>> {
    match taken {
        Taken::Pieces(pieces) => Some(pieces.iter().flat_map(|piece| piece.bytes().to_vec()).collect()),
        Taken::Long(piece) => Some(piece.bytes().to_vec()),
        Taken::Nothing => None,
    }
}

#[test]
fn only_whole_records_are_returned() {
    let mut ring = Ring::new(1000);
    let mut reader = ring.reader();
    ring.push(block(&[b"one\n", b"three\n"]));
    ring.push(block(&[b"seven\n"]));
    assert_eq!(text(ring.take(&mut reader, 9)).unwrap(), b"one\n");
    let Taken::Long(mut piece) = ring.take(&mut reader, 5) else { panic!("it does not fit") };
    assert_eq!((piece.split(4).unwrap().bytes(), piece.bytes()), (&b"thre"[..], &b"e\n"[..]));
    assert!(piece.split(2).is_none());
    assert_eq!(text(ring.take(&mut reader, 100)).unwrap(), b"seven\n");
    assert!(matches!(ring.take(&mut reader, 100), Taken::Nothing));
    assert_eq!((reader.delivered, reader.overflow), (3, 0));
}

#[test]
fn a_reader_gets_frames_pushed_later() {
    let mut ring = Ring::new(1000);
    ring.push(block(&[b"before\n"]));
    let mut reader = ring.reader();
    assert!(!ring.is_ready(&reader));
    ring.push(block(&[b"after\n"]));
    assert_eq!(text(ring.take(&mut reader, 100)).unwrap(), b"after\n");
}

#[test]
fn a_slow_reader_loses_the_oldest_and_gets_the_count() {
    let mut ring = Ring::new(2 * SMALL);
    let (mut slow, mut fast) = (ring.reader(), ring.reader());
    let record = vec![7; SMALL];
    for _ in 0..5 {
        ring.push(block(&[&record]));
        assert_eq!(text(ring.take(&mut fast, SMALL)).unwrap().len(), SMALL);
    }
    assert_eq!(ring.ahead(&slow), 2 * SMALL);
    assert_eq!(ring.ahead(&fast), 0);
    assert_eq!(text(ring.take(&mut slow, usize::MAX)).unwrap().len(), 2 * SMALL);
    assert_eq!((slow.delivered, slow.overflow), (2, 3));
    assert_eq!((fast.delivered, fast.overflow), (5, 0));
    ring.release([slow, fast].iter());
    assert_eq!((ring.bytes, ring.blocks.len()), (0, 0));
}

#[test]
fn a_share_outlives_its_block() {
    let mut ring = Ring::new(1);
    let mut reader = ring.reader();
    ring.push(block(&[b"one\n"]));
    let Taken::Pieces(pieces) = ring.take(&mut reader, 100) else { panic!("there is one") };
    ring.push(block(&[&[1; SMALL]]));
    ring.release([reader].iter());
    assert_eq!(pieces[0].bytes(), b"one\n");
}

proptest! {
    /// Compares the ring with a simple model: each reader receives all frames except those counted
    /// as its overflow.
    #[test]
    fn all_losses_are_counted(steps in prop::collection::vec((0..3_usize, 0..6_usize, 1..700_usize), 1..200)) {
        let mut ring = Ring::new(3000);
        let mut came: Vec<Vec<u8>> = Vec::new();
        let mut readers = [(ring.reader(), 0_usize), (ring.reader(), 0)];
        for (what, count, size) in steps {
            if what == 2 {
                let records: Vec<Vec<u8>> = (0..count).map(|i| vec![(came.len() + i) as u8; size]).collect();
                let refs: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
                ring.push(block(&refs));
                came.extend(records);
            } else {
                let (reader, at) = &mut readers[what];
                let lost = reader.overflow;
                let taken = ring.take(reader, size);
                *at += (reader.overflow - lost) as usize;
                if let Some(bytes) = text(taken) {
                    prop_assert!(bytes.len() <= size || bytes.len() == came[*at].len());
                    let mut expected = Vec::new();
                    while expected.len() < bytes.len() {
                        expected.extend_from_slice(&came[*at]);
                        *at += 1;
                    }
                    prop_assert_eq!(bytes, expected);
                }
                prop_assert_eq!((reader.delivered + reader.overflow) as usize, *at);
                prop_assert_eq!(*at + ring.waiting(reader) as usize, came.len());
                let [a, b] = &readers;
                ring.release([&a.0, &b.0].into_iter());
            }
            prop_assert_eq!(ring.next as usize, came.len());
            prop_assert!(ring.bytes <= 3000 || ring.blocks.len() == 1);
        }
    }
}
