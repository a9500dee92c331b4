//! Parser for the replies that a client receives: finds the first reply, its length and its
//! content.

/// Maximum nesting depth of arrays.
pub const DEPTH_MAX: usize = 8;
/// Maximum number of elements of an array, and of all arrays of a reply together.
pub const ARRAY_MAX: usize = 1 << 20;
/// Maximum length of a line in bytes.
const LINE_MAX: usize = 64 * 1024;

/// Content of a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Says<'a> {
    /// A simple string.
    Line(&'a [u8]),
    Error(&'a [u8]),
    Integer(i64),
    Bulk(&'a [u8]),
    Nil,
    /// The number of elements of an array; the elements themselves are not returned.
    Array(usize),
}

/// Error: the bytes are not a valid reply, or the reply exceeds a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Garbage;

impl std::fmt::Display for Garbage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("invalid RESP reply")
    }
}

impl std::error::Error for Garbage {}

/// Returns the first reply in `bytes` and its length in bytes; `None` while it is incomplete. A
/// bulk string may have at most `bulk_max` bytes.
///
/// # Errors
/// [`Garbage`].
pub fn first(bytes: &[u8], bulk_max: usize) -> Result<Option<(Says<'_>, usize)>, Garbage> {
    let Some((says, mut at)) = element(bytes, bulk_max)? else { return Ok(None) };
    let mut open = [0; DEPTH_MAX];
    let (mut depth, mut elements) = (0, 0);
    enter(says, &mut open, &mut depth, &mut elements)?;
    while depth > 0 {
        match open.get_mut(depth - 1) {
            Some(left) if *left > 0 => *left -= 1,
            _ => {
                depth -= 1;
                continue;
            }
        }
        let Some((inner, len)) = element(bytes.get(at..).unwrap_or_default(), bulk_max)? else { return Ok(None) };
        at += len;
        enter(inner, &mut open, &mut depth, &mut elements)?;
    }
    Ok(Some((says, at)))
}

fn enter(
    says: Says<'_>,
    open: &mut [usize; DEPTH_MAX],
    depth: &mut usize,
    elements: &mut usize,
) -> Result<(), Garbage> {
    if let Says::Array(n) = says {
        *open.get_mut(*depth).ok_or(Garbage)? = n;
        *depth += 1;
        *elements += n;
    }
    if *elements > ARRAY_MAX { Err(Garbage) } else { Ok(()) }
}

/// Parses one reply. For an array, parses only its first line, which contains the number of
/// elements.
fn element(bytes: &[u8], bulk_max: usize) -> Result<Option<(Says<'_>, usize)>, Garbage> {
    let Some((mark, rest)) = bytes.split_first() else { return Ok(None) };
    let Some(end) = rest.iter().take(LINE_MAX).position(|byte| *byte == b'\n') else {
        return if rest.len() < LINE_MAX { Ok(None) } else { Err(Garbage) };
    };
    let line = rest.get(..end).and_then(|line| line.strip_suffix(b"\r")).ok_or(Garbage)?;
    let head = end + 2;
    let number = || super::integer(line).ok_or(Garbage);
    let length = |most| usize::try_from(number()?).ok().filter(|n| *n <= most).ok_or(Garbage);
    match mark {
        b'+' => Ok(Some((Says::Line(line), head))),
        b'-' => Ok(Some((Says::Error(line), head))),
        b':' => Ok(Some((Says::Integer(number()?), head))),
        b'$' | b'*' if line == b"-1" => Ok(Some((Says::Nil, head))),
        b'*' => Ok(Some((Says::Array(length(ARRAY_MAX)?), head))),
        b'$' => {
            let len = length(bulk_max)?;
            let Some(behind) = bytes.get(head + len..head + len + 2) else { return Ok(None) };
            if behind != b"\r\n" {
                return Err(Garbage);
            }
            Ok(Some((Says::Bulk(bytes.get(head..head + len).unwrap_or_default()), head + len + 2)))
        }
        _ => Err(Garbage),
    }
}
