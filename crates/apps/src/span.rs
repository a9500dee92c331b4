//! Measures the duration of a test, and the part of it during which the thread was preempted.

use linerate::stack::Instant;

/// Start of a measured test.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    begin: Instant,
    delay_ns: Option<u64>,
}

/// Duration of a measured test.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Took {
    /// Duration in seconds, measured by the clock of the sockets.
    pub seconds: f64,
    /// Seconds of this duration in which the calling thread could have run but other threads had
    /// the CPU; 0 if the kernel does not count this ([`dispatch::thread_delay_ns`]).
    pub preempted: f64,
}

impl Span {
    /// Starts a measurement at the time that `now` returns, read from the clock of the sockets. The
    /// preempted time is read before `now` is called, since reading it takes some microseconds.
    pub fn begin(now: impl FnOnce() -> Instant) -> Span {
        let delay_ns = dispatch::thread_delay_ns();
        Span { begin: now(), delay_ns }
    }

    /// Returns the start time.
    pub fn start(&self) -> Instant {
        self.begin
    }

    /// Returns the duration from the start until `now`.
    pub fn end(&self, now: Instant) -> Took {
        let seconds = now.since(self.begin).as_secs_f64().max(1e-9);
        let delays = dispatch::thread_delay_ns().zip(self.delay_ns);
        let preempted = delays.map_or(0.0, |(after, before)| after.saturating_sub(before) as f64 * 1e-9);
        Took { seconds, preempted: preempted.min(seconds) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn sleeping_does_not_count_as_preempted() {
        let begin = Instant::from_nanos(7);
        let span = Span::begin(|| begin);
        std::thread::sleep(Duration::from_millis(1));
        let took = span.end(begin.after(Duration::from_secs(3600)));
        assert!(span.start() == begin && took.seconds == 3600.0 && took.preempted < 60.0, "{took:?}");
    }

    #[test]
    fn preempted_time_is_at_most_the_duration() {
        let begin = Instant::from_nanos(0);
        let took = Span::begin(|| begin).end(begin);
        assert!(took.seconds == 1e-9 && took.preempted <= 1e-9, "{took:?}");
    }
}
