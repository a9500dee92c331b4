//! Rungs of the ladder: the report's tweaks, numbered in the order of its text.

#[cfg(test)]
mod tests;

use crate::rigs::NicRig;
use anyhow::Context;

struct Tweak {
    id: &'static str,
    title: &'static str,
    /// Settings that the tweak adds to those of the rig; see [`crate::rigs::NicSetup`].
    words: &'static str,
}

const fn tweak(id: &'static str, title: &'static str, words: &'static str) -> Tweak {
    Tweak { id, title, words }
}

/// Tweaks T1 to T7. On the first rung, a buffer comes from a list that is linked through the
/// buffers, and the driver writes its header anew, as if mbuf and cluster came from two lists. The
/// cache of T4 keeps header and buffer together, but is still such a list.
const TWEAKS: [Tweak; 7] = [
    tweak("t1.rx_tail", "T1 RDT written every 64 descriptors", "rx_tail_batch=64"),
    tweak("t2.tx_tail", "T2 TDT written every 64, and at the end of a poll", "tx_tail_batch=64 tx_flush=poll"),
    tweak("t3.rs", "T3 every 32nd transmit descriptor written back", "tx_rs_every=32"),
    tweak("t4.cache", "T4 buffers from a cache: headers ready, links still read", "refill=pool"),
    tweak("t5.stack", "T5 buffers posted from a stack of pointers, untouched", "refill=stack pool=stack"),
    tweak("t6.late", "T6 frames touched only when processed", "parse=late"),
    tweak("t7.ring", "T7 receive rings of 2048", "rx_ring=2048"),
];
const PAGES: Tweak = tweak("t9.pages", "T9 buffers on 2 MiB pages", "pages=2m");

/// Prefetch distances, in frames, that are tried for T10; 0 means no prefetch.
pub(super) const DISTANCES: [usize; 7] = [0, 1, 2, 4, 8, 16, 32];

/// Availability of 2 MiB pages for buffers, or the reason why they are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HugePages {
    Available,
    Missing(String),
}

impl HugePages {
    /// Builds a rig with 2 MiB pages and checks which pages its buffers lie on.
    ///
    /// # Errors
    /// No memory, or the kernel does not report the pages.
    pub(super) fn detect(base: &str) -> anyhow::Result<HugePages> {
        let mut rig = NicRig::new("pages", &format!("{base} pool=stack {}", PAGES.words))?;
        let pages = rig.pages().context("cannot determine the pages of the pool")?;
        Ok(HugePages::judge(pages.all, pages.huge))
    }

    /// Requires that nine tenths of the buffers lie on 2 MiB pages. Not all are required, since a
    /// few transparent pages may be missing.
    fn judge(all: u64, huge: u64) -> HugePages {
        if huge >= all / 10 * 9 {
            return HugePages::Available;
        }
        HugePages::Missing(format!(
            "only {} of {} MiB lie on 2 MiB pages: reserve some (/proc/sys/vm/nr_hugepages), or allow transparent ones \
             (/sys/kernel/mm/transparent_hugepage/enabled: madvise)",
            huge >> 20,
            all >> 20
        ))
    }

    /// Returns the identifier and title of the rung that needs 2 MiB pages, and the reason why it
    /// is left out; `None` if 2 MiB pages are available.
    pub(super) fn missing(&self) -> Option<[&str; 3]> {
        match self {
            HugePages::Available => None,
            HugePages::Missing(why) => Some([PAGES.id, PAGES.title, why]),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) id: String,
    pub(super) title: String,
    /// Settings, including those of all rungs before it.
    pub(super) words: String,
    /// Settings that this rung adds to the first rung, for measuring its tweak alone.
    pub(super) alone: String,
}

impl Step {
    /// Returns a rung with the settings of this one and, in addition, `adds`.
    fn with(&self, id: &str, title: &str, adds: &str) -> Step {
        let words = format!("{} {adds}", self.words);
        Step { id: id.to_owned(), title: title.to_owned(), words, alone: adds.to_owned() }
    }
}

/// Returns the rungs from the first to T9. Without 2 MiB pages, T7 is the last.
pub(super) fn below(pages: &HugePages) -> Vec<Step> {
    let mut words = String::new();
    let mut steps = vec![step("first", "the em driver of 2004, polled", "", &mut words)];
    let pages = (*pages == HugePages::Available).then_some(&PAGES);
    let all = TWEAKS.iter().chain(pages);
    steps.extend(all.map(|tweak| step(tweak.id, tweak.title, tweak.words, &mut words)));
    steps
}

/// Returns the rungs from the first to T10 with prefetch distance `distance`.
pub(super) fn ladder(distance: usize, pages: &HugePages) -> Vec<Step> {
    let mut steps = below(pages);
    steps.push(last(distance, pages));
    steps
}

/// Returns the rung of T10.
pub(super) fn last(distance: usize, pages: &HugePages) -> Step {
    let mut words = below(pages).pop().map(|step| step.words).unwrap_or_default();
    let title = match distance {
        0 => "T10 no prefetch: none was better".to_owned(),
        n => format!("T10 prefetch {n} frames ahead"),
    };
    step("t10.prefetch", &title, &format!("prefetch={distance}"), &mut words)
}

/// Returns the rungs of T11, based on `step`: the bus of the report's fastest machine, then also a
/// card that prefetches descriptors. The processor waits for neither, so their gain shows only in
/// rows with waits for the bus.
pub(super) fn bus(step: &Step) -> [Step; 2] {
    let faster = step.with("t11.bus133", "T11 bus at 133 MHz", "bus=pcix133");
    let title = "T11 bus at 133 MHz, the card fetches 32 descriptors at a time";
    let ahead = step.with("t11.hw_prefetch", title, "bus=pcix133 fetch=32");
    [faster, ahead]
}

/// Returns the rungs that undo T8 (polling), based on `step`: they show the cost of interrupts.
pub(super) fn interrupts(step: &Step) -> [Step; 3] {
    const FEW: &str = "frames=4096"; // a frame takes long in each of these rungs
    [
        ("t8.polled_1", "T8 polled, but one frame per port and turn", format!("{FEW} feed=1")),
        ("t8.intr", "T8 undone: interrupts, ITR 0, one frame each", format!("{FEW} feed=1 intr=on")),
        ("t8.itr", "T8 undone: interrupts, ITR 125 us, 75 frames each", format!("{FEW} feed=75 intr=on itr_us=125")),
    ]
    .map(|(id, title, adds)| step.with(id, title, &adds))
}

fn step(id: &str, title: &str, adds: &str, words: &mut String) -> Step {
    *words = format!("{words} {adds}").trim().to_owned();
    Step { id: id.to_owned(), title: title.to_owned(), words: words.clone(), alone: adds.to_owned() }
}
