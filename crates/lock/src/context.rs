//! The current context: who is running, and when this work began.
//!
//! rump2014 found `curlwp`, asked about 40 times per sendto through three function calls, to be its third-largest cost.
//! [`Cx`] is our answer, and all of the report's ways to get it: passed in a register (the value itself), an inlined
//! thread-local, or three calls. It also carries `now`, so that no layer asks a clock.

use clock::Instant;
use std::cell::Cell;
use std::fmt;
use std::hint::{black_box, cold_path};
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};

/// Threads that can be inside stacks at one time, all stacks of a process together.
pub const MAX_THREADS: usize = 64;

/// How the current context is found (the knob `kern.context`; rump2014 step 3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum How {
    /// It is an argument.
    #[default]
    Register,
    /// An inlined thread-local.
    Inline,
    /// Three function calls, the innermost reading the thread-local: as rump did by default.
    Call,
}

impl FromStr for How {
    type Err = String;
    fn from_str(word: &str) -> Result<How, String> {
        match word {
            "register" => Ok(How::Register),
            "inline" => Ok(How::Inline),
            "call" => Ok(How::Call),
            other => Err(format!("unknown context '{other}': expected register, inline or call")),
        }
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            How::Register => "register",
            How::Inline => "inline",
            How::Call => "call",
        })
    }
}

/// The current context: passed by value down every path.
#[derive(Clone, Copy, Debug)]
pub struct Cx {
    index: u16,
    how: How,
    /// When the work in hand began. Layers read this, never a clock.
    pub now: Instant,
}

impl Cx {
    /// The context of the calling thread.
    pub fn enter(how: How, now: Instant) -> Cx {
        Cx { index: thread_index() as u16, how, now }
    }

    /// The same context at a later time.
    #[inline(always)]
    pub fn at(self, now: Instant) -> Cx {
        Cx { now, ..self }
    }

    /// The index of the running thread, 0..[`MAX_THREADS`].
    #[inline(always)]
    pub fn current(self) -> usize {
        if self.how == How::Register {
            return usize::from(self.index);
        }
        cold_path(); // laid out elsewhere; what it costs to ask is the rung's business
        match self.how {
            How::Call => current_lwp(),
            _ => thread_index(),
        }
    }
}

#[inline(never)]
fn current_lwp() -> usize {
    black_box(hypercall_current_lwp())
}

#[inline(never)]
fn hypercall_current_lwp() -> usize {
    black_box(thread_specific())
}

#[inline(never)]
fn thread_specific() -> usize {
    black_box(thread_index())
}

static TAKEN: Mutex<u64> = Mutex::new(0);
static TOKENS: AtomicU32 = AtomicU32::new(1);
const NONE: u32 = u32::MAX;

thread_local! {
    static INDEX: Cell<u32> = const { Cell::new(NONE) };
    static TOKEN: Cell<u32> = const { Cell::new(0) };
    static LEAVER: Leaver = const { Leaver };
}

/// Gives the thread's index back when the thread ends.
struct Leaver;

impl Drop for Leaver {
    fn drop(&mut self) {
        let index = INDEX.replace(NONE);
        if index < MAX_THREADS as u32 {
            *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) &= !(1 << index);
        }
    }
}

/// A small number of the calling thread's own while it lives, reused after.
///
/// # Panics
/// With more than [`MAX_THREADS`] threads inside stacks at once: two would share counters and caches.
#[inline(always)]
pub fn thread_index() -> usize {
    let index = INDEX.get();
    if index == NONE { take_index() } else { index as usize }
}

#[cold]
fn take_index() -> usize {
    let _ = LEAVER.try_with(|_| {}); // registers the destructor
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let index = taken.trailing_ones();
    assert!((index as usize) < MAX_THREADS, "more than {MAX_THREADS} threads inside stacks at once");
    *taken |= 1 << index;
    INDEX.set(index);
    index as usize
}

/// The [`thread_token`] of the calling thread, or 0 if it has not asked for one: a load and no branch.
#[inline(always)]
pub fn thread_token_if_any() -> u32 {
    TOKEN.get()
}

/// A number that no other thread of this process ever has; never 0, never `u32::MAX`.
#[inline(always)]
pub fn thread_token() -> u32 {
    let token = TOKEN.get();
    if token == 0 { take_token() } else { token }
}

#[cold]
fn take_token() -> u32 {
    let token = TOKENS.fetch_add(1, Ordering::Relaxed);
    TOKEN.set(token);
    token
}
