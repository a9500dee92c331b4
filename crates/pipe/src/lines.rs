//! A port whose frames are lines in two files or FIFOs: what is read comes in, what is sent is written.
//!
//! Neither end waits for the other: a FIFO is opened before anybody is at its far end, and what a slow reader does not take stays here,
//! up to a megabyte; then the port is full. The port is over when the file is, or when who wrote the FIFO has gone.

use buf::{Burst, Pool};
use clock::Instant;
use port::{Caps, Port, PortCounts, RxHalf, TxHalf};
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::sync::Arc;
use std::time::Duration;
use wire::text::{self, MAX_FRAME, Next, SLACK};

/// What may wait to be written.
const MOST: usize = 1 << 20;
/// Bytes asked of the file at once.
const BLOCK: usize = 64 * 1024;

/// Reads frames from the file or FIFO `read`, with buffers of `pool`, and writes to `write`.
///
/// # Errors
/// Neither can be opened.
pub fn open(read: &str, write: &str, pool: &Pool) -> io::Result<Port> {
    let counts = Arc::new(PortCounts::default());
    // For reading too: a FIFO without a reader would not open.
    let write_as = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(write)?;
    let from = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(read)?;
    let rx = LinesRx {
        is_fifo: from.metadata()?.file_type().is_fifo(),
        from,
        pool: pool.clone(),
        counts: counts.clone(),
        lines: Vec::new(),
        used: 0,
        frame: vec![0; MAX_FRAME + SLACK],
        began: false,
        is_over: false,
    };
    let tx = LinesTx { to: write_as, counts: counts.clone(), waiting: Vec::new(), written: 0, line: Vec::new() };
    let name = format!("{read},{write}");
    let caps = Caps { mtu: (MAX_FRAME - wire::eth::HEADER_LEN) as u16, ..Caps::PLAIN };
    Ok(Port { spec: name.clone(), name, caps, rx: Box::new(rx), tx: Box::new(tx), counts })
}

struct LinesRx {
    from: File,
    is_fifo: bool,
    pool: Pool,
    counts: Arc<PortCounts>,
    lines: Vec<u8>,
    /// Bytes in front that are done with.
    used: usize,
    frame: Vec<u8>,
    /// Did anybody ever write?
    began: bool,
    is_over: bool,
}

impl LinesRx {
    /// More bytes; `false` if there are none now.
    fn fill(&mut self) -> bool {
        self.lines.drain(..self.used);
        self.used = 0;
        let len = self.lines.len();
        self.lines.resize(len + BLOCK, 0);
        let read = self.from.read(self.lines.get_mut(len..).unwrap_or_default());
        self.lines.truncate(len + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => {
                self.is_over = !self.is_fifo || self.began || self.has_ended();
                // A last line may lack its end.
                let rest = self.is_over && self.lines.last().is_some_and(|last| *last != b'\n');
                if rest {
                    self.lines.push(b'\n');
                }
                rest
            }
            Ok(_) => {
                self.began = true;
                true
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => false,
            Err(_) => {
                self.counts.rx.errors.add(1);
                self.is_over = true;
                false
            }
        }
    }

    /// Readable, and nothing to read: somebody came and went.
    fn has_ended(&self) -> bool {
        dispatch::wait_readable(&[self.from.as_fd()], Some(Duration::ZERO)).is_ok_and(|ready| ready == [true])
    }
}

impl RxHalf for LinesRx {
    fn rx_burst(&mut self, into: &mut Burst, most: usize, _: Instant) -> usize {
        let mut got = 0;
        while got < most && into.room() > 0 {
            let rest = self.lines.get(self.used..).unwrap_or_default();
            let next = if rest.is_empty() { Next::Partial } else { text::next(rest, &mut self.frame) };
            match next {
                Next::Frame { len, used, .. } => {
                    let Some(mut frame) = self.pool.get() else {
                        self.counts.rx.no_buffer.add(1);
                        break;
                    };
                    self.used += used;
                    if frame.extend(self.frame.get(..len).unwrap_or_default()).is_none() {
                        self.counts.rx.malformed.add(1);
                        continue;
                    }
                    self.counts.rx.frames.add(1);
                    self.counts.rx.bytes.add(len as u64);
                    // There is room.
                    let _ = into.push(frame);
                    got += 1;
                }
                Next::Blank { used } => self.used += used,
                Next::Bad { used, .. } => {
                    self.used += used;
                    self.counts.rx.malformed.add(1);
                }
                Next::Partial if self.is_over || !self.fill() => break,
                Next::Partial => {}
            }
        }
        got
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        // A plain file is always ready.
        self.is_fifo.then(|| self.from.as_fd())
    }

    fn is_gone(&self) -> bool {
        self.is_over && self.used >= self.lines.len()
    }
}

struct LinesTx {
    to: File,
    counts: Arc<PortCounts>,
    waiting: Vec<u8>,
    /// Bytes of it that are written.
    written: usize,
    line: Vec<u8>,
}

impl LinesTx {
    fn flush(&mut self) {
        while let Some(rest) = self.waiting.get(self.written..).filter(|rest| !rest.is_empty()) {
            match self.to.write(rest) {
                Ok(0) => return,
                Ok(n) => self.written += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.counts.tx.errors.add(1);
                    break;
                }
            }
        }
        self.waiting.clear();
        self.written = 0;
    }
}

impl TxHalf for LinesTx {
    fn tx_burst(&mut self, from: &mut Burst, _: Instant) -> usize {
        let mut sent = 0;
        self.flush();
        while self.waiting.len() < MOST
            && let Some(frame) = from.pop()
        {
            sent += 1;
            self.line.resize(text::MAX_LINE + SLACK, 0);
            match text::encode(frame.bytes(), None, &mut self.line) {
                Some(len) => {
                    self.waiting.extend_from_slice(self.line.get(..len).unwrap_or_default());
                    self.counts.tx.frames.add(1);
                    self.counts.tx.bytes.add(frame.len() as u64);
                }
                None => self.counts.tx.too_large.add(1),
            }
        }
        self.flush();
        sent
    }

    fn poll(&mut self, _: Instant) {
        self.flush();
    }

    fn held(&self) -> usize {
        usize::from(!self.waiting.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::{AGE, Fdb, Switch};
    use buf::{PoolConfig, PoolLocks};
    use clock::{Clock, Strategy};
    use std::process::Command;

    fn line(dst: u8, src: u8) -> String {
        format!("0200000000{dst:02X} 0200000000{src:02X} 88B5{}\n", " 00".repeat(46))
    }

    fn pool() -> Pool {
        Pool::new(&PoolConfig { locks: PoolLocks::Light, data: 2048, ..PoolConfig::default() }).unwrap()
    }

    fn dir(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("lr-lines-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn a_switch_of_files_ends_with_them() {
        let dir = dir("files");
        let path = |name: &str| dir.join(name).display().to_string();
        std::fs::write(path("a"), line(2, 1) + "no frame\n\n" + &line(3, 1)).unwrap();
        std::fs::write(path("b"), line(1, 2).trim_end()).unwrap();
        let pool = pool();
        let ports = ["a", "b"].map(|name| open(&path(name), &path(&format!("{name}.out")), &pool).unwrap());
        let bad = ports[0].counts.clone();
        let mut switch = Switch::new(ports.into(), Fdb::new(10, AGE));
        switch.run(&Clock::live(Strategy::TscScaled), || false).unwrap();
        assert_eq!(std::fs::read_to_string(path("a.out")).unwrap(), line(1, 2));
        assert_eq!(std::fs::read_to_string(path("b.out")).unwrap(), line(2, 1) + &line(3, 1));
        assert_eq!(bad.rx.malformed.get(), 1);
        std::fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_fifo_is_opened_before_anybody_is_there_and_over_when_they_have_gone() {
        let dir = dir("fifos");
        let path = |name: &str| dir.join(name).display().to_string();
        for name in ["in", "out"] {
            assert!(Command::new("mkfifo").arg(path(name)).status().unwrap().success());
        }
        let mut port = open(&path("in"), &path("out"), &pool()).unwrap();
        let mut burst = Burst::new();
        assert_eq!(port.rx.rx_burst(&mut burst, 10, Instant::ZERO), 0);
        assert!(!port.rx.is_gone());
        let mut writer = OpenOptions::new().write(true).open(path("in")).unwrap();
        writer.write_all(&line(1, 2).as_bytes()[..50]).unwrap();
        assert_eq!(port.rx.rx_burst(&mut burst, 10, Instant::ZERO), 0);
        writer.write_all(&line(1, 2).as_bytes()[50..]).unwrap();
        assert_eq!(port.rx.rx_burst(&mut burst, 10, Instant::ZERO), 1);
        let mut reader = OpenOptions::new().read(true).open(path("out")).unwrap();
        assert_eq!(port.tx.tx_burst(&mut burst, Instant::ZERO), 1);
        let mut got = vec![0; line(1, 2).len()];
        reader.read_exact(&mut got).unwrap();
        assert_eq!(String::from_utf8(got).unwrap(), line(1, 2));
        drop(writer);
        assert_eq!(port.rx.rx_burst(&mut burst, 10, Instant::ZERO), 0);
        assert!(port.rx.is_gone());
        std::fs::remove_dir_all(dir).unwrap();
    }
}
