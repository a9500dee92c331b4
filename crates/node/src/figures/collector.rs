//! Requests of the thread that collects values, to the threads of the nodes.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Collects values of type `T` from all nodes of a process. Nodes join it ([`Collector::join`]);
/// any thread collects.
#[derive(Debug)]
pub struct Collector<T> {
    nodes: Mutex<Vec<Node<T>>>,
}

impl<T> Default for Collector<T> {
    fn default() -> Collector<T> {
        Collector { nodes: Mutex::default() }
    }
}

/// Collector's end of the connection with a node.
#[derive(Debug)]
struct Node<T> {
    name: String,
    bell: UnixStream,
    shared: Arc<Shared<T>>,
}

/// Node's end. Dropped when the node ends, which the collector then no longer reports.
#[derive(Debug)]
pub struct Source<T> {
    bell: UnixStream,
    shared: Arc<Shared<T>>,
}

#[derive(Debug)]
struct Shared<T> {
    is_requested: AtomicBool,
    has_ended: AtomicBool,
    response: Mutex<Option<T>>,
    arrived: Condvar,
}

impl<T> Shared<T> {
    fn response(&self) -> MutexGuard<'_, Option<T>> {
        self.response.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers of the nodes to one request.
#[derive(Debug)]
pub struct Collected<T> {
    /// Values of the nodes that answered, in the order in which they joined.
    pub figures: Vec<T>,
    /// Names of the nodes that did not answer in time.
    pub silent: Vec<String>,
}

impl<T> Collector<T> {
    /// Adds a node called `name`, and returns the end that its thread serves.
    ///
    /// # Errors
    /// Returns errors of the system: there are too many open descriptors.
    pub fn join(&self, name: &str) -> io::Result<Source<T>> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let shared = Arc::new(Shared {
            is_requested: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            response: Mutex::new(None),
            arrived: Condvar::new(),
        });
        let source = Source { bell: theirs, shared: shared.clone() };
        self.nodes().push(Node { name: name.to_owned(), bell: ours, shared });
        Ok(source)
    }

    /// Requests the values of all nodes, and waits for them, at most `timeout` in total.
    pub fn collect(&self, timeout: Duration) -> Collected<T> {
        let end = Instant::now() + timeout;
        let mut nodes = self.nodes();
        nodes.retain(|node| !node.shared.has_ended.load(Ordering::Acquire));
        for node in nodes.iter() {
            *node.shared.response() = None;
            node.shared.is_requested.store(true, Ordering::Release);
            let _ = (&node.bell).write(&[1]); // a full socket wakes its reader, too
        }
        let mut all = Collected { figures: Vec::new(), silent: Vec::new() };
        for node in nodes.iter() {
            let is_awaited =
                |response: &mut Option<T>| response.is_none() && !node.shared.has_ended.load(Ordering::Acquire);
            let left = end.saturating_duration_since(Instant::now());
            let waited = node.shared.arrived.wait_timeout_while(node.shared.response(), left, is_awaited);
            let (mut response, _) = waited.unwrap_or_else(PoisonError::into_inner);
            match response.take() {
                Some(figures) => all.figures.push(figures),
                None if node.shared.has_ended.load(Ordering::Acquire) => {}
                None => all.silent.push(node.name.clone()),
            }
        }
        all
    }

    fn nodes(&self) -> MutexGuard<'_, Vec<Node<T>>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Source<T> {
    /// Returns the descriptor that is readable when a value is requested.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// If a value is requested, calls `figures` and passes them to the collector. Called by the
    /// thread of the node.
    pub fn serve(&self, figures: impl FnOnce() -> T) {
        if !self.shared.is_requested.swap(false, Ordering::AcqRel) {
            return;
        }
        let mut rings = [0; 16];
        while (&self.bell).read(&mut rings).is_ok_and(|read| read == rings.len()) {}
        let figures = figures();
        *self.shared.response() = Some(figures);
        self.shared.arrived.notify_all();
    }
}

impl<T> Drop for Source<T> {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Release);
        drop(self.shared.response()); // a collector that checked before now waits
        self.shared.arrived.notify_all();
    }
}
