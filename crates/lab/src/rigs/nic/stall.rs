//! Counts the frames that are lost while no loop polls, for example because the processor "got
//! distracted for a bit" (report bridge2004). It runs on virtual time, so the counts are exact.

use super::{GAP_NS, NicRig, ROUND};
use anyhow::ensure;

/// Number of frames that arrive at a port between two polls, in 50 microseconds.
const FEED: usize = 30;
/// Number of polls before and after the pause in polling; enough for the rings to reach their
/// steady state.
const POLLS: usize = 400;

/// Frames lost while no loop polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NicStall {
    /// Duration of the pause in polling, in microseconds.
    pub us: u64,
    /// Number of frames that arrived during the pause.
    pub came: u64,
    /// Number of frames that the card missed because it had no free descriptor.
    pub missed: u64,
}

/// Polls every 50 us while 600,000 frames per second arrive at each port, skips `polls` polls, and
/// then continues. With two loops, only the first one skips polls.
///
/// # Errors
/// An invalid setting, no memory, or a frame is unaccounted for.
pub fn stall(words: &str, loops: usize, polls: usize) -> anyhow::Result<NicStall> {
    let mut rigs = NicRig::shared("stall", loops, &format!("{words} pause=off"))?;
    rigs.iter_mut().try_for_each(steadily)?;
    ensure!(rigs.iter().all(|rig| rig.missed() == 0), "frames missed before the pause");
    for (at, rig) in rigs.iter_mut().enumerate() {
        for _ in 1..polls {
            rig.arrive(FEED)?; // the last frames arrive before the next poll
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
    const { assert!(FEED < ROUND) }; // so that the backlog shrinks
    for _ in 0..POLLS {
        rig.arrive(FEED)?;
        rig.turn();
        rig.leave();
    }
    Ok(())
}
