//! Checks that hosts in one process share no state: values that outlive every stack are permitted
//! only in listed modules.
//!
//! Searches for mutable `static`s and `thread_local!`. Constant statics are permitted. Tests and
//! examples are exempt.

use super::{Finding, Room, Tree, in_room};
use crate::source::{has_token, words};

/// Modules in which values may outlive a stack.
const ROOMS: &[Room] = &[
    Room { path: "crates/clock/src/tsc", why: "rate and start of the machine's time-stamp counter" },
    Room { path: "crates/stats/src/trace", why: "the kernel counts tracers in one place of the program" },
    Room { path: "crates/lock/src/context", why: "numbers of the process's threads" },
    Room { path: "crates/lock/src/heavy", why: "statistics of the semaphores, as in a kernel" },
    Room { path: "crates/wire/src/checksum/kind", why: "features of this processor" },
    Room { path: "crates/buf/src/pool", why: "the table of pools: a frame names its pool by a number" },
    Room { path: "crates/buf/src/unwind", why: "count of frames freed by a panicking thread, per thread" },
    Room { path: "crates/dispatch/src/affinity", why: "the CPU cores belong to the process" },
    Room { path: "crates/dispatch/src/sandbox", why: "capabilities and the system call filter belong to the process" },
    Room { path: "crates/dispatch/src/stop", why: "signals belong to the process" },
    Room { path: "crates/dispatch/src/worker", why: "the list of the process's threads, for profiles" },
    Room { path: "crates/node/src/ledgers", why: "costs of hosts that have ended, for a profile of the process" },
    Room { path: "crates/port/src/os/unix/file", why: "counter for unique file names" },
    Room { path: "crates/linerate-cli/src/log", why: "the format of the process's messages" },
    Room { path: "crates/linerate/src/port", why: "names of virtual cables belong to the process" },
    Room { path: "crates/packetdrill/src/interpose", why: "a symbol of the process has no userdata" },
    Room { path: "crates/lab", why: "measures this machine" },
];

/// Types that make a static mutable.
const CHANGING: &[&str] =
    &["Atomic", "Mutex", "RwLock", "Once", "OnceLock", "LazyLock", "Cell", "RefCell", "UnsafeCell"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let crates = tree.sources.iter().filter(|(path, _)| path.starts_with("crates/"));
    for (path, source) in crates.filter(|(path, _)| !in_room(ROOMS, path) && !tree.is_test(path)) {
        for (at, line) in source.lines.iter().enumerate().filter(|(_, line)| !line.test) {
            if has_token(&line.code, "thread_local!") || is_changing_static(&line.code) {
                let what = "mutable static, shared by all hosts of the process; move it into the stack, or list it \
                            with a reason in xtask/src/tidy/statics.rs";
                found.push(Finding::new(path, at + 1, what));
            }
        }
    }
    found
}

/// Returns whether a mutable `static` is declared here. (A `'static` lifetime is not a
/// declaration.)
fn is_changing_static(code: &str) -> bool {
    let declares = words(code).any(|(at, word)| word == "static" && !code[..at].ends_with('\''));
    let ty = code.split_once(':').map_or("", |(_, ty)| ty);
    let changes = |(_, word): (usize, &str)| {
        CHANGING.iter().any(|kind| word == *kind || *kind == "Atomic" && word.starts_with(kind))
    };
    declares && (has_token(code, "mut") || words(ty).any(changes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, code: &str) -> usize {
        check(&Tree::of(&[(path, &format!("//! A.\n{code}\n"))])).len()
    }

    #[test]
    fn mutable_statics_are_found() {
        for code in [
            "static SEEN: AtomicU64 = AtomicU64::new(0);",
            "    pub(crate) static TABLE: Mutex<Vec<u8>> = Mutex::new(Vec::new());",
            "static mut COUNT: u32 = 0;",
            "thread_local! {",
            "static ONCE: OnceLock<u8> = OnceLock::new();",
        ] {
            assert_eq!(found("crates/inet/src/a.rs", code), 1, "{code}");
            assert_eq!(found("crates/inet/tests/a.rs", code), 0, "{code}");
        }
        assert_eq!(found("crates/lock/src/context.rs", "thread_local! {"), 0);
    }

    #[test]
    fn constants_and_lifetimes_are_not_found() {
        for code in [
            "static NAMES: [&str; 2] = [\"a\", \"b\"];",
            "fn a(b: &'static Mutex<u8>) {}",
            "static INFO: Info = Info {",
        ] {
            assert_eq!(found("crates/inet/src/a.rs", code), 0, "{code}");
        }
    }
}
