//! The receiving half: converts whole lines of a file, a FIFO or standard input to frames as they
//! arrive.

use super::{Line, Lines};
use crate::long::Buffers;
use crate::{PortCounts, RxHalf, os};
use buf::{Burst, Pool};
use clock::Instant;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::sync::Arc;

/// Kind of input file; it determines how the file is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Standard input. It may be shared with other processes, so readability is checked before each
    /// read.
    Stdin,
    /// A named pipe; its other end may not be open yet.
    Fifo,
    /// A terminal or similar device.
    Device,
    /// A regular file, which always has data or is at its end.
    Plain,
}

pub(super) struct TextRx {
    name: String,
    from: File,
    kind: Kind,
    strict: bool,
    buffers: Buffers,
    counts: Arc<PortCounts>,
    lines: Lines,
    /// True once any data has arrived.
    began: bool,
    /// True once the file is at its end; buffered lines may be left.
    ended: bool,
    why: Option<String>,
}

impl TextRx {
    pub(super) fn open(name: &str, strict: bool, pool: &Pool, counts: &Arc<PortCounts>) -> io::Result<TextRx> {
        let (from, kind) = if name == "-" {
            (os::stdin()?, Kind::Stdin)
        } else {
            let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(name)?;
            let what = file.metadata()?.file_type();
            let kind = match what.is_fifo() {
                true => Kind::Fifo,
                false if what.is_file() => Kind::Plain,
                false => Kind::Device,
            };
            (file, kind)
        };
        Ok(TextRx {
            name: name.to_string(),
            from,
            kind,
            strict,
            buffers: Buffers::new(pool),
            counts: counts.clone(),
            lines: Lines::new(),
            began: false,
            ended: false,
            why: None,
        })
    }

    /// Reads more data. Returns whether there is something to parse.
    fn fill(&mut self) -> bool {
        if self.ended || (self.kind == Kind::Stdin && !os::is_readable(self.from.as_fd())) {
            return false;
        }
        let mut read = self.from.read(self.lines.room());
        if matches!(read, Ok(0)) && self.kind == Kind::Fifo && !self.began {
            // No bytes: the FIFO has no writer yet, or the writer has closed it. After a close the
            // FIFO is readable, but it is also readable if a writer has written since the read
            // above.
            if !os::is_readable(self.from.as_fd()) {
                return false;
            }
            read = self.from.read(self.lines.room());
        }
        match read {
            Ok(0) => {
                self.ended = true;
                self.lines.close();
                true
            }
            Ok(n) => {
                self.began = true;
                self.lines.came(n);
                true
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => false,
            Err(error) => {
                self.counts.rx.errors.bump();
                self.fail(&error.to_string());
                false
            }
        }
    }

    fn fail(&mut self, why: &str) {
        self.ended = true;
        self.why = Some(format!("text:{}: {why}", self.name));
    }

    fn bad(&mut self) {
        self.counts.rx.malformed.bump();
        if let Some(first) = self.lines.first_bad().filter(|_| self.strict) {
            let first = first.to_string();
            self.fail(&first);
        }
    }
}

impl RxHalf for TextRx {
    fn rx_burst(&mut self, into: &mut Burst, most: usize, _now: Instant) -> usize {
        let (mut frames, mut bytes) = (0, 0);
        let most = most.min(into.room());
        while frames < most && self.why.is_none() {
            match self.lines.next() {
                Some(Line::Frame) => {
                    let mut buffer = self.buffers.get();
                    if buffer.is_none() {
                        self.counts.rx.no_buffer.bump();
                        self.lines.once_more();
                        break;
                    }
                    let Some(frame) = self.buffers.fill(&mut buffer, self.lines.frame()) else {
                        let need = self.lines.frame().len();
                        self.lines.refuse(&format!("no memory for a frame of {need} bytes"));
                        self.bad();
                        continue;
                    };
                    frames += 1;
                    bytes += frame.len() as u64;
                    // The push cannot fail, because `most` is limited to the free slots of `into`.
                    into.put(frame, || self.counts.rx.bugs.bump());
                }
                Some(Line::Bad) => self.bad(),
                None if !self.fill() => break,
                None => {}
            }
        }
        self.counts.rx.frames.add(frames as u64);
        self.counts.rx.bytes.add(bytes);
        self.counts.rx.idle.add(u64::from(frames == 0));
        frames
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        (self.kind != Kind::Plain && !self.ended).then(|| self.from.as_fd())
    }

    fn is_gone(&self) -> bool {
        self.ended && (self.why.is_some() || self.lines.is_empty())
    }

    fn why_gone(&self) -> Option<String> {
        self.why.clone()
    }

    fn warnings(&self) -> Vec<String> {
        self.lines.warnings()
    }
}
