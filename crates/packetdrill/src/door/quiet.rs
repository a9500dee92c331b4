//! Detects whether other threads of this process run, since a virtual clock must not advance while
//! the script's thread is about to make a call.

use std::fs;

/// Linux's system call number of `futex`, in which a thread waits for another thread.
#[cfg(target_arch = "x86_64")]
const FUTEX: &str = "202";
#[cfg(not(target_arch = "x86_64"))]
const FUTEX: &str = "98";

/// Returns whether all other threads of this process wait in `futex`. If the system does not report
/// the system call of a thread, checks whether the thread sleeps.
pub(super) fn others_sleep() -> bool {
    let me = fs::read_link("/proc/thread-self").ok();
    let me = me.as_ref().and_then(|path| path.file_name());
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return true };
    threads.filter_map(Result::ok).filter(|thread| Some(thread.file_name().as_os_str()) != me).all(|thread| {
        match fs::read_to_string(thread.path().join("syscall")) {
            Ok(call) => call.split(' ').next() == Some(FUTEX),
            Err(_) => fs::read_to_string(thread.path().join("stat")).is_ok_and(|stat| {
                // The state follows the name, which may contain any characters.
                stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
            }),
        }
    })
}
