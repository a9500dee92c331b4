//! The one grammar in which ports are named: from a text, to a [`Spec`], to [`crate::open`].
//!
//! ```text
//! spec    = { wrapper } port NAME            NAME: the rest of the text, whatever it holds
//! wrapper = kind [ "(" options ")" ] ":"
//! port    = kind [ "(" options ")" ] ":"
//! options = key "=" value { "," key "=" value }
//! value   = text without , ( ) "   |   '"' text with \" and \\ '"'
//! ```
//! `tap:tap0`, `text:-`, `pktgen(size=22,rate=1M,flows=100):pg0`, `impair(loss=1%,delay=10ms):tap:tap0`. What kinds there are,
//! which options each takes, their forms and defaults: one table in [`Kind::info`]. A spec is checked whole before
//! anything is opened, and prints as a text that parses to the same spec.

mod error;
mod kind;
mod nearest;
#[cfg(test)]
mod tests;
mod value;

pub use error::SpecError;
pub use kind::{Fallback, Info, Kind, NameRule, OptionInfo};
pub use nearest::nearest;
pub use value::{Form, Percent, Value};

use clock::Duration;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use wire::Mac;

/// The longest text that is read.
pub const MAX_LEN: usize = 4096;
/// The most wrappers around one port.
pub const MAX_WRAPPERS: usize = 8;

/// A port's name, understood: wrappers from the outside in, the port itself, its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    /// The wrappers, the outermost first.
    pub wrappers: Vec<Layer>,
    /// The port under them.
    pub port: Layer,
    /// What follows the last colon: `tap0`.
    pub name: String,
}

/// One kind and the options given to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layer {
    /// The kind.
    pub kind: Kind,
    options: Vec<(&'static OptionInfo, Value)>,
}

impl Spec {
    /// A port without wrappers and options.
    ///
    /// # Errors
    /// A name that the kind cannot have, or a kind that is a wrapper or has options that must be given.
    pub fn new(kind: Kind, name: &str) -> Result<Spec, SpecError> {
        Spec::parse(&format!("{kind}:{name}"))
    }

    /// Reads a spec.
    ///
    /// # Errors
    /// See [`SpecError`]: each says what was found, where, and what was expected.
    pub fn parse(text: &str) -> Result<Spec, SpecError> {
        if text.len() > MAX_LEN {
            return Err(SpecError::TooLong { len: text.len() });
        }
        let mut cursor = Cursor { text, at: 0 };
        let mut wrappers = Vec::new();
        loop {
            let at = cursor.at;
            let layer = cursor.layer()?;
            layer.check_required()?;
            if !layer.kind.info().wrapper {
                let name = cursor.rest();
                layer.kind.check_name(name)?;
                return Ok(Spec { wrappers, port: layer, name: name.to_string() });
            }
            if wrappers.len() == MAX_WRAPPERS {
                return Err(SpecError::TooDeep { at });
            }
            wrappers.push(layer);
        }
    }

    /// What is behind the name, however it is written: an interface of the kernel, a pair, a card. Two ports of one device take frames from
    /// each other. `None`: the kind has none, as a generator.
    pub fn device(&self) -> Option<String> {
        match self.port.kind {
            Kind::Tap | Kind::Packet | Kind::Xdp => Some(self.name.clone()),
            Kind::Pair | Kind::Nic => Some(format!("{}:{}", self.port.kind, self.name)),
            _ => None,
        }
    }

    /// Returns the number of ports that one device can be opened as, one for each queue: of a TAP device, and 1 of any other.
    pub fn queues(&self) -> usize {
        if self.port.kind == Kind::Tap { self.port.count("queues").max(1) as usize } else { 1 }
    }

    /// Is it another queue of the same device, frames of which the other does not take: of a TAP of several queues, of a fanout group, of an
    /// interface by AF_XDP?
    pub fn is_queue_beside(&self, other: &Spec) -> bool {
        let (one, two) = (&self.port, &other.port);
        let spread = match one.kind {
            Kind::Tap => self.queues() > 1 && one == two,
            Kind::Packet => one.count("fanout") > 0 && one == two,
            Kind::Xdp => one.count("queue") != two.count("queue"),
            _ => false,
        };
        spread && one.kind == two.kind && self.name == other.name
    }

    /// Does a port of this name, or a wrapper around it, write to standard output?
    pub fn writes_stdout(&self) -> bool {
        let is_stdout = |layer: &Layer, option| layer.get_text(option).is_some_and(|file| file == "-");
        let by_name = self.port.get_text("write").is_none()
            && match self.port.kind {
                Kind::Text => true,
                Kind::Pcap => !self.port.switch("read"),
                _ => false,
            };
        (by_name && self.name == "-")
            || is_stdout(&self.port, "write")
            || self.wrappers.iter().any(|wrapper| is_stdout(wrapper, "file"))
    }
}

impl Layer {
    /// The kind with all options at their defaults.
    pub fn new(kind: Kind) -> Layer {
        Layer { kind, options: Vec::new() }
    }

    /// Sets an option from its text.
    ///
    /// # Errors
    /// An option that the kind does not have or has already been given, or a value of another form.
    pub fn set(&mut self, option: &str, value: &str) -> Result<(), SpecError> {
        self.set_at(option, value, 0)
    }

    fn set_at(&mut self, option: &str, value: &str, at: usize) -> Result<(), SpecError> {
        let kind = self.kind;
        let Some(info) = kind.option(option) else {
            return Err(SpecError::unknown_option(kind, option, at));
        };
        if self.is_set(info.name) {
            return Err(SpecError::GivenTwice { kind, option: info.name, at });
        }
        let Some(parsed) = info.form.parse(value) else {
            return Err(SpecError::BadValue { kind, option: info, found: value.to_string(), at });
        };
        self.options.push((info, parsed));
        Ok(())
    }

    fn check_required(&self) -> Result<(), SpecError> {
        let missing = |o: &&&OptionInfo| matches!(o.fallback, Fallback::Required) && !self.is_set(o.name);
        match self.kind.info().options.iter().collect::<Vec<_>>().iter().find(missing) {
            Some(option) => Err(SpecError::MissingOption { kind: self.kind, option: option.name }),
            None => Ok(()),
        }
    }

    /// The options that were given, in their order.
    pub fn options(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.options.iter().map(|(info, value)| (info.name, value))
    }

    /// Was the option given?
    pub fn is_set(&self, option: &str) -> bool {
        self.options.iter().any(|(info, _)| info.name == option)
    }

    /// The option's value, given or by default; `None` if it has no default.
    pub fn get(&self, option: &str) -> Option<Value> {
        let given = self.options.iter().find(|(info, _)| info.name == option).map(|(_, value)| value.clone());
        given.or_else(|| self.kind.option(option)?.default())
    }

    /// A count or rate, given or by default; 0 without either.
    pub fn count(&self, option: &str) -> u64 {
        self.get_count(option).unwrap_or_default()
    }

    /// A count or rate, if there is one.
    pub fn get_count(&self, option: &str) -> Option<u64> {
        match self.get(option)? {
            Value::Count(n) => Some(n),
            _ => None,
        }
    }

    /// A switch, given or by default; off without either.
    pub fn switch(&self, option: &str) -> bool {
        self.get(option) == Some(Value::Switch(true))
    }

    /// A duration, given or by default; zero without either.
    pub fn duration(&self, option: &str) -> Duration {
        match self.get(option) {
            Some(Value::Duration(duration)) => duration,
            _ => Duration::ZERO,
        }
    }

    /// A percentage, given or by default; zero without either.
    pub fn percent(&self, option: &str) -> Percent {
        match self.get(option) {
            Some(Value::Percent(percent)) => percent,
            _ => Percent::ZERO,
        }
    }

    /// One of the words the option allows, given or by default; empty without either.
    pub fn word(&self, option: &str) -> &'static str {
        match self.get(option) {
            Some(Value::Word(word)) => word,
            _ => "",
        }
    }

    /// An Ethernet address, if there is one.
    pub fn get_mac(&self, option: &str) -> Option<Mac> {
        match self.get(option)? {
            Value::Mac(mac) => Some(mac),
            _ => None,
        }
    }

    /// An address, if there is one.
    pub fn get_ip(&self, option: &str) -> Option<IpAddr> {
        match self.get(option)? {
            Value::Ip(address) => Some(address),
            _ => None,
        }
    }

    /// A text, if there is one.
    pub fn get_text(&self, option: &str) -> Option<String> {
        match self.get(option)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl FromStr for Spec {
    type Err = SpecError;
    fn from_str(text: &str) -> Result<Spec, SpecError> {
        Spec::parse(text)
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.wrappers.iter().try_for_each(|wrapper| write!(f, "{wrapper}:"))?;
        write!(f, "{}:{}", self.port, self.name)
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        for (i, (info, value)) in self.options.iter().enumerate() {
            write!(f, "{}{}={value}", if i == 0 { '(' } else { ',' }, info.name)?;
        }
        if self.options.is_empty() { Ok(()) } else { f.write_str(")") }
    }
}

/// Where the reading stands. `at` is always a character boundary.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += if found { wanted.len_utf8() } else { 0 };
        found
    }

    /// Everything up to the first of `stops`, which stays; or to the end.
    fn until(&mut self, stops: &[char]) -> &'a str {
        let rest = self.rest();
        let len = rest.find(stops).unwrap_or(rest.len());
        self.at += len;
        rest.get(..len).unwrap_or_default()
    }

    /// `kind [ "(" options ")" ] ":"`
    fn layer(&mut self) -> Result<Layer, SpecError> {
        let at = self.at;
        let word = self.until(&['(', ')', ':', ',']);
        let kind = match word.parse::<Kind>() {
            Ok(kind) => kind,
            Err(()) if word.is_empty() => return Err(SpecError::NoKind { at }),
            Err(()) => return Err(SpecError::unknown_kind(word, at)),
        };
        let mut layer = Layer::new(kind);
        let open = self.at;
        if self.take('(') {
            self.options(&mut layer, open)?;
        }
        if self.take(':') {
            return Ok(layer);
        }
        Err(match self.peek() {
            Some(')') => SpecError::Unbalanced { at: self.at, found: ")" },
            _ => SpecError::NoColon { kind, at: self.at },
        })
    }

    fn options(&mut self, layer: &mut Layer, open: usize) -> Result<(), SpecError> {
        if self.take(')') {
            return Ok(());
        }
        loop {
            let at = self.at;
            let key = self.until(&['=', ',', '(', ')']).trim();
            if !self.take('=') {
                return Err(match self.peek() {
                    None => SpecError::Unbalanced { at: open, found: "(" },
                    Some('(') => SpecError::Unbalanced { at: self.at, found: "(" },
                    _ => SpecError::NoValue { kind: layer.kind, found: key.to_string(), at },
                });
            }
            let value_at = self.at;
            let value = self.value(open)?;
            // The key is judged first: a wrong word is the likelier cause of a wrong value.
            let place = if layer.kind.option(key).is_some() { value_at } else { at };
            layer.set_at(key, &value, place)?;
            if self.take(')') {
                return Ok(());
            }
            if !self.take(',') {
                return Err(SpecError::Unbalanced { at: open, found: "(" });
            }
        }
    }

    /// A bare or quoted value; stops before `,` or `)`.
    fn value(&mut self, open: usize) -> Result<String, SpecError> {
        self.at += self.rest().len() - self.rest().trim_start().len();
        if self.peek() != Some('"') {
            let bare = self.until(&[',', '(', ')', '"']);
            return match self.peek() {
                None => Err(SpecError::Unbalanced { at: open, found: "(" }),
                Some('(') => Err(SpecError::Unbalanced { at: self.at, found: "(" }),
                Some('"') => Err(SpecError::Unbalanced { at: self.at, found: "\"" }),
                Some(_) => Ok(bare.trim_end().to_string()),
            };
        }
        let quote = self.at;
        let mut text = String::new();
        let mut chars = self.rest().char_indices().skip(1);
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.at = quote + i + 1;
                    self.at += self.rest().len() - self.rest().trim_start().len();
                    return Ok(text);
                }
                '\\' => text.extend(chars.next().map(|(_, escaped)| escaped)),
                plain => text.push(plain),
            }
        }
        Err(SpecError::Unbalanced { at: quote, found: "\"" })
    }
}
