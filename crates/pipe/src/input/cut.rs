//! A regular file of lines in pieces, for several threads to read beside each other.

use super::BLOCK;
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
        Ok(about.is_file().then(|| Cut { file, len: about.len() }))
    }

    /// How many pieces it has, by the length that it had when it was opened.
    pub fn pieces(&self) -> u64 {
        self.len.div_ceil(SHARE)
    }

    /// The lines of piece `number` into `into`, which is emptied first; says how many were left out because they are longer than any
    /// frame's.
    ///
    /// # Errors
    /// What reading says.
    pub fn read(&self, number: u64, into: &mut Vec<u8>) -> io::Result<u64> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_pieces_are_the_file_and_each_has_whole_lines() {
        let path = std::env::temp_dir().join(format!("linerate-cut-{}", std::process::id()));
        for (line, tail) in [(1_usize, ""), (169, ""), (4531, "open"), (BLOCK + 7, ""), (BLOCK / 2, "x"), (31, "")] {
            let mut text = Vec::new();
            while text.len() < 5 * BLOCK {
                text.extend(std::iter::repeat_n(b'a' + (text.len() % 23) as u8, line - 1));
                text.push(b'\n');
            }
            text.extend(tail.as_bytes());
            File::create(&path).unwrap().write_all(&text).unwrap();
            let cut = Cut::of(&path).unwrap().unwrap();
            let (mut all, mut piece, mut left_out) = (Vec::<u8>::new(), Vec::new(), 0);
            for number in 0..cut.pieces() {
                left_out += cut.read(number, &mut piece).unwrap();
                assert!(piece.is_empty() || piece.ends_with(b"\n"));
                all.extend(&piece);
            }
            let mut expected: Vec<u8> = text;
            if !tail.is_empty() {
                expected.push(b'\n');
            }
            if line - 1 > MAX_READ {
                assert_eq!((all.len(), left_out), (0, 5));
            } else {
                assert!(all == expected, "{line}");
                assert_eq!(left_out, 0);
            }
        }
        std::fs::remove_file(&path).unwrap();
        assert!(Cut::of(Path::new("/dev/null")).unwrap().is_none());
    }
}
