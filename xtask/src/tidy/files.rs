//! Checks that each file begins with a description, is not too long, and contains no unfinished
//! code.
//!
//! Test modules in separate files may be long and need no description, since the module that they
//! test has one.

use super::{Finding, Tree};
use crate::source::has_token;

/// Maximum number of lines in a file.
const LONG: usize = 700;

/// Files that may be longer, each with the reason.
const MAY_BE_LONG: &[(&str, &str)] = &[];

/// Words in comments that mark unfinished work.
const UNFINISHED: &[&str] = &["TODO", "FIXME", "XXX"];

/// Macros that must not remain in the code.
const NOT_KEPT: &[&str] = &["todo!", "unimplemented!", "dbg!"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, source) in &tree.sources {
        let first = source.lines.iter().position(|line| *line != Default::default());
        let reported = first.is_some_and(|at| source.lines[at].comment.starts_with("//!"));
        if !reported && !tree.is_test_module(path) {
            found.push(Finding::new(path, 1, "does not begin with '//!'; describe its input, output and ownership"));
        }
        let lines = source.lines.len();
        if lines > LONG && !tree.is_test(path) && !MAY_BE_LONG.iter().any(|(long, _)| long == path) {
            let what = format!("{lines} lines, more than {LONG}; split it along the protocol or the tasks");
            found.push(Finding::new(path, LONG + 1, what));
        }
        for (at, line) in source.lines.iter().enumerate() {
            if let Some(word) = UNFINISHED.iter().find(|word| has_token(&line.comment, word)) {
                let what = format!("{word}; finish it, or open an issue for it");
                found.push(Finding::new(path, at + 1, what));
            }
            if let Some(word) = NOT_KEPT.iter().find(|word| has_token(&line.code, word)) {
                found.push(Finding::new(path, at + 1, format!("{word} must not remain; implement or remove it")));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text), ("crates/a/src/lib.rs", "//! A.\n#[cfg(test)]\nmod tests;\n")]))
            .iter()
            .map(Finding::to_string)
            .collect()
    }

    #[test]
    fn a_file_needs_a_description() {
        assert_eq!(found("crates/a/src/b.rs", "\n//! B: from here to there.\n"), Vec::<String>::new());
        assert!(found("crates/a/src/b.rs", "use std::fmt;\n")[0].contains("does not begin with '//!'"));
        assert!(found("crates/a/src/b.rs", "")[0].contains("does not begin with '//!'"));
        assert_eq!(found("crates/a/src/tests.rs", "use super::*;\n"), Vec::<String>::new());
    }

    #[test]
    fn a_long_file_is_found_unless_it_is_a_test() {
        let text = format!("//! B.\n{}", "a();\n".repeat(LONG));
        assert!(found("crates/a/src/b.rs", &text)[0].starts_with("crates/a/src/b.rs:701: 701 lines"));
        assert_eq!(found("crates/a/src/tests.rs", &text), Vec::<String>::new());
        assert_eq!(found("crates/a/src/b.rs", &text[..text.len() - 5]), Vec::<String>::new());
    }

    #[test]
    fn unfinished_work_is_found() {
        let text = "//! B.\na(); // TODO later\ntodo!();\nb(dbg!(c));\n// FIXME\n";
        let lines: Vec<String> = found("crates/a/src/b.rs", text);
        assert_eq!(lines.len(), 4, "{lines:?}");
        assert_eq!(found("crates/a/src/b.rs", "//! B: mastodon, XXXL.\na(\"TODO\");\n"), Vec::<String>::new());
    }
}
