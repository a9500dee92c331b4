//! Frames over UNIX sockets, as QEMU's `-netdev stream` and `-netdev dgram`, passt and other
//! virtual machine monitors exchange them.
//!
//! On a stream, each frame follows its length in 4 bytes, in network byte order. On datagram
//! sockets, each datagram is a frame. Frames are Ethernet frames without FCS.

use super::{FrameSink, FrameSource};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};

/// Maximum length of a frame on a stream: an IP packet of 65,535 bytes with its link headers. QEMU
/// has the same limit, rounded up. A peer that announces more has lost its place in the stream.
pub const FRAME_MAX: usize = 65_535 + 18;
/// Number of bytes before each frame.
const PREFIX: usize = 4;

/// Received frames of a stream.
#[derive(Debug)]
pub struct StreamFrames {
    stream: UnixStream,
    unframer: Unframer,
}

/// Splits received bytes into frames.
#[derive(Debug)]
pub(crate) struct Unframer {
    /// Received bytes of `begin..end`: parts of frames, or several frames.
    bytes: Vec<u8>,
    begin: usize,
    end: usize,
}

/// Sent frames of a stream.
#[derive(Debug)]
pub struct StreamSink {
    stream: UnixStream,
    /// Bytes of the last frame that the kernel did not accept yet.
    rest: Vec<u8>,
}

/// Makes a source and a sink of a connected stream.
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

    /// Returns the received part of the next frame, without its length, and its whole length.
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
            // The rest of a frame always fits after it was moved to the front.
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

/// Source and sink of a connected datagram socket.
#[derive(Debug)]
pub struct DatagramFrames(UnixDatagram);

/// Makes a source and a sink of a datagram socket that is connected to its peer.
///
/// # Errors
/// The descriptor cannot be duplicated or made non-blocking.
pub fn datagrams(socket: UnixDatagram) -> io::Result<(DatagramFrames, DatagramFrames)> {
    socket.set_nonblocking(true)?;
    Ok((DatagramFrames(socket.try_clone()?), DatagramFrames(socket)))
}

impl FrameSource for DatagramFrames {
    fn recv(&mut self, frame: &mut [u8]) -> io::Result<usize> {
        self.0.recv(frame)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }
}

impl FrameSink for DatagramFrames {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.0.send(frame).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(source: &mut impl FrameSource) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let mut buf = vec![0; FRAME_MAX];
        while let Ok(len) = source.recv(&mut buf) {
            frames.push(buf[..len].to_vec());
        }
        frames
    }

    #[test]
    fn frames_of_every_length_arrive_whole() {
        let (left, right) = UnixStream::pair().unwrap();
        let ((mut source, _), (_, mut sink)) = (stream(left).unwrap(), stream(right).unwrap());
        let frames: Vec<Vec<u8>> = [0, 1, 60, 1514, 9000, FRAME_MAX, 14].map(|len| vec![len as u8; len]).into();
        let mut received = Vec::new();
        for frame in &frames {
            while let Err(error) = sink.send(frame) {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                received.extend(all(&mut source));
            }
        }
        while let Err(error) = sink.flush() {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            received.extend(all(&mut source));
        }
        received.extend(all(&mut source));
        assert_eq!(received, frames);
    }

    /// Bytes that arrive one by one give the same frames.
    #[test]
    fn a_frame_may_arrive_in_pieces() {
        let (left, mut right) = UnixStream::pair().unwrap();
        let (mut source, _) = stream(left).unwrap();
        let mut buf = [0; 100];
        for byte in [0, 0, 0, 2, 7, 8, 0, 0, 0, 1] {
            right.write_all(&[byte]).unwrap();
            match source.recv(&mut buf) {
                Ok(len) => assert_eq!((byte, &buf[..len]), (8, &[7, 8][..])),
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
        drop(right);
        assert_eq!(source.recv(&mut buf).unwrap_err().kind(), ErrorKind::Other, "the end is within a frame");
    }

    #[test]
    fn a_length_that_cannot_be_is_an_error_and_the_end_is_normal() {
        let (left, mut right) = UnixStream::pair().unwrap();
        let (mut source, mut sink) = stream(left).unwrap();
        right.write_all(&[0xff; 8]).unwrap();
        assert_eq!(source.recv(&mut [0; 10]).unwrap_err().kind(), ErrorKind::InvalidData);
        drop(right);
        assert_eq!(sink.send(&[0; 60]).unwrap_err().kind(), ErrorKind::BrokenPipe);
        let (left, right) = UnixStream::pair().unwrap();
        let (mut source, _) = stream(left).unwrap();
        drop(right);
        assert_eq!(source.recv(&mut [0; 10]).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_datagram_is_a_frame() {
        let (left, right) = UnixDatagram::pair().unwrap();
        let ((mut source, _), (_, mut sink)) = (datagrams(left).unwrap(), datagrams(right).unwrap());
        sink.send(&[1; 60]).unwrap();
        sink.send(&[2; 1514]).unwrap();
        assert_eq!(all(&mut source), [vec![1; 60], vec![2; 1514]]);
    }
}
