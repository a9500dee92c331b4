//! Memory of a rig: the size of the last-level cache that it must exceed, and the pages that its
//! buffers actually lie on.

use super::NicRig;
use anyhow::Context;
use std::path::Path;

/// Directory in which the kernel describes the caches of processor 0.
const CACHES: &str = "/sys/devices/system/cpu/cpu0/cache";

/// Returns the bytes of processor 0's largest data cache; `None` where the kernel does not report
/// it.
pub fn last_level_cache() -> Option<usize> {
    largest(Path::new(CACHES))
}

fn largest(caches: &Path) -> Option<usize> {
    let size = |index: usize| {
        let read = |file: &str| std::fs::read_to_string(caches.join(format!("index{index}/{file}"))).ok();
        if read("type")?.trim() == "Instruction" { None } else { bytes(read("size")?.trim()) }
    };
    (0..8).filter_map(size).max()
}

/// Parses a cache size such as `32768K`.
fn bytes(text: &str) -> Option<usize> {
    match text.strip_suffix(['K', 'M']) {
        Some(kib) if text.ends_with('K') => kib.parse::<usize>().ok()?.checked_mul(1 << 10),
        Some(mib) => mib.parse::<usize>().ok()?.checked_mul(1 << 20),
        None => text.parse().ok(),
    }
}

/// Bytes of the drivers' buffers, by the size of the pages that they lie on (/proc/self/smaps).
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BufferPages {
    /// Total size of all buffers, in bytes.
    pub all: u64,
    /// Bytes on pages of 2 MiB: reserved ones (KernelPageSize) or transparent ones (AnonHugePages).
    pub huge: u64,
    /// Bytes in mappings for which pages of 2 MiB were requested (VmFlags `hg` or `ht`). `huge` is
    /// less where the kernel finds no contiguous 2 MiB of memory.
    pub requested: u64,
}

impl NicRig {
    /// Returns the pages that the drivers' buffers lie on.
    ///
    /// # Errors
    /// The kernel does not report the pages.
    pub fn pages(&mut self) -> anyhow::Result<BufferPages> {
        self.post();
        let layout = self.pool.layout().context("the pool's buffers are not in one mapping")?;
        let base = layout.base.as_ptr() as u64;
        let maps = std::fs::read_to_string("/proc/self/smaps").context("cannot read /proc/self/smaps")?;
        Ok(sort(&maps, base, base + layout.len as u64))
    }
}

/// Classifies the bytes from address `from` to `to` by their pages. In a mapping that extends
/// beyond this range, the transparent 2 MiB pages are assumed to be spread evenly.
fn sort(maps: &str, from: u64, to: u64) -> BufferPages {
    let (mut inside, mut length) = (0, 1);
    let mut pages = BufferPages { all: to - from, ..BufferPages::default() };
    for line in maps.lines() {
        if let Some((start, end)) = range(line) {
            (inside, length) = (end.min(to).saturating_sub(start.max(from)), (end - start).max(1));
        } else if let Some(kib) = field(line, "KernelPageSize:") {
            pages.huge += if kib == 2048 { inside } else { 0 };
        } else if let Some(kib) = field(line, "AnonHugePages:") {
            pages.huge += (u128::from(kib << 10) * u128::from(inside) / u128::from(length)) as u64;
        } else if let Some(flags) = line.strip_prefix("VmFlags:") {
            let requested = flags.split_whitespace().any(|flag| flag == "hg" || flag == "ht");
            pages.requested += if requested { inside } else { 0 };
        }
    }
    pages
}

/// Parses a mapping's first line: `7f00-7f80 rw-p ...`.
fn range(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.split_whitespace().next()?.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

fn field(line: &str, name: &str) -> Option<u64> {
    line.strip_prefix(name)?.trim().strip_suffix(" kB")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_bytes_are_those_of_the_mapping_alone() {
        let maps = "1000-2000 rw-p 0 00:00 0\nKernelPageSize: 4 kB\nAnonHugePages: 2 kB\n\
                    VmFlags: rd wr mr mw me ac sd hg\n\
                    200000-600000 rw-p 0 00:00 0\nKernelPageSize: 2048 kB\nAnonHugePages: 0 kB\n\
                    VmFlags: rd wr mr mw me ht sd\n\
                    600000-700000 rw-p 0 00:00 0\nKernelPageSize: 4 kB\nAnonHugePages: 0 kB\n\
                    VmFlags: rd wr mr mw me ac sd\n";
        let pages = |from, to| {
            let pages = sort(maps, from, to);
            (pages.all, pages.huge, pages.requested)
        };
        assert_eq!(pages(0x1000, 0x2000), (4096, 2048, 4096));
        assert_eq!(pages(0x1800, 0x2000), (2048, 1024, 2048));
        assert_eq!(pages(0x20_0000, 0x40_0000), (2 << 20, 2 << 20, 2 << 20));
        assert_eq!(pages(0x60_0000, 0x70_0000), (1 << 20, 0, 0));
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(
            (bytes("32768K"), bytes("1M"), bytes("512"), bytes("-")),
            (Some(32 << 20), Some(1 << 20), Some(512), None)
        );
        assert_eq!(largest(Path::new("/nowhere")), None);
    }
}
