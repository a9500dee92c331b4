use super::*;
use proptest::prelude::*;

/// Takes all items, and stores their numbers.
fn keep(seen: &mut Vec<u32>) -> impl FnMut(ProtoId, &mut Items<'_, Number>) {
    |_, items| seen.extend(items.map(|item| item.number))
}

fn list(flow: u32, numbers: std::ops::Range<u32>) -> List<Number> {
    numbers.map(|n| number(flow, n)).collect()
}

fn row(isr: &Netisr<Number>, workstream: usize, name: &str) -> WorkRow {
    isr.snapshot().row(workstream, name).unwrap().clone()
}

#[test]
fn direct_mode_runs_in_the_caller_and_counts_there() {
    let isr = netisr(4, Mode::Direct);
    let (ip, mut seen) = (isr.protocol("ip").unwrap(), Vec::new());
    let mut caller = isr.caller(2).unwrap();
    let mut items = list(7, 0..300);
    caller.dispatch(ip, 1, &mut items, &mut keep(&mut seen));
    assert_eq!((seen, items.len()), ((0..300).collect(), 0));
    caller.count_direct(ip, 5);
    drop(caller);
    let row = row(&isr, 2, "ip");
    assert_eq!((row.dispatched, row.handled, row.queued, row.len, row.watermark), (305, 305, 0, 0, 0));
    assert!(isr.audit().holds());
}

#[test]
fn deferred_mode_queues_for_the_worker_and_returns_the_excess() {
    let isr = netisr(1, Mode::Deferred);
    let (ip, arp) = (isr.protocol("ip").unwrap(), isr.protocol("arp").unwrap());
    isr.set_qlimit(ip, 10).unwrap();
    let (mut caller, mut worker) = (isr.caller(0).unwrap(), isr.worker(0).unwrap());
    let (mut items, mut none) = (list(1, 0..13), |_: ProtoId, _: &mut Items<'_, Number>| unreachable!());
    caller.dispatch(ip, 1, &mut items, &mut none);
    assert_eq!(items, list(1, 10..13));
    caller.dispatch(arp, 1, &mut list(1, 20..22), &mut none);
    let ip_row = row(&isr, 0, "ip");
    assert_eq!((ip_row.len, ip_row.watermark, ip_row.queued, ip_row.qdrops, ip_row.handled), (10, 10, 10, 3, 0));
    assert_eq!((isr.held(), isr.audit().holds(), isr.audit().offered()), (12, true, 15));
    let mut seen = Vec::new();
    assert_eq!(worker.turn(&mut keep(&mut seen)), 12);
    assert_eq!(seen, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 21]);
    assert_eq!((row(&isr, 0, "ip").handled, row(&isr, 0, "arp").handled, isr.held()), (10, 2, 0));
    assert_eq!(worker.turn(&mut keep(&mut seen)), 0);
}

#[test]
fn a_queue_in_progress_accepts_its_limit_again() {
    let isr = netisr(1, Mode::Deferred);
    let arp = isr.protocol("arp").unwrap();
    isr.set_qlimit(arp, 4).unwrap();
    let (mut caller, mut worker, mut inner) = (isr.caller(0).unwrap(), isr.worker(0).unwrap(), isr.caller(0).unwrap());
    caller.queue(arp, 0, &mut list(1, 0..4));
    let (mut seen, mut refused, mut first) = (Vec::new(), List::new(), true);
    let mut work = |_: ProtoId, items: &mut Items<'_, Number>| {
        if std::mem::take(&mut first) {
            // Items dispatched by the work function itself are queued, and never processed
            // recursively.
            refused = list(1, 4..9);
            inner.dispatch(arp, 0, &mut refused, &mut |_: ProtoId, _: &mut Items<'_, Number>| unreachable!());
            assert_eq!(isr.held(), 8);
        }
        seen.extend(items.map(|item| item.number));
    };
    worker.turn(&mut work);
    assert_eq!((seen, refused), ((0..8).collect(), list(1, 8..9)));
}

#[test]
fn hybrid_mode_runs_in_the_caller_only_in_turn() {
    let isr = netisr(2, Mode::Hybrid);
    let ip = isr.protocol("ip").unwrap();
    let (mut caller, mut worker) = (isr.caller(0).unwrap(), isr.worker(0).unwrap());
    let (mut seen, mut other) = (Vec::new(), isr.caller(0).unwrap());
    // Flow 2 belongs to workstream 0, the caller's own; flow 3 does not.
    let mut items: List<Number> = [number(2, 0), number(3, 1), number(2, 2)].into();
    let mut within = |_: ProtoId, items: &mut Items<'_, Number>| {
        if seen.is_empty() {
            other.dispatch(ip, 0, &mut list(2, 9..10), &mut |_: ProtoId, _: &mut Items<'_, Number>| unreachable!());
        }
        seen.extend(items.map(|item| item.number));
    };
    caller.dispatch(ip, 0, &mut items, &mut within);
    assert_eq!(seen, [0, 2]);
    let first = row(&isr, 0, "ip");
    assert_eq!((first.hybrid_dispatched, first.queued, first.handled, first.dispatched), (2, 1, 2, 0));
    assert_eq!((row(&isr, 1, "ip").queued, row(&isr, 1, "ip").len), (1, 1));
    // An item is now waiting, so the next one must wait too.
    caller.dispatch(ip, 0, &mut list(2, 10..11), &mut keep(&mut seen));
    assert_eq!((seen.len(), row(&isr, 0, "ip").queued), (2, 2));
    worker.turn(&mut keep(&mut seen));
    assert_eq!(seen, [0, 2, 9, 10]);
    caller.dispatch(ip, 0, &mut list(2, 11..12), &mut keep(&mut seen));
    assert_eq!((seen.len(), row(&isr, 0, "ip").hybrid_dispatched), (5, 3));
    assert!(isr.audit().holds() && isr.held() == 1);
}

#[test]
fn the_policy_selects_the_workstream() {
    let isr = netisr(4, Mode::Deferred);
    let mut caller = isr.caller(3).unwrap();
    let mut place = |name, source, item: Number| {
        let before: Vec<u64> = (0..4).map(|at| row(&isr, at, name).queued).collect();
        caller.dispatch(isr.protocol(name).unwrap(), source, &mut List::from([item]), &mut keep(&mut Vec::new()));
        (0..4).find(|at| row(&isr, *at, name).queued > before[*at]).unwrap()
    };
    assert_eq!(place("arp", 6, number(1, 0)), 2, "by source");
    assert_eq!(place("ip", 6, number(7, 0)), 3, "by the flow from m2flow");
    assert_eq!(place("ip", 6, Number { said: Some(9), ..number(7, 0) }), 1, "by the flow of the item");
    assert_eq!(place("cpu", 6, number(5, 0)), 1, "by the result of m2cpuid");
    assert_eq!(place("cpu", 6, number(0, 0)), 2, "by source, because m2cpuid returned None");
    isr.drain(|_, _| {});
    isr.set_mode(Mode::Hybrid);
    let cpu = isr.protocol("cpu").unwrap();
    let mut seen = Vec::new();
    caller.dispatch(cpu, 6, &mut list(0, 0..1), &mut keep(&mut seen));
    assert_eq!((seen.len(), row(&isr, 3, "cpu").hybrid_dispatched), (1, 1), "hybrid mode selects the caller's own");
    isr.set_policy(isr.protocol("ip").unwrap(), Policy::Source).unwrap();
    caller.queue(isr.protocol("ip").unwrap(), 0, &mut list(7, 0..1));
    assert_eq!(row(&isr, 0, "ip").queued, 1);
}

#[test]
fn a_queue_limit_of_zero_rejects_everything() {
    let isr = netisr(2, Mode::Deferred);
    let ip = isr.protocol("ip").unwrap();
    isr.set_qlimit(ip, 0).unwrap();
    let mut items: List<Number> = (0..50).map(|n| number(n, n)).collect();
    isr.caller(0).unwrap().dispatch(ip, 0, &mut items, &mut keep(&mut Vec::new()));
    assert_eq!((items.len(), isr.audit().qdrops, isr.held()), (50, 50, 0));
    isr.set_mode(Mode::Direct);
    let mut seen = Vec::new();
    isr.caller(0).unwrap().dispatch(ip, 0, &mut items, &mut keep(&mut seen));
    assert_eq!(seen.len(), 50, "items that are not queued need no space");
    assert!(isr.audit().holds());
}

#[test]
fn invalid_settings_are_rejected() {
    let made = |config: Config, protocols| Netisr::<Number>::new(config, protocols).map(drop).unwrap_err();
    let refused = made(Config { workstreams: 65, ..Config::default() }, protocols());
    assert_eq!(refused, NetisrError::Workstreams { requested: 65, most: 64 });
    assert_eq!(refused.to_string(), "65 workstreams: must be 1 to 64");
    let two = Config { workstreams: 3, max_workstreams: 2, ..Config::default() };
    assert_eq!(made(two, protocols()), NetisrError::Workstreams { requested: 3, most: 2 });
    assert_eq!(
        made(Config { workstreams: 0, ..Config::default() }, protocols()),
        NetisrError::Workstreams { requested: 0, most: 64 }
    );
    assert_eq!(made(Config::default(), Vec::new()), NetisrError::Protocols { requested: 0 });
    let twice = || vec![Protocol::new("ip", 1), Protocol::new("ip", 2)];
    assert_eq!(made(Config::default(), twice()), NetisrError::Twice { protocol: "ip" });
    let unanswered = vec![Protocol { policy: Policy::Cpu, ..Protocol::new("ip", 1) }];
    let refused = made(Config::default(), unanswered);
    assert_eq!(refused.to_string(), "ip: policy 'cpu' is not available: the protocol does not select the workstream");
    let isr = netisr(1, Mode::Direct);
    let ip = isr.protocol("ip").unwrap();
    assert_eq!(isr.set_policy(ip, Policy::Cpu), Err(NetisrError::PolicyUnanswered { protocol: "ip" }));
    assert_eq!(isr.set_qlimit(ip, 10_241), Err(NetisrError::Limit { requested: 10_241, most: 10_240 }));
    assert_eq!(isr.qlimit(ip), 256);
    isr.set_default_qlimit(300).unwrap();
    assert_eq!(isr.qlimit(ip), 300);
    isr.set_qlimit(ip, 10_240).unwrap();
    isr.set_default_qlimit(0).unwrap();
    assert_eq!((isr.qlimit(ip), isr.default_qlimit()), (10_240, 0));
    assert_eq!(isr.protocol("ipx").unwrap_err().to_string(), "unknown protocol 'ipx'");
    assert_eq!("default".parse::<Mode>(), Err(NetisrError::DefaultGlobally));
    assert_eq!(Mode::own("default"), Ok(None));
    assert_eq!(("1".parse(), "0".parse(), "hybrid".parse()), (Ok(Mode::Direct), Ok(Mode::Deferred), Ok(Mode::Hybrid)));
    assert!("dirct".parse::<Mode>().unwrap_err().to_string().contains("direct, hybrid or deferred"));
    assert!("flows".parse::<Policy>().unwrap_err().to_string().contains("source, flow or cpu"));
    let first = isr.worker(0).unwrap();
    assert_eq!(isr.worker(0).map(drop), Err(NetisrError::Taken { workstream: 0 }));
    assert_eq!(isr.worker(1).map(drop), Err(NetisrError::Taken { workstream: 1 }));
    drop(first);
    assert!(isr.worker(0).is_ok());
    let callers: Vec<_> = (0..128).map(|_| isr.caller(0).unwrap()).collect();
    assert_eq!(isr.caller(0).map(drop), Err(NetisrError::Callers { most: 128 }));
    drop(callers);
    assert!(isr.caller(0).is_ok());
}

#[test]
fn the_table_has_freebsds_format() {
    let isr = netisr(2, Mode::Deferred);
    let ip = isr.protocol("ip").unwrap();
    isr.set_own_mode(isr.protocol("arp").unwrap(), Some(Mode::Hybrid));
    let mut caller = isr.caller(0).unwrap();
    caller.queue(ip, 0, &mut list(1, 0..12));
    isr.worker(1).unwrap().turn(&mut keep(&mut Vec::new()));
    caller.queue(ip, 0, &mut list(1, 0..3));
    let expected = "\
Configuration:
Setting                        Current        Limit
Thread count                         2           64
Default queue limit                256        10240
Dispatch policy               deferred          n/a
Threads bound to CPUs         disabled          n/a

Protocols:
Name   Proto QLimit Policy Dispatch Flags
ip         1    256   flow  default   --F
arp        4    256 source   hybrid   ---
cpu        9    256    cpu  default   C--

Workstreams:
WSID CPU   Name     Len WMark   Disp'd  HDisp'd   QDrops   Queued  Handled
   0   0   ip         0     0        0        0        0        0        0
   0   0   arp        0     0        0        0        0        0        0
   0   0   cpu        0     0        0        0        0        0        0
   1   1   ip         3    12        0        0        0       15       12
   1   1   arp        0     0        0        0        0        0        0
   1   1   cpu        0     0        0        0        0        0        0
";
    assert_eq!(isr.snapshot().text(), expected);
}

#[test]
fn waiting_items_are_removed_and_counted_at_the_end() {
    let isr = netisr(3, Mode::Deferred);
    let ip = isr.protocol("ip").unwrap();
    let mut items: List<Number> = (0..30).map(|n| number(n, n)).collect();
    isr.caller(0).unwrap().dispatch(ip, 0, &mut items, &mut keep(&mut Vec::new()));
    let mut seen = Vec::new();
    isr.drain(|proto, item| seen.push((proto, item.number)));
    seen.sort_unstable_by_key(|(_, number)| *number);
    assert_eq!(seen, (0..30).map(|n| (ip, n)).collect::<Vec<_>>());
    let audit = isr.audit();
    assert!(audit.holds() && audit.held == 0 && audit.drained == 30, "{audit:?}");
    assert_eq!(isr.worker(0).unwrap().turn(&mut keep(&mut Vec::new())), 0);
}

proptest! {
    /// Compares one caller and one worker, a step at a time, with a queue of numbers.
    #[test]
    fn behaves_like_a_queue_with_a_limit(
        limit in 0usize..9,
        steps in prop::collection::vec((0u8..5, 0u32..7), 0..60),
    ) {
        let isr = netisr(1, Mode::Deferred);
        let ip = isr.protocol("ip").unwrap();
        isr.set_qlimit(ip, limit).unwrap();
        let (mut caller, mut worker) = (isr.caller(0).unwrap(), isr.worker(0).unwrap());
        let (mut waits, mut next, mut done, mut expected, mut refused) = (List::new(), 0, Vec::new(), Vec::new(), 0u64);
        for (what, n) in steps {
            let mut given = list(1, next..next + n);
            match what {
                0..3 => {
                    next += n;
                    let mode = Mode::of(what + 1).unwrap();
                    isr.set_mode(mode);
                    caller.dispatch(ip, 0, &mut given, &mut keep(&mut done));
                    let now = mode == Mode::Direct || mode == Mode::Hybrid && waits.is_empty();
                    for item in next - n..next {
                        if now { expected.push(item) } else if waits.len() < limit { waits.push_back(item) } else { refused += 1 }
                    }
                }
                3 => {
                    worker.turn(&mut keep(&mut done));
                    expected.extend(waits.drain(..));
                }
                _ => {
                    drop(worker);
                    worker = isr.worker(0).unwrap();
                }
            }
            let audit = isr.audit();
            prop_assert_eq!((audit.held, audit.qdrops), (waits.len() as u64, refused));
            prop_assert!(audit.holds());
            prop_assert_eq!(&done, &expected);
        }
    }
}
