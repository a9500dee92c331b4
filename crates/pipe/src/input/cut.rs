//! Splits a regular file of lines into pieces that several threads read concurrently.
//!
//! The file is read with pread(2). Another process may truncate or overwrite the file meanwhile.
//! Each piece then has the bytes that the file contains when the piece is read
//! (docs/decisions/0027).

use super::text::{BLOCK, in_bounds};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use wire::text::MAX_READ;

/// A file of lines, split into shares of equal size. Piece `n` consists of the lines that begin in
/// share `n`. The last line of a piece may end in a later share.
#[derive(Debug)]
pub struct Cut {
    file: File,
    len: u64,
}

/// Size of a share in bytes. It is large compared with the bytes at a boundary, which are read for
/// both pieces, but small enough for a second-level cache.
const SHARE: u64 = BLOCK as u64;

impl Cut {
    /// Opens `path`; returns `None` if it is not a regular file.
    ///
    /// # Errors
    /// Errors of opening the file.
    pub fn of(path: &Path) -> io::Result<Option<Cut>> {
        let file = File::open(path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Ok(None);
        }
        Ok(Some(Cut { file, len: about.len() }))
    }

    /// Returns the number of pieces, which depends on the length of the file when it was opened.
    pub fn pieces(&self) -> u64 {
        self.len.div_ceil(SHARE)
    }

    /// Reads the lines of piece `number` into `into`, which is cleared first. Lines that are longer
    /// than the line of the longest frame are left out. Returns the number of these lines.
    ///
    /// # Errors
    /// Errors of pread(2).
    pub fn read(&self, number: u64, into: &mut Vec<u8>) -> io::Result<u64> {
        Ok(self.read_whole(number, into)? + leave_out(into))
    }

    /// Reads the lines of piece `number` into `into`. Leaves out the last line if it is over-long,
    /// because it is not read to its end. All other over-long lines are kept. Returns the number of
    /// lines left out.
    fn read_whole(&self, number: u64, into: &mut Vec<u8>) -> io::Result<u64> {
        let begin = number * SHARE;
        // The byte before the share determines whether a line begins at the start of the share.
        let from = begin.saturating_sub(1);
        let want = usize::try_from((begin + SHARE).min(self.len).saturating_sub(from)).unwrap_or(0);
        into.resize(want, 0);
        let got = self.fill(into, 0, from)?;
        into.truncate(got);
        if number > 0 {
            match memchr::memchr(b'\n', into) {
                Some(end) => drop(into.drain(..=end)),
                None => {
                    // The whole share is the middle of a line that began earlier.
                    into.clear();
                    return Ok(0);
                }
            }
        }
        if into.is_empty() {
            return Ok(0);
        }
        let mut at = from + got as u64;
        // The last line continues in the next share. It began in this share; otherwise the newline
        // found above would be the last byte.
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
                // The last line of the file may lack a newline.
                into.push(b'\n');
            }
        }
        Ok(0)
    }

    /// Reads the bytes from offset `from` of the file into `buf`, after its first `have` bytes,
    /// until `buf` is full or the file ends. Returns the number of bytes read.
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

/// Removes lines that are longer than the line of the longest frame. Returns the number of lines
/// removed.
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

    /// Returns the lines of all pieces, and the number of lines left out.
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
    fn pieces_cover_the_file_in_whole_lines() {
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

    /// If the file has been truncated, each piece is read up to the new end of the file. If the
    /// file has grown, it is read up to the length that it had when it was opened.
    #[test]
    fn a_file_that_changes_length_is_read_to_its_end() {
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
        // The truncated line counts as a line without a newline.
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
