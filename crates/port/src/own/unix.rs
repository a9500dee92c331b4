//! Frames over UNIX sockets, in the formats of QEMU's `-netdev stream` and `-netdev dgram`, which
//! passt and virtual machine monitors use too.
//!
//! On a stream, each frame is preceded by its length, 4 bytes in network byte order. On datagram
//! sockets, each datagram is a frame. Frames are Ethernet frames without FCS.

mod connection;
mod datagram;
pub(crate) mod open;
mod stream;
#[cfg(test)]
mod tests;

use super::{FrameSink, FrameSource};
use crate::os;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;

/// Maximum length of a frame on a stream: an IP packet of 65,535 bytes with its link headers. QEMU
/// has the same limit, rounded up. A larger length means that the peer and this port no longer
/// agree on where frames begin.
pub const FRAME_MAX: usize = 65_535 + 18;
/// Number of bytes before each frame.
const PREFIX: usize = 4;

/// Source of the frames received on a stream.
#[derive(Debug)]
pub struct StreamFrames {
    stream: UnixStream,
    unframer: Unframer,
}

/// Splits received bytes into frames.
#[derive(Debug)]
pub(crate) struct Unframer {
    /// Buffer. The bytes `begin..end` were received and not yet returned: several frames, or a part
    /// of one.
    bytes: Vec<u8>,
    begin: usize,
    end: usize,
}

/// Sink of the frames sent on a stream.
#[derive(Debug)]
pub struct StreamSink {
    stream: UnixStream,
    /// Bytes of the last frame that the kernel did not accept yet.
    rest: Vec<u8>,
}

/// Creates a source and a sink for a connected stream.
///
/// # Errors
/// The descriptor cannot be duplicated or made non-blocking.
pub fn stream(stream: UnixStream) -> io::Result<(StreamFrames, StreamSink)> {
    stream.set_nonblocking(true)?;
    let sink = StreamSink { stream: stream.try_clone()?, rest: Vec::new() };
    Ok((StreamFrames { stream, unframer: Unframer::new() }, sink))
}

impl Unframer {
    pub(crate) fn new() -> Unframer {
        Unframer { bytes: vec![0; 2 * (FRAME_MAX + PREFIX)], begin: 0, end: 0 }
    }

    /// Returns the received part of the next frame, and the length of the whole frame; `None` while
    /// its length has not arrived.
    fn next(&self) -> io::Result<Option<(&[u8], usize)>> {
        let have = self.bytes.get(self.begin..self.end).unwrap_or_default();
        let Some((prefix, rest)) = have.split_first_chunk::<PREFIX>() else { return Ok(None) };
        let len = u32::from_be_bytes(*prefix) as usize;
        if len > FRAME_MAX {
            let what = format!("a frame of {len} bytes was announced; at most {FRAME_MAX} are possible");
            return Err(io::Error::new(ErrorKind::InvalidData, what));
        }
        Ok(Some((rest, len)))
    }

    /// Receives the next frame from `stream`, as [`FrameSource::recv`] does.
    pub(crate) fn recv(&mut self, stream: &mut impl Read, frame: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some((rest, len)) = self.next()?
                && let Some(bytes) = rest.get(..len)
            {
                if let Some(into) = frame.get_mut(..len) {
                    into.copy_from_slice(bytes);
                }
                self.begin += PREFIX + len;
                return Ok(len);
            }
            // After the received bytes are moved to the front, the rest of the frame always fits
            // after them.
            self.bytes.copy_within(self.begin..self.end, 0);
            (self.begin, self.end) = (0, self.end - self.begin);
            match stream.read(self.bytes.get_mut(self.end..).unwrap_or_default())? {
                0 if self.end == 0 => return Err(ErrorKind::UnexpectedEof.into()),
                0 => return Err(io::Error::other("the peer closed the stream within a frame")),
                n => self.end += n,
            }
        }
    }
}

impl FrameSource for StreamFrames {
    fn recv(&mut self, frame: &mut [u8]) -> io::Result<usize> {
        self.unframer.recv(&mut self.stream, frame)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.stream.as_fd())
    }

    fn is_ready(&self) -> bool {
        self.unframer.next().map_or(true, |next| next.is_some_and(|(rest, len)| rest.len() >= len))
    }
}

impl FrameSink for StreamSink {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.flush()?;
        self.rest.extend_from_slice(&(frame.len() as u32).to_be_bytes());
        self.rest.extend_from_slice(frame);
        match self.flush() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()), // the rest is sent later
            done => done,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.rest.is_empty() {
            let sent = match self.stream.write(&self.rest) {
                Ok(sent) => sent,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => {
                    if error.kind() != ErrorKind::WouldBlock {
                        self.rest.clear(); // the stream has ended
                    }
                    return Err(error);
                }
            };
            self.rest.drain(..sent);
        }
        Ok(())
    }
}

/// Source and sink of a datagram socket.
#[derive(Debug)]
pub struct DatagramFrames {
    socket: UnixDatagram,
    /// Path of the peer's socket; `None` if the socket is connected.
    peer: Option<Box<Path>>,
}

/// Creates a source and a sink for a datagram socket that is connected to its peer.
///
/// # Errors
/// The descriptor cannot be duplicated or made non-blocking.
pub fn datagrams(socket: UnixDatagram) -> io::Result<(DatagramFrames, DatagramFrames)> {
    datagrams_to(socket, None)
}

/// Creates a source and a sink for a bound datagram socket. Frames are sent to the socket at
/// `peer`, which may be replaced at any time.
fn datagrams_to(socket: UnixDatagram, peer: Option<&Path>) -> io::Result<(DatagramFrames, DatagramFrames)> {
    socket.set_nonblocking(true)?;
    let source = DatagramFrames { socket: socket.try_clone()?, peer: None };
    Ok((source, DatagramFrames { socket, peer: peer.map(Box::from) }))
}

impl FrameSource for DatagramFrames {
    fn recv(&mut self, frame: &mut [u8]) -> io::Result<usize> {
        os::unix::receive(self.socket.as_fd(), frame)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

impl FrameSink for DatagramFrames {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        match &self.peer {
            Some(path) => self.socket.send_to(frame, path).map(drop),
            None => self.socket.send(frame).map(drop),
        }
    }
}
