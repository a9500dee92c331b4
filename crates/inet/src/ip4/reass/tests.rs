//! Tests on virtual time. After each step, [`Checked`] verifies that frames received = reassembled
//! + held + dropped, and that no limit is exceeded.

use super::fuzz::{Checked, Spec, pattern};
use super::*;
use crate::ip4::frag::fragment;
use DropReason::*;
use buf::Flags;
use proptest::prelude::*;
use wire::Proto;

fn pool(buffers: usize) -> Pool {
    Pool::new(&PoolConfig { buffers, ..PoolConfig::default() }).unwrap()
}

/// Returns limits so high that only those of the protocol apply.
fn unlimited() -> Limits {
    Limits { bytes: 1 << 30, bytes_per_source: 1 << 30, fragments_per_datagram: 1 << 16, ..Limits::default() }
}

struct Host {
    pool: Pool,
    checked: Checked,
}

impl Host {
    fn new(limits: Limits) -> Host {
        Host { pool: pool(16_384), checked: Checked::new(limits) }
    }

    fn send(&mut self, spec: Spec) -> Option<DropReason> {
        self.checked.input(spec.frame(&self.pool).unwrap())
    }

    fn part(&mut self, off: u16, len: usize, mf: bool) -> Option<DropReason> {
        self.send(Spec { off, len, mf, ..Spec::UDP })
    }

    fn ended(&self, why: DropReason) -> u64 {
        self.checked.ended(why)
    }

    fn held(&self) -> usize {
        self.checked.reassembly.held()
    }

    /// Returns the only reassembled packet so far, checked against the pattern.
    fn whole(&mut self) -> Frame {
        assert_eq!(self.checked.packets.len(), 1);
        let frame = self.checked.packets.pop().unwrap();
        let header = Header::parse(frame.bytes()).unwrap();
        assert!(header.payload(frame.bytes()).iter().enumerate().all(|(at, &byte)| byte == pattern(&header, at)));
        frame
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.checked.end_all();
            self.checked.packets.clear();
            assert_eq!(self.pool.stats().live(), 0, "a frame was kept or leaked");
        }
    }
}

#[test]
fn an_unfragmented_packet_passes_unchanged() {
    let mut host = Host::new(Limits::default());
    host.part(0, 100, false);
    assert!(host.whole().flags().has(Flags::RX_L4_OK), "nothing was merged: the port's word still holds");
    assert_eq!(host.checked.reassembly.next_deadline(), None);
}

#[test]
fn a_short_datagram_grows_in_its_first_fragments_buffer() {
    let mut host = Host::new(Limits::default());
    host.part(800, 100, false);
    host.part(0, 400, true);
    host.part(400, 400, true);
    let whole = host.whole();
    assert_eq!((whole.len(), whole.headroom()), (920, 128));
    assert_eq!(whole.headroom() + whole.len() + whole.tailroom(), host.pool.size(), "a buffer of the small pool");
    assert!(whole.flags().has(Flags::LINK_BROADCAST) && !whole.flags().has(Flags::RX_L4_OK));
    assert_eq!((host.ended(FragMerged), host.held()), (2, 0));
    assert!(host.checked.reassembly.large.is_none(), "an idle host maps no large buffers");
}

#[test]
fn a_long_datagram_moves_to_a_large_buffer() {
    let mut host = Host::new(Limits::default());
    for off in (0..65_120).step_by(1480) {
        host.part(off, 1480, true);
    }
    host.part(65_120, 65_535 - 20 - 65_120, false);
    let whole = host.whole();
    assert_eq!((whole.len(), whole.headroom()), (65_535, 128));
    assert!(whole.flags().has(Flags::LINK_BROADCAST));
    assert_eq!(host.ended(FragMerged), 44, "45 fragments, one packet");
    assert_eq!(host.pool.stats().live(), 0, "the first fragment's frame has moved: its old buffer is home");
}

#[test]
fn without_a_large_buffer_the_datagram_is_dropped_and_the_next_one_tries_again() {
    let mut host = Host::new(Limits { large: PoolConfig { buffers: 1, ..Limits::default().large }, ..unlimited() });
    let both = |host: &mut Host, id| {
        host.send(Spec { id, len: 1480, ..Spec::UDP });
        host.send(Spec { id, off: 1480, len: 1480, mf: false, ..Spec::UDP })
    };
    assert_eq!(both(&mut host, 1), None);
    let kept = host.whole();
    assert_eq!(both(&mut host, 2), Some(FragNoBuffer));
    assert_eq!((host.ended(FragNoBuffer), host.held()), (2, 0));
    drop(kept);
    assert_eq!(both(&mut host, 3), None);
    host.whole();
}

#[test]
fn a_large_pool_that_cannot_be_created_does_not_panic() {
    let mut host = Host::new(Limits { large: PoolConfig { buffers: 0, ..PoolConfig::default() }, ..unlimited() });
    host.part(0, 1480, true);
    assert_eq!(host.part(1480, 1480, false), Some(FragNoBuffer));
    let mut host = Host::new(Limits { large: PoolConfig { data: 2500, ..PoolConfig::default() }, ..unlimited() });
    host.part(0, 1480, true);
    assert_eq!(host.part(1480, 1480, false), Some(FragNoBuffer), "it comes with buffers that are too small");
}

#[test]
fn ethernet_padding_is_not_payload() {
    let mut host = Host::new(Limits::default());
    for rest in [4, 1480] {
        for (off, len, mf) in [(0, 16, true), (16, rest, false)] {
            let mut padded = (Spec { off, len, mf, ..Spec::UDP }).frame(&host.pool).unwrap();
            padded.append(10).unwrap().fill(0xee);
            host.checked.input(padded);
        }
        assert_eq!(host.whole().len(), 20 + 16 + rest);
    }
}

#[test]
fn options_of_the_first_fragment_apply_to_the_packet() {
    let mut host = Host::new(Limits::default());
    host.part(64, 4, false);
    host.send(Spec { len: 64, options: 3, ..Spec::UDP });
    let whole = host.whole();
    assert_eq!((whole.len(), Header::parse(whole.bytes()).unwrap().ihl_len), (32 + 68, 32));
}

#[test]
fn a_first_header_that_makes_the_datagram_too_long_ends_it() {
    let mut host = Host::new(unlimited());
    for off in (0..65_120).step_by(1480) {
        host.send(Spec { off, len: 1480, options: 1, ..Spec::UDP });
    }
    // 65,515 bytes of payload fit after this fragment's header of 20 bytes, but not after the
    // first's of 24.
    assert_eq!(host.part(65_120, 395, false), Some(FragMalformed));
    assert_eq!((host.ended(FragMalformed), host.held()), (45, 0));
}

#[test]
fn datagrams_differ_by_source_protocol_and_id() {
    let mut host = Host::new(Limits::default());
    host.part(0, 8, true);
    for other in [Spec { src: 2, ..Spec::UDP }, Spec { id: 2, ..Spec::UDP }, Spec { proto: Proto::ICMP, ..Spec::UDP }] {
        assert_eq!(host.send(Spec { off: 8, mf: false, ..other }), None);
    }
    assert_eq!((host.held(), host.checked.packets.len()), (4, 0));
    host.part(8, 8, false);
    host.whole();
}

#[test]
fn congestion_marks_are_kept_and_must_not_be_mixed_with_not_ect() {
    const ECT: u8 = 0b10;
    let mut host = Host::new(Limits::default());
    let (first, last) = (Spec { tos: ECT, ..Spec::UDP }, Spec { off: 8, mf: false, tos: 0b11, ..Spec::UDP });
    host.send(first);
    host.send(last);
    assert_eq!(Header::parse(host.whole().bytes()).unwrap().tos, 0b11, "RFC 3168 5.3: the mark is kept");
    host.send(Spec { tos: 0, ..first });
    assert_eq!(host.send(last), Some(FragMalformed), "RFC 3168 5.3: dropped");
    host.send(first);
    host.send(Spec { tos: ECT, ..last });
    assert_eq!(Header::parse(host.whole().bytes()).unwrap().tos, ECT);
}

#[test]
fn a_datagram_times_out_and_reports_its_first_fragment() {
    let mut host = Host::new(Limits::default());
    let start = host.checked.now;
    host.send(Spec { id: 1, off: 8, ..Spec::UDP });
    host.send(Spec { id: 1, off: 0, ..Spec::UDP });
    host.checked.pass(Duration::from_secs(10));
    host.send(Spec { id: 2, off: 8, ..Spec::UDP });
    host.send(Spec { id: 1, off: 16, ..Spec::UDP });
    assert_eq!(host.checked.reassembly.next_deadline(), Some(start.after(Duration::from_secs(60))));

    host.checked.pass(Duration::from_millis(49_999));
    assert_eq!(host.ended(FragTimeout), 0);
    host.checked.pass(Duration::from_millis(1));
    assert_eq!(host.ended(FragTimeout), 3, "a later fragment does not extend the time (RFC 1122 3.3.2)");
    assert_eq!(host.checked.time_exceeded.iter().map(|h| (h.id, h.frag_off)).collect::<Vec<_>>(), [(1, 0)]);

    host.checked.pass(Duration::from_secs(10));
    assert_eq!((host.ended(FragTimeout), host.held()), (4, 0));
    assert_eq!(host.checked.time_exceeded.len(), 1, "no first fragment, no ICMP error");
    assert_eq!(host.checked.reassembly.next_deadline(), None);
}

#[test]
fn a_rejected_datagrams_key_is_reusable_after_its_timeout() {
    let mut host = Host::new(Limits::default());
    host.part(0, 16, true);
    assert_eq!(host.part(8, 16, true), Some(FragOverlap));
    assert_eq!((host.held(), host.ended(FragOverlap)), (0, 2));
    assert_eq!(host.part(24, 8, false), Some(FragOverlap));
    assert_eq!(host.part(0, 24, true), Some(FragOverlap));
    host.checked.pass(Duration::from_secs(60));
    assert!(host.checked.time_exceeded.is_empty());
    host.part(0, 16, true);
    host.part(16, 8, false);
    host.whole();
}

#[test]
fn malformed_fragments_are_dropped_alone() {
    let mut host = Host::new(Limits::default());
    host.part(0, 16, true);
    for (off, len, mf) in [(16, 0, true), (16, 0, false), (16, 12, true), (65_528, 8, false), (65_512, 4, false)] {
        assert_eq!(host.part(off, len, mf), Some(FragMalformed), "{len} bytes at {off}");
    }
    let tcp = Spec { proto: Proto::TCP, ..Spec::UDP };
    assert_eq!(host.send(Spec { off: 8, ..tcp }), Some(FragMalformed), "RFC 1858: TCP at offset 8");
    assert_eq!(host.send(Spec { off: 0, len: 8, ..tcp }), Some(FragMalformed), "RFC 3128: the flags are cut off");
    assert_eq!(host.send(Spec { off: 0, len: 16, ..tcp }), None);
    assert_eq!(host.checked.reassembly.datagrams(), 2);
    host.part(16, 8, false);
    host.whole();
}

#[test]
fn contradicting_ends_reject_the_datagram() {
    let cases: [&[(u16, usize, bool)]; 6] = [
        &[(16, 8, false), (24, 8, false)], // two ends
        &[(16, 8, false), (8, 4, false)],  // two ends, the second lower
        &[(16, 8, false), (24, 8, true)],  // data after the end
        &[(32, 8, true), (8, 8, false)],   // an end before data
        &[(16, 8, true), (16, 8, false)],  // the same bytes with and without MF
        &[(16, 8, false), (16, 8, true)],
    ];
    for case in cases {
        let mut host = Host::new(Limits::default());
        let (&(off, len, mf), before) = case.split_last().unwrap();
        assert!(before.iter().all(|&(off, len, mf)| host.part(off, len, mf).is_none()));
        assert_eq!(host.part(off, len, mf), Some(FragMalformed), "{case:?}");
        assert_eq!((host.ended(FragMalformed), host.held()), (2, 0));
        assert_eq!(host.part(0, 8, true), Some(FragMalformed), "poisoned");
    }
}

#[test]
fn every_overlap_is_detected() {
    // Held: 16..32 and 48..64.
    let reader =
        [(8, 16), (24, 8), (16, 8), (16, 24), (8, 32), (24, 16), (40, 16), (56, 16), (24, 32), (0, 80), (48, 8)];
    for (off, len) in reader {
        let mut host = Host::new(Limits::default());
        host.part(48, 16, true);
        host.part(16, 16, true);
        assert_eq!(host.part(off, len, true), Some(FragOverlap), "{len} bytes at {off}");
        assert_eq!((host.ended(FragOverlap), host.held(), host.checked.reassembly.bytes()), (3, 0, 0));
    }
    for (off, len) in [(0, 16), (32, 16), (64, 16), (8, 8), (40, 8)] {
        let mut host = Host::new(Limits::default());
        host.part(48, 16, true);
        host.part(16, 16, true);
        assert_eq!(host.part(off, len, true), None, "{len} bytes at {off} touch nothing");
    }
}

#[test]
fn a_duplicate_is_accepted_only_if_identical() {
    let mut host = Host::new(Limits::default());
    host.part(0, 16, true);
    assert_eq!(host.part(0, 16, true), Some(FragDuplicate));
    host.part(24, 8, false);
    assert_eq!(host.part(24, 8, false), Some(FragDuplicate));
    host.part(16, 8, true);
    host.whole();
    host.part(0, 16, true);
    assert_eq!(host.send(Spec { len: 16, salt: 1, ..Spec::UDP }), Some(FragOverlap), "other bytes in the same place");
    assert_eq!((host.held(), host.ended(FragDuplicate)), (0, 2));
}

#[test]
fn teardrop_newtear_nestea_and_bonk() {
    let mut host = Host::new(Limits::default());
    // Teardrop as sent in 1997: first 36 bytes with MF, which are no multiple of 8, then 4 bytes
    // within these.
    assert_eq!(host.part(0, 36, true), Some(FragMalformed));
    assert_eq!(host.part(24, 4, false), None);
    // With lengths that are multiples of 8, these are valid fragments that overlap.
    assert_eq!(host.send(Spec { id: 2, len: 40, ..Spec::UDP }), None);
    assert_eq!(host.send(Spec { id: 2, off: 24, len: 4, mf: false, ..Spec::UDP }), Some(FragOverlap));
    // newtear: Teardrop with 4 bytes less padding.
    assert_eq!(host.send(Spec { id: 3, len: 32, ..Spec::UDP }), None);
    assert_eq!(host.send(Spec { id: 3, off: 24, len: 4, mf: false, ..Spec::UDP }), Some(FragOverlap));
    // nestea: the third fragment covers the first two.
    assert_eq!(host.send(Spec { id: 4, len: 24, ..Spec::UDP }), None);
    assert_eq!(host.send(Spec { id: 4, off: 48, len: 108, mf: false, ..Spec::UDP }), None);
    assert_eq!(host.send(Spec { id: 4, off: 0, len: 264, ..Spec::UDP }), Some(FragOverlap));
    // bonk: the last fragment ends far beyond the first, and the gap is never filled. The datagram
    // times out.
    assert_eq!(host.send(Spec { id: 5, len: 32, ..Spec::UDP }), None);
    assert_eq!(host.send(Spec { id: 5, off: 256, len: 4, mf: false, ..Spec::UDP }), None);
    assert!(host.checked.packets.is_empty());
    host.checked.pass(Duration::from_secs(60));
    assert_eq!((host.held(), host.checked.reassembly.datagrams()), (0, 0));
}

#[test]
fn ping_of_death() {
    let mut host = Host::new(Limits::default());
    let ping = Spec { proto: Proto::ICMP, len: 1480, ..Spec::UDP };
    for off in (0..65_120).step_by(1480) {
        assert_eq!(host.send(Spec { off, ..ping }), None);
    }
    assert_eq!(host.send(Spec { off: 65_120, len: 1000, mf: false, ..ping }), Some(FragMalformed));
    host.checked.pass(Duration::from_secs(60));
    assert_eq!((host.ended(FragTimeout), host.ended(FragMalformed), host.checked.time_exceeded.len()), (44, 1, 1));
}

#[test]
fn jolt2_costs_few_comparisons_per_fragment() {
    let mut host = Host::new(Limits::default());
    let ping = Spec { proto: Proto::ICMP, len: 9, mf: false, ..Spec::UDP };
    assert_eq!(host.send(Spec { off: 65_520, ..ping }), Some(FragMalformed), "as sent in 2000: beyond the end");
    for off in (0..400 * 8).step_by(8) {
        host.send(Spec { off, len: 8, mf: true, ..ping });
    }
    host.send(Spec { off: 65_000, ..ping });
    let before = host.checked.reassembly.comparisons();
    for _ in 0..10_000 {
        assert_eq!(host.send(Spec { off: 65_000, ..ping }), Some(FragDuplicate));
    }
    let each = (host.checked.reassembly.comparisons() - before) / 10_000;
    assert!(each <= 11, "{each} comparisons a duplicate among 401 fragments");
    assert_eq!((host.held(), host.ended(FragDuplicate)), (401, 10_000));
}

/// Maximum number of comparisons for a fragment among `n` held ones: one with the end, then those
/// of the binary search.
fn log_bound(n: usize) -> u64 {
    u64::from(n.ilog2()) + 3
}

#[test]
fn fragment_smack_costs_logarithmic_time() {
    const N: u16 = 8189;
    type Order = (&'static str, Box<dyn Fn(u16) -> u16>);
    let orders: [Order; 4] = [
        ("backwards", Box::new(|i| N - 1 - i)),
        ("even, then odd", Box::new(|i| if i < N.div_ceil(2) { i * 2 } else { (i - N.div_ceil(2)) * 2 + 1 })),
        ("a stride", Box::new(|i| (u32::from(i) * 3001 % u32::from(N)) as u16)),
        ("in order", Box::new(|i| i)),
    ];
    let mut host = Host::new(unlimited());
    for (id, (name, order)) in orders.iter().enumerate() {
        for i in 0..N {
            let (block, before) = (order(i), host.checked.reassembly.comparisons());
            let spec = Spec { id: id as u16, off: block * 8, len: 8, mf: block != N - 1, ..Spec::UDP };
            assert_eq!(host.send(spec), None, "{name}");
            let cost = host.checked.reassembly.comparisons() - before;
            assert!(cost <= log_bound(usize::from(i) + 1), "{name}: {cost} comparisons among {i}");
            assert!(*name != "in order" || cost <= 1);
        }
        assert_eq!(host.whole().len(), 20 + 8 * usize::from(N), "{name}");
    }
    // The default limits stop the datagram long before that.
    let mut host = Host::new(Limits::default());
    let refused = (0..N).map(|i| host.part((N - 1 - i) * 8, 8, i != 0)).position(|dropped| dropped.is_some());
    assert!(refused.is_some_and(|at| at < 600), "{refused:?}");
    assert_eq!(host.held(), 0, "and give up what was held");
}

#[test]
fn rose_from_one_source_leaves_room_for_others() {
    let mut host = Host::new(Limits::default());
    let friend = Spec { src: 2, len: 1000, ..Spec::UDP };
    host.send(friend);
    for id in 0..20_000 {
        host.send(Spec { id, len: 32, ..Spec::UDP });
        host.send(Spec { id, off: 64_800, len: 8, mf: false, ..Spec::UDP });
        if id % 1000 == 0 {
            host.checked.pass(Duration::from_millis(100));
        }
    }
    assert_eq!(host.ended(FragEvicted), 2 * (20_000 - 64), "a quarter of the table, its own oldest ended");
    assert_eq!(host.held(), 64 * 2 + 1);
    host.send(Spec { off: 1000, mf: false, ..friend });
    host.whole();
}

#[test]
fn one_source_uses_only_its_share_of_memory() {
    let mut host = Host::new(Limits::default());
    let friend = Spec { src: 2, len: 1480, ..Spec::UDP };
    host.send(friend);
    for (id, off) in (0..50).flat_map(|id| (8..59_000).step_by(1480).map(move |off| (id, off))) {
        host.send(Spec { id, off, len: 1480, ..Spec::UDP });
    }
    assert!(host.checked.reassembly.bytes() <= (1 << 20) + 3000);
    assert!(host.ended(FragEvicted) > 1000);
    host.send(Spec { off: 1480, mf: false, ..friend });
    host.whole();
}

#[test]
fn many_sources_evict_the_oldest_first_within_the_limits() {
    let mut host = Host::new(Limits::default());
    for n in 0..300u16 {
        host.send(Spec { src: (n % 100) as u8, id: n, len: 1480, ..Spec::UDP });
    }
    assert_eq!((host.checked.reassembly.datagrams(), host.ended(FragEvicted)), (256, 44));
    // A new datagram with all fragments in a row is complete before it can be evicted.
    host.send(Spec { src: 200, ..Spec::UDP });
    host.send(Spec { src: 200, off: 8, mf: false, ..Spec::UDP });
    host.whole();
}

#[test]
fn the_datagram_of_the_arriving_fragment_is_evicted_last() {
    let three = 3 * 2300;
    for limits in
        [Limits { bytes: three, ..Limits::default() }, Limits { bytes_per_source: three, ..Limits::default() }]
    {
        let mut host = Host::new(limits);
        let ids = |host: &Host| host.checked.reassembly.table.keys().map(|key| key.id as u16).sum::<u16>();
        assert!([1, 2, 4].into_iter().all(|id| host.send(Spec { id, ..Spec::UDP }).is_none()));
        assert_eq!(host.part(8, 8, true), None);
        assert_eq!((host.ended(FragEvicted), ids(&host)), (1, 1 + 4), "the oldest of the others goes");
        assert_eq!(host.part(16, 8, true), None);
        assert_eq!((host.ended(FragEvicted), ids(&host)), (2, 1));
        assert_eq!(host.part(24, 8, true), Some(FragEvicted), "alone, and still too much");
        assert_eq!((host.ended(FragEvicted), host.held()), (6, 0));
    }
}

#[test]
fn a_datagram_of_too_many_fragments_is_rejected_until_its_timeout() {
    let mut host = Host::new(Limits { fragments_per_datagram: 3, ..Limits::default() });
    assert!([0, 8, 16].into_iter().all(|off| host.part(off, 8, true).is_none()));
    assert_eq!(host.part(24, 8, true), Some(FragEvicted));
    assert_eq!(host.part(32, 8, false), Some(FragEvicted), "its later parts take no room");
    assert_eq!((host.ended(FragEvicted), host.held()), (5, 0));
}

#[test]
fn limits_below_one_fragment_hold_nothing() {
    for limits in [
        Limits { bytes: 100, ..Limits::default() },
        Limits { bytes_per_source: 100, ..Limits::default() },
        Limits { fragments_per_datagram: 0, datagrams: 0, per_source: 0, ..Limits::default() },
    ] {
        let mut host = Host::new(limits);
        assert_eq!(host.part(0, 8, true), Some(FragEvicted));
        assert_eq!(host.part(8, 8, false), Some(FragEvicted));
        assert_eq!(host.held(), 0);
    }
}

#[test]
fn shutdown_drops_held_fragments() {
    let mut host = Host::new(Limits::default());
    host.part(0, 8, true);
    host.part(16, 8, true);
    host.checked.end_all();
    assert_eq!((host.ended(Shutdown), host.held()), (2, 0));
}

#[derive(Clone, Debug)]
struct Cut {
    len: usize,
    mtus: (usize, Option<usize>),
    options: u8,
    order: u64,
    repeats: Vec<prop::sample::Index>,
}

fn cuts() -> impl Strategy<Value = Cut> {
    let len = prop_oneof![1..400usize, 400..9000usize, 9000..=65_475usize];
    let mtu = prop_oneof![68..200usize, 200..=1500usize, Just(1500)];
    let repeats = prop::collection::vec(any::<prop::sample::Index>(), 0..8);
    (len, mtu.clone(), prop::option::of(mtu), 0..=10u8, any::<u64>(), repeats)
        .prop_map(|(len, mtu, again, options, order, repeats)| Cut { len, mtus: (mtu, again), options, order, repeats })
}

/// Fisher-Yates shuffle with a 64-bit linear congruential generator.
fn shuffle<T>(items: &mut [T], mut seed: u64) {
    for at in (1..items.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items.swap(at, (seed >> 33) as usize % (at + 1));
    }
}

fn cut_up(frame: Frame, mtu: usize, pool: &Pool) -> Vec<Frame> {
    let header = Header::parse(frame.bytes()).unwrap();
    let mut parts = Vec::new();
    fragment(frame, &header, mtu, pool, &mut |part| parts.push(part)).unwrap();
    parts
}

thread_local! {
    static POOLS: (Pool, Pool) =
        (pool(32_768), Pool::new(&PoolConfig { buffers: 4, data: 1 << 16, ..PoolConfig::default() }).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Fragments a packet twice, as two routers do, shuffles the fragments and repeats some. The
    /// result must be exactly the original packet.
    #[test]
    fn any_order_of_fragments_reassembles_the_packet(cut in cuts()) {
        let (small, large) = POOLS.with(|(small, large)| (small.clone(), large.clone()));
        let original = Spec { len: cut.len, mf: false, options: cut.options, ..Spec::UDP }.frame(&large).unwrap();
        let expected = original.bytes().to_vec();
        let mut parts = cut_up(original, cut.mtus.0, &small);
        if let Some(mtu) = cut.mtus.1 {
            parts = parts.into_iter().flat_map(|part| cut_up(part, mtu, &small)).collect();
        }
        let mut repeats: Vec<Frame> = cut.repeats.iter().map(|at| at.get(&parts).try_clone().unwrap()).collect();
        let n = parts.len();
        parts.append(&mut repeats);
        shuffle(&mut parts, cut.order);

        let mut checked = Checked::new(unlimited());
        for part in parts {
            let dropped = checked.input(part);
            prop_assert!(matches!(dropped, None | Some(FragDuplicate)));
        }
        let first = checked.packets.first().map(|packet| packet.bytes().to_vec());
        prop_assert_eq!(first, Some(expected));
        // Repeated fragments after the end begin a new datagram that will time out. They form a
        // second packet only if the packet was not fragmented or all of it was repeated.
        prop_assert!(checked.packets.len() == 1 || cut.repeats.len() >= n);
        checked.end_all();
        checked.packets.clear();
        prop_assert_eq!(small.stats().live() + large.stats().live(), 0);
    }

    /// Compares the decision on every fragment with a model that keeps a byte map.
    #[test]
    fn verdicts_agree_with_a_byte_map(
        script in prop::collection::vec(
            (0..12u16, 1..5usize, prop::bool::weighted(0.85), prop::bool::weighted(0.1)),
            1..40,
        )
    ) {
        let small = POOLS.with(|(small, _)| small.clone());
        let (mut checked, mut model) = (Checked::new(unlimited()), Model::default());
        for (block, blocks, mf, salted) in script {
            let spec = Spec { off: block * 8, len: blocks * 8, mf, salt: salted.into(), ..Spec::UDP };
            let expected = model.input(&spec);
            prop_assert_eq!(checked.input(spec.frame(&small).unwrap()), expected, "{:?}", spec);
            prop_assert_eq!(checked.packets.len(), model.wholes);
        }
        checked.end_all();
    }

    /// Runs arbitrary inputs: see [`super::fuzz`].
    #[test]
    fn random_conversations_break_no_invariant(data in prop::collection::vec(any::<u8>(), 0..1200)) {
        fuzz(&data);
    }

    /// Runs arbitrary sequences of fragments of few datagrams.
    #[test]
    fn random_fragments_break_no_invariant(
        ops in prop::collection::vec((0..8u8, 0..4u8, 0..2u8, any::<u8>(), 0..40u8, any::<u8>()), 0..200)
    ) {
        let data: Vec<u8> = ops.into_iter().flat_map(|(op, a, b, c, d, e)| [op, a, b, c, d, e]).collect();
        fuzz(&data);
    }
}

/// A datagram as in RFC 791's pseudocode, one byte at a time, with the policy of the table in
/// `reass.rs`.
#[derive(Default)]
struct Model {
    bytes: std::collections::BTreeMap<usize, (Origin, u8)>,
    poisoned: Option<DropReason>,
    wholes: usize,
}

/// Fragment that a byte came with: start, length, MF.
type Origin = (u16, usize, bool);

impl Model {
    fn input(&mut self, spec: &Spec) -> Option<DropReason> {
        if !spec.mf && spec.off == 0 {
            self.wholes += 1;
            return None;
        }
        if self.poisoned.is_some() {
            return self.poisoned;
        }
        let me = (spec.off, spec.len, spec.mf);
        let range = usize::from(spec.off)..usize::from(spec.off) + spec.len;
        let met: Vec<_> = range.clone().map(|at| self.bytes.get(&at).copied()).collect();
        let same_place = met.iter().all(|byte| byte.is_some_and(|((off, len, _), _)| (off, len) == (me.0, me.1)));
        let ends: Vec<usize> =
            self.bytes.values().filter(|(by, _)| !by.2).map(|(by, _)| usize::from(by.0) + by.1).collect();
        let reach = self.bytes.keys().next_back().map_or(0, |last| last + 1);
        let why = if same_place {
            if met.iter().any(|byte| byte.unwrap().1 != spec.salt) {
                FragOverlap
            } else if met[0].unwrap().0.2 == spec.mf {
                return Some(FragDuplicate);
            } else {
                FragMalformed
            }
        } else if met.iter().any(Option::is_some) {
            FragOverlap
        } else if ends.iter().any(|&end| range.end >= end) || !spec.mf && (!ends.is_empty() || reach >= range.end) {
            FragMalformed
        } else {
            self.bytes.extend(range.map(|at| (at, (me, spec.salt))));
            let end = self.bytes.values().find(|(by, _)| !by.2).map(|(by, _)| usize::from(by.0) + by.1);
            if end == Some(self.bytes.len()) {
                self.wholes += 1;
                self.bytes.clear();
            }
            return None;
        };
        self.poisoned = Some(why);
        self.bytes.clear();
        self.poisoned
    }
}

/// Runs the stored corpus of the fuzz target, if the tests run inside the repository.
#[test]
fn the_corpus_breaks_no_invariant() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/inet_reass");
    for seed in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        fuzz(&std::fs::read(seed.path()).unwrap());
    }
}
