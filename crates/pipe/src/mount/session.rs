//! Handles the requests of a mount: finds the file to which a request refers, and performs the
//! operation.

use super::device::Device;
use super::fuse::{Answer, Attr, DIRECT, Op, REQUEST, ROOT, Request, STREAM};
use super::kernel::Kernel;
use super::lines::Kind;
use crate::ports::{Counter, Registers};
use crate::spread::lock;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Next action of the caller after a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Then {
    /// Continue with the next request.
    Next,
    /// The mount ends.
    End,
}

/// Type of a node, that is, of a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Root,
    Stats,
    GlobalTime,
    LocalTime(usize),
    Counts(usize),
    Port(usize, Kind),
}

/// Numbers of the local-time registers that are files.
const REGISTERS: std::ops::RangeInclusive<usize> = 1..=7;

/// The files of a mount, and the operations on them.
#[derive(Debug)]
pub struct Session {
    kernel: Arc<Kernel>,
    devices: Vec<Arc<Device>>,
    /// All files and directories, each with its type, parent directory and name. The entry at index
    /// `n` has the node number `n + 1`. The root is the first entry.
    nodes: Vec<(Node, Node, String)>,
    counter: Counter,
    registers: Registers,
    owner: (u32, u32),
    since: u64,
    next: AtomicU64,
    /// Content of the open files that do not belong to ports, by handle. It is generated when a
    /// file is read from its start.
    shown: Mutex<BTreeMap<u64, String>>,
}

/// File names of a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// Names of the files of lines, one per port. The file of records has the same name with the
    /// prefix `r`.
    pub ports: Vec<String>,
}

impl Names {
    /// Returns the file names for `ports`, the names of the ports. They are the same names or, if
    /// `numbered`, numbers from 0.
    ///
    /// # Errors
    /// A name is not valid for a file, or would be used twice.
    pub fn new<'p>(ports: impl Iterator<Item = &'p str>, numbered: bool) -> Result<Names, String> {
        let ports: Vec<String> =
            ports.enumerate().map(|(at, name)| if numbered { at.to_string() } else { name.to_owned() }).collect();
        let mut all: Vec<String> = REGISTERS.map(|register| format!("local_time{register}")).collect();
        all.extend(["global_time".to_owned(), "stats".to_owned()]);
        for name in &ports {
            if name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']) || name.len() > 200 {
                return Err(format!("'{name}' is not a valid file name; use --numbered to name the files 0, 1, ..."));
            }
            for file in [name.clone(), format!("r{name}")] {
                if all.contains(&file) {
                    return Err(format!("duplicate file name '{file}'; use --numbered to name the files 0, 1, ..."));
                }
                all.push(file);
            }
        }
        Ok(Names { ports })
    }
}

impl Session {
    /// Creates the files for `devices` with the given `names`.
    pub fn new(
        kernel: Arc<Kernel>,
        devices: Vec<Arc<Device>>,
        names: &Names,
        counter: Counter,
        registers: Registers,
    ) -> Session {
        let mut nodes = vec![
            (Node::Root, Node::Root, String::new()),
            (Node::Stats, Node::Root, "stats".to_owned()),
            (Node::GlobalTime, Node::Root, "global_time".to_owned()),
        ];
        nodes
            .extend(REGISTERS.map(|register| (Node::LocalTime(register), Node::Root, format!("local_time{register}"))));
        for (at, name) in names.ports.iter().enumerate() {
            nodes.push((Node::Port(at, Kind::Text), Node::Root, name.clone()));
            nodes.push((Node::Port(at, Kind::Binary), Node::Root, format!("r{name}")));
            nodes.push((Node::Counts(at), Node::Stats, name.clone()));
        }
        let since = port::os::calendar_ns() / 1_000_000_000;
        let (next, shown) = (AtomicU64::new(1), Mutex::new(BTreeMap::new()));
        let owner = crate::os::user();
        Session { kernel, devices, nodes, counter, registers, owner, since, next, shown }
    }

    /// Answers requests until the mount has ended.
    ///
    /// # Errors
    /// Errors of reading requests.
    pub fn run(&self) -> io::Result<()> {
        let mut buf = vec![0; REQUEST];
        while let Some(bytes) = self.kernel.receive(&mut buf)? {
            if self.take(bytes) == Then::End {
                break;
            }
        }
        Ok(())
    }

    /// Parses and answers one request.
    pub(super) fn take(&self, bytes: &[u8]) -> Then {
        match Request::parse(bytes) {
            Ok(Request { op: Op::Destroy, unique, .. }) => {
                self.kernel.send(&Answer::done(unique));
                return Then::End;
            }
            Ok(request) => self.dispatch(&request),
            Err(Some(unique)) => self.kernel.send(&Answer::error(unique, libc::EIO)),
            Err(None) => {}
        }
        Then::Next
    }

    fn node(&self, number: u64) -> Option<Node> {
        let index = usize::try_from(number.checked_sub(ROOT)?).ok()?;
        self.nodes.get(index).map(|(node, _, _)| *node)
    }

    fn device(&self, node: Node) -> Option<&Device> {
        match node {
            Node::Port(at, _) => self.devices.get(at).map(Arc::as_ref),
            _ => None,
        }
    }

    fn dispatch(&self, request: &Request<'_>) {
        let Request { unique, node: number, op } = *request;
        let answer = match (self.node(number), op) {
            (_, Op::Forget) => return,
            (_, Op::Init { readahead, flags }) => Answer::init(unique, readahead, flags),
            (_, Op::Interrupt { unique: of }) => {
                if self.devices.iter().any(|device| device.interrupt(of, &self.kernel)) {
                    return;
                }
                // Another thread may not have queued the request yet. EAGAIN makes the kernel
                // repeat the interrupt. If the request has been answered, the kernel ignores the
                // error.
                Answer::error(unique, libc::EAGAIN)
            }
            (_, Op::StatFs) => Answer::statfs(unique),
            (_, Op::Change) => Answer::error(unique, libc::EPERM),
            (_, Op::Ioctl) => Answer::error(unique, libc::ENOTTY),
            (_, Op::Access | Op::Flush | Op::ReleaseDir) => Answer::done(unique),
            (_, Op::Fsync { .. }) => Answer::error(unique, libc::EINVAL), // as for a character device
            (_, Op::Other | Op::Destroy) => Answer::error(unique, libc::ENOSYS),
            (None, _) => Answer::error(unique, libc::ENOENT),
            (Some(node), Op::Lookup { name }) => self.lookup(unique, node, name),
            (Some(node), Op::GetAttr | Op::SetAttr) => Answer::attributes(unique, &self.attr(number, node)),
            (Some(_), Op::OpenDir) => Answer::opened(unique, 0, 0),
            (Some(node), Op::ReadDir { offset, size }) => self.list(unique, node, offset, size),
            (Some(node), Op::Open { flags }) => self.open(unique, node, flags),
            (Some(node), Op::Release { fh }) => {
                if let Some(device) = self.device(node) {
                    device.close(fh);
                }
                lock(&self.shown).remove(&fh);
                Answer::done(unique)
            }
            (Some(node), Op::Read { fh, offset, size, flags }) => match self.device(node) {
                Some(device) => return device.read(unique, fh, size, waits(flags), &self.kernel),
                None => return self.show(unique, node, fh, offset, size),
            },
            (Some(node), Op::Write { fh, flags, data }) => match (self.device(node), node) {
                (Some(device), _) => return device.write(unique, fh, data, waits(flags), &self.kernel),
                (None, Node::LocalTime(register)) => self.set(unique, register, data),
                _ => Answer::error(unique, libc::EACCES),
            },
            (Some(node), Op::Poll { fh, kh, notify }) => {
                let always = (libc::POLLIN | libc::POLLOUT) as u32;
                let events = self.device(node).map_or(always, |device| device.poll(fh, notify.then_some(kh)));
                Answer::ready(unique, events)
            }
        };
        self.kernel.send(&answer);
    }

    fn lookup(&self, unique: u64, dir: Node, name: &[u8]) -> Answer {
        let found =
            self.nodes.iter().position(|(node, of, own)| *of == dir && *node != Node::Root && own.as_bytes() == name);
        match found.and_then(|index| self.nodes.get(index).map(|(node, _, _)| (ROOT + index as u64, *node))) {
            Some((number, node)) => Answer::entry(unique, &self.attr(number, node)),
            None => Answer::error(unique, libc::ENOENT),
        }
    }

    fn list(&self, unique: u64, dir: Node, offset: u64, size: u32) -> Answer {
        let own = self.nodes.iter().enumerate().filter(|(_, (node, of, _))| *of == dir && *node != Node::Root);
        let own = own.map(|(index, (node, _, name))| (ROOT + index as u64, mode(*node), name.as_str()));
        let dots = [(ROOT, libc::S_IFDIR, "."), (ROOT, libc::S_IFDIR, "..")];
        Answer::directory(unique, offset, size, dots.into_iter().chain(own))
    }

    fn attr(&self, number: u64, node: Node) -> Attr {
        let (uid, gid) = self.owner;
        Attr { node: number, mode: mode(node), uid, gid, time: self.since }
    }

    fn open(&self, unique: u64, node: Node, flags: u32) -> Answer {
        let fh = self.next.fetch_add(1, Ordering::Relaxed);
        let access = flags.cast_signed() & libc::O_ACCMODE;
        match (node, self.device(node)) {
            (Node::Port(_, kind), Some(device)) => match device.open(fh, kind, access != libc::O_WRONLY) {
                true => Answer::opened(unique, fh, STREAM),
                false => Answer::error(unique, libc::ENFILE),
            },
            (Node::GlobalTime | Node::Counts(_), _) if access != libc::O_RDONLY => Answer::error(unique, libc::EACCES),
            _ => Answer::opened(unique, fh, DIRECT),
        }
    }

    /// Answers a read of a file whose content is generated when the file is read from its start.
    fn show(&self, unique: u64, node: Node, fh: u64, offset: u64, size: u32) {
        let mut shown = lock(&self.shown);
        if offset == 0 {
            shown.insert(fh, self.text(node));
        }
        let text = shown.get(&fh).map_or("", String::as_str).as_bytes();
        let from = usize::try_from(offset).map_or(text.len(), |offset| offset.min(text.len()));
        let to = (from + size as usize).min(text.len());
        self.kernel.send(&Answer::bytes_of(unique, text.get(from..to).unwrap_or_default()));
    }

    fn text(&self, node: Node) -> String {
        match node {
            Node::GlobalTime => format!("{:016X}\n", self.counter.ticks(self.counter.now())),
            Node::LocalTime(register) => format!("{:016X}\n", self.registers.get(register).unwrap_or(0)),
            Node::Counts(at) => self.devices.get(at).map_or_else(String::new, |device| stats(device)),
            Node::Root | Node::Stats | Node::Port(..) => String::new(),
        }
    }

    /// Answers a write to the file of a local-time register. Sets the register to the hexadecimal
    /// number in `data`.
    fn set(&self, unique: u64, register: usize, data: &[u8]) -> Answer {
        let word = std::str::from_utf8(data).unwrap_or("").trim();
        match u64::from_str_radix(word.trim_start_matches("0x"), 16) {
            Ok(ticks) => {
                self.registers.set(register, ticks);
                Answer::written(unique, data.len())
            }
            Err(_) => Answer::error(unique, libc::EINVAL),
        }
    }
}

fn waits(flags: u32) -> bool {
    flags.cast_signed() & libc::O_NONBLOCK == 0
}

fn mode(node: Node) -> u32 {
    match node {
        Node::Root | Node::Stats => libc::S_IFDIR | 0o755,
        Node::GlobalTime | Node::Counts(_) => libc::S_IFREG | 0o444,
        Node::LocalTime(_) | Node::Port(..) => libc::S_IFREG | 0o600,
    }
}

/// Formats the counters of a port as indented JSON.
fn stats(device: &Device) -> String {
    let (counts, readers) = device.counts();
    let readers: Vec<_> = readers
        .iter()
        .map(|reader| {
            let file = if reader.kind == Kind::Text { "text" } else { "binary" };
            let (delivered, overflow, waiting) = (reader.delivered, reader.overflow, reader.waiting);
            serde_json::json!({ "file": file, "delivered": delivered, "overflow": overflow, "waiting": waiting })
        })
        .collect();
    let all = serde_json::json!({
        "port": device.name(),
        "received": counts.received,
        "unread": counts.unread,
        "refused": counts.refused,
        "delivered": counts.delivered,
        "overflow": counts.overflow,
        "readers": readers,
        "accepted": counts.accepted,
        "sent": counts.sent,
        "too_long": counts.too_long,
        "bad_lines": counts.bad_lines,
        "first_bad": counts.first_bad,
    });
    format!("{all:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_validated() {
        let names = |ports: &[&str], numbered| Names::new(ports.iter().copied(), numbered).map(|names| names.ports);
        assert_eq!(names(&["tap0", "pg0"], false).unwrap(), ["tap0", "pg0"]);
        assert_eq!(names(&["a/b", "a/b"], true).unwrap(), ["0", "1"]);
        for wrong in [&["tap0", "tap0"][..], &["x", "rx"], &["stats"], &["a/b"], &[""], &["local_time3"]] {
            assert!(names(wrong, false).unwrap_err().contains("--numbered"), "{wrong:?}");
        }
    }
}
