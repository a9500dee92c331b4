//! Patterns: the elements of a form, and the matching of words with them.

use crate::{Args, CommandError, Words};
use std::net::IpAddr;

/// A kind of value, such as an address, and the name that forms use for it.
#[derive(Clone, Copy, Debug)]
struct Value {
    /// Name in forms.
    name: &'static str,
    /// Name in error messages.
    label: &'static str,
    /// Description of a valid value, for error messages.
    expected: &'static str,
    /// Returns whether a word may be a value of this kind. An optional value consumes a word only
    /// if this function accepts it.
    accepts: fn(&str) -> bool,
}

fn any(_: &str) -> bool {
    true
}

fn is_no_option(word: &str) -> bool {
    !word.starts_with('-')
}

fn is_address(word: &str) -> bool {
    let (addr, _) = word.split_once('/').unwrap_or((word, ""));
    let (addr, _) = addr.split_once('%').unwrap_or((addr, ""));
    addr.parse::<IpAddr>().is_ok()
}

fn is_number(word: &str) -> bool {
    word.parse::<i64>().is_ok()
}

const fn value(name: &'static str, label: &'static str, expected: &'static str, accepts: fn(&str) -> bool) -> Value {
    Value { name, label, expected, accepts }
}

/// Kinds of values that have a description or a check. Values with other names accept any word.
const VALUES: &[Value] = &[
    value("ADDR", "address", "an address", any),
    value("A", "address", "an IP address", is_address),
    value("A/LEN", "address", "an address such as 10.0.0.1/24 or fd00::1/64", is_address),
    value("B", "address", "an IP address", is_address),
    value("BURST", "burst", "a number of frames", is_number),
    value("DST", "destination", "a destination such as 10.0.0.0/8 or 2001:db8::/32, or default", any),
    value("GATEWAY", "gateway", "a gateway's address", any),
    value("HOST", "host", "a host", is_no_option),
    value("IF", "interface", "an interface", is_no_option),
    value("MAC", "MAC address", "a MAC address such as 02:00:00:00:00:01", any),
    value("MASK", "netmask", "a netmask such as 255.255.255.0", any),
    value("PLACE", "place", "an interface, 'any', 'dropped' or 'all'", is_no_option),
    value("PORT", "port", "a port such as tap:tap0", any),
    value("RATE", "rate", "a number of frames per second", is_number),
    value("VLANS", "VLANs", "VLANs such as 1,10-20, or all", any),
];

/// The two names of a range (such as `1-4094`) or of a choice (such as `on|off`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Name {
    /// Name of the value for [`Args::get`].
    value: &'static str,
    /// Name in error messages: the word directly before the element, or the name of the value.
    shown: &'static str,
}

/// An element of a form.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Element {
    /// A word and its synonyms, separated by commas.
    Word(&'static str),
    /// A word that may have a minus sign in front.
    Switch {
        name: &'static str,
        /// The word as in the grammar: `[-]learn`.
        shown: &'static str,
    },
    /// Words separated by `|`, each with its synonyms.
    Choice { name: Name, words: &'static str },
    /// A number in a range.
    Range { name: Name, min: i64, max: i64 },
    /// Any word.
    Value(&'static str),
    /// All remaining words.
    Rest(&'static str),
    /// Elements that may be absent: `[...]`.
    Optional(Vec<Element>),
}

/// The elements of a form.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Vec<Element>);

impl Pattern {
    pub(crate) fn of(grammar: &'static str) -> Pattern {
        let mut rest = grammar;
        Pattern(sequence(&mut rest, ""))
    }

    /// Returns the number of fixed words at the beginning of the form.
    pub(crate) fn lead(&self) -> usize {
        let is_fixed = |element: &&Element| matches!(element, Element::Word(_) | Element::Switch { .. });
        self.0.iter().take_while(is_fixed).count()
    }

    /// Returns how many of the leading fixed words match `words`.
    pub(crate) fn lead_matched(&self, words: &[&str]) -> usize {
        let lead = self.0.iter().take(self.lead());
        lead.zip(words).take_while(|(element, word)| element.accepts(word)).count()
    }

    /// Returns the words that the leading element with index `at` accepts, without synonyms.
    pub(crate) fn lead_words(&self, at: usize) -> Vec<&'static str> {
        self.0.get(at).filter(|_| at < self.lead()).map(Element::shown_words).unwrap_or_default()
    }

    /// Returns the elements that may follow the leading words: the options after these words, and
    /// the first element that is not optional.
    fn next(&self) -> impl Iterator<Item = &Element> {
        let mut is_over = false;
        self.0.iter().skip(self.lead()).take_while(move |element| {
            let is_taken = !is_over;
            is_over |= !matches!(element, Element::Optional(_));
            is_taken
        })
    }

    /// Returns whether the form accepts `word` after its leading words. If `word` is `None`, the
    /// command ends there.
    pub(crate) fn fits(&self, word: Option<&str>) -> bool {
        match word {
            Some(word) => self.next().any(|element| element.accepts(word)),
            None => self.next().all(|element| matches!(element, Element::Optional(_))),
        }
    }

    /// Returns the words that may follow the leading words.
    pub(crate) fn next_words(&self) -> Vec<&'static str> {
        self.next().flat_map(Element::shown_words).collect()
    }

    /// Returns the description of the value that must follow the leading words; `None` if no value
    /// must follow.
    pub(crate) fn next_value(&self) -> Option<String> {
        let value = self.0.get(self.lead())?;
        matches!(value, Element::Value(_) | Element::Range { .. } | Element::Rest(_)).then(|| value.expected())
    }

    /// Consumes the words that match this pattern, which was parsed from `grammar`. Returns their
    /// values, and the first words of the options that could still follow.
    ///
    /// # Errors
    /// A word is unknown, invalid or missing.
    pub(crate) fn take_all<'w>(
        &self,
        grammar: &'static str,
        words: &mut Words<'w>,
    ) -> Result<(Args<'w>, Vec<&'static str>), CommandError> {
        let (mut args, before) = (Args::new(grammar, self.0.iter().flat_map(Element::names).collect()), words.rest());
        let options = take(&self.0, words, &mut args)?;
        args.put_words(before.get(..before.len() - words.rest().len()).unwrap_or_default());
        Ok((args, options))
    }
}

impl Pattern {
    /// Returns example words that match the form: without options, or with each option once.
    pub(crate) fn example(&self, options: With) -> Vec<String> {
        self.0.iter().flat_map(|element| element.example(options)).collect()
    }
}

/// Options that an example command contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum With {
    None,
    All,
}

/// Parses elements up to the end or to a closing bracket. `before` is the preceding fixed word,
/// which becomes the name of ranges and choices.
fn sequence(rest: &mut &'static str, before: &'static str) -> Vec<Element> {
    let (mut elements, mut before) = (Vec::new(), before);
    loop {
        *rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix("[-]") {
            let (name, after) = split(after);
            let shown = rest.get(..rest.len() - after.len()).unwrap_or(name);
            (*rest, before) = (after, name);
            elements.push(Element::Switch { name, shown });
        } else if let Some(after) = rest.strip_prefix('[') {
            *rest = after;
            elements.push(Element::Optional(sequence(rest, before)));
            *rest = rest.strip_prefix(']').unwrap_or(rest);
        } else if rest.is_empty() || rest.starts_with(']') {
            return elements;
        } else {
            let (token, after) = split(rest);
            *rest = after;
            let is_beside = matches!(elements.last(), Some(Element::Word(_) | Element::Switch { .. }));
            let element = element(token, before, is_beside);
            if let Element::Word(word) = &element {
                before = first(word);
            }
            elements.push(element);
        }
    }
}

/// Splits the first token off `text`. Returns the token and the remaining text.
fn split(text: &'static str) -> (&'static str, &'static str) {
    text.split_at(text.find([' ', '[', ']']).unwrap_or(text.len()))
}

/// Returns the first of several synonyms separated by commas.
fn first(word: &'static str) -> &'static str {
    word.split(',').next().unwrap_or(word)
}

/// Parses a token as an element. `before` is the preceding word. `is_beside` is set if this word is
/// directly in front of the token.
fn element(token: &'static str, before: &'static str, is_beside: bool) -> Element {
    let (value, domain) = token.split_once(':').filter(|(name, _)| is_name(name)).unwrap_or((before, token));
    let name = Name { value, shown: if is_beside { before } else { value } };
    if let Some((min, max)) = domain.split_once('-')
        && let (Ok(min), Ok(max)) = (min.parse(), max.parse())
    {
        return Element::Range { name, min, max };
    }
    match token.strip_suffix("...") {
        Some(name) => Element::Rest(name),
        None if domain.contains('|') => Element::Choice { name, words: domain },
        None if is_name(token) => Element::Value(token),
        None => Element::Word(token),
    }
}

/// Returns whether a token is the name of a value: upper-case letters, digits and slashes.
pub(crate) fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_uppercase())
        && token.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'/')
}

impl Element {
    /// Returns the names under which values are read.
    fn names(&self) -> Vec<&'static str> {
        match self {
            Element::Word(word) => vec![first(word)],
            Element::Switch { name, .. } | Element::Value(name) => vec![name],
            Element::Choice { name, .. } | Element::Range { name, .. } => vec![name.value],
            Element::Rest(_) => Vec::new(),
            Element::Optional(elements) => elements.iter().flat_map(Element::names).collect(),
        }
    }

    /// Returns the canonical form of `word` (the first of its synonyms), if the element consists of
    /// fixed words and accepts it.
    fn canonical(&self, word: &str) -> Option<&'static str> {
        let among = |synonyms: &'static str| synonyms.split(',').any(|known| known == word).then(|| first(synonyms));
        match self {
            Element::Word(synonyms) => among(synonyms),
            Element::Choice { words, .. } => words.split('|').find_map(among),
            _ => None,
        }
    }

    /// Returns whether `word` can be the first word of the element.
    fn accepts(&self, word: &str) -> bool {
        match self {
            Element::Word(_) | Element::Choice { .. } => self.canonical(word).is_some(),
            Element::Switch { name, .. } => word.strip_prefix('-').unwrap_or(word) == *name,
            Element::Range { .. } => is_number(word),
            Element::Value(name) => known(name).is_none_or(|value| (value.accepts)(word)),
            Element::Rest(_) => true,
            Element::Optional(elements) => elements.first().is_some_and(|element| element.accepts(word)),
        }
    }

    /// Returns the fixed words that can be the first word of the element, without synonyms.
    fn shown_words(&self) -> Vec<&'static str> {
        match self {
            Element::Word(word) => vec![first(word)],
            Element::Switch { shown, .. } => vec![shown],
            Element::Choice { words, .. } => words.split('|').map(first).collect(),
            Element::Optional(elements) => elements.first().map(Element::shown_words).unwrap_or_default(),
            Element::Range { .. } | Element::Value(_) | Element::Rest(_) => Vec::new(),
        }
    }

    fn example(&self, options: With) -> Vec<String> {
        let word = match self {
            Element::Optional(elements) if options == With::All => {
                return elements.iter().flat_map(|element| element.example(options)).collect();
            }
            Element::Optional(_) => return Vec::new(),
            Element::Word(word) => first(word).to_string(),
            Element::Switch { name, .. } => format!("-{name}"),
            Element::Choice { words, .. } => words.split(['|', ',']).next().unwrap_or_default().to_string(),
            Element::Range { min, .. } => min.to_string(),
            Element::Value(name) | Element::Rest(name) => {
                let candidates = ["10.0.0.1", "7"];
                let accepts = |word: &&str| known(name).is_none_or(|value| (value.accepts)(word));
                candidates.into_iter().find(accepts).unwrap_or("x").to_string()
            }
        };
        vec![word]
    }

    /// Returns the description of a valid word for this element.
    fn expected(&self) -> String {
        match self {
            Element::Range { min, max, .. } => format!("a number from {min} to {max}"),
            Element::Value(name) | Element::Rest(name) => {
                known(name).map_or_else(|| name.to_string(), |value| value.expected.to_string())
            }
            Element::Optional(elements) => elements.first().map(Element::expected).unwrap_or_default(),
            Element::Word(_) | Element::Switch { .. } | Element::Choice { .. } => either(&self.shown_words()),
        }
    }
}

/// Joins words as alternatives: `a, b or c`.
pub(crate) fn either<S: AsRef<str>>(words: &[S]) -> String {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.as_slice() {
        [most @ .., last] if !most.is_empty() => format!("{} or {last}", most.join(", ")),
        words => words.concat(),
    }
}

fn known(name: &str) -> Option<&'static Value> {
    VALUES.iter().find(|value| value.name == name)
}

/// Returns the kind of a word, for error messages.
pub(crate) fn kind_of(word: &str) -> &'static str {
    if word.starts_with('-') { "option" } else { "word" }
}

/// Options at the current position of the command. An option that was consumed and must not be
/// repeated stays in the list with [`Repeat::Refused`].
#[derive(Default)]
struct Options<'e>(Vec<(&'e Element, Repeat)>);

/// Rule for the next occurrence of an option. An option that may not be repeated is refused after
/// its first occurrence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Allowed,
    Refused,
}

/// Consumes the words of `elements`. Accepts options also after the value that follows them.
/// Returns the first words of the options that could still follow.
fn take<'w>(
    elements: &[Element],
    words: &mut Words<'w>,
    args: &mut Args<'w>,
) -> Result<Vec<&'static str>, CommandError> {
    let mut options = Options::default();
    let mut elements = elements.iter().peekable();
    while elements.peek().is_some() {
        while let Some(option) = elements.next_if(|element| matches!(element, Element::Optional(_))) {
            options.0.push((option, Repeat::Allowed));
        }
        options.take(words, args)?;
        let Some(element) = elements.next() else { break };
        let is_unknown = |word: &&str| word.starts_with('-') && options.have_dashes();
        if let (Element::Value(_), Some(word)) = (element, words.peek().filter(is_unknown)) {
            return Err(CommandError::unknown("option", word, options.words()));
        }
        take_one(element, words, args)?;
        match element {
            Element::Value(_) | Element::Range { .. } => options.take(words, args)?,
            _ => options.0.clear(),
        }
    }
    Ok(options.words().collect())
}

impl Options<'_> {
    /// Returns the first words of the options that may come next.
    fn words(&self) -> impl Iterator<Item = &'static str> {
        let open = self.0.iter().filter(|(_, repeat)| *repeat == Repeat::Allowed);
        open.flat_map(|(option, _)| option.shown_words())
    }

    /// Returns whether any of the options begins with a minus sign.
    fn have_dashes(&self) -> bool {
        self.0.iter().flat_map(|(option, _)| option.shown_words()).any(|word| word.starts_with('-'))
    }

    /// Consumes options in any order; options with fixed words take precedence over values. An
    /// option that consists of a single word may be repeated, and `NAME...` accepts any number of
    /// words. Other options may occur once.
    fn take<'w>(&mut self, words: &mut Words<'w>, args: &mut Args<'w>) -> Result<(), CommandError> {
        while let Some(word) = words.peek() {
            let is_option = word.starts_with('-') && self.have_dashes();
            let mut open: Vec<&mut (&Element, Repeat)> = self
                .0
                .iter_mut()
                .filter(|(option, repeat)| *repeat == Repeat::Allowed && option.accepts(word))
                .collect();
            let at = open.iter().position(|(option, _)| !option.shown_words().is_empty());
            let Some((Element::Optional(elements), repeat)) =
                at.or((!is_option && !open.is_empty()).then_some(0)).map(|at| open.swap_remove(at))
            else {
                return Ok(());
            };
            match elements.as_slice() {
                [Element::Rest(_), ..] => {
                    words.take();
                    args.put_rest(word);
                    continue;
                }
                [Element::Word(_) | Element::Switch { .. }] => {}
                _ => *repeat = Repeat::Refused,
            }
            take(elements, words, args)?;
        }
        Ok(())
    }
}

fn take_one<'w>(element: &Element, words: &mut Words<'w>, args: &mut Args<'w>) -> Result<(), CommandError> {
    let word = words.next(&element.expected())?;
    match element {
        Element::Word(own) => {
            let unknown = || CommandError::unknown(kind_of(word), word, std::iter::once(first(own)));
            args.put(first(own), element.canonical(word).ok_or_else(unknown)?);
        }
        Element::Switch { name, .. } if element.accepts(word) => args.put(name, word),
        Element::Switch { shown, .. } => {
            return Err(CommandError::unknown("word", word, std::iter::once(*shown)));
        }
        Element::Choice { name, .. } => {
            let bad = || CommandError::bad(&name.shown.to_lowercase(), word, element.expected());
            args.put(name.value, element.canonical(word).ok_or_else(bad)?);
        }
        Element::Range { name, min, max } => {
            let is_inside = word.parse().is_ok_and(|n: i64| (*min..=*max).contains(&n));
            if !is_inside {
                return Err(CommandError::bad(&name.shown.to_lowercase(), word, element.expected()));
            }
            args.put(name.value, word);
        }
        Element::Value(name) => {
            let value = known(name).filter(|value| !(value.accepts)(word));
            if let Some(value) = value {
                return Err(CommandError::bad(value.label, word, value.expected));
            }
            args.put(name, word);
        }
        Element::Rest(_) => {
            args.put_rest(word);
            while let Some(word) = words.take() {
                args.put_rest(word);
            }
        }
        Element::Optional(_) => {}
    }
    Ok(())
}
