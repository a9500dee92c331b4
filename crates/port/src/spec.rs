//! The grammar of port names. A text is parsed into a [`Spec`], which [`crate::open`] opens.
//!
//! ```text
//! spec    = { wrapper } port NAME            NAME is the rest of the text, of any content
//! wrapper = kind [ "(" options ")" ] ":"
//! port    = kind [ "(" options ")" ] ":"
//! options = key "=" value { "," key "=" value }
//! value   = text without , ( ) "   |   '"' text with \" and \\ '"'
//! ```
//! Examples: `tap:tap0`, `text:-`, `pktgen(size=22,rate=1M,flows=100):pg0`,
//! `impair(loss=1%,delay=10ms):tap:tap0`. A single table describes all kinds and their options,
//! with forms and defaults: [`Kind::info`]. A spec is validated completely before anything is
//! opened. Formatting a spec results in text that is parsed to the same spec.

mod error;
mod kind;
mod option;
#[cfg(test)]
mod tests;
mod value;

pub use error::SpecError;
pub use kind::{Info, Kind, NameRule};
pub use option::{Fallback, OptionInfo};
pub use value::{Form, Percent, Value};

use clock::Duration;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use wire::Mac;

/// Maximum length of a port name in bytes.
pub const MAX_LEN: usize = 4096;
/// Maximum number of wrappers around one port.
pub const MAX_WRAPPERS: usize = 8;

/// A parsed port name: wrappers, port and name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spec {
    /// The wrappers around the port, the outermost first.
    pub wrappers: Vec<Layer>,
    /// The port inside the wrappers.
    pub port: Layer,
    /// The text after the last colon, such as `tap0`.
    pub name: String,
}

/// One kind of port or wrapper, with the options given to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layer {
    /// Kind of port or wrapper.
    pub kind: Kind,
    options: Vec<(&'static OptionInfo, Value)>,
}

impl Spec {
    /// Creates the spec of a port without wrappers and options.
    ///
    /// # Errors
    /// The kind does not allow this name, is a wrapper, or requires options.
    pub fn new(kind: Kind, name: &str) -> Result<Spec, SpecError> {
        Spec::parse(&format!("{kind}:{name}"))
    }

    /// Parses a port name such as `impair(loss=1%):tap:tap0`.
    ///
    /// # Errors
    /// See [`SpecError`]: each error contains the rejected text, its position, and what was
    /// expected.
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
                layer.kind.info().names.check(name).map_err(|expected| SpecError::BadName {
                    kind: layer.kind,
                    found: name.to_string(),
                    expected,
                })?;
                return Ok(Spec { wrappers, port: layer, name: name.to_string() });
            }
            if wrappers.len() == MAX_WRAPPERS {
                return Err(SpecError::TooDeep { at });
            }
            wrappers.push(layer);
        }
    }

    /// Returns the device that the port uses, such as a kernel interface, a pair or a controller.
    /// Two ports on the same device compete for its frames. `None` if the kind of port uses no
    /// device, such as a generator.
    pub fn device(&self) -> Option<String> {
        match self.port.kind {
            Kind::Tap | Kind::Tun | Kind::Packet | Kind::Xdp => Some(self.name.clone()),
            Kind::Pair | Kind::Nic => Some(format!("{}:{}", self.port.kind, self.name)),
            _ => None,
        }
    }

    /// Returns the number of ports that can be opened on the device: the number of queues of a TAP
    /// device, otherwise 1.
    pub fn queues(&self) -> usize {
        if self.port.kind == Kind::Tap { self.port.count("queues").max(1) as usize } else { 1 }
    }

    /// Returns whether `other` is a different queue of the same device, so that the two ports do
    /// not compete for frames. This is the case for queues of a multi-queue TAP device, members of
    /// a fanout group, and AF_XDP queues of an interface.
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

    /// Returns whether the port, or a wrapper around it, writes to standard output.
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
    /// Creates a layer of `kind` with all options at their defaults.
    pub fn new(kind: Kind) -> Layer {
        Layer { kind, options: Vec::new() }
    }

    /// Sets an option from its text.
    ///
    /// # Errors
    /// The kind has no option with this name, the option was already given, or the value does not
    /// have the form that the option requires.
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

    /// Returns the options that were given, in the order of the port name.
    pub fn options(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.options.iter().map(|(info, value)| (info.name, value))
    }

    /// Returns whether the option was given.
    pub fn is_set(&self, option: &str) -> bool {
        self.options.iter().any(|(info, _)| info.name == option)
    }

    /// Returns the value of an option: the given one, or the default. `None` if the option was not
    /// given and has no default.
    pub fn get(&self, option: &str) -> Option<Value> {
        let given = self.options.iter().find(|(info, _)| info.name == option).map(|(_, value)| value.clone());
        given.or_else(|| self.kind.option(option)?.default())
    }

    /// Returns the value of an option that is a count or rate; 0 if it was not given and has no
    /// default.
    pub fn count(&self, option: &str) -> u64 {
        self.get_count(option).unwrap_or_default()
    }

    /// Returns the value of an option that is a count or rate; `None` if it was not given and has
    /// no default.
    pub fn get_count(&self, option: &str) -> Option<u64> {
        match self.get(option)? {
            Value::Count(n) => Some(n),
            _ => None,
        }
    }

    /// Returns the value of an option that is a switch; off if it was not given and has no default.
    pub fn switch(&self, option: &str) -> bool {
        self.get(option) == Some(Value::Switch(true))
    }

    /// Returns the value of an option that is a duration; zero if it was not given and has no
    /// default.
    pub fn duration(&self, option: &str) -> Duration {
        match self.get(option) {
            Some(Value::Duration(duration)) => duration,
            _ => Duration::ZERO,
        }
    }

    /// Returns the value of an option that is a percentage; zero if it was not given and has no
    /// default.
    pub fn percent(&self, option: &str) -> Percent {
        match self.get(option) {
            Some(Value::Percent(percent)) => percent,
            _ => Percent::ZERO,
        }
    }

    /// Returns the value of an option that is one word of a list; empty if it was not given and has
    /// no default.
    pub fn word(&self, option: &str) -> &'static str {
        match self.get(option) {
            Some(Value::Word(word)) => word,
            _ => "",
        }
    }

    /// Returns the value of an option that is a MAC address; `None` if it was not given and has no
    /// default.
    pub fn get_mac(&self, option: &str) -> Option<Mac> {
        match self.get(option)? {
            Value::Mac(mac) => Some(mac),
            _ => None,
        }
    }

    /// Returns the value of an option that is an IP address; `None` if it was not given and has no
    /// default.
    pub fn get_ip(&self, option: &str) -> Option<IpAddr> {
        match self.get(option)? {
            Value::Ip(address) => Some(address),
            _ => None,
        }
    }

    /// Returns the value of an option that is a text; `None` if it was not given and has no
    /// default.
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

/// State of the parser. The byte offset `at` is always a character boundary.
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

    /// Consumes and returns everything before the first character of `stops`, or up to the end.
    fn until(&mut self, stops: &[char]) -> &'a str {
        let rest = self.rest();
        let len = rest.find(stops).unwrap_or(rest.len());
        self.at += len;
        rest.get(..len).unwrap_or_default()
    }

    /// Parses `kind [ "(" options ")" ] ":"`.
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
            // An error points to the key if the kind has no such option, and to the value
            // otherwise.
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

    /// Parses an unquoted or quoted value, up to `,` or `)`. `open` is the position of the opening
    /// parenthesis.
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
