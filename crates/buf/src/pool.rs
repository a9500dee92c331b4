//! Pools of buffers, with four allocation policies ([`Kind`]) and three kinds of locks
//! ([`PoolLocks`]).
//!
//! | kind | memory touched when a buffer is taken | origin |
//! |---|---|---|
//! | `stack` | the top of an array of pointers, but not the buffer | the report bridge2004 |
//! | `freelist` | the buffer's first cache line, to read the next pointer | the report rtems2014 |
//! | `zone` | a per-thread bucket; constructor and destructor touch the buffer | BSD's UMA |
//! | `malloc` | up to the allocator (zeroed, because a slice needs initialised memory) | |
//!
//! With [`PoolLocks::Owner`], the first thread that takes a buffer owns the free list and accesses
//! it without atomic instructions. Frames dropped on other threads go to a second list under a
//! mutex, which the owner empties when its own list is empty. With `Light`, a pool of kind `stack`
//! also has a cache of buffers for each thread, so that the lock is rarely taken. With `Heavy`, and
//! with `Light` for a pool of kind `freelist`, every get and put takes the lock.
#![allow(unsafe_code)] // unsafe: a free list is exclusive by thread identity or lock

mod cached;
mod config;
mod free;
#[cfg(all(test, not(loom)))]
mod tests;
mod zone;

pub use config::{Kind, PoolConfig, PoolError, PoolLocks, Stride};

use crate::frame::POOLS_MAX;
use crate::held::LOAN_ROOM;
use crate::mem::Region;
use crate::{Burst, Frame};
use cached::Cached;
use clock::Instant;
use free::Free;
use lock::{Cx, Guarded, Heavy, How, thread_token, thread_token_if_any};
use stats::Counter;
use stats::hint::cold_path;
use std::cell::UnsafeCell;
use std::fmt;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use zone::Zone;

/// Layout of a pool's buffers: buffer `i` begins at `base + i * stride + front`.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// First byte of the pool's memory: the beginning of a page.
    pub base: NonNull<u8>,
    /// Length of the memory in bytes: whole pages.
    pub len: usize,
    /// Bytes from one buffer to the next, a multiple of 64.
    pub stride: usize,
    /// Number of bytes in front of each buffer that are reserved for the pool.
    pub front: usize,
}

/// Configuration and counters of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolStats {
    /// Allocation policy of the pool.
    pub kind: Kind,
    /// Number of buffers; for `malloc`, the maximum number in use.
    pub buffers: usize,
    /// Capacity of a buffer in bytes, including headroom.
    pub size: usize,
    /// Number of bytes of mapped memory.
    pub bytes: usize,
    /// Number of buffers taken so far.
    pub gets: u64,
    /// Number of buffers returned so far.
    pub puts: u64,
    /// Number of requests that failed because no buffer was free.
    pub empty: u64,
    /// Number of buffers returned on a thread other than the owner.
    pub foreign: u64,
    /// Message if the pages in use differ from the requested page size.
    pub notice: Option<String>,
}

impl PoolStats {
    /// Returns the number of buffers currently in use.
    pub fn live(&self) -> u64 {
        self.gets.wrapping_sub(self.puts)
    }
}

pub(crate) struct Inner {
    store: Store,
    number: u16,
    size: usize,
    stride: usize,
    headroom: u16,
    prefetch: bool,
    kind: Kind,
    buffers: usize,
    handles: AtomicUsize,
    /// True if the last handle was dropped while frames were still in use. Accessed under
    /// [`FREEING`].
    orphaned: AtomicBool,
    region: Option<Region>,
}

enum Store {
    Owned(Owned),
    Light(Cached),
    Heavy(Guarded<Heavy, Free>),
    Zone(Zone),
    Malloc(Malloc),
}

/// Value of `owner` while no thread owns the free list.
const NOBODY: u32 = u32::MAX;

/// A free list owned by the first thread that takes a buffer from it.
struct Owned {
    owner: AtomicU32,
    local: UnsafeCell<Free>,
    foreign: Mutex<Free>,
}

struct Malloc {
    layout: std::alloc::Layout,
    limit: u64,
    gets: std::sync::atomic::AtomicU64,
    puts: std::sync::atomic::AtomicU64,
    empty: Counter,
}

// SAFETY: `Owned::local` is accessed only by the thread whose token is in `owner`, which is set
// once and changes only through `release` on the same thread. A cache of `Zone` or `Cached` is
// accessed only by the thread with its index. Everything else is locked or atomic. Buffers are
// plain memory.
unsafe impl Send for Inner {}
// SAFETY: same as above.
unsafe impl Sync for Inner {}

fn lock_cx() -> Cx {
    Cx::enter(How::Inline, Instant::ZERO)
}

impl Owned {
    #[inline(always)]
    fn is_mine(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == thread_token_if_any()
    }

    /// Takes a buffer if this thread is the owner and its own list has one (the fast path).
    #[inline(always)]
    fn get_own(&self) -> Option<NonNull<u8>> {
        // SAFETY: this thread is the owner; no other reference to `local` exists while it runs
        // here.
        if self.is_mine() { unsafe { (*self.local.get()).get(false) } } else { None }
    }

    fn get(&self, prefetch: bool) -> Option<NonNull<u8>> {
        if self.is_mine() {
            // SAFETY: this thread is the owner; no other reference to `local` exists while it runs
            // here.
            let local = unsafe { &mut *self.local.get() };
            if let Some(buf) = local.get(prefetch) {
                return Some(buf);
            }
            return self.refill();
        }
        self.get_foreign()
    }

    #[cold]
    fn refill(&self) -> Option<NonNull<u8>> {
        let mut foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: only the owner calls this.
        let local = unsafe { &mut *self.local.get() };
        local.exchange(&mut foreign);
        drop(foreign);
        local.get(false).or_else(|| {
            local.empty.bump();
            None
        })
    }

    #[cold]
    fn get_foreign(&self) -> Option<NonNull<u8>> {
        if self.owner.compare_exchange(NOBODY, thread_token(), Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return self.get(false);
        }
        let mut foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
        foreign.get(false).or_else(|| {
            foreign.empty.bump();
            None
        })
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    fn put_many(&self, bufs: impl ExactSizeIterator<Item = NonNull<u8>>) {
        if self.is_mine() {
            // SAFETY: same as in `get`.
            unsafe { (*self.local.get()).put_many(bufs) }
        } else {
            self.foreign.lock().unwrap_or_else(PoisonError::into_inner).put_many(bufs);
        }
    }

    #[cold]
    fn put_foreign(&self, buf: NonNull<u8>) {
        self.foreign.lock().unwrap_or_else(PoisonError::into_inner).put(buf);
    }

    /// Ends this thread's ownership: the next thread that takes a buffer becomes the owner.
    fn release(&self) {
        if self.is_mine() {
            let mut foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
            // SAFETY: this thread is the owner.
            let local = unsafe { &mut *self.local.get() };
            while let Some(buf) = local.take() {
                foreign.give(buf);
            }
            drop(foreign);
            self.owner.store(NOBODY, Ordering::Release);
        }
    }
}

/// All pools by number: a frame stores its pool's number in eleven bits.
static POOLS: [AtomicPtr<Inner>; POOLS_MAX] = [const { AtomicPtr::new(std::ptr::null_mut()) }; POOLS_MAX];

/// Locked while a pool is freed, so that a pool found in the table can be accessed safely.
static FREEING: Mutex<()> = Mutex::new(());

/// Frees the pools that have no handles left and whose frames have all been returned.
fn reclaim() {
    let _freeing = FREEING.lock().unwrap_or_else(PoisonError::into_inner);
    for slot in &POOLS {
        let Some(raw) = NonNull::new(slot.load(Ordering::Acquire)) else { continue };
        // SAFETY: a pool is freed only under the lock, which this thread holds.
        let inner = unsafe { raw.as_ref() };
        if inner.orphaned.load(Ordering::Relaxed) && inner.is_quiet() {
            slot.store(std::ptr::null_mut(), Ordering::Release);
            // SAFETY: there is no handle, no frame is in use and no thread is in a call; `register`
            // obtained the pointer from a box.
            drop(unsafe { Box::from_raw(raw.as_ptr()) });
        }
    }
}

/// Registers `inner` under the first free number. Returns it as the error if no number is free.
fn register(mut inner: Box<Inner>) -> Result<NonNull<Inner>, Box<Inner>> {
    reclaim();
    for (number, slot) in POOLS.iter().enumerate() {
        if !slot.load(Ordering::Relaxed).is_null() {
            continue;
        }
        inner.number = number as u16;
        let raw = Box::into_raw(inner);
        match slot.compare_exchange(std::ptr::null_mut(), raw, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return NonNull::new(raw).ok_or_else(|| unreachable!("a box is not null")),
            // SAFETY: `raw` was just made from this box and has not been published.
            Err(_) => inner = unsafe { Box::from_raw(raw) },
        }
    }
    Err(inner)
}

impl Inner {
    /// Returns the pool with the given number.
    ///
    /// The load can be relaxed: the frame that contains the number came, directly or indirectly,
    /// from a thread that had seen the pool registered.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn numbered(number: usize) -> NonNull<Inner> {
        let raw = POOLS[number & (POOLS_MAX - 1)].load(Ordering::Relaxed);
        debug_assert!(!raw.is_null());
        // SAFETY: the number comes from a frame, and a frame's pool stays registered until its last
        // frame has returned.
        unsafe { NonNull::new_unchecked(raw) }
    }

    fn stats(&self) -> PoolStats {
        let (mut gets, mut puts, mut empty, mut foreign) = (0, 0, 0, 0);
        let mut add = |free: &Free| {
            gets += free.gets.get();
            puts += free.puts.get();
            empty += free.empty.get();
        };
        match &self.store {
            Store::Owned(owned) => {
                let theirs = owned.foreign.lock().unwrap_or_else(PoisonError::into_inner);
                add(&theirs);
                foreign = theirs.puts.get();
                // SAFETY: only the counters are read, which are atomic.
                unsafe {
                    let local = owned.local.get();
                    gets += (*std::ptr::addr_of!((*local).gets)).get();
                    puts += (*std::ptr::addr_of!((*local).puts)).get();
                    empty += (*std::ptr::addr_of!((*local).empty)).get();
                }
            }
            Store::Light(cached) => (gets, puts, empty) = cached.counts(),
            Store::Heavy(free) => add(&free.lock(lock_cx())),
            Store::Zone(zone) => (gets, puts, empty) = zone.counts(),
            Store::Malloc(malloc) => {
                (gets, puts) = (malloc.gets.load(Ordering::Relaxed), malloc.puts.load(Ordering::Relaxed));
                empty = malloc.empty.get();
            }
        }
        PoolStats {
            kind: self.kind,
            buffers: self.buffers,
            size: self.size,
            bytes: self.region.as_ref().map_or(0, Region::len),
            gets,
            puts,
            empty,
            foreign,
            notice: self.region.as_ref().and_then(|r| r.notice().map(str::to_string)),
        }
    }

    /// Returns whether the pool can be freed: every buffer has been returned, and no other thread
    /// can still be inside a call that returns one.
    fn is_quiet(&self) -> bool {
        let stats = self.stats(); // takes the lock, so every thread whose put is counted has released it
        let alone = match &self.store {
            Store::Owned(owned) => owned.is_mine() || owned.owner.load(Ordering::Acquire) == NOBODY,
            Store::Light(_) | Store::Heavy(_) => true,
            Store::Zone(zone) => zone.used_only_here(),
            Store::Malloc(_) => false, // a put may still be in progress; only `Inner` leaks
        };
        alone && stats.live() == 0
    }

    #[inline(always)]
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Returns whether the calling thread owns the pool.
    #[inline(always)]
    pub(crate) fn is_owned_here(&self) -> bool {
        matches!(&self.store, Store::Owned(owned) if owned.is_mine())
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn get(&self, me: u16) -> Option<Frame> {
        let own = match &self.store {
            Store::Owned(owned) if !self.prefetch => owned.get_own(),
            _ => None,
        };
        let buf = match own {
            Some(buf) => buf,
            None => {
                cold_path();
                self.get_otherwise()?
            }
        };
        // SAFETY: `buf` was free in this pool, so it has no other user; headroom <= size by
        // construction.
        Some(unsafe { Frame::from_raw(buf, me, self.headroom) })
    }

    #[inline(never)]
    fn get_otherwise(&self) -> Option<NonNull<u8>> {
        match &self.store {
            Store::Owned(owned) => owned.get(self.prefetch),
            Store::Light(cached) => cached.get(self.prefetch.then_some(usize::from(self.headroom))),
            Store::Heavy(free) => free.lock(lock_cx()).get_counted(self.prefetch),
            Store::Zone(zone) => zone.get(),
            Store::Malloc(malloc) => malloc.get(),
        }
    }

    /// Returns a buffer to the pool.
    ///
    /// # Safety
    /// `buf` came from a get of this pool and is no longer used.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn put(pool: NonNull<Inner>, buf: NonNull<u8>) {
        // SAFETY: a pool's `Inner` is not freed while a buffer is out (`Pool::drop`).
        let inner = unsafe { pool.as_ref() };
        match &inner.store {
            // SAFETY: same as in `Owned::get_own`.
            Store::Owned(owned) if owned.is_mine() => unsafe { (*owned.local.get()).put(buf) },
            _ => {
                cold_path();
                inner.put_otherwise(buf);
            }
        }
    }

    /// Takes one buffer for each slot of `into`, or fewer if fewer are free, as frames of `len`
    /// bytes. Returns their number.
    ///
    /// Taking a single buffer costs 22 instructions. If several are taken in one call, each costs
    /// only 5, because the owner and the kind of free list are checked once per call.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn get_many(&self, len: usize, into: &mut [MaybeUninit<Frame>]) -> usize {
        // SAFETY: each buffer was free in this pool; headroom + len <= size was checked by the
        // caller.
        let make = |buf| unsafe { Frame::from_raw(buf, self.number, self.headroom).spanning(0, len) };
        let mut n = match &self.store {
            _ if self.prefetch => 0,
            Store::Owned(owned) if owned.is_mine() => {
                // SAFETY: this thread is the owner; no other reference to `local` exists while it
                // runs here.
                unsafe { (*owned.local.get()).get_many(into, make) }
            }
            Store::Light(cached) => cached.get_many(into, make),
            Store::Heavy(free) => free.lock(lock_cx()).get_many(into, make),
            _ => 0,
        };
        while let Some(place) = into.get_mut(n) {
            let Some(frame) = self.get(self.number) else { break };
            // SAFETY: same as in `make`.
            place.write(unsafe { frame.spanning(0, len) });
            n += 1;
        }
        n
    }

    /// Returns the buffers of `frames` if all of them belong to this pool and this thread owns the
    /// pool; otherwise does nothing and returns false. The check is part of the loop that copies
    /// the buffers' addresses, because a separate loop accounted for a fifth of the cost of a get
    /// and a put.
    ///
    /// # Safety
    /// If this returns true, the frames must not be used or dropped afterwards.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn put_all(pool: NonNull<Inner>, frames: &[Frame]) -> bool {
        // SAFETY: a pool's `Inner` is not freed while a buffer is out (`Pool::drop`).
        match unsafe { &pool.as_ref().store } {
            // SAFETY: same as in `Owned::get`.
            Store::Owned(owned) if owned.is_mine() => unsafe { (*owned.local.get()).put_all(frames) },
            _ => false,
        }
    }

    /// Returns several buffers to the pool.
    ///
    /// # Safety
    /// The buffers came from gets of this pool and are no longer used.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn put_many(pool: NonNull<Inner>, bufs: impl ExactSizeIterator<Item = NonNull<u8>>) {
        // SAFETY: a pool's `Inner` is not freed while a buffer is out (`Pool::drop`).
        let inner = unsafe { pool.as_ref() };
        match &inner.store {
            Store::Owned(owned) => owned.put_many(bufs),
            Store::Light(cached) => cached.put_many(bufs),
            Store::Heavy(free) => free.lock(lock_cx()).put_many(bufs),
            _ => bufs.for_each(|buf| inner.put_otherwise(buf)),
        }
    }

    #[inline(never)]
    fn put_otherwise(&self, buf: NonNull<u8>) {
        match &self.store {
            Store::Owned(owned) => owned.put_foreign(buf),
            Store::Light(cached) => cached.put(buf),
            Store::Heavy(free) => free.lock(lock_cx()).put(buf),
            Store::Zone(zone) => zone.put(buf),
            Store::Malloc(malloc) => malloc.put(buf),
        }
    }
}

impl Malloc {
    fn get(&self) -> Option<NonNull<u8>> {
        let taken = self.gets.fetch_add(1, Ordering::Relaxed) - self.puts.load(Ordering::Relaxed);
        // SAFETY: the layout has a size greater than zero.
        let block =
            (taken < self.limit).then(|| unsafe { std::alloc::alloc_zeroed(self.layout) }).and_then(NonNull::new);
        // SAFETY: the block is longer than `LOAN_ROOM`.
        let buf = block.map(|block| unsafe { block.add(LOAN_ROOM) });
        if buf.is_none() {
            self.gets.fetch_sub(1, Ordering::Relaxed);
            self.empty.bump();
        }
        buf
    }

    fn put(&self, buf: NonNull<u8>) {
        // SAFETY: `get` allocated a block with this layout, and `buf` is at this offset in it.
        unsafe { std::alloc::dealloc(buf.as_ptr().sub(LOAN_ROOM), self.layout) }
        self.puts.fetch_add(1, Ordering::Relaxed);
    }
}

/// A handle of a pool. Clones refer to the same pool. Frames may outlive all handles; the pool's
/// memory is then freed later, when another pool is created.
pub struct Pool(NonNull<Inner>);

// SAFETY: `Inner` is Sync, and the handle count is atomic.
unsafe impl Send for Pool {}
// SAFETY: same as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// Creates a pool with all buffers free.
    ///
    /// # Errors
    /// [`PoolError::BadConfig`] for invalid sizes, [`PoolError::NoMemory`] if the system has no
    /// memory.
    pub fn new(config: &PoolConfig) -> Result<Pool, PoolError> {
        let size = config.data + usize::from(config.headroom);
        if config.buffers == 0 || config.data == 0 {
            return Err(PoolError::BadConfig("buffers and data must be at least 1"));
        }
        if config.headroom > 1 << 14 || config.data > 1 << 20 || config.buffers > 1 << 24 {
            return Err(PoolError::BadConfig("at most headroom 16384, data 1 MiB and buffers 16 Mi are allowed"));
        }
        let stride = config.stride.over(LOAN_ROOM + size);
        let region = match config.kind {
            Kind::Malloc => None,
            _ => Some(Region::map(stride * config.buffers, config.pages).map_err(PoolError::NoMemory)?),
        };
        let all = || {
            let base = region.as_ref().map(Region::base);
            // SAFETY: (i + 1) * stride <= region length, and a stride has space for a loan and a
            // buffer. In reverse order, so that the first get returns the lowest address.
            (0..config.buffers).rev().filter_map(move |i| base.map(|b| unsafe { b.add(i * stride + LOAN_ROOM) }))
        };
        let free = || Free::new(config.kind, usize::from(config.headroom), config.buffers);
        let filled = || {
            let mut free = free();
            all().for_each(|buf| free.give(buf));
            free
        };
        let store = match (config.kind, config.locks) {
            (Kind::Malloc, _) => Store::Malloc(Malloc {
                layout: std::alloc::Layout::from_size_align(stride, 64)
                    .map_err(|_| PoolError::BadConfig("buffer size overflows"))?,
                limit: config.buffers as u64,
                gets: Default::default(),
                puts: Default::default(),
                empty: Counter::default(),
            }),
            (Kind::Zone, locks) => Store::Zone(Zone::new(locks, all())),
            (_, PoolLocks::Owner) => Store::Owned(Owned {
                owner: AtomicU32::new(NOBODY),
                local: UnsafeCell::new(filled()),
                foreign: Mutex::new(free()),
            }),
            (Kind::Freelist, PoolLocks::Light) => Store::Light(Cached::new(filled(), 0)),
            (_, PoolLocks::Light) => Store::Light(Cached::new(filled(), cached::room(config.buffers))),
            (_, PoolLocks::Heavy) => Store::Heavy(Guarded::new(filled())),
        };
        let inner = Inner {
            store,
            number: 0,
            size,
            stride,
            headroom: config.headroom,
            prefetch: config.prefetch,
            kind: config.kind,
            buffers: config.buffers,
            handles: AtomicUsize::new(1),
            orphaned: AtomicBool::new(false),
            region,
        };
        register(Box::new(inner)).map(Pool).map_err(|_| PoolError::TooMany)
    }

    #[inline(always)]
    fn inner(&self) -> &Inner {
        // SAFETY: freed only when the last handle is dropped.
        unsafe { self.0.as_ref() }
    }

    /// Takes a buffer as an empty frame with the pool's headroom in front of it. If no buffer is
    /// free, counts the failure and returns `None`.
    #[inline(always)]
    pub fn get(&self) -> Option<Frame> {
        self.inner().get(self.inner().number)
    }

    /// Takes a buffer as a frame of `front + len` bytes that begins `front` bytes before the end of
    /// the headroom. Its contents are arbitrary old bytes. Returns `None` if no buffer is free, or
    /// if the buffers are too short.
    ///
    /// This is equivalent to taking an empty frame, appending the payload and pushing the headers,
    /// but needs 30 instructions less.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub fn get_of(&self, front: usize, len: usize) -> Option<Frame> {
        let (headroom, size) = (self.headroom(), self.size());
        if front > headroom || len > size - headroom {
            return None;
        }
        // SAFETY: the frame is empty, front <= headroom and headroom + len <= size.
        Some(unsafe { self.get()?.spanning(front, front + len) })
    }

    /// Takes up to `n` buffers as empty frames and appends them to `into`. Returns their number.
    pub fn get_burst(&self, n: usize, into: &mut Burst) -> usize {
        self.get_burst_of(n, 0, into)
    }

    /// Takes up to `n` buffers as frames of `len` bytes with arbitrary old contents, and appends
    /// them to `into`. Returns their number, which is 0 if `len` bytes do not fit into a buffer
    /// after its headroom.
    #[inline]
    pub fn get_burst_of(&self, n: usize, len: usize, into: &mut Burst) -> usize {
        let inner = self.inner();
        if usize::from(inner.headroom) + len > inner.size {
            return 0;
        }
        into.fill(n, |places| inner.get_many(len, places))
    }

    /// Returns the pool's number in this process, which each of its frames stores.
    #[inline(always)]
    pub fn number(&self) -> u16 {
        self.inner().number
    }

    /// Returns the capacity of a buffer in bytes, including headroom.
    #[inline]
    pub fn size(&self) -> usize {
        self.inner().size
    }

    /// Returns the headroom of a new empty frame in bytes.
    #[inline]
    pub fn headroom(&self) -> usize {
        usize::from(self.inner().headroom)
    }

    /// Ends this thread's ownership of the pool, which exists only with [`PoolLocks::Owner`]. Must
    /// be called before the stack moves to another thread.
    pub fn release(&self) {
        if let Store::Owned(owned) = &self.inner().store {
            owned.release();
        }
    }

    /// Returns how often the pool's locks were taken, and the number of locks. Returns zero
    /// acquisitions with [`PoolLocks::Owner`], where only other threads use the lock.
    pub fn locks(&self) -> (u64, usize) {
        match &self.inner().store {
            Store::Owned(_) => (0, 1),
            Store::Light(cached) => (cached.acquisitions(), 1),
            Store::Heavy(free) => (free.acquisitions(), 1),
            Store::Zone(zone) => (zone.acquisitions(), 1),
            Store::Malloc(_) => (0, 0),
        }
    }

    /// Returns the configuration and counters of the pool.
    pub fn stats(&self) -> PoolStats {
        self.inner().stats()
    }

    /// Returns the layout of the buffers; `None` with [`Kind::Malloc`].
    pub fn layout(&self) -> Option<Layout> {
        let (inner, region) = (self.inner(), self.inner().region.as_ref()?);
        Some(Layout { base: region.base(), len: region.len(), stride: inner.stride, front: LOAN_ROOM })
    }
}

impl Clone for Pool {
    fn clone(&self) -> Pool {
        self.inner().handles.fetch_add(1, Ordering::Relaxed);
        Pool(self.0)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.inner().handles.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        let _freeing = FREEING.lock().unwrap_or_else(PoisonError::into_inner);
        if self.inner().is_quiet() {
            POOLS[usize::from(self.inner().number)].store(std::ptr::null_mut(), Ordering::Release);
            // SAFETY: this is the last handle, no frame is in use and no thread is in a call;
            // `register` obtained the pointer from a box.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        } else {
            self.inner().orphaned.store(true, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.stats();
        write!(f, "Pool({}, {} of {} live)", stats.kind, stats.live(), stats.buffers)
    }
}
