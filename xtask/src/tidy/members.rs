//! Checks that each crate depends only on crates that precede it in the workspace's members list.
//!
//! Build dependencies are checked, too. A dev-dependency on a crate further down must be listed in
//! [`DEV_BELOW`] with a reason. The tools at the end ([`TAIL`]) may use every crate, and no other
//! crate may use them. Uninformative crate names are rejected. Each member must inherit the
//! workspace's lints, and each directory under crates/ must be a member. `apps` must not
//! depend on the crates that make up a host.

use super::{Finding, Tree};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Development tools, which may use every crate.
const TAIL: &[&str] = &["crates/bench", "xtask"];

/// Permitted dev-dependencies on a crate further down, as (dependent crate, dependency, reason).
const DEV_BELOW: &[(&str, &str, &str)] = &[];

/// Dependencies that are not allowed in the program: other stacks and header parsers, used only to
/// check ours in tests, and tools to build and find C libraries.
const FOREIGN: &[&str] = &["smoltcp", "etherparse", "prefix-trie", "pcap", "cc", "cmake", "bindgen", "pkg-config"];

/// The crates that make up a host, and the crate that must use them through the library.
const PARTS: &[&str] = &[
    "bridge", "buf", "clock", "commands", "fib", "inet", "lock", "metrics", "node", "pkt", "port", "sim", "socket",
    "tcp", "wire",
];
const ON_THE_LIBRARY: &str = "crates/apps";

/// Crate names that are rejected as uninformative.
const NO_NAMES: &[&str] = &["util", "utils", "common", "base", "core", "misc", "helpers", "shared"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let Some(root) = tree.texts.get("Cargo.toml") else {
        return vec![Finding::new("Cargo.toml", 1, "missing; run tidy in the repository")];
    };
    let root = match root.parse::<Table>() {
        Ok(root) => root,
        Err(why) => return vec![Finding::new("Cargo.toml", 1, format!("does not parse: {}", why.message()))],
    };
    let members = strings(root.get("workspace").and_then(|it| it.get("members")));
    let places = dependency_places(&root);
    for (at, member) in members.iter().enumerate() {
        let path = format!("{member}/Cargo.toml");
        let Some(text) = tree.texts.get(&path) else {
            found.push(Finding::new(
                "Cargo.toml",
                1,
                format!("member {member} has no Cargo.toml; add it or remove the member"),
            ));
            continue;
        };
        match text.parse::<Table>() {
            Ok(manifest) => {
                let one = Member { members: &members, places: &places, at, path: &path, text, manifest: &manifest };
                one.check(&mut found);
            }
            Err(why) => found.push(Finding::new(&path, 1, format!("does not parse: {}", why.message()))),
        }
    }
    let manifests = tree.texts.keys().filter_map(|path| path.strip_suffix("/Cargo.toml"));
    for directory in manifests.filter(|it| it.starts_with("crates/") && !members.contains(&it.to_string())) {
        let what = "not a member; add it to the members list in the order of the frame path";
        found.push(Finding::new(&format!("{directory}/Cargo.toml"), 1, what));
    }
    found
}

/// A member of the workspace with its manifest, the list of all members, and their directories.
struct Member<'a> {
    members: &'a [String],
    places: &'a BTreeMap<String, String>,
    at: usize,
    path: &'a str,
    text: &'a str,
    manifest: &'a Table,
}

impl Member<'_> {
    fn name(&self) -> &str {
        &self.members[self.at]
    }

    fn check(&self, found: &mut Vec<Finding>) {
        let last = self.name().rsplit('/').next().unwrap_or_default();
        if NO_NAMES.contains(&last) {
            let what = format!("crate name '{last}' is not descriptive; name its function, or merge it into its user");
            found.push(Finding::new(self.path, 1, what));
        }
        let inherits = self.manifest.get("lints").and_then(|it| it.get("workspace")).and_then(Value::as_bool);
        if inherits != Some(true) {
            found.push(Finding::new(
                self.path,
                1,
                "does not inherit the workspace's lints; add [lints] workspace = true",
            ));
        }
        for (table, kind) in self.dependency_tables() {
            for (key, value) in table {
                if kind != "dev-dependencies" && !TAIL.contains(&self.name()) && FOREIGN.contains(&key.as_str()) {
                    let what =
                        format!("{key} must not be part of the program; use it in tests only (dev-dependencies)");
                    found.push(Finding::new(self.path, self.line_of(key, kind), what));
                }
                if let Some(what) = self.judge(key, value, kind) {
                    found.push(Finding::new(self.path, self.line_of(key, kind), what));
                }
            }
        }
    }

    /// Returns every dependency table with its kind, including target-specific ones.
    fn dependency_tables(&self) -> Vec<(&Table, &'static str)> {
        let targets = self.manifest.get("target").and_then(Value::as_table);
        let homes = std::iter::once(self.manifest)
            .chain(targets.into_iter().flat_map(|targets| targets.values().filter_map(Value::as_table)));
        let kinds = ["dependencies", "build-dependencies", "dev-dependencies"];
        homes
            .flat_map(|home| kinds.map(|kind| (home.get(kind).and_then(Value::as_table), kind)))
            .filter_map(|(table, kind)| Some((table?, kind)))
            .collect()
    }

    /// Returns what is wrong with this dependency; `None` if it is permitted.
    fn judge(&self, key: &str, value: &Value, kind: &str) -> Option<String> {
        let on = self.place_of(key, value)?;
        let Some(there) = self.members.iter().position(|member| *member == on) else {
            return Some(format!("depends on {on}, which is not a member; add it to the members list"));
        };
        let part = on.strip_prefix("crates/").filter(|name| PARTS.contains(name));
        if kind != "dev-dependencies" && self.name() == ON_THE_LIBRARY && part.is_some() {
            return Some(format!("depends on {on}, a part of the library; use linerate, or move code to programs"));
        }
        let (me, is_tail) = (self.name(), TAIL.contains(&self.name()));
        if there < self.at || is_tail {
            return None;
        }
        if kind != "dev-dependencies" {
            return Some(format!(
                "{me} depends on {on}, which is after it in the members list; reverse the dependency or move code up"
            ));
        }
        let listed = DEV_BELOW.iter().any(|(who, whom, _)| *who == me && *whom == on);
        (!listed).then(|| {
            format!("{me} tests with {on}, which is after it; list it in DEV_BELOW with a reason or move the test down")
        })
    }

    /// Returns the member that a dependency refers to; `None` for one from a registry.
    fn place_of(&self, key: &str, value: &Value) -> Option<String> {
        if value.get("workspace").and_then(Value::as_bool) == Some(true) {
            return self.places.get(key).cloned();
        }
        let path = value.get("path")?.as_str()?;
        Some(joined(self.name(), path))
    }

    /// Returns the line with `key` under a heading that ends in `kind`.
    fn line_of(&self, key: &str, kind: &str) -> usize {
        let mut inside = false;
        for (at, line) in self.text.lines().enumerate() {
            let line = line.trim();
            if line.starts_with('[') {
                let heading = line.trim_matches(['[', ']']);
                if heading.strip_suffix(key).is_some_and(|it| it.ends_with(&format!("{kind}."))) {
                    return at + 1;
                }
                inside = heading == kind || heading.ends_with(&format!(".{kind}"));
            }
            let names = line.strip_prefix(key).is_some_and(|rest| rest.starts_with(['.', ' ', '=']));
            if inside && names {
                return at + 1;
            }
        }
        1
    }
}

/// Returns the directories of the members by their names in `[workspace.dependencies]`.
fn dependency_places(root: &Table) -> BTreeMap<String, String> {
    let table = root.get("workspace").and_then(|it| it.get("dependencies")).and_then(Value::as_table);
    let places = table.into_iter().flatten();
    places.filter_map(|(key, value)| Some((key.clone(), joined("", value.get("path")?.as_str()?)))).collect()
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let array = value.and_then(Value::as_array).into_iter().flatten();
    array.filter_map(|it| Some(it.as_str()?.to_owned())).collect()
}

/// Resolves `path` relative to the directory `from`, including `..`.
fn joined(from: &str, path: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests;
