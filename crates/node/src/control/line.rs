//! Splits a line into words separated by blanks. A word that begins with `"` ends at the next `"`.
//! Inside such a word, `\"` is a `"` and `\\` is a `\`.
//!
//! A quote in the middle of a word is an ordinary character. Therefore `tracer(file="a b"):null:`,
//! which contains a blank, must be quoted as a whole. [`join`] is the inverse of [`split`].

use std::fmt;

/// Syntax error in a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LineError {
    /// The line is not UTF-8.
    NotUtf8,
    /// The line contains a control character.
    Control,
    /// A quote is not terminated, or text follows directly after the closing quote.
    Quote,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LineError::NotUtf8 => "request is not UTF-8 text",
            LineError::Control => "request contains control characters",
            LineError::Quote => "unbalanced quotes: a word that begins with \" must end with \" before a blank",
        })
    }
}

impl std::error::Error for LineError {}

/// Splits `line`, without its newline, into words.
///
/// # Errors
/// Returns a [`LineError`].
pub fn split(line: &[u8]) -> Result<Vec<String>, LineError> {
    let text = std::str::from_utf8(line).map_err(|_| LineError::NotUtf8)?;
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.chars().any(|c| c.is_control() && c != '\t') {
        return Err(LineError::Control);
    }
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (word, behind) = match rest.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
                let (word, behind) = rest.split_at(end);
                (word.to_string(), behind)
            }
        };
        words.push(word);
        rest = behind.trim_start();
    }
    Ok(words)
}

/// Returns the unescaped word before the closing quote, and the text after the quote.
fn unquote(text: &str) -> Result<(String, &str), LineError> {
    let mut word = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                let behind = chars.as_str();
                let ends = behind.is_empty() || behind.starts_with(char::is_whitespace);
                return if ends { Ok((word, behind)) } else { Err(LineError::Quote) };
            }
            '\\' => word.push(chars.next().ok_or(LineError::Quote)?),
            plain => word.push(plain),
        }
    }
    Err(LineError::Quote)
}

/// Returns a line, without newline, that [`split`] splits into `words`.
pub fn join<S: AsRef<str>>(words: &[S]) -> String {
    let quoted = words.iter().map(AsRef::as_ref).map(|word| {
        let plain = !word.is_empty() && !word.starts_with('"') && !word.contains(char::is_whitespace);
        if plain { word.to_string() } else { format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")) }
    });
    quoted.collect::<Vec<_>>().join(" ")
}
