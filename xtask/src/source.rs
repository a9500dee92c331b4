//! Scanner of Rust source for tidy: separates code and comments, empties strings, and marks test
//! items.
//!
//! It is not a parser: it recognizes comments (nested), strings (raw, byte, C), characters and
//! lifetimes, and counts braces to find the end of an item. This suffices to search for words in
//! code.

/// One line, split into code and comment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// Code, with empty strings and characters: `""`, `''`.
    pub code: String,
    /// Comments, with their markers.
    pub comment: String,
    /// Set if the line belongs to an item under `#[cfg(test)]`.
    pub test: bool,
}

/// Lines of a file, and the test modules that it declares.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// Lines of the file, from index 0.
    pub lines: Vec<Line>,
    /// Names of modules in separate files that exist under `#[cfg(test)]` only.
    pub test_modules: Vec<String>,
}

impl Source {
    /// Scans `text`.
    pub fn parse(text: &str) -> Source {
        let mut source = Source { lines: Scanner::new(text).run(), test_modules: Vec::new() };
        source.mark_tests();
        source
    }

    fn mark_tests(&mut self) {
        let mut at = 0;
        while at < self.lines.len() {
            if is_test_attribute(&self.lines[at].code) {
                at = self.mark_item(at);
            } else {
                at += 1;
            }
        }
    }

    /// Marks the item whose attribute is at line `first`. Returns the line after its end.
    fn mark_item(&mut self, first: usize) -> usize {
        let mut depth = 0usize;
        for at in first..self.lines.len() {
            let line = &mut self.lines[at];
            line.test = true;
            let code = without_attributes(line.code.trim());
            if let Some(name) = module_in_a_file(code) {
                self.test_modules.push(name.to_owned());
                return at + 1;
            }
            let mut ends = false;
            for c in code.chars() {
                match c {
                    '{' | '(' | '[' => depth += 1,
                    '}' | ')' | ']' => {
                        depth = depth.saturating_sub(1);
                        ends |= depth == 0 && c == '}';
                    }
                    ';' | ',' => ends |= depth == 0,
                    _ => {}
                }
            }
            if ends && depth == 0 {
                return at + 1;
            }
        }
        self.lines.len()
    }
}

/// Returns whether an attribute is `#[cfg(test)]`, `#[cfg(all(test, ...))]` or `#[cfg(any(test,
/// fuzzing))]`, but not `#[cfg(not(test))]`.
fn is_test_attribute(code: &str) -> bool {
    let Some(at) = code.find("#[cfg(") else { return false };
    let condition = &code[at..];
    words(condition).any(|(_, word)| word == "test") && !condition.contains("not(test")
}

/// Returns the rest of a line after its leading attributes.
fn without_attributes(mut code: &str) -> &str {
    while let Some(rest) = code.strip_prefix("#[") {
        let mut depth = 1;
        let end = rest.char_indices().find_map(|(at, c)| {
            depth += i32::from(c == '[') - i32::from(c == ']');
            (depth == 0).then_some(at + 1)
        });
        match end {
            Some(end) => code = rest[end..].trim_start(),
            None => return "",
        }
    }
    code
}

/// Returns the name in `mod name;` with any visibility.
fn module_in_a_file(code: &str) -> Option<&str> {
    let declaration = code.strip_suffix(';')?;
    let (before, name) = declaration.rsplit_once("mod ")?;
    let plain = before.is_empty() || before.trim_end().ends_with(')') || before.trim_end() == "pub";
    (plain && !name.contains([' ', '"'])).then_some(name)
}

/// Returns the words of `code` (letters, digits, `_`), each with its offset.
pub fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + code[at..].find(is_word)?;
        let end = code[start..].find(|c| !is_word(c)).map_or(code.len(), |n| start + n);
        at = end;
        Some((start, &code[start..end]))
    })
}

/// Returns whether `token` occurs in `code` and is not a part of a longer word.
pub fn has_token(code: &str, token: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(token).any(|(at, _)| {
        let before = code[..at].chars().next_back().is_some_and(is_word);
        let after = code[at + token.len()..].chars().next().is_some_and(is_word);
        !(before && token.starts_with(is_word) || after && token.ends_with(is_word))
    })
}

struct Scanner {
    text: Vec<char>,
    at: usize,
    lines: Vec<Line>,
    line: Line,
}

impl Scanner {
    fn new(text: &str) -> Scanner {
        Scanner { text: text.chars().collect(), at: 0, lines: Vec::new(), line: Line::default() }
    }

    fn run(mut self) -> Vec<Line> {
        while let Some(c) = self.peek(0) {
            match c {
                '/' if self.peek(1) == Some('/') => self.line_comment(),
                '/' if self.peek(1) == Some('*') => self.block_comment(),
                '"' => self.string(),
                '\'' => self.quote(),
                'r' | 'b' | 'c' if !self.inside_word() && self.prefixed_string() => {}
                _ => self.code(),
            }
        }
        if self.line != Line::default() {
            self.lines.push(self.line);
        }
        self.lines
    }

    fn peek(&self, ahead: usize) -> Option<char> {
        self.text.get(self.at + ahead).copied()
    }

    fn end_line(&mut self) {
        self.lines.push(std::mem::take(&mut self.line));
    }

    fn code(&mut self) {
        match self.text[self.at] {
            '\n' => self.end_line(),
            c => self.line.code.push(c),
        }
        self.at += 1;
    }

    /// Returns whether the previous character is part of the same word.
    fn inside_word(&self) -> bool {
        self.at > 0 && (self.text[self.at - 1].is_alphanumeric() || self.text[self.at - 1] == '_')
    }

    fn line_comment(&mut self) {
        while let Some(c) = self.peek(0).filter(|c| *c != '\n') {
            self.line.comment.push(c);
            self.at += 1;
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while let Some(c) = self.peek(0) {
            let pair = (c, self.peek(1));
            let step = if matches!(pair, ('/', Some('*')) | ('*', Some('/'))) { 2 } else { 1 };
            match pair {
                ('/', Some('*')) => depth += 1,
                ('*', Some('/')) => depth -= 1,
                _ => {}
            }
            for _ in 0..step {
                match self.text[self.at] {
                    '\n' => self.end_line(),
                    c => self.line.comment.push(c),
                }
                self.at += 1;
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// Scans `"..."` with escapes, starting at the opening quote.
    fn string(&mut self) {
        self.line.code.push_str("\"\"");
        self.at += 1;
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                '"' => return,
                '\\' => {
                    if self.peek(0) == Some('\n') {
                        self.end_line();
                    }
                    self.at += 1;
                }
                '\n' => self.end_line(),
                _ => {}
            }
        }
    }

    /// Scans `b"..."`, `c"..."`, `r"..."`, `br#"..."#` or `b'.'`. Returns false and consumes
    /// nothing if the text is an ordinary word.
    fn prefixed_string(&mut self) -> bool {
        let start = self.at;
        let mut raw = false;
        for _ in 0..2 {
            match self.peek(0) {
                Some('r') if !raw => raw = true,
                Some('b' | 'c') if !raw => {}
                _ => break,
            }
            self.at += 1;
        }
        let hashes = if raw { self.text[self.at..].iter().take_while(|c| **c == '#').count() } else { 0 };
        match self.peek(hashes) {
            Some('"') if raw => self.raw_string(hashes),
            Some('"') => self.string(),
            Some('\'') if !raw && self.text[start] == 'b' => self.quote(),
            _ => {
                self.at = start;
                return false;
            }
        }
        true
    }

    fn raw_string(&mut self, hashes: usize) {
        self.line.code.push_str("\"\"");
        self.at += hashes + 1;
        while let Some(c) = self.peek(0) {
            self.at += 1;
            if c == '"' && (0..hashes).all(|n| self.peek(n) == Some('#')) {
                self.at += hashes;
                return;
            }
            if c == '\n' {
                self.end_line();
            }
        }
    }

    /// Scans a character or a lifetime.
    fn quote(&mut self) {
        let escaped = self.peek(1) == Some('\\');
        if !escaped && self.peek(2) != Some('\'') {
            return self.code();
        }
        self.line.code.push_str("''");
        self.at += if escaped { 3 } else { 2 };
        while self.peek(0).is_some_and(|c| c != '\'') {
            self.at += 1;
        }
        self.at += 1;
    }
}

#[cfg(test)]
mod tests;
