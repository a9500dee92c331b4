//! Ports as sources and sinks of frames, and the counter from which their time stamps are taken.

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

/// Maximum number of frames in a burst.
pub(crate) const MOST: usize = 256;
/// Polling interval of a port without a descriptor to wait for.
const LOOK: Duration = Duration::from_micros(50);
/// Maximum time between two checks for a request to stop.
const NAP: Duration = Duration::from_millis(50);

/// Sets the options of a port so that it passes frames as on a wire: LRO and TSO off, checksums
/// complete. A stream port on a UNIX socket ends with its first connection, like a pipe. Options
/// that the port specification sets are kept.
pub fn whole_frames(spec: &mut Spec) {
    let options = match spec.port.kind {
        Kind::Tap | Kind::Tun | Kind::Packet => &[("lro", "off"), ("tso", "off"), ("rx_csum", "complete")][..],
        Kind::Xdp => &[("rx_csum", "complete")],
        Kind::Unix => &[("reconnect", "0s")],
        _ => return,
    };
    for (option, value) in options {
        if !spec.port.is_set(option) {
            // The option exists for this kind of port and accepts the value, so no error is
            // possible.
            let _ = spec.port.set(option, value);
        }
    }
}

/// Counter of ticks for time stamps. All processes of the machine read the same value.
#[derive(Debug, Clone)]
pub struct Counter {
    clock: Clock,
    /// Value of CLOCK_MONOTONIC, in nanoseconds, when `clock` is zero.
    zero_ns: u64,
    tick_ns: u64,
}

impl Counter {
    /// Creates a counter with a tick of `tick_ns` nanoseconds.
    pub fn new(tick_ns: u64) -> Counter {
        let clock = Clock::live(Strategy::TscScaled);
        let zero_ns = os::monotonic_ns().saturating_sub(clock.now().nanos());
        Counter { clock, zero_ns, tick_ns: tick_ns.max(1) }
    }

    /// Returns the clock from which the counter is derived.
    pub fn clock(&self) -> Clock {
        self.clock.clone()
    }

    /// Returns the current time.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Returns the counter value at `now`.
    pub fn ticks(&self, now: Instant) -> u64 {
        ((self.zero_ns + now.nanos()) / self.tick_ns) & Stamp::TICKS
    }

    /// Returns the time nearest to `now` at which the counter has the value `ticks`. There are
    /// several such times, because the counter wraps. If the nearest one is before `now`, returns
    /// `now`.
    pub fn when(&self, ticks: u64, now: Instant) -> Instant {
        self.behind(ticks, 0, now)
    }

    /// Returns the time that is `ticks` ticks after the moment at which the counter has the value
    /// `base`, past or future. If that time is in the past, returns `now`.
    pub fn behind(&self, base: u64, ticks: u64, now: Instant) -> Instant {
        let ahead = base.wrapping_sub(self.ticks(now)) & Stamp::TICKS;
        // The counter wraps, so a distance of more than half its range counts as the past.
        let past = if ahead > Stamp::TICKS / 2 { Stamp::TICKS + 1 - ahead } else { 0 };
        let ahead = if past > 0 { 0 } else { ahead };
        now.after(self.span((ahead + ticks).saturating_sub(past)))
    }

    /// Returns the length of `ticks` ticks as a duration.
    pub fn span(&self, ticks: u64) -> Duration {
        Duration::from_nanos(ticks.saturating_mul(self.tick_ns))
    }
}

/// Kind of time that is recorded for received frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrivals {
    /// No time is recorded.
    Unsaid,
    /// The value of the [`Counter`] as a stamp.
    Stamped,
    /// Calendar time, for captures.
    Wall,
}

/// A port as a source of frames.
pub struct PortSource {
    rx: Box<dyn RxHalf>,
    /// The transmit half of the port, which is not used but keeps the port open.
    _tx: Option<Box<dyn TxHalf>>,
    burst: Burst,
    counter: Counter,
    arrivals: Arrivals,
    stop: fn() -> bool,
    left: u64,
    refused: u64,
}

impl PortSource {
    /// Creates a source that receives at most `count` frames from `rx` (`None`: no limit), until
    /// the port ends or `stop` returns true. `arrivals` selects the time recorded for the frames.
    /// `tx` is not used, only kept open.
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

    /// Returns the number of received frames that cannot be represented as a line, because they are
    /// shorter than an Ethernet header or longer than 262,144 bytes.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the receive warnings of the port, one sentence each.
    pub fn warnings(&self) -> Vec<String> {
        self.rx.warnings()
    }

    /// Adds `frames` to the number of frames that cannot be represented as a line.
    pub fn refuse(&mut self, frames: u64) {
        self.refused += frames;
    }

    /// Returns the counter of the stamps.
    pub fn counter(&self) -> &Counter {
        &self.counter
    }

    /// Waits until frames may have arrived. Returns false if no more frames will arrive.
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

    /// Waits for the next burst of at least one frame. Returns the burst with its arrival time, or
    /// `None` at the end.
    ///
    /// # Errors
    /// Reason why the port failed.
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

    /// Returns the next burst as [`PortSource::burst`] does, or `None` at once if no frames are
    /// available.
    pub fn burst_now(&mut self) -> Option<(&mut Burst, Instant)> {
        let now = self.receive()?;
        Some((&mut self.burst, now))
    }

    /// Receives the frames that are available. Returns their arrival time, or `None` if there are
    /// none.
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

/// Local-time registers 1 to 7, as in ethpipe. Each contains a value of the [`Counter`], to which
/// the stamps of frames to send are relative. Clones share the registers.
#[derive(Debug, Clone)]
pub struct Registers(Arc<[AtomicU64; Registers::COUNT]>);

impl Registers {
    /// Number of register numbers, 0 to 7. Number 0 means the counter itself.
    const COUNT: usize = 8;

    /// Creates the registers, all set to `ticks`.
    pub fn new(ticks: u64) -> Registers {
        Registers(Arc::new(std::array::from_fn(|_| AtomicU64::new(ticks))))
    }

    /// Returns the value of register `number`, or `None` if there is no such register.
    pub fn get(&self, number: usize) -> Option<u64> {
        let register = self.0.get(number).filter(|_| number > 0)?;
        Some(register.load(Ordering::Relaxed))
    }

    /// Sets register `number` if it exists.
    pub fn set(&self, number: usize, ticks: u64) {
        if let Some(register) = self.0.get(number) {
            register.store(ticks & Stamp::TICKS, Ordering::Relaxed);
        }
    }

    /// Returns the time at which a frame with this stamp is sent, or `now` if that time has passed.
    /// If the stamp has the reset flag, its register is first set to the counter's value at `now`.
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

/// A port as a sink for frames.
pub struct PortSink {
    tx: Box<dyn TxHalf>,
    pool: Pool,
    burst: Burst,
    counter: Counter,
    registers: Registers,
    /// True to send each frame at the time in its stamp. Otherwise stamps are ignored.
    timed: bool,
    stop: fn() -> bool,
    caps: Caps,
    counts: Arc<PortCounts>,
    sent: u64,
    too_long: u64,
}

impl PortSink {
    /// Creates a sink that sends frames through `port` with buffers of `pool`. Returns the sink and
    /// the port's receive half. With `timed`, a frame with a stamp is sent at the time in the
    /// stamp.
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

    /// Replaces the registers by `registers`, which the caller can also set.
    pub fn share(&mut self, registers: Registers) {
        self.registers = registers;
    }

    /// Returns the number of frames sent, and the number of frames dropped because they are too
    /// long for the port.
    pub fn counts(&self) -> (u64, u64) {
        (self.sent, self.too_long)
    }

    /// Returns whether the port has ended because its reader or its device is gone.
    pub fn is_gone(&self) -> bool {
        self.tx.is_gone()
    }

    /// Returns the counters of the port itself.
    pub fn port_counts(&self) -> &PortCounts {
        &self.counts
    }

    /// Waits until `due`. Sleeps first, then spins for the last 100 microseconds, since a sleep
    /// ends late.
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

    /// Sends the frames collected in `burst`. Waits while the port accepts none.
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

    /// Sends the frames collected so far, and waits until the port has sent the frames that it
    /// delays.
    ///
    /// # Errors
    /// A stop was requested, or the port has ended.
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

    /// Returns an error if the port has ended: the port's own reason, or `BrokenPipe` if it has
    /// none.
    fn reach(&self) -> Result<(), RunError> {
        if !self.tx.is_gone() {
            return Ok(());
        }
        let closed = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        Err(RunError::Output(self.tx.why_gone().map_or_else(closed, std::io::Error::other)))
    }
}

fn stopped() -> RunError {
    RunError::Output(std::io::Error::new(std::io::ErrorKind::Interrupted, "stopped before all frames were sent"))
}

impl Sink for PortSink {
    fn end(&mut self) -> Result<(), RunError> {
        self.drain()
    }

    fn write(&mut self, frames: &Frames) -> Result<(), RunError> {
        BadLink::check(frames, "sent").map_err(BadOutput::from)?;
        // An MTU of 65535 marks a port that writes to files, which accepts frames of any length.
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
            // The burst has space, because a full burst has been flushed.
            self.burst.put(frame, || self.counts.tx.bugs.bump());
            if self.burst.len() >= MOST || self.burst.room() == 0 {
                self.flush()?;
            }
        }
        self.flush()
    }
}

impl PortSink {
    /// Returns an empty buffer of the pool. Waits while all buffers are in use.
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
    fn stamps_are_relative_to_their_register() {
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
