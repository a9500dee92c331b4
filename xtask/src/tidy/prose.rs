//! Checks that comments are plain technical English, as far as lists of words can check it.
//!
//! A doc comment must begin with a third-person verb or a noun phrase. Reported are verbs of
//! speech, words for persons, questions, and comment lines of more than 100 columns.

use super::{Finding, Tree};
use crate::source::words;

/// Maximum width of a line with a comment, in characters.
const WIDTH: usize = 100;

/// Words that a doc comment must not begin with.
const RIDDLES: &[&str] = &[
    "What", "Who", "Whose", "Where", "Why", "How", "Which", "Whether", "Is", "Are", "Has", "Have", "May", "Does", "Can",
];

/// Verbs of speech and thought, which do not apply to code.
const SPEECH: &[&str] = &[
    "tell", "tells", "told", "say", "says", "said", "ask", "asks", "asked", "hear", "hears", "heard", "believe",
    "believes", "believed", "speak", "speaks", "spoke", "wants", "wishes",
];

/// Words for persons, which do not apply to things.
const PERSONS: &[&str] = &["somebody", "nobody", "anybody", "everybody", "someone", "whoever", "he", "him", "his"];

pub fn check(tree: &Tree) -> Vec<Finding> {
    let sources = tree.sources.iter().filter(|(path, _)| path.contains("/src/") && !tree.is_test(path));
    let mut found = Vec::new();
    for (path, source) in sources {
        let (mut is_inside, mut is_code) = (false, false);
        for (at, line) in source.lines.iter().enumerate() {
            let text = line.comment.trim_start_matches(['/', '!', '*']).trim();
            let is_doc =
                line.code.trim().is_empty() && ["///", "//!"].iter().any(|mark| line.comment.starts_with(mark));
            let is_first = is_doc && !is_inside;
            (is_inside, is_code) = (is_doc, is_doc && (is_code != text.starts_with("```")));
            if is_code || text.is_empty() {
                continue;
            }
            let mut report = |what: String| found.push(Finding::new(path, at + 1, what));
            let width = line.code.chars().count() + line.comment.chars().count();
            if line.code.trim().is_empty() && width > WIDTH && !text.contains("://") && !text.starts_with('|') {
                report(format!("{width} columns; wrap the comment at {WIDTH}"));
            }
            let prose = prose(text);
            let first = words(&prose).next().map(|(_, word)| word);
            if let Some(word) = first.filter(|word| is_first && RIDDLES.contains(word)) {
                report(format!("opens with '{word}'; begin with a verb (\"Returns\") or a noun phrase"));
            }
            if prose.contains('?') {
                report("a question; state the fact".to_owned());
            }
            for (_, word) in words(&prose) {
                let lower = word.to_lowercase();
                if SPEECH.contains(&lower.as_str()) {
                    report(format!("'{word}': code returns, reports, reads, requests, checks"));
                }
                if PERSONS.contains(&lower.as_str()) {
                    report(format!("'{word}': name the thing"));
                }
            }
        }
    }
    found
}

/// Returns a comment with code and quotations replaced by a word.
fn prose(text: &str) -> String {
    let outside = |text: &str, mark| text.split(mark).step_by(2).collect::<Vec<_>>().join(" code ");
    outside(&outside(text, '`'), '"')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let tree = Tree::of(&[("crates/a/src/b.rs", text)]);
        check(&tree).iter().map(|finding| finding.to_string().replacen("crates/a/src/b.rs:", "", 1)).collect()
    }

    #[test]
    fn openings_questions_and_persons_are_found() {
        let text = "//! Is this read?\n/// Returns the length.\n/// What follows the first line is free.\n\
                    fn a() {}\n/// What a port has told somebody.\nfn b() {}\n";
        let found = found(text);
        assert_eq!(found.len(), 5, "{found:?}");
        assert!(found[0].starts_with("1: opens with 'Is'") && found[1].starts_with("1: a question"));
        assert!(found[2].starts_with("5: opens with 'What'"));
        assert!(found[3].contains("'told'") && found[4].contains("'somebody'"));
    }

    #[test]
    fn code_and_quotations_are_left_alone() {
        let text = "//! A grep: `say?` and \"who asked?\".\n/// Parses.\n///\n/// ```\n/// assert!(he.tells()?);\n/// ```\n\
                    fn a() { b(\"he says?\") }\n";
        assert_eq!(found(text), Vec::<String>::new());
    }

    #[test]
    fn wide_comments_are_found() {
        let wide = format!("/// {}\nfn a() {{}}\n", "wide ".repeat(20).trim_end());
        assert!(found(&wide)[0].starts_with("1: 103 columns"));
        assert_eq!(found(&format!("/// See <https://example.net/{}>.\n", "a".repeat(90))), Vec::<String>::new());
        assert_eq!(found(&format!("a(); // {}\n", "wide ".repeat(20).trim_end())), Vec::<String>::new());
    }
}
