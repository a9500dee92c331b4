//! Detection of two measurements at once, which disturb each other: a lock file, and a warning in
//! the report of the later one.

use std::fs::{File, OpenOptions};
use std::path::Path;

/// Lock of the measuring process, held until dropped.
#[derive(Debug)]
pub(crate) struct Measuring {
    _lock: Option<File>,
}

impl Measuring {
    /// Takes the lock, and returns a warning if another process holds it. No warning is given if
    /// the lock fails for another reason.
    pub(crate) fn begin() -> (Measuring, Option<String>) {
        Measuring::at(&std::env::temp_dir().join("linerate-measuring.lock"))
    }

    fn at(path: &Path) -> (Measuring, Option<String>) {
        // Opened for reading first: the file may be another user's, and in a sticky directory the kernel refuses even
        // root to open such a file with O_CREAT (fs.protected_regular).
        let file = File::open(path)
            .or_else(|_| OpenOptions::new().create_new(true).write(true).open(path))
            .or_else(|_| File::open(path)); // another process created it in between
        let Ok(file) = file else { return (Measuring { _lock: None }, None) };
        match file.try_lock() {
            Ok(()) => (Measuring { _lock: Some(file) }, None),
            Err(std::fs::TryLockError::WouldBlock) => {
                let why =
                    "WARNING: another linerate measures on this machine at the same time: its load is in these figures";
                (Measuring { _lock: None }, Some(why.to_owned()))
            }
            Err(std::fs::TryLockError::Error(_)) => (Measuring { _lock: None }, None),
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
        let (first, none) = Measuring::at(&path);
        assert_eq!(none, None);
        assert!(Measuring::at(&path).1.is_some_and(|why| why.contains("another linerate measures")));
        drop(first);
        // Like another user's file: readable, not writable.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
        assert_eq!(Measuring::at(&path).1, None);
        assert_eq!(Measuring::at(Path::new("/nonexistent/lock")).1, None);
        std::fs::remove_file(&path).unwrap();
    }
}
