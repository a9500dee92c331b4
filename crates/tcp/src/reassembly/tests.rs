use super::*;
use proptest::prelude::*;

fn inserted(base: u32, ranges: &[(u32, u32)]) -> Reassembly {
    let mut out = Reassembly::default();
    for &(left, right) in ranges {
        out.insert(SeqNum(base).plus(left), SeqNum(base).plus(right), 1024);
    }
    out
}

fn shown(reassembly: &Reassembly, base: u32) -> Vec<(u32, u32)> {
    reassembly.ranges().iter().map(|r| (r.left.0.wrapping_sub(base), r.right.0.wrapping_sub(base))).collect()
}

#[test]
fn touching_ranges_become_one_across_the_wrap() {
    let base = u32::MAX - 12;
    let held = inserted(base, &[(10, 20), (30, 40), (20, 25), (25, 30)]);
    assert_eq!(shown(&held, base), [(10, 40)]);
}

#[test]
fn a_join_removes_only_the_ranges_it_reaches() {
    let mut held = inserted(0, &[(10, 20), (30, 40), (50, 60)]);
    assert_eq!(held.join(SeqNum(5)), 0);
    assert_eq!(held.join(SeqNum(35)), 5, "part of the second; the first is behind");
    assert_eq!(shown(&held, 0), [(50, 60)]);
    held.check_invariants(SeqNum(40));
}

#[test]
fn the_limit_rejects_a_new_range_but_not_growth() {
    let mut held = inserted(0, &[(10, 20), (30, 40)]);
    assert_eq!(held.insert(SeqNum(50), SeqNum(60), 2), Stored::Full);
    assert_eq!(held.insert(SeqNum(40), SeqNum(60), 2), Stored::New);
    assert_eq!(held.insert(SeqNum(15), SeqNum(35), 2), Stored::New);
    assert_eq!(shown(&held, 0), [(10, 60)]);
}

proptest! {
    /// Compares with a set of bytes.
    #[test]
    fn behaves_like_a_set_of_bytes(base: u32, ops in prop::collection::vec((1u32..200, 1u32..40, any::<bool>()), 1..80)) {
        let (mut held, mut bytes, mut nxt) = (Reassembly::default(), [false; 300], 0u32);
        for (at, len, join) in ops {
            if join && at % 4 == 0 {
                let to = (nxt + len).min(299);
                let reach = to + held.join(SeqNum(base).plus(to));
                let mut expected = to;
                while bytes[expected as usize] { expected += 1; }
                prop_assert_eq!(reach, expected);
                nxt = reach;
            } else if at > nxt {
                let new = (at..at + len).any(|b| !bytes[b as usize]);
                let stored = held.insert(SeqNum(base).plus(at), SeqNum(base).plus(at + len), 1024);
                prop_assert_eq!(stored == Stored::New, new);
                for b in at..at + len { bytes[b as usize] = true; }
                let first = held.report().next().unwrap();
                let inside = SeqNum(base).plus(at).within(first.left, first.right);
                prop_assert!(inside, "the range that changed last comes first");
            }
            held.check_invariants(SeqNum(base).plus(nxt));
            let mut runs = Vec::new();
            let mut b = nxt as usize + 1;
            while b < 300 {
                let start = b;
                while b < 300 && bytes[b] { b += 1; }
                if b > start { runs.push((start as u32, b as u32)); }
                b += 1;
            }
            prop_assert_eq!(shown(&held, base), runs);
        }
    }
}
