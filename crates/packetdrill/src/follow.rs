//! Sysctls that a script sets while it runs: knobs go with them.
//!
//! Scripts run `sysctl -q net.ipv4.tcp_ecn=1` in a shell. The kernel tells who watches the file that it was written; what is
//! in it then goes to the knob that means the same. What nobody writes is not looked at: the values that the namespace
//! began with are not the script's.

use crate::host::Host;
use crate::os;

use libc::c_int;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

const PLACE: &str = "/proc/sys/net/ipv4";

/// The files of this network namespace that were written since.
pub(crate) struct Follow {
    notes: File,
    names: BTreeMap<c_int, String>,
}

impl Follow {
    /// Begins to watch; `None` where the kernel does not allow it.
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

    /// Brings the host's knobs to what was written since the last time. What has no knob stays: the script may not depend on it.
    pub fn apply(&mut self, host: &mut Host) {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = self.notes.read(&mut buffer) {
            let mut rest = buffer.get(..n).unwrap_or_default();
            // struct inotify_event: wd, mask, cookie, len, and len bytes of a name (none for a file that is watched itself).
            while let Some((head, behind)) = rest.split_first_chunk::<16>() {
                let word =
                    |at: usize| head.get(at..at + 4).and_then(|four| four.first_chunk()).copied().unwrap_or_default();
                let name = self.names.get(&c_int::from_ne_bytes(word(0)));
                rest = behind.get(u32::from_ne_bytes(word(12)) as usize..).unwrap_or_default();
                let Some(name) = name else { continue };
                if let Ok(value) = fs::read_to_string(PathBuf::from(PLACE).join(name)) {
                    let _ = host.set(name, &value);
                }
            }
        }
    }
}
