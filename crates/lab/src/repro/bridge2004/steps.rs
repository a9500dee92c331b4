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

/// Beside the ladder, from `step` on. T11: the bus of the report's fastest machine, and a card that fetches descriptors ahead; the processor
/// waits for neither, so that its ticks stay and the bus carries more. And T8 undone: what interrupts would cost.
pub(super) fn extras(step: &Step) -> Vec<Step> {
    const FEW: &str = "frames=4096"; // each of them takes long
    let ways = [
        ("t11.bus133", "T11 the bus at 133 MHz", "bus=pcix133".to_owned()),
        ("t11.hw_prefetch", "T11 and descriptors fetched 32 at a time by the card", "bus=pcix133 fetch=32".to_owned()),
        ("t8.polled_1", "T8 polled, but one frame a port and turn", format!("{FEW} feed=1")),
        ("t8.intr", "T8 undone: interrupts, ITR 0, one frame each", format!("{FEW} feed=1 intr=on")),
        ("t8.itr", "T8 undone: interrupts, ITR 125 us, 75 frames each", format!("{FEW} feed=75 intr=on itr_us=125")),
    ];
    let of = |(id, title, adds): (&str, &str, String)| {
        let words = format!("{} {adds}", step.words);
        Step { id: id.to_owned(), title: title.to_owned(), words, alone: adds }
    };
    ways.map(of).to_vec()
}

fn step(id: &str, title: &str, adds: &str, words: &mut String) -> Step {
    *words = format!("{words} {adds}").trim().to_owned();
    Step { id: id.to_owned(), title: title.to_owned(), words: words.clone(), alone: adds.to_owned() }
}
