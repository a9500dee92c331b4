//! Translates grep patterns into the syntax of the regex crate: POSIX basic and extended syntax
//! with GNU extensions, and fixed strings.
//!
//! A match never spans a newline: the translations of `.` and of bracket expressions exclude it.
//! Back references are rejected: they are not regular expressions and can take exponential time.

use std::fmt;

/// Syntax in which patterns are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Syntax {
    /// `grep -G`, the default of grep: `\|` `\(` `\)` `\{` `\}` `\+` `\?` are special.
    #[default]
    Basic,
    /// `grep -E`: `|` `(` `)` `{` `}` `+` `?` are special without a backslash.
    Extended,
    /// `grep -F`: no character is special.
    Fixed,
}

/// Error for a pattern that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadPattern {
    /// The pattern, and the byte offset of the error in it; `None` if the position is unknown.
    pub place: Option<(String, usize)>,
    /// Description of the error.
    pub why: String,
}

impl BadPattern {
    pub(super) fn whole(why: String) -> BadPattern {
        BadPattern { place: None, why }
    }
}

impl fmt::Display for BadPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.why)?;
        if let Some((pattern, at)) = &self.place {
            // A format width is limited to 16 bits, so the blanks are built as a string.
            let blanks = " ".repeat(pattern.get(..*at).unwrap_or(pattern).chars().count());
            write!(f, "\n  {pattern}\n  {blanks}^")?;
        }
        Ok(())
    }
}

impl std::error::Error for BadPattern {}

/// Formats an error of the regex crate about a translated pattern as one line.
pub(super) fn message_of(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "pattern too large: needs more than 64 MiB".to_owned(),
        other => other.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    }
}

/// Error text of grep for an unmatched bracket.
const UNMATCHED: &str = "unmatched [, [^, [:, [., or [=";

/// Translates `pattern` into the syntax of the regex crate.
pub(super) fn translate(pattern: &str, syntax: Syntax) -> Result<String, BadPattern> {
    if syntax == Syntax::Fixed {
        return Ok(regex::escape(pattern));
    }
    Translator {
        pattern,
        at: 0,
        out: String::new(),
        basic: syntax == Syntax::Basic,
        open: Vec::new(),
        atom: 0,
        repeated: false,
    }
    .run()
}

struct Translator<'a> {
    pattern: &'a str,
    at: usize,
    out: String,
    basic: bool,
    /// Parentheses that are still open: the offset of each in the pattern and in `out`.
    open: Vec<(usize, usize)>,
    /// Offset in `out` of the atom to which a repetition would apply. `repeated` is true if the
    /// atom already has a repetition.
    atom: usize,
    repeated: bool,
}

/// Meaning of one or two characters of a pattern, independent of the syntax.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Literal(char),
    Any,
    Star,
    Plus,
    Question,
    Open,
    Close,
    Or,
    Braces,
    Bracket,
    Caret,
    Dollar,
    /// `\w` and similar classes.
    Class(char),
}

impl Translator<'_> {
    fn error<T>(&self, at: usize, why: &str) -> Result<T, BadPattern> {
        Err(BadPattern { place: Some((self.pattern.to_owned(), at)), why: why.to_owned() })
    }

    fn rest(&self) -> &str {
        self.pattern.get(self.at..).unwrap_or_default()
    }

    fn take(&mut self) -> Option<char> {
        let next = self.rest().chars().next()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn token(&mut self) -> Result<Option<Token>, BadPattern> {
        let begin = self.at;
        let Some(first) = self.take() else { return Ok(None) };
        let special = |character: char| match character {
            '+' => Some(Token::Plus),
            '?' => Some(Token::Question),
            '(' => Some(Token::Open),
            ')' => Some(Token::Close),
            '|' => Some(Token::Or),
            '{' => Some(Token::Braces),
            _ => None,
        };
        Ok(Some(match first {
            '.' => Token::Any,
            '*' => Token::Star,
            '[' => Token::Bracket,
            '^' => Token::Caret,
            '$' => Token::Dollar,
            '\\' => match self.take() {
                None => return self.error(begin, "trailing backslash: write \\\\ for one"),
                Some('1'..='9') => return self.error(begin, "back references are not supported: use grep"),
                Some(class @ ('w' | 'W' | 's' | 'S' | 'b' | 'B' | '<' | '>' | '`' | '\'')) => Token::Class(class),
                Some(character) => special(character).filter(|_| self.basic).unwrap_or(Token::Literal(character)),
            },
            character => special(character).filter(|_| !self.basic).unwrap_or(Token::Literal(character)),
        }))
    }

    fn run(mut self) -> Result<String, BadPattern> {
        // True at the start of an expression, where there is nothing to repeat.
        let mut fresh = true;
        loop {
            let begin = self.at;
            let Some(token) = self.token()? else { break };
            let was_fresh = std::mem::replace(&mut fresh, false);
            if !matches!(token, Token::Star | Token::Plus | Token::Question | Token::Braces) || was_fresh {
                (self.atom, self.repeated) = (self.out.len(), false);
            }
            match token {
                Token::Literal(character) => self.literal(character),
                Token::Any => self.out.push_str("[^\\n]"),
                Token::Star | Token::Plus | Token::Question if was_fresh => {
                    // A repetition operator with nothing to repeat is a literal character, as in
                    // GNU grep. This includes `\+` and `\?` of basic syntax.
                    self.literal(self.pattern.get(begin..self.at).and_then(|t| t.chars().last()).unwrap_or('*'));
                }
                Token::Star => self.repeat("*"),
                Token::Plus => self.repeat("+"),
                Token::Question => self.repeat("?"),
                Token::Open => {
                    self.open.push((begin, self.out.len()));
                    self.out.push_str("(?:");
                    fresh = true;
                }
                Token::Close => {
                    match self.open.pop() {
                        Some((_, opened)) => {
                            self.atom = opened;
                            self.out.push(')');
                        }
                        // GNU grep treats an unmatched `)` as a literal in extended syntax.
                        None if !self.basic => self.literal(')'),
                        None => return self.error(begin, "unmatched \\)"),
                    }
                }
                Token::Or => {
                    self.out.push('|');
                    fresh = true;
                }
                Token::Braces => self.braces(begin, was_fresh)?,
                Token::Bracket => self.bracket(begin)?,
                Token::Caret if !self.basic || was_fresh => {
                    self.out.push('^');
                    fresh = true;
                }
                Token::Caret => self.literal('^'),
                Token::Dollar if !self.basic || self.ends_here() => self.out.push('$'),
                Token::Dollar => self.literal('$'),
                Token::Class(class) => self.out.push_str(match class {
                    'w' => "\\w",
                    'W' => "[^\\w\\n]",
                    's' => "[ \\t\\r\\x0b\\x0c]",
                    'S' => "[^ \\t\\r\\x0b\\x0c\\n]",
                    'b' => "\\b",
                    'B' => "\\B",
                    '<' => "\\b{start}",
                    '>' => "\\b{end}",
                    '`' => "^",
                    _ => "$",
                }),
            }
        }
        match self.open.pop() {
            Some((at, _)) => self.error(at, "unmatched ( or \\("),
            None => Ok(self.out),
        }
    }

    /// Returns whether an expression of basic syntax ends at the current position.
    fn ends_here(&self) -> bool {
        self.rest().is_empty() || self.rest().starts_with("\\)") || self.rest().starts_with("\\|")
    }

    fn literal(&mut self, character: char) {
        (self.atom, self.repeated) = (self.out.len(), false);
        self.out.push_str(&regex::escape(character.encode_utf8(&mut [0; 4])));
    }

    /// Appends the repetition `how`. If the atom already has a repetition, it is grouped first:
    /// `a**` means `a*` and must not become a lazy repetition.
    fn repeat(&mut self, how: &str) {
        if std::mem::replace(&mut self.repeated, true) {
            self.out.insert_str(self.atom, "(?:");
            self.out.push(')');
        }
        self.out.push_str(how);
    }

    /// Parses the interval `{m,n}`. In extended syntax, `{` is a literal if no valid interval
    /// follows.
    fn braces(&mut self, begin: usize, fresh: bool) -> Result<(), BadPattern> {
        let close = if self.basic { "\\}" } else { "}" };
        let Some(end) = self.rest().find(close) else {
            if !self.basic {
                self.literal('{');
                return Ok(());
            }
            return self.error(begin, "unmatched \\{");
        };
        let inside = self.rest().get(..end).unwrap_or_default().to_owned();
        let (low, high) = inside.split_once(',').map_or((inside.as_str(), None), |(low, high)| (low, Some(high)));
        let number = |text: &str, none: Option<u32>| if text.is_empty() { none } else { text.parse().ok() };
        let low = number(low, high.map(|_| 0));
        let high = match high {
            None => low,
            Some("") => Some(u32::MAX),
            Some(high) => number(high, None),
        };
        let good =
            low.zip(high).filter(|(low, high)| low <= high && *low <= 32_767 && (*high <= 32_767 || *high == u32::MAX));
        let Some((low, high)) = good else {
            if !self.basic && !inside.chars().all(|c| c.is_ascii_digit() || c == ',') {
                self.literal('{');
                return Ok(());
            }
            return self.error(begin, "invalid interval: expected {N}, {N,}, {,M} or {N,M} with N <= M <= 32767");
        };
        self.at += end + close.len();
        if fresh {
            return self.error(begin, "nothing to repeat");
        }
        let high = if high == u32::MAX { String::new() } else { high.to_string() };
        self.repeat(&format!("{{{low},{high}}}"));
        Ok(())
    }

    /// Translates a bracket expression such as `[a-f]`, which has its own special characters.
    fn bracket(&mut self, begin: usize) -> Result<(), BadPattern> {
        let not = self.rest().starts_with('^');
        if not {
            self.at += 1;
        }
        self.out.push_str(if not { "[^\\n" } else { "[" });
        let mut first = true;
        loop {
            let at = self.at;
            let Some(character) = self.take() else { return self.error(begin, UNMATCHED) };
            if character == ']' && !first {
                break;
            }
            first = false;
            if character == '[' && self.rest().starts_with([':', '.', '=']) {
                self.named(at)?;
                continue;
            }
            let low = character;
            let ranged = self.rest().starts_with('-') && !self.rest().starts_with("-]");
            if !ranged {
                self.escaped(low);
                continue;
            }
            self.at += 1;
            let Some(high) = self.take() else { return self.error(begin, UNMATCHED) };
            if low > high {
                return self.error(at, "invalid range: its end is lower than its start");
            }
            self.escaped(low);
            self.out.push('-');
            self.escaped(high);
        }
        // A range or a class such as [:cntrl:] may include the newline, but a match must not span
        // lines.
        self.out.push_str(if not { "]" } else { "&&[^\\n]]" });
        Ok(())
    }

    fn escaped(&mut self, character: char) {
        if character.is_ascii_punctuation() {
            self.out.push('\\');
        }
        self.out.push(character);
    }

    /// Translates `[:alpha:]`, `[.x.]` or `[=x=]` within brackets.
    fn named(&mut self, begin: usize) -> Result<(), BadPattern> {
        let Some(kind) = self.take() else { return self.error(begin, UNMATCHED) };
        let close = format!("{kind}]");
        let Some(end) = self.rest().find(&close) else { return self.error(begin, UNMATCHED) };
        let name = self.rest().get(..end).unwrap_or_default().to_owned();
        self.at += end + close.len();
        const CLASSES: [&str; 12] = [
            "alpha", "digit", "alnum", "upper", "lower", "space", "blank", "punct", "print", "graph", "cntrl", "xdigit",
        ];
        let mut characters = name.chars();
        match (kind, characters.next(), characters.next()) {
            (':', ..) if name == "space" => self.out.push_str(" \\t\\r\\x0b\\x0c"),
            (':', ..) if name == "cntrl" => self.out.push_str("\\x00-\\x09\\x0b-\\x1f\\x7f"),
            (':', ..) if CLASSES.contains(&name.as_str()) => self.out.push_str(&format!("[:{name}:]")),
            (':', ..) => return self.error(begin, "invalid character class name"),
            (_, Some(one), None) => self.escaped(one),
            _ => return self.error(begin, "invalid collation character"),
        }
        Ok(())
    }
}
