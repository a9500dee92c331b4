use super::*;
use buf::{Pool, PoolConfig, PoolLocks};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;

/// A device whose answers go to a socket of the test, one datagram per answer.
struct Rig {
    device: Device,
    kernel: Kernel,
    answers: UnixDatagram,
    pool: Pool,
}

const LINE: &[u8] = b"FFFFFFFFFFFF 0022CF63967B 8899 23 1E\n";

impl Rig {
    fn new(ring: usize) -> Rig {
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let pool = Pool::new(&PoolConfig { locks: PoolLocks::Light, data: 2048, ..PoolConfig::default() }).unwrap();
        let kernel = Kernel::new(File::from(OwnedFd::from(theirs)));
        Rig { device: Device::new("tap0", false, false, ring), kernel, answers: ours, pool }
    }

    /// Returns the next answer: error, request ID and data.
    fn answer(&self) -> Option<(i32, u64, Vec<u8>)> {
        let mut buf = vec![0; 1 << 17];
        let len = self.answers.recv(&mut buf).ok()?;
        let error = i32::from_ne_bytes(buf[4..8].try_into().unwrap());
        let unique = u64::from_ne_bytes(buf[8..16].try_into().unwrap());
        Some((error, unique, buf[16..len].to_vec()))
    }

    fn receive(&self, count: usize) {
        self.receive_some(count, false);
    }

    fn receive_some(&self, count: usize, more: bool) {
        let mut burst = Burst::default();
        for _ in 0..count {
            let mut frame = self.pool.get().unwrap();
            frame.extend(&[0xff; 6]).unwrap();
            frame.extend(&[0, 0x22, 0xcf, 0x63, 0x96, 0x7b, 0x88, 0x99, 0x23, 0x1e]).unwrap();
            burst.push(frame).unwrap();
        }
        self.device.received(&mut burst, 7, more, &self.kernel);
        assert!(burst.is_empty());
    }

    fn read(&self, unique: u64, fh: u64, size: u32) {
        self.device.read(unique, fh, size, true, &self.kernel);
    }
}

#[test]
fn a_read_waits_and_gets_whole_frames() {
    let rig = Rig::new(1 << 20);
    rig.receive(1);
    assert!(rig.device.open(1, Kind::Text, true));
    rig.read(10, 1, 100);
    assert_eq!(rig.answer(), None);
    rig.receive(3);
    assert_eq!(rig.answer(), Some((0, 10, [LINE, LINE].concat())), "two fit into 100 bytes");
    rig.device.read(11, 1, 4096, false, &rig.kernel);
    assert_eq!(rig.answer(), Some((0, 11, LINE.to_vec())));
    rig.device.read(12, 1, 4096, false, &rig.kernel);
    assert_eq!(rig.answer(), Some((-libc::EAGAIN, 12, Vec::new())));
    rig.device.close(1);
    let (counts, readers) = rig.device.counts();
    assert_eq!((counts.received, counts.unread, counts.delivered, counts.overflow), (4, 1, 3, 0));
    assert!(readers.is_empty());
}

#[test]
fn a_read_waits_to_be_filled_while_more_is_expected() {
    let rig = Rig::new(1 << 17);
    rig.device.open(1, Kind::Text, true);
    rig.read(1, 1, 100);
    rig.receive_some(1, true);
    assert_eq!(rig.answer(), None);
    rig.receive_some(2, true);
    assert_eq!(rig.answer().unwrap().2, [LINE, LINE].concat());
    rig.read(2, 1, 100);
    assert_eq!(rig.answer(), None);
    rig.device.pause(&rig.kernel);
    assert_eq!(rig.answer().unwrap().2, LINE);
    // A read waits for at most `ahead` bytes, or the reader and the port would wait for each other.
    rig.read(3, 1, 1 << 20);
    for _ in 0..(1 << 16) / (200 * LINE.len()) + 1 {
        rig.receive_some(200, true);
    }
    assert!(rig.device.counts().1[0].delivered > 1000);
}

#[test]
fn a_short_read_gets_a_part_of_a_frame() {
    let rig = Rig::new(1 << 20);
    rig.device.open(1, Kind::Text, true);
    rig.receive(2);
    let mut got = Vec::new();
    for unique in 0..LINE.len() as u64 {
        rig.read(unique, 1, 1);
        got.extend(rig.answer().unwrap().2);
    }
    assert_eq!(got, LINE);
    rig.read(100, 1, 30);
    rig.read(101, 1, 4096);
    assert_eq!(rig.answer().unwrap().2, LINE[..30]);
    assert_eq!(rig.answer().unwrap().2, LINE[30..]);
}

#[test]
fn both_files_and_all_readers_get_all_frames() {
    let rig = Rig::new(1 << 20);
    rig.device.open(1, Kind::Text, true);
    rig.device.open(2, Kind::Text, true);
    rig.device.open(3, Kind::Binary, true);
    rig.receive(2);
    for fh in 1..=3 {
        rig.read(fh, fh, 4096);
    }
    let two = [LINE, LINE].concat();
    assert_eq!((rig.answer().unwrap().2, rig.answer().unwrap().2), (two.clone(), two));
    let records = rig.answer().unwrap().2;
    assert_eq!(records.len(), 2 * (12 + 16));
    assert_eq!(records[..12], [0x76, 0x37, 16, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn frames_lost_by_a_slow_reader_are_counted() {
    let rig = Rig::new(16 * 1024);
    rig.device.open(1, Kind::Text, true);
    for _ in 0..50 {
        rig.receive(100);
    }
    let (counts, readers) = rig.device.counts();
    assert_eq!((counts.received, readers[0].delivered), (5000, 0));
    rig.read(1, 1, 1 << 16);
    let got = rig.answer().unwrap().2.len() / LINE.len();
    let (counts, readers) = rig.device.counts();
    assert!(counts.overflow > 1000, "{counts:?}");
    assert_eq!(counts.overflow + got as u64 + readers[0].waiting, 5000);
}

#[test]
fn an_interrupted_read_loses_no_frames() {
    let rig = Rig::new(1 << 20);
    rig.device.open(1, Kind::Text, true);
    rig.read(1, 1, 4096);
    assert!(rig.device.interrupt(1, &rig.kernel));
    assert_eq!(rig.answer(), Some((-libc::EINTR, 1, Vec::new())));
    assert!(!rig.device.interrupt(1, &rig.kernel));
    // The kernel rejects the answer, so the frame stays for the next read.
    rig.receive(1);
    let (_, gone) = UnixDatagram::pair().unwrap();
    rig.device.read(2, 1, 4096, true, &Kernel::new(File::from(OwnedFd::from(gone))));
    rig.read(3, 1, 4096);
    assert_eq!(rig.answer(), Some((0, 3, LINE.to_vec())));
    assert_eq!(rig.device.counts().0.delivered, 1);
}

#[test]
fn pollers_are_notified() {
    let rig = Rig::new(1 << 20);
    rig.device.open(1, Kind::Text, true);
    let out = (libc::POLLOUT | libc::POLLWRNORM) as u32;
    let both = out | (libc::POLLIN | libc::POLLRDNORM) as u32;
    assert_eq!(rig.device.poll(1, Some(99)), out);
    rig.receive(1);
    let (code, unique, kh) = rig.answer().unwrap();
    assert_eq!((code, unique, kh), (1, 0, 99_u64.to_ne_bytes().to_vec()));
    assert_eq!(rig.device.poll(1, None), both);
    rig.receive(1);
    assert_eq!(rig.answer(), None, "once");
}

#[test]
fn written_lines_become_frames_in_order() {
    let rig = Rig::new(1 << 20);
    rig.device.open(1, Kind::Text, false);
    let write = |unique: u64, data: &[u8]| {
        rig.device.write(unique, 1, data, true, &rig.kernel);
        rig.answer().map(|(error, _, _)| error)
    };
    assert_eq!(write(1, &LINE[..7]), Some(0));
    assert_eq!(write(2, &[&LINE[7..], LINE, b"bad\n", LINE].concat()), Some(0));
    assert_eq!(write(3, b"nothing else\n"), Some(-libc::EINVAL));
    assert_eq!(write(4, &LINE[..36]), Some(0));
    rig.device.close(1);
    let batch = rig.device.next(|| false).unwrap();
    assert_eq!(batch.len(), 4);
    let (counts, _) = rig.device.counts();
    assert_eq!((counts.accepted, counts.bad_lines), (4, 2));
    assert!(counts.first_bad.unwrap().contains("column"));
    assert!(!rig.device.is_done());
    rig.device.sent(&batch, 4, 0, &rig.kernel);
    rig.device.end(false, &rig.kernel);
    assert!(rig.device.is_done());
}

#[test]
fn writers_block_when_the_queue_is_full() {
    let rig = Rig::new(1 << 20);
    rig.device.open(1, Kind::Text, false);
    let lines = LINE.repeat(2000);
    let mut taken = 0;
    loop {
        rig.device.write(taken, 1, &lines, true, &rig.kernel);
        let Some((error, _, _)) = rig.answer() else { break };
        assert_eq!(error, 0);
        taken += 1;
    }
    rig.device.write(1000, 1, LINE, false, &rig.kernel);
    assert_eq!(rig.answer().unwrap().0, -libc::EAGAIN);
    assert_eq!(rig.device.poll(1, Some(5)), 0);
    let mut sent = 0;
    let woken = loop {
        let batch = rig.device.next(|| false).unwrap();
        sent += batch.len() as u64;
        rig.device.sent(&batch, sent, 0, &rig.kernel);
        let answers: Vec<_> = std::iter::from_fn(|| rig.answer()).collect();
        if !answers.is_empty() {
            break answers;
        }
    };
    assert_eq!(woken[0].1, taken, "the write request that waited");
    assert_eq!((woken[1].0, woken.len()), (1, 2), "and the poll request");
}

#[test]
fn end_of_file_follows_the_last_frame() {
    let rig = Rig::new(1 << 20);
    rig.device.open(1, Kind::Text, true);
    rig.receive(1);
    rig.device.end(false, &rig.kernel);
    assert!(!rig.device.is_done());
    rig.read(1, 1, 4096);
    assert_eq!(rig.answer().unwrap().2, LINE);
    assert!(rig.device.is_done());
    rig.read(2, 1, 4096);
    assert_eq!(rig.answer(), Some((0, 2, Vec::new())));
}
