//! The capture port: replays one file as received frames, and writes sent frames to another.

use super::{Direction, Fault, Format, LINKTYPE_ETHERNET, PcapError, Reader, Record, Stamps, Writer};
use crate::long::Buffers;
use crate::null::Nothing;
use crate::{Caps, Port, PortCounts, RxHalf, TxHalf, offload, os};
use buf::{Burst, Frame, Pool};
use clock::{Duration, Instant};
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use wire::text::MAX_FRAME;

/// Configuration of a capture port.
#[derive(Clone, Debug)]
pub struct PcapConfig {
    /// File to receive frames from; `-` is standard input. `None` if nothing is received.
    pub read: Option<String>,
    /// File to write sent frames to; `-` is standard output. `None` if they are discarded.
    pub write: Option<String>,
    /// True to return frames at the intervals of the file's timestamps. Otherwise they are returned
    /// as fast as the port is polled.
    pub pace: bool,
    /// Number of times that the file is read; 0 for an unlimited number.
    pub loops: u64,
    /// Format of the file to write; `None` to derive it from the file name.
    pub format: Option<Format>,
    /// Maximum number of bytes written of each frame.
    pub snaplen: u32,
    /// True to write timestamps of wall-clock time instead of those of the program's clock.
    pub wall: bool,
}

impl Default for PcapConfig {
    fn default() -> PcapConfig {
        PcapConfig { read: None, write: None, pace: false, loops: 1, format: None, snaplen: 262_144, wall: false }
    }
}

/// Reasons why a capture port could not be opened.
#[derive(Debug)]
pub enum PcapFileError {
    /// The file cannot be opened or written.
    Io {
        /// Name of the file.
        file: String,
        /// Cause of the failure.
        error: io::Error,
    },
    /// The file is not a capture file.
    Bad {
        /// Name of the file.
        file: String,
        /// Cause of the failure.
        error: PcapError,
    },
    /// The file is a capture file, but not of Ethernet frames.
    LinkType {
        /// Name of the file.
        file: String,
        /// Link type of the file.
        linktype: u16,
    },
    /// The option `loop` is not 1, but standard input can be read only once.
    LoopStdin,
}

impl fmt::Display for PcapFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PcapFileError::Io { file, error } => write!(f, "pcap:{file}: {error}"),
            PcapFileError::Bad { file, error } => write!(f, "pcap:{file}: {error}"),
            PcapFileError::LinkType { file, linktype } => {
                write!(f, "pcap:{file}: link type {linktype} is not Ethernet ({LINKTYPE_ETHERNET})")
            }
            PcapFileError::LoopStdin => f.write_str("pcap:-: standard input can be read only once: set loop=1"),
        }
    }
}

impl std::error::Error for PcapFileError {}

/// Opens a capture port. If there is no file to write, sent frames are counted and discarded.
///
/// # Errors
/// See [`PcapFileError`]. The header of a file is checked here; the header of standard input is
/// checked when it arrives.
pub fn open(name: &str, config: &PcapConfig, pool: &Pool) -> Result<Port, PcapFileError> {
    let counts = Arc::new(PortCounts::default());
    let replay = config.read.as_ref().map(|file| Replay::open(file, config, pool, &counts)).transpose()?;
    let writer = config.write.as_ref().map(|file| create(file, config, name)).transpose()?;
    let tx = Recorder {
        counts: counts.clone(),
        writer,
        live: config.write.as_deref() == Some("-"),
        stamps: if config.wall { Stamps::Wall(None) } else { Stamps::Clock },
        failed: None,
    };
    Ok(Port {
        name: name.to_string(),
        spec: format!("pcap:{name}"),
        caps: Caps { mtu: u16::MAX, ..Caps::PLAIN },
        rx: replay.map_or_else(|| Box::new(Nothing) as Box<dyn RxHalf>, |replay| Box::new(replay)),
        tx: Box::new(tx),
        counts,
        nic: None,
    })
}

/// Creates a buffered output file; `-` is standard output.
pub(crate) fn create_output(file: &str) -> io::Result<Box<dyn Write + Send>> {
    let out: Box<dyn Write + Send> = if file == "-" { Box::new(io::stdout()) } else { Box::new(File::create(file)?) };
    Ok(Box::new(BufWriter::with_capacity(64 * 1024, out)))
}

type Output = Writer<Box<dyn Write + Send>>;

fn create(file: &str, config: &PcapConfig, name: &str) -> Result<Output, PcapFileError> {
    let format = config.format.unwrap_or_else(|| Format::of_name(file));
    let make = || {
        let mut writer = Writer::new(create_output(file)?, format, config.snaplen)?;
        writer.add_interface(name)?;
        writer.flush()?;
        Ok(writer)
    };
    make().map_err(|error| PcapFileError::Io { file: file.to_string(), error })
}

/// Input of the port: a file, or standard input, which is read only when data is available.
struct Input {
    file: File,
    stream: bool,
}

impl Input {
    fn open(name: &str) -> io::Result<Input> {
        if name == "-" {
            Ok(Input { file: os::stdin()?, stream: true })
        } else {
            Ok(Input { file: File::open(name)?, stream: false })
        }
    }
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.stream && !os::is_readable(self.file.as_fd()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.file.read(into)
    }
}

struct Replay {
    name: String,
    reader: Reader<Input>,
    stdin: Option<File>,
    buffers: Buffers,
    counts: Arc<PortCounts>,
    /// Number of records skipped because they were not valid frames; `first_left_out` contains the
    /// reason for the first of them.
    left_out: u64,
    first_left_out: String,
    pace: bool,
    /// Number of further times that the file is read; `None` if there is no limit.
    passes: Option<u64>,
    /// True if this pass has returned a frame. A file without frames is not read again, because
    /// reading it without a limit would never end.
    fruitful: bool,
    /// Start of this pass: an instant of the program's clock, and the file's timestamp at that
    /// instant. `None` before the first frame.
    base: Option<(Instant, u64)>,
    last_due: Instant,
    pending: Option<(Frame, Instant)>,
    gone: bool,
    why: Option<String>,
}

impl Replay {
    fn open(file: &str, config: &PcapConfig, pool: &Pool, counts: &Arc<PortCounts>) -> Result<Replay, PcapFileError> {
        let io = |error| PcapFileError::Io { file: file.to_string(), error };
        let input = Input::open(file).map_err(io)?;
        let stdin = if input.stream { Some(input.file.try_clone().map_err(io)?) } else { None };
        if stdin.is_some() && config.loops != 1 {
            return Err(PcapFileError::LoopStdin);
        }
        let mut reader = Reader::new(input);
        if stdin.is_none() {
            let linktype = reader.linktype().map_err(|error| PcapFileError::Bad { file: file.to_string(), error })?;
            if let Some(linktype) = linktype.filter(|linktype| *linktype != LINKTYPE_ETHERNET) {
                return Err(PcapFileError::LinkType { file: file.to_string(), linktype });
            }
        }
        Ok(Replay {
            name: file.to_string(),
            reader,
            stdin,
            buffers: Buffers::new(pool),
            counts: counts.clone(),
            left_out: 0,
            first_left_out: String::new(),
            pace: config.pace,
            passes: config.loops.checked_sub(1),
            fruitful: false,
            base: None,
            last_due: Instant::ZERO,
            pending: None,
            gone: false,
            why: None,
        })
    }

    /// Returns the next frame and the time at which it is due; `None` if no frame is available now,
    /// or if the file has ended.
    fn next(&mut self, now: Instant) -> Option<(Frame, Instant)> {
        if let Some(pending) = self.pending.take() {
            return Some(pending);
        }
        if self.gone {
            return None;
        }
        let mut buffer = self.buffers.get();
        if buffer.is_none() {
            self.counts.rx.no_buffer.bump();
            return None;
        }
        loop {
            let record = match self.reader.read() {
                Ok(Some(record)) => record,
                Ok(None) => {
                    if !self.again() {
                        return None;
                    }
                    continue;
                }
                Err(error) => {
                    if !error.is_would_block() {
                        self.fail(&error);
                    }
                    return None;
                }
            };
            let (ts_ns, linktype, len) = (record.ts_ns, record.linktype, record.data.len());
            let is_frame = linktype == LINKTYPE_ETHERNET && len > 0;
            let Some(filled) = is_frame.then(|| self.buffers.fill(&mut buffer, record.data)).flatten() else {
                self.leave_out(linktype, len);
                continue;
            };
            self.fruitful = true;
            return Some((filled, self.due(ts_ns, now)));
        }
    }

    #[cold]
    fn leave_out(&mut self, linktype: u16, len: usize) {
        self.counts.rx.malformed.bump();
        self.left_out += 1;
        if self.left_out == 1 {
            self.first_left_out = match linktype {
                LINKTYPE_ETHERNET if len == 0 => "empty".to_string(),
                LINKTYPE_ETHERNET if len > MAX_FRAME => format!("{len} bytes, the maximum is {MAX_FRAME}"),
                LINKTYPE_ETHERNET => format!("no memory for {len} bytes"),
                other => format!("link type {other} is not Ethernet ({LINKTYPE_ETHERNET})"),
            };
        }
    }

    fn due(&mut self, ts_ns: u64, now: Instant) -> Instant {
        if !self.pace {
            return now;
        }
        let (start, first_ns) = *self.base.get_or_insert((now.max(self.last_due), ts_ns));
        let due = start.after(Duration::from_nanos(ts_ns.saturating_sub(first_ns)));
        self.last_due = due.max(self.last_due); // a timestamp before the previous one is clamped
        self.last_due
    }

    /// Starts to read the file again, if passes remain. Returns whether it has done so.
    fn again(&mut self) -> bool {
        if self.passes == Some(0) || !self.fruitful {
            self.gone = true;
            return false;
        }
        self.passes = self.passes.map(|left| left - 1);
        (self.fruitful, self.base) = (false, None);
        match Input::open(&self.name) {
            Ok(input) => self.reader = Reader::new(input),
            Err(error) => self.fail(&PcapError { at: 0, fault: Fault::Io(error) }),
        }
        !self.gone
    }

    fn fail(&mut self, error: &PcapError) {
        self.counts.rx.errors.bump();
        self.gone = true;
        self.why = Some(format!("pcap:{}: {error}", self.name));
    }
}

impl RxHalf for Replay {
    fn rx_burst(&mut self, into: &mut Burst, most: usize, now: Instant) -> usize {
        let (mut frames, mut bytes) = (0, 0);
        let most = most.min(into.room());
        while frames < most {
            let Some((frame, due)) = self.next(now) else { break };
            if due > now {
                self.pending = Some((frame, due));
                break;
            }
            frames += 1;
            bytes += frame.len() as u64;
            // The push cannot fail, because `most` is limited to the free slots of `into`.
            into.put(frame, || self.counts.rx.bugs.bump());
        }
        self.counts.rx.frames.add(frames as u64);
        self.counts.rx.bytes.add(bytes);
        self.counts.rx.idle.add(u64::from(frames == 0));
        frames
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.stdin.as_ref().filter(|_| !self.gone && self.pending.is_none()).map(|stdin| stdin.as_fd())
    }

    fn next_event(&self) -> Option<Instant> {
        self.pending.as_ref().map(|(_, due)| *due)
    }

    fn is_gone(&self) -> bool {
        self.gone && self.pending.is_none()
    }

    fn why_gone(&self) -> Option<String> {
        self.why.clone()
    }

    fn warnings(&self) -> Vec<String> {
        let left_out = || format!("{} records are not valid frames; the first: {}", self.left_out, self.first_left_out);
        (self.left_out > 0).then(left_out).into_iter().collect()
    }

    fn held(&self) -> usize {
        usize::from(self.pending.is_some())
    }
}

struct Recorder {
    counts: Arc<PortCounts>,
    /// Output file; `None` if sent frames are discarded.
    writer: Option<Output>,
    /// True if the output is standard output, where each burst is flushed at once.
    live: bool,
    stamps: Stamps,
    /// Error of an earlier write. Nothing is written after it, because a record may have been
    /// written in part.
    failed: Option<io::Error>,
}

impl Recorder {
    fn record(&mut self, frame: &mut Frame, ts_ns: u64) -> bool {
        let Some(writer) = &mut self.writer else { return true };
        if offload::complete(frame).is_none() {
            self.counts.tx.malformed.bump();
            return false;
        }
        let orig_len = frame.len() as u32;
        let (data, linktype, direction) = (frame.bytes(), LINKTYPE_ETHERNET, Direction::Outbound);
        if self.failed.is_none() {
            let record = Record { ts_ns, orig_len, data, linktype, interface: 0, direction, options: &[] };
            self.failed = writer.write(&record).err();
        }
        self.counts.tx.errors.add(u64::from(self.failed.is_some()));
        self.failed.is_none()
    }

    fn flush(&mut self) {
        if let (Some(writer), None) = (&mut self.writer, &self.failed) {
            self.failed = writer.flush().err();
        }
    }
}

impl TxHalf for Recorder {
    fn tx_burst(&mut self, from: &mut Burst, now: Instant) -> usize {
        let taken = from.len();
        let ts_ns = self.stamps.at(now);
        let (mut frames, mut bytes) = (0, 0);
        for mut frame in from.drain() {
            if self.record(&mut frame, ts_ns) {
                frames += 1;
                bytes += frame.len() as u64;
            }
        }
        if self.live {
            self.flush();
        }
        self.counts.tx.frames.add(frames);
        self.counts.tx.bytes.add(bytes);
        self.counts.tx.bursts.add(u64::from(taken > 0));
        taken
    }

    fn finish(&mut self) {
        self.flush();
    }

    fn is_gone(&self) -> bool {
        self.failed.is_some()
    }

    fn why_gone(&self) -> Option<String> {
        let failed = self.failed.as_ref().filter(|error| error.kind() != io::ErrorKind::BrokenPipe)?;
        Some(format!("pcap: {failed}"))
    }
}
