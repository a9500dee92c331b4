//! Checks that the protocol crates do no I/O: no threads, files, kernel sockets or system calls.
//!
//! Their hash tables must use a keyed hash function, such as the standard library's default
//! (SipHash with a random key) or `wire::hash`. Unkeyed hash functions are rejected.

use super::{Finding, Tree};
use crate::source::has_token;

/// Crates that receive time, random numbers and bytes as arguments.
const PURE: &[&str] =
    &["crates/wire/", "crates/fib/", "crates/inet/", "crates/socket/", "crates/tcp/", "crates/bridge/"];

/// Names of forbidden functions and modules, and what they give access to.
const WAYS: &[(&str, &str)] = &[
    ("thread::spawn", "a thread"),
    ("thread::Builder", "a thread"),
    ("thread::scope", "a thread"),
    ("std::fs", "a file"),
    ("File::open", "a file"),
    ("std::process", "a process"),
    ("std::env", "the environment"),
    ("io::stdin", "standard input"),
    ("io::stdout", "standard output"),
    ("println!", "standard output"),
    ("eprintln!", "standard error"),
    ("net::UdpSocket", "a kernel socket"),
    ("net::TcpStream", "a kernel socket"),
    ("net::TcpListener", "a kernel socket"),
    ("libc::", "a system call"),
    ("rustix::", "a system call"),
];

/// Hash functions without a key, with predictable results.
const UNKEYED: &[&str] =
    &["DefaultHasher::new", "BuildHasherDefault", "SipHasher", "FxHashMap", "FxHasher", "AHasher::default"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let pure = tree.sources.iter().filter(|(path, _)| PURE.iter().any(|place| path.starts_with(place)));
    for (path, source) in pure.filter(|(path, _)| !tree.is_test(path)) {
        for (at, line) in source.lines.iter().enumerate().filter(|(_, line)| !line.test) {
            if let Some((_, what)) = WAYS.iter().find(|(way, _)| has_token(&line.code, way)) {
                let what = format!("{what} in a crate without system access; take its result as an argument");
                found.push(Finding::new(path, at + 1, what));
            }
            if let Some(hash) = UNKEYED.iter().find(|hash| has_token(&line.code, hash)) {
                let what = format!("{hash} has no key, but peers can choose its input; use wire::hash");
                found.push(Finding::new(path, at + 1, what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, code: &str) -> usize {
        check(&Tree::of(&[(path, &format!("//! A.\n{code}\n"))])).len()
    }

    #[test]
    fn system_access_is_found_only_in_pure_crates() {
        for code in [
            "let a = std::thread::spawn(b);",
            "println!(\"a\");",
            "let a = std::net::UdpSocket::bind(b);",
            "libc::poll(a);",
        ] {
            assert_eq!(found("crates/inet/src/a.rs", code), 1, "{code}");
            assert_eq!(found("crates/node/src/a.rs", code), 0, "{code}");
            assert_eq!(found("crates/inet/tests/a.rs", code), 0, "{code}");
        }
        assert_eq!(found("crates/inet/src/a.rs", "// println! is for others\nlet a = \"std::fs\";"), 0);
    }

    #[test]
    fn a_hash_without_a_key_is_found() {
        assert_eq!(found("crates/inet/src/a.rs", "let a = HashMap::<u8, u8, BuildHasherDefault<B>>::default();"), 1);
        assert_eq!(found("crates/inet/src/a.rs", "let a = HashMap::with_hasher(Keyed(key));"), 0);
    }
}
