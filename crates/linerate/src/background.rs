//! A host in a thread of its own.

use crate::Error;
use clock::{Duration, Instant};
use inet::tcp::Unacknowledged;
use lock::Light;
use node::config::HostConfig;
use node::control::HostServer;
use node::run::{Runner, await_addresses};
use socket::Calls;
use socket::net::Net;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Maximum time that a host's thread waits for acknowledgments after the last handle is dropped.
const DROP_PATIENCE: Duration = Duration::from_millis(500);

/// A host that runs in a thread of its own.
///
/// A `Host` is a handle: clones refer to the same host, and every socket contains one. When the
/// last handle is dropped, the host sends the data written to its sockets, for at most half a
/// second, and ends. [`Host::shutdown`] ends the host even if other handles exist.
#[derive(Clone)]
pub struct Host(Arc<Running>);

struct Running {
    node: Arc<node::Host<Light>>,
    stop: Arc<Stop>,
    thread: Mutex<Option<JoinHandle<Vec<Unacknowledged>>>>,
}

/// Function that receives the warnings of a host.
pub(crate) type OnWarning = Box<dyn FnMut(&str) + Send>;

/// Request to end the thread.
#[derive(Default)]
struct Stop {
    is_requested: AtomicBool,
    /// Maximum time to wait for acknowledgments, in nanoseconds.
    patience: AtomicU64,
}

/// Connections that were reset at the end of a host, because their peers had not acknowledged all
/// data in time.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Unfinished {
    /// For each connection: local address, peer, and the number of unacknowledged bytes.
    pub connections: Vec<(SocketAddr, SocketAddr, usize)>,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unfinished { connections } = self;
        write!(f, "{} connections were reset with {} unacknowledged bytes", connections.len(), self.bytes())
    }
}

impl std::error::Error for Unfinished {}

impl Unfinished {
    /// Returns the number of unacknowledged bytes of all connections.
    pub fn bytes(&self) -> usize {
        self.connections.iter().map(|(_, _, bytes)| bytes).sum()
    }

    pub(crate) fn of(left: Vec<Unacknowledged>) -> Result<(), Unfinished> {
        if left.is_empty() {
            return Ok(());
        }
        let connections =
            left.into_iter().map(|left| (left.ends.local_addr(), left.ends.remote_addr(), left.bytes)).collect();
        Err(Unfinished { connections })
    }
}

/// Path of a control socket, and a pointer to the function that binds it. Because of the pointer, a
/// program without a control socket does not contain the code of the commands.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    pub(crate) path: PathBuf,
    bind: fn(&Path) -> io::Result<HostServer<Light>>,
}

impl ControlSocket {
    #[cfg(feature = "commands")]
    pub(crate) fn new(path: PathBuf) -> ControlSocket {
        ControlSocket { path, bind: HostServer::bind::<commands::All> }
    }

    fn bind(self) -> Result<HostServer<Light>, Error> {
        (self.bind)(&self.path).map_err(|why| Error::rejected(format!("control socket {}", self.path.display()), why))
    }
}

/// Starts the thread of a host.
pub(crate) fn start(
    node: node::Host<Light>,
    config: &HostConfig,
    control: Option<ControlSocket>,
    on_warning: Option<OnWarning>,
) -> Result<Host, Error> {
    let failed = |why| Error::Thread { host: config.name.clone(), why };
    let control = control.map(ControlSocket::bind).transpose()?;
    let runner = Runner::new(&node, &[], control).map_err(|(_, why)| failed(std::io::Error::other(why)))?.stay(true);
    let (node, stop) = (Arc::new(node), Arc::new(Stop::default()));
    let (theirs, request) = (node.clone(), stop.clone());
    let work = move |_pinned| run(&theirs, runner, &request, on_warning);
    let thread = dispatch::spawn_worker(&config.name, None, work).map_err(failed)?;
    Ok(Host(Arc::new(Running { node, stop, thread: Mutex::new(Some(thread)) })))
}

/// Guard that makes all waiting socket calls return when the thread ends, even if a port that the
/// user implemented has panicked.
struct StopsCalls<'n>(&'n node::Host<Light>);

impl Drop for StopsCalls<'_> {
    fn drop(&mut self) {
        self.0.stack.stop(self.0.cx());
    }
}

/// Body of the thread.
fn run(
    node: &node::Host<Light>,
    mut runner: Runner<Light>,
    stop: &Stop,
    mut on_warning: Option<OnWarning>,
) -> Vec<Unacknowledged> {
    let mut warn = |text: String| {
        if let Some(report) = &mut on_warning {
            report(&text);
        }
    };
    let stopped = StopsCalls(node);
    while !stop.is_requested.load(Ordering::Acquire) {
        runner.round(node, crate::port::pairs(), &mut warn);
    }
    let left = node.shutdown(Duration::from_nanos(stop.patience.load(Ordering::Acquire)));
    drop(stopped);
    left
}

impl Running {
    /// Ends the thread. Returns the connections that were reset, or an empty list if the thread has
    /// already ended.
    fn stop(&self, patience: Duration) -> Vec<Unacknowledged> {
        // Joins without the lock, because the host's own thread may call this function, too.
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return Vec::new() };
        self.stop.patience.store(u64::try_from(patience.as_nanos()).unwrap_or(u64::MAX), Ordering::Release);
        self.stop.is_requested.store(true, Ordering::Release);
        self.node.wake();
        if thread.thread().id() == std::thread::current().id() {
            return Vec::new(); // the last handle was dropped by the host's own thread, which then ends
        }
        thread.join().unwrap_or_default() // a panic of the thread was already reported
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop(DROP_PATIENCE);
    }
}

impl Host {
    /// Returns the name of the host.
    pub fn name(&self) -> &str {
        &self.0.node.stack.name
    }

    pub(crate) fn node(&self) -> &node::Host<Light> {
        &self.0.node
    }

    /// Returns whether the host has been shut down.
    pub fn is_stopped(&self) -> bool {
        self.0.node.stack.is_stopped()
    }

    /// Waits until the addresses of the host can be used, at most 15 seconds. Duplicate address
    /// detection must be complete, which takes a second for IPv6. DHCP and router advertisements
    /// must have configured the interfaces that use them.
    ///
    /// # Errors
    /// Returns [`Error::Rejected`] if no router or DHCP server replied.
    pub fn wait_configured(&self) -> Result<(), Error> {
        let round = || std::thread::sleep(Duration::from_millis(1));
        let done = await_addresses(self.node(), &mut |_| (), round);
        done.map_err(|why| Error::rejected("configuration", why))
    }

    /// Ends the host: sends written data and FINs, and waits until the peers have acknowledged
    /// them, at most `timeout`. Then resets the connections with unacknowledged data. Calls that
    /// wait, now or later, fail with `ConnectionAborted`. Does nothing if the host has already
    /// ended.
    ///
    /// # Errors
    /// Returns the connections that were reset.
    pub fn shutdown(&self, timeout: Duration) -> Result<(), Unfinished> {
        Unfinished::of(self.0.stop(timeout))
    }
}

/// Runs socket calls on the calling thread. A call that must wait sleeps until the host's thread
/// wakes it.
impl Net for Host {
    type Locks = Light;
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&Calls<'_, Light>) -> R) -> R {
        self.0.node.with(f)
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let now: Instant = self.0.node.clock.now();
        f.debug_struct("Host").field("name", &self.name()).field("now", &now).finish_non_exhaustive()
    }
}
