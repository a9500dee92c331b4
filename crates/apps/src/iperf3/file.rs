//! The file of a stream (-F): its content is sent as payload, or received data is written to it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

/// The file of one stream.
#[derive(Debug)]
pub(super) struct StreamFile {
    file: File,
    /// On the sender: the block read from the file; the bytes before `at` are already sent.
    buffer: Vec<u8>,
    block: usize,
    at: usize,
    /// Set if the sender has sent the whole file, or if reading or writing has failed.
    is_over: bool,
    failure: Option<io::Error>,
}

impl StreamFile {
    /// Opens a file whose content a stream sends in blocks of `block` bytes.
    ///
    /// # Errors
    /// Errors of opening the file or reading its first block.
    pub(super) fn source(path: &Path, block: usize) -> io::Result<StreamFile> {
        let mut source = StreamFile { block, ..StreamFile::new(File::open(path)?) };
        source.advance(0);
        source.failure.take().map_or(Ok(source), Err)
    }

    /// Creates or truncates a file to which a stream writes its received data.
    ///
    /// # Errors
    /// Errors of creating the file.
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

    /// Removes `n` sent bytes from the current block. If the block is then empty, reads the next
    /// block.
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

    /// Returns whether the whole file was sent, or reading or writing has failed.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the error of reading or writing, if any.
    pub(super) fn failure(&self) -> Option<&io::Error> {
        self.failure.as_ref()
    }

    /// Returns the length of the file in bytes.
    pub(super) fn len(&self) -> Option<u64> {
        self.file.metadata().ok().map(|meta| meta.len())
    }
}
