use super::*;
use crate::{Held, Kind, PoolConfig, Stride};
use proptest::prelude::*;

fn pool(kind: Kind, stride: Stride, buffers: usize) -> Pool {
    Pool::new(&PoolConfig { kind, stride, buffers, data: 1856, headroom: 128, ..PoolConfig::default() }).unwrap()
}

#[test]
fn a_frame_returns_with_the_bytes_that_the_device_wrote() {
    for (stride, bytes) in [(Stride::Odd, 2112), (Stride::PowerOfTwo, 2048)] {
        let pool = pool(Kind::Stack, stride, 8);
        let layout = pool.layout().unwrap();
        assert_eq!((layout.stride, layout.front), (bytes, 64));
        let mut away = Away::new(&pool).unwrap();
        let mut frame = pool.get().unwrap();
        frame.extend(b"abcdef").unwrap();
        let place = away.give(frame).unwrap();
        assert_eq!((place.slot % bytes, place.data, place.len, away.len()), (0, 64 + 128, 6, 1));
        // SAFETY: the buffer is away, and this test acts as the device.
        unsafe { layout.base.add(place.slot + place.data + 2).write(b'X') };
        let frame = away.take(Place { data: place.data + 1, len: 4, ..place }).unwrap();
        assert_eq!((frame.bytes(), frame.headroom(), away.len()), (&b"bXde"[..], 129, 0));
        assert!(away.take(place).is_none(), "it came back once");
        drop(frame);
        assert_eq!(pool.stats().live(), 0);
    }
}

#[test]
fn unknown_or_out_of_range_buffers_are_rejected() {
    let pool = pool(Kind::Freelist, Stride::Odd, 8);
    let mut away = Away::new(&pool).unwrap();
    let place = away.give(pool.get().unwrap()).unwrap();
    for slot in [place.slot + 64, place.slot + 1, place.slot + 2112, usize::MAX, 1 << 40] {
        assert!(away.take(Place { slot, ..place }).is_none());
    }
    assert_eq!(away.len(), 1);
    assert!(away.take(Place { len: 1985, data: 64, ..place }).is_none(), "one byte more than the buffer has");
    assert_eq!((away.len(), pool.stats().live()), (0, 0));
    for (data, len) in [(63, 0), (usize::MAX, 1), (64, usize::MAX), (64 + 1984, 1)] {
        let place = away.give(pool.get().unwrap()).unwrap();
        assert!(away.take(Place { data, len, ..place }).is_none());
    }
    let place = away.give(pool.get().unwrap()).unwrap();
    assert_eq!(away.take(Place { data: 64, len: 1984, ..place }).unwrap().len(), 1984);
    assert_eq!(pool.stats().live(), 0);
}

#[test]
fn lent_and_foreign_frames_are_returned() {
    let (ours, theirs) = (pool(Kind::Stack, Stride::Odd, 4), pool(Kind::Stack, Stride::Odd, 4));
    let mut away = Away::new(&ours).unwrap();
    let mut held = Held::new(ours.get().unwrap()).unwrap();
    let lent = away.give(held.lend().unwrap()).unwrap_err();
    assert!(lent.is_lent() && !away.accepts(&lent));
    assert!(away.give(theirs.get().unwrap()).is_err());
    assert!(Away::new(&pool(Kind::Malloc, Stride::Odd, 4)).is_none());
}

#[test]
fn dropping_the_account_frees_its_buffers_unless_abandoned() {
    for kind in [Kind::Stack, Kind::Freelist, Kind::Zone] {
        let pool = pool(kind, Stride::Odd, 300);
        let mut away = Away::new(&pool).unwrap();
        (0..300).for_each(|_| _ = away.give(pool.get().unwrap()).unwrap());
        assert_eq!((away.len(), pool.stats().live()), (300, 300));
        assert!(pool.get().is_none());
        drop(away);
        assert_eq!(pool.stats().live(), 0, "{kind}");
        let mut away = Away::new(&pool).unwrap();
        away.give(pool.get().unwrap()).unwrap();
        let mut away = away.hand_over();
        assert_eq!(away.len(), 1);
        away.abandon();
        drop(away);
        assert_eq!(pool.stats().live(), 1);
    }
}

proptest! {
    /// In any order of giving and taking, each frame keeps its own bytes and its own buffer.
    #[test]
    fn every_buffer_has_one_owner(data in 1usize..5000, buffers in 1usize..40, order in prop::collection::vec(0usize..40, 0..200)) {
        let pool = Pool::new(&PoolConfig { buffers, data, ..PoolConfig::default() }).unwrap();
        let mut away = Away::new(&pool).unwrap();
        let mut places: Vec<(Place, u8)> = Vec::new();
        for (i, pick) in order.into_iter().enumerate() {
            if let Some(at) = (pick % 2 == 0 && !places.is_empty()).then(|| pick % places.len()) {
                let (place, mark) = places.swap_remove(at);
                let frame = away.take(place).unwrap();
                prop_assert_eq!(frame.bytes(), [mark]);
            } else if let Some(mut frame) = pool.get() {
                frame.extend(&[i as u8]).unwrap();
                places.push((away.give(frame).unwrap(), i as u8));
            }
            prop_assert_eq!(away.len(), places.len());
            prop_assert_eq!(pool.stats().live(), places.len() as u64);
        }
    }
}
