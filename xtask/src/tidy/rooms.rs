//! Checks that `unsafe` is used only in listed modules, and that each use has a justification.
//!
//! A block, an `impl` and an `extern` block need a `// SAFETY:` comment that ends within three
//! lines above. An `unsafe fn` or trait needs a `# Safety` section in its documentation (or such a
//! comment). An attribute (`#[unsafe(no_mangle)]`) and a function pointer type are permitted in the
//! listed modules without a comment.

use super::{Finding, Room, Tree, in_room};
use crate::source::{Line, words};

/// Modules that may use `unsafe`.
const ROOMS: &[Room] = &[
    Room { path: "crates/clock/src/tsc", why: "RDTSC and CPUID are intrinsics" },
    Room { path: "crates/stats/src/trace", why: "tracepoints are inline assembly" },
    Room { path: "crates/lock/src/context", why: "a destructor of POSIX thread-specific data" },
    Room { path: "crates/lock/src/up", why: "exclusive access is proven by the held bit" },
    Room { path: "crates/lock/src/light", why: "exclusive access is proven by the owner word" },
    Room { path: "crates/wire/src/checksum/simd", why: "vector loads and target features" },
    Room { path: "crates/wire/src/text/simd", why: "vector loads and stores, target features" },
    Room { path: "crates/buf/src/away", why: "frames are rebuilt from buffers that a device has used" },
    Room { path: "crates/buf/src/frame", why: "slice views of a buffer that one frame owns" },
    Room { path: "crates/buf/src/burst", why: "slots head..tail are initialised, the others are not" },
    Room { path: "crates/buf/src/held", why: "the state word of a buffer decides which holder may free it" },
    Room { path: "crates/buf/src/mem", why: "mmap, madvise" },
    Room { path: "crates/buf/src/ring", why: "slots are handed over by the indices" },
    Room { path: "crates/buf/src/pool", why: "exclusive use of a free list is proven by thread or lock" },
    Room { path: "crates/port/src/os", why: "ioctl, unshare, netlink sockets, rings shared with the kernel" },
    Room { path: "crates/dispatch/src/affinity", why: "sched_*affinity" },
    Room { path: "crates/dispatch/src/sandbox", why: "capset, prctl, the user database, signal handlers" },
    Room { path: "crates/dispatch/tests/sandbox", why: "forbidden system calls are made" },
    Room { path: "crates/dispatch/src/stop", why: "a signal handler" },
    Room { path: "crates/dispatch/src/usage", why: "clock_gettime, getrusage" },
    Room { path: "crates/dispatch/src/wait", why: "poll" },
    Room { path: "crates/pipe/src/os", why: "the machine's clock, pipes, mount" },
    Room { path: "crates/socket/tests/alloc", why: "an allocator that counts" },
    Room { path: "crates/door/src/os", why: "seccomp, memory of other processes, fork and exec, UNIX sockets" },
    Room { path: "crates/linerate-cli/tests/all/program/states", why: "poll, socket" },
    Room { path: "crates/packetdrill/src/face", why: "a C interface" },
    Room { path: "crates/packetdrill/src/interpose", why: "symbols of the program it is loaded into" },
    Room { path: "crates/packetdrill/src/os", why: "pipes, inotify" },
    Room { path: "crates/packetdrill/tests", why: "the C interface is called as from C" },
    Room { path: "crates/lab/src/dylib", why: "symbols of a loaded library are called" },
    Room { path: "crates/lab/src/tsc", why: "RDTSC and CPUID are intrinsics" },
    Room { path: "crates/lab/src/os", why: "clocks, sockets, terminal size, redirection of standard output" },
    Room { path: "crates/lab/src/profile/signal", why: "timers, a signal handler, the interrupted thread's stack" },
    Room { path: "crates/lab/src/native/batch", why: "sendmmsg" },
    Room { path: "crates/lab/src/cfmt/tests", why: "the oracle is the C library's snprintf" },
    Room { path: "crates/lab/src/cscan/tests", why: "the oracle is the C library's strtod and strtol" },
    Room { path: "crates/rung", why: "a C interface" },
];

/// Maximum number of lines of code between the justification and the `unsafe`.
const NEAR: usize = 3;

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, source) in &tree.sources {
        let room = in_room(ROOMS, path);
        for (at, line) in source.lines.iter().enumerate() {
            for (place, _) in words(&line.code).filter(|(_, word)| *word == "unsafe") {
                let rest = following(&source.lines, at, place + "unsafe".len());
                if !room {
                    let what =
                        "unsafe outside the listed files; use safe code, or move it there (xtask/src/tidy/rooms.rs)";
                    found.push(Finding::new(path, at + 1, what));
                } else if let Some(what) = missing(&source.lines, at, &rest) {
                    found.push(Finding::new(path, at + 1, what));
                }
            }
        }
    }
    found
}

/// Returns the code after an `unsafe`, including up to two further lines, from which its kind is
/// determined.
fn following(lines: &[Line], at: usize, from: usize) -> String {
    let mut code = lines[at].code[from..].trim().to_owned();
    for line in lines.iter().skip(at + 1).take(2) {
        code.push(' ');
        code.push_str(line.code.trim());
    }
    code.trim().to_owned()
}

/// Returns which justification of the `unsafe` at line `at` is missing; `None` if it is justified.
fn missing(lines: &[Line], at: usize, rest: &str) -> Option<&'static str> {
    let what = without_abi(rest);
    if what.starts_with('(') || what.starts_with("fn(") {
        return None; // an attribute or a function pointer type
    }
    if what.starts_with("fn ") || what.starts_with("trait ") {
        let documented = said_above(lines, at, "# Safety", 0) || said_above(lines, at, "SAFETY:", 0);
        return (!documented)
            .then_some("unsafe fn or trait without a '# Safety' section; state the obligations of its caller");
    }
    let printed = lines[at].comment.contains("SAFETY:") || said_above(lines, at, "SAFETY:", NEAR);
    (!printed).then_some("unsafe without a '// SAFETY:' comment within three lines above; state why it is sound")
}

/// Removes `extern "C"` from the start; a block, a function, or a function pointer type remains.
fn without_abi(rest: &str) -> &str {
    match rest.strip_prefix("extern") {
        Some(rest) => rest.trim_start().trim_start_matches("\"\"").trim_start(),
        None => rest,
    }
}

/// Returns whether a comment above line `at` contains `word`, with at most `near` lines of code
/// between. Attributes and the lines of the comment itself are not counted.
fn said_above(lines: &[Line], at: usize, word: &str, near: usize) -> bool {
    let mut code = 0;
    for line in lines[..at].iter().rev() {
        if line.comment.contains(word) {
            return true;
        }
        let text = line.code.trim();
        let only_comment = text.is_empty() && !line.comment.is_empty();
        if !only_comment && !text.starts_with("#[") {
            code += 1;
        }
        if code > near {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests;
