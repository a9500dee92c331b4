//! Tests that the rig of each row does what the row's title states, by the rig's own counters.

use super::ports::contests;
use super::*;
use crate::native::forward::{Bench, Kind, Who};
use crate::rigs::{LanesRig, Leave, NicCosts};
use crate::subject::Subject;

#[test]
fn in_memory_rows_have_the_parameters_of_their_titles() {
    for (id, addresses, len, burst, title) in FRAMES {
        let mut rig = BridgeRig::new(id, addresses, len, burst).unwrap();
        rig.trial().unwrap();
        let facts = rig.facts();
        assert_eq!((facts.addresses, facts.frame, facts.burst), (addresses, len as f64, burst as f64), "{id}: {title}");
    }
}

#[test]
fn the_nic_rows_are_bridge2004s_first_and_last_rung() {
    let costs = |words: &str| -> NicCosts { NicRig::new("nic", words).unwrap().costs().unwrap() };
    let (first, last) = (costs(NIC_FIRST), costs(NIC_FINAL));
    let memory = |costs: &NicCosts| {
        [costs.links_read, costs.headers_written, costs.from_stock, costs.early_reads, costs.prefetches]
    };
    assert_eq!((first.doorbells, first.writebacks, memory(&first)), (2.0, 1.25, [1.0, 1.0, 0.0, 1.0, 0.0]));
    assert_eq!((last.doorbells, last.writebacks, memory(&last)), (1.0 / 32.0, 0.28125, [0.0, 0.0, 1.0, 0.0, 1.0]));
}

#[test]
fn a_lookup_uses_a_table_of_the_rows_size() {
    assert_eq!(FdbRig::new("fdb.64k", ADDRESSES).unwrap().facts(), [65_536; 3]);
    assert_eq!(FdbRig::new("fdb", 1000).unwrap().facts(), [1000, 65_536, 65_536]);
}

#[test]
fn pool_and_ring_rows_count_one_buffer_or_frame_per_operation() {
    let mut pool = PoolRig::new().unwrap();
    let reading = pool.trial().unwrap();
    assert_eq!(pool.facts(), [reading.ops; 2]);
    assert_eq!(RingRig::new().unwrap().trial().unwrap().ops, 1 << 17, "the trial counts what crossed");
}

#[test]
fn two_loops_share_the_frames_of_two_cores() {
    let mut one = LanesRig::new("one", 1, Leave::Same).unwrap();
    let mut two = LanesRig::new("two", 2, Leave::Same).unwrap();
    let (one_ops, two_ops) = (one.trial().unwrap().ops, two.trial().unwrap().ops);
    assert_eq!((one.received(), two.received()), (vec![one_ops], vec![two_ops / 2; 2]));
}

#[test]
fn forward_rows_use_the_contender_of_their_name() {
    for (name, kind) in contests() {
        for who in [Who::Ours(kind), Who::Bare(kind), Who::Kernel] {
            let mut bench = match Bench::start(who) {
                Ok(bench) => bench,
                Err(why) => {
                    println!("skipped: {name}: {who:?}: {why:#}");
                    continue;
                }
            };
            let run = bench.run(4096, 0).unwrap();
            // The far device counted every frame, and only our switch ran `Bridge::input`.
            assert!(run.frames >= 4096 && run.sent[0] > 0, "{name}: {who:?}: {run:?}");
            assert_eq!(run.bridge[1] > 0, matches!(who, Who::Ours(_)), "{name}: {who:?}: {run:?}");
        }
    }
    let kinds: Vec<Kind> = contests().into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(kinds, [Kind::Xdp, Kind::Packet, Kind::Tap]);
}
