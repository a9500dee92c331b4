//! `cargo xtask tidy`: checks project rules that the compiler does not check.
//!
//! Each rule is a function from a [`Tree`] to findings. Its exceptions, with their reasons, are in
//! a table at the top of its file. A finding has a position, a description and advice. No file is
//! changed.

mod circles;
mod clocks;
mod decisions;
mod files;
mod members;
mod prose;
mod rooms;
mod statics;
mod world;

use crate::source::Source;
use anyhow::Context;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::process::ExitCode;

/// A violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Input of the rules: all texts by path, and the scanned Rust files.
#[derive(Debug, Default)]
pub struct Tree {
    texts: BTreeMap<String, String>,
    sources: BTreeMap<String, Source>,
    /// Paths, without `.rs`, of modules that exist for tests only. All modules below them are also
    /// for tests.
    test_modules: BTreeSet<String>,
}

impl Tree {
    fn new(texts: BTreeMap<String, String>) -> Tree {
        let rust = texts.iter().filter(|(path, _)| path.ends_with(".rs"));
        let sources: BTreeMap<_, _> = rust.map(|(path, text)| (path.clone(), Source::parse(text))).collect();
        let test_modules = sources
            .iter()
            .flat_map(|(path, source)| {
                let below = module_directory(path);
                source.test_modules.iter().map(move |name| format!("{below}/{name}"))
            })
            .collect();
        Tree { texts, sources, test_modules }
    }

    /// Reads the repository at `root`.
    fn load(root: &Path) -> anyhow::Result<Tree> {
        let mut texts = BTreeMap::new();
        for place in ["Cargo.toml", "crates", "xtask", "fuzz/fuzz_targets", "docs/decisions"] {
            read_into(&mut texts, root, place)?;
        }
        Ok(Tree::new(texts))
    }

    /// Creates a tree from texts, for tests of the rules.
    #[cfg(test)]
    fn of(texts: &[(&str, &str)]) -> Tree {
        Tree::new(texts.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect())
    }

    /// Returns whether the whole file is for tests: an integration test, example, benchmark, or
    /// module under `#[cfg(test)]`.
    fn is_test(&self, path: &str) -> bool {
        let by_place = path.split('/').any(|part| matches!(part, "tests" | "benches" | "examples"));
        by_place || self.is_test_module(path)
    }

    /// Returns whether the file is a module under `#[cfg(test)]` or below one.
    fn is_test_module(&self, path: &str) -> bool {
        let stem = path.strip_suffix("/mod.rs").or_else(|| path.strip_suffix(".rs")).unwrap_or(path);
        stem.match_indices('/').map(|(at, _)| &stem[..at]).chain([stem]).any(|part| self.test_modules.contains(part))
    }
}

/// Returns the directory of the modules that `path` declares: `src` for `src/lib.rs`, `src/a` for
/// `src/a.rs`.
fn module_directory(path: &str) -> &str {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let roots = ["/lib", "/main", "/mod"];
    roots.iter().find_map(|root| stem.strip_suffix(root)).unwrap_or(stem)
}

fn read_into(texts: &mut BTreeMap<String, String>, root: &Path, place: &str) -> anyhow::Result<()> {
    let path = root.join(place);
    if path.is_dir() {
        let entries = std::fs::read_dir(&path).with_context(|| format!("cannot list {place}"))?;
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "target" && !name.starts_with('.') {
                read_into(texts, root, &format!("{place}/{name}"))?;
            }
        }
    } else if [".rs", ".toml", ".md"].iter().any(|end| place.ends_with(end)) && path.exists() {
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {place}"))?;
        texts.insert(place.to_owned(), text);
    }
    Ok(())
}

/// Exception to a rule: a file or directory in which something otherwise forbidden is allowed, and
/// the reason.
struct Room {
    path: &'static str,
    why: &'static str,
}

/// Returns whether `path` is inside one of `rooms`. The path `a/b` of a room means the file
/// `a/b.rs` and everything in `a/b/`.
fn in_room(rooms: &[Room], path: &str) -> bool {
    rooms.iter().any(|room| {
        debug_assert!(!room.why.is_empty());
        path.strip_prefix(room.path).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
    })
}

const RULES: &[fn(&Tree) -> Vec<Finding>] = &[
    circles::check,
    members::check,
    rooms::check,
    prose::check,
    clocks::check,
    statics::check,
    world::check,
    files::check,
    decisions::check,
];

pub fn command(root: &Path) -> anyhow::Result<ExitCode> {
    let tree = Tree::load(root)?;
    let mut found: Vec<Finding> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    found.sort();
    for finding in &found {
        println!("{finding}");
    }
    let files = tree.texts.len();
    match found.len() {
        0 => {
            println!("tidy: {files} files, no findings");
            Ok(ExitCode::SUCCESS)
        }
        n => {
            println!("tidy: {files} files, findings: {n}");
            Ok(ExitCode::FAILURE)
        }
    }
}

#[cfg(test)]
mod tests;
