//! Runs a switch. The first loop runs in the caller's thread, which also serves the control socket.
//! Each other loop and each worker has a thread of its own.

use super::Switch;
use super::poison::lock;
use crate::control::SwitchServer;
use clock::{Duration, Instant};
use dispatch::dataflow::Dataflow;
use dispatch::polling::Then;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle};

/// Interval at which the control socket is checked while there is work.
const LOOK: Duration = Duration::from_millis(1);
/// Maximum time for sending the remaining frames at the end.
const PATIENCE: Duration = Duration::from_millis(100);

/// Condition under which a switch ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Until {
    /// The caller has stopped the switch.
    Stopped,
    /// The caller has stopped the switch, or no port can deliver another frame.
    Over,
}

/// Function that starts a thread.
type Begin = for<'scope> fn(&'scope Scope<'scope, '_>, &str, Work<'scope>) -> io::Result<Thread<'scope>>;
type Work<'scope> = Box<dyn FnOnce() -> io::Result<()> + Send + 'scope>;
type Thread<'scope> = ScopedJoinHandle<'scope, io::Result<()>>;

fn begin<'scope>(scope: &'scope Scope<'scope, '_>, name: &str, work: Work<'scope>) -> io::Result<Thread<'scope>> {
    dispatch::spawn_scoped(scope, name, work)
}

/// Guard of the first loop. When the loop ends for any reason, the guard is dropped and stops the
/// other threads, for which the thread scope waits.
struct End<'a> {
    ended: &'a AtomicBool,
    flow: Option<&'a Dataflow>,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(flow) = self.flow {
            flow.finish(); // after the workers have processed the dispatched frames
        }
    }
}

impl Switch {
    /// Runs until `stop` returns true or, with [`Until::Over`], until all ports have ended. Then
    /// sends the waiting frames, for at most 100 ms, and drops the rest.
    ///
    /// # Errors
    /// Returns errors of the system: a thread cannot be created, or polling failed.
    pub fn run(
        &self,
        control: Option<&mut SwitchServer>,
        until: Until,
        stop: impl Fn() -> bool + Sync,
    ) -> io::Result<()> {
        self.run_by(begin, control, until, stop)
    }

    /// Runs the switch with threads started by `begin`.
    fn run_by(
        &self,
        begin: Begin,
        mut control: Option<&mut SwitchServer>,
        until: Until,
        stop: impl Fn() -> bool + Sync,
    ) -> io::Result<()> {
        let over: Vec<AtomicBool> = (0..self.loops()).map(|_| AtomicBool::new(false)).collect();
        let ended = AtomicBool::new(false);
        let is_over = || until == Until::Over && over.iter().all(|over| over.load(Ordering::Relaxed));
        let ends = || ended.load(Ordering::Relaxed) || stop() || is_over();
        let ends = &ends;
        if let Some(flow) = &self.flow {
            flow.resume();
        }
        std::thread::scope(|scope| {
            let end = End { ended: &ended, flow: self.flow.as_deref() };
            let mut threads = Vec::new();
            for (number, over) in over.iter().enumerate().skip(1) {
                let work = move || {
                    while !ends() {
                        self.keep(number, &[], over, |_, _| ends())?;
                    }
                    Ok(())
                };
                threads.push(begin(scope, &format!("{}.{number}", self.name), Box::new(work))?);
            }
            for number in self.loops()..self.threads() {
                let name = format!("{}.{number}", self.name);
                let work = move || {
                    self.work(number);
                    Ok(())
                };
                threads.push(begin(scope, &name, Box::new(work))?);
            }
            let ran = self.first(&mut control, over.first(), ends);
            drop(end);
            // A thread that fails ends alone. The other threads end after the first loop has ended.
            for thread in threads {
                thread.join().unwrap_or_else(|_| Err(io::Error::other("a loop panicked")))?;
            }
            ran
        })?;
        self.drain()
    }

    /// Body of the thread of a worker: processes dispatched frames until the dispatcher has
    /// finished. It releases its lock while it sleeps.
    fn work(&self, number: usize) {
        let (Some(thread), Some(flow)) = (self.threads.get(number), &self.flow) else { return };
        loop {
            let mut thread = lock(thread);
            while thread.turn() == Then::Again && !thread.is_lock_requested() {}
            let requested = thread.is_lock_requested();
            drop(thread);
            if requested {
                std::thread::sleep(Duration::from_micros(20));
            } else if !flow.rest(number - self.loops()) {
                return;
            }
        }
    }

    /// Runs the first loop, and serves the control socket between its turns.
    fn first(
        &self,
        control: &mut Option<&mut SwitchServer>,
        over: Option<&AtomicBool>,
        ends: impl Fn() -> bool,
    ) -> io::Result<()> {
        let Some(over) = over else { return Ok(()) };
        while !ends() {
            let now = self.clock.now();
            let mut look = Instant::NEVER;
            if let Some(server) = control {
                server.serve(self);
                look = now.after(LOOK);
            }
            self.serve_figures();
            look = look.min(self.tend());
            let mut fds = control.as_ref().map(|control| control.server.fds()).unwrap_or_default();
            if let Some(source) = self.figures.get() {
                fds.push(source.fd());
                look = look.min(now.after(LOOK));
            }
            self.keep(0, &fds, over, |ready, now| ready || now >= look || self.inbox.is_some() || ends())?;
        }
        Ok(())
    }

    /// Runs turns of thread `number` until `done` returns true, or until another thread requests
    /// its lock. The arguments of `done` are whether one of `fds` is readable, and the time.
    fn keep(
        &self,
        number: usize,
        fds: &[BorrowedFd<'_>],
        over: &AtomicBool,
        done: impl Fn(bool, Instant) -> bool,
    ) -> io::Result<()> {
        let Some(thread) = self.threads.get(number) else { return Ok(()) };
        let mut thread = lock(thread);
        loop {
            let then = thread.turn();
            if then == Then::Wait {
                over.store(thread.is_over(), Ordering::Relaxed);
            }
            if done(false, thread.now()) {
                break;
            }
            if then != Then::Again && done(thread.sleep(then, fds)?, thread.now()) {
                break;
            }
            if thread.is_lock_requested() {
                break;
            }
        }
        let requested = thread.is_lock_requested();
        drop(thread);
        if requested {
            std::thread::sleep(Duration::from_micros(20));
        }
        Ok(())
    }

    /// Sends waiting frames, for at most [`PATIENCE`].
    fn drain(&self) -> io::Result<()> {
        let until = self.clock.now().after(PATIENCE);
        let mut drained = false;
        while !drained && self.clock.now() < until {
            drained = true;
            self.each_thread(|thread| {
                thread.flush();
                drained &= thread.is_drained();
            });
            if !drained {
                dispatch::wait_readable(&[], Some(Duration::from_micros(50)))?;
            }
        }
        self.each_thread(|thread| thread.give_up());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
