//! Memory for pools: a zeroed region on pages of 4 KiB, 2 MiB or 1 GiB.
//!
//! This module uses `unsafe` and makes a system call (mmap). If no reserved huge pages are
//! available, it falls back to transparent huge pages (madvise), then to ordinary pages;
//! [`Region::notice`] reports the pages in use. Only Linux has huge pages of these kinds.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::str::FromStr;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32};

/// Requested page size.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pages {
    /// Ordinary pages of the system (4 KiB).
    #[default]
    Small,
    /// Huge pages of 2 MiB.
    Huge2M,
    /// Huge pages of 1 GiB.
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

/// Zeroed, page-aligned memory, unmapped on drop.
#[derive(Debug)]
pub struct Region {
    base: NonNull<u8>,
    len: usize,
    notice: Option<String>,
}

// SAFETY: a region is plain memory; its owner controls all access.
unsafe impl Send for Region {}
// SAFETY: same as above; `&Region` gives access to the address only.
unsafe impl Sync for Region {}

#[cfg(target_os = "linux")]
const MIB_2: usize = 2 << 20;

impl Region {
    /// Maps at least `len` bytes, on pages of the requested size if available.
    ///
    /// # Errors
    /// The system's error, if memory cannot be mapped even on ordinary pages.
    pub fn map(len: usize, pages: Pages) -> io::Result<Region> {
        match pages {
            Pages::Small => Region::small(len, None),
            Pages::Huge2M | Pages::Huge1G => Region::huge(len, pages),
        }
    }

    #[cfg(target_os = "linux")]
    fn huge(len: usize, pages: Pages) -> io::Result<Region> {
        let (unit, size) = match pages {
            Pages::Huge1G => (1 << 30, libc::MAP_HUGE_1GB),
            Pages::Small | Pages::Huge2M => (MIB_2, libc::MAP_HUGE_2MB),
        };
        let rounded = len.max(1).next_multiple_of(unit);
        if let Ok(base) = mmap(rounded, libc::MAP_HUGETLB | size) {
            return Ok(Region { base, len: rounded, notice: None });
        }
        Region::transparent(len, pages)
    }

    #[cfg(not(target_os = "linux"))]
    fn huge(len: usize, pages: Pages) -> io::Result<Region> {
        Region::small(len, Some(format!("{pages} pages need Linux: using ordinary pages")))
    }

    fn small(len: usize, notice: Option<String>) -> io::Result<Region> {
        let len = len.max(1).next_multiple_of(4096);
        Ok(Region { base: mmap(len, 0)?, len, notice })
    }

    #[cfg(target_os = "linux")]
    fn transparent(len: usize, requested: Pages) -> io::Result<Region> {
        // mmap aligns to 4 KiB only. Map 2 MiB more than needed and unmap both ends, so that the
        // region begins at a multiple of 2 MiB.
        let len = len.max(1).next_multiple_of(MIB_2);
        let raw = mmap(len + MIB_2, 0)?;
        let skip = raw.as_ptr().align_offset(MIB_2);
        // SAFETY: the three parts lie inside the new mapping, which is not used elsewhere yet.
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
        let notice = Some(format!("no {requested} pages reserved (see /proc/sys/vm/nr_hugepages): using {got}"));
        Ok(Region { base, len, notice })
    }

    /// Returns the address of the first byte.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns false, because a region has at least one page.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns a message if the pages in use differ from the requested page size.
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }
}

/// Requests transparent 2 MiB pages for a large table whose memory is allocated and still unused.
/// This is a hint: if no huge pages are available, nothing changes.
pub fn advise_huge<T>(table: &mut [T]) {
    if size_of_val(table) < 1 << 21 {
        return;
    }
    let (start, len) = (table.as_mut_ptr() as usize, std::mem::size_of_val(table));
    let (first, end) = (start.next_multiple_of(4096), (start + len) & !4095);
    if end > first {
        // SAFETY: whole pages inside memory that `table` borrows exclusively; MADV_HUGEPAGE changes
        // no content.
        #[cfg(target_os = "linux")]
        unsafe {
            libc::madvise(first as *mut libc::c_void, end - first, libc::MADV_HUGEPAGE);
        }
    }
}

/// An atomic integer type whose value 0 is represented by zero bits.
pub trait Zeroed: sealed::Zeroed {}

mod sealed {
    /// An atomic integer.
    pub trait Zeroed {
        /// Integer of the same size and alignment.
        type Int: Clone;
        const ZERO: Self::Int;
    }
}

macro_rules! zeroed {
    ($($ty:ty: $int:ty),+) => {
        $(const _: () = assert!(align_of::<$ty>() == align_of::<$int>());
        impl sealed::Zeroed for $ty {
            type Int = $int;
            const ZERO: $int = 0;
        }
        impl Zeroed for $ty {})+
    };
}

zeroed!(AtomicU8: u8, AtomicU16: u16, AtomicU32: u32);

/// Returns `len` zeros. The memory is allocated but not touched. If `pages` requests huge pages,
/// calls [`advise_huge`].
pub fn zeroed<T: Zeroed>(len: usize, pages: Pages) -> Box<[T]> {
    // `vec!` of zeros is one allocation of zeroed memory, which is not written again.
    let integers = Box::into_raw(vec![T::ZERO; len].into_boxed_slice());
    // SAFETY: the pointer is that of a box, and `T` has the size, alignment and valid values of its
    // integer.
    let mut zeros = unsafe { Box::from_raw(integers as *mut [T]) };
    if pages != Pages::Small {
        advise_huge(&mut zeros);
    }
    zeros
}

fn mmap(len: usize, extra: libc::c_int) -> io::Result<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | extra;
    // SAFETY: the kernel chooses the address of this anonymous private mapping, so it does not
    // affect existing memory.
    let base = unsafe { libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    match NonNull::new(base.cast::<u8>()) {
        Some(base) if base.as_ptr().cast() != libc::MAP_FAILED => Ok(base),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: base and len describe the live mapping of this region.
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
    fn every_page_size_gives_zeroed_memory_and_reports_its_fallback() {
        for pages in [Pages::Small, Pages::Huge2M] {
            let region = Region::map(3 << 20, pages).unwrap();
            assert!(region.len() >= 3 << 20);
            // SAFETY: the region is mapped for len bytes and has no other user.
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
