//! The file of a stream (-F): source of a sender's payload, or destination of received data.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

/// The file of one stream.
#[derive(Debug)]
pub(super) struct StreamFile {
    file: File,
    /// Sender: block read from the file; sent up to `at`.
    buffer: Vec<u8>,
    block: usize,
    at: usize,
    /// Sender: the whole file was sent. Both: reading or writing failed.
    is_over: bool,
    failure: Option<io::Error>,
}

impl StreamFile {
    /// Opens a file that a stream sends in blocks of `block` bytes.
    ///
    /// # Errors
    /// It cannot be opened or read.
    pub(super) fn source(path: &Path, block: usize) -> io::Result<StreamFile> {
        let mut source = StreamFile { block, ..StreamFile::new(File::open(path)?) };
        source.advance(0);
        source.failure.take().map_or(Ok(source), Err)
    }

    /// Creates or truncates a file for received data.
    ///
    /// # Errors
    /// It cannot be created.
    pub(super) fn sink(path: &Path) -> io::Result<StreamFile> {
        Ok(StreamFile::new(File::create(path)?))
    }

    fn new(file: File) -> StreamFile {
        StreamFile { file, buffer: Vec::new(), block: 0, at: 0, is_over: false, failure: None }
    }

    /// Returns the bytes to send next; empty at the end.
    pub(super) fn output(&self) -> &[u8] {
        self.buffer.get(self.at..).unwrap_or_default()
    }

    /// Advances by `n` sent bytes; reads the next block after the last byte of this one.
    pub(super) fn advance(&mut self, n: usize) {
        self.at = self.at.saturating_add(n);
        if self.at < self.buffer.len() || self.is_over {
            return;
        }
        self.buffer.resize(self.block, 0);
        let read = self.file.read(&mut self.buffer);
        self.buffer.truncate(*read.as_ref().unwrap_or(&0));
        (self.at, self.is_over) = (0, self.buffer.is_empty());
        self.failure = read.err();
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        if let Err(why) = self.file.write_all(bytes) {
            (self.is_over, self.failure) = (true, Some(why));
        }
    }

    /// Returns whether nothing is left to send, or an error occurred.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the read or write error.
    pub(super) fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Returns the length of the file.
    pub(super) fn len(&self) -> Option<u64> {
        self.file.metadata().ok().map(|meta| meta.len())
    }
}
