//! The machine that a run is measured on: elapsed time, pinning, steal time, and the core's speed.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use super::speed::{Speed, probe};

/// Settings of the wait for a slow core: (interval between two probes of its speed, maximum number
/// of probes).
const SETTLE: (Duration, u32) = (Duration::from_micros(500), 200);

/// The machine that a run is measured on.
pub trait Host {
    /// Returns the time since the run began.
    fn elapsed(&mut self) -> Duration;

    /// Pins the thread to its processor; called before each round.
    ///
    /// # Errors
    /// The processor is gone, with the reason.
    fn place(&mut self) -> Result<(), String>;

    /// Returns the steal time of this processor in ticks of 10 ms (`steal`, eighth number of a
    /// /proc/stat line: proc_stat(5)); 0 if it cannot be read. A steal shorter than a tick may not
    /// appear; the check of the CPU share detects it.
    fn steal(&mut self) -> u64;

    /// Waits until the core has its usual speed, for 0.1 s at most.
    fn warm_up(&mut self);

    /// Returns whether the core is slower than usual now.
    fn is_slow(&mut self) -> bool;
}

/// The machine that this program runs on.
#[derive(Debug)]
pub struct Machine {
    start: Instant,
    /// Line of /proc/stat: `cpu3` if the run is pinned to one processor, else `cpu` for all.
    line: String,
    cpu: Option<usize>,
    speed: Speed,
}

impl Machine {
    /// Starts the clock of a run on processor `cpu`, if it is pinned to one.
    pub fn new(cpu: Option<usize>) -> Machine {
        let line = cpu.map_or("cpu".into(), |cpu| format!("cpu{cpu}"));
        Machine { start: Instant::now(), line, cpu, speed: Speed::default() }
    }
}

impl Host for Machine {
    fn elapsed(&mut self) -> Duration {
        self.start.elapsed()
    }

    fn place(&mut self) -> Result<(), String> {
        self.cpu.map_or(Ok(()), |cpu| {
            dispatch::pin_to_core(cpu).map_err(|why| format!("core {cpu} is no longer available: {why}"))
        })
    }

    fn steal(&mut self) -> u64 {
        fs::read_to_string("/proc/stat").map_or(0, |text| steal_of(&text, &self.line).unwrap_or(0))
    }

    fn warm_up(&mut self) {
        // A thread that is not pinned may run on another core next.
        if self.cpu.is_none() || !self.speed.is_slow(probe(), true) {
            return;
        }
        let (interval, most) = SETTLE;
        for _ in 0..most {
            thread::sleep(interval);
            if !self.is_slow() {
                return;
            }
        }
    }

    fn is_slow(&mut self) -> bool {
        self.cpu.is_some() && self.speed.is_slow(probe(), false)
    }
}

fn steal_of(stat: &str, name: &str) -> Option<u64> {
    let mut words =
        stat.lines().map(str::split_whitespace).find_map(|mut words| (words.next()? == name).then_some(words))?;
    words.nth(7)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_the_eighth_number() {
        let stat = "cpu  10960 0 1389 197023 583 0 62 79 0 0\ncpu0 5558 0 691 98380 355 0 22 32 0 0\ncpu1 1 2 3\n";
        assert_eq!(steal_of(stat, "cpu"), Some(79));
        assert_eq!(steal_of(stat, "cpu0"), Some(32));
        assert_eq!(steal_of(stat, "cpu1"), None);
        assert_eq!(steal_of(stat, "cpu2"), None);
    }

    #[test]
    fn settling_has_a_limit() {
        let core = dispatch::last_core();
        let _pinned = dispatch::pinned_to_core(core).unwrap();
        let mut machine = Machine::new(Some(core));
        // No probe is as fast as this one, so `settle` waits until the attempts are used up.
        (0..64).for_each(|_| _ = machine.speed.is_slow(1, true));
        let begun = Instant::now();
        machine.warm_up();
        assert!(machine.is_slow() && begun.elapsed() >= Duration::from_millis(100), "{:?}", begun.elapsed());
        let mut anywhere = Machine::new(None);
        anywhere.warm_up();
        assert!(!anywhere.is_slow());
    }

    #[test]
    fn time_and_steal_are_read_on_this_machine() {
        let mut machine = Machine::new(Some(0));
        assert!(machine.elapsed() < Duration::from_secs(60));
        assert!(machine.steal() >= Machine::new(Some(usize::MAX)).steal());
    }
}
