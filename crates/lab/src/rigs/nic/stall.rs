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

/// Polls every 50 us, 600,000 frames a second at each port; then not for `polls` times, then again. Of two loops only the first is
/// distracted.
///
/// # Errors
/// A word that is none, no memory, or a frame that is nowhere.
pub fn stall(words: &str, loops: usize, polls: usize) -> anyhow::Result<NicStall> {
    let mut rigs = NicRig::shared("stall", loops, &format!("{words} pause=off"))?;
    rigs.iter_mut().try_for_each(steadily)?;
    ensure!(rigs.iter().all(|rig| rig.missed() == 0), "frames were missed before the distraction");
    for (at, rig) in rigs.iter_mut().enumerate() {
        for _ in 1..polls {
            rig.arrive(FEED)?; // and once more before the next poll
            if at > 0 {
                rig.turn();
                rig.leave();
            }
        }
        steadily(rig)?;
        rig.audit()?;
    }
    let came = (polls * FEED * rigs.iter().map(|rig| rig.comes.len()).sum::<usize>()) as u64;
    let missed = rigs.iter().map(NicRig::missed).sum();
    Ok(NicStall { us: (polls * FEED) as u64 * GAP_NS / 1000, came, missed })
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
