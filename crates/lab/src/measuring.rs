//! Detects concurrent measurements, which disturb each other, with a lock file. The report of the
//! later measurement contains a warning.
//!
//! A measurement that is part of another one gets no warning: `linerate profile -- testtool` in one
//! process, a command that runs again in a namespace, or a command line of `linerate ab`. In these
//! cases this process or an ancestor holds the lock.

use crate::env::Environment;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Lock of the measuring process, held until dropped.
#[derive(Debug)]
pub struct Measuring {
    _lock: Option<File>,
}

impl Measuring {
    /// Reads the environment, before the measurement loads the machine, and takes the lock. If a
    /// process other than an ancestor holds the lock, [`Environment::warnings`] contains a warning.
    /// If the lock fails for another reason, there is no warning.
    pub fn begin() -> (Measuring, Environment) {
        let env = Environment::detect();
        let (measuring, measured_beside) = Measuring::at(&std::env::temp_dir().join("linerate-measuring.lock"));
        (measuring, Environment { measured_beside, ..env })
    }

    /// Takes the lock at `path`. The boolean is true if a process outside this measurement holds
    /// the lock.
    fn at(path: &Path) -> (Measuring, bool) {
        // Opened for reading first: the file may be another user's, and in a sticky directory the
        // kernel refuses even root to open such a file with O_CREAT (fs.protected_regular).
        let file = File::open(path)
            .or_else(|_| OpenOptions::new().create_new(true).write(true).open(path))
            .or_else(|_| File::open(path)); // another process created it in between
        let Ok(file) = file else { return (Measuring { _lock: None }, false) };
        match file.try_lock() {
            Ok(()) => (Measuring { _lock: Some(file) }, false),
            Err(std::fs::TryLockError::WouldBlock) => (Measuring { _lock: None }, !is_held_above(&file)),
            Err(std::fs::TryLockError::Error(_)) => (Measuring { _lock: None }, false),
        }
    }
}

/// Returns whether this process or an ancestor holds the lock of `file`; false if /proc does not
/// contain it.
fn is_held_above(file: &File) -> bool {
    let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
    let Some(holder) = file.metadata().ok().and_then(|of| holder(&locks, of.ino())) else { return false };
    let mut process = std::process::id();
    while process != holder && process > 1 {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        process = status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok()).unwrap_or(0);
    }
    process == holder
}

/// Returns the process that holds a flock(2) lock on the file with this inode number, from the text
/// of /proc/locks: `1: FLOCK  ADVISORY  WRITE 1234 08:01:5678 0 EOF`. The device number is not
/// compared, since that of stat(2) differs from it on some file systems.
fn holder(locks: &str, inode: u64) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (kind, process, place) = (words.next()?, words.nth(2)?, words.next()?);
        let found = kind == "FLOCK" && place.rsplit(':').next()?.parse() == Ok(inode);
        process.parse().ok().filter(|process| found && *process > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::PermissionsExt;
    use std::process::{Command, Stdio};

    #[test]
    fn a_second_measurement_is_warned_until_the_first_ends() {
        let path = std::env::temp_dir().join(format!("linerate-measuring-{}.lock", std::process::id()));
        // flock(1) holds the lock while `cat` waits for the end of its input.
        let mut other = Command::new("flock");
        other.arg(&path).args(["-c", "echo held; cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut other = other.spawn().unwrap();
        let mut held = String::new();
        BufReader::new(other.stdout.take().unwrap()).read_line(&mut held).unwrap();
        assert!(held == "held\n" && Measuring::at(&path).1);
        let env = Environment { measured_beside: true, ..Environment::detect() };
        assert!(env.warnings().iter().any(|why| why.contains("another linerate is measuring")));
        drop(other.stdin.take());
        other.wait().unwrap();
        // As with another user's file: readable, not writable.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
        assert!(!Measuring::at(&path).1);
        assert!(!Measuring::at(Path::new("/nonexistent/lock")).1);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_part_of_the_measurement_is_not_warned() {
        let path = std::env::temp_dir().join(format!("linerate-measuring-{}.part", std::process::id()));
        let (_whole, others) = Measuring::at(&path);
        let (part, beside) = Measuring::at(&path);
        assert!(!others && !beside && part._lock.is_none());
        std::fs::remove_file(&path).unwrap();
        let locks = "1: POSIX  ADVISORY  WRITE 1 08:01:5 0 EOF\n2: FLOCK  ADVISORY  WRITE 12 00:2f:5 0 EOF\n";
        assert_eq!([holder(locks, 5), holder(locks, 6), holder("2: FLOCK", 5)], [Some(12), None, None]);
    }
}
