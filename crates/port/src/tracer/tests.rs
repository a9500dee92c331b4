use super::*;
use crate::pcap::Reader;
use crate::{Caps, null, pair};
use buf::{Pool, PoolConfig};

/// A file that can be read while it is written, and whose writes fail after a number of bytes.
#[derive(Clone)]
struct Shared(Arc<Mutex<Vec<u8>>>, usize);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = self.0.lock().unwrap();
        if all.len() + bytes.len() > self.1 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn pool() -> Pool {
    Pool::new(&PoolConfig { buffers: 64, ..PoolConfig::default() }).unwrap()
}

fn burst(pool: &Pool, n: usize) -> Burst {
    let mut burst = Burst::new();
    pool.get_burst(n, &mut burst);
    burst.as_mut_slice().iter_mut().enumerate().for_each(|(i, frame)| frame.extend(&[i as u8; 61]).unwrap());
    burst
}

#[test]
fn frames_of_both_directions_are_traced_if_accepted() {
    let (pool, file) = (pool(), Shared(Arc::default(), usize::MAX));
    let (a, mut b) = pair::pair("p", 4, Caps::PLAIN);
    let mut a = wrap(Box::new(file.clone()), TracerConfig { snaplen: 60, wall: false }, a).unwrap();
    let mut out = burst(&pool, 6);
    assert_eq!(a.tx.tx_burst(&mut out, Instant::from_millis(1)), 4);
    assert_eq!(out.len(), 2, "frames that were not accepted stay");
    b.tx.tx_burst(&mut burst(&pool, 1), Instant::ZERO);
    let mut got = Burst::new();
    assert_eq!((a.rx.held(), a.rx.rx_burst(&mut got, 32, Instant::from_nanos(5_000_000_007))), (1, 1));

    let bytes = file.0.lock().unwrap().clone();
    let mut reader = Reader::new(&bytes[..]);
    let mut seen = Vec::new();
    while let Some(record) = reader.read().unwrap() {
        assert_eq!((record.orig_len, record.data.len()), (61, 60));
        seen.push((record.data[0], record.ts_ns, record.direction));
    }
    let sent = |i| (i, 1_000_000, Direction::Outbound);
    assert_eq!(seen, [sent(0), sent(1), sent(2), sent(3), (0, 5_000_000_007, Direction::Inbound)]);
    assert_eq!((a.counts.tx.untraced.get(), a.counts.rx.untraced.get(), a.rx.is_gone()), (0, 0, false));
}

#[test]
fn a_full_disk_ends_the_trace_and_not_the_traffic() {
    let pool = pool();
    let mut port =
        wrap(Box::new(Shared(Arc::default(), 500)), TracerConfig::default(), null::open("", Caps::PLAIN)).unwrap();
    for _ in 0..3 {
        assert_eq!(port.tx.tx_burst(&mut burst(&pool, 3), Instant::ZERO), 3);
    }
    assert_eq!(port.counts.tx.frames.get(), 9);
    assert_eq!(port.counts.tx.untraced.get(), 6, "the first burst was written");
    assert!(wrap(Box::new(Shared(Arc::default(), 10)), TracerConfig::default(), null::open("", Caps::PLAIN)).is_err());
    assert_eq!(pool.stats().live(), 0);
}
