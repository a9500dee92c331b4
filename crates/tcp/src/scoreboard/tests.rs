use super::*;
use proptest::prelude::*;

const LEN: u32 = 100;

fn at(us: u64) -> Instant {
    Instant::from_micros(1000 + us)
}

fn board(base: u32, segments: u32) -> Scoreboard {
    let mut board = Scoreboard::default();
    for i in 0..segments {
        let start = SeqNum(base).plus(i * LEN);
        board.push(start, start.plus(LEN), 0, at(u64::from(i)));
    }
    board
}

fn sacked(board: &Scoreboard) -> Vec<bool> {
    board.iter().map(|record| record.has(mark::SACKED)).collect()
}

#[test]
fn a_partial_block_sacks_nothing() {
    let (mut board, mut got) = (board(0, 3), Delivered::default());
    board.sack(SeqNum(50), SeqNum(199), SeqNum(0), &mut got);
    assert_eq!((got.sacked, board.sacked().bytes), (0, 0));
    board.sack(SeqNum(50), SeqNum(200), SeqNum(0), &mut got);
    assert_eq!(sacked(&board), [false, true, false]);
}

#[test]
fn an_ack_within_a_record_trims_it_in_every_sum() {
    let (mut board, mut got) = (board(0, 2), Delivered::default());
    board.mark_front_lost();
    board.on_resent(0, at(50));
    board.acknowledge(SeqNum(30), SeqNum(200), &mut got);
    assert_eq!((got.acked, board.lost().bytes, board.retrans().bytes), (30, 70, 70));
    board.check_invariants(SeqNum(30), SeqNum(200));
    let lost = board.detect_lost((at(60), SeqNum(200)), Duration::ZERO, Duration::ZERO, at(100)).0;
    assert_eq!(lost, 170, "the copy is still watched");
}

#[test]
fn only_earlier_segments_are_lost_and_only_after_the_reordering_window() {
    let mut board = board(0, 4);
    let latest = (at(2), SeqNum(300));
    let mut got = Delivered::default();
    board.sack(SeqNum(200), SeqNum(300), SeqNum(0), &mut got);
    let wait = Duration::from_micros(100);
    let mut detect = |now| board.detect_lost(latest, wait, wait, at(now));
    assert_eq!(detect(50), (0, Some(at(102))));
    assert_eq!(detect(100), (LEN, Some(at(102))), "the first is due");
    assert_eq!(detect(101), (LEN, None), "the fourth left later");
    assert_eq!(board.lost().segments, 2);
}

/// Evidence from before an undo has no further effect: only segments sent after the undo can show
/// that a spared segment is lost (RFC 4015).
#[test]
fn after_an_undo_only_later_segments_mark_losses() {
    let (mut board, mut got) = (board(0, 3), Delivered::default());
    board.sack(SeqNum(200), SeqNum(300), SeqNum(0), &mut got);
    let wait = Duration::from_micros(10);
    let latest = (at(2), SeqNum(300));
    assert_eq!(board.detect_lost(latest, wait, wait, at(50)).0, 2 * LEN);
    board.on_resent(0, at(51));
    board.mark_front_lost();
    board.spare_lost(at(60));
    assert_eq!((board.lost().segments, board.retrans().segments), (0, 1), "the copy is watched again");
    board.check_invariants(SeqNum(0), SeqNum(300));
    assert_eq!(board.detect_lost(latest, wait, wait, at(10_000)), (0, None));
    let later = (at(61), SeqNum(400));
    assert_eq!(board.detect_lost(later, wait, Duration::from_micros(40), at(99)), (0, Some(at(101))));
    assert_eq!(board.detect_lost(later, wait, Duration::from_micros(40), at(100)).0, 2 * LEN);
}

#[test]
fn a_cut_record_keeps_the_order_and_the_sums() {
    let mut board = board(u32::MAX - 150, 3);
    board.mark_front_lost();
    board.split(0, 40);
    assert_eq!((board.len(), board.lost().segments, board.lost().bytes), (4, 2, 100));
    board.check_invariants(SeqNum(u32::MAX - 150), SeqNum(u32::MAX - 150).plus(300));
    assert_eq!(board.next_lost().map(|(index, record)| (index, record.len())), Some((0, 40)));
    board.on_resent(0, at(9));
    assert_eq!(board.next_lost().map(|(index, record)| (index, record.len())), Some((1, 60)));
}

#[derive(Clone, Debug)]
enum Op {
    Sack(u32, u32),
    Ack(u32),
    Send,
    Lose,
    Resend,
    Detect(u32),
    Renege,
    Undo,
    Split(u32),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0u32..40, 1u32..10).prop_map(|(from, n)| Op::Sack(from, n)),
        2 => (0u32..400).prop_map(Op::Ack),
        3 => Just(Op::Send),
        1 => Just(Op::Lose),
        3 => Just(Op::Resend),
        2 => (0u32..40).prop_map(Op::Detect),
        1 => Just(Op::Renege),
        1 => Just(Op::Undo),
        1 => (1u32..99).prop_map(Op::Split),
    ]
}

proptest! {
    /// Compares with a model in which each byte stores whether it was SACKed.
    #[test]
    fn sack_and_ack_behave_like_a_set_of_bytes(base: u32, ops in prop::collection::vec(op(), 1..120)) {
        let mut board = board(base, 30);
        let (mut una, mut nxt, mut now) = (0u32, 30 * LEN, 100u64);
        let mut bytes = vec![false; 30 * LEN as usize];
        let mut spared = 0u64;
        for op in ops {
            now += 1;
            let mut got = Delivered::default();
            match op {
                Op::Sack(from, n) => {
                    let (left, right) = ((una / LEN + from) * LEN, (una / LEN + from + n) * LEN);
                    let (left, right) = (left.max(una), right.min(nxt));
                    if left < right {
                        board.sack(SeqNum(base).plus(left), SeqNum(base).plus(right), SeqNum(base), &mut got);
                        let new = bytes[left as usize..right as usize].iter().filter(|b| !**b).count();
                        prop_assert_eq!(got.sacked as usize, new);
                        bytes[left as usize..right as usize].fill(true);
                    }
                }
                Op::Ack(n) => {
                    let to = (una + n).min(nxt);
                    board.acknowledge(SeqNum(base).plus(to), SeqNum(base), &mut got);
                    let new = bytes[una as usize..to as usize].iter().filter(|b| !**b).count();
                    prop_assert_eq!((got.acked, got.bytes as usize), (to - una, new));
                    una = to;
                }
                Op::Send => {
                    board.push(SeqNum(base).plus(nxt), SeqNum(base).plus(nxt + LEN), 0, at(now));
                    nxt += LEN;
                    bytes.resize(nxt as usize, false);
                }
                Op::Lose => { board.mark_front_lost(); }
                Op::Resend => if let Some((index, record)) = board.next_lost() {
                    prop_assert!(record.has(mark::LOST) && !record.has(mark::RETRANS | mark::SACKED));
                    let first = board.iter().position(|r| r.has(mark::LOST) && !r.has(mark::RETRANS));
                    prop_assert_eq!(first, Some(index), "the first that waits");
                    board.on_resent(index, at(now));
                } else {
                    prop_assert!(!board.iter().any(|r| r.has(mark::LOST) && !r.has(mark::RETRANS)));
                },
                Op::Detect(ago) => {
                    let latest = (at(now.saturating_sub(u64::from(ago))), SeqNum(base).plus(nxt));
                    let wait = Duration::from_micros(5);
                    let floor = if board.iter().any(|r| r.has(mark::SPARED)) { at(spared) } else { Instant::ZERO };
                    board.detect_lost(latest, wait, wait, at(now));
                    for record in board.iter().filter(|r| !r.has(mark::SACKED)) {
                        let from = record.at.max(floor);
                        let due = from < latest.0 && from.after(wait) <= at(now);
                        prop_assert!(!due || (record.has(mark::LOST) && !record.has(mark::RETRANS)), "{:?}", record);
                    }
                }
                Op::Renege => { board.forget_sacked(); bytes[una as usize..].fill(false); }
                Op::Undo => { spared = now; board.spare_lost(at(now)); }
                Op::Split(len) => board.split(0, len),
            }
            board.check_invariants(SeqNum(base).plus(una), SeqNum(base).plus(nxt));
            let here = bytes[una as usize..nxt as usize].iter().filter(|b| **b).count();
            prop_assert_eq!(board.sacked().bytes as usize, here);
        }
    }
}
