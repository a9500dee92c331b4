//! Tests with threads: order in every mode, switches under load, and workers that panic.

use super::*;
use crate::{spawn_scoped, spawn_worker};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

/// Checks the order of each flow, and counts items that arrived after their successor.
struct Checker {
    /// Next expected number of each flow.
    next: Vec<AtomicU64>,
    misordered: AtomicU64,
    seen: AtomicU64,
}

impl Checker {
    fn new(flows: usize) -> Checker {
        let next = (0..flows).map(|_| AtomicU64::new(0)).collect();
        Checker { next, misordered: AtomicU64::new(0), seen: AtomicU64::new(0) }
    }

    fn work(&self) -> impl FnMut(ProtoId, &mut Items<'_, Number>) + '_ {
        |_, items| {
            for item in items {
                let next = u64::from(item.number) + 1;
                let before = self.next[item.flow as usize].fetch_max(next, Ordering::SeqCst);
                self.misordered.fetch_add(u64::from(before >= next), Ordering::SeqCst);
                self.seen.fetch_add(1, Ordering::SeqCst);
            }
        }
    }

    fn misordered(&self) -> u64 {
        self.misordered.load(Ordering::SeqCst)
    }
}

/// Passes `bursts` bursts of 32 items of the flows `flows` to netisr, and retries each until it is
/// accepted. Returns the number of items.
fn load(caller: &mut Caller<Number>, name: &str, flows: std::ops::Range<u32>, bursts: u32, checker: &Checker) -> u64 {
    let proto = caller.netisr().protocol(name).unwrap();
    let (source, mut work, n) = (u64::from(flows.start), checker.work(), flows.len() as u32);
    for burst in 0..bursts {
        let item = |at: u32| (burst * 32 + at, flows.start + (burst * 32 + at) % n);
        let mut items: List<Number> = (0..32).map(item).map(|(at, flow)| number(flow, at / n)).collect();
        loop {
            caller.dispatch(proto, source, &mut items, &mut work);
            if items.is_empty() {
                break;
            }
            std::thread::yield_now();
        }
    }
    u64::from(bursts) * 32
}

/// Runs a worker for each workstream, and callers that each pass `bursts` bursts of sixteen flows
/// of their own. Returns the number of items. The workers end when all work is done.
fn work_through<'s>(
    scope: &'s std::thread::Scope<'s, '_>,
    isr: &Arc<Netisr<Number>>,
    name: &'static str,
    (callers, bursts): (u32, u32),
    checker: &'s Checker,
) -> u64 {
    for at in 0..isr.workstreams() {
        let mut worker = isr.worker(at).unwrap();
        spawn_scoped(scope, "w", move || worker.run(&mut checker.work())).unwrap();
    }
    let callers: Vec<_> = (0..callers)
        .map(|at| {
            let mut caller = isr.caller(at as usize).unwrap();
            let flows = at * 16..at * 16 + 16;
            spawn_scoped(scope, "c", move || load(&mut caller, name, flows, bursts, checker)).unwrap()
        })
        .collect();
    let given = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
    isr.finish();
    given
}

#[test]
fn each_flow_keeps_its_order_in_every_mode_policy_and_number_of_workstreams() {
    for mode in Mode::ALL {
        for name in ["arp", "ip", "cpu"] {
            for workstreams in [1, 2, 5] {
                let isr = netisr(workstreams, mode);
                let checker = Checker::new(48);
                let given = std::thread::scope(|scope| work_through(scope, &isr, name, (3, 150), &checker));
                let (audit, seen) = (isr.audit(), checker.seen.load(Ordering::SeqCst));
                assert!(audit.holds() && audit.held == 0, "{audit:?}");
                assert_eq!((audit.handled, seen, audit.lost), (given, given, 0), "{mode} {name} {workstreams}");
                assert_eq!(checker.misordered(), 0, "{mode} {name} {workstreams}");
                assert!(mode != Mode::Direct || audit.queued == 0);
                assert!(mode != Mode::Deferred || audit.dispatched == 0);
            }
        }
    }
}

#[test]
fn switches_under_load_lose_nothing() {
    let isr = netisr(2, Mode::Direct);
    let checker = Checker::new(32);
    let over = AtomicBool::new(false);
    let given: u64 = std::thread::scope(|scope| {
        for at in 0..2 {
            let (mut worker, checker) = (isr.worker(at).unwrap(), &checker);
            spawn_scoped(scope, "w", move || worker.run(&mut checker.work())).unwrap();
        }
        let (switched, over) = (isr.clone(), &over);
        spawn_scoped(scope, "s", move || {
            let ip = switched.protocol("ip").unwrap();
            for n in 0.. {
                switched.set_mode(Mode::ALL[n % 3]);
                switched.set_own_mode(ip, [None, Some(Mode::Hybrid), None, Some(Mode::Direct)][n % 4]);
                switched.set_policy(ip, [Policy::Flow, Policy::Source][n % 2]).unwrap();
                switched.set_qlimit(ip, [256, 64, 1000][n % 3]).unwrap();
                std::thread::sleep(Duration::from_millis(10));
                if over.load(Ordering::SeqCst) {
                    return;
                }
            }
        })
        .unwrap();
        let callers: Vec<_> = (0..2u32)
            .map(|at| {
                let (mut caller, checker) = (isr.caller(at as usize).unwrap(), &checker);
                let flows = at * 16..at * 16 + 16;
                let until = Instant::now() + Duration::from_millis(400);
                spawn_scoped(scope, "c", move || {
                    let mut given = 0;
                    // Each round starts at 0 again: the other test checks the order.
                    while Instant::now() < until {
                        given += load(&mut caller, "ip", flows.clone(), 20, checker);
                    }
                    given
                })
                .unwrap()
            })
            .collect();
        let given = callers.into_iter().map(|caller| caller.join().unwrap()).sum();
        over.store(true, Ordering::SeqCst);
        isr.finish();
        given
    });
    let audit = isr.audit();
    assert!(audit.holds() && audit.held == 0, "{audit:?}");
    assert_eq!((audit.handled, checker.seen.load(Ordering::SeqCst), audit.lost), (given, given, 0), "{audit:?}");
    assert!(audit.dispatched > 0 && audit.queued > 0, "{audit:?}");
}

/// Workers start and stop, some in the middle of their queues, while modes and policies change. The
/// next worker continues with the remaining items.
#[test]
fn workers_that_start_and_stop_under_switches_lose_nothing() {
    let isr = netisr(2, Mode::Deferred);
    let checker = Checker::new(32);
    let over = AtomicBool::new(false);
    let (given, lives) = std::thread::scope(|scope| {
        let (over, checker) = (&over, &checker);
        let workers: Vec<_> = (0..2)
            .map(|at| {
                let isr = isr.clone();
                spawn_scoped(scope, "w", move || {
                    let mut lives = 0u64;
                    while !over.load(Ordering::SeqCst) || isr.has_waiting(at) {
                        let mut worker = isr.worker(at).unwrap();
                        assert!(matches!(isr.worker(at), Err(NetisrError::Taken { .. })), "one at a time");
                        // Some workers run a few rounds, others none.
                        (0..lives % 4).for_each(|_| _ = worker.round(&mut checker.work()));
                        lives += 1;
                    }
                    lives
                })
                .unwrap()
            })
            .collect();
        let switched = isr.clone();
        let switch = spawn_scoped(scope, "s", move || {
            let ip = switched.protocol("ip").unwrap();
            for n in 0.. {
                switched.set_mode(Mode::ALL[n % 3]);
                switched.set_policy(ip, [Policy::Flow, Policy::Source][n % 2]).unwrap();
                std::thread::sleep(Duration::from_millis(1));
                if over.load(Ordering::SeqCst) {
                    return;
                }
            }
        });
        let mut caller = isr.caller(0).unwrap();
        let until = Instant::now() + Duration::from_millis(300);
        let mut given = 0;
        while Instant::now() < until {
            given += load(&mut caller, "ip", 0..32, 20, checker);
        }
        over.store(true, Ordering::SeqCst);
        switch.unwrap().join().unwrap();
        let lives: u64 = workers.into_iter().map(|worker| worker.join().unwrap()).sum();
        (given, lives)
    });
    let audit = isr.audit();
    assert!(audit.holds() && audit.held == 0 && lives > 100, "{lives} lives: {audit:?}");
    assert_eq!((audit.handled, checker.seen.load(Ordering::SeqCst), audit.lost), (given, given, 0), "{audit:?}");
}

/// A worker that also has other work takes a few queues per round, but not all items that arrive
/// meanwhile. The next round takes these items.
#[test]
fn a_round_ends_under_continuous_load() {
    let isr = netisr(1, Mode::Deferred);
    let ip = isr.protocol("ip").unwrap();
    let (mut caller, mut worker) = (isr.caller(0).unwrap(), isr.worker(0).unwrap());
    caller.queue(ip, 0, &mut (0..10).map(|n| number(1, n)).collect());
    let (mut seen, mut next) = (Vec::new(), 10);
    for _ in 0..5 {
        // Each item adds another one: a turn would never end.
        let mut bring = isr.caller(0).unwrap();
        let worked = worker.round(&mut |_: ProtoId, items: &mut Items<'_, Number>| {
            seen.extend(items.map(|item| item.number));
            bring.queue(ip, 0, &mut (next..next + 10).map(|n| number(1, n)).collect());
            next += 10;
        });
        assert!((10..=30).contains(&worked), "{worked}: as many queues as there are protocols");
        assert!(isr.has_waiting(0));
    }
    assert_eq!(seen, (0..seen.len() as u32).collect::<Vec<_>>());
    let audit = isr.audit();
    assert!(audit.holds() && audit.held > 0, "{audit:?}");
}

#[test]
fn a_single_mode_can_be_enforced() {
    let config = Config { mode: Mode::Deferred, only: Some(Mode::Deferred), ..Config::default() };
    let isr = Netisr::new(config.clone(), protocols()).unwrap();
    assert_eq!(isr.check_mode(Mode::Deferred), Ok(()));
    assert_eq!(isr.check_mode(Mode::Direct), Err(NetisrError::OtherMode { only: Mode::Deferred }));
    assert!(Netisr::new(Config { mode: Mode::Hybrid, ..config.clone() }, protocols()).is_err());
    let direct = vec![Protocol { dispatch: Some(Mode::Direct), ..Protocol::new("arp", 4) }];
    assert!(matches!(Netisr::<Number>::new(config, direct), Err(NetisrError::OtherMode { .. })));
    // Totals of one workstream do not include those of the other.
    let isr = netisr(2, Mode::Deferred);
    let arp = isr.protocol("arp").unwrap();
    isr.caller(0).unwrap().queue(arp, 1, &mut (0..7).map(|n| number(1, n)).collect());
    assert_eq!(
        (isr.audit_of(0).held, isr.audit_of(1).held, isr.has_waiting(0), isr.has_waiting(1)),
        (0, 7, false, true)
    );
    isr.drain_of(0, |_, _| panic!("nothing waits there"));
    let mut drained = 0;
    isr.drain_of(1, |_, _| drained += 1);
    assert_eq!((drained, isr.audit().held, isr.audit().drained), (7, 0, 7));
}

#[test]
fn reordering_by_a_switch_to_direct_is_detected() {
    let isr = netisr(1, Mode::Deferred);
    let (ip, checker) = (isr.protocol("ip").unwrap(), Checker::new(1));
    let (mut caller, mut worker) = (isr.caller(0).unwrap(), isr.worker(0).unwrap());
    let mut give = |numbers: std::ops::Range<u32>| {
        caller.dispatch(ip, 0, &mut numbers.map(|n| number(0, n)).collect(), &mut checker.work());
    };
    give(0..3);
    isr.set_mode(Mode::Direct);
    give(3..5); // overtake those that wait
    worker.turn(&mut checker.work());
    give(5..6);
    assert_eq!((checker.misordered(), checker.seen.load(Ordering::SeqCst)), (3, 6));
    let overtaken = || isr.snapshot().protocols.iter().find(|row| row.name == "ip").unwrap().overtaken;
    assert_eq!(overtaken(), 3, "each is counted once");
    isr.set_mode(Mode::Deferred);
    give(6..8);
    isr.set_mode(Mode::Hybrid);
    give(8..9); // waits for its turn
    worker.turn(&mut checker.work());
    assert_eq!((checker.misordered(), checker.seen.load(Ordering::SeqCst), overtaken()), (3, 9, 3));
    isr.set_mode(Mode::Direct);
    give(9..10); // no item waits
    assert_eq!((checker.misordered(), overtaken()), (3, 3));
}

/// Under load, with a switch each millisecond, no more items arrive late than netisr reports as
/// possibly overtaken. The reported number is not zero.
#[test]
fn late_items_do_not_exceed_overtaken_ones() {
    for workstreams in [1, 3] {
        let isr = netisr(workstreams, Mode::Deferred);
        let (checker, over) = (Checker::new(32), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let (switched, over_too) = (&isr, &over);
            spawn_scoped(scope, "s", move || {
                for n in 0.. {
                    switched.set_mode([Mode::Deferred, Mode::Direct][n % 2]);
                    std::thread::sleep(Duration::from_millis(1));
                    if over_too.load(Ordering::SeqCst) {
                        return;
                    }
                }
            })
            .unwrap();
            assert_eq!(work_through(scope, &isr, "ip", (2, 3000), &checker), 2 * 3000 * 32);
            over.store(true, Ordering::SeqCst);
        });
        let overtaken: u64 = isr.snapshot().protocols.iter().map(|row| row.overtaken).sum();
        println!("{workstreams}: {} came too late of {overtaken} overtaken at most", checker.misordered());
        assert!(checker.misordered() <= overtaken, "{} {overtaken}", checker.misordered());
        assert!(isr.audit().holds() && isr.audit().held == 0, "{:?}", isr.audit());
    }
}

#[test]
fn a_panicking_worker_loses_only_its_current_items() {
    let isr = Netisr::new(Config { mode: Mode::Deferred, default_qlimit: 2000, ..Config::default() }, protocols());
    let isr = isr.unwrap();
    let ip = isr.protocol("ip").unwrap();
    let mut caller = isr.caller(0).unwrap();
    let mut items: List<Number> = (0..1000).map(|n| number(1, n)).collect();
    caller.queue(ip, 0, &mut items);
    let mut worker = isr.worker(0).unwrap();
    let dead = spawn_worker("w", None, move |_| {
        worker.run(&mut |_: ProtoId, items: &mut Items<'_, Number>| {
            for item in items {
                assert_ne!(item.number, 300, "the item that nobody can stand");
            }
        });
    });
    assert!(dead.unwrap().join().is_err());
    let audit = isr.audit();
    assert_eq!((audit.handled, audit.lost, audit.held, audit.holds()), (256, 256, 488, true), "{audit:?}");
    // Items that arrive meanwhile wait behind the others, and the next worker continues where the
    // first one stopped.
    caller.queue(ip, 0, &mut (1000..1010).map(|n| number(1, n)).collect());
    let mut seen = Vec::new();
    let mut next = isr.worker(0).unwrap();
    next.turn(&mut |_: ProtoId, items: &mut Items<'_, Number>| seen.extend(items.map(|item| item.number)));
    assert_eq!(seen, (512..1010).collect::<Vec<_>>());
    let audit = isr.audit();
    assert!(audit.holds() && audit.held == 0 && audit.lost == 256, "{audit:?}");
    // A caller that panics in the middle of its turn in hybrid mode does not keep the turn.
    isr.set_mode(Mode::Hybrid);
    let mut other = isr.caller(0).unwrap();
    let died = spawn_worker("c", None, move |_| {
        let dies = &mut |_: ProtoId, _: &mut Items<'_, Number>| panic!("nor this");
        other.dispatch(ip, 0, &mut [number(1, 0)].into(), dies);
    });
    assert!(died.unwrap().join().is_err());
    let mut done = 0;
    let count = &mut |_: ProtoId, items: &mut Items<'_, Number>| done += items.count();
    caller.dispatch(ip, 0, &mut [number(1, 1)].into(), count);
    let audit = isr.audit();
    assert!(done == 1 && audit.holds() && audit.lost == 257, "{audit:?}");
}

#[test]
fn awake_workers_are_not_woken_and_a_stop_keeps_waiting_items() {
    let isr = netisr(1, Mode::Deferred);
    let ip = isr.protocol("ip").unwrap();
    let mut caller = isr.caller(0).unwrap();
    let (mut worker, done) = (isr.worker(0).unwrap(), Arc::new(AtomicU64::new(0)));
    let counted = done.clone();
    let thread = spawn_worker("w", None, move |_| {
        worker.run(&mut |_: ProtoId, items: &mut Items<'_, Number>| {
            counted.fetch_add(items.count() as u64, Ordering::SeqCst);
        });
        worker
    })
    .unwrap();
    let wait = |until: &dyn Fn() -> bool| {
        let end = Instant::now() + Duration::from_secs(20);
        while !until() {
            assert!(Instant::now() < end);
            std::thread::yield_now();
        }
    };
    for burst in 1..=20 {
        wait(&|| isr.switches().1 == burst);
        caller.queue(ip, 0, &mut (0..32).map(|n| number(1, n)).collect());
        wait(&|| done.load(Ordering::SeqCst) == burst * 32);
    }
    assert_eq!(isr.switches().0, 20, "once for each burst, and only when it slept");
    isr.stop();
    let worker = thread.join().unwrap();
    caller.queue(ip, 0, &mut (0..5).map(|n| number(1, n)).collect());
    assert_eq!((isr.held(), worker.workstream()), (5, 0));
}
