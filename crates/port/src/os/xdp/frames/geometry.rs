//! Layout of the pool's buffers, and the addresses of buffers in descriptors.

use super::super::{CHUNK_MAX, CHUNK_MIN, KERNEL_HEADROOM, Memory};
use buf::Layout;

/// Layout of the pool's buffers, as registered with the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Number of bytes that the kernel uses of each buffer, from the start of its stride.
    pub chunk: usize,
    /// Number of bytes that are left free in addition to the kernel's own headroom, so that a
    /// received frame has the pool's headroom.
    pub headroom: usize,
    /// True if buffers may begin anywhere, not only at multiples of `chunk`. Some of them then
    /// cross a page boundary.
    pub unaligned: bool,
}

impl Geometry {
    /// Returns the geometry of a pool with `layout` and buffers of `size` bytes, whose frames have
    /// `headroom` bytes of headroom. Returns `None` if the buffers are too short for the kernel.
    pub fn of(layout: &Layout, size: usize, headroom: usize) -> Option<Geometry> {
        let unaligned = !layout.stride.is_power_of_two();
        let chunk = if unaligned { (layout.front + size).min(CHUNK_MAX) } else { layout.stride.min(CHUNK_MAX) };
        let headroom = (layout.front + headroom).saturating_sub(KERNEL_HEADROOM);
        let geometry = Geometry { chunk, headroom, unaligned };
        (chunk >= CHUNK_MIN && chunk > KERNEL_HEADROOM + headroom).then_some(geometry)
    }

    /// Returns the maximum length of a frame received in one buffer, in bytes.
    pub fn longest(&self, layout: &Layout, size: usize) -> usize {
        self.chunk.min(layout.front + size).saturating_sub(KERNEL_HEADROOM + self.headroom)
    }

    /// Returns the maximum length, in bytes, of a frame whose pieces are joined in the buffer of
    /// the first piece.
    pub fn longest_joined(&self, layout: &Layout, size: usize) -> usize {
        (layout.front + size).saturating_sub(KERNEL_HEADROOM + self.headroom)
    }

    pub(super) fn memory(&self, layout: &Layout) -> Memory {
        let Geometry { chunk, headroom, unaligned } = *self;
        // In aligned mode, the memory consists of whole chunks only.
        let len = if unaligned { layout.len } else { layout.len / chunk * chunk };
        Memory { base: layout.base, len, chunk, headroom, unaligned }
    }

    /// Returns the address for a descriptor. In unaligned mode the upper bits contain the offset.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn address(&self, slot: usize, data: usize) -> u64 {
        if self.unaligned {
            (data as u64) << libc::XSK_UNALIGNED_BUF_OFFSET_SHIFT | slot as u64
        } else {
            (slot + data) as u64
        }
    }

    /// Splits a descriptor's address into the start of the buffer's stride and the offset in it.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn place(&self, address: u64) -> (usize, usize) {
        if self.unaligned {
            let slot = address & libc::XSK_UNALIGNED_BUF_ADDR_MASK;
            return (slot as usize, (address >> libc::XSK_UNALIGNED_BUF_OFFSET_SHIFT) as usize);
        }
        let within = self.chunk as u64 - 1;
        ((address & !within) as usize, (address & within) as usize)
    }
}
