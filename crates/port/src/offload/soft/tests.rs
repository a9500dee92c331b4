use super::*;
use crate::offload::gso::tests::{Sent, large, packet};
use crate::pair;
use buf::PoolConfig;

const SENT: Sent = Sent { seq: 5, id: 0, df: true, flags: 0x18, urgent: 0, options: vec![], tags: 0, six: false };

fn pool(buffers: usize, data: usize) -> Pool {
    Pool::new(&PoolConfig { buffers, data, ..PoolConfig::default() }).unwrap()
}

#[test]
fn segments_are_split_in_order_and_a_full_port_receives_the_rest_later() {
    let (small, big) = (pool(64, 2048), pool(8, 8192));
    let (mut near, mut far) = pair::pair("p", 4, Caps::PLAIN);
    let mut soft = Soft::new(&near.caps, small.clone(), near.counts.clone());
    let text: Vec<u8> = (0..7000).map(|n| n as u8).collect();
    let mut open = small.get().unwrap();
    open.extend(&packet(&SENT, 0, b"open", 4, 0, true)).unwrap();
    open.set_flags(Flags::TX_L4_CSUM);
    let mut plain = small.get().unwrap();
    plain.extend(&packet(&SENT, 0, b"plain", 5, 0, false)).unwrap();
    let mut burst = Burst::new();
    for frame in [open, large(&SENT, &text, 1000, &big), plain, large(&SENT, b"one", 1000, &big)] {
        burst.push(frame).unwrap();
    }
    assert!(soft.has_work(burst.as_slice()));
    let mut meant = vec![packet(&SENT, 0, b"open", 4, 0, false)];
    meant.extend(text.chunks(1000).enumerate().map(|(n, t)| packet(&SENT, n * 1000, t, 7000, n as u16, false)));
    meant.push(packet(&SENT, 0, b"plain", 5, 0, false));
    meant.push(packet(&SENT, 0, b"one", 3, 0, false));
    let (mut got, mut arrived, mut given) = (Vec::new(), Burst::new(), 0);
    for round in 0.. {
        assert!(round < 10, "{} of {} frames", got.len(), meant.len());
        given += soft.tx_burst(near.tx.as_mut(), &mut burst, Instant::ZERO);
        assert_eq!(near.counts.tx.from_host(), given as u64);
        assert_eq!(soft.next_event(Instant::ZERO).is_some(), soft.is_behind());
        if far.rx.rx_burst(&mut arrived, 32, Instant::ZERO) == 0 {
            break;
        }
        got.extend(arrived.drain().map(|frame| frame.bytes().to_vec()));
    }
    assert_eq!(got, meant);
    let tx = &near.counts.tx;
    assert_eq!((given, tx.frames.get(), tx.segmented.get(), tx.segments.get(), tx.held.get()), (4, 10, 2, 8, 0));
    assert!(!soft.is_behind() && !soft.has_work(&[]));
    assert_eq!((small.stats().live(), big.stats().live()), (0, 0));
}

#[test]
fn offloads_of_the_port_are_left_to_it() {
    let big = pool(8, 8192);
    let caps = Caps { tx_l4_csum: true, tso_max: 65_535, ..Caps::PLAIN };
    let (near, _far) = pair::pair("p", 4, caps);
    let soft = Soft::new(&caps, pool(4, 2048), near.counts.clone());
    assert!(!soft.has_work(&[large(&SENT, &[1; 5000], 1000, &big)]));
    let only_sums = Caps { tso_max: 0, ..caps };
    assert!(Soft::new(&only_sums, pool(4, 2048), near.counts).has_work(&[large(&SENT, &[1; 5000], 1000, &big)]));
}

#[test]
fn without_buffers_the_rest_of_a_segment_is_counted_as_lost() {
    let (small, big) = (pool(3, 2048), pool(8, 8192));
    let (mut near, mut far) = pair::pair("p", 16, Caps::PLAIN);
    let mut soft = Soft::new(&near.caps, small, near.counts.clone());
    let mut burst = Burst::of(large(&SENT, &[1; 5000], 1000, &big));
    assert_eq!(soft.tx_burst(near.tx.as_mut(), &mut burst, Instant::ZERO), 1);
    let mut arrived = Burst::new();
    assert_eq!(far.rx.rx_burst(&mut arrived, 32, Instant::ZERO), 3);
    let tx = &near.counts.tx;
    assert_eq!((tx.no_buffer.get(), tx.segments.get(), tx.from_host(), soft.is_behind()), (1, 3, 1, false));
    let mut udp = large(&SENT, &[1; 5000], 1000, &big);
    udp.bytes_mut()[14 + 9] = 17;
    assert_eq!(soft.tx_burst(near.tx.as_mut(), &mut Burst::of(udp), Instant::ZERO), 1);
    assert_eq!((tx.malformed.get(), tx.from_host()), (1, 2));
}
