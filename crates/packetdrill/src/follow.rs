//! Finds the kernel sysctls that a script sets while it runs; our host gets the same values.
//!
//! Scripts run `sysctl -q net.ipv4.tcp_ecn=1` in a shell. Inotify reports the file that was
//! written. Other files are not read, since they contain initial values of the namespace, which the
//! script has not set.

use crate::os;
use libc::c_int;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

const PLACE: &str = "/proc/sys/net/ipv4";

/// Watcher of the sysctl files of this network namespace.
pub(crate) struct Follow {
    notes: File,
    names: BTreeMap<c_int, String>,
}

impl Follow {
    /// Starts watching; returns `None` if the kernel does not permit it.
    pub fn new() -> Option<Follow> {
        let notes = os::inotify()?;
        let mut names = BTreeMap::new();
        for entry in fs::read_dir(PLACE).ok()?.filter_map(Result::ok) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Ok(path) = CString::new(entry.path().into_os_string().into_encoded_bytes()) else { continue };
            if name.starts_with("tcp_") {
                names.insert(os::watch_writes(&notes, &path), name);
            }
        }
        Some(Follow { notes, names })
    }

    /// Returns the names and values of the kernel sysctls written since the last call.
    pub fn written(&mut self) -> Vec<(String, String)> {
        let mut written = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = self.notes.read(&mut buffer) {
            let mut rest = buffer.get(..n).unwrap_or_default();
            // struct inotify_event: wd, mask, cookie, len, and len bytes of a name (none for a
            // watched file).
            while let Some((head, behind)) = rest.split_first_chunk::<16>() {
                let word =
                    |at: usize| head.get(at..at + 4).and_then(|four| four.first_chunk()).copied().unwrap_or_default();
                let name = self.names.get(&c_int::from_ne_bytes(word(0)));
                rest = behind.get(u32::from_ne_bytes(word(12)) as usize..).unwrap_or_default();
                let Some(name) = name else { continue };
                if let Ok(value) = fs::read_to_string(PathBuf::from(PLACE).join(name)) {
                    written.push((name.clone(), value));
                }
            }
        }
        written
    }
}
