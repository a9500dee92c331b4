use super::*;
use crate::delay::{Delay, Full, Limit};
use crate::rate::{Bits, Rate};
use crate::units::Rate as Unit;
use crate::{Stage, Time};
use clock::Strategy;

/// A source that returns a few frames at a time, then ends.
struct Some_(u32);

impl Source for Some_ {
    fn read(&mut self, frames: &mut Frames) -> Result<bool, RunError> {
        for _ in 0..self.0.min(10) {
            frames.push(&[self.0 as u8; 60], Time::None);
            self.0 -= 1;
        }
        Ok(!frames.is_empty())
    }
}

#[derive(Default)]
struct Seen(Vec<u8>);

impl Sink for Seen {
    fn write(&mut self, frames: &Frames) -> Result<(), RunError> {
        self.0.extend(frames.iter().map(|(bytes, _)| bytes[0]));
        Ok(())
    }
}

fn all(stages: Vec<Box<dyn Stage>>, frames: u32) -> (Seen, Duration) {
    let clock = Clock::live(Strategy::TscScaled);
    let mut seen = Seen::default();
    let begin = clock.now();
    let (ran, source) = run_timed(Some_(frames), &mut Chain(stages), &mut seen, &clock, || false);
    ran.unwrap();
    assert_eq!(source.unwrap().0, 0);
    (seen, clock.now().since(begin))
}

#[test]
fn frames_held_at_end_of_stream_are_sent_on_time() {
    let delay = Delay::new(Duration::from_millis(30), Duration::ZERO, 0, Limit::default());
    let (seen, took) = all(vec![Box::new(delay)], 100);
    assert_eq!(seen.0, (1..=100).rev().collect::<Vec<u8>>());
    assert!(took >= Duration::from_millis(30), "{took:?}");
}

#[test]
fn a_full_stage_blocks_the_source_without_loss() {
    let limit = Limit { bytes: 500, full: Full::Wait };
    let rate = Rate::new(Unit::Frames(5000), Bits::Wire, Some(1), limit);
    let delay = Delay::new(Duration::from_millis(1), Duration::ZERO, 0, limit);
    let (seen, took) = all(vec![Box::new(rate), Box::new(delay)], 200);
    assert_eq!(seen.0.len(), 200);
    assert!(took >= Duration::from_millis(39), "{took:?}");
}

#[test]
fn stop_discards_and_reports_held_frames() {
    let delay = Delay::new(Duration::from_secs(1000), Duration::ZERO, 0, Limit::default());
    let mut chain = Chain(vec![Box::new(delay)]);
    let clock = Clock::live(Strategy::TscScaled);
    let end = clock.now().after(Duration::from_millis(100));
    let stop_clock = clock.clone();
    let (ran, _) = run_timed(Some_(5), &mut chain, &mut Seen::default(), &clock, move || stop_clock.now() > end);
    ran.unwrap();
    assert!(chain.report().unwrap().ends_with("5 still queued at the end"));
}

/// A source that never ends.
struct Endless;

impl Source for Endless {
    fn read(&mut self, frames: &mut Frames) -> Result<bool, RunError> {
        Ok(frames.push(&[0; 60], Time::None))
    }
}

#[test]
fn stop_ends_an_endless_source() {
    let delay = Delay::new(Duration::from_millis(1), Duration::ZERO, 0, Limit::default());
    let clock = Clock::live(Strategy::TscScaled);
    let (end, stop_clock) = (clock.now().after(Duration::from_millis(20)), clock.clone());
    let (ran, source) =
        run_timed(Endless, &mut Chain(vec![Box::new(delay)]), &mut Seen::default(), &clock, move || {
            stop_clock.now() > end
        });
    ran.unwrap();
    assert!(source.is_some());
}
