//! Patterns for names: `*` matches any bytes, `?` one byte, and `[a-z]` one byte of a class; `\`
//! escapes the next byte.
//!
//! After a mismatch, matching resumes only at the last `*`, so a match takes at most (pattern
//! length times text length) steps. The steps are charged to [`Fuel`], so that a pattern sent by a
//! peer cannot block the thread.

/// Number of matching steps that are still permitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fuel(pub u64);

/// Error: the permitted number of steps was used up before the match was decided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exhausted;

#[derive(Clone, Copy, Debug)]
pub struct Glob<'p> {
    pattern: &'p [u8],
    /// Bytes that negate a class if one of them is its first byte.
    negations: &'static [u8],
}

impl<'p> Glob<'p> {
    /// Creates a pattern for keys, as in the Redis command KEYS: `[^a]` negates a class.
    pub fn of_keys(pattern: &'p [u8]) -> Glob<'p> {
        Glob { pattern, negations: b"^" }
    }

    /// Creates a pattern for file names as in POSIX.1-2017 XCU 2.13: `[!a]` negates a class, and so
    /// does `[^a]`.
    pub fn of_files(pattern: &'p [u8]) -> Glob<'p> {
        Glob { pattern, negations: b"!^" }
    }

    /// Returns whether the text contains `*`, `?` or `[`.
    pub fn is_pattern(text: &[u8]) -> bool {
        text.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['))
    }

    /// Returns whether the pattern matches the whole of `text`; charges the steps to `fuel`.
    ///
    /// # Errors
    /// [`Exhausted`] if the fuel runs out.
    pub fn matches(&self, text: &[u8], fuel: &mut Fuel) -> Result<bool, Exhausted> {
        let (mut at, mut rest) = (self.pattern, text);
        // The pattern after the last `*`, and the position in the text where it was tried last.
        let mut star: Option<(&[u8], &[u8])> = None;
        loop {
            fuel.0 = fuel.0.checked_sub(1).ok_or(Exhausted)?;
            if let Some(behind) = at.strip_prefix(b"*") {
                if behind.is_empty() {
                    return Ok(true);
                }
                star = Some((behind, rest));
                at = behind;
                continue;
            }
            let Some((&byte, others)) = rest.split_first() else { return Ok(at.is_empty()) };
            let (is_one, behind) = self.element(at, byte);
            fuel.0 = fuel.0.saturating_sub((at.len() - behind.len()) as u64);
            (at, rest) = match (is_one, star) {
                (true, _) => (behind, others),
                (false, Some((behind, [_, from @ ..]))) => {
                    star = Some((behind, from));
                    (behind, from)
                }
                (false, _) => return Ok(false),
            };
        }
    }

    /// Returns whether the first element of the pattern matches a byte, and the pattern after that
    /// element.
    fn element<'a>(&self, pattern: &'a [u8], byte: u8) -> (bool, &'a [u8]) {
        match pattern {
            [] => (false, pattern),
            [b'?', behind @ ..] => (true, behind),
            [b'[', class @ ..] => self.class(class, byte),
            [b'\\', literal, behind @ ..] | [literal, behind @ ..] => (*literal == byte, behind),
        }
    }

    /// Matches a class, given without its `[`. An unterminated class extends to the end of the
    /// pattern.
    fn class<'a>(&self, class: &'a [u8], byte: u8) -> (bool, &'a [u8]) {
        let negation = class.split_first().filter(|(first, _)| self.negations.contains(first));
        let (is_negated, mut rest) = negation.map_or((false, class), |(_, rest)| (true, rest));
        let mut is_member = false;
        loop {
            let (low, high);
            (low, high, rest) = match rest {
                [] => break,
                [b']', behind @ ..] => {
                    rest = behind;
                    break;
                }
                [b'\\', literal, behind @ ..] => (*literal, *literal, behind),
                [from, b'-', to, behind @ ..] => (*from.min(to), *from.max(to), behind),
                [literal, behind @ ..] => (*literal, *literal, behind),
            };
            is_member |= (low..=high).contains(&byte);
        }
        (is_member != is_negated, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(pattern: &str, text: &str) -> bool {
        Glob::of_keys(pattern.as_bytes()).matches(text.as_bytes(), &mut Fuel(10_000)).unwrap()
    }

    #[test]
    fn patterns_match_as_the_command_reference_states() {
        // redis.io, KEYS: `h?llo`, `h*llo`, `h[ae]llo`, `h[^e]llo`, `h[a-b]llo`; `\` escapes.
        for (pattern, yes, no) in [
            ("h?llo", &["hello", "hallo", "hxllo"][..], &["hllo", "heello"][..]),
            ("h*llo", &["hllo", "heeeello"], &["hell", "xhllo"]),
            ("h[ae]llo", &["hello", "hallo"], &["hillo", "hllo"]),
            ("h[^e]llo", &["hallo", "hbllo"], &["hello"]),
            ("h[a-b]llo", &["hallo", "hbllo"], &["hcllo"]),
            ("h[b-a]llo", &["hallo", "hbllo"], &["hcllo"]),
            ("a\\*b", &["a*b"], &["axb", "a\\*b"]),
            ("a[\\]]", &["a]"], &["a\\", "a"]),
            ("[!a]", &["!", "a"], &["b"]),
            ("*", &["", "x"], &[]),
            ("*a*b", &["ab", "xaxb", "aab", "abab"], &["ba", "abx"]),
            ("**a", &["a", "xa"], &["", "ab"]),
            ("a?", &["ab"], &["a", "abc"]),
            ("", &[""], &["a"]),
            ("a[b", &["ab"], &["a", "ac"]),
            ("a\\", &["a\\"], &["a"]),
            ("[]a", &[], &["]", "a", "]a"]),
        ] {
            yes.iter().for_each(|text| assert!(key(pattern, text), "{pattern} {text}"));
            no.iter().for_each(|text| assert!(!key(pattern, text), "{pattern} {text}"));
        }
        assert_eq!(Glob::of_files(b"[!a]").matches(b"b", &mut Fuel(99)), Ok(true));
        assert_eq!(Glob::of_files(b"[!a]").matches(b"!", &mut Fuel(99)), Ok(true));
        assert!(Glob::is_pattern(b"a[b") && !Glob::is_pattern(b"a.b"));
    }

    #[test]
    fn matching_is_limited_in_steps() {
        let (pattern, text) = (format!("*{}b", "a".repeat(5_000)), "a".repeat(10_000));
        let mut fuel = Fuel(100_000);
        assert_eq!(Glob::of_keys(pattern.as_bytes()).matches(text.as_bytes(), &mut fuel), Err(Exhausted));
        assert_eq!(fuel, Fuel(0));
    }
}
