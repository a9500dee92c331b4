use super::*;
use std::collections::HashSet;

counters! {
    /// Counters for these tests.
    struct Sample at "test.sample" {
        /// Seen.
        seen,
        /// Done.
        done,
    }
}

#[test]
fn shards_sum_and_keep_names_and_sentences() {
    let shards = Shards::<Sample>::new(2);
    shards.at(0).seen.add(3);
    shards.at(1).seen.add(4);
    shards.at(1).done.bump();
    let got: Vec<_> = shards.snapshot().into_iter().map(|e| (e.name, e.sentence, e.value)).collect();
    assert_eq!(got, [("test.sample.seen".to_string(), "Seen.", 7), ("test.sample.done".to_string(), "Done.", 1)]);
}

/// A writer above the declared number has its own shard, and gets the same one each time.
#[test]
fn shards_grow_with_their_writers() {
    let shards = Shards::<Sample>::new(2);
    assert!(shards.get(1).is_some() && shards.get(2).is_none());
    let indexes = [2, 3, 4, 7, 8, 1000, u32::MAX as usize >> 12];
    std::thread::scope(|scope| {
        for index in indexes {
            let shards = &shards;
            scope.spawn(move || (0..index).for_each(|_| shards.at(index).seen.bump()));
        }
    });
    assert!(indexes.iter().all(|&index| shards.at(index).seen.get() == index as u64));
    assert_eq!(shards.snapshot()[0].value, indexes.iter().sum::<usize>() as u64);
    let numbers: Vec<_> = shards.enumerate().map(|(index, _)| index).collect();
    assert_eq!(numbers, [[0, 1].as_slice(), &indexes].concat());
    assert_eq!(shards.iter().count(), 2 + indexes.len());
    let alone = Shards::<Sample>::new(1);
    alone.at(1000).seen.bump();
    assert_eq!((alone.sole().seen.get(), alone.iter().count()), (1, 1));
}

#[test]
fn every_drop_reason_has_a_name_of_its_own_and_a_sentence() {
    let names: HashSet<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
    assert_eq!(names.len(), DropReason::ALL.len());
    for why in DropReason::ALL {
        assert!(why.sentence().ends_with('.'), "{why:?}");
        assert!(why.name().ends_with(why.word()));
    }
}

#[test]
fn drops_count_by_reason() {
    let drops = Drops::default();
    drops.bump(DropReason::Ip4BadChecksum);
    drops.bump(DropReason::Ip4BadChecksum);
    assert_eq!(drops.get(DropReason::Ip4BadChecksum), 2);
    assert_eq!(drops.total(), 2);
    assert_eq!(drops.nonzero()[0].name, "inet.ip4.in.bad_checksum");
}

sysctls! {
    /// Two.
    pub struct Two {
        /// The first.
        first = "a.first", 0..=9, 3;
        /// The second,
        /// in two lines.
        second = "a.second", -1..=1, 0;
    }
}

#[test]
fn a_sysctl_is_set_by_its_name_within_its_range() {
    let two = Two::default();
    let set: &dyn SysctlSet = &two;
    assert_eq!((set.read("a.first"), set.read("a.third"), two.generation()), (Some(3), None, 0));
    assert_eq!(set.write("a.first", 10), Some(Err(OutOfRange { min: 0, max: 9 })));
    assert_eq!(set.write("a.second", -1), Some(Ok(())));
    assert_eq!((two.first.get(), two.second.get(), two.second.on(), two.generation()), (3, -1, true, 1));
    assert!(set.write("b", 0).is_none());
    assert_eq!(set.infos()[1].sentence, "The second, in two lines.");
}

/// Lost and consumed frames add up to all frames that ended.
#[test]
fn lost_and_consumed_frames_are_separate_and_add_up() {
    let drops = Drops::default();
    DropReason::ALL.iter().for_each(|why| drops.bump(*why));
    let (lost, consumed) = (drops.total_of(End::Lost), drops.total_of(End::Consumed));
    assert_eq!((lost + consumed, drops.total()), (drops.total(), DropReason::ALL.len() as u64));
    for why in DropReason::ALL {
        let used = ["consumed", "merged", "fragmented", "moved", "cut", "ignored"].contains(&why.word());
        // An unwanted ICMP message is a loss; ARP and neighbor discovery for other hosts are not.
        let refused = [DropReason::IcmpIgnored, DropReason::Icmp6Ignored].contains(why);
        assert_eq!(why.end() == End::Consumed, used && !refused, "{}", why.name());
    }
}
