//! Cost of forwarding a frame in the bridge (FreeBSD 4's bdg_fw_avg, bdg_fw_ticks, bdg_fw_count).

use clock::tsc;

/// Number of bursts of which one is measured. Not every burst is measured, because the two readings
/// of the tick counter take about 46 ticks, more than forwarding a frame.
pub const ONE_IN: u32 = 16;

/// Average ticks per frame, from a sample of bursts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Average {
    turn: u32,
    /// Ticks of the measured bursts.
    pub ticks: u64,
    /// Frames of the measured bursts.
    pub frames: u64,
}

impl Average {
    /// Runs `work`, which forwards `frames` frames, and measures every [`ONE_IN`]th call.
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

    /// Returns the ticks per frame; `None` if no burst was measured.
    pub fn value(&self) -> Option<f64> {
        (self.frames > 0).then(|| self.ticks as f64 / self.frames as f64)
    }
}
