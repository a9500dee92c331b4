//! Values that were parsed from the words of a command.

/// Values that were parsed from the words of a command. Each is found by the name of an element of
/// the command's form (see the crate's documentation).
#[derive(Clone, Debug)]
pub struct Args<'w> {
    grammar: &'static str,
    /// Names of all elements of the form.
    names: Vec<&'static str>,
    values: Vec<(&'static str, &'w str)>,
    rest: Vec<&'w str>,
    words: &'w [&'w str],
}

impl<'w> Args<'w> {
    pub(crate) fn new(grammar: &'static str, names: Vec<&'static str>) -> Args<'w> {
        Args { grammar, names, values: Vec::new(), rest: Vec::new(), words: &[] }
    }

    pub(crate) fn put(&mut self, name: &'static str, value: &'w str) {
        self.values.push((name, value));
    }

    pub(crate) fn put_rest(&mut self, word: &'w str) {
        self.rest.push(word);
    }

    pub(crate) fn put_words(&mut self, words: &'w [&'w str]) {
        self.words = words;
    }

    /// Returns the value of `name`. If it was given twice, returns the last value; `None` if it was
    /// not given.
    ///
    /// # Panics
    /// With debug assertions, panics if the form has no element `name`.
    pub fn get(&self, name: &str) -> Option<&'w str> {
        debug_assert!(self.names.contains(&name), "'{}' has no {name}", self.grammar);
        self.values.iter().rev().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Returns whether `name` was given.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns whether the switch `name` was given without a minus sign, as in `learn` for
    /// `[-]learn`.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|word| !word.starts_with('-'))
    }

    /// Returns the value of `name`, or an empty string if it was not given.
    pub fn text(&self, name: &str) -> &'w str {
        self.get(name).unwrap_or_default()
    }

    /// Returns the number given for the range `name`, or `None` if it was not given. The parser has
    /// checked that the number is in the range.
    pub fn number(&self, name: &str) -> Option<i64> {
        self.get(name)?.parse().ok()
    }

    /// Returns the number given for the range `name`, which the form requires. Returns the default
    /// of `T` if no number was given or it does not fit into `T`.
    pub fn int<T: TryFrom<i64> + Default>(&self, name: &str) -> T {
        self.number(name).and_then(|number| T::try_from(number).ok()).unwrap_or_default()
    }

    /// Returns the words that matched an element `NAME...`.
    pub fn rest(&self) -> &[&'w str] {
        &self.rest
    }

    /// Returns all words that matched the form.
    pub fn words(&self) -> &'w [&'w str] {
        self.words
    }
}
