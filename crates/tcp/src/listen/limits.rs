//! Limits of a listener.

use alloc::borrow::ToOwned;
use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// Condition under which a listener sends SYN cookies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CookieMode {
    /// Cookies are never sent: a full SYN queue evicts its oldest entry.
    Never,
    /// Cookies are sent when the SYN queue is full.
    #[default]
    WhenFull,
    /// Cookies are always sent, so that SYNs never create entries.
    Always,
}

/// Error: the given name denotes no [`CookieMode`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownCookieMode(pub String);

impl fmt::Display for UnknownCookieMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown SYN cookie mode '{}': expected never, when-full or always", self.0)
    }
}

impl core::error::Error for UnknownCookieMode {}

impl FromStr for CookieMode {
    type Err = UnknownCookieMode;
    fn from_str(word: &str) -> Result<CookieMode, UnknownCookieMode> {
        match word {
            "never" => Ok(CookieMode::Never),
            "when-full" => Ok(CookieMode::WhenFull),
            "always" => Ok(CookieMode::Always),
            other => Err(UnknownCookieMode(other.to_owned())),
        }
    }
}

impl fmt::Display for CookieMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CookieMode::Never => "never",
            CookieMode::WhenFull => "when-full",
            CookieMode::Always => "always",
        })
    }
}

/// Limits of one listener.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Maximum number of connections waiting to be accepted: one more than the argument of
    /// `listen`, as in Linux.
    pub backlog: u32,
    /// Maximum number of handshakes in progress.
    pub syn_queue: u32,
    /// Condition under which SYN cookies are sent.
    pub cookies: CookieMode,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { backlog: 4096, syn_queue: 1024, cookies: CookieMode::WhenFull }
    }
}
