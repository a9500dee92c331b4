//! Locks that protect data shared by threads, in three kinds of different cost.
//!
//! Every part of a stack that threads could share is in a [`Guarded<L, T>`]. The only type
//! parameter of the whole system, [`Locks`], selects the kind of lock: [`Up`] (one thread, no
//! atomics; the stack is `!Sync`), [`Light`] (without contention one compare-and-swap to lock and
//! one exchange to unlock; with contention a futex), [`Heavy`] (a semaphore object with an owner
//! and a FIFO queue of waiters, as configuration C of rtems2014). All three count acquisitions.
//!
//! [`Pins`] tracks the readers of data that is changed without a lock.
//!
//! [`Cx`], the current context, identifies the running thread in one of the three ways that
//! rump2014 compared.

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
    /// Name of the kind, used as the value of the setting.
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
    /// Waits for the lock and takes it. Panics if the same context already holds it, which is a
    /// bug.
    fn lock(&self, cx: Cx) -> Self::Guard<'_>;
    /// Returns how often the lock was taken.
    fn acquisitions(&self) -> u64;
}

/// A value on cache lines of its own, so that writing it does not slow down readers of adjacent
/// values. Aligned to two lines, because processors prefetch adjacent lines in pairs.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(128))]
pub struct CachePadded<T>(pub T);

/// A value that threads could share, protected by a lock of kind `L`.
pub struct Guarded<L: Locks, T>(L::Lock<T>);

impl<L: Locks, T> Guarded<L, T> {
    /// Creates a lock for `value`.
    pub fn new(value: T) -> Self {
        Guarded(L::Lock::new(value))
    }

    /// Waits for the lock and takes it.
    #[inline(always)]
    pub fn lock(&self, cx: Cx) -> <L::Lock<T> as Lock<T>>::Guard<'_> {
        self.0.lock(cx)
    }

    /// Returns how often the lock was taken.
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
