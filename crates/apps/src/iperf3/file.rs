//! A stream's file (-F): what a sender sends instead of the usual payload, where a receiver writes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

/// A file of one stream.
#[derive(Debug)]
pub(super) struct StreamFile {
    file: File,
    /// Sender: bytes read and not sent yet.
    buffer: Vec<u8>,
    block: usize,
    at: usize,
    /// Sender: the whole file is sent. Sender or receiver: reading or writing failed.
    is_over: bool,
    failure: Option<io::Error>,
}

impl StreamFile {
    /// A file that a stream sends in blocks of so many bytes.
    ///
    /// # Errors
    /// It cannot be opened or read.
    pub(super) fn source(path: &Path, block: usize) -> io::Result<StreamFile> {
        let mut source = StreamFile { block, ..StreamFile::new(File::open(path)?) };
        source.advance(0);
        source.failure.take().map_or(Ok(source), Err)
    }

    /// A file that takes what a stream receives; what was in it is gone.
    ///
    /// # Errors
    /// It cannot be made.
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

    /// Writes what was received.
    pub(super) fn write(&mut self, bytes: &[u8]) {
        if let Err(why) = self.file.write_all(bytes) {
            (self.is_over, self.failure) = (true, Some(why));
        }
    }

    /// Returns whether nothing is left to be sent.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the error of reading or writing.
    pub(super) fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Bytes of the file.
    pub(super) fn len(&self) -> Option<u64> {
        self.file.metadata().ok().map(|meta| meta.len())
    }
}
