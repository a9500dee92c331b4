//! A netperf test, tcpconnect, or clients of a service, between two hosts, with a given netisr
//! configuration of the judged host.
//!
//! Each trial creates its hosts anew, so that nothing remains of an earlier trial. The figure
//! includes neither their creation nor the warm-up, since the test itself measures the time.

use crate::netperf::{Ground, Observed, Place};
use crate::os;
use crate::sample::Sample;
use crate::subject::{Reading, Subject};
use crate::timer;
use anyhow::{Context, bail};
use apps::load::{Fileload, Files, Kvload, Load, Mix, Proportions};
use apps::netperf::near::Near;
use apps::netperf::session::{Netserver, Play, Round};
use apps::netperf::sockets::Sockets;
use apps::netperf::{Length, Options, Outcome, Test};
use apps::netrate::{Connected, Fetch, PATH, Tcpconnect};
use apps::span::Took;
use clock::Duration;
use std::io;
use std::net::SocketAddr;

/// Work that a trial performs between the two hosts.
#[derive(Debug, Clone)]
pub enum Work {
    /// One of netperf's tests.
    Netperf(Options),
    /// Connections, one after the other, for the given time.
    Connect(Duration),
    /// Clients of a service, for the given time.
    Serve(Service, Duration),
}

/// Service that the clients use: [`CLIENTS`] of them, each with [`DEPTH`] requests under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// A key-value store: `kvload` with 1000 keys.
    Kv,
    /// A file service: `fileload` with 100 files.
    Files,
    /// Web pages of 1 KiB, a connection each, one request under way per client: netrate's `http`.
    Http,
}

impl Service {
    /// All services, for loops over them.
    pub const ALL: [Service; 3] = [Service::Kv, Service::Files, Service::Http];

    /// Returns the name of the workload that uses the service.
    pub fn name(self) -> &'static str {
        match self {
            Service::Kv => "kvload",
            Service::Files => "fileload",
            Service::Http => "http",
        }
    }
}

/// Number of clients of a service.
const CLIENTS: usize = 8;
/// Number of requests that each client has under way.
const DEPTH: usize = 8;

/// Maximum number of tries of a trial until an operation completes. Each try is four times as long
/// as the one before.
const MOST_TRIES: u32 = 4;
/// Minimum share of a trial's time that counts as working time, even if the thread was preempted
/// for longer than the rest.
const LEAST_SHARE: f64 = 0.01;

/// Maximum duration of the warm-up on new hosts. Without it, the page faults at the first use of
/// their pools' pages would take up to a fifth of a trial of 20 ms.
const WARM_UP: Duration = Duration::from_millis(10);
/// Factor by which a trial that is run for its counters is longer than a measured trial. It has no
/// warm-up, since the hosts count from their creation.
const COUNTED: u32 = 5;

/// A test (play) and, on the same hosts, a shorter warm-up before it.
struct Warmed<P> {
    warm_up: Option<P>,
    play: P,
}

impl<P: Play> Warmed<P> {
    /// Runs `play` on the hosts of `ground`, after `warm_up` if `warm` is set. Returns `play` and
    /// the counters, summed over both.
    fn run(ground: &impl Ground, warm: bool, [warm_up, play]: [P; 2]) -> anyhow::Result<(P, Observed)> {
        let mut both = Warmed { warm_up: warm.then_some(warm_up), play };
        let seen = ground.run_counted(&mut both)?;
        Ok((both.play, seen))
    }
}

impl<P: Play> Play for Warmed<P> {
    type Far = P::Far;

    fn near<S: Sockets>(&mut self, sockets: &mut S, round: Round<'_, S>, at: SocketAddr) -> anyhow::Result<()> {
        if let Some(warm_up) = &mut self.warm_up {
            warm_up.near(sockets, round, at).context("warm-up")?;
        }
        self.play.near(sockets, round, at)
    }
}

/// A netperf test that stores its result.
struct Once<'a> {
    options: &'a Options,
    outcome: Option<Outcome>,
}

impl Play for Once<'_> {
    type Far = Netserver;

    fn near<S: Sockets>(&mut self, sockets: &mut S, round: Round<'_, S>, at: SocketAddr) -> anyhow::Result<()> {
        self.outcome = Some(Near::new(sockets, round, |_| ()).run(at, self.options)?);
        Ok(())
    }
}

/// Rig that performs [`Work`]; an operation is a received byte, a transaction or a connection.
pub struct NetperfRig {
    id: String,
    place: Place,
    work: Work,
    warm: bool,
    seen: Observed,
}

impl NetperfRig {
    /// Creates a rig at `place`; its trials begin with a warm-up.
    pub fn new(id: &str, place: Place, work: Work) -> NetperfRig {
        NetperfRig { id: id.to_owned(), place, work, warm: true, seen: Observed::default() }
    }

    /// Creates a rig at `place` for one trial that is run for its counters ([`NetperfRig::seen`]):
    /// it has no warm-up, and is several times as long.
    pub fn counted(place: Place, work: &Work) -> NetperfRig {
        NetperfRig {
            id: "counted".to_owned(),
            place,
            work: work.times(COUNTED),
            warm: false,
            seen: Observed::default(),
        }
    }

    /// Returns the counters of the hosts in the last trial.
    pub fn seen(&self) -> &Observed {
        &self.seen
    }
}

/// Result of a run: operations (bytes of a stream that arrived, transactions or connections),
/// duration, and counts.
struct Done {
    ops: u64,
    took: Took,
    seen: Observed,
}

impl Work {
    fn is_stream(&self) -> bool {
        matches!(self, Work::Netperf(options) if options.test.is_stream())
    }

    /// Returns the unit in which costs are stated: the number of operations in it, and its name.
    pub fn each(&self) -> (f64, &'static str) {
        if self.is_stream() { (1000.0, "1000 bytes") } else { (1.0, "an operation") }
    }

    /// Returns the unit of [`Work::rates`].
    pub fn unit(&self) -> &'static str {
        match self {
            Work::Netperf(_) if self.is_stream() => "10^6bits/s",
            Work::Netperf(_) => "trans/s",
            Work::Connect(_) => "conn/s",
            Work::Serve(..) => "requests/s",
        }
    }

    /// Returns the conversion from ticks per operation to the unit of [`Work::unit`].
    pub fn rate(&self) -> fn(f64) -> f64 {
        if self.is_stream() {
            |ticks| 8e-6 * timer::rate().hz as f64 / ticks
        } else {
            |ticks| timer::rate().hz as f64 / ticks
        }
    }

    /// Returns the rate of each build, in the unit of [`Work::unit`].
    pub fn rates(&self, sample: &Sample) -> Vec<f64> {
        sample.values().into_iter().map(self.rate()).collect()
    }

    /// Performs the work between the hosts of `ground`, after a warm-up if `warm` is set. Returns
    /// the trial's reading, and the counters summed over warm-up and trial.
    ///
    /// # Errors
    /// As [`Work::run`].
    pub fn reading(&self, ground: &impl Ground, warm: bool) -> anyhow::Result<(Reading, Observed)> {
        let (cpu, wall, switches) = (os::thread_cpu_ns(), os::monotonic_ns(), os::context_switches());
        let (Done { ops, mut seen, .. }, seconds) = self.run(ground, warm)?;
        let after = os::context_switches();
        seen.switches = [after[0] - switches[0], after[1] - switches[1]];
        let ticks = (seconds * timer::rate().hz as f64) as u64;
        let (wall_ns, cpu_ns) = (os::monotonic_ns() - wall, os::thread_cpu_ns() - cpu);
        Ok((Reading { ops, ticks, wall_ns, cpu_ns }, seen))
    }

    /// Performs the work between the hosts of `ground`. If no operation completed, repeats the work
    /// for four times as long. Returns the result of the last try, and the seconds of all tries. If
    /// one thread drives both ends, the time in which it was preempted is excluded.
    ///
    /// # Errors
    /// The work failed, or nothing was done in any try.
    fn run(&self, ground: &impl Ground, warm: bool) -> anyhow::Result<(Done, f64)> {
        let (mut longer, mut seconds) = (1, 0.0);
        for _ in 0..MOST_TRIES {
            let done = self.times(longer).once(ground, warm)?;
            let lost = if ground.is_one_thread() { done.took.preempted } else { 0.0 };
            seconds += (done.took.seconds - lost).max(LEAST_SHARE * done.took.seconds);
            if done.ops > 0 {
                return Ok((done, seconds));
            }
            // On a busy machine, a host may not have run at all during a try.
            longer *= 4;
        }
        bail!("no operation completed in {MOST_TRIES} tries")
    }

    /// Returns this work with `n` times the duration. Work that ends after a number of operations
    /// stays unchanged.
    fn times(&self, n: u32) -> Work {
        match self {
            Work::Netperf(options) => match options.length {
                Length::Time(time) => Work::Netperf(Options { length: Length::Time(time * n), ..options.clone() }),
                Length::Count(_) => self.clone(),
            },
            Work::Connect(time) => Work::Connect(*time * n),
            Work::Serve(service, time) => Work::Serve(*service, *time * n),
        }
    }

    fn once(&self, ground: &impl Ground, warm: bool) -> anyhow::Result<Done> {
        let outs = &mut [io::sink(), io::sink()];
        match self {
            Work::Netperf(options) => netperf(ground, warm, options),
            Work::Connect(time) => {
                let [first, out] = outs;
                let plays = [Tcpconnect::new(warm_up(*time), first), Tcpconnect::new(*time, out)];
                let (tool, seen) = Warmed::run(ground, warm, plays)?;
                let Connected { count, took } = tool.done.context("tcpconnect did not end")?;
                Ok(Done { ops: count, took, seen })
            }
            Work::Serve(Service::Kv, time) => {
                let mix = || Kvload::new(Proportions { keys: 1000, ..Proportions::default() });
                ask(ground, warm, [mix(), mix()], *time)
            }
            Work::Serve(Service::Files, time) => {
                let mix = || Fileload::new(Files { count: 100, ..Files::default() });
                ask(ground, warm, [mix(), mix()], *time)
            }
            Work::Serve(Service::Http, time) => {
                let [first, out] = outs;
                let fetch = |time, out| Fetch { at_a_time: CLIENTS, time, path: PATH, out, done: None };
                let (tool, seen) = Warmed::run(ground, warm, [fetch(warm_up(*time), first), fetch(*time, out)])?;
                let (ops, took) = tool.done.context("http did not end")?;
                Ok(Done { ops, took, seen })
            }
        }
    }
}

/// Returns the duration of the warm-up before work of the given duration.
fn warm_up(time: Duration) -> Duration {
    WARM_UP.min(time / 2)
}

fn netperf(ground: &impl Ground, warm: bool, options: &Options) -> anyhow::Result<Done> {
    let length = match options.length {
        Length::Time(time) => warm_up(time),
        Length::Count(_) => WARM_UP,
    };
    let shorter = Options { length: Length::Time(length), ..options.clone() };
    let plays = [&shorter, options].map(|options| Once { options, outcome: None });
    let (once, seen) = Warmed::run(ground, warm, plays)?;
    let outcome = once.outcome.context("the test has no result")?;
    let ops = match outcome.test {
        Test::UdpStream => outcome.tally.bytes,
        test if test.is_stream() => outcome.bytes,
        _ => outcome.messages,
    };
    Ok(Done { ops, took: Took { seconds: outcome.elapsed, preempted: outcome.preempted }, seen })
}

fn ask<M: Mix>(ground: &impl Ground, warm: bool, [first, mix]: [M; 2], time: Duration) -> anyhow::Result<Done> {
    let [first_out, out] = &mut [io::sink(), io::sink()];
    let load = |mix, time, out| Load { mix, time, clients: CLIENTS, depth: DEPTH, json: false, out, report: None };
    let (load, seen) = Warmed::run(ground, warm, [load(first, warm_up(time), first_out), load(mix, time, out)])?;
    let report = load.report.context("the workload did not end")?;
    Ok(Done { ops: report.answered, took: Took { seconds: report.elapsed, preempted: report.preempted }, seen })
}

impl Subject for NetperfRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let (reading, seen) = self.work.reading(&self.place, self.warm).with_context(|| self.id.clone())?;
        self.seen = seen;
        Ok(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netperf::{Dispatched, Drivers, Isr, Over};
    use dispatch::netisr::Mode;

    fn rig(over: Over, drivers: Drivers, dispatch: Mode, test: Test) -> NetperfRig {
        let isr = Some(Isr { workstreams: 1, dispatch });
        let place = Place { isr, drivers, ..Place::new(over) };
        let length = Length::Count(50); // a fixed count, independent of the machine's speed
        NetperfRig::new("x", place, Work::Netperf(Options { length, ..Options::new(test) }))
    }

    #[test]
    fn each_service_answers_its_clients() {
        for over in [Over::Pair, Over::Router] {
            for service in Service::ALL {
                let work = Work::Serve(service, Duration::from_millis(60));
                let mut rig = NetperfRig::new(service.name(), Place::new(over), work);
                let reading = rig.trial().unwrap();
                assert!(reading.ops > 0 && reading.ticks > 0, "{over:?} {service:?}: {reading:?}");
                assert_eq!((rig.work.unit(), rig.work.each().0), ("requests/s", 1.0));
            }
        }
    }

    #[test]
    fn the_measured_host_uses_its_netisr_settings() {
        for over in [Over::Pair, Over::Router] {
            for drivers in [Drivers::One, Drivers::Each] {
                for mode in Mode::ALL {
                    let mut rig = rig(over, drivers, mode, Test::TcpRr);
                    let reading = rig.trial().unwrap();
                    let Dispatched { directly, queued, refused, .. } = rig.seen().netisr;
                    if drivers == Drivers::Each {
                        assert!(rig.seen().switches[0] > 0, "threads are waited for at least when they end");
                    }
                    assert!(reading.ops == 50 && refused == 0, "{over:?} {drivers:?} {mode}: {reading:?}");
                    let all = directly + queued;
                    assert!(all as f64 >= reading.ops as f64, "{over:?} {drivers:?} {mode}: {directly} {queued}");
                    match mode {
                        Mode::Direct => assert_eq!(queued, 0, "{over:?} {drivers:?}"),
                        Mode::Deferred => assert!(queued > directly, "{over:?} {drivers:?}: {directly} {queued}"),
                        Mode::Hybrid => {}
                    }
                }
            }
        }
    }

    /// Runs a trial of 60 ms while a busy thread runs on the same core.
    fn beside_a_busy_thread(place: &Place) -> (Done, f64) {
        let core = dispatch::last_core();
        let _pinned = dispatch::pinned_to_core(core).unwrap();
        let length = Length::Time(Duration::from_millis(60));
        let work = Work::Netperf(Options { length, ..Options::new(Test::TcpRr) });
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                dispatch::pin_to_core(core).unwrap();
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let done = work.run(place, true);
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            done.unwrap()
        })
    }

    #[test]
    fn time_preempted_from_the_only_thread_is_subtracted() {
        if dispatch::thread_delay_ns().is_none() {
            return println!("skipped: this kernel has no /proc/thread-self/schedstat");
        }
        for over in [Over::Router, Over::Native] {
            let (done, seconds) = beside_a_busy_thread(&Place::new(over));
            assert!(done.took.preempted > 0.005 && done.took.seconds >= 0.055, "{over:?}: {:?}", done.took);
            assert!((seconds + done.took.preempted - done.took.seconds).abs() < 1e-6, "{over:?}: {seconds}");
        }
        let (done, seconds) = beside_a_busy_thread(&Place { wall_clock: true, ..Place::new(Over::Router) });
        assert!(done.took.preempted > 0.005 && seconds >= 0.055, "{seconds}");
    }

    #[test]
    fn places_with_several_threads_use_wall_clock_time() {
        let is_one = |over, drivers| Place { drivers, ..Place::new(over) }.is_one_thread();
        for over in Over::ALL {
            let one = !matches!(over, Over::Nic | Over::Tap);
            assert_eq!(is_one(over, Drivers::One), one, "{over:?}");
            assert!(!is_one(over, Drivers::Each), "{over:?}");
        }
        assert!(!is_one(Over::Pair, Drivers::Workers) && is_one(Over::Veth, Drivers::Workers));
    }

    #[test]
    fn a_warm_up_uses_the_same_hosts_and_counted_trials_have_none() {
        let options = Options { length: Length::Count(20), ..Options::new(Test::TcpRr) };
        let work = Work::Netperf(options);
        let place = Place::new(Over::Router);
        let established = |mut rig: NetperfRig| {
            assert_eq!(rig.trial().unwrap().ops, 20);
            rig.seen().counters["tcp.state.established"]
        };
        // Two connections, the control connection and the test's, with two ends each.
        assert_eq!(established(NetperfRig::counted(place.clone(), &work)), 4);
        assert_eq!(established(NetperfRig::new("warm", place, work)), 8);
        let ten = Duration::from_millis(10);
        let counted = NetperfRig::counted(Place::new(Over::Pair), &Work::Connect(ten));
        assert!(matches!(counted.work, Work::Connect(time) if time == ten * 5));
        assert_eq!([1, 20, 1000].map(|ms| warm_up(Duration::from_millis(ms)).as_micros()), [500, 10_000, 10_000]);
    }

    #[test]
    fn connections_are_counted() {
        let isr = Some(Isr { workstreams: 1, dispatch: Mode::Deferred });
        let place = Place { isr, ..Place::new(Over::Pair) };
        let mut rig = NetperfRig::new("c", place, Work::Connect(Duration::from_millis(30)));
        assert!(rig.trial().unwrap().ops > 5 && rig.seen().netisr.queued > 10);
    }
}
