//! Encoding of the FUSE protocol. Parses requests read from /dev/fuse and builds answers. This
//! module does no I/O and stores no state of files.
//!
//! Requests and answers are C structures in native byte order (linux/fuse.h, protocol 7.31 and
//! later). They are read and written one field at a time. A request that is shorter than its
//! structure cannot be parsed and is answered with EIO.

/// Length of the header of every request, in bytes.
pub const IN_HEADER: usize = 40;
/// Maximum number of bytes that one request reads or writes: 256 pages, the default maximum of
/// Linux.
pub const MOST: usize = 1 << 20;
/// Maximum length of a request in bytes: the longest write and its headers.
pub const REQUEST: usize = MOST + 4096;

/// Node number of the root directory.
pub const ROOT: u64 = 1;

const MAJOR: u32 = 7;
const MINOR: u32 = 31;
/// Flags of FUSE_INIT: more pages per request, large writes, parallel reads of a file.
const FLAGS: u32 = 1 << 22 | 1 << 5 | 1;

/// Flags in the answer to open(2) for a stream: no page cache, and no file position. The kernel
/// therefore needs no lock on the position, and seeking fails with ESPIPE.
pub const STREAM: u32 = 1 | 1 << 2 | 1 << 4;
/// Flags in the answer to open(2) for a file whose content is generated for each reader.
pub const DIRECT: u32 = 1;

/// Operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op<'a> {
    /// First request of a session.
    Init {
        readahead: u32,
        flags: u32,
    },
    Lookup {
        name: &'a [u8],
    },
    /// The kernel no longer needs a node, and expects no answer.
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
    /// The process waiting for the answer to `unique` received a signal.
    Interrupt {
        unique: u64,
    },
    /// Any operation that would create, remove or rename files.
    Change,
    Destroy,
    Other,
}

/// A request of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// Request ID, repeated in the answer.
    pub unique: u64,
    /// Node number of the file.
    pub node: u64,
    /// Operation and its arguments.
    pub op: Op<'a>,
}

/// Remaining bytes of a structure, from which fields are read one after the other.
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

    /// Returns the bytes before the first NUL.
    fn name(&self) -> &'a [u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

impl<'a> Request<'a> {
    /// Parses a request. For a malformed request, the error contains its request ID, which the
    /// answer needs, or `None` if even the header is incomplete.
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

/// Attributes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr {
    /// Number of the node.
    pub node: u64,
    /// File type (S_IFREG or S_IFDIR) and permissions.
    pub mode: u32,
    /// User ID of the owner.
    pub uid: u32,
    /// Group ID of the file.
    pub gid: u32,
    /// Value of all times of the file, in seconds since 1970.
    pub time: u64,
}

/// An answer to a request, encoded or being built.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer(Vec<u8>);

impl Answer {
    fn head(len: usize, error: i32, unique: u64) -> Answer {
        let mut answer = Answer(Vec::with_capacity(16 + len));
        answer.u32(16 + len as u32).u32(error.cast_unsigned()).u64(unique);
        answer
    }

    /// Returns the header of an answer with `len` bytes of data. The caller sends the data after
    /// it.
    pub fn data(unique: u64, len: usize) -> Answer {
        Answer::head(len, 0, unique)
    }

    /// Returns the answer to [`Op::Read`] with a copy of `bytes`.
    pub fn bytes_of(unique: u64, bytes: &[u8]) -> Answer {
        let mut answer = Answer::data(unique, bytes.len());
        answer.0.extend_from_slice(bytes);
        answer
    }

    /// Returns an answer without data that reports the error number `errno` as in libc, or 0 for
    /// success.
    pub fn error(unique: u64, errno: i32) -> Answer {
        Answer::head(0, -errno, unique)
    }

    /// Returns an answer without data that reports success.
    pub fn done(unique: u64) -> Answer {
        Answer::error(unique, 0)
    }

    /// Returns the answer to [`Op::Init`], with our protocol version. A kernel with a later major
    /// version then repeats the request with this version.
    pub fn init(unique: u64, readahead: u32, flags: u32) -> Answer {
        let mut answer = Answer::head(64, 0, unique);
        answer.u32(MAJOR).u32(MINOR).u32(readahead).u32(FLAGS & flags);
        // The fields are the limits of background requests (not used), the maximum write, the
        // granularity of times, and the pages per request.
        answer.u16(16).u16(12).u32(MOST as u32).u32(1).u16((MOST / 4096) as u16).u16(0);
        answer.fill(64);
        answer
    }

    /// Returns the answer to [`Op::Lookup`].
    pub fn entry(unique: u64, attr: &Attr) -> Answer {
        let mut answer = Answer::head(128, 0, unique);
        answer.u64(attr.node).u64(0).u64(ENTRY_S).u64(0).u64(0).attr(attr);
        answer
    }

    /// Returns the answer to [`Op::GetAttr`] and [`Op::SetAttr`].
    pub fn attributes(unique: u64, attr: &Attr) -> Answer {
        let mut answer = Answer::head(104, 0, unique);
        answer.u64(0).u64(0).attr(attr);
        answer
    }

    /// Returns the answer to [`Op::Open`] and [`Op::OpenDir`].
    pub fn opened(unique: u64, fh: u64, flags: u32) -> Answer {
        let mut answer = Answer::head(16, 0, unique);
        answer.u64(fh).u32(flags).u32(0);
        answer
    }

    /// Returns the answer to [`Op::Write`]: `size` bytes were written.
    pub fn written(unique: u64, size: usize) -> Answer {
        let mut answer = Answer::head(8, 0, unique);
        answer.u32(size as u32).u32(0);
        answer
    }

    /// Returns the answer to [`Op::Poll`] with the events of poll(2).
    pub fn ready(unique: u64, events: u32) -> Answer {
        let mut answer = Answer::head(8, 0, unique);
        answer.u32(events).u32(0);
        answer
    }

    /// Returns a notification, which belongs to no request. It makes the kernel poll the files with
    /// the poll handle `kh` again.
    pub fn wake(kh: u64) -> Answer {
        const NOTIFY_POLL: i32 = 1;
        let mut answer = Answer::head(8, NOTIFY_POLL, 0);
        answer.u64(kh);
        answer
    }

    /// Returns the answer to [`Op::StatFs`]: a file system without storage.
    pub fn statfs(unique: u64) -> Answer {
        let mut answer = Answer::head(80, 0, unique);
        answer.fill(40);
        answer.u32(4096).u32(255).u32(4096);
        answer.fill(80);
        answer
    }

    /// Returns the answer to [`Op::ReadDir`] in at most `size` bytes: the entries from index
    /// `offset` on. An entry is a node number, a mode and a name.
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

    /// Returns the encoded answer.
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

    /// Appends zeros until `len` bytes follow the header.
    fn fill(&mut self, len: usize) {
        self.0.resize(16 + len, 0);
    }
}

/// Time in seconds for which the kernel may cache names. It is practically unlimited.
const ENTRY_S: u64 = 1 << 30;
/// Preferred size of reads in bytes (`st_blksize`), which `cat` and other programs use.
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
    fn requests_are_parsed() {
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
    fn answer_lengths_match_their_headers() {
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
        fn parsing_any_bytes_does_not_panic(code in 0..60_u32, body in prop::collection::vec(any::<u8>(), 0..80), cut in 0..120_usize) {
            let bytes = request(code, &body);
            let _ = Request::parse(&bytes);
            let _ = Request::parse(&bytes[..cut.min(bytes.len())]);
        }
    }
}
