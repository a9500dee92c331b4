//! `Light`: one compare-and-swap when nobody else is there, the kernel's futex when somebody is.
//!
//! The mutex itself is the standard library's. The owner is noted so that taking a lock twice in one context is a
//! clean panic and not a hang; asking who is running is what makes the context rung (rump2014 step 3) matter.

use crate::{Cx, Lock, Locks};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Several threads enter; fine-grained locking as in BSD's SMP stack.
#[derive(Debug)]
pub enum Light {}

impl Locks for Light {
    const NAME: &'static str = "light";
    const SHARED: bool = true;
    type Lock<T> = LightLock<T>;
}

/// A value behind a mutex.
#[derive(Debug)]
pub struct LightLock<T> {
    owner: AtomicU32,
    inner: Mutex<Counted<T>>,
}

#[derive(Debug)]
struct Counted<T> {
    acquisitions: u64,
    value: T,
}

/// Access to the value of a [`LightLock`].
#[derive(Debug)]
pub struct LightGuard<'a, T> {
    owner: &'a AtomicU32,
    inner: MutexGuard<'a, Counted<T>>,
}

impl<T> Lock<T> for LightLock<T> {
    type Guard<'a>
        = LightGuard<'a, T>
    where
        T: 'a;

    fn new(value: T) -> Self {
        LightLock { owner: AtomicU32::new(0), inner: Mutex::new(Counted { acquisitions: 0, value }) }
    }

    #[inline]
    fn lock(&self, cx: Cx) -> LightGuard<'_, T> {
        let me = cx.current() as u32 + 1;
        assert!(self.owner.load(Ordering::Relaxed) != me, "lock taken twice by one context");
        // A panic elsewhere does not make protocol state wrong by itself: go on with what is there.
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        self.owner.store(me, Ordering::Relaxed);
        inner.acquisitions += 1;
        LightGuard { owner: &self.owner, inner }
    }

    fn acquisitions(&self) -> u64 {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).acquisitions
    }
}

impl<T> Drop for LightGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.owner.store(0, Ordering::Relaxed);
    }
}

impl<T> Deref for LightGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.inner.value
    }
}

impl<T> DerefMut for LightGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner.value
    }
}
