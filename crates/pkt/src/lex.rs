//! Splits a script into tokens with line numbers; drops comments and white space.

use crate::error::PktError;

/// One token. The source text of numbers is kept, because the hexadecimal data of an option can
/// look like a number.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Tok {
    /// Integer, such as `10`, `-1` or `0x1f`.
    Int(i64),
    /// Number with a fraction, such as `0.1` or `.01`: a time in seconds, stored in nanoseconds.
    Fraction(i64),
    Word(String),
    /// Text in double quotes.
    Str(String),
    /// IPv4 address, such as `192.0.2.1`.
    Addr(std::net::Ipv4Addr),
    /// Text between back quotes.
    Command(String),
    /// Text between `%{` and `}%`.
    Code(String),
    /// Name of a flag, such as `--name`.
    Flag(String),
    /// Ellipsis: `...`.
    Ellipsis,
    /// Any other single character.
    Punct(char),
}

/// A token and its position.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Token {
    pub tok: Tok,
    pub line: usize,
    /// Source text of the token.
    pub text: String,
    /// True if the token follows the previous one without white space.
    pub glued: bool,
}

/// Maximum size of a script, to limit the memory used for untrusted files.
pub(crate) const SCRIPT_MAX: usize = 4 << 20;

/// Splits `text` into tokens.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, PktError> {
    if text.len() > SCRIPT_MAX {
        return Err(PktError::at(1, format!("the script has {} bytes, more than {SCRIPT_MAX}", text.len())));
    }
    let mut lexer = Lexer { rest: text, line: 1, out: Vec::new(), glued: false };
    while !lexer.rest.is_empty() {
        lexer.step()?;
    }
    Ok(lexer.out)
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    out: Vec<Token>,
    glued: bool,
}

impl<'a> Lexer<'a> {
    fn step(&mut self) -> Result<(), PktError> {
        let rest = self.rest;
        let space = rest.len() - rest.trim_start().len();
        if space > 0 {
            self.skip(space);
            return Ok(());
        }
        if rest.starts_with("//") {
            self.skip(rest.find('\n').unwrap_or(rest.len()));
            return Ok(());
        }
        if rest.starts_with("/*") {
            let end = rest.find("*/").ok_or_else(|| self.error("unterminated comment"))?;
            self.skip(end + 2);
            return Ok(());
        }
        if let Some(code) = rest.strip_prefix("%{") {
            let end = code.find("}%").ok_or_else(|| self.error("unterminated %{"))?;
            let code = code.get(..end).unwrap_or_default().to_owned();
            self.push(Tok::Code(code), end + 4);
            return Ok(());
        }
        if let Some(quote) = rest.chars().next().filter(|c| matches!(c, '"' | '`')) {
            return self.quoted(quote);
        }
        if rest.starts_with("...") {
            self.push(Tok::Ellipsis, 3);
            return Ok(());
        }
        if let Some(name) = rest.strip_prefix("--") {
            let len = run(name, is_word);
            let name = name.get(..len).unwrap_or_default().to_owned();
            self.push(Tok::Flag(name), len + 2);
            return Ok(());
        }
        self.number_or_word()
    }

    fn number_or_word(&mut self) -> Result<(), PktError> {
        let rest = self.rest;
        let sign = usize::from(rest.starts_with('-'));
        let digits = run(rest.get(sign..).unwrap_or_default(), |c| c.is_ascii_digit());
        let after = rest.get(sign + digits..).unwrap_or_default();
        let tail = after.strip_prefix('.').map_or(0, |tail| run(tail, |c| c.is_ascii_digit()));
        if tail > 0 {
            return self.fraction(sign + digits + 1 + tail);
        }
        let word = run(rest, is_word);
        let hex = rest.strip_prefix("0x").map_or(0, |hex| run(hex, |c| c.is_ascii_hexdigit()));
        if hex > 0 && word == hex + 2 {
            let value = i64::from_str_radix(rest.get(2..word).unwrap_or_default(), 16);
            let value = value.map_err(|_| self.error("number exceeds 64 bits"))?;
            self.push(Tok::Int(value), word);
        } else if digits > 0 && word <= digits {
            let len = sign + digits;
            let value = rest.get(..len).and_then(|text| text.parse().ok());
            let value = value.ok_or_else(|| self.error("number exceeds 64 bits"))?;
            self.push(Tok::Int(value), len);
        } else if word > 0 {
            let name = rest.get(..word).unwrap_or_default().to_owned();
            self.push(Tok::Word(name), word);
        } else {
            let c = rest.chars().next().unwrap_or(' ');
            self.push(Tok::Punct(c), c.len_utf8());
        }
        Ok(())
    }

    /// Reads a number with a fraction, `len` bytes long, or an IPv4 address, which starts in the
    /// same way.
    fn fraction(&mut self, len: usize) -> Result<(), PktError> {
        let rest = self.rest;
        let dotted = run(rest, |c| c.is_ascii_digit() || c == '.');
        let address = rest.get(..dotted).unwrap_or_default().trim_end_matches('.');
        if let Ok(addr) = address.parse() {
            self.push(Tok::Addr(addr), address.len());
            return Ok(());
        }
        let text = rest.get(..len).unwrap_or_default();
        let nanos = nanos(text).ok_or_else(|| self.error("time out of range"))?;
        self.push(Tok::Fraction(nanos), len);
        Ok(())
    }

    fn quoted(&mut self, quote: char) -> Result<(), PktError> {
        let body = self.rest.get(1..).unwrap_or_default();
        let mut escaped = false;
        let end = body.find(|c| {
            let found = c == quote && !escaped;
            escaped = c == '\\' && !escaped;
            found
        });
        let end = end.ok_or_else(|| self.error("unterminated quote"))?;
        let inside = body.get(..end).unwrap_or_default().to_owned();
        self.push(if quote == '"' { Tok::Str(inside) } else { Tok::Command(inside) }, end + 2);
        Ok(())
    }

    fn push(&mut self, tok: Tok, len: usize) {
        let text = self.rest.get(..len).unwrap_or_default().to_owned();
        self.out.push(Token { tok, line: self.line, text, glued: self.glued });
        self.skip(len);
        self.glued = true;
    }

    fn skip(&mut self, len: usize) {
        let (gone, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.line += gone.matches('\n').count();
        self.rest = rest;
        self.glued = false;
    }

    fn error(&self, what: &str) -> PktError {
        PktError::at(self.line, what.to_owned())
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns the number of leading bytes of `text` whose characters satisfy `fits`.
fn run(text: &str, fits: impl Fn(char) -> bool) -> usize {
    text.find(|c| !fits(c)).unwrap_or(text.len())
}

/// Parses seconds with a fraction into nanoseconds; digits after the ninth are ignored.
fn nanos(text: &str) -> Option<i64> {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (whole, part) = text.split_once('.')?;
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let digits: String = part.chars().chain(std::iter::repeat('0')).take(9).collect();
    let nanos = whole.checked_mul(1_000_000_000)?.checked_add(digits.parse().ok()?)?;
    Some(if negative { -nanos } else { nanos })
}
