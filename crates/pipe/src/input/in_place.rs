//! Lines of a file in memory, decoded where they lie.

use super::text::in_bounds;
use crate::os::Leased;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};

/// The file from a place on, until it must be read after all: because somebody writes to it, or because its next line has no end.
pub(super) struct InPlace {
    leased: Leased,
    /// Shares its place with the stream that would read it.
    file: File,
    at: usize,
}

impl InPlace {
    /// What `file` has from where it stands. `None` if it must be read.
    pub fn of(file: &File) -> io::Result<Option<InPlace>> {
        let Some(leased) = Leased::of(file) else { return Ok(None) };
        let mut file = file.try_clone()?;
        let at = usize::try_from(file.stream_position()?).unwrap_or(usize::MAX);
        Ok(Some(InPlace { leased, file, at }))
    }

    /// Lets `work` see whole lines, at the most `most` bytes of them, and steps over as many as it says. `false` if there are none to be had
    /// in this way.
    pub fn lend(&mut self, most: usize, work: impl FnOnce(&[u8]) -> usize) -> bool {
        self.try_lend(most, work).is_some()
    }

    fn try_lend(&mut self, most: usize, work: impl FnOnce(&[u8]) -> usize) -> Option<()> {
        let all = self.leased.lease()?;
        let window = all.get(self.at..all.len().min(self.at.saturating_add(most)))?;
        let lines = window.get(..memchr::memrchr(b'\n', window)? + 1)?;
        let lines = lines.get(..in_bounds(lines)).filter(|lines| !lines.is_empty())?;
        self.at += work(lines);
        Some(())
    }

    /// Lets the stream go on where this ends.
    pub fn leave(mut self) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.at as u64)).map(drop)
    }
}
