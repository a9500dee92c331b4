//! Checks that applications use the sockets of the library, and none of the crates below it that
//! make up a host.

use super::{Finding, Room, Tree, in_room};

/// Modules that may use these crates.
const ROOMS: &[Room] = &[
    Room { path: "crates/apps/src/host", why: "runs hosts of the program, with all kinds of locks" },
    Room { path: "crates/apps/src/netperf/ours", why: "measures the socket calls themselves" },
    Room { path: "crates/apps/src/netperf/serve", why: "runs hosts of the program, with all kinds of locks" },
    Room { path: "crates/apps/src/testtool", why: "measures a host's input and output" },
];

/// The crates that make up a host.
const CRATES: &[&str] = &["bridge", "buf", "fib", "inet", "lock", "node", "port", "socket", "tcp"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let of_apps = |path: &str| path.starts_with("crates/apps/src/") && !in_room(ROOMS, path) && !tree.is_test(path);
    for (path, source) in tree.sources.iter().filter(|(path, _)| of_apps(path)) {
        let own = |code: &str| code.trim_start().starts_with("use linerate::");
        for (at, line) in source.lines.iter().enumerate().filter(|(_, line)| !line.test && !own(&line.code)) {
            if let Some(name) = CRATES.iter().find(|name| begins_a_path(&line.code, name)) {
                let what = format!("{name} is a part of the library; use linerate (xtask/src/tidy/library.rs)");
                found.push(Finding::new(path, at + 1, what));
            }
        }
    }
    found
}

/// Returns whether a path in `code` begins with `name::`.
fn begins_a_path(code: &str, name: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(&format!("{name}::")).any(|(at, _)| {
        let before = &code[..at];
        let before = before.strip_suffix("::").filter(|root| !root.ends_with(is_word)).unwrap_or(before);
        !before.ends_with("::") && !before.ends_with(is_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn parts_of_a_host_are_found_in_applications() {
        for code in ["use socket::Fd;", "let a: ::inet::Stack;", "f(node::Host::new(), 1);", "use lock::{Locks, Up};"] {
            assert_eq!(found("crates/apps/src/http.rs", &format!("//! A.\n{code}\n")), 1, "{code}");
            assert_eq!(found("crates/apps/src/host/run.rs", code), 0, "{code}");
            assert_eq!(found("crates/apps/tests/a.rs", code), 0, "{code}");
            assert_eq!(found("crates/sim/src/a.rs", code), 0, "{code}");
        }
    }

    #[test]
    fn modules_of_other_crates_with_these_names_are_not_meant() {
        let code =
            "use wire::tcp::Header;\nuse linerate::{port::unix, net::Poll};\nlet a = my_socket::b();\n// node::Host\n";
        assert_eq!(found("crates/apps/src/http.rs", code), 0);
    }
}
