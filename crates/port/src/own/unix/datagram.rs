//! Port on a datagram socket: each datagram is a frame. Frames are addressed to the path of the
//! peer's socket, so a restarted peer needs no new connection.
//!
//! The link goes down when no process uses the socket at that path. It comes up when a frame
//! arrives, when a frame is sent, or when an attempt succeeds. Frames sent while the peer is absent
//! are counted as `port.tx.errors`.

use super::{DatagramFrames, datagrams_to};
use crate::os::unix::{self, SocketFile};
use crate::own::{FrameSink, OwnRx, OwnTx};
use crate::{Caps, Port, PortCounts, RxHalf};
use buf::{Burst, Pool};
use clock::{Duration, Instant};
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens a port on a socket bound to `local`, whose peer is at `peer`.
pub(super) fn bind(local: &Path, peer: &Path, reconnect: Option<Duration>, pool: &Pool) -> io::Result<Port> {
    let (socket, file) = unix::bind(local)?;
    let (source, sink) = datagrams_to(socket, Some(peer))?;
    let counts = Arc::new(PortCounts::default());
    counts.link.set_up(unix::probe(peer).is_ok());
    let rx = DatagramRx {
        frames: OwnRx::new(source, pool.clone(), counts.clone()),
        peer: peer.to_path_buf(),
        reconnect,
        next: Instant::ZERO,
        counts: counts.clone(),
        _file: file,
    };
    let sink = DatagramSink { frames: sink, counts: counts.clone() };
    Ok(Port {
        name: String::new(),
        spec: String::new(),
        caps: Caps::PLAIN,
        rx: Box::new(rx),
        tx: Box::new(OwnTx::new(sink, counts.clone())),
        counts,
        nic: None,
    })
}

struct DatagramRx {
    /// File of the local socket, which is removed when the port is closed.
    _file: SocketFile,
    frames: OwnRx<DatagramFrames>,
    peer: PathBuf,
    /// Interval between attempts to find the peer, while the link is down.
    reconnect: Option<Duration>,
    /// Time of the next attempt.
    next: Instant,
    counts: Arc<PortCounts>,
}

impl DatagramRx {
    #[cold]
    fn attempt(&mut self, now: Instant) {
        if let Some(interval) = self.reconnect
            && now >= self.next
        {
            self.counts.link.set_up(unix::probe(&self.peer).is_ok());
            self.next = now.after(interval);
        }
    }
}

impl RxHalf for DatagramRx {
    fn rx_burst(&mut self, into: &mut Burst, most: usize, now: Instant) -> usize {
        let frames = self.frames.rx_burst(into, most, now);
        if !self.counts.link.is_up() {
            match frames {
                0 => self.attempt(now),
                _ => self.counts.link.set_up(true),
            }
        }
        frames
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.frames.wait_fd()
    }

    fn is_gone(&self) -> bool {
        self.frames.is_gone()
    }

    fn why_gone(&self) -> Option<String> {
        self.frames.why_gone()
    }

    fn next_event(&self) -> Option<Instant> {
        (!self.counts.link.is_up() && self.reconnect.is_some()).then_some(self.next)
    }

    fn warnings(&self) -> Vec<String> {
        match self.counts.link.is_up() {
            true => Vec::new(),
            false => vec![format!("the peer's socket {} cannot be reached", self.peer.display())],
        }
    }
}

struct DatagramSink {
    frames: DatagramFrames,
    counts: Arc<PortCounts>,
}

impl FrameSink for DatagramSink {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let sent = self.frames.send(frame);
        let link = &self.counts.link;
        match &sent {
            Ok(()) if !link.is_up() => link.set_up(true),
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::EMSGSIZE) => {}
            Err(_) => link.set_up(false),
        }
        sent
    }
}
