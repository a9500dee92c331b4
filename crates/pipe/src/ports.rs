//! Ports as sources and sinks.

use crate::run::{RunError, Sink, Source};
use crate::stage::BadLink;
use crate::{BadOutput, Frames, Time, os};
use buf::{Burst, Frame, Pool};
use clock::{Clock, Duration, Instant, Strategy};
use port::spec::{Kind, Spec};
use port::{Caps, Port, PortCounts, RxHalf, TxHalf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::text::Stamp;

/// A burst's frames at most.
pub(crate) const MOST: usize = 256;
/// Between two looks at a port that nothing announces.
const LOOK: Duration = Duration::from_micros(50);
/// The longest sleep, so that a request to stop is seen.
const NAP: Duration = Duration::from_millis(50);

/// Whole frames, as they were on a wire: devices that would leave checksums open and segments uncut are asked not to, unless the
/// name says otherwise.
pub fn whole_frames(spec: &mut Spec) {
    let options = match spec.port.kind {
        Kind::Tap | Kind::Packet => &[("lro", "off"), ("tso", "off"), ("rx_csum", "complete")][..],
        Kind::Xdp => &[("rx_csum", "complete")],
        _ => return,
    };
    for (option, value) in options {
        if !spec.port.is_set(option) {
            // An option of the kind and a value of its form.
            let _ = spec.port.set(option, value);
        }
    }
}

/// The clock of stamps: what all processes of a machine agree on, in ticks.
#[derive(Debug, Clone)]
pub struct Counter {
    clock: Clock,
    /// What the clock's zero is, of CLOCK_MONOTONIC.
    zero_ns: u64,
    tick_ns: u64,
}

impl Counter {
    /// One whose tick is `tick_ns`.
    pub fn new(tick_ns: u64) -> Counter {
        let clock = Clock::live(Strategy::TscScaled);
        let zero_ns = os::monotonic_ns().saturating_sub(clock.now().nanos());
        Counter { clock, zero_ns, tick_ns: tick_ns.max(1) }
    }

    /// The clock itself.
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// The present.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// The counter at `now`.
    pub fn ticks(&self, now: Instant) -> u64 {
        ((self.zero_ns + now.nanos()) / self.tick_ns) & Stamp::TICKS
    }

    /// When the counter is at `ticks`: the nearest such time, before or behind `now`; what is before is `now`.
    pub fn when(&self, ticks: u64, now: Instant) -> Instant {
        self.behind(ticks, 0, now)
    }

    /// `ticks` behind the time at which the counter was, or will be, at `base`; what is before `now` is `now`.
    pub fn behind(&self, base: u64, ticks: u64, now: Instant) -> Instant {
        let ahead = base.wrapping_sub(self.ticks(now)) & Stamp::TICKS;
        // The counter is a circle: more than half of it ahead is behind.
        let past = if ahead > Stamp::TICKS / 2 { Stamp::TICKS + 1 - ahead } else { 0 };
        let ahead = if past > 0 { 0 } else { ahead };
        now.after(self.span((ahead + ticks).saturating_sub(past)))
    }

    /// How long `ticks` are.
    pub fn span(&self, ticks: u64) -> Duration {
        Duration::from_nanos(ticks.saturating_mul(self.tick_ns))
    }
}

/// What is said about a frame's arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrivals {
    /// Nothing.
    Unsaid,
    /// A stamp of the counter.
    Stamped,
    /// The calendar's time, for captures.
    Wall,
}

/// A port that is read.
pub struct PortSource {
    rx: Box<dyn RxHalf>,
    /// A generator's other half, or one that nobody writes to: it stays open.
    _tx: Option<Box<dyn TxHalf>>,
    burst: Burst,
    counter: Counter,
    arrivals: Arrivals,
    stop: fn() -> bool,
    left: u64,
    refused: u64,
}

impl PortSource {
    /// Frames that `rx` receives, `count` of them at most, with their `arrivals`, until the port is over or `stop` says so.
    pub fn new(
        rx: Box<dyn RxHalf>,
        tx: Option<Box<dyn TxHalf>>,
        counter: Counter,
        arrivals: Arrivals,
        count: Option<u64>,
        stop: fn() -> bool,
    ) -> PortSource {
        let left = count.unwrap_or(u64::MAX);
        PortSource { rx, _tx: tx, burst: Burst::default(), counter, arrivals, stop, left, refused: 0 }
    }

    /// Frames that no line can hold: shorter than a header, or longer than 262,144 bytes.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// What was wrong with what came in, a sentence each.
    pub fn remarks(&self) -> Vec<String> {
        self.rx.remarks()
    }

    /// Counts frames that no line can hold.
    pub fn refuse(&mut self, frames: u64) {
        self.refused += frames;
    }

    /// The clock of its stamps.
    pub fn counter(&self) -> &Counter {
        &self.counter
    }

    /// Waits until there may be frames; `false` if there will be none.
    fn wait(&mut self) -> Result<bool, RunError> {
        if self.rx.is_gone() {
            let why = self.rx.why_gone();
            return why.map_or(Ok(false), |why| Err(RunError::Output(std::io::Error::other(why))));
        }
        if self.rx.is_silent() || (self.stop)() {
            return Ok(false);
        }
        let now = self.counter.now();
        let event = self.rx.next_event().map(|at| at.since(now));
        match self.rx.wait_fd() {
            Some(fd) => {
                dispatch::wait_readable(&[fd], Some(event.map_or(NAP, |event| event.min(NAP))))?;
            }
            None => std::thread::sleep(event.unwrap_or(LOOK).min(LOOK)),
        }
        Ok(true)
    }

    /// The next burst, at least one frame; `None` at the end.
    ///
    /// # Errors
    /// Why the port has ended.
    pub fn burst(&mut self) -> Result<Option<(&mut Burst, Instant)>, RunError> {
        loop {
            if self.left == 0 || (self.stop)() {
                return Ok(None);
            }
            if let Some(now) = self.receive() {
                return Ok(Some((&mut self.burst, now)));
            }
            if !self.wait()? {
                return Ok(None);
            }
        }
    }

    /// [`PortSource::burst`] if there are frames now.
    pub fn burst_now(&mut self) -> Option<(&mut Burst, Instant)> {
        let now = self.receive()?;
        Some((&mut self.burst, now))
    }

    /// Receives what is there, and says when.
    fn receive(&mut self) -> Option<Instant> {
        let most = MOST.min(usize::try_from(self.left).unwrap_or(MOST));
        let now = self.counter.now();
        let got = self.rx.rx_burst(&mut self.burst, most, now);
        self.left -= got as u64;
        (got > 0).then_some(now)
    }
}

impl Source for PortSource {
    fn read(&mut self, frames: &mut Frames) -> Result<bool, RunError> {
        let (arrivals, counter) = (self.arrivals, self.counter.clone());
        let Some((burst, now)) = self.burst()? else { return Ok(false) };
        let time = match arrivals {
            Arrivals::Unsaid => Time::None,
            Arrivals::Stamped => Time::Stamp(Stamp::arrival(counter.ticks(now))),
            Arrivals::Wall => Time::Wall(port::os::calendar_ns()),
        };
        let refused = burst.drain().filter(|frame| !frames.push(frame.bytes(), time)).count();
        self.refused += refused as u64;
        Ok(true)
    }
}

/// The local times that stamps of frames to be sent count from: registers 1 to 7, in ticks of the counter. All who were given a copy
/// share them.
#[derive(Debug, Clone)]
pub struct Registers(Arc<[AtomicU64; Registers::COUNT]>);

impl Registers {
    /// 0 to 7; 0 is the counter itself.
    const COUNT: usize = 8;

    /// All at `ticks`.
    pub fn new(ticks: u64) -> Registers {
        Registers(Arc::new(std::array::from_fn(|_| AtomicU64::new(ticks))))
    }

    /// What register `number` is at; `None` if there is no such register.
    pub fn get(&self, number: usize) -> Option<u64> {
        let register = self.0.get(number).filter(|_| number > 0)?;
        Some(register.load(Ordering::Relaxed))
    }

    /// Sets register `number`, if there is one.
    pub fn set(&self, number: usize, ticks: u64) {
        if let Some(register) = self.0.get(number) {
            register.store(ticks & Stamp::TICKS, Ordering::Relaxed);
        }
    }

    /// When a frame with this stamp is to leave; sets the register that it names first, if it says so.
    pub fn due(&self, stamp: Stamp, counter: &Counter, now: Instant) -> Instant {
        if stamp.at_once() {
            return now;
        }
        let register = usize::from(stamp.register());
        if stamp.reset() {
            self.set(register, counter.ticks(now));
        }
        match self.get(register) {
            Some(base) => counter.behind(base, stamp.ticks(), now),
            None => counter.when(stamp.ticks(), now),
        }
    }
}

/// A port that is written to.
pub struct PortSink {
    tx: Box<dyn TxHalf>,
    pool: Pool,
    burst: Burst,
    counter: Counter,
    registers: Registers,
    /// Are stamps obeyed?
    timed: bool,
    stop: fn() -> bool,
    caps: Caps,
    counts: Arc<PortCounts>,
    sent: u64,
    too_long: u64,
}

impl PortSink {
    /// Sends through `port`, with buffers of `pool`; a frame whose stamp says when waits for its time if `timed`.
    pub fn new(
        port: Port,
        pool: Pool,
        counter: Counter,
        timed: bool,
        stop: fn() -> bool,
    ) -> (PortSink, Box<dyn RxHalf>) {
        let registers = Registers::new(counter.ticks(counter.now()));
        let sink = PortSink {
            tx: port.tx,
            pool,
            burst: Burst::default(),
            counter,
            registers,
            timed,
            stop,
            caps: port.caps,
            counts: port.counts,
            sent: 0,
            too_long: 0,
        };
        (sink, port.rx)
    }

    /// Counts from these registers, which others may set.
    pub fn share(&mut self, registers: Registers) {
        self.registers = registers;
    }

    /// Frames that the port took, and those that were longer than it takes.
    pub fn counts(&self) -> (u64, u64) {
        (self.sent, self.too_long)
    }

    /// Returns whether the port has ended: its reader or its device went away.
    pub fn is_gone(&self) -> bool {
        self.tx.is_gone()
    }

    /// What the port itself counted.
    pub fn port_counts(&self) -> &PortCounts {
        &self.counts
    }

    /// Until `due`, to the microsecond: asleep, and at the end awake.
    fn wait_until(&mut self, due: Instant) -> Result<(), RunError> {
        const AWAKE: Duration = Duration::from_micros(100);
        loop {
            let now = self.counter.now();
            let left = due.since(now);
            if left.is_zero() {
                return Ok(());
            }
            if (self.stop)() {
                return Err(stopped());
            }
            if left > AWAKE {
                std::thread::sleep((left - AWAKE).min(NAP));
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Sends what was collected; waits while the port is full.
    fn flush(&mut self) -> Result<(), RunError> {
        while !self.burst.is_empty() {
            let now = self.counter.now();
            self.tx.poll(now);
            let sent = self.tx.tx_burst(&mut self.burst, now);
            self.sent += sent as u64;
            self.reach()?;
            if sent == 0 {
                if (self.stop)() {
                    return Err(stopped());
                }
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }

    /// Lets the port send what it still holds by time.
    ///
    /// # Errors
    /// A request to stop.
    pub fn drain(&mut self) -> Result<(), RunError> {
        self.flush()?;
        while let Some(at) = self.tx.next_event() {
            self.wait_until(at)?;
            let now = self.counter.now();
            self.tx.poll(now);
            self.reach()?;
        }
        self.tx.finish();
        self.reach()
    }

    /// Is anybody still reached through the port? A reader that went away is a closed pipe.
    fn reach(&self) -> Result<(), RunError> {
        if !self.tx.is_gone() {
            return Ok(());
        }
        let closed = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        Err(RunError::Output(self.tx.why_gone().map_or_else(closed, std::io::Error::other)))
    }
}

fn stopped() -> RunError {
    RunError::Output(std::io::Error::new(std::io::ErrorKind::Interrupted, "stopped before all was sent"))
}

impl Sink for PortSink {
    fn end(&mut self) -> Result<(), RunError> {
        self.drain()
    }

    fn write(&mut self, frames: &Frames) -> Result<(), RunError> {
        BadLink::check(frames, "sent").map_err(BadOutput::from)?;
        // A port of files takes whatever a buffer holds.
        let longest = match self.caps.mtu {
            u16::MAX => usize::MAX,
            mtu => usize::from(mtu) + wire::eth::HEADER_LEN + wire::vlan::TAG_LEN,
        };
        for (bytes, time) in frames.iter() {
            if let Time::Stamp(stamp) = time
                && self.timed
            {
                let now = self.counter.now();
                let due = self.registers.due(stamp, &self.counter, now);
                if due > now {
                    self.flush()?;
                    self.wait_until(due)?;
                }
            }
            if bytes.len() > longest {
                self.too_long += 1;
                continue;
            }
            let mut frame = self.buffer()?;
            if frame.extend(bytes).is_none() {
                self.too_long += 1;
                continue;
            }
            // There is room: what was full has been flushed.
            self.burst.put(frame, || self.counts.tx.bugs.bump());
            if self.burst.len() >= MOST || self.burst.room() == 0 {
                self.flush()?;
            }
        }
        self.flush()
    }
}

impl PortSink {
    /// An empty buffer; waits while those under way have them all.
    fn buffer(&mut self) -> Result<Frame, RunError> {
        loop {
            if let Some(frame) = self.pool.get() {
                return Ok(frame);
            }
            self.flush()?;
            if (self.stop)() {
                return Err(stopped());
            }
            let now = self.counter.now();
            self.tx.poll(now);
            std::thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_counts_from_its_register() {
        let counter = Counter::new(8);
        let now = counter.now();
        let registers = Registers::new(counter.ticks(now));
        let tick = |ticks: u64| counter.span(ticks);
        let after = |due: Instant| due.since(now);
        assert_eq!(after(registers.due(Stamp::at(1, false, 1000), &counter, now)), tick(1000));
        registers.set(1, counter.ticks(now) - 600);
        assert_eq!(after(registers.due(Stamp::at(1, false, 1000), &counter, now)), tick(400));
        assert_eq!(after(registers.due(Stamp::at(1, false, 10), &counter, now)), tick(0), "the past is now");
        assert_eq!(after(registers.due(Stamp::at(1, true, 10), &counter, now)), tick(10));
        assert_eq!(registers.get(1), Some(counter.ticks(now)));
        registers.set(2, counter.ticks(now) + 50);
        assert_eq!(after(registers.due(Stamp::at(2, false, 10), &counter, now)), tick(60));
        let at = counter.ticks(now) + 77;
        assert_eq!(after(registers.due(Stamp::arrival(at), &counter, now)), tick(77), "register 0 is the counter");
        assert_eq!((registers.get(0), registers.get(8)), (None, None));
    }
}
