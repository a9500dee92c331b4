//! `Light`: without contention, one compare-and-swap to lock and one exchange to unlock, similar to
//! `rtems_bsd_mutex` in RTEMS; with contention, a futex of the kernel.
//!
//! The lock's word contains the owner ([`Owner`]), so recording the owner needs no further
//! instruction, and acquiring a lock twice in one context panics instead of hanging. Locking needs
//! the number of the current thread, so its cost depends on how that number is found
//! ([`crate::How`]). The owner counts acquisitions with a load and a store, without a second atomic
//! operation.
#![allow(unsafe_code)] // unsafe: the owner word ensures exclusive access, not the compiler

mod owner;

use crate::{Cx, Lock, Locks};
use owner::Owner;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

/// Kind of lock for several threads, for fine-grained locking as in BSD's SMP stack.
#[derive(Debug)]
pub enum Light {}

impl Locks for Light {
    const NAME: &'static str = "light";
    const SHARED: bool = true;
    type Lock<T> = LightLock<T>;
}

/// A value, and a word that contains its owner.
#[derive(Debug)]
#[repr(C)] // the word first, next to the first fields of the value
pub struct LightLock<T> {
    owner: Owner,
    /// Number of acquisitions, written by the owner only.
    acquisitions: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: the value is accessible only through a guard, and `Owner` permits one guard at a time.
// The release of one guard happens before the acquisition of the next. Sharing the lock therefore
// moves the value between threads and never shares it.
unsafe impl<T: Send> Sync for LightLock<T> {}

/// Exclusive access to the value of a [`LightLock`]. The guard cannot be sent to another thread,
/// like the standard library's guards.
#[derive(Debug)]
pub struct LightGuard<'a, T> {
    lock: &'a LightLock<T>,
    /// Makes the guard neither `Send` nor `Sync`, since sharing it would share a value that may
    /// only be `Send`.
    on_this_thread: PhantomData<*mut T>,
}

impl<T> Lock<T> for LightLock<T> {
    type Guard<'a>
        = LightGuard<'a, T>
    where
        T: 'a;

    fn new(value: T) -> Self {
        LightLock { owner: Owner::default(), acquisitions: AtomicU64::new(0), value: UnsafeCell::new(value) }
    }

    #[inline(always)]
    fn lock(&self, cx: Cx) -> LightGuard<'_, T> {
        self.owner.acquire(cx.current() as u32 + 1);
        // Only the owner of the lock writes the counter.
        self.acquisitions.store(self.acquisitions.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        LightGuard { lock: self, on_this_thread: PhantomData }
    }

    fn acquisitions(&self) -> u64 {
        self.acquisitions.load(Ordering::Relaxed)
    }
}

impl<T> Drop for LightGuard<'_, T> {
    /// Unlocks also during a panic. A panic alone does not corrupt protocol state, so the next
    /// owner continues with the current state.
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.owner.release();
    }
}

impl<T> Deref for LightGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this guard's thread is the owner until the guard is dropped, and there is no
        // second guard.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for LightGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: same as in `deref`; `&mut self` borrows the only guard.
        unsafe { &mut *self.lock.value.get() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
