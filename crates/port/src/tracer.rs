//! `tracer(file=FILE):PORT`: writes every frame that passes, in both directions, to a pcapng file.
//!
//! A received frame is written after the inner port has returned it, and a sent frame after the
//! inner port has accepted it. The record contains the direction (epb_flags) and a timestamp. Open
//! checksums are written as they are, as in tcpdump. A write error ends the tracing but not the
//! traffic: frames that are not written are counted as `untraced`.

use crate::pcap::{self, Direction, Format, LINKTYPE_ETHERNET, Record, Stamps, Writer};
use crate::{Port, PortCounts, RxHalf, TxHalf};
use buf::{Burst, Frame};
use clock::Instant;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Configuration of a tracer.
#[derive(Clone, Copy, Debug)]
pub struct TracerConfig {
    /// Maximum number of bytes written per frame.
    pub snaplen: u32,
    /// True to write timestamps of wall-clock time instead of those of the program's clock.
    pub wall: bool,
}

impl Default for TracerConfig {
    fn default() -> TracerConfig {
        TracerConfig { snaplen: 262_144, wall: false }
    }
}

/// Wraps `port` in a tracer that writes to the file called `file`; `-` is standard output.
///
/// # Errors
/// The file cannot be created.
pub fn open(file: &str, config: TracerConfig, port: Port) -> io::Result<Port> {
    wrap(pcap::create_output(file)?, config, port)
}

/// Wraps `port` in a tracer that writes to `out`.
///
/// # Errors
/// The file's header cannot be written.
pub fn wrap(out: Box<dyn Write + Send>, config: TracerConfig, port: Port) -> io::Result<Port> {
    let mut writer = Writer::new(out, Format::Pcapng, config.snaplen)?;
    writer.add_interface(&port.name)?;
    writer.flush()?;
    let stamps = if config.wall { Stamps::Wall(None) } else { Stamps::Clock };
    let trace = Arc::new(Mutex::new(Trace {
        writer: Some(writer),
        stamps,
        staged: Vec::new(),
        ends: Vec::new(),
        dirty: false,
    }));
    let counts = port.counts;
    Ok(Port {
        rx: Box::new(TracerRx { inner: port.rx, trace: trace.clone(), counts: counts.clone() }),
        tx: Box::new(TracerTx { inner: port.tx, trace, counts: counts.clone() }),
        spec: format!("tracer:{}", port.spec),
        counts,
        ..port
    })
}

/// State of the trace, shared by both halves of the port.
struct Trace {
    /// Writer of the file; `None` if writing failed.
    writer: Option<Writer<Box<dyn Write + Send>>>,
    stamps: Stamps,
    /// Records that are encoded but not yet written. The next field contains the end offset of
    /// each.
    staged: Vec<u8>,
    ends: Vec<usize>,
    /// True if the writer's buffer may contain data that is not in the file.
    dirty: bool,
}

impl Trace {
    /// Encodes the records of `frames`, without writing them.
    fn stage(&mut self, frames: &[Frame], direction: Direction, now: Instant) {
        self.staged.clear();
        self.ends.clear();
        let Some(writer) = &self.writer else { return };
        let ts_ns = self.stamps.at(now);
        for frame in frames {
            let (data, orig_len) = (frame.bytes(), frame.len() as u32);
            let record =
                Record { ts_ns, orig_len, data, linktype: LINKTYPE_ETHERNET, interface: 0, direction, options: &[] };
            writer.encode(&record, &mut self.staged);
            self.ends.push(self.staged.len());
        }
    }

    /// Writes the first `n` staged records. Returns the number of frames that could not be traced.
    fn commit(&mut self, n: usize) -> u64 {
        let Some(writer) = &mut self.writer else { return n as u64 };
        let Some(end) = n.checked_sub(1).and_then(|last| self.ends.get(last)) else { return 0 };
        let bytes = self.staged.get(..*end).unwrap_or_default();
        if writer.write_encoded(bytes).is_err() {
            self.writer = None;
            return n as u64;
        }
        self.dirty = true;
        0
    }

    /// Flushes the writer's buffer. Called when no frames arrive.
    fn flush(&mut self) {
        if self.dirty && self.writer.as_mut().is_some_and(|writer| writer.flush().is_err()) {
            self.writer = None;
        }
        self.dirty = false;
    }
}

/// Locks the trace. The lock is held for one burst, so the other half waits no longer than that.
fn lock(trace: &Mutex<Trace>) -> MutexGuard<'_, Trace> {
    trace.lock().unwrap_or_else(PoisonError::into_inner)
}

struct TracerRx {
    inner: Box<dyn RxHalf>,
    trace: Arc<Mutex<Trace>>,
    counts: Arc<PortCounts>,
}

impl RxHalf for TracerRx {
    fn rx_burst(&mut self, into: &mut Burst, most: usize, now: Instant) -> usize {
        let before = into.len();
        let got = self.inner.rx_burst(into, most, now);
        let mut trace = lock(&self.trace);
        if got == 0 {
            trace.flush();
            return 0;
        }
        trace.stage(into.as_slice().get(before..).unwrap_or_default(), Direction::Inbound, now);
        self.counts.rx.untraced.add(trace.commit(got));
        got
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.wait_fd()
    }

    fn next_event(&self) -> Option<Instant> {
        self.inner.next_event()
    }

    fn is_gone(&self) -> bool {
        self.inner.is_gone()
    }

    fn is_silent(&self) -> bool {
        self.inner.is_silent()
    }

    fn why_gone(&self) -> Option<String> {
        self.inner.why_gone()
    }

    fn warnings(&self) -> Vec<String> {
        self.inner.warnings()
    }

    fn held(&self) -> usize {
        self.inner.held()
    }
}

struct TracerTx {
    inner: Box<dyn TxHalf>,
    trace: Arc<Mutex<Trace>>,
    counts: Arc<PortCounts>,
}

impl TxHalf for TracerTx {
    fn tx_burst(&mut self, from: &mut Burst, now: Instant) -> usize {
        if from.is_empty() {
            return self.inner.tx_burst(from, now);
        }
        // Records are encoded before sending, because accepted frames are no longer available
        // afterwards. They are written after sending, because the port may not accept all frames.
        let mut trace = lock(&self.trace);
        trace.stage(from.as_slice(), Direction::Outbound, now);
        let taken = self.inner.tx_burst(from, now);
        self.counts.tx.untraced.add(trace.commit(taken));
        taken
    }

    fn poll(&mut self, now: Instant) {
        self.inner.poll(now);
    }

    fn next_event(&self) -> Option<Instant> {
        self.inner.next_event()
    }

    fn is_gone(&self) -> bool {
        self.inner.is_gone()
    }

    fn finish(&mut self) {
        self.inner.finish();
    }

    fn why_gone(&self) -> Option<String> {
        self.inner.why_gone()
    }

    fn held(&self) -> usize {
        self.inner.held()
    }
}

#[cfg(test)]
mod tests;
