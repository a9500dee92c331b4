//! Blocking calls and time.
//!
//! Time advances from event to event. Events are timers of the stack and deadlines of blocked
//! calls. A virtual clock advances when the script sleeps, waits for a packet, or reads the time. A
//! live clock is synchronized with real time on each call. With both clocks, each event is
//! processed at its own time.
//!
//! After every event, a blocked call is retried by the thread that caused the event. The effects of
//! the call therefore occur at the time of the event, not when the calling thread runs again. The
//! calling thread sleeps meanwhile. Its next reading of the clock returns the time at which its
//! call completed.

mod quiet;

use crate::Errno;
use crate::files::Files;
use crate::flags::{Settings, Time};
use crate::follow::Follow;
use crate::host::{self, Host};
use clock::{Clock, Duration, Instant, Strategy};
use pkt::host::START;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

/// Time 0 of the virtual clock, in seconds since 1970. A script's times are relative to its start.
const EPOCH_S: u64 = 1_000_000_000;
/// Time added by each reading of a virtual clock, so that a loop that polls the clock terminates.
const GLANCE: Duration = Duration::from_micros(1);
/// Maximum virtual time to wait for a packet; timers run meanwhile.
const PATIENCE: Duration = Duration::from_secs(7200);
/// Maximum time to wait for a packet on a live clock.
const PATIENCE_LIVE: Duration = Duration::from_secs(60);
/// Real time after which a thread in a blocked call checks whether another thread advances virtual
/// time.
const LOOK: Duration = Duration::from_millis(2);
/// Maximum number of successive events. Then time is advanced even if further events are due.
const EVENTS_MAX: usize = 1_000_000;

/// Position of an attempt among the attempts of a blocked call: more may follow, or it is the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Chance {
    /// More attempts may follow.
    More,
    /// This is the last attempt, because the deadline has passed.
    Last,
}

/// One attempt of a blocked call. Returns `true` when the call is done.
type Attempt = Box<dyn FnMut(&mut State, Chance) -> bool + Send>;

struct Wait {
    id: u64,
    until: Instant,
    attempt: Attempt,
    done: Option<Instant>,
}

/// All state of an instance, protected by its mutex.
pub(crate) struct State {
    pub host: Host,
    /// Value of `tcp_notsent_lowat` in bytes, for sockets without `TCP_NOTSENT_LOWAT`.
    pub lowat: u32,
    pub files: Files,
    follow: Option<Follow>,
    waits: Vec<Wait>,
    made: u64,
    /// Threads whose blocked call has completed, with the time of completion. The thread's next
    /// reading of the clock returns this time.
    stamps: Vec<(ThreadId, Instant)>,
    /// Number of calls so far, with which a blocked thread detects activity of other threads.
    entered: u64,
    live: Option<Live>,
}

/// A real clock, and its value at the start.
struct Live {
    clock: Clock,
    began: Instant,
}

impl Live {
    fn now(&self) -> Instant {
        START.after(self.clock.now().since(self.began))
    }
}

/// One instance of packetdrill's interface: a host, its descriptors, and its clock.
pub(crate) struct Door {
    state: Mutex<State>,
    woken: Condvar,
}

impl Door {
    /// Creates an instance.
    ///
    /// # Errors
    /// Returns an error message.
    pub fn new(settings: &Settings) -> Result<Door, String> {
        let live = (settings.time == Time::Live).then(|| {
            let clock = Clock::live(Strategy::default());
            Live { began: clock.now(), clock }
        });
        let mut state = State {
            host: host::new(settings)?,
            lowat: u32::MAX,
            files: Files::default(),
            follow: settings.follow.then(Follow::new).flatten(),
            waits: Vec::new(),
            made: 0,
            stamps: Vec::new(),
            entered: 0,
            live,
        };
        for (name, value) in &settings.sysctls {
            state.set(name, value)?;
        }
        Ok(Door { state: Mutex::new(state), woken: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a call. Events that are already due are processed before the call. Events that the call
    /// makes due are processed before this function returns.
    pub fn enter<T>(&self, call: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        state.begin();
        let done = call(&mut state);
        self.leave(&mut state);
        done
    }

    fn leave(&self, state: &mut State) {
        state.run_until_idle();
        if state.waits.iter().any(|wait| wait.done.is_some()) {
            self.woken.notify_all();
        }
    }

    /// Runs a call that may block. Repeats `attempt` until it returns a value, or until the time
    /// returned by `until`, which is called after the first failed attempt. Returns `None` if the
    /// deadline has passed and the last attempt has also failed.
    pub fn wait<T: Send + 'static>(
        &self,
        until: impl FnOnce(&mut State) -> Instant,
        mut attempt: impl FnMut(&mut State, Chance) -> Option<T> + Send + 'static,
    ) -> Option<T> {
        let mut state = self.lock();
        state.begin();
        if let Some(done) = attempt(&mut state, Chance::More) {
            self.leave(&mut state);
            return Some(done);
        }
        let until = until(&mut state);
        if until <= state.host.now() {
            let done = attempt(&mut state, Chance::Last);
            self.leave(&mut state);
            return done;
        }
        let result = Arc::new(Mutex::new(None));
        let there = Arc::clone(&result);
        let attempt = move |state: &mut State, chance| {
            let done = attempt(state, chance);
            let is_done = done.is_some();
            *there.lock().unwrap_or_else(PoisonError::into_inner) = done;
            is_done
        };
        let id = state.made;
        state.made += 1;
        state.waits.push(Wait { id, until, attempt: Box::new(attempt), done: None });
        self.leave(&mut state);
        loop {
            let done = state.waits.iter().position(|wait| wait.id == id && wait.done.is_some());
            if let Some(at) = done {
                let wait = state.waits.swap_remove(at);
                let me = std::thread::current().id();
                state.stamps.retain(|(thread, _)| *thread != me);
                let at = wait.done.unwrap_or(state.host.now());
                state.stamps.push((me, at));
                return result.lock().unwrap_or_else(PoisonError::into_inner).take();
            }
            state = self.sleep(state);
        }
    }

    /// Waits briefly for another thread to advance time. If all other threads wait, this thread
    /// advances it.
    fn sleep<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        let entered = state.entered;
        let pause = match &state.live {
            None => LOOK,
            Some(live) => state.next().since(live.now()).clamp(Duration::from_micros(50), LOOK * 50),
        };
        let (mut state, timeout) = self.woken.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            match &state.live {
                Some(live) => {
                    let now = live.now();
                    state.advance(now);
                }
                // All other threads sleep and have made no call, so they wait for this one.
                None if state.entered == entered && quiet::others_sleep() => {
                    let next = state.next();
                    state.advance(next);
                }
                None => {}
            }
            self.leave(&mut state);
        }
        state
    }

    /// Implements usleep(3).
    pub fn usleep(&self, span: Duration) {
        let mut state = self.lock();
        state.begin();
        let end = state.host.now().after(span);
        loop {
            let Some(live) = &state.live else {
                state.advance(end);
                break;
            };
            let now = live.now();
            let target = now.min(end);
            state.advance(target);
            if now >= end {
                break;
            }
            let pause = state.next().min(end).since(now);
            self.leave(&mut state);
            (state, _) = self.woken.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner);
        }
        self.leave(&mut state);
    }

    /// Implements gettimeofday(2). Returns seconds and microseconds.
    pub fn time(&self) -> (u64, u32) {
        let mut state = self.lock();
        let me = std::thread::current().id();
        if let Some(at) = state.stamps.iter().position(|(thread, _)| *thread == me) {
            return seconds(state.stamps.swap_remove(at).1);
        }
        state.begin();
        let now = state.host.now();
        if state.live.is_none() {
            state.advance(now.after(GLANCE));
        }
        self.leave(&mut state);
        seconds(now)
    }

    /// Returns the number of the host's frames that are unaccounted for (neither sent, consumed,
    /// dropped nor held); 0 unless there is a bug.
    pub fn imbalance(&self) -> i64 {
        self.enter(|state| state.host.stack.audit(state.host.cx()).imbalance())
    }

    /// Implements `netdev_send`: passes a packet to the host.
    ///
    /// # Errors
    /// Returns `EINVAL` if the packet is invalid.
    pub fn send_packet(&self, packet: &[u8]) -> Result<(), Errno> {
        self.enter(|state| host::input(&state.host, packet).map_err(|()| libc::EINVAL))
    }

    /// Implements `netdev_receive`: returns the host's next packet and its send time in
    /// microseconds since 1970; `None` if the host will send no packet.
    pub fn receive_packet(&self) -> Option<(u64, Vec<u8>)> {
        let mut state = self.lock();
        state.begin();
        let patience = if state.live.is_some() { PATIENCE_LIVE } else { PATIENCE };
        let end = state.host.now().after(patience);
        let packet = loop {
            if let Some((at, packet)) = state.host.output() {
                let (s, us) = seconds(at);
                break Some((s * 1_000_000 + u64::from(us), packet));
            }
            let next = state.next();
            if next > end {
                break None;
            }
            match &state.live {
                None => state.advance(next),
                Some(live) => {
                    let pause = next.since(live.now());
                    self.leave(&mut state);
                    (state, _) = self.woken.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner);
                    state.begin();
                }
            }
        };
        self.leave(&mut state);
        packet
    }
}

fn seconds(at: Instant) -> (u64, u32) {
    let since = at.since(START);
    (EPOCH_S + since.as_secs(), since.subsec_micros())
}

impl State {
    /// Updates sysctls and time at the start of a call.
    fn begin(&mut self) {
        self.entered += 1;
        if let Some(follow) = &mut self.follow {
            // Sysctls without an equivalent in our stack are ignored, since the script may not
            // depend on them.
            for (name, value) in follow.written() {
                let _ = self.set(&name, &value);
            }
        }
        if let Some(live) = &self.live {
            let now = live.now();
            self.advance(now);
        }
    }

    /// Sets a sysctl, given by our name or by Linux's name.
    ///
    /// # Errors
    /// Returns a message if the sysctl is unknown or the value invalid.
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if name.ends_with("tcp_notsent_lowat") {
            self.lowat = value.trim().parse().map_err(|_| format!("{name}={value}: expected a number of bytes"))?;
            return Ok(());
        }
        self.host.stack.sysctls.set_as_linux(name, value)
    }

    /// Returns the time of the next event.
    fn next(&self) -> Instant {
        let deadlines = self.waits.iter().filter(|wait| wait.done.is_none()).map(|wait| wait.until);
        deadlines.fold(self.host.poll().unwrap_or(Instant::NEVER), Instant::min)
    }

    /// Advances time to `to`; events that are due earlier are processed at their own time.
    fn advance(&mut self, to: Instant) {
        for _ in 0..EVENTS_MAX {
            self.run_until_idle();
            let next = self.next();
            if next > to || next == Instant::NEVER || to <= self.host.now() {
                break;
            }
            self.host.advance(next);
        }
        if to != Instant::NEVER {
            self.host.advance(to);
        }
        self.run_until_idle();
    }

    /// Runs timers that are due and retries blocked calls, until no further call completes.
    fn run_until_idle(&mut self) {
        loop {
            self.host.poll();
            let mut waits = std::mem::take(&mut self.waits);
            let mut progress = false;
            for wait in waits.iter_mut().filter(|wait| wait.done.is_none()) {
                let chance = if wait.until <= self.host.now() { Chance::Last } else { Chance::More };
                if (wait.attempt)(self, chance) || chance == Chance::Last {
                    wait.done = Some(self.host.now());
                    progress = true;
                }
            }
            waits.append(&mut self.waits);
            self.waits = waits;
            if !progress {
                return;
            }
        }
    }
}
