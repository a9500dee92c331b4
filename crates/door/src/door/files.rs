//! Files and names of the UNIX sockets.

use crate::os::Name;
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// Files and names of the UNIX sockets.
#[derive(Debug)]
pub(super) struct Files {
    /// Directory that only this user may enter.
    dir: PathBuf,
    random: [u8; 8],
    made: u64,
}

impl Files {
    pub(super) fn new() -> io::Result<Files> {
        let mut random = [0; 8];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
        let word = u64::from_ne_bytes(random);
        let dir = std::env::temp_dir().join(format!("linerate-run-{word:016x}"));
        let named = |why| io::Error::other(format!("{}: {why}", dir.display()));
        std::fs::DirBuilder::new().mode(0o700).create(&dir).map_err(named)?;
        Ok(Files { dir, random, made: 0 })
    }

    pub(super) fn path(&mut self) -> PathBuf {
        self.made += 1;
        self.dir.join(self.made.to_string())
    }

    pub(super) fn number(&mut self) -> u32 {
        self.made += 1;
        self.made as u32
    }

    pub(super) fn name(&mut self) -> Name {
        self.made += 1;
        let mut name = [0; 16];
        name.iter_mut().zip(self.random.into_iter().chain(self.made.to_ne_bytes())).for_each(|(to, from)| *to = from);
        Name(name)
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir); // files in /tmp that are of no use now
    }
}
