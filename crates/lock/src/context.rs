//! The current context: who is running, and when this work began.
//!
//! rump2014 found `curlwp`, asked about 40 times per sendto through three function calls, to be its third-largest cost.
//! [`Cx`] is our answer, and all of the report's ways to get it: passed in a register (the value itself), an inlined
//! thread-local, or three calls. It also carries `now`, so that no layer asks a clock.
//!
//! A thread has a small number while it lives, the lowest that is free. It is given back by a destructor of POSIX
//! thread-specific data: that runs after the destructors of `thread_local!` values, which may be the last to use a stack.
#![allow(unsafe_code)] // an unsafe room: pthread_key_create, pthread_setspecific, dlopen

use clock::Instant;
use std::cell::Cell;
use std::ffi::c_void;
use std::fmt;
use std::hint::{black_box, cold_path};
use std::mem::MaybeUninit;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Threads whose counters, pins and caches are made with a shared stack. Further threads get theirs when they
/// first enter; there is no limit.
pub const USUAL_THREADS: usize = 64;

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
    index: u32,
    how: How,
    /// When the work in hand began. Layers read this, never a clock.
    pub now: Instant,
}

impl Cx {
    /// The context of the calling thread.
    pub fn enter(how: How, now: Instant) -> Cx {
        Cx { index: thread_index() as u32, how, now }
    }

    /// The same context at a later time.
    #[inline(always)]
    pub fn at(self, now: Instant) -> Cx {
        Cx { now, ..self }
    }

    /// Returns the [`thread_index`] of the running thread.
    #[inline(always)]
    pub fn current(self) -> usize {
        if self.how == How::Register {
            return self.index as usize;
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

/// A bit for each index: set while a thread has it.
static TAKEN: Mutex<Vec<u64>> = Mutex::new(Vec::new());
/// The key whose destructor gives an index back; `None`: the system gave no key, and indexes are not given back.
static LEAVING: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
static TOKENS: AtomicU32 = AtomicU32::new(1);
const NONE: u32 = u32::MAX;

// No value here has a destructor: they can be used until the thread has ended.
thread_local! {
    static INDEX: Cell<u32> = const { Cell::new(NONE) };
    static TOKEN: Cell<u32> = const { Cell::new(0) };
}

/// Returns the lowest number that no other living thread has: other threads have it after this one.
#[inline(always)]
pub fn thread_index() -> usize {
    let index = INDEX.get();
    if index == NONE { take_index() } else { index as usize }
}

#[cold]
fn take_index() -> usize {
    let index = take_free(&mut TAKEN.lock().unwrap_or_else(PoisonError::into_inner));
    INDEX.set(index);
    if let Some(key) = *LEAVING.get_or_init(leaving) {
        // SAFETY: the key is from `pthread_key_create` and never deleted; the value is a number, read by `leave` alone. Without
        // memory for it (ENOMEM) the index is not given back.
        unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(index as usize + 1)) };
    }
    index as usize
}

/// Takes the lowest free index.
fn take_free(taken: &mut Vec<u64>) -> u32 {
    let at = taken.iter().position(|word| *word != u64::MAX).unwrap_or(taken.len());
    if at == taken.len() {
        taken.push(0);
    }
    let Some(word) = taken.get_mut(at) else { return 0 }; // it was there, or is now
    let bit = word.trailing_ones();
    *word |= 1 << bit;
    at as u32 * u64::BITS + bit
}

fn leaving() -> Option<libc::pthread_key_t> {
    keep_loaded();
    let mut key = 0;
    // SAFETY: `key` is written before the call returns; `leave` is a function of the program itself.
    let failed = unsafe { libc::pthread_key_create(&raw mut key, Some(leave)) };
    (failed == 0).then_some(key)
}

/// Keeps the shared object with this code mapped: a thread that ends after its dlclose(3) calls [`leave`].
/// In a program without one there is nothing to keep, and the calls change nothing.
fn keep_loaded() {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `info` is written by dladdr(3) where that does not return 0, and is valid as zeros; the name that it points to
    // lives as long as the object; dlopen(3) with RTLD_NOLOAD loads and runs nothing.
    unsafe {
        let found = libc::dladdr(leave as *const c_void, info.as_mut_ptr());
        let name = info.assume_init().dli_fname;
        if found != 0 && !name.is_null() {
            libc::dlopen(name, libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
        }
    }
}

/// Gives the index of a thread that ends back; `value` is the index plus one.
extern "C" fn leave(value: *mut c_void) {
    let index = value.addr() - 1;
    INDEX.set(NONE); // a destructor that uses a stack after this takes an index, and comes here again
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(word) = taken.get_mut(index / u64::BITS as usize) {
        *word &= !(1 << (index % u64::BITS as usize));
    }
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
