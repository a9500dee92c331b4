//! The rungs, as the report numbers its tweaks in the order of its text.

/// A tweak.
struct Tweak {
    id: &'static str,
    title: &'static str,
    /// The words it adds: see [`crate::rigs::NicSetup`].
    words: &'static str,
}

const fn tweak(id: &'static str, title: &'static str, words: &'static str) -> Tweak {
    Tweak { id, title, words }
}

const TWEAKS: [Tweak; 8] = [
    tweak("t1.rx_tail", "T1 RDT written every 64 descriptors", "rx_tail_batch=64"),
    tweak("t2.tx_tail", "T2 TDT written every 64, and at the end of a poll", "tx_tail_batch=64 tx_flush=poll"),
    tweak("t3.rs", "T3 every 32nd transmit descriptor written back", "tx_rs_every=32"),
    tweak("t4.cache", "T4 buffers from a cache of them", "refill=pool pool=stack"),
    tweak("t5.stack", "T5 posted from a stack of pointers, untouched", "refill=stack pool=stack"),
    tweak("t6.late", "T6 a frame is touched when it is worked on", "parse=late"),
    tweak("t7.ring", "T7 receive rings of 2048", "rx_ring=2048"),
    tweak("t9.pages", "T9 buffers on 2 MiB pages", "pages=2m"),
];

/// What T11 would be, and why it is not.
pub(super) const NOT_MODELLED: (&str, &str, &str) = (
    "t11.hw_prefetch",
    "T11 descriptors fetched ahead by the card",
    "not modelled: the card works between what is timed, so that what it fetches when cannot change a tick; on the bus it fetches four \
     descriptors a burst from the first rung on. (The report: unsupported, 700,000 frames a port with it at 133 MHz)",
);

/// Distances of T10 that are tried; 0: none.
pub(super) const DISTANCES: [usize; 7] = [0, 1, 2, 4, 8, 16, 32];

/// A rung.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) id: String,
    pub(super) title: String,
    /// With all before it.
    pub(super) words: String,
    /// Without.
    pub(super) alone: String,
}

/// From the first rung to T9.
pub(super) fn below() -> Vec<Step> {
    let mut words = String::new();
    let mut steps = vec![step("first", "as em was, polled", "", &mut words)];
    steps.extend(TWEAKS.iter().map(|tweak| step(tweak.id, tweak.title, tweak.words, &mut words)));
    steps
}

/// From the first rung to T10, with that distance.
pub(super) fn ladder(distance: usize) -> Vec<Step> {
    let mut steps = below();
    steps.push(last(distance));
    steps
}

/// T10.
pub(super) fn last(distance: usize) -> Step {
    let mut words = below().pop().map(|step| step.words).unwrap_or_default();
    let title = match distance {
        0 => "T10 no prefetch: none was better".to_owned(),
        n => format!("T10 prefetch {n} frames ahead"),
    };
    step("t10.prefetch", &title, &format!("prefetch={distance}"), &mut words)
}

/// T8 undone: what interrupts would cost at `step`.
pub(super) fn interrupts(step: &Step) -> Vec<Step> {
    let few = "frames=4096"; // each of them takes long
    let ways = [
        ("t8.polled_1", "T8 polled, but one frame a port and turn", "feed=1"),
        ("t8.intr", "T8 undone: interrupts, ITR 0, one frame each", "feed=1 intr=on"),
        ("t8.itr", "T8 undone: interrupts, ITR 125 us, 75 frames each", "feed=75 intr=on itr_us=125"),
    ];
    let undo = |(id, title, words): (&str, &str, &str)| Step {
        id: id.to_owned(),
        title: title.to_owned(),
        words: format!("{} {few} {words}", step.words),
        alone: format!("{few} {words}"),
    };
    ways.map(undo).to_vec()
}

fn step(id: &str, title: &str, adds: &str, words: &mut String) -> Step {
    *words = format!("{words} {adds}").trim().to_owned();
    Step { id: id.to_owned(), title: title.to_owned(), words: words.clone(), alone: adds.to_owned() }
}
