//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! Grammar of control commands. The commands follow the style of BSD and iproute2.
//!
//! A command is declared as a table of [`Form`]s. A form is a line of a manual page, such as
//! `static IF MAC [vlan 1-4094]`, with a description and a function. The parser, the help and the
//! error messages are derived from the table. [`parse`] selects the form of the next words. The
//! function of the form reads the values from [`Args`].
//!
//! The elements of a form are separated by spaces:
//!
//! | element | matches | name of the value in [`Args`] |
//! |---|---|---|
//! | `word` | this word | `word` |
//! | `word,other` | either word; help contains only the first | `word` |
//! | `[-]word` | `word` or `-word` | [`Args::is_on`] of `word` |
//! | `a\|b,c` | one of these words; `c` is a synonym of `b` | the preceding word |
//! | `0-240` | a number in this range | the preceding word |
//! | `NAME` | any word; checked if the name is that of an address, interface or number | `NAME` |
//! | `NAME:a\|b`, `NAME:0-240` | the same words or numbers as without `NAME:` | `NAME` |
//! | `NAME...` | all remaining words, at least one | [`Args::rest`] |
//! | `[...]` | these elements, if the first one matches | the names of these elements |
//!
//! Adjacent options, as in `[vlan 1-4094] [static]`, are accepted in any order, and also after a
//! value that follows them. Among adjacent options, `[NAME...]` matches the words that no other
//! option matches.

mod args;
mod error;
mod form;
mod help;
mod nearest;
mod pattern;
#[cfg(test)]
mod tests;
mod words;

pub use args::Args;
pub use error::CommandError;
pub use form::{Form, Matched, parse, parse_all, parse_sequence, unreachable};
pub use help::{Command, Usage, command, command_list, command_of, forms_of, usage};
pub use nearest::nearest;
pub use words::Words;
