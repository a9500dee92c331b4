//! /dev/fuse: receives requests and sends answers.

use super::fuse::Answer;
use super::ring::Piece;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};

/// Maximum number of slices in one writev(2).
const SLICES: usize = 1024;

/// Connection of a mount to the kernel. Any thread may answer any request.
#[derive(Debug)]
pub struct Kernel(File);

impl Kernel {
    /// Creates a connection that uses `file`, an open /dev/fuse.
    pub fn new(file: File) -> Kernel {
        Kernel(file)
    }

    /// Waits for the next request, reads it into `buf` and returns it. Returns `None` when the
    /// mount has ended.
    ///
    /// # Errors
    /// System errors of read(2).
    pub fn receive<'b>(&self, buf: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        loop {
            match (&self.0).read(buf) {
                Ok(len) => return Ok(buf.get(..len)),
                Err(error) => match error.raw_os_error() {
                    Some(libc::ENODEV) => return Ok(None),
                    // ENOENT: the request was interrupted before it was read.
                    Some(libc::EINTR | libc::EAGAIN | libc::ENOENT) => {}
                    _ => return Err(error),
                },
            }
        }
    }

    /// Sends an answer. Errors are ignored, because the request may have been interrupted.
    pub fn send(&self, answer: &Answer) {
        let _ = (&self.0).write(answer.bytes());
    }

    /// Answers the read request `unique` with the bytes of `pieces`, without copying them. Returns
    /// false if the request was interrupted.
    pub fn send_data(&self, unique: u64, pieces: &[Piece]) -> bool {
        let len = pieces.iter().map(|piece| piece.bytes().len()).sum();
        let head = Answer::data(unique, len);
        if pieces.len() < SLICES {
            let mut slices = Vec::with_capacity(1 + pieces.len());
            slices.push(IoSlice::new(head.bytes()));
            slices.extend(pieces.iter().map(|piece| IoSlice::new(piece.bytes())));
            return (&self.0).write_vectored(&slices).is_ok();
        }
        let parts: Vec<&[u8]> = std::iter::once(head.bytes()).chain(pieces.iter().map(Piece::bytes)).collect();
        (&self.0).write(&parts.concat()).is_ok()
    }
}
