//! Two measurements at once: each is the other's busy neighbor, and both are told so in their reports.

use std::fs::{File, OpenOptions};
use std::path::Path;

/// Holds the lock of the measuring process while it lives.
#[derive(Debug)]
pub(crate) struct Measuring {
    _lock: Option<File>,
}

impl Measuring {
    /// Takes the lock; with it a warning if another process holds it. A lock that cannot be had for another reason warns of nothing.
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
        // As of another user's file: it can be read and not written.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
        assert_eq!(Measuring::at(&path).1, None);
        assert_eq!(Measuring::at(Path::new("/nonexistent/lock")).1, None);
        std::fs::remove_file(&path).unwrap();
    }
}
