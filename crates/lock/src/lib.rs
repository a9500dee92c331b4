//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! Locks that protect data shared by threads, in three kinds with different costs.
//!
//! Every part of a stack that several threads may use is in a [`Guarded<L, T>`]. The type parameter
//! [`Locks`], the only one of the whole stack, selects the kind of lock: [`Up`] (one thread, no
//! atomics; the stack is `!Sync`), [`Light`] (without contention one compare-and-swap to lock and
//! one exchange to unlock; with contention a futex), or [`Heavy`] (a semaphore object with an owner
//! and a FIFO queue of waiters, as in RTEMS). All three count acquisitions.
//!
//! [`Pins`] tracks the readers of data that is changed without a lock.
//!
//! [`Cx`], the current context, identifies the running thread by one of three methods: an argument,
//! a thread-local variable, or function calls.

mod context;
mod doorbell;
mod heavy;
mod light;
mod pins;
mod signal;
#[cfg(test)]
mod tests;
mod up;

pub use context::{Cx, How, USUAL_THREADS, thread_index, thread_token, thread_token_if_any};
pub use doorbell::Doorbell;
pub use heavy::Heavy;
pub use light::Light;
pub use pins::{Pinned, Pins};
pub use signal::Signal;
use std::fmt;
use std::ops::DerefMut;
pub use up::Up;

/// A kind of lock: [`Up`], [`Light`] or [`Heavy`].
pub trait Locks: Sized + 'static {
    /// Name of the kind, as the value of the setting `locks`.
    const NAME: &'static str;
    /// True if several threads can use a stack with this kind of lock.
    const SHARED: bool;
    /// Type of the lock for a value of type `T`.
    type Lock<T>: Lock<T>;
}

/// A value protected by a lock.
pub trait Lock<T> {
    /// Exclusive access to the value, until the guard is dropped.
    type Guard<'a>: DerefMut<Target = T>
    where
        Self: 'a;
    /// Creates a lock for `value`.
    fn new(value: T) -> Self;
    /// Waits for the lock and acquires it. Panics if the same context already holds it, which is a
    /// bug.
    fn lock(&self, cx: Cx) -> Self::Guard<'_>;
    /// Returns the number of acquisitions of the lock.
    fn acquisitions(&self) -> u64;
}

/// A value in cache lines of its own, so that writing it does not slow down readers of adjacent
/// values. It is aligned to two lines, because processors prefetch adjacent lines in pairs.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

/// A value that several threads may use, protected by a lock of kind `L`.
pub struct Guarded<L: Locks, T>(L::Lock<T>);

impl<L: Locks, T> Guarded<L, T> {
    /// Creates a lock for `value`.
    pub fn new(value: T) -> Self {
        Guarded(L::Lock::new(value))
    }

    /// Waits for the lock and acquires it.
    #[inline(always)]
    pub fn lock(&self, cx: Cx) -> <L::Lock<T> as Lock<T>>::Guard<'_> {
        self.0.lock(cx)
    }

    /// Returns the number of acquisitions of the lock.
    pub fn acquisitions(&self) -> u64 {
        self.0.acquisitions()
    }
}

impl<L: Locks, T> fmt::Debug for Guarded<L, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guarded<{}>(taken {} times)", L::NAME, self.acquisitions())
    }
}

impl<L: Locks, T: Default> Default for Guarded<L, T> {
    fn default() -> Self {
        Guarded::new(T::default())
    }
}
