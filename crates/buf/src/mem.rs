//! Memory for pools: a zeroed region on 4 KiB, 2 MiB or 1 GiB pages (REPORTS A5).
//!
//! An unsafe room, and the only place outside ports and workers that makes a system call: mmap. Huge pages fall back,
//! with a notice that says how far: reserved huge pages, then transparent ones (madvise), then small pages.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32};

/// The page size asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pages {
    /// The system's ordinary pages.
    #[default]
    Small,
    /// 2 MiB.
    Huge2M,
    /// 1 GiB.
    Huge1G,
}

impl FromStr for Pages {
    type Err = String;
    fn from_str(word: &str) -> Result<Pages, String> {
        match word {
            "4k" => Ok(Pages::Small),
            "2m" => Ok(Pages::Huge2M),
            "1g" => Ok(Pages::Huge1G),
            other => Err(format!("unknown page size '{other}': expected 4k, 2m or 1g")),
        }
    }
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Pages::Small => "4k",
            Pages::Huge2M => "2m",
            Pages::Huge1G => "1g",
        })
    }
}

/// Zeroed memory, page-aligned, unmapped on drop.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    len: usize,
    notice: Option<String>,
}

// SAFETY: a region is plain memory; whoever holds it decides who reads and writes.
unsafe impl Send for Region {}
// SAFETY: as above; `&Region` gives only the address.
unsafe impl Sync for Region {}

const MIB_2: usize = 2 << 20;
const GIB_1: usize = 1 << 30;

impl Region {
    /// Maps at least `len` bytes on `pages`.
    ///
    /// # Errors
    /// The system's, when even small pages cannot be had.
    pub fn map(len: usize, pages: Pages) -> io::Result<Region> {
        let (unit, flag) = match pages {
            Pages::Small => return Region::small(len, None),
            Pages::Huge2M => (MIB_2, libc::MAP_HUGETLB | libc::MAP_HUGE_2MB),
            Pages::Huge1G => (GIB_1, libc::MAP_HUGETLB | libc::MAP_HUGE_1GB),
        };
        let rounded = len.max(1).next_multiple_of(unit);
        if let Ok(base) = mmap(rounded, flag) {
            return Ok(Region { base, len: rounded, notice: None });
        }
        Region::transparent(len, pages)
    }

    fn small(len: usize, notice: Option<String>) -> io::Result<Region> {
        let len = len.max(1).next_multiple_of(4096);
        Ok(Region { base: mmap(len, 0)?, len, notice })
    }

    fn transparent(len: usize, asked: Pages) -> io::Result<Region> {
        // mmap aligns to 4 KiB: take one page more and give the ends back, so that 2 MiB pages can be used throughout.
        let len = len.max(1).next_multiple_of(MIB_2);
        let raw = mmap(len + MIB_2, 0)?;
        let skip = raw.as_ptr().align_offset(MIB_2);
        // SAFETY: the three parts lie inside the mapping just made, which nobody else knows.
        let (base, advised) = unsafe {
            let base = raw.add(skip);
            if skip > 0 {
                libc::munmap(raw.as_ptr().cast(), skip);
            }
            if skip < MIB_2 {
                libc::munmap(base.add(len).as_ptr().cast(), MIB_2 - skip);
            }
            (base, libc::madvise(base.as_ptr().cast(), len, libc::MADV_HUGEPAGE) == 0)
        };
        let got = if advised { "transparent 2m pages (madvise)" } else { "4k pages" };
        let notice = Some(format!("no reserved {asked} pages (see /proc/sys/vm/nr_hugepages): using {got}"));
        Ok(Region { base, len, notice })
    }

    /// Its first byte.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Never: a region has at least a page.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What was not as asked for, in a sentence.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }
}

/// Asks for transparent 2 MiB pages under a large table that has been reserved but not touched. A hint: where the system has
/// none to give, nothing changes.
pub fn advise_huge<T>(table: &mut [T]) {
    if size_of_val(table) < 1 << 21 {
        return;
    }
    let (start, len) = (table.as_mut_ptr() as usize, std::mem::size_of_val(table));
    let (first, end) = (start.next_multiple_of(4096), (start + len) & !4095);
    if end > first {
        // SAFETY: whole pages inside memory that `table` borrows exclusively; MADV_HUGEPAGE changes no content.
        unsafe {
            libc::madvise(first as *mut libc::c_void, end - first, libc::MADV_HUGEPAGE);
        }
    }
}

/// A number that several threads read and write, of which all bits zero is 0.
pub trait Zeroed: sealed::Zeroed {}

mod sealed {
    pub trait Zeroed {}
}

macro_rules! zeroed {
    ($($ty:ty),+) => {
        $(impl sealed::Zeroed for $ty {}
        impl Zeroed for $ty {})+
    };
}

zeroed!(AtomicU8, AtomicU16, AtomicU32);

/// Returns `len` zeros: reserved, none touched. Other `pages` than small ones are asked for as by [`advise_huge`].
pub fn zeroed<T: Zeroed>(len: usize, pages: Pages) -> Box<[T]> {
    // SAFETY: the types that are `Zeroed` have the representation of an unsigned integer, for which all bits zero is 0.
    let mut zeros = unsafe { Box::<[T]>::new_zeroed_slice(len).assume_init() };
    if pages != Pages::Small {
        advise_huge(&mut zeros);
    }
    zeros
}

fn mmap(len: usize, extra: libc::c_int) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | extra;
    // SAFETY: an anonymous private mapping at an address of the kernel's choice touches nothing that exists.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    match NonNull::new(base.cast::<u8>()) {
        Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(base),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: base and len are those of a live mapping of ours.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn every_page_size_gives_zeroed_memory_and_says_what_it_fell_back_to() {
        for pages in [Pages::Small, Pages::Huge2M] {
            let region = Region::map(3 << 20, pages).unwrap();
            assert!(region.len() >= 3 << 20);
            // SAFETY: the region is mapped for len bytes and nobody else has it.
            let bytes = unsafe { std::slice::from_raw_parts(region.base().as_ptr(), region.len()) };
            assert!(bytes.iter().all(|&b| b == 0));
            if pages == Pages::Small {
                assert_eq!(region.notice(), None);
            }
        }
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        assert!(Region::map(1 << 60, Pages::Small).is_err());
    }

    #[test]
    fn zeroed_tables_are_zero() {
        assert!(zeroed::<AtomicU32>(1 << 20, Pages::Huge2M).iter().all(|word| word.load(Ordering::Relaxed) == 0));
        assert!(zeroed::<AtomicU8>(1 << 10, Pages::Small).iter().all(|byte| byte.load(Ordering::Relaxed) == 0));
    }

    #[test]
    fn words_round_trip() {
        for word in ["4k", "2m", "1g"] {
            assert_eq!(word.parse::<Pages>().unwrap().to_string(), word);
        }
        assert!("3k".parse::<Pages>().is_err());
    }
}
