//! Two measurements at once: each is the other's busy neighbor, and both are told so in their reports.

use std::fs::{File, OpenOptions};
use std::path::PathBuf;

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

    fn at(path: &PathBuf) -> (Measuring, Option<String>) {
        let Ok(file) = OpenOptions::new().create(true).truncate(false).write(true).open(path) else {
            return (Measuring { _lock: None }, None);
        };
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

    #[test]
    fn the_second_is_warned_until_the_first_ends() {
        let path = std::env::temp_dir().join(format!("linerate-measuring-{}.lock", std::process::id()));
        let (first, none) = Measuring::at(&path);
        assert_eq!(none, None);
        assert!(Measuring::at(&path).1.is_some_and(|why| why.contains("another linerate measures")));
        drop(first);
        assert_eq!(Measuring::at(&path).1, None);
        assert_eq!(Measuring::at(&"/nonexistent/lock".into()).1, None);
        std::fs::remove_file(&path).unwrap();
    }
}
