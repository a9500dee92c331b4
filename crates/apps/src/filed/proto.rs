//! Record format of the file service: a small protocol modelled on NFS version 3 (RFC 1813), with
//! NFS error numbers.
//!
//! ```text
//!  request   length u32 | number u32 | op u8 | body        big-endian; length excludes itself
//!  answer    length u32 | number u32 | status u8 | body    the request's number, in request order
//!
//!  op        body                                    body of the answer
//!  1 LOOKUP  directory u64, name                     handle u64, attributes
//!  2 GETATTR handle u64                              attributes
//!  3 READ    handle u64, offset u64, count u32       end of file u8, bytes
//!  4 WRITE   handle u64, offset u64, bytes           attributes
//!  5 CREATE  directory u64, kind u8, name            handle u64, attributes
//!  6 REMOVE  directory u64, name                     empty
//!
//!  attributes  kind u8 (1 file, 2 directory), length u64, changed u64 (ns, server clock)
//! ```

use crate::resp::Replies;

/// Maximum number of data bytes in a READ or a WRITE.
pub const DATA_MAX: usize = 64 * 1024;
/// Maximum length of a record in bytes, without its length field.
pub const RECORD_MAX: usize = DATA_MAX + 64;
/// Handle of the root directory.
pub const ROOT: u64 = 1 << 32;

/// Type of a file system object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    File = 1,
    Directory = 2,
}

/// Attributes of a file or a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    pub kind: Kind,
    /// Length of a file in bytes, or number of entries of a directory.
    pub len: u64,
    /// Time of the last change, in nanoseconds on the server's clock.
    pub changed_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op<'a> {
    /// Looks up a name in a directory: directory handle, name.
    Lookup(u64, &'a [u8]),
    /// Returns the attributes of the file or directory with this handle.
    GetAttr(u64),
    /// Reads a file: handle, offset, count.
    Read(u64, u64, u32),
    /// Writes to a file: handle, offset, bytes.
    Write(u64, u64, &'a [u8]),
    /// Creates a file or directory: handle of the parent directory, type, name.
    Create(u64, Kind, &'a [u8]),
    /// Removes a file or an empty directory: handle of the parent directory, name.
    Remove(u64, &'a [u8]),
}

/// Error status of an answer, with the numbers of NFS's nfsstat3 (RFC 1813 2.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// The name does not exist.
    NoEntry = 2,
    /// The name exists already.
    Exists = 17,
    NotDirectory = 20,
    /// The request requires a file, but the handle refers to a directory.
    IsDirectory = 21,
    /// Invalid name, kind or length.
    Invalid = 22,
    /// The write would make the file longer than permitted.
    TooBig = 27,
    /// No space left for more files or bytes.
    NoSpace = 28,
    NameTooLong = 63,
    /// Directory not empty.
    NotEmpty = 66,
    /// Stale handle: its file or directory was removed.
    Stale = 70,
}

/// Bodies of successful answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer<'a> {
    /// Answer to LOOKUP and CREATE: handle and attributes of the file or directory.
    Handle(u64, Attributes),
    /// Answer to GETATTR and WRITE: attributes of the file or directory.
    Attributes(Attributes),
    /// Answer to READ: whether the end of file was reached, and the bytes that were read.
    Bytes(bool, &'a [u8]),
    /// Answer to REMOVE.
    Nothing,
}

fn split<const N: usize>(bytes: &[u8]) -> Option<([u8; N], &[u8])> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    Some((*first, rest))
}

fn long(bytes: &[u8]) -> Option<(u64, &[u8])> {
    split(bytes).map(|(long, rest)| (u64::from_be_bytes(long), rest))
}

/// Returns the first record in `bytes`, without its length field; `None` if it is incomplete.
///
/// # Errors
/// [`Status::Invalid`] if the length field is invalid; the bytes that follow cannot be parsed
/// either.
pub fn record(bytes: &[u8]) -> Result<Option<&[u8]>, Status> {
    let Some((len, rest)) = split(bytes) else { return Ok(None) };
    let len = u32::from_be_bytes(len) as usize;
    if !(5..=RECORD_MAX).contains(&len) {
        return Err(Status::Invalid);
    }
    Ok(rest.get(..len))
}

/// Parses a request into its number and, if valid, its operation.
pub fn request(record: &[u8]) -> (u32, Option<Op<'_>>) {
    let Some((number, rest)) = split(record) else { return (0, None) };
    (u32::from_be_bytes(number), op(rest))
}

fn op(bytes: &[u8]) -> Option<Op<'_>> {
    let (op, rest) = bytes.split_first()?;
    let (handle, rest) = long(rest)?;
    Some(match op {
        1 => Op::Lookup(handle, rest),
        2 if rest.is_empty() => Op::GetAttr(handle),
        3 => {
            let (offset, rest) = long(rest)?;
            let (count, rest) = split(rest)?;
            rest.is_empty().then_some(Op::Read(handle, offset, u32::from_be_bytes(count)))?
        }
        4 => {
            let (offset, bytes) = long(rest)?;
            Op::Write(handle, offset, bytes)
        }
        5 => {
            let (kind, name) = rest.split_first()?;
            Op::Create(handle, kind_of(*kind)?, name)
        }
        6 => Op::Remove(handle, rest),
        _ => return None,
    })
}

fn kind_of(kind: u8) -> Option<Kind> {
    match kind {
        1 => Some(Kind::File),
        2 => Some(Kind::Directory),
        _ => None,
    }
}

/// Appends a request to `out`.
pub fn ask(out: &mut Vec<u8>, number: u32, op: &Op<'_>) {
    let begin = out.len();
    out.extend([0; 4]);
    out.extend(number.to_be_bytes());
    let mut head = |code: u8, handle: u64| {
        out.push(code);
        out.extend(handle.to_be_bytes());
    };
    match *op {
        Op::Lookup(dir, name) => {
            head(1, dir);
            out.extend_from_slice(name);
        }
        Op::GetAttr(handle) => head(2, handle),
        Op::Read(handle, offset, count) => {
            head(3, handle);
            out.extend(offset.to_be_bytes());
            out.extend(count.to_be_bytes());
        }
        Op::Write(handle, offset, bytes) => {
            head(4, handle);
            out.extend(offset.to_be_bytes());
            out.extend_from_slice(bytes);
        }
        Op::Create(dir, kind, name) => {
            head(5, dir);
            out.push(kind as u8);
            out.extend_from_slice(name);
        }
        Op::Remove(dir, name) => {
            head(6, dir);
            out.extend_from_slice(name);
        }
    }
    let len = (out.len() - begin - 4) as u32;
    if let Some(place) = out.get_mut(begin..begin + 4) {
        place.copy_from_slice(&len.to_be_bytes());
    }
}

/// Appends the answer to the request with this number to `out`.
pub fn answer(out: &mut Replies, number: u32, done: Result<Answer<'_>, Status>) {
    let mut say = |status: u8, parts: [&[u8]; 4]| {
        let len: usize = 5 + parts.iter().map(|part| part.len()).sum::<usize>();
        let [a, b, c, d] = parts;
        out.put(&[&(len as u32).to_be_bytes(), &number.to_be_bytes(), &[status], a, b, c, d]);
    };
    match done {
        Err(status) => say(status as u8, [&[]; 4]),
        Ok(Answer::Nothing) => say(0, [&[]; 4]),
        Ok(Answer::Bytes(at_end, bytes)) => say(0, [&[at_end.into()], bytes, &[], &[]]),
        Ok(Answer::Attributes(of)) => {
            say(0, [&[of.kind as u8], &of.len.to_be_bytes(), &of.changed_ns.to_be_bytes(), &[]]);
        }
        Ok(Answer::Handle(handle, of)) => {
            say(0, [&handle.to_be_bytes(), &[of.kind as u8], &of.len.to_be_bytes(), &of.changed_ns.to_be_bytes()])
        }
    }
}

/// Parses an answer into request number, status (0: success) and body.
pub fn parse_reply(record: &[u8]) -> Option<(u32, u8, &[u8])> {
    let (number, rest) = split(record)?;
    let (status, body) = rest.split_first()?;
    Some((u32::from_be_bytes(number), *status, body))
}

/// Returns the handle in the body of an answer to LOOKUP or CREATE.
pub fn handle(body: &[u8]) -> Option<u64> {
    long(body).filter(|(_, rest)| rest.len() == 17).map(|(handle, _)| handle)
}
