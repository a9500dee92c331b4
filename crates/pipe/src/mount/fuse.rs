//! FUSE as bytes: what the kernel asks on /dev/fuse, and what it is answered. Knows no files and does no I/O.
//!
//! Requests and answers are structures of C in the machine's own byte order (linux/fuse.h, protocol 7.31 and later); they are read and
//! written a field at a time. A request that is shorter than its structure reads as `None` and is answered EIO.

/// Bytes in front of every request.
pub const IN_HEADER: usize = 40;
/// The longest write, and the longest read, of one request: 256 pages, the most that Linux takes unless told otherwise.
pub const MOST: usize = 1 << 20;
/// What a request may take: the longest write, and what stands in front of it.
pub const REQUEST: usize = MOST + 4096;

/// The root's node.
pub const ROOT: u64 = 1;

const MAJOR: u32 = 7;
const MINOR: u32 = 31;
/// Many pages for a request, large writes, reads of a file beside each other.
const FLAGS: u32 = 1 << 22 | 1 << 5 | 1;

/// open(2)'s answer: no page cache; no place in the file, so that no lock is held on it and seeking says ESPIPE.
pub const STREAM: u32 = 1 | 1 << 2 | 1 << 4;
/// open(2)'s answer for a file that is made anew for each reader.
pub const DIRECT: u32 = 1;

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op<'a> {
    /// The first request.
    Init {
        readahead: u32,
        flags: u32,
    },
    Lookup {
        name: &'a [u8],
    },
    /// Wants no answer.
    Forget,
    GetAttr,
    SetAttr,
    Open {
        flags: u32,
    },
    OpenDir,
    Read {
        fh: u64,
        offset: u64,
        size: u32,
        flags: u32,
    },
    ReadDir {
        offset: u64,
        size: u32,
    },
    Write {
        fh: u64,
        flags: u32,
        data: &'a [u8],
    },
    Release {
        fh: u64,
    },
    ReleaseDir,
    Flush,
    Fsync {
        fh: u64,
    },
    StatFs,
    Access,
    Ioctl,
    Poll {
        fh: u64,
        kh: u64,
        notify: bool,
    },
    /// The process that waits for the answer to `unique` was sent a signal.
    Interrupt {
        unique: u64,
    },
    /// Something that would change what files there are.
    Change,
    Destroy,
    Other,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Names it in the answer.
    pub unique: u64,
    /// Which file.
    pub node: u64,
    /// What.
    pub op: Op<'a>,
}

/// Reads fields one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn u32(&mut self) -> Option<u32> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*field))
    }

    fn u64(&mut self) -> Option<u64> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*field))
    }

    /// Up to a zero.
    fn name(&self) -> &'a [u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

impl<'a> Request<'a> {
    /// Reads a request; the error is what it would be named by in an answer, if even that is there.
    pub fn parse(bytes: &'a [u8]) -> Result<Request<'a>, Option<u64>> {
        let (Some(head), Some(body)) = (bytes.get(..IN_HEADER), bytes.get(IN_HEADER..)) else { return Err(None) };
        let mut head = Fields(head);
        let parts = (|| Some((head.u32()?, head.u32()?, head.u64()?, head.u64()?)))();
        let Some((len, code, unique, node)) = parts else { return Err(None) };
        if len as usize != bytes.len() {
            return Err(Some(unique));
        }
        let op = Op::parse(code, Fields(body)).ok_or(Some(unique))?;
        Ok(Request { unique, node, op })
    }
}

impl<'a> Op<'a> {
    fn parse(code: u32, mut f: Fields<'a>) -> Option<Op<'a>> {
        Some(match code {
            1 => Op::Lookup { name: f.name() },
            2 | 42 => Op::Forget,
            3 => Op::GetAttr,
            4 => Op::SetAttr,
            14 => Op::Open { flags: f.u32()? },
            15 | 28 => {
                let (fh, offset, size) = (f.u64()?, f.u64()?, f.u32()?);
                let (_, _, flags) = (f.u32()?, f.u64()?, f.u32()?);
                if code == 28 { Op::ReadDir { offset, size } } else { Op::Read { fh, offset, size, flags } }
            }
            16 => {
                let (fh, _, size) = (f.u64()?, f.u64()?, f.u32()?);
                let (_, _, flags, _) = (f.u32()?, f.u64()?, f.u32()?, f.u32()?);
                Op::Write { fh, flags, data: f.0.get(..size as usize)? }
            }
            17 => Op::StatFs,
            18 => Op::Release { fh: f.u64()? },
            20 => Op::Fsync { fh: f.u64()? },
            25 => Op::Flush,
            26 => {
                let (_, _, readahead, flags) = (f.u32()?, f.u32()?, f.u32()?, f.u32()?);
                Op::Init { readahead, flags }
            }
            27 => Op::OpenDir,
            29 => Op::ReleaseDir,
            34 => Op::Access,
            36 => Op::Interrupt { unique: f.u64()? },
            38 => Op::Destroy,
            39 => Op::Ioctl,
            40 => {
                let (fh, kh, flags) = (f.u64()?, f.u64()?, f.u32()?);
                Op::Poll { fh, kh, notify: flags & 1 == 1 }
            }
            6 | 8..=13 | 21 | 24 | 35 | 45 | 51 => Op::Change,
            _ => Op::Other,
        })
    }
}

/// A file's attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// Its number.
    pub node: u64,
    /// S_IFREG or S_IFDIR, and permissions.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Seconds since 1970 of all its times.
    pub time: u64,
}

/// An answer in the making.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer(Vec<u8>);

impl Answer {
    fn head(len: usize, error: i32, unique: u64) -> Answer {
        let mut answer = Answer(Vec::with_capacity(16 + len));
        answer.u32(16 + len as u32).u32(error.cast_unsigned()).u64(unique);
        answer
    }

    /// In front of `len` bytes that follow.
    pub fn data(unique: u64, len: usize) -> Answer {
        Answer::head(len, 0, unique)
    }

    /// To [`Op::Read`], of what is at hand.
    pub fn bytes_of(unique: u64, bytes: &[u8]) -> Answer {
        let mut answer = Answer::data(unique, bytes.len());
        answer.0.extend_from_slice(bytes);
        answer
    }

    /// An error by its number, as in libc; 0 is none.
    pub fn error(unique: u64, errno: i32) -> Answer {
        Answer::head(0, -errno, unique)
    }

    /// Done, and nothing more to say.
    pub fn done(unique: u64) -> Answer {
        Answer::error(unique, 0)
    }

    /// To [`Op::Init`]. A kernel that speaks a later major version is told ours, and asks again.
    pub fn init(unique: u64, readahead: u32, flags: u32) -> Answer {
        let mut answer = Answer::head(64, 0, unique);
        answer.u32(MAJOR).u32(MINOR).u32(readahead).u32(FLAGS & flags);
        // Of requests in the background there are none; then the longest write, the grain of times, and pages of a request.
        answer.u16(16).u16(12).u32(MOST as u32).u32(1).u16((MOST / 4096) as u16).u16(0);
        answer.fill(64);
        answer
    }

    /// To [`Op::Lookup`].
    pub fn entry(unique: u64, attr: &Attr) -> Answer {
        let mut answer = Answer::head(128, 0, unique);
        answer.u64(attr.node).u64(0).u64(ENTRY_S).u64(0).u64(0).attr(attr);
        answer
    }

    /// To [`Op::GetAttr`] and [`Op::SetAttr`].
    pub fn attributes(unique: u64, attr: &Attr) -> Answer {
        let mut answer = Answer::head(104, 0, unique);
        answer.u64(0).u64(0).attr(attr);
        answer
    }

    /// To [`Op::Open`] and [`Op::OpenDir`].
    pub fn opened(unique: u64, fh: u64, flags: u32) -> Answer {
        let mut answer = Answer::head(16, 0, unique);
        answer.u64(fh).u32(flags).u32(0);
        answer
    }

    /// To [`Op::Write`].
    pub fn written(unique: u64, size: usize) -> Answer {
        let mut answer = Answer::head(8, 0, unique);
        answer.u32(size as u32).u32(0);
        answer
    }

    /// To [`Op::Poll`].
    pub fn ready(unique: u64, events: u32) -> Answer {
        let mut answer = Answer::head(8, 0, unique);
        answer.u32(events).u32(0);
        answer
    }

    /// To nobody's question: who polls `kh` should ask again.
    pub fn wake(kh: u64) -> Answer {
        const NOTIFY_POLL: i32 = 1;
        let mut answer = Answer::head(8, NOTIFY_POLL, 0);
        answer.u64(kh);
        answer
    }

    /// To [`Op::StatFs`]: nothing is stored.
    pub fn statfs(unique: u64) -> Answer {
        let mut answer = Answer::head(80, 0, unique);
        answer.fill(40);
        answer.u32(4096).u32(255).u32(4096);
        answer.fill(80);
        answer
    }

    /// To [`Op::ReadDir`]: entries from `offset` on, of which one is a node, its mode and its name.
    pub fn directory<'n>(
        unique: u64,
        offset: u64,
        size: u32,
        entries: impl Iterator<Item = (u64, u32, &'n str)>,
    ) -> Answer {
        let mut list = Answer::default();
        for (at, (node, mode, name)) in entries.enumerate().skip(usize::try_from(offset).unwrap_or(usize::MAX)) {
            let len = (24 + name.len()).next_multiple_of(8);
            if list.0.len() + len > size as usize {
                break;
            }
            let end = list.0.len() + len;
            list.u64(node).u64(at as u64 + 1).u32(name.len() as u32).u32(mode >> 12);
            list.0.extend_from_slice(name.as_bytes());
            list.0.resize(end, 0);
        }
        Answer::bytes_of(unique, &list.0)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn u16(&mut self, field: u16) -> &mut Answer {
        self.0.extend_from_slice(&field.to_ne_bytes());
        self
    }

    fn u32(&mut self, field: u32) -> &mut Answer {
        self.0.extend_from_slice(&field.to_ne_bytes());
        self
    }

    fn u64(&mut self, field: u64) -> &mut Answer {
        self.0.extend_from_slice(&field.to_ne_bytes());
        self
    }

    fn attr(&mut self, attr: &Attr) -> &mut Answer {
        let links = if attr.mode & libc::S_IFMT == libc::S_IFDIR { 2 } else { 1 };
        self.u64(attr.node).u64(0).u64(0).u64(attr.time).u64(attr.time).u64(attr.time);
        self.u32(0).u32(0).u32(0).u32(attr.mode).u32(links).u32(attr.uid).u32(attr.gid);
        self.u32(0).u32(BLKSIZE).u32(0)
    }

    /// Zeros up to `len` behind the header.
    fn fill(&mut self, len: usize) {
        self.0.resize(16 + len, 0);
    }
}

/// Names stay what they are for so long, in seconds: for ever.
const ENTRY_S: u64 = 1 << 30;
/// What `cat` and others take as the size of a good read.
const BLKSIZE: u32 = 128 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request(code: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&((IN_HEADER + body.len()) as u32).to_ne_bytes());
        bytes.extend_from_slice(&code.to_ne_bytes());
        bytes.extend_from_slice(&77_u64.to_ne_bytes());
        bytes.extend_from_slice(&3_u64.to_ne_bytes());
        bytes.resize(IN_HEADER, 0);
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn requests_are_read() {
        let lookup = request(1, b"tap0\0");
        let expected = Request { unique: 77, node: 3, op: Op::Lookup { name: b"tap0" } };
        assert_eq!(Request::parse(&lookup), Ok(expected));
        let mut body = vec![0; 40];
        body[0] = 9;
        body[16..20].copy_from_slice(&3_u32.to_ne_bytes());
        body.extend_from_slice(b"abcd");
        let write = request(16, &body);
        let op = Request::parse(&write).unwrap().op;
        assert_eq!(op, Op::Write { fh: 9, flags: 0, data: b"abc" });
        assert_eq!(Request::parse(&request(16, &[0; 39])), Err(Some(77)));
        assert_eq!(Request::parse(&lookup[..39]), Err(None));
        assert_eq!(Request::parse(&lookup[..41]), Err(Some(77)));
    }

    #[test]
    fn answers_are_as_long_as_they_say() {
        let attr = Attr { node: 2, mode: libc::S_IFREG | 0o600, uid: 0, gid: 0, time: 0 };
        let names = [(1, libc::S_IFDIR, "."), (2, libc::S_IFREG, "tap0"), (3, libc::S_IFREG, "rtap0")];
        let listed = Answer::directory(1, 0, 4096, names.into_iter());
        assert_eq!(listed.bytes().len(), 16 + 3 * 32);
        assert_eq!(Answer::directory(1, 1, 40, names.into_iter()).bytes().len(), 16 + 32);
        assert_eq!(Answer::directory(1, 3, 4096, names.into_iter()).bytes().len(), 16);
        for (answer, len) in [
            (Answer::init(1, 0, !0), 64),
            (Answer::entry(1, &attr), 128),
            (Answer::attributes(1, &attr), 104),
            (Answer::opened(1, 2, STREAM), 16),
            (Answer::statfs(1), 80),
            (Answer::wake(1), 8),
            (listed, 96),
        ] {
            assert_eq!(answer.bytes().len(), 16 + len);
            assert_eq!(answer.bytes()[..4], (16 + len as u32).to_ne_bytes());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(code in 0..60_u32, body in prop::collection::vec(any::<u8>(), 0..80), cut in 0..120_usize) {
            let bytes = request(code, &body);
            let _ = Request::parse(&bytes);
            let _ = Request::parse(&bytes[..cut.min(bytes.len())]);
        }
    }
}
