//! What the way of a frame through the bridge costs (FreeBSD 4's bdg_fw_avg, bdg_fw_ticks, bdg_fw_count).

use clock::tsc;

/// One burst in so many is measured: two readings of the counter cost some 46 ticks, more than a frame.
pub const ONE_IN: u32 = 16;

/// Ticks a frame, sampled.
#[derive(Debug, Clone, Copy, Default)]
pub struct Average {
    turn: u32,
    /// Ticks of what was measured.
    pub ticks: u64,
    /// Frames that were measured.
    pub frames: u64,
}

impl Average {
    /// Does `work` on so many frames, and measures it if it is its turn.
    #[inline]
    pub fn of<R>(&mut self, frames: usize, work: impl FnOnce() -> R) -> R {
        self.turn = self.turn.wrapping_add(1);
        if !self.turn.is_multiple_of(ONE_IN) || frames == 0 {
            return work();
        }
        let before = tsc::ticks();
        let done = work();
        self.ticks += tsc::ticks().wrapping_sub(before);
        self.frames += frames as u64;
        done
    }

    /// Ticks a frame; `None`: nothing was measured.
    pub fn value(&self) -> Option<f64> {
        (self.frames > 0).then(|| self.ticks as f64 / self.frames as f64)
    }
}
