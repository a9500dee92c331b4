//! A host that runs on its owner's thread.

use crate::Unfinished;
use clock::Duration;
use lock::Up;
use socket::Calls;
use socket::net::Net;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

/// A host that runs on its owner's thread.
///
/// A blocking call on one of its sockets runs the host until the call is complete. A
/// [`Driver`](crate::Driver) runs several hosts, alone or together with tasks. In a
/// [`World`](crate::sim::World), the world runs the host.
///
/// It has no locks, so a packet costs less than on a [`Host`](crate::Host). A `LocalHost` is a
/// handle: clones refer to the same host. It cannot be moved to another thread.
///
/// When the last handle is dropped, the host sends the data written to its sockets and waits for
/// acknowledgments, for at most half a second; it ends earlier if nothing arrives for 50 ms or two
/// round-trip times. [`LocalHost::shutdown`] waits longer and reports what was not acknowledged.
///
/// ```
/// use linerate::Host;
/// use linerate::net::UdpSocket;
///
/// let host = Host::builder().build_local()?;
/// let socket = UdpSocket::bind(&host, "127.0.0.1:0")?;
/// socket.send_to(b"to myself", socket.local_addr()?)?;
/// assert_eq!(socket.recv(&mut [0; 16])?, 9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct LocalHost {
    node: Rc<node::Host<Up>>,
    driver: Rc<WaitingDriver>,
}

/// State of the driver that runs a host and waits for the next socket call.
#[derive(Default)]
struct WaitingDriver {
    /// Set while `task` waits.
    is_waiting: Cell<bool>,
    /// The task of the driver.
    task: RefCell<Option<Waker>>,
}

impl LocalHost {
    pub(crate) fn new(node: Rc<node::Host<Up>>) -> LocalHost {
        LocalHost { node, driver: Rc::default() }
    }

    pub(crate) fn node(&self) -> &node::Host<Up> {
        &self.node
    }

    /// Registers the task of a driver, which the next socket call wakes.
    #[cfg(feature = "tokio")]
    pub(crate) fn wake_driver_with(&self, waker: &Waker) {
        let mut task = self.driver.task.borrow_mut();
        if !task.as_ref().is_some_and(|own| own.will_wake(waker)) {
            *task = Some(waker.clone());
        }
        self.driver.is_waiting.set(true);
    }

    #[cold]
    fn wake_driver(&self) {
        self.driver.is_waiting.set(false);
        let waker = self.driver.task.borrow_mut().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Returns the name of the host.
    pub fn name(&self) -> &str {
        &self.node.stack.name
    }

    /// Sends written data and FINs, and waits until the peers have acknowledged them, at most
    /// `timeout`. Connections with unacknowledged data are then reset, and calls that wait fail.
    /// In a simulation, returns `Ok` at once.
    ///
    /// # Errors
    /// Returns the connections that were reset.
    pub fn shutdown(&self, timeout: Duration) -> Result<(), Unfinished> {
        if self.node.is_simulated() {
            return Ok(());
        }
        let left = self.node.shutdown(timeout);
        self.node.stack.stop(self.node.cx());
        Unfinished::of(left)
    }
}

/// Runs socket calls on this thread. A call that must wait runs the host meanwhile; in a
/// simulation, it fails.
impl Net for LocalHost {
    type Locks = Up;
    #[inline(always)]
    fn with<R>(&self, f: impl FnOnce(&Calls<'_, Up>) -> R) -> R {
        let done = self.node.with(f);
        if self.driver.is_waiting.get() {
            self.wake_driver();
        }
        done
    }
}

impl std::fmt::Debug for LocalHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalHost").field("name", &self.name()).finish_non_exhaustive()
    }
}
