//! Detection of two measurements at once, which disturb each other: a lock file, and a warning in
//! the report of the later one.

use crate::env::Environment;
use std::fs::{File, OpenOptions};
use std::path::Path;

/// Lock of the measuring process, held until dropped.
#[derive(Debug)]
pub struct Measuring {
    _lock: Option<File>,
}

impl Measuring {
    /// Describes the machine, before the measurement loads it, and takes the lock. If another
    /// process holds it, [`Environment::warnings`] has a warning; none if the lock fails for another
    /// reason.
    pub fn begin() -> (Measuring, Environment) {
        let env = Environment::detect();
        let (measuring, measured_beside) = Measuring::at(&std::env::temp_dir().join("linerate-measuring.lock"));
        (measuring, Environment { measured_beside, ..env })
    }

    /// Takes the lock at `path`. Returns whether another process holds it.
    fn at(path: &Path) -> (Measuring, bool) {
        // Opened for reading first: the file may be another user's, and in a sticky directory the kernel refuses even
        // root to open such a file with O_CREAT (fs.protected_regular).
        let file = File::open(path)
            .or_else(|_| OpenOptions::new().create_new(true).write(true).open(path))
            .or_else(|_| File::open(path)); // another process created it in between
        let Ok(file) = file else { return (Measuring { _lock: None }, false) };
        match file.try_lock() {
            Ok(()) => (Measuring { _lock: Some(file) }, false),
            Err(std::fs::TryLockError::WouldBlock) => (Measuring { _lock: None }, true),
            Err(std::fs::TryLockError::Error(_)) => (Measuring { _lock: None }, false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_second_is_warned_until_the_first_ends() {
        let path = std::env::temp_dir().join(format!("linerate-measuring-{}.lock", std::process::id()));
        let (first, others) = Measuring::at(&path);
        assert!(!others && Measuring::at(&path).1);
        let env = Environment { measured_beside: true, ..Environment::detect() };
        assert!(env.warnings().iter().any(|why| why.contains("another linerate measures")));
        drop(first);
        // Like another user's file: readable, not writable.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
        assert!(!Measuring::at(&path).1);
        assert!(!Measuring::at(Path::new("/nonexistent/lock")).1);
        std::fs::remove_file(&path).unwrap();
    }
}
