//! Checks that real clocks and sleeps are used only in modules that own a thread. All other code
//! receives the time as an argument.
//!
//! Tests, examples and benchmarks are exempt. Searches for the clocks and sleeps of the standard
//! library and of the C library, the time-stamp counter, and the creation of our live clock.

use super::{Finding, Room, Tree, in_room};
use crate::source::has_token;

/// Modules that may use a real clock.
const ROOMS: &[Room] = &[
    Room { path: "crates/clock/src/live", why: "the live clock itself" },
    Room { path: "crates/clock/src/tsc", why: "reads and calibrates the counter" },
    Room { path: "crates/lock/src/signal", why: "waits with a timeout" },
    Room { path: "crates/port/src/os", why: "the wall clock's offset for timestamps in captures" },
    Room { path: "crates/port/src/nic/bus", why: "simulates the duration of a register access" },
    Room { path: "crates/dispatch", why: "owns threads" },
    Room { path: "crates/pipe/src/os", why: "the clock shared by all processes, for timestamps" },
    Room { path: "crates/pipe/src/ports", why: "waits for a port, or for the time at which a frame is sent" },
    Room { path: "crates/node/src/reload/apply", why: "waits until a device that was just closed can be opened" },
    Room { path: "crates/node/src/run", why: "the loop that passes `now` to the hosts" },
    Room {
        path: "crates/inet/src/stack/statistics",
        why: "reads the counter when cycle accounting is turned on or off, or read",
    },
    Room {
        path: "crates/node/src/switch/costs",
        why: "reads the counter when cycle accounting of a switch is turned on or off, or read",
    },
    Room { path: "crates/node/src/switch/average", why: "measures the ticks of forwarding in the bridge" },
    Room { path: "crates/node/src/switch/run", why: "owns the threads of loops" },
    Room { path: "crates/node/src/figures/collector", why: "waits for the threads of nodes with a timeout" },
    Room { path: "crates/metrics/src/server", why: "owns the thread that serves clients" },
    Room { path: "crates/lab", why: "measures" },
    Room { path: "crates/linerate/src", why: "starts the hosts and bridges of a program" },
    Room { path: "crates/linerate-cli", why: "interacts with a user" },
    Room { path: "crates/programs/src/command", why: "the host of a program runs live" },
    Room { path: "crates/programs/src/run", why: "the loop of a host with one application" },
    Room { path: "crates/programs/src/netperf/serve", why: "the loop of a host with one end of a test" },
    Room { path: "crates/apps/src/netperf/session", why: "an interim result has the time of day" },
    Room { path: "crates/apps/src/netrate", why: "its tools begin on a whole second, and print the time of day" },
    Room { path: "crates/programs/src/testtool", why: "its loops own threads and print elapsed time" },
    Room { path: "crates/packetdrill/src/door", why: "the live clock of a script's host" },
    Room { path: "crates/packetdrill/src/face", why: "defines functions with these names" },
    Room { path: "crates/rung", why: "is a test rig that measures itself" },
    Room { path: "crates/bench", why: "measures" },
    Room { path: "xtask", why: "interacts with a user" },
];

/// Names by which code can access a real clock.
const WAYS: &[&str] = &[
    "Instant::now",
    "SystemTime::now",
    "clock_gettime",
    "gettimeofday",
    "_rdtsc",
    "__rdtscp",
    "thread::sleep",
    "nanosleep",
    "usleep",
    "Clock::live",
    "tsc::ticks()",
];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let files = tree.sources.iter().filter(|(path, _)| !in_room(ROOMS, path) && !tree.is_test(path));
    for (path, source) in files {
        for (at, line) in source.lines.iter().enumerate().filter(|(_, line)| !line.test) {
            if let Some(way) = WAYS.iter().find(|way| has_token(&line.code, way)) {
                let what =
                    format!("{way} outside the listed files; take `now` as an argument (xtask/src/tidy/clocks.rs)");
                found.push(Finding::new(path, at + 1, what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_clock_in_the_stack_is_found() {
        for way in ["std::time::Instant::now()", "Clock::live(s)", "unsafe { _rdtsc() }", "tsc::ticks() + 1"] {
            let found = found("crates/inet/src/ip4.rs", &format!("//! A.\nlet a = {way};\n"));
            assert!(matches!(&found[..], [one] if one.starts_with("crates/inet/src/ip4.rs:2: ")), "{way}: {found:?}");
        }
    }

    #[test]
    fn rooms_tests_examples_and_strings_are_allowed() {
        let text = "let a = Instant::now();\n";
        for path in
            ["crates/clock/src/live.rs", "crates/node/src/run/udp.rs", "crates/inet/examples/a.rs", "xtask/src/a.rs"]
        {
            assert_eq!(found(path, text), Vec::<String>::new(), "{path}");
        }
        let tests = "//! A.\n// Instant::now\na(\"Instant::now\");\n#[cfg(test)]\nmod tests {\n    fn b() { Instant::now() }\n}\n";
        assert_eq!(found("crates/inet/src/a.rs", tests), Vec::<String>::new());
    }

    #[test]
    fn passing_the_counter_on_is_allowed() {
        assert_eq!(
            found("crates/inet/src/a.rs", "//! A.\nlet lap = ledger.lap(clock::tsc::ticks);\n"),
            Vec::<String>::new()
        );
    }
}
