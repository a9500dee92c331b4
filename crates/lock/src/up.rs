//! `Up`: a lock for one thread, without atomics (as `locks_up` in the report rump2014). It is
//! `!Sync`, so the compiler rejects a second thread.
//!
//! Acquiring the lock costs two plain stores, about one tick. One word counts acquisitions, with
//! the state of the lock in its low bit. Acquiring the lock twice therefore panics, instead of
//! creating two exclusive references.
#![allow(unsafe_code)] // unsafe: the held bit ensures exclusive access, not the compiler

use crate::{Cx, Lock, Locks};
use std::cell::{Cell, UnsafeCell};
use std::ops::{Deref, DerefMut};

/// Kind of lock for a single thread; it never waits.
#[derive(Debug)]
pub enum Up {}

impl Locks for Up {
    const NAME: &'static str = "up";
    const SHARED: bool = false;
    type Lock<T> = UpLock<T>;
}

/// A value used by one thread.
#[derive(Debug)]
#[repr(C)] // the word first, next to the first fields of the value
pub struct UpLock<T> {
    /// Twice the number of acquisitions, plus one while the lock is held.
    word: Cell<u64>,
    value: UnsafeCell<T>,
}

/// Exclusive access to the value of an [`UpLock`].
#[derive(Debug)]
pub struct UpGuard<'a, T>(&'a UpLock<T>);

impl<T> Lock<T> for UpLock<T> {
    type Guard<'a>
        = UpGuard<'a, T>
    where
        T: 'a;

    fn new(value: T) -> Self {
        UpLock { word: Cell::new(0), value: UnsafeCell::new(value) }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn lock(&self, _cx: Cx) -> UpGuard<'_, T> {
        let word = self.word.get();
        if word & 1 != 0 {
            taken_twice();
        }
        self.word.set(word + 1);
        UpGuard(self)
    }

    fn acquisitions(&self) -> u64 {
        self.word.get().div_ceil(2)
    }
}

#[cold]
fn taken_twice() -> ! {
    panic!("lock taken twice by one context")
}

impl<T> Drop for UpGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.word.set(self.0.word.get() + 1);
    }
}

impl<T> Deref for UpGuard<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: `UpLock` is `!Sync` (UnsafeCell, Cell) and the held bit permits one guard at a
        // time.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for UpGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: same as in `deref`; `&mut self` borrows the only guard.
        unsafe { &mut *self.0.value.get() }
    }
}
