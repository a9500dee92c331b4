//! `count`: counts frames and bytes.

use crate::rate::on_wire;
use crate::stage::{StageError, Timed};
use crate::{Frames, Stage};
use clock::{Clock, Duration, Instant};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wire::text;

/// Function that prints a report: to standard output, or to standard error if the frames are
/// written to standard output.
pub type Say = Box<dyn FnMut(&str) -> io::Result<()> + Send>;

/// Totals over a time span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    /// Number of frames counted.
    pub frames: u64,
    /// Number of bytes that the frames have as lines of text without time stamps (format F1).
    pub text: u64,
    /// Number of bytes on the wire: frame, FCS, preamble and inter-frame gap.
    pub wire: u64,
    /// Length of the time span, in nanoseconds.
    pub ns: u64,
}

impl Sums {
    /// Returns the totals of the frames of one batch; `ns` is 0.
    pub fn of(frames: &Frames) -> Sums {
        let each = frames.wire_lens().map(|len| (text::len(len) as u64, on_wire(len)));
        each.fold(Sums::default(), |sums, (text, wire)| Sums {
            frames: sums.frames + 1,
            text: sums.text + text,
            wire: sums.wire + wire,
            ..sums
        })
    }

    /// Returns the difference between these totals and the earlier totals `before`.
    fn since(self, before: Sums) -> Sums {
        Sums {
            frames: self.frames - before.frames,
            text: self.text - before.text,
            wire: self.wire - before.wire,
            ns: self.ns - before.ns,
        }
    }

    fn a_second(self, what: u64) -> f64 {
        if self.ns == 0 { 0.0 } else { what as f64 * 1e9 / self.ns as f64 }
    }

    /// Formats the totals as one JSON object.
    pub fn json(self) -> String {
        let Sums { frames, text, wire, ns } = self;
        let seconds = ns as f64 / 1e9;
        let (pps, bps) = (self.a_second(frames), self.a_second(wire * 8));
        serde_json::json!({
            "frames": frames, "text_bytes": text, "wire_bytes": wire, "seconds": seconds, "pps": pps, "wire_bps": bps,
            "text_Bps": self.a_second(text),
        })
        .to_string()
    }
}

/// Formats the totals as `12 frames, 2028 bytes of text, 1008 on the wire in 1.000000 s: 12 pps,
/// 8.06 kb/s on the wire, 2.03 kB/s of text`.
impl fmt::Display for Sums {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sums { frames, text, wire, ns } = *self;
        write!(f, "{frames} frames, {text} bytes of text, {wire} on the wire in {:.6} s: ", ns as f64 / 1e9)?;
        let (pps, bps, text) = (self.a_second(frames), self.a_second(wire * 8), self.a_second(text));
        write!(f, "{}pps, {}b/s on the wire, {}B/s of text", Short(pps), Short(bps), Short(text))
    }
}

/// A number shown with three or four digits and an SI prefix.
struct Short(f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, prefix) = [(1e9, "G"), (1e6, "M"), (1e3, "k")]
            .into_iter()
            .find(|(unit, _)| self.0 >= *unit)
            .map_or((self.0, ""), |(unit, prefix)| (self.0 / unit, prefix));
        let digits = if value >= 100.0 { 0 } else { 2 };
        write!(f, "{value:.digits$} {prefix}")
    }
}

#[derive(Debug, Default)]
struct Shared {
    frames: AtomicU64,
    text: AtomicU64,
    wire: AtomicU64,
}

/// Stage that counts frames, and passes them to the next stage if `pass` is set.
pub struct Count {
    shared: Arc<Shared>,
    clock: Clock,
    began: Instant,
    pass: bool,
    /// Length of the reporting interval, and the end of the current interval; `None` for a report
    /// at the end only.
    every: Option<(Duration, Instant)>,
    before: Sums,
    json: bool,
    /// Prints the report. `None` in a copy for another thread, because only the original stage
    /// reports.
    say: Option<Say>,
    /// Error of printing the report of an interval; the next call of `run` returns it.
    failed: Option<io::Error>,
}

impl Count {
    /// Creates the stage. Its time span begins now, by `clock`. Prints the totals with `say` at the
    /// end and, if `every` is set, also after each interval of this length.
    pub fn new(clock: Clock, pass: bool, every: Option<Duration>, json: bool, say: Say) -> Count {
        let began = clock.now();
        let every = every.map(|every| every.max(Duration::from_millis(1))).map(|every| (every, began.after(every)));
        let before = Sums::default();
        Count { shared: Arc::default(), clock, began, pass, every, before, json, say: Some(say), failed: None }
    }

    fn sums(&self, now: Instant) -> Sums {
        let Shared { frames, text, wire } = &*self.shared;
        let ns = now.since(self.began).as_nanos() as u64;
        Sums { frames: frames.load(Relaxed), text: text.load(Relaxed), wire: wire.load(Relaxed), ns }
    }

    fn print(&mut self, sums: Sums) -> io::Result<()> {
        match &mut self.say {
            Some(say) => say(&if self.json { sums.json() } else { sums.to_string() }),
            None => Ok(()),
        }
    }
}

impl Stage for Count {
    fn run(&mut self, frames: &mut Frames) -> Result<(), StageError> {
        if let Some(why) = self.failed.take() {
            return Err(why.into());
        }
        let sums = Sums::of(frames);
        self.shared.frames.fetch_add(sums.frames, Relaxed);
        self.shared.text.fetch_add(sums.text, Relaxed);
        self.shared.wire.fetch_add(sums.wire, Relaxed);
        if !self.pass {
            frames.clear();
        }
        Ok(())
    }

    fn fork(&self) -> Option<Box<dyn Stage>> {
        let (shared, clock) = (self.shared.clone(), self.clock.clone());
        Some(Box::new(Count { shared, clock, say: None, failed: None, before: self.before, ..*self }))
    }

    fn finish(&mut self, _: &mut Frames) -> Result<(), StageError> {
        let sums = self.sums(self.clock.now());
        Ok(self.print(sums)?)
    }

    fn passes(&self) -> bool {
        self.pass
    }

    fn timed(&mut self) -> Option<&mut dyn Timed> {
        if self.every.is_some() { Some(self) } else { None }
    }
}

impl Timed for Count {
    /// Prints a report if the current interval has ended at `now`: the frames counted since the
    /// previous report, and the time that has passed since that report.
    fn at(&mut self, now: Instant) {
        let Some((every, next)) = self.every else { return };
        if now < next {
            return;
        }
        let sums = self.sums(now);
        self.failed = self.print(sums.since(self.before)).err();
        self.before = sums;
        let late = now.since(next).as_nanos() / every.as_nanos().max(1);
        let next = next.after(every.saturating_mul(u32::try_from(late + 1).unwrap_or(u32::MAX)));
        self.every = Some((every, next));
    }

    fn next_event(&self) -> Option<Instant> {
        self.every.map(|(_, next)| next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;
    use clock::SimClock;
    use proptest::prelude::*;
    use std::sync::Mutex;

    fn reported() -> (Arc<Mutex<Vec<String>>>, Say) {
        let reported = Arc::new(Mutex::new(Vec::new()));
        let copy = reported.clone();
        (
            reported,
            Box::new(move |text: &str| {
                copy.lock().unwrap().push(text.to_owned());
                Ok(())
            }),
        )
    }

    fn of(lens: &[usize]) -> Frames {
        let mut frames = Frames::new();
        lens.iter().for_each(|len| assert!(frames.push(&vec![0; *len], Time::None)));
        frames
    }

    #[test]
    fn totals_of_one_second_at_a_gigabit() {
        let (clock, (reported, say)) = (SimClock::new(), reported());
        let mut stage = Count::new(Clock::sim(&clock), true, None, false, say);
        let mut other = stage.fork().unwrap();
        let mut frames = of(&[60; 1000]);
        for turn in 0..1488 {
            if turn % 2 == 0 {
                stage.run(&mut frames).unwrap()
            } else {
                other.run(&mut frames).unwrap()
            }
            assert_eq!(frames.len(), 1000);
        }
        clock.advance(Duration::from_secs(1));
        other.finish(&mut frames).unwrap_or_default();
        stage.finish(&mut frames).unwrap();
        let expected = "1488000 frames, 251472000 bytes of text, 124992000 on the wire in 1.000000 s: 1.49 Mpps, \
                        1000 Mb/s on the wire, 251 MB/s of text";
        assert_eq!(*reported.lock().unwrap(), [expected]);
    }

    #[test]
    fn intervals_are_reported_separately_and_totals_last() {
        let (clock, (reported, say)) = (SimClock::new(), reported());
        let mut stage = Count::new(Clock::sim(&clock), false, Some(Duration::from_secs(1)), true, say);
        for seconds in [0, 1, 1, 3] {
            clock.advance(Duration::from_secs(seconds));
            stage.at(clock.now());
            let mut frames = of(&[60, 1514]);
            stage.run(&mut frames).unwrap();
            assert!(frames.is_empty());
        }
        assert_eq!(stage.next_event(), Some(Instant::from_millis(6000)));
        stage.finish(&mut Frames::new()).unwrap();
        let reported: Vec<serde_json::Value> =
            reported.lock().unwrap().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
        let frames: Vec<u64> = reported.iter().map(|line| line["frames"].as_u64().unwrap()).collect();
        assert_eq!(frames, [2, 2, 2, 8]);
        assert_eq!((&reported[2]["seconds"], &reported[3]["seconds"]), (&3.0.into(), &5.0.into()));
        assert_eq!(reported[3]["wire_bytes"], 4 * (84 + 1538));
    }

    proptest! {
        #[test]
        fn text_bytes_match_the_encoder(lens in prop::collection::vec(14..300_usize, 0..20)) {
            let frames = of(&lens);
            let mut out = Vec::new();
            let used = crate::Encoder::new(crate::Format::Plain, 8).encode(&frames, &mut out);
            prop_assert_eq!(Sums::of(&frames).text, used.unwrap() as u64);
        }
    }
}
