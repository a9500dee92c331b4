//! Splits text into tokens. The longest match wins. If several kinds of token match the same
//! length, the order is: keyword, address, number, name.
//!
//! Names may contain hyphens (`80-90`, `tcp-syn`, and also `1-2`), so a minus sign needs blanks
//! around it, as in tcpdump.

use super::error::Refusal;
use super::names;
use super::token::{Key, Spot, Token};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::Ipv6Addr;

/// Symbols, longer ones first.
const SYMBOLS: &[(&str, Token<'static>)] = &[
    ("&&", Token::Key(Key::And)),
    ("||", Token::Key(Key::Or)),
    ("<<", Token::ShiftLeft),
    (">>", Token::ShiftRight),
    ("<=", Token::LessEqual),
    (">=", Token::GreaterEqual),
    ("!=", Token::Unequal),
    ("==", Token::Equal),
    ("!", Token::Key(Key::Not)),
    ("=", Token::Equal),
    ("<", Token::Less),
    (">", Token::Greater),
    ("(", Token::Open),
    (")", Token::Close),
    ("[", Token::OpenIndex),
    ("]", Token::CloseIndex),
    (":", Token::Colon),
    ("+", Token::Plus),
    ("-", Token::Minus),
    ("*", Token::Times),
    ("/", Token::Divide),
    ("%", Token::Modulo),
    ("&", Token::BitAnd),
    ("|", Token::BitOr),
    ("^", Token::BitXor),
];

/// Maximum length of an IPv6 address as text.
const MAX_ADDRESS6_LEN: usize = "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255".len();

/// Returns all tokens of `text`, followed by an `End`.
pub(super) fn tokens(text: &str) -> Result<Vec<Spot<'_>>, Refusal> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with([' ', '\t', '\r', '\n']) {
            at += 1;
            continue;
        }
        let (token, len) = next(rest).map_err(|why| Refusal::new(at, why))?;
        found.push(Spot { token, at });
        at += len;
    }
    found.push(Spot { token: Token::End, at: text.len() });
    Ok(found)
}

/// Returns the first token of `text` and its length. `text` must not begin with a blank.
fn next(text: &str) -> Result<(Token<'_>, usize), String> {
    if let Some(name) = text.strip_prefix('\\') {
        let len = name.find([' ', '!', '(', ')', '\n', '\t']).unwrap_or(name.len());
        let name = name.get(..len).filter(|name| !name.is_empty()).ok_or("expected a name after the backslash")?;
        return Ok((Token::Name(name), len + 1));
    }
    let word = word(text);
    let (address6, mac) = (address6(text), mac(text));
    let (len6, len_mac) = (address6.map_or(0, |(_, len)| len), mac.map_or(0, |(_, len)| len));
    if let Some((mac, len)) = mac
        && len >= word.len().max(len6)
    {
        return Ok((Token::Mac(mac), len));
    }
    if let Some((address, len)) = address6
        && len > word.len().max(len_mac)
    {
        return Ok((Token::Address6(address), len));
    }
    if !word.is_empty() {
        return whole(word).map(|token| (token, word.len()));
    }
    let symbol = SYMBOLS.iter().find(|(symbol, _)| text.starts_with(symbol));
    let unknown = || format!("unexpected character '{}'", text.chars().next().unwrap_or(' '));
    symbol.map(|(symbol, token)| (*token, symbol.len())).ok_or_else(unknown)
}

/// Returns the token for a word: a keyword, a number, numbers separated by dots, or a name.
fn whole(word: &str) -> Result<Token<'_>, String> {
    if let Some(token) = names::token(word) {
        return Ok(token);
    }
    if is_number(word) {
        return number(word).map(Token::Number);
    }
    let parts = word.split('.');
    Ok(if (2..=4).contains(&parts.clone().count()) && parts.clone().all(is_number) {
        Token::Dotted(word)
    } else {
        Token::Name(word)
    })
}

/// Returns the longest name at the start of `text`: letters, digits and `-_.`, not ending in a
/// hyphen or underscore.
fn word(text: &str) -> &str {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let len = text.bytes().position(|byte| !inside(byte)).unwrap_or(text.len());
    let run = text.get(..len).unwrap_or("").trim_end_matches(['-', '_']);
    if run.starts_with(['-', '_', '.']) { "" } else { run }
}

fn is_number(word: &str) -> bool {
    match hex_digits(word) {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

fn hex_digits(word: &str) -> Option<&str> {
    word.strip_prefix("0x").or_else(|| word.strip_prefix("0X"))
}

/// Parses a number as in C: 0x is hexadecimal, a leading 0 octal, otherwise decimal.
fn number(word: &str) -> Result<u32, String> {
    let (digits, radix, kind) = match (hex_digits(word), word.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16, "hexadecimal"),
        (None, Some(digits)) if !digits.is_empty() => (digits, 8, "octal"),
        _ => (word, 10, "decimal"),
    };
    if !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(format!("'{word}' has a digit that is not {kind}"));
    }
    u32::from_str_radix(digits, radix).map_err(|_| format!("'{word}' does not fit in 32 bits"))
}

/// Parses the longest IPv6 address at the start of `text`, and returns it with its length.
fn address6(text: &str) -> Option<(Ipv6Addr, usize)> {
    let inside = |byte: u8| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.';
    let run = text.bytes().take(MAX_ADDRESS6_LEN).take_while(|byte| inside(*byte)).count();
    if !text.get(..run)?.contains(':') {
        return None;
    }
    (2..=run).rev().find_map(|len| Some((text.get(..len)?.parse().ok()?, len)))
}

/// Parses an Ethernet address at the start of `text`: `1:2:3:4:5:6` with `:`, `-` or `.`,
/// `0102.0304.0506`, or `010203040506`.
fn mac(text: &str) -> Option<([u8; 6], usize)> {
    [':', '-', '.'].into_iter().find_map(|mark| pairs(text, mark)).or_else(|| quads(text))
}

fn pairs(text: &str, mark: char) -> Option<([u8; 6], usize)> {
    let (mut mac, mut at) = ([0; 6], 0);
    for (nth, byte) in mac.iter_mut().enumerate() {
        if nth > 0 {
            at += text.get(at..)?.starts_with(mark).then_some(1)?;
        }
        let len = text.bytes().skip(at).take(2).take_while(u8::is_ascii_hexdigit).count();
        *byte = u8::from_str_radix(text.get(at..at + len)?, 16).ok()?;
        at += len;
    }
    Some((mac, at))
}

fn quads(text: &str) -> Option<([u8; 6], usize)> {
    let dotted = text.as_bytes().get(4) == Some(&b'.');
    let len = if dotted { 14 } else { 12 };
    let (mut mac, mut at) = ([0; 6], 0);
    for (nth, byte) in mac.iter_mut().enumerate() {
        if dotted && nth > 0 && nth % 2 == 0 {
            at += text.get(at..)?.starts_with('.').then_some(1)?;
        }
        let digits = text.get(at..at + 2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
        at += 2;
    }
    Some((mac, len))
}
