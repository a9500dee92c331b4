use super::*;
use crate::{Burst, Kind, Pool, PoolConfig, PoolLocks};

fn pool(kind: Kind, locks: PoolLocks) -> Pool {
    Pool::new(&PoolConfig { kind, locks, buffers: 4, data: 256, headroom: 64, ..PoolConfig::default() }).unwrap()
}

fn held(pool: &Pool, bytes: &[u8]) -> Held {
    let mut frame = pool.get().unwrap();
    frame.extend(bytes).unwrap();
    Held::new(frame).unwrap()
}

#[test]
fn the_last_holder_frees_the_buffer() {
    for kind in [Kind::Stack, Kind::Freelist, Kind::Zone, Kind::Malloc] {
        for locks in [PoolLocks::Owner, PoolLocks::Light, PoolLocks::Heavy] {
            let pool = pool(kind, locks);
            for holder_last in [true, false] {
                let mut held = held(&pool, b"payload");
                let lent = held.lend().unwrap();
                assert_eq!((lent.bytes(), held.bytes()), (&b"payload"[..], &b"payload"[..]));
                assert_eq!(pool.stats().live(), 1);
                if holder_last {
                    drop(lent);
                    assert_eq!(pool.stats().live(), 1);
                    drop(held);
                } else {
                    drop(held);
                    assert_eq!((lent.bytes(), pool.stats().live()), (&b"payload"[..], 1));
                    drop(lent);
                }
                assert_eq!(pool.stats().live(), 0, "{kind} {locks:?}");
            }
        }
    }
}

#[test]
fn one_loan_at_a_time() {
    let pool = pool(Kind::Stack, PoolLocks::Owner);
    let mut held = held(&pool, b"once");
    let lent = held.lend().unwrap();
    assert!(held.is_lent() && held.lend().is_none() && held.append(1).is_none() && held.tailroom() == 0);
    let lent = Held::new(lent).unwrap_err(); // a buffer on loan cannot be lent again
    drop(lent);
    assert!(!held.is_lent());
    held.append(1).unwrap()[0] = b'!';
    assert_eq!(held.lend().unwrap().bytes(), b"once!");
}

#[test]
fn a_borrower_writes_headers_and_no_payload() {
    let pool = pool(Kind::Stack, PoolLocks::Owner);
    let mut held = held(&pool, b"data");
    let mut lent = held.lend().unwrap();
    assert!(lent.bytes_mut().is_empty());
    *lent.push::<4>().unwrap() = *b"head";
    lent.push_n(3).unwrap().copy_from_slice(b"eth");
    assert_eq!(lent.bytes(), b"ethheaddata");
    assert_eq!(lent.bytes_mut().len(), 7);
    lent.bytes_mut()[0] = b'E';
    assert_eq!((lent.bytes(), held.bytes()), (&b"Ethheaddata"[..], &b"data"[..]));
    assert!(lent.pull(7), "headers off again");
    assert!(lent.bytes_mut().is_empty());
}

#[test]
fn push_if_pushes_only_if_the_check_accepts() {
    let pool = pool(Kind::Stack, PoolLocks::Owner);
    let mut frame = pool.get().unwrap();
    frame.extend(b"packet").unwrap();
    let before = frame.headroom();
    assert!(!frame.push_if(|link: &mut [u8; 4], _: &mut [u8; 6]| {
        *link = *b"link";
        false
    }));
    assert_eq!((frame.bytes(), frame.headroom()), (&b"packet"[..], before));
    assert!(!frame.push_if(|_: &mut [u8; 4], _: &mut [u8; 7]| true), "fewer than 7 bytes");
    assert!(frame.push_if(|link: &mut [u8; 4], packet: &mut [u8; 6]| {
        (*link, packet[0]) = (*b"LINK", b'P');
        true
    }));
    assert_eq!((frame.bytes(), frame.headroom()), (&b"LINKPacket"[..], before - 4));
    while frame.push::<1>().is_some() {}
    assert!(!frame.push_if(|_: &mut [u8; 1], _: &mut [u8; 1]| true), "no room in front");
    // Only the headers of a lent frame are accessible for writing.
    let mut held = held(&pool, b"data");
    let mut lent = held.lend().unwrap();
    assert!(!lent.push_if(|_: &mut [u8; 2], _: &mut [u8; 1]| true));
    *lent.push::<3>().unwrap() = *b"hdr";
    assert!(lent.push_if(|link: &mut [u8; 2], header: &mut [u8; 3]| {
        *link = *b"ln";
        header == b"hdr"
    }));
    assert_eq!(lent.bytes(), b"lnhdrdata");
}

#[test]
fn link_headers_are_pushed_conditionally() {
    let pool = pool(Kind::Stack, PoolLocks::Owner);
    let framed = || {
        let mut frame = pool.get().unwrap();
        frame.extend(b"linkpacketpad").unwrap();
        frame
    };
    let write = |link: &mut [u8; 4], packet: &mut [u8; 6]| {
        *link = *b"LINK";
        packet == b"packet"
    };
    let mut frame = framed();
    assert!(!frame.open_link(4, 10) && !frame.open_link(14, 0), "fewer bytes than requested");
    assert_eq!(frame.bytes(), b"linkpacketpad");
    assert!(frame.open_link(4, 6), "and the padding is gone");
    assert_eq!((frame.bytes(), frame.l3_bytes()), (&b"packet"[..], &b"packet"[..]));
    assert!(!frame.push_link_if(5, write), "longer than the link's MTU");
    assert!(!frame.push_link_if(6, |_: &mut [u8; 4], _: &mut [u8; 7]| true), "not as many");
    assert!(!frame.push_link_if(6, |_: &mut [u8; 4], _: &mut [u8; 6]| false));
    assert_eq!(frame.bytes(), b"packet");
    assert!(frame.push_link_if(6, write));
    assert_eq!(frame.bytes(), b"LINKpacket");
    while frame.push::<1>().is_some() {}
    assert!(!frame.push_link_if(usize::MAX, |_: &mut [u8; 4], _: &mut [u8; 6]| true), "no room in front");

    let mut pulled = framed();
    assert!(
        pulled.open_link(4, 9) && pulled.pull(1) && !pulled.push_link_if(9, write),
        "the frame does not begin with its network header"
    );
    assert_eq!(pulled.l3_bytes(), b"packetpad");
    let mut large = framed();
    assert!(large.open_link(4, 6));
    large.set_gso_size(2);
    assert!(!large.push_link_if(6, write), "a large segment");
    let mut held = held(&pool, b"packet");
    assert!(!held.lend().unwrap().push_link_if(6, write), "the buffer is on loan");
}

#[test]
fn lent_frames_are_copied_before_writing() {
    let pool = pool(Kind::Stack, PoolLocks::Owner);
    let mut held = held(&pool, b"data");
    let mut lent = held.lend().unwrap();
    *lent.push::<2>().unwrap() = *b"hd";
    assert!(lent.make_own());
    lent.bytes_mut()[3] = b'X'; // the second byte of the payload
    assert_eq!((lent.bytes(), held.bytes(), held.is_lent()), (&b"hddXta"[..], &b"data"[..], false));
    let spare: Vec<Frame> = std::iter::from_fn(|| pool.get()).collect();
    let mut again = held.lend().unwrap();
    assert!(!again.make_own(), "no buffer for the copy");
    assert_eq!((again.bytes(), spare.len()), (&b"data"[..], 2));
}

#[test]
fn a_burst_frees_lent_and_owned_frames() {
    let pool = pool(Kind::Stack, PoolLocks::Owner);
    let (mut first, mut second) = (held(&pool, b"1"), held(&pool, b"2"));
    let mut burst = Burst::new();
    burst.push(first.lend().unwrap()).unwrap();
    burst.push(pool.get().unwrap()).unwrap();
    burst.push(second.lend().unwrap()).unwrap();
    drop(second);
    drop(burst);
    assert!(!first.is_lent());
    assert_eq!(pool.stats().live(), 1);
    let copy = first.lend().unwrap().try_clone().unwrap();
    assert!(!first.is_lent() && Held::new(copy).is_ok(), "a clone is not on loan");
}

#[test]
fn both_end_at_once_on_two_threads() {
    let pool = pool(Kind::Stack, PoolLocks::Light);
    for _ in 0..2_000 {
        let mut held = held(&pool, b"race");
        let lent = held.lend().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(move || drop(lent));
            drop(held);
        });
    }
    assert_eq!(pool.stats().live(), 0);
}
