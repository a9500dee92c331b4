//! Exchange of a request and its answer between the collecting thread and the thread of a node.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    doorbell: UnixStream,
    shared: Arc<Shared<T>>,
}

/// Node's end. After it was dropped, the collector no longer reports the node, unless its thread
/// has panicked.
#[derive(Debug)]
pub struct Source<T> {
    doorbell: UnixStream,
    shared: Arc<Shared<T>>,
}

#[derive(Debug)]
struct Shared<T> {
    /// Number of the last request.
    requested: AtomicU64,
    /// Number of the last request that was answered.
    answered: AtomicU64,
    has_ended: AtomicBool,
    has_panicked: AtomicBool,
    response: Mutex<Option<T>>,
    arrived: Condvar,
}

impl<T> Shared<T> {
    fn response(&self) -> MutexGuard<'_, Option<T>> {
        self.response.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }
}

/// Answers of the nodes to one request.
#[derive(Debug)]
pub struct Collected<T> {
    /// Values of the nodes that answered, in the order in which they joined.
    pub figures: Vec<T>,
    /// Names of the nodes that did not answer in time, or whose threads have panicked.
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
            requested: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            has_ended: AtomicBool::new(false),
            has_panicked: AtomicBool::new(false),
            response: Mutex::new(None),
            arrived: Condvar::new(),
        });
        let source = Source { doorbell: theirs, shared: shared.clone() };
        self.nodes().push(Node { name: name.to_owned(), doorbell: ours, shared });
        Ok(source)
    }

    /// Requests the values of all nodes, and waits for them, at most `timeout` in total.
    pub fn collect(&self, timeout: Duration) -> Collected<T> {
        let end = Instant::now() + timeout;
        let mut nodes = self.nodes();
        nodes.retain(|node| !node.shared.is_over() || node.shared.has_panicked.load(Ordering::Acquire));
        for node in nodes.iter() {
            node.shared.requested.fetch_add(1, Ordering::AcqRel);
            let _ = (&node.doorbell).write(&[1]); // a full socket wakes its reader, too
        }
        let mut all = Collected { figures: Vec::new(), silent: Vec::new() };
        for Node { name, shared, .. } in nodes.iter() {
            let request = shared.requested.load(Ordering::Acquire);
            let is_answered = || shared.answered.load(Ordering::Acquire) >= request;
            let left = end.saturating_duration_since(Instant::now());
            let is_awaited = |_: &mut Option<T>| !is_answered() && !shared.is_over();
            let waited = shared.arrived.wait_timeout_while(shared.response(), left, is_awaited);
            let (mut response, _) = waited.unwrap_or_else(PoisonError::into_inner);
            match response.take().filter(|_| is_answered()) {
                Some(figures) => all.figures.push(figures),
                None if shared.is_over() && !shared.has_panicked.load(Ordering::Acquire) => {}
                None => all.silent.push(name.clone()),
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
        self.doorbell.as_fd()
    }

    /// If a value is requested, calls `figures` and passes the result to the collector. Called by
    /// the thread of the node.
    pub fn serve(&self, figures: impl FnOnce() -> T) {
        // The doorbell is emptied before the request is read. A request between the two rings
        // again, which costs one round.
        let mut rings = [0; 16];
        while (&self.doorbell).read(&mut rings).is_ok_and(|read| read == rings.len()) {}
        let request = self.shared.requested.load(Ordering::Acquire);
        if request == self.shared.answered.load(Ordering::Acquire) {
            return;
        }
        let figures = figures();
        let mut response = self.shared.response();
        *response = Some(figures);
        self.shared.answered.store(request, Ordering::Release);
        drop(response);
        self.shared.arrived.notify_all();
    }

    /// Ends the connection, so that the collector no longer waits for the node.
    pub fn end(&self) {
        let response = self.shared.response(); // a collector that checked before now waits
        self.shared.has_ended.store(true, Ordering::Release);
        drop(response);
        self.shared.arrived.notify_all();
    }
}

impl<T> Drop for Source<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.has_panicked.store(true, Ordering::Release);
        }
        self.end();
    }
}
