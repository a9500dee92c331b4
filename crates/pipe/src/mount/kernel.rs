//! /dev/fuse: where requests come from and answers go to.

use super::fuse::Answer;
use super::ring::Piece;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};

/// Slices of one writev(2).
const SLICES: usize = 1024;

/// The kernel's end of a mount. Any thread may answer.
#[derive(Debug)]
pub struct Kernel(File);

impl Kernel {
    /// Speaks through `file`.
    pub fn new(file: File) -> Kernel {
        Kernel(file)
    }

    /// The next request; `None` when the mount has ended.
    ///
    /// # Errors
    /// The system's.
    pub fn receive<'b>(&self, buf: &'b mut [u8]) -> io::Result<Option<&'b [u8]>> {
        loop {
            match (&self.0).read(buf) {
                Ok(len) => return Ok(buf.get(..len)),
                Err(error) => match error.raw_os_error() {
                    Some(libc::ENODEV) => return Ok(None),
                    // ENOENT: who asked has given up before the question was read.
                    Some(libc::EINTR | libc::EAGAIN | libc::ENOENT) => {}
                    _ => return Err(error),
                },
            }
        }
    }

    /// Sends an answer. That nobody waits for it any more is nobody's fault.
    pub fn send(&self, answer: &Answer) {
        let _ = (&self.0).write(answer.bytes());
    }

    /// Sends records, from where they are; `false` if nobody waits for them any more.
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
