//! A thread of a switch: its ports, its replica of the bridge, and their scheduling.

use super::Average;
use super::exchange::{Arrivals, Call, Outbox, RemotePort};
use super::post::{self, Poster};
use super::sync::{SyncCounts, SyncExchange};
use super::tree::SharedInbox;
use crate::capture::{Captures, Watch};
use bridge::{Bridge, BridgeConfig, Member, PortNo};
use buf::{Burst, Frame, Pool};
use clock::{Clock, Duration, Instant, tsc};
use dispatch::dataflow::{self, Worker};
use dispatch::polling::{Ask, Handlers, Polling, Sysctls, Then};
use port::nic::Nic;
use port::offload::soft::Soft;
use port::pcap::Direction;
use port::{Port, PortCounts, RxHalf, TxHalf};
use stats::{Lap, Ledger, Stage};
use std::io;
use std::sync::Arc;

/// Poll interval of a port without a descriptor, or of a port with frames to send.
const LOOK: Duration = Duration::from_micros(50);
/// Maximum sleep of a thread, so that it notices a stop request.
const NAP: Duration = Duration::from_millis(50);

/// Counters of a port in one thread, or summed over threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Frames received from the port, and passed to it by the bridge.
    pub bridge: bridge::Counts,
    /// Frames accepted by the port and not dropped in it afterwards.
    pub sent: u64,
    /// Frames dropped in the port because its device did not accept them.
    pub failed: u64,
    /// Frames dropped because the queue from the workers to the port was full.
    pub full: u64,
    /// Frames dropped because the port was removed, or still full when the switch shut down.
    pub late: u64,
    /// Frames queued and not sent yet.
    pub held: u64,
}

impl Counts {
    /// Adds the counters of another thread.
    pub fn add(&mut self, other: &Counts) {
        let (all, more) = (&mut self.bridge, &other.bridge);
        all.received += more.received;
        all.forwarded += more.forwarded;
        all.flooded += more.flooded;
        all.dropped += more.dropped;
        all.local += more.local;
        all.given += more.given;
        self.sent += other.sent;
        self.failed += other.failed;
        self.full += other.full;
        self.late += other.late;
        self.held += other.held;
    }
}

/// A port polled by this thread.
struct Own {
    rx: Box<dyn RxHalf>,
    tx: Box<dyn TxHalf>,
    soft: Soft,
    /// Simulated network card of a `nic` port, whose errors are checked at intervals; otherwise
    /// `None`.
    nic: Option<Arc<Nic>>,
    /// Frames from other threads, to be sent through this port.
    arrivals: Vec<Arrivals<Frame>>,
    counts: Arc<PortCounts>,
    /// Hook for captures of the port's frames.
    watch: Arc<Watch>,
    /// Number of frames that the port has accepted.
    taken: u64,
}

impl Own {
    fn is_over(&self) -> bool {
        self.rx.is_gone() || self.rx.is_silent()
    }

    /// Sends as many frames of `out` as the port accepts.
    #[inline]
    fn send(&mut self, out: &mut Burst, now: Instant) {
        if self.watch.is_on() {
            return self.send_watched(out, now);
        }
        self.taken += self.transmit(out, now) as u64;
    }

    /// Sends as many frames of `out` as the port accepts, and returns their number.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn transmit(&mut self, out: &mut Burst, now: Instant) -> usize {
        if self.soft.has_work(out.as_slice()) {
            self.soft.tx_burst(self.tx.as_mut(), out, now)
        } else {
            self.tx.tx_burst(out, now)
        }
    }

    #[cold]
    fn send_watched(&mut self, out: &mut Burst, now: Instant) {
        let copies = self.watch.copy(out.as_slice());
        let taken = self.transmit(out, now);
        self.watch.keep(copies.into_iter().take(taken), Direction::Outbound, now);
        self.taken += taken as u64;
    }

    /// Sends the frames of `out`, delayed frames that are due, and frames from other threads.
    fn flush(&mut self, out: &mut Burst, now: Instant) {
        self.tx.poll(now);
        if self.soft.is_behind() {
            self.soft.poll(self.tx.as_mut(), now);
        }
        if !out.is_empty() {
            self.send(out, now);
        }
        for at in 0..self.arrivals.len() {
            let Some(ring) = self.arrivals.get_mut(at).filter(|ring| ring.level() > 0) else { continue };
            let bugs = &self.counts.tx.bugs;
            let mut lost = 0;
            ring.pop_into(out.room(), |frame| {
                out.put(frame, || {
                    bugs.bump();
                    lost += 1;
                });
            });
            self.taken += lost; // these frames count as accepted and as failed
            self.send(out, now);
        }
    }

    /// Returns the number of frames that the port accepted but its device did not.
    fn failed(&self) -> u64 {
        let tx = &self.counts.tx;
        // Frames that an impairment lost on purpose are not counted. The parts of a large segment
        // are counted individually.
        (tx.errors.get() + tx.too_large.get() + tx.malformed.get() + tx.bugs.get()).min(self.taken)
    }

    fn waits(&self) -> usize {
        self.arrivals.iter().map(|ring| ring.level()).sum()
    }
}

/// State of a port number in this thread: free, a port of its own, or a port of another thread.
enum Place {
    Free,
    Own(Box<Own>),
    Other(RemotePort),
}

/// Role of a switch thread.
pub(super) enum Role {
    /// Polls ports and forwards the frames.
    Loop,
    /// Polls ports and dispatches the frames to workers.
    Posts(Poster),
    /// Forwards dispatched frames.
    Works(Box<Worker>),
}

/// A polling loop of a switch, or one of its workers. Its alignment ensures that it shares no cache
/// line with data of other threads.
#[repr(align(128))]
pub struct SwitchThread {
    /// Index of the thread.
    pub number: usize,
    /// The thread's replica of the bridge.
    pub bridge: Bridge,
    /// Polling schedule of the thread's ports.
    pub polling: Polling,
    /// Average cost of forwarding in the bridge, in ticks per frame, from a sample.
    pub average: Average,
    /// Ticks by stage of the packet path; off by default.
    pub ledger: Ledger,
    role: Role,
    ports: Ports,
    /// Sum of the counters of removed ports.
    gone: Counts,
    clock: Clock,
    calls: Vec<Call>,
    /// Event exchange with the other threads; `None` if there are none.
    sync: Option<SyncExchange>,
    inbox: SharedInbox,
    pool: Pool,
    captures: Arc<Captures>,
}

/// State that the threads of a switch have in common.
pub(super) struct Common {
    pub bridge: BridgeConfig,
    pub sysctls: Arc<Sysctls>,
    pub clock: Clock,
    pub calls: Vec<Call>,
    pub inbox: SharedInbox,
    pub pool: Pool,
    pub captures: Arc<Captures>,
}

/// The ports of a thread and their frames, without the polling schedule.
struct Ports {
    places: Vec<Place>,
    /// Ports polled by this thread.
    own: Vec<PortNo>,
    /// Outgoing frames, by port number.
    out: Vec<Burst>,
    burst: Burst,
}

impl SwitchThread {
    pub(super) fn new(number: usize, role: Role, common: &Common) -> SwitchThread {
        let (mut bridge, recorder) = (Bridge::new(common.bridge), common.captures.clone());
        bridge.set_drop_watch(move |frame, port, why, now| recorder.note_dropped(port, frame, why, now));
        SwitchThread {
            number,
            role,
            bridge,
            polling: Polling::new(common.sysctls.clone()),
            average: Average::default(),
            ledger: Ledger::default(),
            ports: Ports { places: Vec::new(), own: Vec::new(), out: Vec::new(), burst: Burst::new() },
            gone: Counts::default(),
            clock: common.clock.clone(),
            calls: common.calls.clone(),
            sync: None,
            inbox: common.inbox.clone(),
            pool: common.pool.clone(),
            captures: common.captures.clone(),
        }
    }

    /// Enables the event exchange with other threads.
    pub(super) fn among_others(mut self, sync: SyncExchange) -> SwitchThread {
        self.bridge.announce();
        self.sync = Some(sync);
        self
    }

    pub(super) fn add(&mut self, number: PortNo, port: Port, arrivals: Vec<Arrivals<Frame>>, pool: &Pool) {
        let own = self.own_of(number, port, arrivals, pool);
        self.put(number, own);
        self.ports.own.push(number);
    }

    /// Adds a queue of port `number` whose first queue belongs to another thread. This thread then
    /// sends to the port through its own queue.
    pub(super) fn add_queue(&mut self, number: PortNo, port: Port, pool: &Pool) {
        self.gone.full += self.counts(number).full;
        let own = self.own_of(number, port, Vec::new(), pool);
        if let Some(place) = self.ports.places.get_mut(usize::from(number)) {
            *place = own;
            self.ports.own.push(number);
        }
    }

    fn own_of(&self, number: PortNo, port: Port, arrivals: Vec<Arrivals<Frame>>, pool: &Pool) -> Place {
        let watch = Watch::new(number, &port.name, &self.captures);
        let soft = Soft::new(&port.caps, pool.clone(), port.counts.clone());
        let Port { rx, tx, nic, counts, .. } = port;
        Place::Own(Box::new(Own { rx, tx, soft, nic, arrivals, counts, watch, taken: 0 }))
    }

    /// Adds a port of another thread. Returns the receiving end for frames that are sent to it.
    pub(super) fn add_foreign(&mut self, number: PortNo, thread: usize) -> Arrivals<Frame> {
        let (away, arrivals) = RemotePort::ring(thread);
        self.put(number, Place::Other(away));
        arrivals
    }

    /// Adds a port of loop `thread`. Frames for the port go into the workers' `queue`.
    pub(super) fn add_queued(&mut self, number: PortNo, thread: usize, queue: &Arc<Outbox<Frame>>) {
        self.put(number, Place::Other(RemotePort::queue(thread, queue)));
    }

    fn put(&mut self, number: PortNo, place: Place) {
        if let Some(sync) = &mut self.sync {
            // Receives pending events first, while the number is still unused, because they may
            // refer to a former port of this number.
            sync.exchange(&mut self.bridge, self.clock.now());
        }
        self.bridge.join(number, Member::default());
        let at = usize::from(number);
        if at >= self.ports.places.len() {
            self.ports.places.resize_with(at + 1, || Place::Free);
            self.ports.out.resize_with(at + 1, Burst::new);
        }
        if let Some(there) = self.ports.places.get_mut(at) {
            *there = place;
        }
    }

    /// Removes a port. Frames that were not sent yet are dropped and counted.
    pub(super) fn remove(&mut self, number: PortNo) {
        let counts = self.counts(number);
        self.gone.sent += counts.sent;
        self.gone.failed += counts.failed;
        self.gone.full += counts.full;
        self.gone.late += counts.late + counts.held;
        self.ports.own.retain(|own| *own != number);
        if let Role::Posts(poster) = &mut self.role {
            poster.discard(number);
        }
        let at = usize::from(number);
        if let (Some(place), Some(out)) = (self.ports.places.get_mut(at), self.ports.out.get_mut(at)) {
            *place = Place::Free;
            out.clear();
        }
        self.bridge.remove(number, self.clock.now());
    }

    pub(super) fn set_member(&mut self, number: PortNo, change: impl Fn(&mut Member)) {
        if let Some(mut member) = self.bridge.member(number).copied() {
            change(&mut member);
            self.bridge.set_member(number, member);
        }
    }

    /// Returns this thread's counters of port `number`.
    pub fn counts(&self, number: PortNo) -> Counts {
        let at = usize::from(number);
        let bridge = self.bridge.counts_of(number).unwrap_or_default();
        let out = self.ports.out.get(at).map_or(0, Burst::len);
        match self.ports.places.get(at) {
            Some(Place::Own(own)) => {
                let (failed, held) = (own.failed(), (out + own.waits()) as u64);
                Counts { bridge, sent: own.taken - failed, failed, held, ..Counts::default() }
            }
            Some(Place::Other(away)) => Counts { bridge, full: away.full, held: out as u64, ..Counts::default() },
            _ => Counts { bridge, held: out as u64, ..Counts::default() },
        }
    }

    /// Returns the output counters, summed over all current and former ports.
    pub fn total(&self) -> Counts {
        let mut all = self.gone;
        (0..self.ports.places.len()).for_each(|at| all.add(&self.counts(at as PortNo)));
        all
    }

    /// Returns the counters of the event exchange; `None` if there are no other threads.
    pub fn sync(&self) -> Option<&SyncCounts> {
        self.sync.as_ref().map(|sync| &sync.counts)
    }

    /// Returns the ports polled by this thread.
    pub fn own(&self) -> &[PortNo] {
        &self.ports.own
    }

    /// Returns the receive warnings of a port, and the reason why it closed; `None` if it is open.
    pub fn warnings(&self, number: PortNo) -> (Vec<String>, Option<String>) {
        match self.ports.places.get(usize::from(number)) {
            Some(Place::Own(own)) => {
                let gone = own.rx.is_gone().then(|| own.rx.why_gone().unwrap_or_else(|| "end of input".into()));
                (own.rx.warnings(), gone)
            }
            _ => (Vec::new(), None),
        }
    }

    /// Returns the reason why a port of this thread failed; `None` while it works, or if it ended
    /// normally.
    pub fn why_lost(&self, number: PortNo) -> Option<String> {
        match self.ports.places.get(usize::from(number)) {
            Some(Place::Own(own)) => own.rx.why_gone().or_else(|| own.tx.why_gone()),
            _ => None,
        }
    }

    /// Returns whether a port of this thread has ended and can send no more frames.
    pub fn is_gone(&self, number: PortNo) -> bool {
        matches!(self.ports.places.get(usize::from(number)), Some(Place::Own(own)) if own.tx.is_gone())
    }

    /// Returns whether no more frames can arrive at the ports of this thread.
    pub fn is_over(&self) -> bool {
        self.ports.owned().all(Own::is_over)
    }

    /// Returns the earliest time at which a port releases a received or sent frame that it delays;
    /// `None` if no frame is delayed.
    pub fn next_event(&self) -> Option<Instant> {
        self.ports.owned().flat_map(|own| [own.rx.next_event(), own.tx.next_event()]).flatten().min()
    }

    /// Returns whether no frame waits to be sent.
    pub fn is_drained(&self) -> bool {
        self.ports.out.iter().all(Burst::is_empty)
            && self.ports.owned().all(|own| own.tx.held() == 0 && own.waits() == 0 && !own.soft.is_behind())
    }

    /// Drops the frames that wait to be sent.
    pub fn give_up(&mut self) {
        let Ports { places, out, .. } = &mut self.ports;
        for (place, out) in places.iter_mut().zip(out) {
            let mut late = out.len();
            out.clear();
            if let Place::Own(own) = place {
                late += own.arrivals.iter_mut().map(|ring| ring.pop_into(usize::MAX, drop)).sum::<usize>();
            }
            self.gone.late += late as u64;
        }
    }

    /// Returns the current time.
    pub fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Returns whether another thread waits for the lock of this thread.
    #[inline]
    pub fn is_lock_requested(&self) -> bool {
        self.calls.get(self.number).is_some_and(Call::is_pending)
    }

    /// Runs one turn of the thread.
    #[inline]
    pub fn turn(&mut self) -> Then {
        let SwitchThread {
            number, bridge, polling, average, ledger, role, ports, clock, calls, sync, inbox, pool, ..
        } = self;
        let now = clock.now();
        let (lap, before) = (ledger.lap(tsc::ticks), polling.counts.frames.get());
        bridge.poll(now);
        if let Some(sync) = sync {
            sync.exchange(bridge, now);
        }
        let mut work = Work { bridge, average, lap, poster: None, ports, calls };
        let then = match role {
            Role::Loop => polling.turn(&mut work, || clock.now()),
            Role::Posts(poster) => {
                work.poster = Some(poster);
                polling.turn(&mut work, || clock.now())
            }
            Role::Works(worker) => match worker.turn(&mut work, || clock.now()) {
                0 => Then::Wait,
                _ => Then::Again,
            },
        };
        work.lap.mark(Stage::Polling, polling.counts.frames.get() - before);
        while let Some(local) = bridge.take_local() {
            if inbox.put(local.from, local.frame.bytes()) {
                calls.first().into_iter().for_each(Call::wake);
            }
        }
        while let Some(query) = bridge.take_query() {
            // Every replica generates the query; only the first thread sends it.
            if *number == 0
                && let Some(mut frame) = pool.get()
                && frame.extend(query.bytes()).is_some()
            {
                bridge.send_all(frame, query.vid, &mut ports.out);
            }
        }
        then
    }

    /// Sends a frame generated by the bridge itself.
    pub(super) fn send_own(&mut self, port: PortNo, frame: Frame) {
        self.bridge.send(frame, port, &mut self.ports.out);
        self.flush();
    }

    /// Sends waiting frames, without receiving or forwarding.
    pub fn flush(&mut self) {
        let now = self.clock.now();
        self.ports.flush(&self.calls, now);
    }

    /// Sleeps as `then`, the result of a turn, requires. Also polls `others`, and returns whether
    /// one of them is readable.
    ///
    /// # Errors
    /// Returns errors of the system.
    pub fn sleep(&self, then: Then, others: &[std::os::fd::BorrowedFd<'_>]) -> io::Result<bool> {
        let now = self.clock.now();
        let (until, wants_ports) = match then {
            Then::Again => return Ok(false),
            Then::Yield => {
                std::thread::yield_now();
                return Ok(false);
            }
            Then::Sleep(until) => (until.since(now).min(NAP), false),
            Then::Wait => (NAP, true),
        };
        let mut fds = others.to_vec();
        let timeout = if wants_ports { self.ports.watch(&mut fds, until, now) } else { until };
        let Some(call) = self.calls.get(self.number) else { return Ok(false) };
        let stay = || wants_ports && self.ports.owned().any(|own| own.waits() > 0);
        let slept = call.sleep(stay, |lock_requests| {
            fds.push(lock_requests);
            dispatch::wait_readable(&fds, Some(timeout))
        });
        let ready = slept.transpose()?.unwrap_or_default();
        Ok(ready.iter().take(others.len()).any(|ready| *ready))
    }
}

impl Ports {
    fn owned(&self) -> impl Iterator<Item = &Own> {
        let of = |number: &PortNo| match self.places.get(usize::from(*number)) {
            Some(Place::Own(own)) => Some(own.as_ref()),
            _ => None,
        };
        self.own.iter().filter_map(of)
    }

    /// Adds the descriptors to poll to `fds`, and returns the maximum sleep.
    fn watch<'a>(&'a self, fds: &mut Vec<std::os::fd::BorrowedFd<'a>>, most: Duration, now: Instant) -> Duration {
        let mut timeout = most;
        if self.out.iter().any(|out| !out.is_empty()) {
            timeout = timeout.min(LOOK);
        }
        for own in self.owned() {
            if own.tx.held() > 0 || own.soft.is_behind() {
                timeout = timeout.min(LOOK);
            }
            let events = [own.rx.next_event(), own.tx.next_event()];
            timeout = events.into_iter().flatten().fold(timeout, |timeout, at| timeout.min(at.since(now)));
            match own.rx.wait_fd() {
                _ if own.is_over() => {}
                Some(fd) => fds.push(fd),
                None => timeout = timeout.min(LOOK),
            }
        }
        timeout
    }

    /// Sends the frames collected for each port.
    #[inline]
    fn send(&mut self, calls: &[Call], now: Instant) {
        for (place, out) in self.places.iter_mut().zip(&mut self.out).filter(|(_, out)| !out.is_empty()) {
            match place {
                Place::Own(own) => own.send(out, now),
                Place::Other(away) => away.send(out, calls),
                Place::Free => {}
            }
        }
    }

    /// Sends the frames collected for each port, delayed frames that are due, and frames from other
    /// threads.
    fn flush(&mut self, calls: &[Call], now: Instant) {
        for (place, out) in self.places.iter_mut().zip(&mut self.out) {
            match place {
                Place::Own(own) => own.flush(out, now),
                Place::Other(away) if !out.is_empty() => away.send(out, calls),
                Place::Other(_) | Place::Free => {}
            }
        }
    }
}

/// State during a turn of a thread.
struct Work<'a> {
    bridge: &'a mut Bridge,
    average: &'a mut Average,
    lap: Lap<'a>,
    /// Dispatcher to the workers; `None` if this thread forwards frames itself.
    poster: Option<&'a mut Poster>,
    ports: &'a mut Ports,
    calls: &'a [Call],
}

impl Handlers for Work<'_> {
    fn count(&self) -> usize {
        self.ports.own.len()
    }

    #[inline]
    fn poll(&mut self, at: usize, most: usize, ask: Ask, now: Instant) -> usize {
        let Ports { places, own, out, burst } = &mut *self.ports;
        let Some(number) = own.get(at).copied() else { return 0 };
        let Some(Place::Own(port)) = places.get_mut(usize::from(number)) else { return 0 };
        if ask == Ask::Status {
            port.nic.iter().for_each(|nic| _ = nic.check_status());
        }
        self.lap.mark(Stage::Polling, 0);
        let came = port.rx.rx_burst(burst, most, now);
        if came == 0 {
            self.lap.mark(Stage::PortLook, 1);
            return 0;
        }
        self.lap.mark(Stage::PortRx, came as u64);
        if port.watch.is_on() {
            port.watch.keep(port.watch.copy(burst.as_slice()), Direction::Inbound, now);
        }
        if let Some(poster) = &mut self.poster {
            poster.post(number, burst);
        } else {
            let bridge = &mut *self.bridge;
            self.average.of(came, || bridge.input(number, burst, now, out));
            self.lap.mark(Stage::BridgeInput, came as u64);
            // Frames are sent before the next port is polled, so that there is space for its
            // frames.
            self.ports.send(self.calls, now);
            self.lap.mark(Stage::PortTx, came as u64);
        }
        came
    }

    fn flush(&mut self, now: Instant) {
        self.lap.mark(Stage::Polling, 0);
        self.ports.flush(self.calls, now);
        self.lap.mark(Stage::PortFlush, 1);
    }
}

impl dataflow::Work for Work<'_> {
    fn run(&mut self, thread: usize, burst: &mut Burst, now: Instant) {
        let (from, came) = (post::port_of(thread), burst.len());
        let (bridge, out) = (&mut *self.bridge, &mut self.ports.out);
        self.lap.mark(Stage::Polling, 0);
        self.average.of(came, || bridge.input(from, burst, now, out));
        self.lap.mark(Stage::BridgeInput, came as u64);
        self.ports.send(self.calls, now);
        self.lap.mark(Stage::PortTx, came as u64);
    }
}
