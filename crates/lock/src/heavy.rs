//! `Heavy`: a semaphore object similar to the standard RTEMS semaphores, which configuration C of
//! the report rtems2014 uses as mutexes.
//!
//! To acquire it, a thread looks up the object by its identifier, enters the object's critical
//! section (RTEMS disables dispatching; here it is an inner mutex), checks the owner, and joins the
//! queue if it must wait. To release it, the thread looks up the object again and passes ownership
//! to the first waiter, before any other thread runs. These steps correspond to the functions
//! `rtems_semaphore_obtain`, `_Objects_Get_isr_disable`, `_CORE_mutex_Surrender` and
//! `_Thread_queue_Dequeue` of RTEMS.
//!
//! Waiters queue in order of arrival (FIFO). RTEMS can also queue by priority, and in order of
//! arrival within one priority; here all threads of a stack have the same priority. The protected
//! value is in a second mutex, which is always free for the owner of the semaphore. The compiler
//! requires this mutex, and it adds one uncontended lock to the cost.

use crate::{Cx, Lock, Locks};
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};

/// Kind of lock for several threads that acquires a semaphore object each time.
#[derive(Debug)]
pub enum Heavy {}

impl Locks for Heavy {
    const NAME: &'static str = "heavy";
    const SHARED: bool = true;
    type Lock<T> = HeavyLock<T>;
}

#[derive(Debug, Default)]
struct Semaphore {
    state: Mutex<State>,
    turn: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Number of the thread that owns the semaphore; 0 if there is none.
    owner: u32,
    /// Waiting threads, in order of arrival.
    waiting: VecDeque<u32>,
    acquisitions: u64,
}

/// Object table from identifiers to semaphores. Every RTEMS directive begins with this lookup.
static OBJECTS: RwLock<Vec<Option<Arc<Semaphore>>>> = RwLock::new(Vec::new());

/// A value protected by a semaphore object.
#[derive(Debug)]
pub struct HeavyLock<T> {
    id: usize,
    value: Mutex<T>,
}

/// Exclusive access to the value of a [`HeavyLock`].
#[derive(Debug)]
pub struct HeavyGuard<'a, T> {
    id: usize,
    value: Option<MutexGuard<'a, T>>,
}

fn object(id: usize) -> Option<Arc<Semaphore>> {
    OBJECTS.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned().flatten()
}

impl Semaphore {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn obtain(&self, me: u32) {
        let mut state = self.state();
        assert!(state.owner != me, "lock taken twice by one context");
        if state.owner != 0 {
            state.waiting.push_back(me);
            while state.owner != me {
                state = self.turn.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        state.owner = me;
        state.acquisitions += 1;
    }

    fn release(&self) {
        let mut state = self.state();
        state.owner = state.waiting.pop_front().unwrap_or(0);
        if state.owner != 0 {
            self.turn.notify_all();
        }
    }
}

impl<T> Lock<T> for HeavyLock<T> {
    type Guard<'a>
        = HeavyGuard<'a, T>
    where
        T: 'a;

    fn new(value: T) -> Self {
        let mut objects = OBJECTS.write().unwrap_or_else(PoisonError::into_inner);
        let semaphore = Some(Arc::new(Semaphore::default()));
        let id = match objects.iter().position(Option::is_none) {
            Some(free) => {
                objects[free] = semaphore;
                free
            }
            None => {
                objects.push(semaphore);
                objects.len() - 1
            }
        };
        HeavyLock { id, value: Mutex::new(value) }
    }

    fn lock(&self, cx: Cx) -> HeavyGuard<'_, T> {
        if let Some(semaphore) = object(self.id) {
            semaphore.obtain(cx.current() as u32 + 1);
        }
        HeavyGuard { id: self.id, value: Some(self.value.lock().unwrap_or_else(PoisonError::into_inner)) }
    }

    fn acquisitions(&self) -> u64 {
        object(self.id).map_or(0, |semaphore| semaphore.state().acquisitions)
    }
}

impl<T> Drop for HeavyLock<T> {
    fn drop(&mut self) {
        if let Some(slot) = OBJECTS.write().unwrap_or_else(PoisonError::into_inner).get_mut(self.id) {
            *slot = None;
        }
    }
}

impl<T> Drop for HeavyGuard<'_, T> {
    fn drop(&mut self) {
        self.value = None; // release the value before the semaphore
        if let Some(semaphore) = object(self.id) {
            semaphore.release();
        }
    }
}

impl<T> Deref for HeavyGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        match &self.value {
            Some(value) => value,
            None => unreachable!("a guard holds its value until it is dropped"),
        }
    }
}

impl<T> DerefMut for HeavyGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match &mut self.value {
            Some(value) => value,
            None => unreachable!("a guard holds its value until it is dropped"),
        }
    }
}

#[cfg(test)]
mod tests;
