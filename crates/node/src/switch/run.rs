//! Runs a switch: each lane in a thread, the first in the caller's, which serves the control socket as well.

use super::{Switch, lock};
use crate::control::Server;
use crate::switch::words;
use clock::{Duration, Instant};
use dispatch::polling::Then;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// How often the control socket is looked at while there is work.
const LOOK: Duration = Duration::from_millis(1);
/// How long what waits may wait for a port to take it, at the end.
const PATIENCE: Duration = Duration::from_millis(100);

/// How long a switch runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// It is told to stop.
    Stopped,
    /// That, or no port will give a frame again.
    Over,
}

impl Switch {
    /// Runs until `stop` says so or, if it is `until` then, all ports are over. What still waits is sent, as far as the ports take it.
    ///
    /// # Errors
    /// The system's: no thread, or no waiting.
    pub fn run(
        &self,
        mut control: Option<&mut Server>,
        until: Until,
        stop: impl Fn() -> bool + Sync,
    ) -> io::Result<()> {
        let over: Vec<AtomicBool> = (0..self.lanes()).map(|_| AtomicBool::new(false)).collect();
        let ends = || stop() || (until == Until::Over && over.iter().all(|over| over.load(Ordering::Relaxed)));
        let ends = &ends;
        std::thread::scope(|scope| {
            let mut lanes = Vec::new();
            for (number, over) in over.iter().enumerate().skip(1) {
                let work = move || {
                    while !ends() {
                        self.keep(number, &[], over, |_, _| ends())?;
                    }
                    Ok(())
                };
                lanes.push(dispatch::spawn_scoped(scope, &format!("{}.{number}", self.name), work)?);
            }
            let ran = self.first(&mut control, over.first(), ends);
            // A lane that failed ends alone, and all with it once the first has seen that it is over.
            for lane in lanes {
                lane.join().unwrap_or_else(|_| Err(io::Error::other("a loop panicked")))?;
            }
            ran
        })?;
        self.drain()
    }

    /// The first lane, and the control socket between its turns.
    fn first(
        &self,
        control: &mut Option<&mut Server>,
        over: Option<&AtomicBool>,
        ends: impl Fn() -> bool,
    ) -> io::Result<()> {
        let Some(over) = over else { return Ok(()) };
        while !ends() {
            let now = self.clock.now();
            let mut look = Instant::NEVER;
            if let Some(server) = control {
                server.serve_with(now, |words, json| words::run(self, words, json).map_err(|why| why.to_string()));
                look = now.after(LOOK);
            }
            look = look.min(self.tend().unwrap_or(look));
            let fds = control.as_ref().map(|server| server.fds()).unwrap_or_default();
            self.keep(0, &fds, over, |ready, now| ready || now >= look || self.inbox.is_some() || ends())?;
        }
        Ok(())
    }

    /// Turns lane `number` until `done` says so, or somebody wants its lock. `done` is told whether one of `fds` has something.
    fn keep(
        &self,
        number: usize,
        fds: &[BorrowedFd<'_>],
        over: &AtomicBool,
        done: impl Fn(bool, Instant) -> bool,
    ) -> io::Result<()> {
        let Some(lane) = self.lanes.get(number) else { return Ok(()) };
        let mut lane = lock(lane);
        loop {
            let then = lane.turn();
            if then == Then::Wait {
                over.store(lane.is_over(), Ordering::Relaxed);
            }
            if done(false, lane.now()) {
                break;
            }
            if then != Then::Again && done(lane.sleep(then, fds)?, lane.now()) {
                break;
            }
            if lane.is_asked() {
                break;
            }
        }
        let asked = lane.is_asked();
        drop(lane);
        if asked {
            std::thread::sleep(Duration::from_micros(20));
        }
        Ok(())
    }

    /// Sends what still waits, as long as there is hope.
    fn drain(&self) -> io::Result<()> {
        let until = self.clock.now().after(PATIENCE);
        let mut drained = false;
        while !drained && self.clock.now() < until {
            drained = true;
            self.each_lane(|lane| {
                lane.flush();
                drained &= lane.is_drained();
            });
            if !drained {
                dispatch::wait_readable(&[], Some(Duration::from_micros(50)))?;
            }
        }
        self.each_lane(|lane| lane.give_up());
        Ok(())
    }
}
