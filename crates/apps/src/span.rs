//! Duration of a test, and how long its thread was preempted in it.

use clock::Instant;

/// Start of a test.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    begin: Instant,
    delay_ns: Option<u64>,
}

/// Duration of a test.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Took {
    /// Seconds by the sockets' clock.
    pub seconds: f64,
    /// Seconds of it in which the calling thread was runnable while other threads had the CPU; 0
    /// where the kernel does not count them ([`dispatch::thread_delay_ns`]).
    pub preempted: f64,
}

impl Span {
    /// Starts at the time returned by `now`, read from the sockets' clock. Reading the preempted
    /// time takes some microseconds and is done before.
    pub fn begin(now: impl FnOnce() -> Instant) -> Span {
        let delay_ns = dispatch::thread_delay_ns();
        Span { begin: now(), delay_ns }
    }

    /// Returns the start time.
    pub fn start(&self) -> Instant {
        self.begin
    }

    /// Returns the duration until `now`.
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
    use clock::Duration;

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
