//! Compiles search patterns, and matches them with a line of any form.

use super::any_field;
use super::columns::Columns;
use super::syntax::{self, BadPattern, Syntax};
use aho_corasick::{AhoCorasick, MatchKind};
use regex::bytes::{Regex, RegexBuilder};

/// Search patterns and options.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Patterns. A line that matches any of them is selected. A string may contain several
    /// patterns, one per line.
    pub patterns: Vec<String>,
    /// Syntax of the patterns.
    pub syntax: Syntax,
    /// True to ignore the difference between upper and lower case.
    pub ignore_case: bool,
    /// True to match whole words only.
    pub words: bool,
    /// True to match whole lines only.
    pub whole_lines: bool,
    /// True to ignore the blanks between the words of a line, so that a pattern can match anywhere
    /// in the frame.
    pub any_field: bool,
}

/// Decides whether lines match.
#[derive(Debug, Clone)]
pub struct Matcher {
    /// Patterns of the fast path; `None` if the patterns do not allow it.
    pub(super) columns: Option<Columns>,
    plain: FixedPattern,
}

/// Matcher for all lines, including those to which the fast path does not apply.
#[derive(Debug, Clone)]
enum FixedPattern {
    Words(AhoCorasick),
    Regex(Regex),
}

/// Minimum number of fixed strings for which an Aho-Corasick automaton is used instead of a regular
/// expression.
const MANY: usize = 16;

impl Matcher {
    /// Compiles patterns.
    ///
    /// # Errors
    /// A pattern that does not parse, with the position of the error, or one that needs too much
    /// memory.
    pub fn new(wanted: &Wanted) -> Result<Matcher, BadPattern> {
        let mut patterns: Vec<String> =
            wanted.patterns.iter().flat_map(|text| text.split('\n')).map(str::to_owned).collect();
        if wanted.any_field {
            patterns = patterns.iter().map(|pattern| any_field::spread(pattern, wanted.syntax)).collect();
        }
        let syntax = if wanted.any_field { Syntax::Extended } else { wanted.syntax };
        let plain = !wanted.ignore_case && !wanted.words && !wanted.whole_lines;
        let columns = if plain && !wanted.any_field { Columns::new(&patterns, syntax) } else { None };
        let fixed =
            syntax == Syntax::Fixed && plain && patterns.len() >= MANY && patterns.iter().all(|p| !p.is_empty());
        if fixed {
            let words = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&patterns);
            let words = words.map_err(|error| BadPattern::whole(error.to_string()))?;
            return Ok(Matcher { columns, plain: FixedPattern::Words(words) });
        }
        let parts: Result<Vec<String>, BadPattern> =
            patterns.iter().map(|pattern| syntax::translate(pattern, syntax)).collect();
        let mut regex = parts?.iter().map(|part| format!("(?:{part})")).collect::<Vec<_>>().join("|");
        if wanted.words {
            regex = format!(r"\b{{start-half}}(?:{regex})\b{{end-half}}");
        }
        if wanted.whole_lines {
            regex = format!("^(?:{regex})$");
        }
        let built = RegexBuilder::new(&regex)
            .unicode(false)
            .multi_line(true)
            .case_insensitive(wanted.ignore_case)
            .size_limit(64 << 20)
            .build();
        let regex = built.map_err(|error| BadPattern::whole(syntax::message_of(&error)))?;
        Ok(Matcher { columns, plain: FixedPattern::Regex(regex) })
    }

    /// Returns whether the patterns allow the fast path, which needs only the header of a line in
    /// standard form.
    pub fn has_columns(&self) -> bool {
        self.columns.is_some()
    }

    /// Returns the start and end of the first match in `text` that begins at or after `from`. A
    /// match never spans several lines.
    pub(super) fn find(&self, text: &[u8], from: usize) -> Option<(usize, usize)> {
        match &self.plain {
            FixedPattern::Regex(regex) => regex.find_at(text, from).map(|found| (found.start(), found.end())),
            FixedPattern::Words(words) => {
                let found = words.find(aho_corasick::Input::new(text).range(from..))?;
                Some((found.start(), found.end()))
            }
        }
    }

    /// Returns whether `line`, without its newline, matches.
    pub fn is_match(&self, line: &[u8]) -> bool {
        self.find(line, 0).is_some()
    }
}
