//! Declarations of keys.

use super::given::{Given, Item, Takes, Unset};

pub(super) const MAC: Takes = Takes::Text("a MAC address such as 02:00:00:00:00:01");

/// Declaration of a key that sets a field of `T`; used by the parser and the documentation.
pub struct Key<T> {
    /// Name of the key in files and on the command line.
    pub name: &'static str,
    /// Type and range of the key's value.
    pub takes: Takes,
    /// Value or behavior if the key is not given.
    pub unset: Unset,
    /// Description, as a sentence.
    pub about: &'static str,
    /// Parses the value and stores it. An error describes the expected form.
    pub set: fn(&mut T, Given<'_>) -> Result<(), String>,
    /// Returns the value in the form that `set` accepts; `None` if the key is not set.
    pub get: fn(&T) -> Option<Item>,
}

impl<T> std::fmt::Debug for Key<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

pub(super) const fn key<T>(
    name: &'static str,
    takes: Takes,
    unset: Unset,
    about: &'static str,
    set: fn(&mut T, Given<'_>) -> Result<(), String>,
    get: fn(&T) -> Option<Item>,
) -> Key<T> {
    Key { name, takes, unset, about, set, get }
}

pub(super) fn put<T>(into: &mut T, value: Result<T, String>) -> Result<(), String> {
    *into = value?;
    Ok(())
}

/// Parses a unicast MAC address.
pub(super) fn station(value: Given<'_>) -> Result<wire::Mac, String> {
    let mac: wire::Mac = value.text()?;
    let good = !mac.is_multicast() && mac != wire::Mac::ZERO;
    good.then_some(mac).ok_or_else(|| "expected a unicast MAC address".to_string())
}
