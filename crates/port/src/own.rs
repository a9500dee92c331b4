//! Ports that the caller implements: a [`FrameSource`] and a [`FrameSink`], or a channel.
//!
//! [`port`] turns a source and a sink into a [`Port`]. Like every port, it uses buffers of the
//! host's pool and counts each lost frame. [`channel`] creates a port whose other end is a
//! [`FrameSender`] and a [`FrameReceiver`] that the caller keeps.

mod packets;
pub mod unix;

pub use packets::packets;

use crate::pair::{Ringer, Sleeper, doorbell};
use crate::{Caps, Port, PortCounts, RxHalf, TxHalf};
use buf::{Burst, Frame, Pool};
use clock::Instant;
use std::fmt;
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::time::Duration;

/// Interval between attempts to send the rest of a frame to a full sink.
const RETRY: clock::Duration = clock::Duration::from_micros(50);

/// Source of received frames.
pub trait FrameSource: Send {
    /// Receives the next frame into `frame`, without waiting, and returns its length. If the frame
    /// is longer than the buffer, the source may truncate it. If the source returns the full length
    /// instead, the port drops the frame.
    ///
    /// # Errors
    /// `WouldBlock` if there is no frame, `UnexpectedEof` if the source has ended normally. Any
    /// other error ends the port.
    fn recv(&mut self, frame: &mut [u8]) -> io::Result<usize>;

    /// Returns a descriptor that is readable when there may be a frame; `None` if the source must
    /// be polled.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns whether [`FrameSource::recv`] would return a frame or an error at once, although the
    /// descriptor may not be readable. A source that reads several frames from its descriptor at a
    /// time returns true while it holds one of them.
    fn is_ready(&self) -> bool {
        false
    }
}

/// Sink of sent frames.
pub trait FrameSink: Send {
    /// Sends a frame, without waiting.
    ///
    /// # Errors
    /// `WouldBlock` if the sink cannot accept the frame now; the port passes the frame again later.
    /// After any other error, the frame is dropped and counted as `port.tx.errors`.
    fn send(&mut self, frame: &[u8]) -> io::Result<()>;

    /// Sends the remaining bytes of a frame that [`FrameSink::send`] accepted, without waiting.
    ///
    /// # Errors
    /// `WouldBlock` if bytes still remain; the port calls this method again later. Any other error
    /// is counted as `port.tx.errors`.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<T: FrameSource + ?Sized> FrameSource for Box<T> {
    fn recv(&mut self, frame: &mut [u8]) -> io::Result<usize> {
        T::recv(self, frame)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        T::fd(self)
    }

    fn is_ready(&self) -> bool {
        T::is_ready(self)
    }
}

impl<T: FrameSink + ?Sized> FrameSink for Box<T> {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        T::send(self, frame)
    }

    fn flush(&mut self) -> io::Result<()> {
        T::flush(self)
    }
}

/// Creates a port called `name` from a source and a sink of Ethernet frames (without FCS). Received
/// frames use buffers of `pool`.
pub fn port(name: &str, pool: &Pool, source: impl FrameSource + 'static, sink: impl FrameSink + 'static) -> Port {
    let counts = Arc::new(PortCounts::default());
    Port {
        name: name.to_owned(),
        spec: format!("own:{name}"),
        caps: Caps::PLAIN,
        rx: Box::new(OwnRx::new(source, pool.clone(), counts.clone())),
        tx: Box::new(OwnTx::new(sink, counts.clone())),
        counts,
        nic: None,
    }
}

/// Outcome of a source that has ended.
enum Ended {
    Normally,
    Failed(String),
}

struct OwnRx<S> {
    source: S,
    pool: Pool,
    counts: Arc<PortCounts>,
    /// Buffer for the next frame, kept while the source has none.
    next: Option<Frame>,
    ended: Option<Ended>,
}

impl<S> OwnRx<S> {
    fn new(source: S, pool: Pool, counts: Arc<PortCounts>) -> OwnRx<S> {
        OwnRx { source, pool, counts, next: None, ended: None }
    }
}

impl<S: FrameSource> OwnRx<S> {
    /// Receives the next frame into the buffer `frame`; `None` if it does not fit and is dropped.
    /// The caller counts the drop.
    fn receive(&mut self, mut frame: Frame) -> Result<Option<Frame>, io::Error> {
        let room = frame.tailroom();
        let Some(space) = frame.append(room) else { return Ok(None) };
        match self.source.recv(space) {
            Ok(len) if len <= room => {
                frame.truncate(len);
                Ok(Some(frame))
            }
            Ok(_) => Ok(None),
            Err(error) => {
                if error.kind() == ErrorKind::WouldBlock {
                    frame.truncate(0);
                    self.next = Some(frame);
                }
                Err(error)
            }
        }
    }
}

impl<S: FrameSource> RxHalf for OwnRx<S> {
    fn rx_burst(&mut self, into: &mut Burst, most: usize, _now: Instant) -> usize {
        let (mut frames, mut bytes, mut tries) = (0, 0, 0);
        let most = most.min(into.room());
        while tries < most && self.ended.is_none() {
            tries += 1;
            let Some(buffer) = self.next.take().or_else(|| self.pool.get()) else {
                self.counts.rx.no_buffer.bump();
                break;
            };
            match self.receive(buffer) {
                Ok(Some(frame)) => {
                    frames += 1;
                    bytes += frame.len() as u64;
                    into.put(frame, || self.counts.rx.bugs.bump()); // `most` is limited to the free slots
                }
                Ok(None) => self.counts.rx.malformed.bump(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => self.ended = Some(Ended::Normally),
                Err(error) => {
                    self.counts.rx.errors.bump();
                    self.ended = Some(Ended::Failed(error.to_string()));
                }
            }
        }
        self.counts.rx.frames.add(frames as u64);
        self.counts.rx.bytes.add(bytes);
        self.counts.rx.idle.add(u64::from(frames == 0));
        frames
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        if self.ended.is_none() { self.source.fd() } else { None }
    }

    fn next_event(&self) -> Option<Instant> {
        (self.ended.is_none() && self.source.is_ready()).then_some(Instant::ZERO)
    }

    fn is_gone(&self) -> bool {
        self.ended.is_some()
    }

    fn why_gone(&self) -> Option<String> {
        match &self.ended {
            Some(Ended::Failed(why)) => Some(why.clone()),
            _ => None,
        }
    }
}

struct OwnTx<S> {
    sink: S,
    counts: Arc<PortCounts>,
    /// Time of the next attempt to send the remaining bytes of an accepted frame; `None` if no
    /// bytes remain.
    retry: Option<Instant>,
    /// Length of the last frame that the sink accepted.
    last_len: u64,
    /// True after an error of the sink other than `WouldBlock`.
    has_failed: bool,
}

impl<S> OwnTx<S> {
    fn new(sink: S, counts: Arc<PortCounts>) -> OwnTx<S> {
        OwnTx { sink, counts, retry: None, last_len: 0, has_failed: false }
    }

    /// If the last frame that the sink accepted was not sent completely, counts it as lost.
    fn lose_rest(&mut self) {
        if self.retry.take().is_some() {
            self.counts.tx.frames.sub(1);
            self.counts.tx.bytes.sub(self.last_len);
            self.counts.tx.errors.bump();
        }
    }
}

impl<S: FrameSink> OwnTx<S> {
    fn flush(&mut self, now: Instant) {
        match self.sink.flush() {
            Ok(()) => self.retry = None,
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.retry = Some(now.after(RETRY)),
            Err(_) => {
                self.has_failed = true;
                self.lose_rest();
            }
        }
    }
}

impl<S: FrameSink> TxHalf for OwnTx<S> {
    fn tx_burst(&mut self, from: &mut Burst, now: Instant) -> usize {
        let (mut taken, mut has_sent) = (0, false);
        for frame in from.as_slice() {
            // The remaining bytes of the previous frame are sent first, so that an error is counted
            // for that frame.
            self.flush(now);
            if self.retry.is_some() {
                break;
            }
            match self.sink.send(frame.bytes()) {
                Ok(()) => {
                    (has_sent, self.last_len) = (true, frame.len() as u64);
                    self.counts.tx.frames.bump();
                    self.counts.tx.bytes.add(self.last_len);
                    self.retry = Some(now); // the frame may not be sent completely
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => {
                    self.has_failed = true;
                    self.counts.tx.errors.bump();
                }
            }
            taken += 1;
        }
        Burst::new().take_some(from, taken); // frees the frames that were taken
        self.counts.tx.bursts.add(u64::from(has_sent));
        self.flush(now);
        taken
    }

    fn poll(&mut self, now: Instant) {
        if self.retry.is_some_and(|at| at <= now) {
            self.flush(now);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        self.retry
    }
}

/// Sends frames to the host whose port is the other end of a [`channel`].
pub struct FrameSender {
    to_host: SyncSender<Vec<u8>>,
    /// Number of frames sent to the host and not received yet.
    level: Arc<AtomicUsize>,
    /// Wakes the host. It is dropped after `to_host`; its drop wakes the host, which then detects
    /// that the channel is closed.
    ringer: Ringer,
}

/// Receives the frames that the host sends through the port at the other end of a [`channel`].
#[derive(Debug)]
pub struct FrameReceiver(Receiver<Vec<u8>>);

/// End of a channel on the host's side.
pub struct ChannelPort {
    source: ChannelSource,
    sink: ChannelSink,
}

/// Creates a channel for Ethernet frames. Each direction holds up to `capacity` frames.
/// [`ChannelPort::open`] turns one end into a port of a host; the other end stays with the caller.
pub fn channel(capacity: usize) -> (ChannelPort, FrameSender, FrameReceiver) {
    let (to_host, from_peer) = sync_channel(capacity.max(1));
    let (to_peer, from_host) = sync_channel(capacity.max(1));
    let ((ringer, sleeper), level) = (doorbell(), Arc::new(AtomicUsize::new(0)));
    let source = ChannelSource { queue: from_peer, level: level.clone(), sleeper };
    (
        ChannelPort { source, sink: ChannelSink(to_peer) },
        FrameSender { to_host, level, ringer },
        FrameReceiver(from_host),
    )
}

impl ChannelPort {
    /// Opens the port, with buffers of `pool` for received frames.
    pub fn open(self, name: &str, pool: &Pool) -> Port {
        port(name, pool, self.source, self.sink)
    }
}

struct ChannelSource {
    queue: Receiver<Vec<u8>>,
    level: Arc<AtomicUsize>,
    sleeper: Sleeper,
}

impl FrameSource for ChannelSource {
    fn recv(&mut self, frame: &mut [u8]) -> io::Result<usize> {
        self.sleeper.answer();
        match self.queue.try_recv() {
            Ok(bytes) => {
                self.level.fetch_sub(1, Ordering::Relaxed);
                if let Some(into) = frame.get_mut(..bytes.len()) {
                    into.copy_from_slice(&bytes);
                }
                Ok(bytes.len())
            }
            Err(TryRecvError::Empty) => Err(ErrorKind::WouldBlock.into()),
            Err(TryRecvError::Disconnected) => Err(ErrorKind::UnexpectedEof.into()),
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        // Only the sender shares `level` with this source. If this is the last reference, the
        // sender is gone, and the source must report its end.
        let is_ready = || self.level.load(Ordering::SeqCst) > 0 || Arc::strong_count(&self.level) == 1;
        self.sleeper.announce(is_ready)
    }
}

struct ChannelSink(SyncSender<Vec<u8>>);

impl FrameSink for ChannelSink {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.0.try_send(frame.to_vec()).map_err(|why| match why {
            TrySendError::Full(_) => ErrorKind::WouldBlock.into(),
            TrySendError::Disconnected(_) => ErrorKind::BrokenPipe.into(),
        })
    }
}

impl FrameSender {
    /// Sends a frame to the host. Waits while the channel is full.
    ///
    /// # Errors
    /// `BrokenPipe` if the host has closed the port.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.level.fetch_add(1, Ordering::SeqCst);
        let sent = self.to_host.send(frame.to_vec()).map_err(|_| ErrorKind::BrokenPipe.into());
        self.sent(sent)
    }

    /// Wakes the host after a frame was sent, or corrects the level after a failure.
    fn sent(&self, sent: io::Result<()>) -> io::Result<()> {
        match &sent {
            Ok(()) => self.ringer.wake(),
            Err(_) => _ = self.level.fetch_sub(1, Ordering::SeqCst),
        }
        sent
    }

    /// Sends a frame to the host, without waiting.
    ///
    /// # Errors
    /// `WouldBlock` if the channel is full, `BrokenPipe` if the host has closed the port.
    pub fn try_send(&self, frame: &[u8]) -> io::Result<()> {
        self.level.fetch_add(1, Ordering::SeqCst);
        let sent = self.to_host.try_send(frame.to_vec()).map_err(|why| match why {
            TrySendError::Full(_) => ErrorKind::WouldBlock.into(),
            TrySendError::Disconnected(_) => ErrorKind::BrokenPipe.into(),
        });
        self.sent(sent)
    }
}

impl FrameReceiver {
    /// Receives the next frame that the host sends, and waits for it at most `timeout`.
    ///
    /// # Errors
    /// `TimedOut`, and `UnexpectedEof` if the host has closed the port.
    pub fn recv(&self, timeout: Duration) -> io::Result<Vec<u8>> {
        self.0.recv_timeout(timeout).map_err(|why| match why {
            RecvTimeoutError::Timeout => ErrorKind::TimedOut.into(),
            RecvTimeoutError::Disconnected => ErrorKind::UnexpectedEof.into(),
        })
    }

    /// Receives the next frame that the host sends, without waiting.
    ///
    /// # Errors
    /// `WouldBlock` if there is none, `UnexpectedEof` if the host has closed the port.
    pub fn try_recv(&self) -> io::Result<Vec<u8>> {
        self.0.try_recv().map_err(|why| match why {
            TryRecvError::Empty => ErrorKind::WouldBlock.into(),
            TryRecvError::Disconnected => ErrorKind::UnexpectedEof.into(),
        })
    }
}

impl fmt::Debug for FrameSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameSender").field("level", &self.level).finish_non_exhaustive()
    }
}

impl fmt::Debug for ChannelPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChannelPort").field("level", &self.source.level).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use buf::PoolConfig;

    fn pool() -> Pool {
        Pool::new(&PoolConfig { buffers: 16, ..PoolConfig::default() }).unwrap()
    }

    /// Results of `recv`, in order.
    struct Script(Vec<io::Result<usize>>);
    impl FrameSource for Script {
        fn recv(&mut self, frame: &mut [u8]) -> io::Result<usize> {
            let result = if self.0.is_empty() { Err(ErrorKind::WouldBlock.into()) } else { self.0.remove(0) };
            if let Ok(len) = result
                && let Some(bytes) = frame.get_mut(..len)
            {
                bytes.fill(7);
            }
            result
        }
    }

    struct Sink(Vec<ErrorKind>);
    impl FrameSink for Sink {
        fn send(&mut self, _: &[u8]) -> io::Result<()> {
            self.0.pop().map_or(Ok(()), |kind| Err(kind.into()))
        }
    }

    #[test]
    fn each_result_of_a_source_is_counted_and_no_buffer_is_lost() {
        let pool = pool();
        let script = vec![
            Ok(60),
            Err(ErrorKind::Interrupted.into()),
            Ok(100_000),
            Ok(0),
            Err(ErrorKind::WouldBlock.into()),
            Ok(61),
            Err(ErrorKind::ConnectionReset.into()),
        ];
        let mut port = port("own", &pool, Script(script), Sink(Vec::new()));
        let mut burst = Burst::new();
        assert_eq!(port.rx.rx_burst(&mut burst, 32, Instant::ZERO), 2);
        assert_eq!(burst.as_slice().iter().map(Frame::len).collect::<Vec<_>>(), [60, 0]);
        assert!(!port.rx.is_gone());
        assert_eq!(port.rx.rx_burst(&mut burst, 32, Instant::ZERO), 1);
        assert!(port.rx.is_gone() && port.rx.why_gone().is_some());
        let rx = &port.counts.rx;
        assert_eq!([rx.frames.get(), rx.bytes.get(), rx.malformed.get(), rx.errors.get()], [3, 121, 1, 1]);
        drop((port, burst));
        assert_eq!(pool.stats().live(), 0);
    }

    #[test]
    fn a_source_that_ends_is_gone_without_a_reason() {
        let mut port = port("own", &pool(), Script(vec![Err(ErrorKind::UnexpectedEof.into())]), Sink(Vec::new()));
        assert_eq!(port.rx.rx_burst(&mut Burst::new(), 32, Instant::ZERO), 0);
        assert_eq!((port.rx.is_gone(), port.rx.why_gone()), (true, None));
    }

    #[test]
    fn frames_that_a_sink_cannot_take_stay_and_failed_ones_are_counted() {
        let pool = pool();
        let errors = vec![ErrorKind::WouldBlock, ErrorKind::BrokenPipe];
        let mut port = port("own", &pool, Script(Vec::new()), Sink(errors));
        let mut burst = Burst::new();
        for _ in 0..3 {
            burst.push(pool.get().unwrap()).unwrap();
        }
        assert_eq!(port.tx.tx_burst(&mut burst, Instant::ZERO), 1);
        assert_eq!(burst.len(), 2);
        assert_eq!(port.tx.tx_burst(&mut burst, Instant::ZERO), 2);
        assert_eq!([port.counts.tx.frames.get(), port.counts.tx.errors.get()], [2, 1]);
    }

    #[test]
    fn a_channel_passes_frames_both_ways_and_reports_its_end() {
        let (end, sender, receiver) = channel(2);
        let pool = pool();
        let mut port = end.open("chan", &pool);
        sender.send(&[1; 60]).unwrap();
        sender.try_send(&[2; 60]).unwrap();
        assert_eq!(sender.try_send(&[3; 60]).unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut burst = Burst::new();
        assert_eq!(port.rx.rx_burst(&mut burst, 32, Instant::ZERO), 2);
        assert_eq!(port.tx.tx_burst(&mut burst, Instant::ZERO), 2);
        assert_eq!(receiver.recv(Duration::from_secs(1)).unwrap(), [1; 60]);
        assert_eq!(receiver.try_recv().unwrap(), [2; 60]);
        assert_eq!(receiver.try_recv().unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(receiver.recv(Duration::from_millis(1)).unwrap_err().kind(), ErrorKind::TimedOut);
        drop(port);
        assert_eq!(receiver.try_recv().unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(sender.send(&[0; 60]).unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
