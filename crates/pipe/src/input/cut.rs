//! A regular file of lines in pieces, for several threads to read beside each other.

use super::BLOCK;
use super::text::in_bounds;
use crate::os::{Lease, Leased};
use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::os::unix::fs::FileExt;
use std::path::Path;
use wire::text::MAX_READ;

/// A file, cut: piece `n` has the lines that begin in its share of the bytes, to their ends.
#[derive(Debug)]
pub struct Cut {
    file: File,
    len: u64,
    leased: Option<Leased>,
    /// Bytes of a share.
    share: u64,
}

/// Read: large enough that what two pieces both read does not matter, small enough for a second-level cache.
const SHARE: u64 = BLOCK as u64;
/// Not read: the lease costs 2.4 us a piece, and a writer waits for as long as one takes, some 150 us.
const LEASED_SHARE: u64 = 4 * SHARE;

/// The lines of a piece.
#[derive(Debug)]
pub enum Piece<'a> {
    /// Read.
    Read(&'a [u8]),
    /// Where they lie: to be let go of soon, since writers wait.
    InPlace(Lease<'a>, Range<usize>),
}

impl Deref for Piece<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Piece::Read(lines) => lines,
            Piece::InPlace(all, range) => all.get(range.clone()).unwrap_or_default(),
        }
    }
}

impl Cut {
    /// `None` for what is no regular file.
    ///
    /// # Errors
    /// What opening says.
    pub fn of(path: &Path) -> io::Result<Option<Cut>> {
        let file = File::open(path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Ok(None);
        }
        let leased = Leased::of(&file);
        let share = if leased.is_some() { LEASED_SHARE } else { SHARE };
        Ok(Some(Cut { file, len: about.len(), leased, share }))
    }

    /// Need its bytes not be copied to be looked at? Only as long as nobody writes to it.
    pub fn is_in_place(&self) -> bool {
        self.leased.is_some()
    }

    /// How many pieces it has, by the length that it had when it was opened.
    pub fn pieces(&self) -> u64 {
        self.len.div_ceil(self.share)
    }

    /// The lines of piece `number`, read into `buf` if they must be; and how many were left out because they are longer than any frame's.
    ///
    /// # Errors
    /// What reading says.
    pub fn lend<'a>(&'a self, number: u64, buf: &'a mut Vec<u8>) -> io::Result<(Piece<'a>, u64)> {
        if let Some(all) = self.leased.as_ref().and_then(Leased::lease)
            && let Some(range) = self.lines_of(number, &all)
            && in_bounds(all.get(range.clone()).unwrap_or_default()) == range.len()
        {
            return Ok((Piece::InPlace(all, range), 0));
        }
        let left_out = self.read(number, buf)? + leave_out(buf);
        Ok((Piece::Read(buf), left_out))
    }

    /// Where the lines of piece `number` stand in `all`. `None` where a line has no end, or comes to an end too late.
    fn lines_of(&self, number: u64, all: &[u8]) -> Option<Range<usize>> {
        let begin = usize::try_from(number.checked_mul(self.share)?).ok()?;
        let end = begin.checked_add(usize::try_from(self.share).ok()?)?.min(all.len());
        // The first line that begins at `at` or behind it.
        let line = |at: usize| match at.checked_sub(1) {
            None => Some(0),
            Some(_) if at == all.len() => (all.last() == Some(&b'\n')).then_some(at),
            Some(before) => {
                let window = all.get(before..all.len().min(at + MAX_READ))?;
                memchr::memchr(b'\n', window).map(|newline| at + newline)
            }
        };
        Some(line(begin)?..line(end)?)
    }

    /// The lines of piece `number` into `into`, which is emptied first; says how many were left out because they are longer than any
    /// frame's.
    ///
    /// # Errors
    /// What reading says.
    fn read(&self, number: u64, into: &mut Vec<u8>) -> io::Result<u64> {
        let begin = number * self.share;
        // The byte in front says whether a line begins here.
        let from = begin.saturating_sub(1);
        let want = usize::try_from((begin + self.share).min(self.len).saturating_sub(from)).unwrap_or(0);
        into.resize(want, 0);
        let got = self.fill(into, 0, from)?;
        into.truncate(got);
        if number > 0 {
            match memchr::memchr(b'\n', into) {
                Some(end) => drop(into.drain(..=end)),
                None => {
                    // All of it is the middle of a line that began before.
                    into.clear();
                    return Ok(0);
                }
            }
        }
        if into.is_empty() {
            return Ok(0);
        }
        let mut at = from + got as u64;
        // The last line goes on into the next share. That it began in this one: else the newline above would have been the last byte.
        let last = memchr::memrchr(b'\n', into).map_or(0, |newline| newline + 1);
        while into.last() != Some(&b'\n') {
            let have = into.len();
            if have - last > MAX_READ {
                into.truncate(last);
                return Ok(1);
            }
            into.resize(have + 4096, 0);
            let more = self.fill(into, have, at)?;
            at += more as u64;
            let behind = into.get(have..have + more).unwrap_or_default();
            let end = memchr::memchr(b'\n', behind).map_or(more, |newline| newline + 1);
            into.truncate(have + end);
            if more == 0 {
                // The file's last line needs no newline.
                into.push(b'\n');
            }
        }
        Ok(0)
    }

    /// Reads into `buf` behind its first `have` bytes until it is full or the file ends; how many bytes that were.
    fn fill(&self, buf: &mut [u8], have: usize, from: u64) -> io::Result<usize> {
        let mut got = 0;
        while let Some(room) = buf.get_mut(have + got..).filter(|room| !room.is_empty()) {
            match self.file.read_at(room, from + got as u64) {
                Ok(0) => break,
                Ok(n) => got += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(got)
    }
}

/// Leaves out lines that are longer than any frame's; how many.
fn leave_out(lines: &mut Vec<u8>) -> u64 {
    let (mut at, mut left_out) = (0, 0);
    loop {
        let rest = lines.get(at..).unwrap_or_default();
        at += in_bounds(rest);
        let Some(long) = lines.get(at..).filter(|rest| !rest.is_empty()) else { return left_out };
        let end = memchr::memchr(b'\n', long).map_or(lines.len(), |newline| at + newline + 1);
        lines.drain(at..end);
        left_out += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// What all pieces give, and how many lines were left out.
    fn all(cut: &Cut) -> (Vec<u8>, u64) {
        let (mut all, mut buf, mut left_out) = (Vec::<u8>::new(), Vec::new(), 0);
        for number in 0..cut.pieces() {
            let (piece, without) = cut.lend(number, &mut buf).unwrap();
            assert!(piece.is_empty() || piece.ends_with(b"\n"));
            all.extend(&*piece);
            left_out += without;
        }
        (all, left_out)
    }

    #[test]
    fn the_pieces_are_the_file_and_each_has_whole_lines() {
        let dirs = [std::env::temp_dir(), "/dev/shm".into()];
        for dir in dirs.iter().filter(|dir| dir.is_dir()) {
            let path = dir.join(format!("linerate-cut-{}", std::process::id()));
            for (line, tail) in [(1_usize, ""), (169, ""), (4531, "open"), (BLOCK + 7, ""), (BLOCK / 2, "x"), (31, "")]
            {
                let mut text = Vec::new();
                while text.len() < 5 * BLOCK {
                    text.extend(std::iter::repeat_n(b'a' + (text.len() % 23) as u8, line - 1));
                    text.push(b'\n');
                }
                text.extend(tail.as_bytes());
                File::create(&path).unwrap().write_all(&text).unwrap();
                let mut cut = Cut::of(&path).unwrap().unwrap();
                let mut expected: Vec<u8> = text;
                if !tail.is_empty() {
                    expected.push(b'\n');
                }
                let expected = if line - 1 > MAX_READ { (Vec::new(), 5) } else { (expected, 0) };
                assert!(all(&cut) == expected, "{line} {}", cut.is_in_place());
                // Read in shares of this size, as when a writer came in between.
                cut.leased = None;
                assert!(all(&cut) == expected, "{line}");
            }
            std::fs::remove_file(&path).unwrap();
        }
        assert!(Cut::of(Path::new("/dev/null")).unwrap().is_none());
    }

    #[test]
    fn a_file_in_memory_is_not_copied_unless_somebody_writes_to_it() {
        let path = Path::new("/dev/shm").join(format!("linerate-cut-in-place-{}", std::process::id()));
        if let Err(why) = std::fs::write(&path, "0011\n0022\n") {
            return println!("skipped: /dev/shm: {why}");
        }
        let mut buf = Vec::new();
        let cut = Cut::of(&path).unwrap().unwrap();
        assert!(matches!(cut.lend(0, &mut buf).unwrap().0, Piece::InPlace(..)));
        let writer = File::options().write(true).open(&path).unwrap();
        assert!(matches!(cut.lend(0, &mut buf).unwrap().0, Piece::Read(b"0011\n0022\n")));
        drop(writer);
        std::fs::remove_file(&path).unwrap();
    }
}
