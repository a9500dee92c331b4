//! One trial: sends frames of one size at a pace, and counts the frames received until no more can
//! be expected.
//!
//! ```text
//!  clear      discards frames that still arrive from earlier trials
//!  learn      each end broadcasts once, and waits until the other has received it, or times out
//!  send       frames that are due are sent together, at most 32; meanwhile both ports are read
//!  drain      waits until everything has arrived, or times out
//! ```
//! One thread does all of this, so a measured latency includes up to one turn of the tester's loop.
//! Time comes from a [`Time`], so that trials run on virtual time too. A trial always ends: when
//! its sending time is over; when its number of frames has been sent, or at a time limit of ten
//! times the duration of these frames plus 1 s (60 s at the tester's highest rate); or when a port
//! closes.

use super::frames::{self, Tag};
use super::receive::{Came, Latencies, Receiver};
use buf::{Burst, Pool};
use clock::{Duration, Instant};
use port::Port;
use socket::Domain;

/// Maximum number of frames sent at once.
pub const BURST: u64 = 32;
/// Maximum number of overdue frames that are still sent. If more are overdue, the excess is never
/// sent, and the trial misses the requested rate.
pub const LATE_MAX: u64 = 256;
const SECOND: u128 = 1_000_000_000;
/// Interval between two checks for a stop request while the tester sleeps.
const NAP: Duration = Duration::from_millis(20);
const NAMES: [&str; 2] = ["A", "B"];

/// Clock of a tester.
pub trait Time {
    /// Returns the current time.
    fn now(&self) -> Instant;
    /// Waits at most until `until`; may return at any earlier time, since frames may arrive.
    fn wait(&mut self, until: Instant);
    /// Sleeps until `until`; no frames are expected.
    fn sleep(&mut self, until: Instant);
}

/// Sending rate in each direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// Frames per second, in each direction.
    Frames(u64),
    /// As fast as the tester can send.
    FlatOut,
}

/// Number of frames to send, or sending time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Frames are sent for this time.
    For(Duration),
    /// This number of frames is sent in each direction.
    Frames(u64),
}

/// Directions in which test frames are sent between the tester's two ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Directions {
    /// From the first port to the second.
    #[default]
    One,
    /// From each port to the other, at the same time.
    Both,
}

impl Directions {
    /// Returns the number of directions.
    pub fn count(self) -> u64 {
        match self {
            Directions::One => 1,
            Directions::Both => 2,
        }
    }
}

/// Selects whether latencies are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clocking {
    /// Frames are only counted.
    #[default]
    Off,
    /// Each frame's latency is measured.
    On,
}

/// Meaning of a frame that a port refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Refusal {
    /// The port cannot send faster: the tester is the limit.
    #[default]
    Limit,
    /// The port leads directly into the device, and the device's queue is full: the frame is
    /// counted as sent and lost.
    Loss,
}

/// Parameters of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Bytes of each frame, including the FCS.
    pub size: usize,
    /// Rate at which frames are sent.
    pub pace: Pace,
    /// Number of frames to send, or sending time.
    pub amount: Amount,
    /// Selects whether latencies are measured.
    pub clocking: Clocking,
}

/// Results of one direction of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Path {
    /// Number of test frames sent.
    pub sent: u64,
    /// Counts of the frames received at the port.
    pub came: Came,
    /// Latencies, if they were requested.
    pub latencies: Option<Latencies>,
    /// Number of frames counted as sent although a full port refused them.
    pub refused: u64,
    /// Number of bursts in which the test frames were sent.
    pub bursts: u64,
    /// Number of frames in the longest burst.
    pub longest: u64,
    /// Number of times that no buffer was free.
    pub starved: u64,
}

impl Path {
    /// Returns the number of frames that did not arrive.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.came.frames)
    }
}

/// Results of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// Parameters of the trial.
    pub ask: Ask,
    /// Results by direction: from A to B and, if both directions were requested, from B to A.
    pub ways: Vec<Path>,
    /// Time during which frames were sent.
    pub took: Duration,
}

impl Trial {
    /// Returns the frames sent, in all directions together.
    pub fn sent(&self) -> u64 {
        self.ways.iter().map(|way| way.sent).sum()
    }

    /// Returns the frames that did not arrive, in all directions together.
    pub fn lost(&self) -> u64 {
        self.ways.iter().map(Path::lost).sum()
    }

    /// Returns the rate actually sent, in frames per second: that of the slower direction, and at
    /// most the requested one.
    pub fn reached(&self) -> u64 {
        let sent = u128::from(self.ways.iter().map(|way| way.sent).min().unwrap_or(0));
        let rate = u64::try_from(sent * SECOND / self.took.as_nanos().max(1)).unwrap_or(u64::MAX);
        match self.ask.pace {
            Pace::Frames(requested) => rate.min(requested),
            Pace::FlatOut => rate,
        }
    }
}

/// Reason for ending the trials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// A stop was requested.
    Stopped,
    /// A port closed, with its name and the reason.
    Gone(String),
    /// No test frame arrives in one direction, which the text names.
    Deaf(String),
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cut::Stopped => f.write_str("stopped before the end"),
            Cut::Gone(what) | Cut::Deaf(what) => f.write_str(what),
        }
    }
}

/// Two ports, and the state kept between trials.
pub struct Tester<'a> {
    /// The ports, A and B.
    pub ports: [Port; 2],
    /// Pool of the test frames' buffers.
    pub pool: Pool,
    /// Clock of the tester.
    pub time: &'a mut dyn Time,
    /// Function that returns whether a stop is requested.
    pub stop: &'a dyn Fn() -> bool,
    /// Meaning of a frame that a full port refuses.
    pub refusal: Refusal,
    /// Directions in which test frames are sent between the two ports.
    pub ways: Directions,
    /// Maximum wait for learning frames and for the last test frames.
    pub drain: Duration,
    /// Address family of the test frames.
    pub family: Domain,
    /// Number in each test frame that identifies this tester.
    pub ident: u32,
    /// Number of trials so far.
    pub trials: u16,
}

/// One direction of a running trial.
struct Flow {
    from: usize,
    to: usize,
    template: Vec<u8>,
    way: Path,
    receiver: Receiver,
    /// Number of frames that are never sent because the tester was too late.
    given_up: u64,
}

impl Flow {
    /// Returns the number of frames to send now.
    fn due(&mut self, ask: &Ask, since: Duration) -> u64 {
        let left = match ask.amount {
            Amount::For(_) => u64::from(u32::MAX),
            Amount::Frames(frames) => frames,
        };
        let left = left.min(u64::from(u32::MAX)).saturating_sub(self.way.sent);
        let Pace::Frames(rate) = ask.pace else { return left.min(BURST) };
        let by_now = (since.as_nanos() * u128::from(rate) / SECOND) as u64 + 1;
        let due = by_now.saturating_sub(self.way.sent + self.given_up);
        let late = due.saturating_sub(LATE_MAX);
        self.given_up += late;
        (due - late).min(BURST).min(left)
    }

    /// Returns the time, counted from the start of the trial, at which the next frame is due.
    fn next(&self, ask: &Ask) -> Duration {
        let Pace::Frames(rate) = ask.pace else { return Duration::ZERO };
        let ns = (u128::from(self.way.sent + self.given_up) * SECOND).div_ceil(u128::from(rate.max(1)));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    fn has_all(&self) -> bool {
        self.receiver.came.frames >= self.way.sent
    }
}

impl Tester<'_> {
    /// Runs a trial.
    ///
    /// # Errors
    /// A [`Cut`] if the trial did not complete.
    pub fn trial(&mut self, ask: &Ask) -> Result<Trial, Cut> {
        self.trials = self.trials.wrapping_add(1);
        let mut flows = self.flows(ask);
        self.clear();
        self.learn()?;
        let start = self.time.now();
        let took = self.send(ask, &mut flows, start)?;
        self.await_rest(&mut flows)?;
        let ways = flows.into_iter().map(|flow| {
            let Receiver { came, latencies, .. } = flow.receiver;
            Path { came, latencies, ..flow.way }
        });
        Ok(Trial { ask: *ask, ways: ways.collect(), took })
    }

    /// Sleeps for `span`.
    ///
    /// # Errors
    /// A stop was requested.
    pub fn rest(&mut self, span: Duration) -> Result<(), Cut> {
        let end = self.time.now().after(span);
        loop {
            let now = self.time.now();
            if (self.stop)() {
                return Err(Cut::Stopped);
            }
            if now >= end {
                return Ok(());
            }
            self.time.sleep(end.min(now.after(NAP)));
        }
    }

    fn flows(&self, ask: &Ask) -> Vec<Flow> {
        let expected = match (ask.amount, ask.pace) {
            (Amount::Frames(frames), _) => frames,
            (Amount::For(time), Pace::Frames(rate)) => (time.as_nanos() * u128::from(rate) / SECOND) as u64,
            (Amount::For(_), Pace::FlatOut) => 0,
        };
        let flow = |(from, to): (usize, usize)| {
            let [a, b] = frames::stations(self.family);
            let (source, sink) = if from == 0 { (a, b) } else { (b, a) };
            let latencies = (ask.clocking == Clocking::On).then(|| Latencies::new(expected));
            let template = frames::template(self.ident, source, sink, ask.size);
            let receiver = Receiver::new(self.trials, latencies);
            Flow { from, to, template, way: Path::default(), receiver, given_up: 0 }
        };
        [(0, 1), (1, 0)].into_iter().take(self.ways.count() as usize).map(flow).collect()
    }

    /// Discards frames waiting at the ports. The number of receive calls is bounded, in case frames
    /// keep arriving.
    fn clear(&mut self) {
        let mut burst = Burst::new();
        for port in &mut self.ports {
            for _ in 0..1024 {
                if port.rx.rx_burst(&mut burst, buf::BURST_MAX, self.time.now()) == 0 {
                    break;
                }
                burst.clear();
            }
        }
    }

    /// Sends each station's learning frame and waits until both have arrived, at most `drain`.
    fn learn(&mut self) -> Result<(), Cut> {
        let [a, b] = frames::stations(self.family);
        let start = self.time.now();
        for (port, bytes) in self.ports.iter_mut().zip([frames::learning(a, b), frames::learning(b, a)]) {
            if let Some(mut frame) = self.pool.get()
                && frame.extend(&bytes).is_some()
            {
                // A refused frame is not received, which ends the wait by its timeout.
                let _ = port.tx.tx_one(frame, start);
            }
        }
        let (end, mut heard) = (start.after(self.drain), [false; 2]);
        let mut burst = Burst::new();
        while heard != [true; 2] && self.time.now() < end {
            let now = self.time.now();
            for ((port, heard), from) in self.ports.iter_mut().zip(&mut heard).zip([b, a]) {
                port.tx.poll(now);
                port.rx.rx_burst(&mut burst, buf::BURST_MAX, now);
                *heard |= burst.as_slice().iter().any(|frame| frames::is_learning(frame.bytes(), from));
                burst.clear();
            }
            self.check()?;
            let event = self.next_event().min(end);
            self.time.wait(event);
        }
        Ok(())
    }

    /// Sends test frames as `ask` requests, and receives meanwhile; returns the duration of the
    /// sending.
    fn send(&mut self, ask: &Ask, flows: &mut [Flow], start: Instant) -> Result<Duration, Cut> {
        let limit = start.after(limit(ask));
        loop {
            let now = self.time.now();
            let over = |flow: &Flow| matches!(ask.amount, Amount::Frames(frames) if flow.way.sent >= frames);
            if now >= limit || flows.iter().all(over) {
                return Ok(now.since(start));
            }
            for flow in flows.iter_mut() {
                self.offer(ask, flow, start);
            }
            if self.receive(flows) == 0 {
                self.check()?;
            } else if (self.stop)() {
                return Err(Cut::Stopped);
            }
            let next = flows.iter().map(|flow| start.after(flow.next(ask))).min().unwrap_or(limit);
            let event = next.min(limit).min(self.next_event());
            if event > self.time.now() {
                self.time.wait(event);
            }
        }
    }

    /// Sends the frames that are due in a direction.
    fn offer(&mut self, ask: &Ask, flow: &mut Flow, start: Instant) {
        let [a, b] = &mut self.ports;
        let port = if flow.from == 0 { a } else { b };
        let now = self.time.now();
        let due = flow.due(ask, now.since(start));
        port.tx.poll(now);
        if due == 0 {
            return;
        }
        let mut burst = Burst::new();
        let got = self.pool.get_burst_of(due as usize, flow.template.len(), &mut burst) as u64;
        flow.way.starved += u64::from(got < due);
        for (frame, number) in burst.as_mut_slice().iter_mut().zip(flow.way.sent..) {
            let bytes = frame.bytes_mut();
            bytes.copy_from_slice(&flow.template);
            // `due` keeps the number within 32 bits.
            frames::write_tag(bytes, Tag { trial: self.trials, number: number as u32, at: now });
        }
        let taken = port.tx.tx_burst(&mut burst, now) as u64;
        let refused = burst.len() as u64;
        let sent = match self.refusal {
            Refusal::Limit => taken,
            Refusal::Loss => taken + refused,
        };
        flow.way.sent += sent;
        flow.way.refused += sent - taken;
        flow.way.bursts += u64::from(sent > 0);
        flow.way.longest = flow.way.longest.max(sent);
    }

    /// Receives at both ports; returns the number of frames.
    fn receive(&mut self, flows: &mut [Flow]) -> usize {
        let (mut burst, mut all) = (Burst::new(), 0);
        for (at, port) in self.ports.iter_mut().enumerate() {
            let most = buf::BURST_MAX;
            all += port.rx.rx_burst(&mut burst, most, self.time.now());
            let now = self.time.now();
            let flow = flows.iter_mut().find(|flow| flow.to == at);
            match flow {
                Some(flow) => {
                    let [a, b] = frames::stations(self.family);
                    let (from, to) = if flow.from == 0 { (a, b) } else { (b, a) };
                    for frame in burst.as_slice() {
                        match frames::read_tag(frame.bytes(), self.ident, from, to) {
                            Some(tag) => flow.receiver.input(tag, flow.way.sent, now),
                            None => flow.receiver.came.others += 1,
                        }
                    }
                    burst.clear();
                }
                None => burst.clear(),
            }
        }
        all
    }

    /// Waits at most `drain` for the last test frames.
    fn await_rest(&mut self, flows: &mut [Flow]) -> Result<(), Cut> {
        let end = self.time.now().after(self.drain);
        loop {
            let now = self.time.now();
            self.ports.iter_mut().for_each(|port| port.tx.poll(now));
            let came = self.receive(flows);
            if flows.iter().all(Flow::has_all) || (now >= end && came == 0) || now >= end.after(self.drain) {
                return Ok(());
            }
            if came == 0 {
                self.check()?;
                let event = self.next_event().min(if now < end { end } else { now });
                self.time.wait(event);
            }
        }
    }

    /// Returns an error if a stop is requested or a port has closed.
    fn check(&self) -> Result<(), Cut> {
        if (self.stop)() {
            return Err(Cut::Stopped);
        }
        for (port, name) in self.ports.iter().zip(NAMES) {
            if port.rx.is_gone() || port.tx.is_gone() {
                let why = port.rx.why_gone().or_else(|| port.tx.why_gone());
                let why = why.unwrap_or_else(|| "end of input".to_owned());
                return Err(Cut::Gone(format!("port {name}, {}, closed: {why}", port.spec)));
            }
        }
        Ok(())
    }

    /// Returns the time of the ports' next event.
    fn next_event(&self) -> Instant {
        let events = self.ports.iter().flat_map(|port| [port.rx.next_event(), port.tx.next_event()]);
        events.flatten().min().unwrap_or(Instant::NEVER)
    }
}

/// Returns the maximum sending time of a trial.
fn limit(ask: &Ask) -> Duration {
    match (ask.amount, ask.pace) {
        (Amount::For(time), _) => time,
        (Amount::Frames(frames), Pace::Frames(rate)) => {
            let ns = u128::from(frames) * SECOND / u128::from(rate.max(1));
            let usual = Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX));
            usual.saturating_mul(10).saturating_add(Duration::from_secs(1))
        }
        (Amount::Frames(_), Pace::FlatOut) => Duration::from_secs(60),
    }
}
