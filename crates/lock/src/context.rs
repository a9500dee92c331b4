//! The current context: the running thread, and the time at which its current work began.
//!
//! In the report rump2014, `curlwp` was the third-largest cost: it was called about 40 times per
//! sendto, through three function calls each. [`Cx`] replaces it and supports all variants of the
//! report: passed in a register (the value itself), read from an inlined thread-local variable, or
//! found by three function calls. It also contains the current time, so that no layer reads a
//! clock.
//!
//! A running thread has a small index: the lowest number that was free. When the thread ends, a
//! destructor of POSIX thread-specific data frees the index. This destructor runs after those of
//! `thread_local!` values, which may still use a stack.
#![allow(unsafe_code)] // unsafe: pthread_key_create, pthread_setspecific, dlopen

use clock::Instant;
use stats::hint::cold_path;
use std::cell::Cell;
use std::ffi::c_void;
use std::fmt;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::str::FromStr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Number of threads for which a shared stack creates counters, reader slots and caches in advance.
/// For further threads they are created on first use, without a limit.
pub const USUAL_THREADS: usize = 64;

/// Method to find the current context (the setting `kern.context`; step 3 of the report rump2014).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum How {
    /// Passed as an argument, in a register.
    #[default]
    Register,
    /// Read from an inlined thread-local variable.
    Inline,
    /// Found by three function calls, of which the innermost reads the thread-local variable; the
    /// default of rump kernels.
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

/// The current context, passed by value through all layers.
#[derive(Clone, Copy, Debug)]
pub struct Cx {
    index: u32,
    how: How,
    /// Time at which the current work began. Layers use this time and never read a clock.
    pub now: Instant,
}

impl Cx {
    /// Returns the context of the calling thread.
    pub fn enter(how: How, now: Instant) -> Cx {
        Cx { index: thread_index() as u32, how, now }
    }

    /// Returns the same context at a later time.
    #[inline(always)]
    pub fn at(self, now: Instant) -> Cx {
        Cx { now, ..self }
    }

    /// Returns the [`thread_index`] of the running thread.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn current(self) -> usize {
        if self.how == How::Register {
            return self.index as usize;
        }
        cold_path(); // out of line
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

/// One bit per index, set while a living thread has that index.
static TAKEN: Mutex<Vec<u64>> = Mutex::new(Vec::new());
/// Key whose destructor frees an index. `None` if the system had no key left, in which case indexes
/// are never freed.
static LEAVING: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
static TOKENS: AtomicU32 = AtomicU32::new(1);
const NONE: u32 = u32::MAX;

// None of these values has a destructor, so they remain usable until the thread has ended.
thread_local! {
    static INDEX: Cell<u32> = const { Cell::new(NONE) };
    static TOKEN: Cell<u32> = const { Cell::new(0) };
}

/// Returns the index of the calling thread. It is assigned on first use, as the lowest number that
/// no other living thread has, and reused after the thread has ended.
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
        // SAFETY: the key comes from `pthread_key_create` and is never deleted; the value is a
        // number that only `leave` reads. If memory is short (ENOMEM), the index is never freed.
        unsafe { libc::pthread_setspecific(key, std::ptr::without_provenance(index as usize + 1)) };
    }
    index as usize
}

/// Allocates the lowest free index.
fn take_free(taken: &mut Vec<u64>) -> u32 {
    let at = taken.iter().position(|word| *word != u64::MAX).unwrap_or(taken.len());
    if at == taken.len() {
        taken.push(0);
    }
    let Some(word) = taken.get_mut(at) else { return 0 }; // exists, or was just added
    let bit = word.trailing_ones();
    *word |= 1 << bit;
    at as u32 * u64::BITS + bit
}

fn leaving() -> Option<libc::pthread_key_t> {
    keep_loaded();
    let mut key = 0;
    // SAFETY: `key` is written before the call returns; `leave` is a function of this program.
    let failed = unsafe { libc::pthread_key_create(&raw mut key, Some(leave)) };
    (failed == 0).then_some(key)
}

/// Keeps the shared object that contains this code mapped after dlclose(3), because a thread that
/// ends later still calls [`leave`]. Without a shared object the calls have no effect.
fn keep_loaded() {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr(3) writes `info` unless it returns 0, and zeros are valid; the name that it
    // points to lives as long as the object; dlopen(3) with RTLD_NOLOAD loads and runs nothing.
    unsafe {
        let found = libc::dladdr(leave as *const c_void, info.as_mut_ptr());
        let name = info.assume_init().dli_fname;
        if found != 0 && !name.is_null() {
            libc::dlopen(name, libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
        }
    }
}

/// Frees the index of an ending thread. `value` is the index plus one.
extern "C" fn leave(value: *mut c_void) {
    let index = value.addr() - 1;
    INDEX.set(NONE); // a later destructor may take an index again, and comes here again
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(word) = taken.get_mut(index / u64::BITS as usize) {
        *word &= !(1 << (index % u64::BITS as usize));
    }
}

/// Returns the [`thread_token`] of the calling thread, or 0 if it has none yet. Needs one load and
/// no branch.
#[inline(always)]
pub fn thread_token_if_any() -> u32 {
    TOKEN.get()
}

/// Returns a number that no other thread of this process ever has. It is never 0 and never
/// `u32::MAX`.
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
