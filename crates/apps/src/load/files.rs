//! The file service workload: lookups, attributes, reads and writes of files, sent to
//! [`crate::filed`].
//!
//! The mix of requests follows SPEC SFS 2008 for NFS version 3. Its published shares in percent
//! are: LOOKUP 24, READ 18, WRITE 10, GETATTR 26, ACCESS 11, SETATTR 4, READDIRPLUS 2, and
//! READLINK, READDIR, CREATE, REMOVE and FSSTAT 1 each. Operations that our protocol lacks are
//! replaced: READLINK, READDIR and READDIRPLUS by LOOKUP; ACCESS, SETATTR and FSSTAT by GETATTR.
//! All files have the same size and are used equally often.

use super::{CLIENTS_MAX, Mix};
use crate::filed::proto::{self, Kind, Op, ROOT, Status};
use crate::filed::{Bounds, Config, Filed, PORT};
use anyhow::Context;
use linerate::sim::Random;
use std::collections::VecDeque;

/// Number of bytes per READ or WRITE: the usual transfer size of SFS.
pub const TRANSFER: usize = 8 * 1024;
/// Maximum number of files in the data set.
pub const FILES_MAX: u32 = 100_000;
/// Maximum length of a file in bytes.
pub const FILE_MAX: u32 = 1 << 20;
/// Maximum length of a file name in bytes.
const NAME: usize = 32;

const LOOKUP: usize = 0;
const GETATTR: usize = 1;
const READ: usize = 2;
const WRITE: usize = 3;
const CREATE: usize = 4;
const REMOVE: usize = 5;
/// Shares of LOOKUP, GETATTR, READ and WRITE in percent of all requests; the remaining requests
/// alternate between CREATE and REMOVE.
const SHARES: [(usize, u64); 4] = [(LOOKUP, 28), (GETATTR, 42), (READ, 18), (WRITE, 10)];

/// Number and size of the files that the workload uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Files {
    pub count: u32,
    /// Length of each file, as a number of transfers of [`TRANSFER`] bytes.
    pub transfers: u32,
}

impl Default for Files {
    fn default() -> Files {
        Files { count: 1000, transfers: 4 }
    }
}

/// State of the file service workload.
#[derive(Debug)]
pub struct Fileload {
    files: Files,
    draw: Random,
    data: Vec<u8>,
    handles: Vec<u64>,
    /// While the service is filled with data: number of transfers already written into the last
    /// file.
    filled: u32,
    /// Set if the next file to create already exists from an earlier run, so that it is looked up
    /// instead.
    exists: bool,
    number: u32,
    /// For each client, the numbers of the files that it has created and not removed yet, oldest
    /// first.
    made: Vec<VecDeque<u32>>,
}

impl Fileload {
    /// Creates a workload that uses these files.
    pub fn new(files: Files) -> Fileload {
        let (draw, data) = (Random::new(1), vec![b'f'; TRANSFER]);
        let (handles, made) = (Vec::new(), Vec::new());
        Fileload { files, draw, data, handles, filled: files.transfers, exists: false, number: 0, made }
    }

    fn say(&mut self, out: &mut Vec<u8>, op: &Op<'_>) {
        self.number = self.number.wrapping_add(1);
        proto::ask(out, self.number, op);
    }

    /// Draws a file at random, and an offset in it.
    fn drawn(&mut self) -> (usize, u64, u64) {
        let file = self.draw.index(self.handles.len());
        let offset = self.draw.below(self.files.transfers.into()) * TRANSFER as u64;
        (file, self.handles.get(file).copied().unwrap_or(ROOT), offset)
    }

    /// Writes a CREATE and a REMOVE request alternately, so that few of these additional files
    /// exist at a time.
    fn make_or_remove(&mut self, client: usize, out: &mut Vec<u8>) -> usize {
        if self.made.len() <= client {
            self.made.resize_with(client + 1, VecDeque::new);
        }
        let number = self.number;
        let Some(made) = self.made.get_mut(client) else { return LOOKUP };
        let name = |number: u32| format!("t{client}.{number}");
        match made.pop_front() {
            Some(number) => {
                self.say(out, &Op::Remove(ROOT, name(number).as_bytes()));
                REMOVE
            }
            None => {
                made.push_back(number);
                self.say(out, &Op::Create(ROOT, Kind::File, name(number).as_bytes()));
                CREATE
            }
        }
    }
}

/// Returns limits for the largest set of files that the command line permits, plus one file per
/// client. A high limit alone uses no memory.
pub(super) fn bounds() -> Bounds {
    Bounds::for_files(FILES_MAX as usize + CLIENTS_MAX, NAME, FILE_MAX as usize)
}

fn name(file: usize) -> String {
    format!("file{file:06}")
}

impl Mix for Fileload {
    type App = Filed;

    const PORT: u16 = PORT;
    const NAME: &'static str = "fileload";
    const KINDS: &'static [&'static str] = &["LOOKUP", "GETATTR", "READ", "WRITE", "CREATE", "REMOVE"];

    fn app() -> Filed {
        Filed::new(Config { bounds: bounds(), ..Config::default() })
    }

    fn fill(&mut self, out: &mut Vec<u8>) -> bool {
        let data = std::mem::take(&mut self.data);
        let more = match self.handles.last().copied().filter(|_| self.filled < self.files.transfers) {
            Some(handle) => {
                self.say(out, &Op::Write(handle, u64::from(self.filled) * TRANSFER as u64, &data));
                self.filled += 1;
                true
            }
            None if self.handles.len() < self.files.count as usize => {
                let name = name(self.handles.len());
                let create = Op::Create(ROOT, Kind::File, name.as_bytes());
                let op = if self.exists { Op::Lookup(ROOT, name.as_bytes()) } else { create };
                self.say(out, &op);
                self.filled = 0;
                true
            }
            None => false,
        };
        self.data = data;
        more
    }

    fn ask(&mut self, client: usize, out: &mut Vec<u8>) -> usize {
        let (file, handle, offset) = self.drawn();
        let mut share = self.draw.below(100);
        for (kind, shares) in SHARES {
            if share >= shares {
                share -= shares;
                continue;
            }
            let data = std::mem::take(&mut self.data);
            match kind {
                LOOKUP => self.say(out, &Op::Lookup(ROOT, name(file).as_bytes())),
                GETATTR => self.say(out, &Op::GetAttr(handle)),
                READ => self.say(out, &Op::Read(handle, offset, TRANSFER as u32)),
                _ => self.say(out, &Op::Write(handle, offset, &data)),
            }
            self.data = data;
            return kind;
        }
        self.make_or_remove(client, out)
    }

    fn on_reply(&mut self, _client: usize, kind: Option<usize>, bytes: &[u8]) -> anyhow::Result<Option<usize>> {
        let record = proto::record(bytes).map_err(|_| anyhow::anyhow!("invalid record from the server"))?;
        let Some(record) = record else { return Ok(None) };
        let (_, status, body) = proto::parse_reply(record).context("record too short for an answer")?;
        let exists = status == Status::Exists as u8;
        match kind {
            None if exists && !self.exists => {
                (self.exists, self.filled) = (true, self.files.transfers);
                return Ok(Some(4 + record.len()));
            }
            // The file exists from an earlier run, or another run has created or removed it in the
            // meantime.
            Some(CREATE) if exists => return Ok(Some(4 + record.len())),
            Some(REMOVE) if status == Status::NoEntry as u8 => return Ok(Some(4 + record.len())),
            _ => anyhow::ensure!(status == 0, "the server returned NFS error {status} (RFC 1813 2.6)"),
        }
        match kind {
            // Requests that fill the service with data: CREATE and LOOKUP return a handle, WRITE
            // returns attributes.
            None => {
                self.handles.extend(proto::handle(body));
                self.exists = false;
            }
            Some(READ) => {
                anyhow::ensure!(body.len() == 1 + TRANSFER, "READ: unexpected answer length of {} bytes", body.len())
            }
            Some(_) => {}
        }
        Ok(Some(4 + record.len()))
    }

    fn describe(&self) -> String {
        let Files { count, transfers } = self.files;
        format!(
            "28 % LOOKUP, 42 % GETATTR, 18 % READ, 10 % WRITE, 2 % CREATE and REMOVE; {count} files of {} KiB, {} KiB at a time",
            transfers as usize * TRANSFER / 1024,
            TRANSFER / 1024
        )
    }
}
