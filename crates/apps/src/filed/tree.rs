//! Files and directories in memory, addressed by handles that are never reused.
//!
//! A handle consists of a slot index and a generation. Removing a file or directory makes its
//! handle stale. The total memory cost in bytes is updated with each change.

use super::proto::{Answer, Attributes, DATA_MAX, Kind, Op, ROOT, Status};
use crate::table::Table;
use linerate::stack::Instant;
use linerate::wire::hash::Key;

/// Maximum length of a name in bytes.
pub const NAME_MAX: usize = 255;
/// Memory in bytes charged for a file or directory in addition to its name and data: an estimate,
/// rounded up.
pub const NODE: usize = 256;

/// Limits of the directory tree: entries, total bytes, bytes of one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Maximum number of files and directories together.
    pub nodes: usize,
    /// Maximum total bytes, as charged by this module (data, names and overhead).
    pub bytes: usize,
    /// Maximum length of one file in bytes.
    pub file: usize,
}

impl Bounds {
    /// Returns limits for `files` files of `file` bytes each in the root directory, with names of
    /// at most `name` bytes.
    pub fn for_files(files: usize, name: usize, file: usize) -> Bounds {
        // A file's allocation grows by doubling, so it may be up to twice the file's length.
        let each = NODE.saturating_add(name).saturating_add(file.saturating_mul(2));
        Bounds { nodes: files.saturating_add(1), bytes: files.saturating_mul(each).saturating_add(NODE), file }
    }
}

#[derive(Debug)]
enum Body {
    File(Vec<u8>),
    Directory(Table<u32>),
}

#[derive(Debug)]
struct Node {
    body: Body,
    changed: Instant,
}

impl Node {
    fn attributes(&self) -> Attributes {
        let (kind, len) = match &self.body {
            Body::File(bytes) => (Kind::File, bytes.len()),
            Body::Directory(names) => (Kind::Directory, names.len()),
        };
        Attributes { kind, len: len as u64, changed_ns: self.changed.nanos() }
    }
}

/// A slot for a file or directory, with the generation of its handles.
#[derive(Debug)]
struct Place {
    generation: u32,
    node: Option<Node>,
}

#[derive(Debug)]
pub struct Tree {
    bounds: Bounds,
    key: Key,
    places: Vec<Place>,
    free: Vec<u32>,
    bytes: usize,
}

impl Tree {
    /// Creates a tree that has only an empty root directory.
    pub fn new(bounds: Bounds, key: Key) -> Tree {
        let root = Node { body: Body::Directory(Table::new(key)), changed: Instant::ZERO };
        let places = vec![Place { generation: (ROOT >> 32) as u32, node: Some(root) }];
        Tree { bounds, key, places, free: Vec::new(), bytes: NODE }
    }

    /// Returns the number of files and directories.
    pub fn nodes(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Returns the bytes of memory charged for all files and directories.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Executes a request.
    ///
    /// # Errors
    /// Returns the [`Status`] for the answer; the tree is unchanged.
    pub fn execute(&mut self, op: Op<'_>, now: Instant) -> Result<Answer<'_>, Status> {
        match op {
            Op::Lookup(dir, name) => self.lookup(dir, name),
            Op::GetAttr(handle) => Ok(Answer::Attributes(self.node(handle)?.attributes())),
            Op::Read(handle, offset, count) => self.read(handle, offset, count),
            Op::Write(handle, offset, bytes) => self.write(handle, offset, bytes, now),
            Op::Create(dir, kind, name) => self.create(dir, kind, name, now),
            Op::Remove(dir, name) => self.remove(dir, name, now),
        }
    }

    fn node(&self, handle: u64) -> Result<&Node, Status> {
        let place = self.places.get(handle as u32 as usize).filter(|place| place.generation == (handle >> 32) as u32);
        place.and_then(|place| place.node.as_ref()).ok_or(Status::Stale)
    }

    fn node_mut(&mut self, handle: u64) -> Result<&mut Node, Status> {
        let place = self.places.get_mut(handle as u32 as usize);
        let place = place.filter(|place| place.generation == (handle >> 32) as u32);
        place.and_then(|place| place.node.as_mut()).ok_or(Status::Stale)
    }

    fn names(&self, dir: u64) -> Result<&Table<u32>, Status> {
        if let Body::Directory(names) = &self.node(dir)?.body { Ok(names) } else { Err(Status::NotDirectory) }
    }

    fn names_mut(&mut self, dir: u64, now: Instant) -> Result<&mut Table<u32>, Status> {
        let node = self.node_mut(dir)?;
        let Body::Directory(names) = &mut node.body else { return Err(Status::NotDirectory) };
        node.changed = now;
        Ok(names)
    }

    fn handle_at(&self, at: u32) -> u64 {
        let generation = self.places.get(at as usize).map_or(0, |place| place.generation);
        u64::from(generation) << 32 | u64::from(at)
    }

    fn lookup(&self, dir: u64, name: &[u8]) -> Result<Answer<'_>, Status> {
        let at = *self.names(dir)?.get(name).ok_or(Status::NoEntry)?;
        let handle = self.handle_at(at);
        Ok(Answer::Handle(handle, self.node(handle)?.attributes()))
    }

    fn read(&self, handle: u64, offset: u64, count: u32) -> Result<Answer<'_>, Status> {
        let Body::File(bytes) = &self.node(handle)?.body else { return Err(Status::IsDirectory) };
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let rest = bytes.get(from..).unwrap_or_default();
        let count = (count as usize).min(DATA_MAX).min(rest.len());
        Ok(Answer::Bytes(count == rest.len(), rest.get(..count).unwrap_or_default()))
    }

    fn write(&mut self, handle: u64, offset: u64, bytes: &[u8], now: Instant) -> Result<Answer<'_>, Status> {
        let Bounds { bytes: most, file, .. } = self.bounds;
        let room = most.saturating_sub(self.bytes);
        let node = self.node_mut(handle)?;
        let Body::File(held) = &mut node.body else { return Err(Status::IsDirectory) };
        let from = usize::try_from(offset).ok().filter(|from| *from <= file).ok_or(Status::TooBig)?;
        if bytes.is_empty() {
            // An empty write changes nothing and does not extend the file (RFC 1813 3.3.7).
            return Ok(Answer::Attributes(node.attributes()));
        }
        let end = from + bytes.len();
        if end > file {
            return Err(Status::TooBig);
        }
        let before = held.capacity();
        // The gap between the old end and the new bytes is filled with zeros.
        if end > held.len() {
            // A vector that has to grow at least doubles its capacity, to 8 bytes or more.
            if end > before && end.max(2 * before).max(8) - before > room {
                return Err(Status::NoSpace);
            }
            held.resize(end, 0);
        }
        if let Some(place) = held.get_mut(from..end) {
            place.copy_from_slice(bytes);
        }
        let more = held.capacity() - before;
        node.changed = now;
        let attributes = node.attributes();
        self.bytes += more;
        Ok(Answer::Attributes(attributes))
    }

    fn create(&mut self, dir: u64, kind: Kind, name: &[u8], now: Instant) -> Result<Answer<'_>, Status> {
        if name.len() > NAME_MAX {
            return Err(Status::NameTooLong);
        }
        if matches!(name, b"" | b"." | b"..") || name.iter().any(|byte| matches!(byte, 0 | b'/')) {
            return Err(Status::Invalid);
        }
        if self.names(dir)?.get(name).is_some() {
            return Err(Status::Exists);
        }
        if self.nodes() >= self.bounds.nodes || self.bytes + name.len() + NODE > self.bounds.bytes {
            return Err(Status::NoSpace);
        }
        let body = match kind {
            Kind::File => Body::File(Vec::new()),
            Kind::Directory => Body::Directory(Table::new(self.key)),
        };
        let at = self.place(Node { body, changed: now });
        self.names_mut(dir, now)?.insert(name, at);
        self.bytes += name.len() + NODE;
        let handle = self.handle_at(at);
        Ok(Answer::Handle(handle, self.node(handle)?.attributes()))
    }

    fn place(&mut self, node: Node) -> u32 {
        let at = self.free.pop().unwrap_or(self.places.len() as u32);
        match self.places.get_mut(at as usize) {
            Some(place) => place.node = Some(node),
            None => self.places.push(Place { generation: 1, node: Some(node) }),
        }
        at
    }

    fn remove(&mut self, dir: u64, name: &[u8], now: Instant) -> Result<Answer<'_>, Status> {
        let at = *self.names(dir)?.get(name).ok_or(Status::NoEntry)?;
        let cost = match &self.node(self.handle_at(at))?.body {
            Body::File(bytes) => bytes.capacity(),
            Body::Directory(names) if names.is_empty() => 0,
            Body::Directory(_) => return Err(Status::NotEmpty),
        };
        self.names_mut(dir, now)?.remove(name);
        if let Some(place) = self.places.get_mut(at as usize) {
            // The generation wraps around after 2^32 removals in one slot; no client keeps a handle
            // for that long.
            (place.node, place.generation) = (None, place.generation.wrapping_add(1));
            self.free.push(at);
        }
        self.bytes = self.bytes.saturating_sub(cost + name.len() + NODE);
        Ok(Answer::Nothing)
    }
}
