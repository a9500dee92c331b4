//! `Light`: one compare-and-swap to lock and one exchange to unlock while nobody else is there, as rtems2014's
//! `rtems_bsd_mutex`; the kernel's futex when somebody is.
//!
//! The owner is the lock's word ([`Owner`]), so noting it costs nothing beside the compare-and-swap, and taking a lock
//! twice in one context is a clean panic and not a hang. Asking who is running is what makes the context rung (rump2014
//! step 3) matter. Acquisitions are counted by the owner with a load and a store: no second atomic operation.
#![allow(unsafe_code)] // an unsafe room: exclusive access is proven by the owner word, not by the compiler

mod owner;

use crate::{Cx, Lock, Locks};
use owner::Owner;
use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};

/// Several threads enter; fine-grained locking as in BSD's SMP stack.
#[derive(Debug)]
pub enum Light {}

impl Locks for Light {
    const NAME: &'static str = "light";
    const SHARED: bool = true;
    type Lock<T> = LightLock<T>;
}

/// A value behind a word that names its owner.
#[derive(Debug)]
#[repr(C)] // the word in front, on the cache line of what the value's own layout puts first
pub struct LightLock<T> {
    owner: Owner,
    /// Written by the owner only.
    acquisitions: AtomicU64,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a guard only, and `Owner` admits one guard at a time; the release of one guard
// happens before the acquisition of the next. So sharing the lock moves the value between threads, and never shares it.
unsafe impl<T: Send> Sync for LightLock<T> {}

/// Access to the value of a [`LightLock`]. It stays on its thread, as the standard library's guards do.
#[derive(Debug)]
pub struct LightGuard<'a, T> {
    lock: &'a LightLock<T>,
    /// Neither `Send` nor `Sync`: sharing the guard would share a value that may be `Send` alone.
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
        // Nobody else writes it meanwhile.
        self.acquisitions.store(self.acquisitions.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        LightGuard { lock: self, on_this_thread: PhantomData }
    }

    fn acquisitions(&self) -> u64 {
        self.acquisitions.load(Ordering::Relaxed)
    }
}

impl<T> Drop for LightGuard<'_, T> {
    /// Unlocks also when a panic passes: that does not make protocol state wrong by itself, so the next owner goes on with
    /// what is there.
    #[inline(always)]
    fn drop(&mut self) {
        self.lock.owner.release();
    }
}

impl<T> Deref for LightGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: this guard's thread is the owner until the guard is dropped, and there is no second guard.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for LightGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`; `&mut self` borrows the only guard.
        unsafe { &mut *self.lock.value.get() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
