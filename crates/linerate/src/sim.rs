//! Simulation: hosts with virtual time and a seed.
//!
//! A [`World`] runs its hosts, and tasks that use their sockets, on one thread. The time jumps from
//! event to event. All random values are derived from the seed, so the same seed gives the same
//! packets.
//!
//! ```
//! use linerate::Host;
//! use linerate::net::tasks::{TcpListener, TcpStream};
//! use linerate::sim::World;
//!
//! let mut world = World::new(7);
//! let link = "impair(loss=5%,delay=20ms):pair:link";
//! let a = Host::builder().port(link).addr("10.0.0.1/24").build_in(&mut world)?;
//! let b = Host::builder().port(link).addr("10.0.0.2/24").build_in(&mut world)?;
//!
//! world.spawn(async move {
//!     let listener = TcpListener::bind(&b, "10.0.0.2:80").await.unwrap();
//!     let (stream, _) = listener.accept().await.unwrap();
//!     stream.write_all(b"hello").await.unwrap();
//! });
//! let text = world.block_on(async {
//!     let (stream, mut text) = (TcpStream::connect(&a, "10.0.0.2:80").await?, Vec::new());
//!     stream.read_to_end(&mut text).await?;
//!     Ok::<_, std::io::Error>(text)
//! })??;
//! assert_eq!(text, b"hello");
//! assert!(world.unaccounted().is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use clock::Instant;
use std::time::Duration;

#[doc(inline)]
pub use ::clock::Random;
pub use ::sim::Stalled;

/// Hosts, links and tasks with a common virtual time.
pub struct World(pub(crate) ::sim::World, Instant);

impl World {
    /// Creates an empty world. Hosts are added with
    /// [`HostBuilder::build_in`](crate::HostBuilder::build_in).
    pub fn new(seed: u64) -> World {
        let world = ::sim::World::new(seed);
        let began = world.now();
        World(world, began)
    }

    /// Returns the virtual time since the world was created.
    pub fn elapsed(&self) -> Duration {
        self.0.now().since(self.1)
    }

    /// Advances the virtual time by `span`, and runs hosts and tasks meanwhile.
    ///
    /// # Panics
    /// Panics if frames are produced endlessly at one instant, as in a loop of bridges.
    pub fn run_for(&self, span: Duration) {
        self.0.run_for(span);
    }

    /// Starts a task, which runs while the world runs.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.0.spawn(task);
    }

    /// Runs hosts and tasks until `future` is complete, and returns its result. Gives up after a
    /// day of virtual time.
    ///
    /// # Errors
    /// Returns [`Stalled`] if the future waits for an event that cannot occur.
    ///
    /// # Panics
    /// Panics as [`World::run_for`] does.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Stalled> {
        self.0.block_on(future)
    }

    /// Runs hosts and tasks as [`World::block_on`] does, but gives up after `limit` of virtual
    /// time.
    ///
    /// # Errors
    /// Returns [`Stalled`] if the future is not complete after `limit`, or waits for an event that
    /// cannot occur.
    ///
    /// # Panics
    /// Panics as [`World::run_for`] does.
    pub fn block_on_within<F: Future>(&self, limit: Duration, future: F) -> Result<F::Output, Stalled> {
        self.0.block_on_within(limit, future)
    }

    /// Returns the names of hosts with frames that are not accounted for, and the number of these
    /// frames. The list is empty unless there is a bug in the stack.
    pub fn unaccounted(&self) -> Vec<(String, i64)> {
        self.0.imbalances()
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("elapsed", &self.elapsed()).finish_non_exhaustive()
    }
}
