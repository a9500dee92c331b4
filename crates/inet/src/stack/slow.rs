//! Selection of a chunk's frames for the slow path.

use buf::{Burst, Frame};

/// Number of frames that pass a layer together. Their headers fit into the first-level cache.
pub(crate) const CHUNK: usize = 32;

/// Bit mask of the frames of a chunk that take the slow path.
///
/// Layers process the frames of a chunk without moving them: moving each frame to the next layer's
/// burst would cost 11 instructions per layer. The chunk is rearranged once, and only if some
/// frames need the slow path.
#[derive(Clone, Copy, Default)]
pub(crate) struct SlowFrames(u32);

const _: () = assert!(CHUNK <= u32::BITS as usize);

impl SlowFrames {
    #[inline(always)]
    pub(crate) fn add(&mut self, at: usize) {
        self.0 |= 1 << (at % CHUNK);
    }

    /// Mask with only the first frame, for a chunk of one frame.
    pub(crate) const FIRST: SlowFrames = SlowFrames(1);

    #[inline(always)]
    pub(crate) fn or(self, other: SlowFrames) -> SlowFrames {
        SlowFrames(self.0 | other.0)
    }

    #[inline(always)]
    pub(crate) fn any(self) -> bool {
        self.0 != 0
    }

    pub(crate) fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    #[inline(always)]
    pub(crate) fn has(self, at: usize) -> bool {
        self.0 >> (at % CHUNK) & 1 != 0
    }

    /// Returns the position of the next selected frame after `at`; a position beyond the chunk if
    /// there is none.
    #[inline(always)]
    pub(crate) fn next_after(self, at: usize) -> usize {
        let after = at + 1;
        after + (u64::from(self.0) >> (after & 63)).trailing_zeros() as usize
    }

    /// Removes the selected frames and passes them to `each`. A frame that `each` returns is put
    /// back at its position. `bug` is called if a frame is lost, which cannot happen.
    #[inline(never)]
    pub(crate) fn sort(self, frames: &mut Burst, bug: impl Fn(), mut each: impl FnMut(Frame) -> Option<Frame>) {
        for at in 0..frames.len() {
            let Some(frame) = frames.pop() else { break };
            let kept = if self.has(at) { each(frame) } else { Some(frame) };
            if let Some(frame) = kept {
                frames.put(frame, &bug); // has space, since a frame was removed
            }
        }
    }
}
