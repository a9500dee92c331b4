//! Selects matching lines or frames, as grep(1) does. A fast path compares only the header columns
//! of a line, that is, destination, source and type.
//!
//! ```text
//! patterns --syntax--> regex            any line, as in grep
//!                  \-> Columns          words of three or more digits, which can match only in the
//!                                       header of a line: compares the 30 characters of the
//!                                       header; lines in non-standard form go to the regex
//! ```
//!
//! Blocks of text are searched without decoding the lines. Frames in other formats, or from an
//! earlier command of the same pipeline, are first encoded as a line, which is then matched.

mod any_field;
mod columns;
mod fields;
mod front;
mod lines;
mod matcher;
mod stage;
mod syntax;
#[cfg(test)]
mod tests;

pub use fields::{BadTerm, Terms};
pub use front::Front;
pub use lines::{Found, Lines, Selection, Shown, count_lines};
pub use matcher::{Matcher, Wanted};
pub use stage::{Grep, Judge};
pub use syntax::{BadPattern, Syntax};
