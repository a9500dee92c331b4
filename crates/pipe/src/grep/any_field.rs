//! `--any-field`: matches digits anywhere in the frame, regardless of the blanks between words.

use super::syntax::Syntax;

/// Allows a space between any two digits of the pattern. Returns the result in extended syntax.
pub(super) fn spread(pattern: &str, syntax: Syntax) -> String {
    let mut out = String::new();
    let mut characters = pattern.chars().peekable();
    let mut within = false;
    while let Some(character) = characters.next() {
        let mut digit = character.is_ascii_hexdigit() && !within;
        match character {
            '[' if syntax != Syntax::Fixed => within = true,
            ']' if within => (within, digit) = (false, true),
            _ => {}
        }
        match (character, syntax) {
            (' ', _) if !within => continue,
            ('\\', Syntax::Basic) => match characters.peek() {
                // Characters that a backslash makes special in basic syntax are special without it
                // in extended syntax.
                Some('|' | '(' | ')' | '{' | '}' | '+' | '?') => continue,
                _ => out.push('\\'),
            },
            (special, Syntax::Fixed) if "\\.*+?()[]{}|^$".contains(special) => {
                out.push('\\');
                out.push(special);
            }
            (other, _) => out.push(other),
        }
        let behind = characters.clone().find(|next| *next != ' ');
        if digit && behind.is_some_and(|next| next.is_ascii_hexdigit() || next == '[') {
            out.push_str(" ?");
        }
    }
    out
}
