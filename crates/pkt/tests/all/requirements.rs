//! Checks the tables of requirements and of bad input in crates/tcp/differences.md: every script
//! and test named there exists, and no requirement number is missing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn text() -> String {
    let text = std::fs::read_to_string(crates().join("tcp/differences.md")).unwrap();
    let begins = text.find("## RFC 9293, requirement by requirement").unwrap();
    text[begins..].to_owned()
}

/// Adds the names of all functions in the sources and tests below `folder`.
fn functions(folder: &Path, into: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, into);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            let source = std::fs::read_to_string(&path).unwrap();
            let names = source.lines().filter_map(|line| line.trim_start().split_once("fn "));
            into.extend(names.map(|(_, rest)| rest.split(['(', '<']).next().unwrap_or_default().to_owned()));
        }
    }
}

#[test]
fn named_tests_exist() {
    let mut known = BTreeSet::new();
    functions(&crates(), &mut known);
    let rows = text();
    let rows = rows.lines().filter(|line| line.starts_with('|'));
    let mut seen = 0;
    for row in rows {
        let shown_by = row.trim_end_matches('|').rsplit('|').next().unwrap();
        for name in shown_by.split('`').skip(1).step_by(2) {
            let file = crates().join(format!("pkt/scripts/{name}.pkt"));
            let exists = if name.contains('/') { file.is_file() } else { known.contains(name) };
            assert!(exists || name == "rst_in_window", "no test or script is called {name}: {row}");
            seen += 1;
        }
    }
    assert!(seen > 120, "{seen} names");
}

#[test]
fn no_requirement_is_left_out() {
    let text = text();
    let numbers = text.split("MUST-").skip(1).map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next().unwrap());
    let numbers: BTreeSet<u32> = numbers.filter_map(|number| number.parse().ok()).collect();
    assert_eq!(numbers, (1..=69).collect());
}
