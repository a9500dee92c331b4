use super::*;
use crate::spec::Spec;
use crate::{Env, Pairs};
use buf::{Burst, Flags, PoolConfig};
use clock::Instant;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Command;
use wire::Mac;

/// Maximum number of bytes that a test writes to a FIFO without a reader.
const PIPE: usize = 64 * 1024;

fn line(dst: u8, src: u8) -> String {
    format!("0200000000{dst:02X} 0200000000{src:02X} 88B5{}\n", " 00".repeat(46))
}

fn pool() -> Pool {
    Pool::new(&PoolConfig { data: 2048, buffers: 4096, ..PoolConfig::default() }).unwrap()
}

/// Temporary directory of one test, which is removed at the end of the test.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("lr-port-text-{}-{name}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn file(&self, name: &str, text: &str) -> String {
        fs::write(self.0.join(name), text).unwrap();
        self.path(name)
    }

    fn fifo(&self, name: &str) -> String {
        assert!(Command::new("mkfifo").arg(self.path(name)).status().unwrap().success());
        self.path(name)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn open_spec(text: &str) -> Port {
    let pairs = Pairs::new();
    let env = Env { pool: pool(), pairs: &pairs, mac: Mac([2, 0, 0, 0, 0, 9]), unit: 0 };
    crate::open(&Spec::parse(text).unwrap(), &env).unwrap()
}

/// Returns all frames that are available now, as lines.
fn received(port: &mut Port) -> String {
    let (mut burst, mut out) = (Burst::new(), String::new());
    while port.rx.rx_burst(&mut burst, 100, Instant::ZERO) > 0 {
        out.extend(burst.drain().map(|frame| as_line(frame.bytes())));
    }
    out
}

fn as_line(frame: &[u8]) -> String {
    let mut line = vec![0; wire::text::MAX_LINE];
    let len = wire::text::encode(frame, None, &mut line).unwrap();
    String::from_utf8(line[..len].to_vec()).unwrap()
}

fn burst(frames: &[Vec<u8>]) -> Burst {
    let (pool, mut burst) = (pool(), Burst::new());
    for bytes in frames {
        let mut frame = pool.get().unwrap();
        frame.extend(bytes).unwrap();
        burst.push(frame).unwrap();
    }
    burst
}

fn frame(dst: u8, src: u8) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src, 0x88, 0xb5][..], &[0; 46]].concat()
}

#[test]
fn a_file_is_read_to_its_end_and_another_is_written() {
    let dir = Dir::new("files");
    let (a, out) = (dir.file("a", (line(2, 1) + "\n" + &line(3, 1)).trim_end()), dir.path("out"));
    let mut port = open_spec(&format!("text(write={out}):{a}"));
    assert_eq!((port.name.as_str(), port.caps.mtu), (a.as_str(), 65_535));
    assert!(port.rx.wait_fd().is_none(), "a plain file is always ready");
    assert_eq!(received(&mut port), line(2, 1) + &line(3, 1), "the last line may lack its newline");
    assert!(port.rx.is_gone() && port.rx.why_gone().is_none() && port.rx.warnings().is_empty());
    let mut frames = burst(&[frame(1, 2), vec![9; 14]]);
    assert_eq!(port.tx.tx_burst(&mut frames, Instant::ZERO), 2);
    assert_eq!(fs::read_to_string(&out).unwrap(), line(1, 2) + "090909090909 090909090909 0909\n");
    let (rx, tx) = (&port.counts.rx, &port.counts.tx);
    assert_eq!((rx.frames.get(), rx.bytes.get(), tx.frames.get(), tx.bytes.get()), (2, 120, 2, 74));
    assert_eq!((tx.held.get(), port.tx.held()), (0, 0));
}

#[test]
fn names_select_reading_or_writing() {
    let dir = Dir::new("ways");
    let a = dir.file("a", &line(2, 1));
    let mut port = open_spec(&format!("text:{a}"));
    assert_eq!(port.tx.tx_burst(&mut burst(&[frame(1, 2)]), Instant::ZERO), 1, "counted and discarded");
    assert_eq!((port.counts.tx.frames.get(), fs::read_to_string(&a).unwrap()), (1, line(2, 1)));
    let mut port = open_spec(&format!("text(read=off):{a}"));
    assert!(port.rx.is_silent());
    assert_eq!(port.tx.tx_burst(&mut burst(&[frame(1, 2)]), Instant::ZERO), 1);
    assert_eq!(fs::read_to_string(&a).unwrap(), line(1, 2));
    let pairs = Pairs::new();
    let env = Env { pool: pool(), pairs: &pairs, mac: Mac([2, 0, 0, 0, 0, 9]), unit: 0 };
    for (text, says) in [
        ("text:/no/such", "text:/no/such: No such file or directory (os error 2)"),
        ("text(write=/no/such):/dev/null", "text:/no/such: No such file or directory (os error 2)"),
    ] {
        assert_eq!(crate::open(&Spec::parse(text).unwrap(), &env).unwrap_err().to_string(), says);
    }
}

#[test]
fn invalid_lines_are_counted_reported_and_skipped() {
    let dir = Dir::new("bad");
    let long = "0".repeat(2 * wire::text::MAX_READ);
    let text = [&line(2, 1), "no frame\n\n", &long, "\n", &line(3, 1), "00 1\n", &line(4, 1)].concat();
    let a = dir.file("a", &text);
    let mut port = open_spec(&format!("text:{a}"));
    assert_eq!(received(&mut port), line(2, 1) + &line(3, 1) + &line(4, 1));
    assert_eq!(
        port.rx.warnings(),
        [
            "line 2, column 1: 'n' is not a hexadecimal digit",
            "line 4, column 1048577: no newline within 1048576 bytes",
            "line 6, column 5: odd number of hexadecimal digits",
            "3 of 7 lines are not valid frames",
        ]
    );
    assert_eq!((port.counts.rx.malformed.get(), port.counts.rx.frames.get()), (3, 3));
    assert!(port.rx.why_gone().is_none());
    // A wrapper returns the warnings of the port inside it.
    let mut port = open_spec(&format!("impair(dir=both):text:{a}"));
    received(&mut port);
    assert_eq!(port.rx.warnings().len(), 4);

    let mut port = open_spec(&format!("text(strict=on):{a}"));
    assert_eq!(received(&mut port), line(2, 1));
    assert!(port.rx.is_gone());
    let why = format!("text:{a}: line 2, column 1: 'n' is not a hexadecimal digit");
    assert_eq!(port.rx.why_gone(), Some(why));
}

#[test]
fn only_ten_invalid_lines_are_reported_and_all_are_counted() {
    let dir = Dir::new("ten");
    let mut port = open_spec(&format!("text:{}", dir.file("a", &"x\n".repeat(12))));
    assert_eq!(received(&mut port), "");
    let warnings = port.rx.warnings();
    assert_eq!((warnings.len(), warnings[10].as_str()), (11, "12 of 12 lines are not valid frames"));
}

#[test]
fn frames_wait_for_buffers_and_long_ones_have_their_own() {
    let dir = Dir::new("buffers");
    let a = dir.file("a", &(line(2, 1) + &as_line(&vec![7; 3000]) + &line(3, 1)));
    let pool = Pool::new(&PoolConfig { buffers: 1, data: 2048, ..PoolConfig::default() }).unwrap();
    let mut port = open("a", &TextConfig { read: Some(a), ..TextConfig::default() }, &pool).unwrap();
    let mut burst = Burst::new();
    assert_eq!(port.rx.rx_burst(&mut burst, 9, Instant::ZERO), 1);
    assert_eq!(port.rx.rx_burst(&mut burst, 9, Instant::ZERO), 0);
    assert!(!port.rx.is_gone());
    burst.clear();
    assert_eq!(port.rx.rx_burst(&mut burst, 9, Instant::ZERO), 2);
    let lines: Vec<String> = burst.as_slice().iter().map(|frame| as_line(frame.bytes())).collect();
    assert_eq!(lines, [as_line(&vec![7; 3000]), line(3, 1)]);
    assert!(port.rx.warnings().is_empty());
    assert_eq!((port.counts.rx.malformed.get(), port.counts.rx.frames.get()), (0, 3));
    assert!(port.counts.rx.no_buffer.get() >= 2);
}

#[test]
fn a_fifo_opens_without_a_peer_and_ends_with_it() {
    let dir = Dir::new("fifos");
    let (from, to) = (dir.fifo("in"), dir.fifo("out"));
    let mut port = open_spec(&format!("text(write={to}):{from}"));
    assert_eq!(received(&mut port), "");
    assert!(!port.rx.is_gone() && port.rx.wait_fd().is_some());
    // Without a reader, the frame is held, and sending is retried until there is a reader.
    let now = Instant::from_millis(5);
    assert_eq!(port.tx.tx_burst(&mut burst(&[frame(1, 2)]), now), 1);
    assert_eq!((port.tx.held(), port.counts.tx.held.get(), port.counts.tx.frames.get()), (1, 1, 0));
    assert_eq!(port.tx.next_event(), Some(Instant::from_millis(7)));
    assert!(!port.tx.is_gone());

    let mut writer = OpenOptions::new().write(true).open(&from).unwrap();
    writer.write_all(&line(1, 2).as_bytes()[..50]).unwrap();
    assert_eq!(received(&mut port), "", "half a line is not a frame");
    writer.write_all(&line(1, 2).as_bytes()[50..]).unwrap();
    assert_eq!(received(&mut port), line(1, 2));
    let mut reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&to).unwrap();
    port.tx.poll(now);
    assert_eq!((port.tx.held(), port.counts.tx.held.get(), port.counts.tx.frames.get()), (0, 0, 1));
    assert_eq!(port.tx.next_event(), None);
    let mut got = vec![0; line(1, 2).len()];
    reader.read_exact(&mut got).unwrap();
    assert_eq!(String::from_utf8(got).unwrap(), line(1, 2));

    writer.write_all(line(4, 2).trim_end().as_bytes()).unwrap();
    drop(writer);
    assert_eq!(received(&mut port), line(4, 2));
    assert!(port.rx.is_gone() && port.rx.why_gone().is_none());
    assert!(port.rx.wait_fd().is_none());
    drop(reader);
    assert_eq!(port.tx.tx_burst(&mut burst(&[frame(1, 2), frame(1, 2)]), now), 2, "frames are accepted and dropped");
    assert!(port.tx.is_gone() && port.tx.why_gone().is_none(), "a reader that closes is not a failure");
    assert_eq!((port.counts.tx.errors.get(), port.counts.tx.from_host()), (2, 3));
}

/// Checks that lines longer than the pipe's remaining space are written in parts, that a full port
/// accepts nothing, and that no line is lost or truncated.
#[test]
fn a_slow_reader_receives_whole_lines_in_order() {
    let dir = Dir::new("slow");
    let to = dir.fifo("out");
    let mut port = open_spec(&format!("text(read=off):{to}"));
    let mut reader = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(&to).unwrap();
    let (mut sent, mut wanted, mut n) = (0, String::new(), 0_u32);
    loop {
        let bytes = [&frame(1, 2)[..], &n.to_be_bytes(), &vec![n as u8; (n % 1900) as usize]].concat();
        n += 1;
        if port.tx.tx_burst(&mut burst(std::slice::from_ref(&bytes)), Instant::ZERO) == 0 {
            break;
        }
        sent += 1;
        wanted += &as_line(&bytes);
    }
    assert!(wanted.len() > (1 << 20) && wanted.len() < (1 << 20) + 2 * PIPE, "{}", wanted.len());
    assert_eq!(port.counts.tx.from_host(), sent);
    assert!(port.counts.tx.frames.get() < sent && port.counts.tx.held.get() as usize == port.tx.held());
    let mut got = Vec::new();
    let mut some = vec![0; 10_001];
    while port.tx.held() > 0 || got.len() < wanted.len() {
        match reader.read(&mut some) {
            Ok(n) => got.extend_from_slice(&some[..n]),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
        port.tx.poll(Instant::ZERO);
    }
    assert!(got == wanted.as_bytes());
    let tx = &port.counts.tx;
    let bytes: usize = wanted.lines().map(|line| (line.len() - 30) / 3 + 14).sum();
    assert_eq!((tx.frames.get(), tx.bytes.get(), tx.held.get()), (sent, bytes as u64, 0));
}

/// Checks that data that is waiting when the port is dropped is written to a reader, and that a
/// reader that does not read cannot delay this forever.
#[test]
fn pending_lines_are_written_at_the_end() {
    let dir = Dir::new("end");
    let to = dir.fifo("out");
    let mut port = open_spec(&format!("text(read=off):{to}"));
    let frames: Vec<Vec<u8>> = (0..200).map(|n| [frame(1, 2), vec![n; 1400]].concat()).collect();
    assert_eq!(port.tx.tx_burst(&mut burst(&frames), Instant::ZERO), 200);
    assert_eq!(port.tx.held(), 200);
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        File::open(&to).unwrap().read_to_string(&mut text).unwrap();
        text
    });
    // The reader is in open(2) or has returned from it, so opening the other end succeeds now.
    while port.tx.held() == 200 {
        port.tx.poll(Instant::ZERO);
    }
    drop(port);
    let wanted: String = frames.iter().map(|frame| as_line(frame)).collect();
    assert!(reader.join().unwrap() == wanted);
}

#[test]
fn a_full_disk_is_reported() {
    let mut port = open_spec("text(read=off):/dev/full");
    assert_eq!(port.tx.tx_burst(&mut burst(&[frame(1, 2)]), Instant::ZERO), 1);
    assert!(port.tx.is_gone());
    assert_eq!(port.tx.why_gone().unwrap(), "text:/dev/full: No space left on device (os error 28)");
    assert_eq!((port.counts.tx.errors.get(), port.counts.tx.held.get(), port.counts.tx.from_host()), (1, 0, 1));
}

#[test]
fn invalid_frames_are_not_written_and_open_checksums_completed() {
    let dir = Dir::new("no_frame");
    let out = dir.path("out");
    let mut port = open_spec(&format!("text(read=off):{out}"));
    let mut frames = burst(&[vec![1; 13], frame(1, 2), frame(1, 2)]);
    let [_, open, _] = frames.as_mut_slice() else { panic!("three") };
    open.set_flags(Flags::TX_L4_CSUM); // the frame has no L4 checksum
    assert_eq!(port.tx.tx_burst(&mut frames, Instant::ZERO), 3);
    assert_eq!((port.counts.tx.malformed.get(), port.counts.tx.frames.get()), (2, 1));
    assert_eq!(fs::read_to_string(&out).unwrap(), line(1, 2));
}
