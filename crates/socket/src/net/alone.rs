//! A host that has only a loopback interface and uses virtual time, for examples and tests.

use super::Net;
use crate::{Calls, Drive};
use buf::{Pool, PoolConfig, PoolLocks};
use clock::{Duration, Instant, SimClock};
use inet::{Config, Stack};
use lock::{Cx, How, Locks};
use std::io;

/// A host that has only a loopback interface and uses virtual time. While a call waits, virtual
/// time advances without a real delay. If a call waits for something that can never arrive, it
/// fails as if the host had been stopped.
///
/// ```
/// use linerate_socket::net::{Alone, TcpStream};
///
/// let host = &Alone::<lock::Up>::new("alone")?;
/// let refused = TcpStream::connect(&host, "127.0.0.1:80").unwrap_err();
/// assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Alone<L: Locks> {
    stack: Stack<L>,
    time: SimClock,
}

/// Virtual time at the start. It is not 0, because some timers use 0 for "never".
const BEGINNING: Duration = Duration::from_secs(1);

impl<L: Locks> Alone<L> {
    /// Creates a host with this name.
    ///
    /// # Errors
    /// The memory for the host's buffers cannot be allocated.
    pub fn new(name: &str) -> io::Result<Alone<L>> {
        let config = PoolConfig { buffers: 1024, locks: PoolLocks::Light, ..PoolConfig::default() };
        let pool = Pool::new(&config).map_err(io::Error::other)?;
        let time = SimClock::new();
        time.advance(BEGINNING);
        let cx = Cx::enter(How::Register, time.now());
        Ok(Alone { stack: Stack::new(cx, Config::new(name, pool)), time })
    }

    /// Returns the network stack of the host.
    pub fn stack(&self) -> &Stack<L> {
        &self.stack
    }

    /// Returns the current virtual time.
    pub fn now(&self) -> Instant {
        self.time.now()
    }

    fn poll(&self) -> Instant {
        let cx = Cx::enter(How::Register, self.time.now());
        self.stack.poll(cx).unwrap_or(Instant::NEVER)
    }
}

impl<L: Locks> std::fmt::Debug for Alone<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Alone").field("name", &self.stack.name).field("now", &self.now()).finish()
    }
}

impl<L: Locks> Drive for Alone<L> {
    fn drive(&self, until: Instant) -> Option<Instant> {
        let now = self.time.now();
        let next = self.poll().min(until);
        if next == Instant::NEVER {
            // This poll may have delivered the data for which the caller waits. If the stack holds
            // no more frames, nothing further can arrive, and the wait ends.
            return (self.stack.held(Cx::enter(How::Register, now)) > 0).then_some(now);
        }
        self.time.advance_to(next.max(now));
        self.poll();
        Some(self.time.now())
    }
}

impl<L: Locks> Net for Alone<L> {
    type Locks = L;
    fn with<R>(&self, f: impl FnOnce(&Calls<'_, L>) -> R) -> R {
        f(&Calls::driving(&self.stack, Cx::enter(How::Register, self.time.now()), self))
    }
}
