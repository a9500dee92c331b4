//! Devices in memory, for trying the tester without a cable: our own bridge on a thread of its own,
//! or no device at all.

use super::trial::{Refusal, Time};
use anyhow::Context;
use clock::{Clock, Duration, Instant};
use node::switch::run::Until;
use node::switch::{Switch, SwitchConfig};
use port::pair::pair;
use port::{Caps, Port};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Maximum number of frames in each queue before and after the device: the maximum ring size of a
/// common card.
pub const SLOTS: usize = 4096;

/// Kind of the simulated device under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Our bridge with two ports.
    Bridge,
    /// No device: each port receives what the other sends. Measures the tester itself.
    Loop,
}

impl Kind {
    /// Returns the description of the device for the report.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Bridge => "our bridge on its own thread, two rings of 4096 frames at each port",
            Kind::Loop => "none: a ring of 4096 frames from each port to the other",
        }
    }
}

/// A device that runs until it is dropped.
pub struct Device {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Device {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A panic of the thread is ignored here, since the trials have already reported the lost
        // frames.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Starts the device and returns the two ports that lead into it. A frame that does not fit into
/// the ring in front of the device is counted as lost by the device.
///
/// # Errors
/// Memory for the buffers cannot be allocated, or the thread cannot be started.
pub fn start(kind: Kind) -> anyhow::Result<(Device, [Port; 2], Refusal)> {
    let stop = Arc::new(AtomicBool::new(false));
    let jumbo = Caps { mtu: 9000, ..Caps::PLAIN };
    let (device, ports) = match kind {
        Kind::Loop => {
            let (a, b) = pair("loop", SLOTS, jumbo);
            (Device { stop, thread: None }, [a, b])
        }
        Kind::Bridge => {
            let ((a, left), (b, right)) = (pair("a", SLOTS, jumbo), pair("b", SLOTS, jumbo));
            let clock = Clock::live(clock::Strategy::TscScaled);
            let switch = Switch::new(&SwitchConfig::default(), clock).context("cannot create the bridge")?;
            switch.attach(left, None)?;
            switch.attach(right, None)?;
            // The loop never sleeps: an in-memory ring cannot wake it, so the sleep would be part
            // of the latency.
            switch.sysctls.idle_us.set(1_000_000);
            let until = stop.clone();
            let work = move |_| {
                // If the switch fails, the trials report the frames as lost.
                let _ = switch.run(None, Until::Stopped, || until.load(Ordering::Relaxed));
            };
            let thread = Some(dispatch::spawn_worker("dut", None, work)?);
            (Device { stop, thread }, [a, b])
        }
    };
    Ok((device, ports, Refusal::Loss))
}

/// Clock that returns the machine's time.
pub struct Live {
    clock: Clock,
    /// Set if there is no other core for the device.
    alone: bool,
}

impl Live {
    /// Starts a clock at the current time.
    pub fn new() -> Live {
        Live { clock: Clock::live(clock::Strategy::TscScaled), alone: dispatch::cores() < 2 }
    }
}

impl Default for Live {
    fn default() -> Live {
        Live::new()
    }
}

impl Time for Live {
    #[inline]
    fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Busy-waits, since sleeping would add the wake-up time to the latency.
    #[inline]
    fn wait(&mut self, _: Instant) {
        if self.alone {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }

    fn sleep(&mut self, until: Instant) {
        let left = until.since(self.clock.now());
        std::thread::sleep(left.min(Duration::from_secs(1)));
    }
}
