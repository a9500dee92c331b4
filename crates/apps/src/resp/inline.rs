//! Inline requests, as typed in telnet: a line of words that are separated by blanks and may be
//! quoted.
//!
//! Between double quotes, `\n`, `\r`, `\t`, `\b`, `\a` and `\xHH` are escapes, and a backslash
//! before any other character yields that character; between single quotes only `\'` is an escape.
//! A quoted word ends with its closing quote.

use super::Bad;

/// Splits a line into at most `most` words and removes their quotes.
pub(super) fn words(line: &[u8], most: usize) -> Result<Vec<Vec<u8>>, Bad> {
    let mut rest = line.strip_suffix(b"\r").unwrap_or(line);
    let mut words = Vec::new();
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Ok(words);
        }
        if words.len() >= most {
            return Err(Bad::Count);
        }
        let (word, behind) = word(rest)?;
        words.push(word);
        rest = behind;
    }
}

/// Returns the first word of a line and the rest of the line.
fn word(line: &[u8]) -> Result<(Vec<u8>, &[u8]), Bad> {
    let (mut word, mut rest) = (Vec::new(), line);
    loop {
        match rest {
            [] => return Ok((word, rest)),
            [byte, ..] if byte.is_ascii_whitespace() => return Ok((word, rest)),
            [b'"', quoted @ ..] => return ended(double(quoted, word)?),
            [b'\'', quoted @ ..] => return ended(single(quoted, word)?),
            [byte, behind @ ..] => {
                word.push(*byte);
                rest = behind;
            }
        }
    }
}

/// Checks that a closing quote is followed by a blank or by the end of the line.
fn ended((word, rest): (Vec<u8>, &[u8])) -> Result<(Vec<u8>, &[u8]), Bad> {
    match rest.first() {
        Some(byte) if !byte.is_ascii_whitespace() => Err(Bad::Quotes),
        _ => Ok((word, rest)),
    }
}

fn double(mut rest: &[u8], mut word: Vec<u8>) -> Result<(Vec<u8>, &[u8]), Bad> {
    loop {
        rest = match rest {
            [] => return Err(Bad::Quotes),
            [b'"', behind @ ..] => return Ok((word, behind)),
            [b'\\', b'x', high, low, behind @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                word.push(hex(*high) << 4 | hex(*low));
                behind
            }
            [b'\\', byte, behind @ ..] => {
                word.push(match byte {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                behind
            }
            [byte, behind @ ..] => {
                word.push(*byte);
                behind
            }
        }
    }
}

fn single(mut rest: &[u8], mut word: Vec<u8>) -> Result<(Vec<u8>, &[u8]), Bad> {
    loop {
        rest = match rest {
            [] => return Err(Bad::Quotes),
            [b'\'', behind @ ..] => return Ok((word, behind)),
            [b'\\', b'\'', behind @ ..] => {
                word.push(b'\'');
                behind
            }
            [byte, behind @ ..] => {
                word.push(*byte);
                behind
            }
        }
    }
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        other => (other | 32).saturating_sub(b'a') + 10,
    }
}
