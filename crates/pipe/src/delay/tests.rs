use super::*;
use proptest::prelude::*;

const NOTHING: [u8; 0] = [];

/// Passes the frames `came` to the stage at `now`; returns the frames that leave at this time.
fn step(stage: &mut Delay, now: u64, came: &[u8]) -> Vec<u8> {
    let mut frames = Frames::new();
    for mark in came {
        frames.push(&[*mark; 60], Time::None);
    }
    stage.at(Instant::from_millis(now));
    stage.run(&mut frames).unwrap();
    frames.iter().map(|(bytes, _)| bytes[0]).collect()
}

#[test]
fn frames_are_held_until_their_time() {
    let mut stage = Delay::new(Duration::from_millis(10), Duration::ZERO, 0, Limit::default());
    assert_eq!(step(&mut stage, 0, &[1, 2]), NOTHING);
    assert_eq!(step(&mut stage, 4, &[3]), NOTHING);
    assert_eq!(stage.next_event(), Some(Instant::from_millis(10)));
    assert_eq!(step(&mut stage, 9, &[]), NOTHING);
    assert_eq!(step(&mut stage, 10, &[]), [1, 2]);
    assert_eq!((stage.next_event(), stage.held()), (Some(Instant::from_millis(14)), 1));
    assert_eq!(step(&mut stage, 20, &[4]), [3]);
    stage.finish(&mut Frames::new()).unwrap();
    assert_eq!(stage.report().unwrap(), "delay: 3 frames passed, 0 dropped (queue full), 1 still queued at the end");
}

#[test]
fn full_queue_drops_or_waits() {
    let of = |full| Delay::new(Duration::from_millis(10), Duration::ZERO, 0, Limit { bytes: 250, full });
    let mut stage = of(Full::Drop);
    assert_eq!(step(&mut stage, 0, &[1, 2, 3]), NOTHING);
    assert!(!stage.is_full());
    assert_eq!(step(&mut stage, 10, &[]), [1, 2]);
    assert!(stage.report().unwrap().contains("2 frames passed, 1 dropped"));
    let mut stage = of(Full::Wait);
    assert_eq!(step(&mut stage, 0, &[1, 2, 3]), NOTHING);
    assert!(stage.is_full());
    assert_eq!(step(&mut stage, 10, &[]), [1, 2, 3]);
    assert!(!stage.is_full() && stage.report().is_none());
}

#[test]
fn delayed_stamps_keep_their_register_and_wrap() {
    let mut frames = Frames::new();
    for time in [
        Time::Stamp(Stamp::at(1, true, 0)),
        Time::Stamp(Stamp::arrival(Stamp::TICKS)),
        Time::Stamp(Stamp(0)),
        Time::Wall(5),
        Time::None,
    ] {
        frames.push(&[0; 60], time);
    }
    let mut stage = Later::new(Duration::from_millis(10), 8);
    stage.run(&mut frames).unwrap();
    let times: Vec<Time> = frames.iter().map(|(_, time)| time).collect();
    assert_eq!(times[0], Time::Stamp(Stamp::at(1, true, 1_250_000)));
    assert_eq!(times[1], Time::Stamp(Stamp::arrival(1_249_999)));
    assert_eq!(times[2..], [Time::Stamp(Stamp(0)), Time::Wall(10_000_005), Time::None]);
    assert_eq!(stage.report().unwrap(), "delay: 2 frames without a stamp were not delayed");
}

proptest! {
    /// For any arrivals, all frames leave in order. Each leaves within the jitter around its delay,
    /// or together with an earlier frame that leaves later than that.
    #[test]
    fn frames_are_sent_in_order_and_on_time(
        steps in prop::collection::vec((0..20_u64, 0..4_usize), 1..60), delay in 0..30_u64, jitter in 0..30_u64, seed: u64
    ) {
        let ms = Duration::from_millis;
        let mut stage = Delay::new(ms(delay), ms(jitter), seed, Limit::default());
        let (mut now, mut came, mut left) = (0, Vec::new(), 0);
        let check = |left: usize, now: u64, came: &[u64]| {
            let least = came[left] + delay.saturating_sub(jitter);
            let most = came[left] + delay + jitter;
            assert!((least..=most.max(now)).contains(&now), "{left} at {now}, came {}", came[left]);
        };
        for (pause, n) in steps {
            now += pause;
            let marks: Vec<u8> = (came.len()..came.len() + n).map(|mark| mark as u8).collect();
            came.extend(std::iter::repeat_n(now, n));
            for mark in step(&mut stage, now, &marks) {
                prop_assert_eq!(mark, left as u8);
                check(left, now, &came);
                left += 1;
            }
        }
        while let Some(at) = stage.next_event() {
            let at = at.nanos().div_ceil(1_000_000);
            prop_assert!(at <= now + delay + jitter);
            left += step(&mut stage, at, &[]).len();
        }
        prop_assert_eq!(left, came.len());
    }
}
