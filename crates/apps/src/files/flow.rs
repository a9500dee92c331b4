//! Reads and writes files one buffer at a time.

use super::Refusal;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

/// Content of `/dev/zero`, sent without copying.
pub static ZEROS: [u8; 256 * 1024] = [0; 256 * 1024];
/// Number of bytes read from disk at a time, and thus the memory used per slow client.
const BUFFER: usize = 64 * 1024;

/// A file being read.
#[derive(Debug)]
pub struct Source {
    from: Origin,
    /// Number of remaining bytes; `u64::MAX` means endless.
    left: u64,
}

#[derive(Debug)]
enum Origin {
    Zeros,
    Bytes { bytes: Arc<[u8]>, at: usize },
    File { file: File, buffer: Vec<u8>, at: usize },
}

impl Source {
    /// Creates a source of `left` zero bytes; `u64::MAX` means endless.
    pub fn zeros(left: u64) -> Source {
        Source { from: Origin::Zeros, left }
    }

    /// Creates a source that reads at most `most` bytes from `bytes`, starting at `offset`.
    pub fn bytes(bytes: Arc<[u8]>, offset: u64, most: u64) -> Source {
        let at = usize::try_from(offset).map_or(bytes.len(), |at| at.min(bytes.len()));
        let left = ((bytes.len() - at) as u64).min(most);
        Source { from: Origin::Bytes { bytes, at }, left }
    }

    /// Creates a source that reads a file of length `len` from `offset` on.
    pub(super) fn file(mut file: File, offset: u64, len: u64) -> Result<Source, Refusal> {
        let offset = offset.min(len);
        file.seek(SeekFrom::Start(offset))?;
        Ok(Source { from: Origin::File { file, buffer: Vec::new(), at: 0 }, left: len - offset })
    }

    /// Returns the number of remaining bytes; `None` if endless.
    pub fn left(&self) -> Option<u64> {
        (self.left != u64::MAX).then_some(self.left)
    }

    /// Limits the remaining bytes to `most`.
    pub fn limit(&mut self, most: u64) {
        self.left = self.left.min(most);
    }

    /// Returns the next bytes to send; empty at the end of the file.
    ///
    /// # Errors
    /// Errors of reading the file; `UnexpectedEof` if the file was truncated in the meantime.
    pub fn peek(&mut self) -> io::Result<&[u8]> {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let bytes = match &mut self.from {
            Origin::Zeros => &ZEROS[..],
            Origin::Bytes { bytes, at } => bytes.get(*at..).unwrap_or_default(),
            Origin::File { file, buffer, at } => {
                if *at >= buffer.len() && left > 0 {
                    buffer.resize(BUFFER.min(left), 0);
                    *at = 0;
                    let read = file.read(buffer);
                    buffer.truncate(*read.as_ref().unwrap_or(&0));
                    if read? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                buffer.get(*at..).unwrap_or_default()
            }
        };
        Ok(bytes.get(..left).unwrap_or(bytes))
    }

    /// Consumes the first `n` bytes of [`Source::peek`].
    pub fn advance(&mut self, n: usize) {
        if self.left != u64::MAX {
            self.left = self.left.saturating_sub(n as u64);
        }
        match &mut self.from {
            Origin::Zeros => {}
            Origin::Bytes { at, .. } | Origin::File { at, .. } => *at = at.saturating_add(n),
        }
    }
}

/// A file being written.
#[derive(Debug)]
pub struct Sink {
    file: Option<File>,
    left: u64,
}

impl Sink {
    /// Creates a sink that discards everything.
    pub fn null() -> Sink {
        Sink { file: None, left: u64::MAX }
    }

    /// Creates a sink that writes at most `left` bytes to `file`.
    pub(super) fn file(file: File, left: u64) -> Sink {
        Sink { file: Some(file), left }
    }

    /// Returns whether the sink discards all data.
    pub fn is_null(&self) -> bool {
        self.file.is_none()
    }

    /// Writes all bytes.
    ///
    /// # Errors
    /// `NoSpace` if the limit is exceeded or the disk is full; `Io`.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        let Some(file) = &mut self.file else { return Ok(()) };
        self.left = self.left.checked_sub(bytes.len() as u64).ok_or(Refusal::NoSpace)?;
        Ok(file.write_all(bytes)?)
    }
}
