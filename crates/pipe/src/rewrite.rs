//! `rewrite`: a list of edits, done to each frame in their order.
//!
//! ```text
//! dst=00:11:22:33:44:55  src=..  dst=00:11:22:*:*:*   Ethernet addresses; what is * stays
//! type=0x0800                                         the EtherType behind all tags
//! vlan.push=ID[,PCP][,0x88a8]  vlan.pop  vlan.id=N  vlan.id=10->20  vlan.pcp=N     the outermost tag
//! ip.src=10.0.0.1  ip.dst=fd00::/64                   a frame of that version; a network's host part stays
//! ip.ttl=64  ip.ttl-=1  ip.dscp=46  ip.id=1           TTL and DSCP of IPv6 too
//! sport=80  tcp.sport=80  udp.dport=53  ..            TCP's, UDP's, or either's
//! swap=mac  swap=ip  swap=port
//! byte[14:2]=0x4500                                   bytes as they are
//! ```
//!
//! An expression is parsed once into an `Op`: what to keep and what to set, and where. Checksums are mended by the difference
//! ([`wire::edit`]), but for `byte`, which touches nothing else. A frame without the field passes as it is. A frame is dropped when its
//! TTL would reach 0, or a tag would make it too long, and counted.

mod expr;
pub mod nat;
mod ops;
#[cfg(test)]
pub(crate) mod tests;

pub use expr::{BadExpr, FIELDS};

use crate::stage::{BadLink, StageError};
use crate::{Frames, Stage};
use ops::{Done, Op};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::edit::Layout;

/// Edits, parsed. Forks of it count into the same counters.
#[derive(Clone, Debug)]
pub struct Rewrite {
    ops: Arc<[Op]>,
    counts: Arc<Shared>,
}

/// What became of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// All that came.
    pub frames: u64,
    /// Some edit was done to it; it may have changed nothing.
    pub edited: u64,
    /// Dropped: its TTL would have reached 0.
    pub ttl: u64,
    /// Dropped: no frame is as long as it would be with its tag.
    pub too_long: u64,
}

#[derive(Debug, Default)]
struct Shared {
    frames: AtomicU64,
    edited: AtomicU64,
    ttl: AtomicU64,
    too_long: AtomicU64,
}

impl Rewrite {
    /// Parses expressions.
    ///
    /// # Errors
    /// The first that is none, and where it stops being one.
    pub fn new<S: AsRef<str>>(exprs: &[S]) -> Result<Rewrite, BadExpr> {
        let mut ops: Vec<Op> = Vec::new();
        for expr in exprs {
            let op = expr::parse(expr.as_ref())?;
            match ops.last_mut().and_then(|last| last.and_then(&op)) {
                Some(()) => {}
                None => ops.push(op),
            }
        }
        Ok(Rewrite { ops: ops.into(), counts: Arc::default() })
    }

    /// What became of frames so far.
    pub fn counts(&self) -> Counts {
        let Shared { frames, edited, ttl, too_long } = &*self.counts;
        let [frames, edited, ttl, too_long] = [frames, edited, ttl, too_long].map(|count| count.load(Relaxed));
        Counts { frames, edited, ttl, too_long }
    }
}

impl Stage for Rewrite {
    fn run(&mut self, frames: &mut Frames) -> Result<(), StageError> {
        BadLink::check(frames, "rewritten").map_err(StageError::LinkType)?;
        let mut counts = Counts { frames: frames.len() as u64, ..Counts::default() };
        let ops = &*self.ops;
        frames.retain(|frame| {
            // Where headers stand is asked once, and again when they have moved.
            let mut layout: Option<Layout> = None;
            let mut edited = false;
            for op in ops {
                match op.apply(frame, &mut layout) {
                    Done::Yes => edited = true,
                    Done::Absent => {}
                    Done::TtlOver => {
                        counts.ttl += 1;
                        return false;
                    }
                    Done::TooLong => {
                        counts.too_long += 1;
                        return false;
                    }
                }
            }
            counts.edited += u64::from(edited);
            true
        });
        // Once a batch: threads would wait for each other.
        let shared = &*self.counts;
        shared.frames.fetch_add(counts.frames, Relaxed);
        shared.edited.fetch_add(counts.edited, Relaxed);
        shared.ttl.fetch_add(counts.ttl, Relaxed);
        shared.too_long.fetch_add(counts.too_long, Relaxed);
        Ok(())
    }

    fn fork(&self) -> Option<Box<dyn Stage>> {
        Some(Box::new(self.clone()))
    }

    fn report(&self) -> Option<String> {
        let counts = self.counts();
        let mut said = format!("rewrite: {} of {} frames edited", counts.edited, counts.frames);
        for (count, why) in [(counts.ttl, "their TTL is over"), (counts.too_long, "too long with their tag")] {
            if count > 0 {
                said += &format!("; {count} dropped: {why}");
            }
        }
        Some(said)
    }
}
