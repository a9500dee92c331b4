//! What is lost when the processor "got distracted for a bit": frames go on coming while nobody polls. In virtual time, so exact.

use super::{GAP_NS, NicRig, ROUND};
use anyhow::ensure;

/// Frames of a port between two polls: 50 microseconds' worth.
const FEED: usize = 30;
/// Polls before the distraction, and after it, each way enough that rings are as they usually are.
const POLLS: usize = 400;

/// What a distraction cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicStall {
    /// Microseconds that nobody polled.
    pub us: u64,
    /// Frames that came in that time.
    pub came: u64,
    /// Frames that found no descriptor.
    pub missed: u64,
}

/// Polls every 50 us, 600,000 frames a second at each port; then not for `polls` times, then again.
///
/// # Errors
/// A word that is none, no memory, or a frame that is nowhere.
pub fn stall(words: &str, polls: usize) -> anyhow::Result<NicStall> {
    let mut rig = NicRig::new("stall", &format!("{words} pause=off"))?;
    steadily(&mut rig)?;
    ensure!(rig.missed() == 0, "frames were missed before the distraction");
    for _ in 1..polls {
        rig.arrive(FEED)?; // and once more before the next poll
    }
    let came = (polls * FEED * rig.setup.ports) as u64;
    steadily(&mut rig)?;
    rig.audit()?;
    Ok(NicStall { us: (polls * FEED) as u64 * GAP_NS / 1000, came, missed: rig.missed() })
}

fn steadily(rig: &mut NicRig) -> anyhow::Result<()> {
    const { assert!(FEED < ROUND) }; // what has piled up is worked off
    for _ in 0..POLLS {
        rig.arrive(FEED)?;
        rig.turn();
        rig.leave();
    }
    Ok(())
}
