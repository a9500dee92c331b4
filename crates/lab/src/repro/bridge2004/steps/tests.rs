//! One test per rung: the change that it names takes effect, by the model's counters, and the
//! rung's own settings alone cause it.

use super::*;
use crate::rigs::{NicCosts, nic_stall};

/// Settings with free register accesses and few buffers at rest.
const BASE: &str = "ports=2 frames=512 dma=cold stride=power2 rest=512 reg_write_ns=0 reg_read_ns=0";

fn costs(words: &str) -> NicCosts {
    NicRig::new("rung", &format!("{BASE} {words}")).unwrap().costs().unwrap()
}

fn rung(id: &str) -> Step {
    let ladder = ladder(4, &HugePages::Available);
    let last = ladder.last().unwrap().clone();
    let all = ladder.into_iter().chain(bus(&last)).chain(interrupts(&last));
    all.into_iter().find(|step| step.id == id).unwrap_or_else(|| panic!("no {id}"))
}

/// Returns the settings of the rung before.
fn before(id: &str) -> String {
    match id {
        "t11.bus133" | "t8.polled_1" => return rung("t10.prefetch").words,
        "t11.hw_prefetch" => return rung("t11.bus133").words,
        "t8.intr" | "t8.itr" => return rung("t8.polled_1").words,
        _ => {}
    }
    let ladder = ladder(4, &HugePages::Available);
    let at = ladder.iter().position(|step| step.id == id).unwrap();
    ladder[at - 1].words.clone()
}

/// Effect of a rung: its figure at the rung before, and at the rung.
struct Effect {
    id: &'static str,
    what: &'static str,
    figure: fn(&NicCosts) -> f64,
    before: f64,
    after: f64,
    /// Figures of the first rung before and after adding this rung's settings alone.
    alone: [f64; 2],
}

const EVERY_64: f64 = 1.0 + 1.0 / 64.0;

const EFFECTS: [Effect; 10] = [
    Effect {
        id: "t1.rx_tail",
        what: "tail register writes",
        figure: |costs| costs.doorbells,
        before: 2.0,
        after: EVERY_64,
        alone: [2.0, EVERY_64],
    },
    Effect {
        id: "t2.tx_tail",
        what: "tail register writes",
        figure: |costs| costs.doorbells,
        before: EVERY_64,
        after: 2.0 / 64.0,
        alone: [2.0, EVERY_64],
    },
    Effect {
        id: "t3.rs",
        what: "status write-backs, a quarter of a frame's by the receiving side",
        figure: |costs| costs.writebacks,
        before: 1.25,
        after: 0.25 + 1.0 / 32.0,
        alone: [1.25, 0.25 + 1.0 / 32.0],
    },
    Effect {
        id: "t4.cache",
        what: "headers written when buffers are posted",
        figure: |costs| costs.headers_written,
        before: 1.0,
        after: 0.0,
        alone: [1.0, 0.0],
    },
    Effect {
        id: "t5.stack",
        what: "links read when buffers are posted",
        figure: |costs| costs.links_read,
        before: 1.0,
        after: 0.0,
        alone: [1.0, 0.0],
    },
    Effect {
        id: "t5.stack",
        what: "buffers posted from the array of pointers",
        figure: |costs| costs.from_stock,
        before: 0.0,
        after: 1.0,
        alone: [0.0, 1.0],
    },
    Effect {
        id: "t6.late",
        what: "frames read by the driver",
        figure: |costs| costs.early_reads,
        before: 1.0,
        after: 0.0,
        alone: [1.0, 0.0],
    },
    Effect {
        id: "t10.prefetch",
        what: "frames prefetched",
        figure: |costs| costs.prefetches,
        before: 0.0,
        after: 1.0,
        alone: [0.0, 1.0],
    },
    Effect {
        id: "t11.hw_prefetch",
        what: "descriptor reads by the cards",
        figure: |costs| costs.fetches,
        before: 0.5,
        after: 2.0 / 32.0,
        alone: [0.5, 2.0 / 32.0],
    },
    Effect {
        id: "t8.intr",
        what: "interrupts",
        figure: |costs| costs.interrupts,
        before: 0.0,
        after: 1.0,
        alone: [0.0, 1.0],
    },
];

#[test]
fn each_rung_has_its_effect_in_the_ladder_and_alone() {
    let first = costs("");
    for effect in &EFFECTS {
        let (id, what) = (effect.id, effect.what);
        let near = |found: f64, expected: f64| (found - expected).abs() < 0.005;
        let ladder = [costs(&before(id)), costs(&rung(id).words)].map(|costs| (effect.figure)(&costs));
        assert!(near(ladder[0], effect.before) && near(ladder[1], effect.after), "{id}: {what}: {ladder:?}");
        let alone = [first, costs(&rung(id).alone)].map(|costs| (effect.figure)(&costs));
        assert!(near(alone[0], effect.alone[0]) && near(alone[1], effect.alone[1]), "{id} alone: {what}: {alone:?}");
    }
}

#[test]
fn every_rung_is_tested() {
    let by_figure = EFFECTS.iter().map(|effect| effect.id);
    let tested: Vec<&str> =
        by_figure.chain(["first", "t7.ring", "t9.pages", "t11.bus133", "t8.polled_1", "t8.itr"]).collect();
    let ladder = ladder(4, &HugePages::Available);
    let last = ladder.last().unwrap();
    let others = bus(last).into_iter().chain(interrupts(last));
    for step in ladder.iter().cloned().chain(others) {
        assert!(tested.contains(&step.id.as_str()), "{} has no test", step.id);
    }
}

#[test]
fn t4_still_reads_the_links_and_t6_touches_nothing_when_buffers_are_posted() {
    let cache = costs(&rung("t4.cache").words);
    assert_eq!((cache.links_read, cache.headers_written, cache.from_stock), (1.0, 0.0, 0.0));
    let late = costs(&rung("t6.late").words);
    assert_eq!((late.links_read, late.headers_written, late.early_reads, late.prefetches), (0.0, 0.0, 0.0, 0.0));
}

#[test]
fn t7_has_a_ring_of_2048_and_misses_no_frame_in_two_milliseconds() {
    let missed = |words: &str| nic_stall(&format!("{BASE} {words}"), 1, 40).unwrap().missed;
    assert!(missed(&before("t7.ring")) > 1800, "{}", missed(&before("t7.ring")));
    for words in [rung("t7.ring").words, rung("t7.ring").alone] {
        assert_eq!(missed(&words), 0, "{words}");
        let setup: crate::rigs::NicSetup = words.parse().unwrap();
        assert_eq!(setup.settings().unwrap().rings(), (2048, 256));
    }
}

/// Checks the pages requested; the number of huge pages found depends on the machine's memory.
#[test]
fn t9_requests_huge_pages_and_the_rung_before_it_does_not() {
    let base = format!("{BASE} rest=4096"); // about 9 MiB
    let pages = |words: &str| NicRig::new("rung", &format!("{base} {words}")).unwrap().pages().unwrap();
    for words in [rung("t9.pages").words, rung("t9.pages").alone] {
        let pages = pages(&words);
        assert!(pages.all >= 9 << 20 && pages.requested == pages.all, "{words}: {pages:?}");
    }
    let before = pages(&before("t9.pages"));
    assert_eq!(before.requested, 0, "{before:?}");
}

#[test]
fn t9_is_left_out_where_there_are_no_huge_pages() {
    assert_eq!(HugePages::judge(100 << 20, 95 << 20), HugePages::Available);
    let missing = HugePages::judge(100 << 20, 2 << 20);
    let [id, _, why] = missing.missing().unwrap();
    assert!(id == "t9.pages" && why.starts_with("only 2 of 100 MiB lie on 2 MiB pages"), "{why}");
    let with_it: Vec<String> = ladder(4, &HugePages::Available).into_iter().map(|step| step.id).collect();
    let without = ladder(4, &missing);
    let left: Vec<&str> = without.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(left, with_it.iter().filter(|id| *id != "t9.pages").collect::<Vec<_>>());
    assert!(!without.last().unwrap().words.contains("2m"));
}

#[test]
fn t11_takes_fewer_clocks_of_a_faster_bus() {
    let [plain, faster, ahead] =
        [before("t11.bus133"), rung("t11.bus133").words, rung("t11.hw_prefetch").words].map(|words| costs(&words));
    assert_eq!(plain.bus_clocks, faster.bus_clocks);
    assert!((faster.bus_allows / plain.bus_allows - 4.0 / 3.0).abs() < 1e-3);
    // Four descriptors at a time take 4 clocks each, 32 take 2.25; one is received and one sent.
    assert!((faster.bus_clocks - ahead.bus_clocks - 3.5).abs() < 0.01, "{} {}", faster.bus_clocks, ahead.bus_clocks);
}

#[test]
fn t8_undone_interrupts_at_the_moderated_rate() {
    assert_eq!(costs(&rung("t8.polled_1").words).interrupts, 0.0);
    let moderated = costs(&rung("t8.itr").words);
    assert!((0.5..=1.0).contains(&(moderated.interrupts * 75.0)), "{moderated:?}");
    assert_eq!(costs(&rung("t8.intr").words).register_reads, 1.0, "ICR, for each");
}
