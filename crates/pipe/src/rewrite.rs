//! `rewrite`: a list of edits, applied to each frame in order.
//!
//! ```text
//! dst=00:11:22:33:44:55  src=..  dst=00:11:22:*:*:*   MAC addresses; * keeps a byte
//! type=0x0800                                         the EtherType after all tags
//! vlan.push=ID[,PCP][,0x88a8]  vlan.pop               the outermost tag
//! vlan.id=N  vlan.id=10->20  vlan.pcp=N               the outermost tag
//! ip.src=10.0.0.1  ip.dst=fd00::/64                   a prefix keeps the host part
//! ip.ttl=64  ip.ttl-=1  ip.dscp=46  ip.id=1           TTL and DSCP of IPv6 too
//! sport=80  tcp.sport=80  udp.dport=53  ..            port of either protocol, TCP or UDP
//! swap=mac  swap=ip  swap=port
//! byte[14:2]=0x4500                                   raw bytes, no other change
//! ```
//!
//! Each expression is parsed once into an edit operation (`Op`). Checksums are updated
//! incrementally ([`wire::edit`]), except by `byte`, which changes only the given bytes. A frame
//! without the edited field passes unchanged. A frame is dropped and counted if its TTL would reach
//! 0 or a tag would make it too long.

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

/// Stage that applies a list of edits. Copies for other threads share the counters.
#[derive(Clone, Debug)]
pub struct Rewrite {
    ops: Arc<[Op]>,
    counts: Arc<Shared>,
}

/// Counters of edited and dropped frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Number of frames received.
    pub frames: u64,
    /// Number of frames with a field that was edited, even if its value did not change.
    pub edited: u64,
    /// Number of frames dropped because their TTL would have reached 0.
    pub ttl: u64,
    /// Number of frames dropped because the added tag would make them too long.
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
    /// Parses edit expressions of the form `FIELD=VALUE`.
    ///
    /// # Errors
    /// The first invalid expression, with the position of the error.
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

    /// Returns the counters so far.
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
            // The positions of the headers are computed at the first edit that needs them, and
            // again when an edit has moved headers.
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
        // The shared counters are updated once per batch, to avoid contention between threads.
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
        for (count, why) in [(counts.ttl, "TTL expired"), (counts.too_long, "too long with the added tag")] {
            if count > 0 {
                said += &format!("; {count} dropped: {why}");
            }
        }
        Some(said)
    }
}
