//! One trial: frames of one size go out at a pace, and what comes back is counted until nothing more can be expected.
//!
//! ```text
//!  clear      what still comes of earlier trials is taken away
//!  learn      each end broadcasts once; until the other has heard it, or the wait is over
//!  send       frames that are due go out together, at most 32; meanwhile both ports are read
//!  drain      until everything has come, or the wait is over
//! ```
//! One thread does all of it: the tester's own part in a latency is one turn of its loop. Time comes from a [`Time`], so that trials run
//! on virtual time too. A trial ends by itself: by its time, by its frames and ten times theirs, or with a port.

use super::frames::{self, Tag};
use super::receive::{Came, Latencies, Receiver};
use buf::{Burst, Pool};
use clock::{Duration, Instant};
use port::Port;
use socket::Domain;

/// Most frames that go out at once.
pub const BURST: u64 = 32;
/// Frames that the tester may be late with and still make up for. What it is later than that is given up, and the rate is missed.
pub const LATE_MAX: u64 = 256;
const SECOND: u128 = 1_000_000_000;
/// Between two looks at whether an end is asked for, while nothing is to do.
const NAP: Duration = Duration::from_millis(20);
const NAMES: [&str; 2] = ["A", "B"];

/// What a tester's time is.
pub trait Time {
    /// The time.
    fn now(&self) -> Instant;
    /// There is nothing to do until then, but for what may arrive: returns then, or at any time before.
    fn wait(&mut self, until: Instant);
    /// There is nothing to do until then at all.
    fn sleep(&mut self, until: Instant);
}

/// How fast frames go out, each way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// So many a second.
    Frames(u64),
    /// As fast as the tester can.
    FlatOut,
}

/// How many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// What goes out in that time.
    For(Duration),
    /// So many each way.
    Frames(u64),
}

/// Which ways they go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ways {
    /// From the first port to the second.
    #[default]
    One,
    /// From each to the other, at the same time.
    Both,
}

impl Ways {
    /// How many.
    pub fn count(self) -> u64 {
        match self {
            Ways::One => 1,
            Ways::Both => 2,
        }
    }
}

/// Are latencies wanted?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clocking {
    /// Frames are counted only.
    #[default]
    Off,
    /// Each frame's latency is taken.
    On,
}

/// What a frame means that a port does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Refusal {
    /// The port cannot send faster: the tester is the limit.
    #[default]
    Limit,
    /// The port is a wire right into the device, and its queue is full: sent, and lost.
    Loss,
}

/// What is asked of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ask {
    /// Bytes of each frame, FCS counted.
    pub size: usize,
    /// How fast.
    pub pace: Pace,
    /// How many.
    pub amount: Amount,
    /// Latencies?
    pub clocking: Clocking,
}

/// What one way of a trial showed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Way {
    /// Test frames sent.
    pub sent: u64,
    /// What came of them, and else at that port.
    pub came: Came,
    /// Latencies, if they were asked for.
    pub latencies: Option<Latencies>,
    /// Of those sent, refused by a full port.
    pub refused: u64,
    /// Bursts they left in.
    pub bursts: u64,
    /// Frames of the longest burst.
    pub longest: u64,
    /// Times that no buffer was free.
    pub starved: u64,
}

impl Way {
    /// Frames that did not come.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.came.frames)
    }
}

/// What a trial showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// What was asked.
    pub ask: Ask,
    /// From A to B; and back, if both ways were asked for.
    pub ways: Vec<Way>,
    /// How long frames were sent.
    pub took: Duration,
}

impl Trial {
    /// Frames sent, all ways together.
    pub fn sent(&self) -> u64 {
        self.ways.iter().map(|way| way.sent).sum()
    }

    /// Frames that did not come, all ways together.
    pub fn lost(&self) -> u64 {
        self.ways.iter().map(Way::lost).sum()
    }

    /// Frames a second and way that were sent in fact: of the slower way, and never more than was asked for.
    pub fn reached(&self) -> u64 {
        let sent = u128::from(self.ways.iter().map(|way| way.sent).min().unwrap_or(0));
        let rate = u64::try_from(sent * SECOND / self.took.as_nanos().max(1)).unwrap_or(u64::MAX);
        match self.ask.pace {
            Pace::Frames(asked) => rate.min(asked),
            Pace::FlatOut => rate,
        }
    }
}

/// Why there are no more trials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// Somebody asked for the end.
    Stopped,
    /// A port is gone: which, and why.
    Gone(String),
    /// No test frame arrives at all, that way.
    Deaf(String),
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cut::Stopped => f.write_str("stopped before its end"),
            Cut::Gone(what) | Cut::Deaf(what) => f.write_str(what),
        }
    }
}

/// Two ports and what is between trials.
pub struct Tester<'a> {
    /// The ports, A and B.
    pub ports: [Port; 2],
    /// Where test frames get their buffers.
    pub pool: Pool,
    /// Its time.
    pub time: &'a mut dyn Time,
    /// Is an end asked for?
    pub stop: &'a dyn Fn() -> bool,
    /// What a full port means.
    pub refusal: Refusal,
    /// Which ways frames go.
    pub ways: Ways,
    /// How long learning frames and the last test frames are waited for, at most.
    pub drain: Duration,
    /// Address family of the test frames.
    pub family: Domain,
    /// Tells this tester's frames from another's.
    pub ident: u32,
    /// Trials so far.
    pub trials: u16,
}

/// One way, under way.
struct Flow {
    from: usize,
    to: usize,
    template: Vec<u8>,
    way: Way,
    receiver: Receiver,
    /// Frames that the tester was too late with.
    given_up: u64,
}

impl Flow {
    /// How many frames are to go out now.
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

    /// How long after the start the next frame is due.
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
    /// [`Cut`]: it did not come to its end.
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
            Way { came, latencies, ..flow.way }
        });
        Ok(Trial { ask: *ask, ways: ways.collect(), took })
    }

    /// Does nothing for so long.
    ///
    /// # Errors
    /// An end was asked for.
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
            Flow { from, to, template, way: Way::default(), receiver, given_up: 0 }
        };
        [(0, 1), (1, 0)].into_iter().take(self.ways.count() as usize).map(flow).collect()
    }

    /// Takes away what waits at the ports. Bounded: a port that never runs dry does not keep us here.
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

    /// Both stations say where they are.
    fn learn(&mut self) -> Result<(), Cut> {
        let [a, b] = frames::stations(self.family);
        let start = self.time.now();
        for (port, bytes) in self.ports.iter_mut().zip([frames::learning(a, b), frames::learning(b, a)]) {
            if let Some(mut frame) = self.pool.get()
                && frame.extend(&bytes).is_some()
            {
                // One that is not taken is one that is not heard.
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

    /// Sends as it is asked, and receives meanwhile; says how long it took.
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

    /// Sends what is due that way.
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

    /// Takes what has come at both ports; says how much.
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

    /// Waits for the last frames.
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

    /// Is there a reason not to go on?
    fn check(&self) -> Result<(), Cut> {
        if (self.stop)() {
            return Err(Cut::Stopped);
        }
        for (port, name) in self.ports.iter().zip(NAMES) {
            if port.rx.is_gone() || port.tx.is_gone() {
                let why = port.rx.why_gone().or_else(|| port.tx.why_gone());
                let why = why.unwrap_or_else(|| "it came to its end".to_owned());
                return Err(Cut::Gone(format!("port {name}, {}, is gone: {why}", port.spec)));
            }
        }
        Ok(())
    }

    /// When a port has something by itself.
    fn next_event(&self) -> Instant {
        let events = self.ports.iter().flat_map(|port| [port.rx.next_event(), port.tx.next_event()]);
        events.flatten().min().unwrap_or(Instant::NEVER)
    }
}

/// How long a trial sends, at most.
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
