//! Cursor over the words of a command.

use crate::CommandError;

/// The words of a command and the index of the next one.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    all: &'a [&'a str],
    at: usize,
}

impl<'a> Words<'a> {
    /// Returns a cursor before the first of `words`.
    pub fn new(words: &'a [&'a str]) -> Words<'a> {
        Words { all: words, at: 0 }
    }

    /// Returns the next word without consuming it.
    pub fn peek(&self) -> Option<&'a str> {
        self.rest().first().copied()
    }

    /// Returns the remaining words.
    pub fn rest(&self) -> &'a [&'a str] {
        self.all.get(self.at..).unwrap_or_default()
    }

    /// Consumes and returns the next word.
    pub fn take(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.at += 1;
        Some(word)
    }

    /// Consumes and returns the next word.
    ///
    /// # Errors
    /// [`CommandError::Missing`] if no words are left. It contains `expected` and the last word of
    /// the command.
    pub fn next(&mut self, expected: &str) -> Result<&'a str, CommandError> {
        let word = self.take();
        word.ok_or_else(|| self.missing(expected))
    }

    /// Returns the error for a command that ends before `expected`.
    pub fn missing(&self, expected: &str) -> CommandError {
        let before = self.at.checked_sub(1).and_then(|at| self.all.get(at).or(self.all.last()));
        CommandError::Missing { expected: expected.to_string(), after: before.map(|word| crate::error::shown(word)) }
    }

    /// Consumes the next word if it is `word`. Returns whether it was consumed.
    pub fn skip(&mut self, word: &str) -> bool {
        self.take_if(&[word])
    }

    /// Consumes the next word if it is one of `words`. Returns whether it was consumed.
    pub fn take_if(&mut self, words: &[&str]) -> bool {
        let is = self.peek().is_some_and(|word| words.contains(&word));
        if is {
            self.take();
        }
        is
    }

    /// Returns whether at least one of the remaining words satisfies `such`.
    pub fn any(&self, such: impl Fn(&str) -> bool) -> bool {
        self.rest().iter().any(|word| such(word))
    }

    /// Checks that no words are left.
    ///
    /// # Errors
    /// [`CommandError::TooMuch`] with the next word, if a word is left.
    pub fn end(&self) -> Result<(), CommandError> {
        self.peek().map_or(Ok(()), |found| Err(CommandError::too_much(found)))
    }
}
