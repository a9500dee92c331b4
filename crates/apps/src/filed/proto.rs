//! The records: a small protocol of our own, after NFS version 3 (RFC 1813), whose numbers of errors it has.
//!
//! ```text
//!  request   length u32 | number u32 | op u8 | body        length counts what follows it; big-endian
//!  answer    length u32 | number u32 | status u8 | body    the number is the request's; answers come in order
//!
//!  op        body                                    body of the answer
//!  1 LOOKUP  directory u64, name                     handle u64, attributes
//!  2 GETATTR handle u64                              attributes
//!  3 READ    handle u64, offset u64, count u32       at the end? u8, bytes
//!  4 WRITE   handle u64, offset u64, bytes           attributes
//!  5 CREATE  directory u64, kind u8, name            handle u64, attributes
//!  6 REMOVE  directory u64, name                     nothing
//!
//!  attributes  kind u8 (1 file, 2 directory), length u64, changed u64 (ns of the server's clock)
//! ```

use crate::resp::Replies;

/// Bytes that a READ or a WRITE may have.
pub const DATA_MAX: usize = 64 * 1024;
/// Bytes of a record, its length not counted.
pub const RECORD_MAX: usize = DATA_MAX + 64;
/// The handle of the directory in which all others are.
pub const ROOT: u64 = 1 << 32;

/// A file or a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A file.
    File = 1,
    /// A directory.
    Directory = 2,
}

/// What is known of a file or a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes {
    /// Which.
    pub kind: Kind,
    /// Bytes, or names.
    pub len: u64,
    /// When it was changed last, on the server's clock.
    pub changed_ns: u64,
}

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op<'a> {
    /// A name's handle.
    Lookup(u64, &'a [u8]),
    /// A handle's attributes.
    GetAttr(u64),
    /// Bytes of a file: from, how many.
    Read(u64, u64, u32),
    /// Bytes into a file, from a place on.
    Write(u64, u64, &'a [u8]),
    /// A new file or directory.
    Create(u64, Kind, &'a [u8]),
    /// A file, or an empty directory, is no more.
    Remove(u64, &'a [u8]),
}

/// Why something is not done: nfsstat3 (RFC 1813 2.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// No such name.
    NoEntry = 2,
    /// There is one.
    Exists = 17,
    /// Not a directory.
    NotDirectory = 20,
    /// A directory.
    IsDirectory = 21,
    /// Not a name, a kind, a length.
    Invalid = 22,
    /// Longer than a file may be.
    TooBig = 27,
    /// No room.
    NoSpace = 28,
    /// The name is too long.
    NameTooLong = 63,
    /// The directory has names in it.
    NotEmpty = 66,
    /// What the handle was of is gone.
    Stale = 70,
}

/// The answers' bodies, where there is something to tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer<'a> {
    /// Of LOOKUP and CREATE.
    Handle(u64, Attributes),
    /// Of GETATTR and WRITE.
    Attributes(Attributes),
    /// Of READ: is this the file's end, and what was read.
    Bytes(bool, &'a [u8]),
    /// Of REMOVE.
    Nothing,
}

fn split<const N: usize>(bytes: &[u8]) -> Option<([u8; N], &[u8])> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    Some((*first, rest))
}

fn long(bytes: &[u8]) -> Option<(u64, &[u8])> {
    split(bytes).map(|(long, rest)| (u64::from_be_bytes(long), rest))
}

/// The first record in `bytes`, without its length; `None` while it is not whole.
///
/// # Errors
/// Its length is none: nothing that comes later can be understood.
pub fn record(bytes: &[u8]) -> Result<Option<&[u8]>, Status> {
    let Some((len, rest)) = split(bytes) else { return Ok(None) };
    let len = u32::from_be_bytes(len) as usize;
    if !(5..=RECORD_MAX).contains(&len) {
        return Err(Status::Invalid);
    }
    Ok(rest.get(..len))
}

/// A request: its number, and what it asks, if that is understood.
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

/// Writes a request.
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

/// Writes the answer to the request of this number.
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

/// What a record of the server's says: the request's number, the status (0: done), the body.
pub fn said(record: &[u8]) -> Option<(u32, u8, &[u8])> {
    let (number, rest) = split(record)?;
    let (status, body) = rest.split_first()?;
    Some((u32::from_be_bytes(number), *status, body))
}

/// The handle in the body of an answer to LOOKUP or CREATE.
pub fn handle(body: &[u8]) -> Option<u64> {
    long(body).filter(|(_, rest)| rest.len() == 17).map(|(handle, _)| handle)
}
