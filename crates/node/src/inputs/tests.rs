use crate::Host;
use crate::config::{HostConfig, IfaceConfig};
use buf::{Burst, Frame, Pool};
use clock::{Clock, Instant, Strategy};
use inet::iface::IfaceId;
use lock::{Light, Locks, Up};
use port::{Caps, Port, PortCounts, RxHalf, TxHalf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use wire::Mac;

/// A port that delivers one frame per round.
struct Endless(Pool, Arc<AtomicBool>);

impl RxHalf for Endless {
    fn rx_burst(&mut self, into: &mut Burst, _most: usize, _now: Instant) -> usize {
        let Some(mut frame) = self.0.get() else { return 0 };
        frame.extend(&[0xee; 60]).unwrap();
        into.push(frame).unwrap();
        1
    }

    fn is_gone(&self) -> bool {
        self.1.load(Ordering::Relaxed)
    }
}

struct Sink;

impl TxHalf for Sink {
    fn tx_burst(&mut self, from: &mut Burst, _now: Instant) -> usize {
        from.drain().map(drop::<Frame>).count()
    }
}

pub(crate) fn host<L: Locks>() -> Host<L> {
    let config = HostConfig { locks: L::NAME.to_owned(), ..HostConfig::default() };
    Host::new(&config, Clock::live(Strategy::Timespec)).unwrap()
}

/// Returns a port that delivers one frame per round, and a flag that ends it.
pub(crate) fn endless<L: Locks>(host: &Host<L>, name: &str) -> (Port, Arc<AtomicBool>) {
    let gone = Arc::new(AtomicBool::new(false));
    let port = Port {
        name: name.to_owned(),
        spec: "endless".to_owned(),
        caps: Caps::PLAIN,
        rx: Box::new(Endless(host.stack.pool.clone(), gone.clone())),
        tx: Box::new(Sink),
        counts: Arc::new(PortCounts::default()),
        nic: None,
    };
    (port, gone)
}

/// Adds a port, and returns its iface and a flag that ends the port.
pub(crate) fn plug<L: Locks>(host: &Host<L>, n: u8) -> (IfaceId, Arc<AtomicBool>) {
    let (port, gone) = endless(host, &format!("em{n}"));
    let iface = host.attach(&format!("em{n}"), Mac([2, 0, 0, 0, 0, n]), port, &IfaceConfig::default()).unwrap();
    (iface, gone)
}

/// Returns the number of frames received by a round of the host, and by one round of each part.
fn taken<L: Locks>(host: &Host<L>) -> (usize, [usize; 3]) {
    (host.step().frames, [0, 1, 2].map(|part| host.step_part(part).frames))
}

#[test]
fn each_part_receives_from_its_ports() {
    let mut host = host::<Light>();
    let first = plug(&host, 0).0;
    plug(&host, 1);
    assert_eq!(taken(&host), (2, [2, 0, 0]), "one part");
    host.divide(2);
    assert_eq!(taken(&host), (2, [1, 1, 0]));
    plug(&host, 2);
    assert_eq!(taken(&host), (3, [2, 1, 0]));
    assert!(host.remove_port(first));
    plug(&host, 3);
    plug(&host, 4);
    assert_eq!(taken(&host), (4, [2, 2, 0]), "a new port goes to the part with the fewest ports");
    host.divide(3);
    assert_eq!(taken(&host), (4, [2, 1, 1]));
    host.divide(0);
    assert_eq!(taken(&host), (4, [4, 0, 0]));
    let audit = host.stack.audit(host.cx());
    assert_eq!((audit.imbalance(), audit.received), (0, 38), "{audit:?}");
}

#[test]
fn hosts_with_one_thread_or_netisr_are_not_divided() {
    let mut alone = host::<Up>();
    plug(&alone, 0);
    plug(&alone, 1);
    alone.divide(2);
    assert_eq!(taken(&alone), (2, [2, 0, 0]));
    let mut config = HostConfig { locks: "light".to_owned(), ..HostConfig::default() };
    config.isr.workstreams = 1;
    let mut behind = host::<Light>();
    plug(&behind, 0);
    plug(&behind, 1);
    behind.divide(2);
    behind.set_isr(&config).unwrap();
    assert_eq!(taken(&behind), (2, [2, 0, 0]), "with netisr, all ports belong to the first part");
    behind.divide(2);
    assert_eq!(taken(&behind), (2, [2, 0, 0]));
}

/// Sets a flag when dropped, even if an assertion fails.
pub(crate) struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_part_with_a_thread_is_run_only_by_it() {
    let mut host = host::<Light>();
    let gone = [0, 1].map(|n| plug(&host, n).1);
    host.divide(2);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let run = scope.spawn(|| host.run_part(1, || over.load(Ordering::Relaxed)));
        let ends = Ends(&over);
        let received = || host.stack.counter("inet.link.ether.received");
        while received() == 0 {
            std::thread::yield_now(); // until it runs
        }
        assert_eq!(host.step().frames, 1, "frames of the first part only");
        assert!(
            !host.run_part(1, || true) && !host.run_part(2, || true),
            "a part has one thread, and there is no third part"
        );
        assert!(!host.is_over() && host.gone().is_empty());
        gone[1].store(true, Ordering::Relaxed);
        assert_eq!(host.gone().len(), 1, "ended ports of all parts");
        drop(ends);
        assert!(run.join().unwrap());
    });
    assert_eq!(host.step().frames, 2);
    // If the thread of a part panics, other threads serve the part.
    std::thread::scope(|scope| scope.spawn(|| host.run_part(1, || panic!("on purpose"))).join().unwrap_err());
    assert_eq!(host.step().frames, 2);
    assert_eq!(host.stack.audit(host.cx()).imbalance(), 0);
    assert!(host.shutdown(Duration::from_secs(1)).is_empty());
}

/// A port without frames, with a descriptor that never becomes readable.
struct Silent(std::os::unix::net::UnixStream);

impl RxHalf for Silent {
    fn rx_burst(&mut self, _into: &mut Burst, _most: usize, _now: Instant) -> usize {
        0
    }

    fn wait_fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        Some(std::os::fd::AsFd::as_fd(&self.0))
    }
}

/// A port that delivers the number of frames that the test sets.
struct Given(Pool, Arc<AtomicU32>);

impl RxHalf for Given {
    fn rx_burst(&mut self, into: &mut Burst, _most: usize, _now: Instant) -> usize {
        let take = |n: u32| n.checked_sub(1);
        if self.1.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            return 0;
        }
        let mut frame = self.0.get().unwrap();
        frame.extend(&[0xee; 60]).unwrap();
        into.push(frame).unwrap();
        1
    }
}

/// Frames that a part receives between a round of the host's thread and its sleep are noticed
/// before the sleep.
#[test]
fn a_thread_does_not_oversleep_frames_of_its_part() {
    let mut host = host::<Light>();
    host.divide(2);
    let (fd, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    let given = Arc::new(AtomicU32::new(0));
    for (n, name) in ["em0", "em1"].into_iter().enumerate() {
        let rx: Box<dyn RxHalf> = match n {
            0 => Box::new(Silent(fd.try_clone().unwrap())),
            _ => Box::new(Given(host.stack.pool.clone(), given.clone())),
        };
        let (tx, counts) = (Box::new(Sink), Arc::new(PortCounts::default()));
        let port = Port { name: name.to_owned(), spec: name.to_owned(), caps: Caps::PLAIN, rx, tx, counts, nic: None };
        host.attach(name, Mac([2, 0, 0, 0, 2, n as u8]), port, &IfaceConfig::default()).unwrap();
    }
    let over = AtomicBool::new(false);
    let received = || host.stack.counter("inet.link.ether.received");
    let quick = std::thread::scope(|scope| {
        scope.spawn(|| host.run_part(1, || over.load(Ordering::Relaxed)));
        let _ends = Ends(&over);
        // Uses the minimum of several attempts, because another process may occupy the processor.
        let sleep = |frames: u32| {
            let try_once = |_| {
                while host.step().frames > 0 {}
                let before = received();
                given.store(frames, Ordering::Relaxed);
                while received() < before + u64::from(frames) {
                    std::thread::yield_now();
                }
                let begun = std::time::Instant::now();
                host.wait(Instant::NEVER, None);
                begun.elapsed()
            };
            (0..5).map(try_once).min().unwrap()
        };
        (sleep(1), sleep(0))
    });
    let bound = Duration::from_millis(50);
    assert!(quick.0 < bound && quick.1 > bound, "{quick:?}");
}

/// The thread of a part sleeps for up to 100 ms, but wakes when a port is added or removed.
#[test]
fn a_thread_that_runs_a_part_wakes_when_its_ports_change() {
    let mut host = host::<Light>();
    host.divide(2);
    let (fd, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    let silent = |fd: &std::os::unix::net::UnixStream, name: &str, last| {
        let port = Port {
            name: name.to_owned(),
            spec: "silent".to_owned(),
            caps: Caps::PLAIN,
            rx: Box::new(Silent(fd.try_clone().unwrap())),
            tx: Box::new(Sink),
            counts: Arc::new(PortCounts::default()),
            nic: None,
        };
        host.attach(name, Mac([2, 0, 0, 0, 1, last]), port, &IfaceConfig::default()).unwrap()
    };
    silent(&fd, "em0", 0);
    let claim = host.claim_part(1).unwrap();
    let sleep = || {
        let begun = std::time::Instant::now();
        host.wait_part(claim.part);
        begun.elapsed()
    };
    // Measures the sleep after a port is added, and after `then`. Uses the minimum of several
    // attempts, because another process may occupy the processor.
    let sleeps = |then: &dyn Fn(IfaceId)| {
        let tries = (0..5).map(|_| {
            let iface = silent(&fd, "em1", 1);
            let added = sleep();
            then(iface);
            let then = sleep();
            host.remove_port(iface);
            sleep();
            (added, then)
        });
        tries.reduce(|least, one| (least.0.min(one.0), least.1.min(one.1))).unwrap()
    };
    let quick = Duration::from_millis(50);
    let (added, unchanged) = sleeps(&|_| ());
    assert!(added < quick && unchanged > quick, "{added:?}, {unchanged:?}");
    assert!(sleeps(&|iface| assert!(host.remove_port(iface))).1 < quick);
}

/// A receiver copies frames only while a capture of its iface is open.
#[test]
fn receivers_are_watched_while_a_capture_is_open() {
    let host = host::<Up>();
    let (iface, _) = plug(&host, 1);
    assert!(!host.receivers_watched());
    let wants = crate::capture::Wants::Places(vec![iface.0]);
    let id = host.captures().open(wants, crate::capture::SNAPLEN, None, Instant::ZERO).unwrap();
    assert!(host.receivers_watched());
    assert!(host.captures().close(id) && !host.receivers_watched());
}
