//! A regular file of lines in pieces, for several threads to read beside each other.
//!
//! Its bytes are copied by pread(2): a file that is cut short or written to meanwhile gives the bytes that it has when each
//! piece is read, and ends where it ends then (docs/decisions/0027).

use super::BLOCK;
use super::text::in_bounds;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use wire::text::MAX_READ;

/// A file, cut: piece `n` has the lines that begin in its share of the bytes, to their ends.
#[derive(Debug)]
pub struct Cut {
    file: File,
    len: u64,
}

/// Bytes of a share: large enough that what two pieces both read does not matter, small enough for a second-level cache.
const SHARE: u64 = BLOCK as u64;

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
        Ok(Some(Cut { file, len: about.len() }))
    }

    /// How many pieces it has, by the length that it had when it was opened.
    pub fn pieces(&self) -> u64 {
        self.len.div_ceil(SHARE)
    }

    /// Reads the lines of piece `number` into `into`, which is emptied first. Returns how many were left out because they
    /// are longer than any frame's.
    ///
    /// # Errors
    /// pread(2)'s.
    pub fn read(&self, number: u64, into: &mut Vec<u8>) -> io::Result<u64> {
        Ok(self.read_whole(number, into)? + leave_out(into))
    }

    /// [`Cut::read`] with all long lines but the last, which is not read to its end.
    fn read_whole(&self, number: u64, into: &mut Vec<u8>) -> io::Result<u64> {
        let begin = number * SHARE;
        // The byte in front says whether a line begins here.
        let from = begin.saturating_sub(1);
        let want = usize::try_from((begin + SHARE).min(self.len).saturating_sub(from)).unwrap_or(0);
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
            left_out += cut.read(number, &mut buf).unwrap();
            assert!(buf.is_empty() || buf.ends_with(b"\n"));
            all.extend(&buf);
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
                let cut = Cut::of(&path).unwrap().unwrap();
                let mut expected: Vec<u8> = text;
                if !tail.is_empty() {
                    expected.push(b'\n');
                }
                let expected = if line - 1 > MAX_READ { (Vec::new(), 5) } else { (expected, 0) };
                assert!(all(&cut) == expected, "{line}");
            }
            std::fs::remove_file(&path).unwrap();
        }
        assert!(Cut::of(Path::new("/dev/null")).unwrap().is_none());
    }

    /// A file that is cut short ends where it ends when the piece is read; one that grew is read to its old length.
    #[test]
    fn a_file_that_changes_length_ends_at_its_end() {
        let path = std::env::temp_dir().join(format!("linerate-cut-short-{}", std::process::id()));
        let text = b"0011\n".repeat(BLOCK);
        std::fs::write(&path, &text).unwrap();
        let cut = Cut::of(&path).unwrap().unwrap();
        let writer = File::options().write(true).open(&path).unwrap();
        let mut buf = Vec::new();
        assert_eq!((cut.pieces(), cut.read(4, &mut buf).unwrap()), (5, 0));
        writer.set_len(BLOCK as u64 + 2).unwrap();
        let (lines, left_out) = all(&cut);
        assert_eq!(left_out, 0);
        // The line that lost its end is one without a newline.
        let mut expected = text[..BLOCK + 2].to_vec();
        expected.push(b'\n');
        assert!(lines == expected, "{} {}", lines.len(), expected.len());
        writer.set_len(0).unwrap();
        assert_eq!(all(&cut), (Vec::new(), 0));
        std::fs::write(&path, text.repeat(2)).unwrap();
        assert_eq!(all(&cut), (text, 0));
        std::fs::remove_file(&path).unwrap();
    }
}
