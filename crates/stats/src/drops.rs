//! Counters of dropped frames, one for each drop reason.

mod reason;

pub use reason::{DropReason, End};

use crate::{Counter, Described, Entry, trace};
use alloc::format;
use alloc::vec::Vec;

/// One counter per [`DropReason`], with one writer.
#[derive(Debug)]
pub struct Drops([Counter; DropReason::ALL.len()]);

impl Default for Drops {
    fn default() -> Drops {
        Drops(core::array::from_fn(|_| Counter::default()))
    }
}

impl Described for Drops {
    fn visit(&self, each: &mut dyn FnMut(&'static str, &'static str, &'static str, u64)) {
        for why in DropReason::ALL {
            each(why.prefix(), why.word(), why.sentence(), self.get(*why));
        }
    }
}

impl Drops {
    /// Counts one frame dropped for `why`.
    #[inline]
    pub fn bump(&self, why: DropReason) {
        self.0[why as usize].bump();
        trace::frame_dropped(why);
    }

    /// Returns the number of frames dropped for `why`.
    pub fn get(&self, why: DropReason) -> u64 {
        self.0[why as usize].get()
    }

    /// Returns the number of frames dropped for any reason.
    pub fn total(&self) -> u64 {
        self.0.iter().map(Counter::get).sum()
    }

    /// Returns the number of frames dropped for reasons of kind `end`.
    pub fn total_of(&self, end: End) -> u64 {
        DropReason::ALL.iter().filter(|why| why.end() == end).map(|why| self.get(*why)).sum()
    }

    /// Returns the name, description and value of each reason with a nonzero count.
    pub fn nonzero(&self) -> Vec<Entry> {
        let mut out = Vec::new();
        self.visit(&mut |prefix, field, sentence, value| {
            if value > 0 {
                out.push(Entry { name: format!("{prefix}.{field}"), sentence, value });
            }
        });
        out
    }
}
