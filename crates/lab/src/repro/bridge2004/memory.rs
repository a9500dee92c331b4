//! Memory of a rung's frames and buffers: whether they are in the cache or in main memory when the
//! driver touches them.

use crate::rigs::last_level_cache;

/// Size of a buffer in bytes, that of an mbuf cluster in the report.
const CLUSTER: usize = 2048;
/// Assumed size of the cache, in bytes, where the kernel does not report it.
const ASSUMED_CACHE: usize = 32 << 20;
/// Maximum number of buffers: 128 MiB of them.
const MOST: usize = 65_536;

/// Location of a received frame when the driver reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dma {
    /// In main memory and in no cache, as after DMA by a bus master of 2004. Posted buffers are in
    /// main memory, too.
    Cold,
    /// In the processor's cache. The rig has few buffers, which are reused all the time and stay
    /// there.
    Copy,
}

impl Dma {
    pub(super) fn word(self) -> &'static str {
        match self {
            Dma::Cold => "cold",
            Dma::Copy => "copy",
        }
    }

    pub(super) fn other(self) -> Dma {
        match self {
            Dma::Cold => Dma::Copy,
            Dma::Copy => Dma::Cold,
        }
    }
}

/// Size of the set of buffers through which a bridge with frames in memory cycles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WorkingSet {
    /// Bytes of the last-level cache; `None` if unknown.
    cache: Option<usize>,
    /// Number of buffers that wait after they are sent and before they are reused.
    buffers: usize,
}

impl WorkingSet {
    /// Returns a working set of twice the size of this machine's last-level cache, within limits.
    pub(super) fn detect() -> WorkingSet {
        WorkingSet::above(last_level_cache())
    }

    fn above(cache: Option<usize>) -> WorkingSet {
        let buffers = 2 * cache.unwrap_or(ASSUMED_CACHE) / CLUSTER;
        WorkingSet { cache, buffers: buffers.clamp(1024, MOST) }
    }

    /// Returns the settings of a rig with this working set: see [`crate::rigs::NicSetup`].
    pub(super) fn words(self, dma: Dma) -> String {
        match dma {
            Dma::Cold => format!("dma=cold stride=power2 rest={}", self.buffers),
            Dma::Copy => "dma=copy".to_owned(),
        }
    }

    /// Returns a note that describes the working set.
    pub(super) fn note(self, dma: Dma) -> String {
        let cache = match self.cache {
            Some(bytes) => format!("the last-level cache has {} MiB", bytes >> 20),
            None => format!("the size of the last-level cache is unknown, {} MiB assumed", ASSUMED_CACHE >> 20),
        };
        let capped = if self.buffers == MOST { ", which is the maximum" } else { "" };
        let mib = (self.buffers * CLUSTER) >> 20;
        let cold = format!(
            "cold: data written by the card is evicted from all caches, as with PCI, and {} buffers of 2 KiB, {mib} MiB{capped}, are used in \
             turn, in random order ({cache}). One or two cache lines of each are touched, {} KiB per line; since buffers are 2 KiB apart, \
             these lines share few sets of a cache and do not stay in it. Two loops share the buffers",
            self.buffers,
            (self.buffers * 64) >> 10
        );
        let copy = "copy: frames are in the cache when the driver reads them, as with today's cards, and the buffer that was sent last is \
                    posted first";
        match dma {
            Dma::Cold => format!("dma={cold}. For comparison {copy}"),
            Dma::Copy => format!("dma={copy}. For comparison {cold}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_twice_the_cache_within_limits() {
        let buffers = |mib: usize| WorkingSet::above(Some(mib << 20)).buffers;
        assert_eq!([buffers(0), buffers(32), buffers(64), buffers(512)], [1024, 32_768, 65_536, 65_536]);
        let unknown = WorkingSet::above(None);
        assert_eq!(unknown.words(Dma::Cold), "dma=cold stride=power2 rest=32768");
        assert!(unknown.note(Dma::Cold).contains("unknown, 32 MiB assumed"));
        let large = WorkingSet::above(Some(512 << 20)).note(Dma::Copy);
        assert!(
            large.contains("65536 buffers of 2 KiB, 128 MiB, which is the maximum") && large.contains("has 512 MiB"),
            "{large}"
        );
    }
}
