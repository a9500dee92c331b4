//! Start signal of the threads.

use std::sync::{Condvar, Mutex, PoisonError};

/// Start signal: threads wait in [`Gate::pass`] until [`Gate::open`] is called.
#[derive(Default)]
pub(super) struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    pub(super) fn open(&self) {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.opened.notify_all();
    }

    pub(super) fn is_open(&self) -> bool {
        *self.is_open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn pass(&self) {
        let is_open = self.is_open.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.opened.wait_while(is_open, |is_open| !*is_open));
    }
}
