//! Duration of a test, and how long other threads had its processor meanwhile.

use clock::Instant;

/// Begin of a test.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    begin: Instant,
    cpu_ns: u64,
    waits: u64,
}

/// Duration of a test.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Took {
    /// Seconds by the sockets' clock.
    pub seconds: f64,
    /// Seconds of these in which the calling thread was preempted. 0 if it waited: then time in which it had
    /// nothing to do cannot be told apart from time that it lost.
    pub preempted: f64,
}

impl Span {
    /// Begins at `now`, read from the sockets' clock.
    pub fn begin(now: Instant) -> Span {
        Span { begin: now, cpu_ns: dispatch::thread_cpu_ns(), waits: dispatch::thread_waits() }
    }

    /// Returns the duration until `now`.
    pub fn end(&self, now: Instant) -> Took {
        let seconds = now.since(self.begin).as_secs_f64().max(1e-9);
        let used = (dispatch::thread_cpu_ns() - self.cpu_ns) as f64 * 1e-9;
        let waited = dispatch::thread_waits() != self.waits;
        Took { seconds, preempted: if waited { 0.0 } else { (seconds - used).max(0.0) } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clock::Duration;

    #[test]
    fn time_without_the_processor_is_preempted_unless_the_thread_waited() {
        let begin = Instant::from_nanos(7);
        let hour = begin.after(Duration::from_secs(3600));
        let took = Span::begin(begin).end(hour);
        assert!(took.seconds == 3600.0 && (3599.0..=3600.0).contains(&took.preempted), "{took:?}");
        let span = Span::begin(begin);
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(span.end(hour), Took { seconds: 3600.0, preempted: 0.0 });
    }

    #[test]
    fn a_thread_with_the_processor_to_itself_is_not_preempted() {
        let begin = Instant::from_nanos(0);
        let took = Span::begin(begin).end(begin);
        assert!(took.seconds == 1e-9 && took.preempted <= 1e-9, "{took:?}");
    }
}
