//! Streams on two cores. Either the two ends of one stream run on separate cores, so that only
//! frames pass between these, or two streams that share nothing run on one core each.
//!
//! A thread without work spins, and yields its core now and then. A trial ends when all bytes have
//! arrived, when either side fails, or when its time limit is reached.

use super::bulk::{BulkRig, CHUNK, End, Ours};
use super::{Link, accept, begin, host, listen};
use crate::rigs::text::Text;
use crate::subject::{Reading, Subject};
use crate::{os, tsc};
use anyhow::{Context, anyhow, ensure};
use buf::ring::{Consumer, Producer, ring};
use port::Pairs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread::JoinHandle;

/// Number of bytes transferred in a trial: eight times as many as on one core, so that start and
/// end have little effect.
const BYTES: u64 = 64 << 20;
/// Number of idle rounds before a thread yields its core and checks the time limit.
const POLITE: u32 = 1 << 12;
/// Time limit of a trial, and of connecting, in nanoseconds.
const LIMIT_NS: u64 = 20_000_000_000;

/// Function that creates an end, on the thread that will own it.
pub type MakeEnd = Box<dyn FnOnce() -> anyhow::Result<Box<dyn End>> + Send>;

/// Work that one core does in a trial.
trait Work {
    fn run(&mut self, trial: &Trial) -> anyhow::Result<Done>;

    /// Checks the end's state after both sides have stopped.
    fn check(&mut self) -> anyhow::Result<()>;
}

type MakeWork = Box<dyn FnOnce() -> anyhow::Result<Box<dyn Work>> + Send>;

/// Result of one side of a trial: bytes that arrived, start and end in ticks, processor time and
/// wall-clock time in nanoseconds.
#[derive(Default)]
struct Done {
    bytes: u64,
    start: u64,
    end: u64,
    cpu_ns: u64,
    wall_ns: u64,
}

impl Done {
    fn share(&self) -> f64 {
        self.cpu_ns as f64 / self.wall_ns.max(1) as f64
    }
}

/// State of a trial, shared by both sides.
struct Trial {
    both: Barrier,
    /// Set when all bytes have arrived or one side has failed. Both sides then stop.
    over: AtomicBool,
}

struct Worker {
    orders: Option<mpsc::Sender<Arc<Trial>>>,
    thread: Option<JoinHandle<()>>,
    answers: mpsc::Receiver<anyhow::Result<Done>>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join()); // if the thread panicked, the panic was printed
        }
    }
}

/// Stream on two cores; an operation is one transferred byte, in wall time.
pub struct TwoCores {
    id: String,
    workers: [Worker; 2],
}

impl TwoCores {
    /// Creates a stream from the first of `ends` to the second, each on its core.
    ///
    /// # Errors
    /// A thread, a core or an end is unavailable.
    pub fn new(id: &str, cores: [usize; 2], ends: [MakeEnd; 2]) -> anyhow::Result<TwoCores> {
        let [from, to] = ends;
        TwoCores::with(id, cores, [side(from, true), side(to, false)])
    }

    fn with(id: &str, cores: [usize; 2], work: [MakeWork; 2]) -> anyhow::Result<TwoCores> {
        let [one, other] = work;
        let workers = [worker(cores[0], 0, one)?, worker(cores[1], 1, other)?];
        for worker in &workers {
            worker.answers.recv().context("a core's thread has ended")?.with_context(|| id.to_owned())?;
        }
        Ok(TwoCores { id: id.to_owned(), workers })
    }

    /// Creates two streams, each with both its hosts on a core of its own.
    ///
    /// # Errors
    /// As [`TwoCores::new`].
    pub fn two_pairs(id: &str, link: Link, cores: [usize; 2]) -> anyhow::Result<TwoCores> {
        let pair = || -> MakeWork { Box::new(move || Ok(Box::new(BulkRig::new("one of two pairs", link)?))) };
        TwoCores::with(id, cores, [pair(), pair()])
    }

    /// Creates a stream between two of our hosts.
    ///
    /// # Errors
    /// As [`TwoCores::new`].
    pub fn ours(id: &str, link: Link, cores: [usize; 2]) -> anyhow::Result<TwoCores> {
        let (pairs, listening) = (Arc::new(Pairs::new()), Arc::new(Barrier::new(2)));
        let end = |at: usize| -> MakeEnd {
            let (pairs, listening) = (pairs.clone(), listening.clone());
            Box::new(move || Ok(Box::new(our_end(at, link, &pairs, &listening)?)))
        };
        TwoCores::new(id, cores, [end(0), end(1)])
    }

    /// Creates a transfer without a stack: text is copied into buffers of 64 KiB, `buffers` of them
    /// in turn, and out of them on the other core. It shows the limit of two cores that share
    /// nothing but memory.
    ///
    /// # Errors
    /// As [`TwoCores::new`].
    pub fn copies(id: &str, buffers: usize, cores: [usize; 2]) -> anyhow::Result<TwoCores> {
        let ((full, from), (free, back)) = (ring(buffers), ring(buffers));
        let sender = move || anyhow::Ok(Box::new(Copier { to: full, from: back, left: buffers }) as Box<dyn End>);
        let receiver = move || anyhow::Ok(Box::new(Copier { to: free, from, left: 0 }) as Box<dyn End>);
        TwoCores::new(id, cores, [Box::new(sender), Box::new(receiver)])
    }
}

fn worker(core: usize, at: usize, make: MakeWork) -> anyhow::Result<Worker> {
    let (orders, inbox) = mpsc::channel();
    let (answer, answers) = mpsc::channel();
    let thread = dispatch::spawn_worker(&format!("core{at}"), Some(core), move |pinned| {
        let work = match pinned {
            Some(why) => Err(why).context("cannot pin a thread to its core"),
            None => make(),
        };
        let ready = work.map(|work| (work, answer.send(Ok(Done::default()))));
        // The thread ends if its receiver is gone, because the rig is gone.
        match ready {
            Ok((work, Ok(()))) => serve(work, &inbox, &answer),
            Ok(_) => {}
            Err(why) => drop(answer.send(Err(why))),
        }
    })
    .context("cannot start a thread on its core")?;
    Ok(Worker { orders: Some(orders), thread: Some(thread), answers })
}

fn serve(mut work: Box<dyn Work>, inbox: &mpsc::Receiver<Arc<Trial>>, answer: &mpsc::Sender<anyhow::Result<Done>>) {
    for trial in inbox {
        trial.both.wait();
        let done = work.run(&trial);
        trial.over.store(true, Ordering::Release);
        trial.both.wait(); // both sides have stopped
        let done = done.and_then(|done| work.check().map(|()| done));
        if answer.send(done).is_err() {
            return;
        }
    }
}

fn side(make: MakeEnd, sends: bool) -> MakeWork {
    Box::new(move || Ok(Box::new(Side { end: make()?, sends, text: Text::new(CHUNK), at: 0, into: vec![0; CHUNK] })))
}

impl Work for BulkRig {
    fn run(&mut self, _: &Trial) -> anyhow::Result<Done> {
        let (cpu, wall, start) = (os::thread_cpu_ns(), os::monotonic_ns(), tsc::now());
        self.carry(BYTES as usize, Text::is_likely)?;
        let end = tsc::now();
        let (cpu_ns, wall_ns) = (os::thread_cpu_ns() - cpu, os::monotonic_ns() - wall);
        Ok(Done { bytes: BYTES, start, end, cpu_ns, wall_ns })
    }

    fn check(&mut self) -> anyhow::Result<()> {
        self.ends().iter_mut().try_for_each(End::check)
    }
}

/// An end of the stream, and the state of its application.
struct Side {
    end: Box<dyn End>,
    sends: bool,
    text: Text,
    /// Number of bytes sent, or received, so far.
    at: u64,
    into: Vec<u8>,
}

impl Work for Side {
    fn check(&mut self) -> anyhow::Result<()> {
        self.end.check()
    }

    fn run(&mut self, trial: &Trial) -> anyhow::Result<Done> {
        let (cpu, wall, start) = (os::thread_cpu_ns(), os::monotonic_ns(), tsc::now());
        let goal = self.at + BYTES;
        let mut idle = 0u32;
        loop {
            let before = self.at;
            let turned = self.end.turn();
            let over = if self.sends { self.send(goal)? } else { self.recv(goal)? };
            // The sender continues until the receiver is done, because ACKs must be processed.
            if over && !self.sends || trial.over.load(Ordering::Acquire) {
                ensure!(over, "the other side failed after {} of {BYTES} bytes", BYTES - (goal - self.at));
                let end = tsc::now();
                let (cpu_ns, wall_ns) = (os::thread_cpu_ns() - cpu, os::monotonic_ns() - wall);
                let bytes = if self.sends { 0 } else { BYTES };
                return Ok(Done { bytes, start, end, cpu_ns, wall_ns });
            }
            if turned || self.at != before {
                idle = 0;
                continue;
            }
            idle += 1;
            std::hint::spin_loop();
            if idle.is_multiple_of(POLITE) {
                std::thread::yield_now();
                let late = os::monotonic_ns() - wall > LIMIT_NS;
                ensure!(!late, "time limit reached after {} of {BYTES} bytes", BYTES - (goal - self.at));
            }
        }
    }
}

impl Side {
    fn send(&mut self, goal: u64) -> anyhow::Result<bool> {
        while self.at < goal {
            let chunk = self.text.at(self.at, CHUNK.min((goal - self.at) as usize));
            match self.end.send(chunk)? {
                0 => break,
                n => self.at += n as u64,
            }
        }
        Ok(self.at == goal)
    }

    fn recv(&mut self, goal: u64) -> anyhow::Result<bool> {
        while self.at < goal {
            match self.end.recv(&mut self.into)? {
                0 => break,
                n => {
                    ensure!(self.text.is_likely(self.at, &self.into[..n]), "received unexpected data");
                    self.at += n as u64;
                }
            }
        }
        ensure!(self.at <= goal, "received more bytes than were sent");
        Ok(self.at == goal)
    }
}

/// Creates a host on this thread, and its end of a connection.
fn our_end(at: usize, link: Link, pairs: &Pairs, listening: &Barrier) -> anyhow::Result<Ours> {
    let made = host(at as u8 + 1, link, &[], pairs);
    let listener = match &made {
        Ok(host) if at == 1 => Some(listen(&host.shared_calls(), link.family, 5001)),
        _ => None,
    };
    listening.wait(); // even without a host, because the other side waits
    let (host, listener) = (made?, listener.transpose()?);
    let until = os::monotonic_ns() + LIMIT_NS;
    let mut fd = if at == 0 { Some(begin(&host.shared_calls(), link.family, 5001)?) } else { None };
    while fd.is_none_or(|fd| host.shared_calls().peer_addr(fd).is_err()) {
        ensure!(os::monotonic_ns() < until, "no connection was established in time");
        if host.step().frames == 0 {
            std::thread::yield_now();
        }
        if let (None, Some(listener)) = (fd, listener) {
            fd = accept(&host.shared_calls(), listener)?;
        }
    }
    Ours::new(host, fd.context("the host received no connection")?, at == 0)
}

/// End without a stack: passes buffers to the other core, which returns them.
struct Copier {
    to: Producer<Vec<u8>>,
    from: Consumer<Vec<u8>>,
    /// Number of buffers that [`Copier`] has still to create.
    left: usize,
}

impl End for Copier {
    fn send(&mut self, bytes: &[u8]) -> anyhow::Result<usize> {
        let mut buffer = match self.from.pop() {
            Some(buffer) => buffer,
            None if self.left > 0 => {
                self.left -= 1;
                Vec::with_capacity(CHUNK)
            }
            None => return Ok(0),
        };
        buffer.clear();
        buffer.extend_from_slice(bytes);
        self.to.push(buffer).map_err(|_| anyhow!("the ring is full"))?;
        Ok(bytes.len())
    }

    fn recv(&mut self, into: &mut [u8]) -> anyhow::Result<usize> {
        let Some(buffer) = self.from.pop() else { return Ok(0) };
        let n = buffer.len();
        into[..n].copy_from_slice(&buffer);
        self.to.push(buffer).map_err(|_| anyhow!("the ring is full"))?;
        Ok(n)
    }
}

impl Subject for TwoCores {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let trial = Arc::new(Trial { both: Barrier::new(2), over: AtomicBool::new(false) });
        for worker in &self.workers {
            let orders = worker.orders.as_ref().context("a core's thread has ended")?;
            orders.send(trial.clone()).map_err(|_| anyhow!("a core's thread has ended"))?;
        }
        let sides = self.workers.each_ref().map(|worker| worker.answers.recv().context("a core's thread has ended"));
        let (one, other) = match sides.map(|side| side.and_then(|done| done)) {
            [Ok(one), Ok(other)] => (one, other),
            [Err(one), Err(other)] => anyhow::bail!("{}: {one:#}; {other:#}", self.id),
            [Err(why), _] | [_, Err(why)] => return Err(why.context(self.id.clone())),
        };
        let ticks = one.end.max(other.end).saturating_sub(one.start.min(other.start));
        // The wall-clock and processor time are those of the side that had the smaller share of its
        // core, since that side was disturbed more.
        let worse = if one.share() < other.share() { &one } else { &other };
        Ok(Reading { ops: one.bytes + other.bytes, ticks, wall_ns: worse.wall_ns, cpu_ns: worse.cpu_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rigs::tcp::Domain;

    fn cores() -> [usize; 2] {
        [dispatch::core_at(0), dispatch::last_core()]
    }

    #[test]
    fn bytes_cross_from_core_to_core_and_nothing_is_lost() {
        for link in [Link::plain(Domain::Inet6), Link { mtu: 65_521, offload: true, ..Link::plain(Domain::Inet) }] {
            let mut rig = TwoCores::ours("two", link, cores()).unwrap();
            for _ in 0..2 {
                assert_eq!(rig.trial().unwrap().ops, BYTES);
            }
        }
        let pairs =
            TwoCores::two_pairs("pairs", Link { mtu: 65_521, offload: true, ..Link::plain(Domain::Inet) }, cores())
                .unwrap()
                .trial();
        assert_eq!(pairs.unwrap().ops, 2 * BYTES);
        assert_eq!(TwoCores::copies("copies", 4, cores()).unwrap().trial().unwrap().ops, BYTES);
    }

    /// An end that moves nothing (`None`), or fails to send and receives other text (`Some`).
    struct Mute(Option<&'static str>);

    impl End for Mute {
        fn send(&mut self, _: &[u8]) -> anyhow::Result<usize> {
            self.0.map_or(Ok(0), |why| Err(anyhow!(why)))
        }

        fn recv(&mut self, into: &mut [u8]) -> anyhow::Result<usize> {
            into[0] ^= 0x55;
            Ok(if self.0.is_some() { 1 } else { 0 })
        }
    }

    #[test]
    fn a_side_that_fails_ends_both() {
        let mute = |why| -> MakeEnd { Box::new(move || Ok(Box::new(Mute(why)))) };
        let why = |ends| format!("{:#}", TwoCores::new("t", cores(), ends).unwrap().trial().unwrap_err());
        assert!(why([mute(Some("broken")), mute(None)]).contains("broken"));
        assert!(why([mute(None), mute(Some("other"))]).contains("unexpected data"));
        let none: [MakeEnd; 2] = [Box::new(|| Err(anyhow!("no host"))), mute(None)];
        assert!(TwoCores::new("t", cores(), none).is_err());
    }
}
