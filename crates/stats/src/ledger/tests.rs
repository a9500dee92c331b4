use super::*;
use std::cell::Cell;

thread_local! {
    static TICKS: Cell<u64> = const { Cell::new(1000) };
}

/// A counter that advances by 10 with each reading.
fn read() -> u64 {
    pass(10);
    TICKS.get()
}

fn pass(ticks: u64) {
    TICKS.set(TICKS.get() + ticks);
}

fn on() -> Ledger {
    let ledger = Ledger::default();
    ledger.set_on(true, TICKS.get());
    ledger
}

fn ticks(ledger: &Ledger) -> Vec<(Stage, u64)> {
    ledger.costs().map(|cost| (cost.stage, cost.ticks)).collect()
}

#[test]
fn a_ledger_that_is_off_reads_no_counter_and_books_nothing() {
    let (ledger, before) = (Ledger::default(), TICKS.get());
    let lap = ledger.lap(read);
    let outer = lap.nest();
    lap.mark(Stage::Demux, 1);
    lap.unnest(outer);
    assert_eq!(ledger.since(ledger.begin(read), Stage::PortTake, 1, read), 0);
    assert_eq!((TICKS.get(), ledger.readings(), ticks(&ledger)), (before, 0, vec![]));
    assert_eq!(ledger.on_for(TICKS.get()), 0);
}

#[test]
fn ledgers_are_counted_while_they_are_on() {
    let kept = on();
    assert!(trace::ledgers() >= 1);
    // Other tests of this process also switch ledgers on, but not hundreds of them.
    for _ in 0..1000 {
        let ledger = on();
        ledger.set_on(true, TICKS.get());
        drop(ledger);
        kept.set_on(false, TICKS.get());
        kept.set_on(false, TICKS.get());
        kept.set_on(true, TICKS.get());
    }
    assert!((1..200).contains(&trace::ledgers()), "{}", trace::ledgers());
}

#[test]
fn a_tracepoint_at_a_mark_runs_while_any_ledger_is_on() {
    let (off, kept, mut ran) = (Ledger::default(), on(), 0);
    let lap = off.lap_at(read, || ran += 1);
    lap.mark_at(Stage::Demux, 1, || ran += 1);
    assert_eq!((ran, ticks(&off), ticks(&kept)), (2, vec![], vec![]));
}

#[test]
fn each_mark_books_the_ticks_since_the_one_before() {
    let ledger = on();
    let lap = ledger.lap(read);
    lap.mark(Stage::LinkInput, 32);
    pass(5);
    lap.mark(Stage::Demux, 32);
    pass(1000); // between two laps: in no stage
    ledger.lap(read).mark(Stage::Demux, 1);
    let cost = |stage, ticks, units, bookings| StageCost { stage, ticks, units, bookings };
    let costs: Vec<StageCost> = ledger.costs().collect();
    assert_eq!(costs, [cost(Stage::LinkInput, 10, 32, 1), cost(Stage::Demux, 25, 33, 2)]);
    assert_eq!(ledger.readings(), 5);
}

#[test]
fn nested_stages_are_not_booked_twice() {
    let ledger = on();
    let lap = ledger.lap(read);
    pass(100);
    let outer = ledger.resume().nest();
    pass(7);
    ledger.resume().mark(Stage::PortTx, 1);
    ledger.resume().unnest(outer);
    pass(30);
    lap.mark(Stage::Demux, 1);
    // Demux has 100 ticks and a reading before the nested stage, and 30 and a reading after it.
    assert_eq!(ticks(&ledger), [(Stage::Demux, 150), (Stage::PortTx, 17)]);
}

#[test]
fn switching_on_in_the_middle_of_a_lap_books_nothing_of_the_time_before() {
    let ledger = on();
    ledger.lap(read).mark(Stage::Demux, 1);
    ledger.set_on(false, TICKS.get());
    pass(1_000_000);
    let outer = ledger.resume().nest();
    ledger.set_on(true, TICKS.get());
    ledger.resume().mark(Stage::PortTx, 1); // the first reading: no earlier one to count from
    ledger.resume().unnest(outer);
    ledger.resume().mark(Stage::Demux, 1);
    assert_eq!(ticks(&ledger), [(Stage::Demux, 20)]);
}

#[test]
fn a_nested_stage_without_any_lap_before_books_nothing() {
    let ledger = on();
    let outer = ledger.resume().nest();
    ledger.resume().mark(Stage::PortTx, 1);
    ledger.resume().unnest(outer);
    assert_eq!((ticks(&ledger), ledger.readings()), (vec![], 0));
}

#[test]
fn the_time_that_a_ledger_is_on_adds_up_over_switches() {
    let ledger = Ledger::default();
    ledger.set_on(true, 100);
    ledger.set_on(true, 150); // on already
    assert_eq!(ledger.on_for(160), 60);
    ledger.set_on(false, 200);
    ledger.set_on(false, 900); // off already
    assert_eq!(ledger.on_for(1000), 100);
    ledger.set_on(true, 1000);
    assert_eq!(ledger.on_for(1010), 110);
}

#[test]
fn parts_are_booked_from_where_the_one_before_ended() {
    let ledger = on();
    let began = ledger.begin(read);
    pass(4);
    let taken = ledger.since(began, Stage::PortTake, 8, read);
    ledger.since(taken, Stage::PortRefill, 8, read);
    assert_eq!(ticks(&ledger), [(Stage::PortTake, 14), (Stage::PortRefill, 10)]);
    assert_eq!(ledger.readings(), 3);
}

#[test]
fn the_probe_measures_a_mark_without_work() {
    assert_eq!(Probe::measure(read), Probe(10.0));
}

#[test]
fn a_statement_adds_up_to_the_total_measured_beside_it() {
    let (ledger, start) = (on(), TICKS.get());
    for _ in 0..4 {
        pass(3); // work of the loop
        let lap = ledger.lap(read);
        pass(20);
        lap.mark(Stage::Socket, 1);
        pass(30);
        lap.mark(Stage::UdpOutput, 1);
    }
    let total = TICKS.get() - start;
    let statement = Statement::new(ledger.costs(), ledger.readings(), Probe::measure(read), total);
    assert_eq!((statement.ticks(Stage::Socket), statement.ticks(Stage::UdpOutput)), (80, 120));
    assert_eq!((statement.explained(), statement.probes, statement.unexplained), (200, 120, 12));
    assert_eq!((statement.total, statement.readings), (332, 12));
    assert!((statement.unexplained_share() - 12.0 / 332.0).abs() < 1e-9);
}

#[test]
fn subtraction_stops_at_zero_and_the_sum_is_kept() {
    let cost = StageCost { stage: Stage::Socket, ticks: 50, units: 10, bookings: 10 };
    let statement = Statement::new([cost], 20, Probe(8.0), 100);
    assert_eq!(statement.rows, [Row { stage: Stage::Socket, ticks: 0, units: 10, probes: 50 }]);
    assert_eq!((statement.probes, statement.unexplained), (130, -30));
    let sum = statement.explained() as i64 + statement.probes as i64 + statement.unexplained;
    assert_eq!(sum, statement.total as i64);
}

#[test]
fn a_statement_of_nothing_leaves_the_whole_total_unexplained() {
    let statement = Statement::new([], 0, Probe(25.0), 700);
    assert_eq!((statement.rows.len(), statement.probes, statement.unexplained), (0, 0, 700));
    assert_eq!(Statement::new([], 0, Probe(25.0), 0).unexplained_share(), 0.0);
}

#[test]
fn every_stage_has_a_word_and_a_sentence_of_its_own() {
    let words: std::collections::BTreeSet<&str> = Stage::ALL.iter().map(|stage| stage.word()).collect();
    assert_eq!(words.len(), Stage::ALL.len());
    assert!(Stage::ALL.iter().all(|stage| stage.sentence().ends_with('.')));
}

#[test]
fn costs_of_several_ledgers_add_up_and_earlier_ones_are_subtracted() {
    let [one, other, idle] = [on(), on(), on()];
    one.lap(read).mark(Stage::Demux, 2);
    other.lap(read).mark(Stage::Demux, 3);
    other.resume().mark(Stage::Socket, 1);
    let cost = |stage, ticks, units, bookings| StageCost { stage, ticks, units, bookings };
    let before = Costs::of([&one, &other, &idle], TICKS.get());
    assert_eq!(before.stages, [cost(Stage::Demux, 20, 5, 2), cost(Stage::Socket, 10, 1, 1)]);
    assert_eq!(before.readings, 5);
    assert_eq!(before.on_for, 2 * 50, "the time of the ledger without bookings is not included");
    one.lap(read).mark(Stage::LinkInput, 7);
    let since = Costs::of([&one, &other, &idle], TICKS.get()).since(&before);
    assert_eq!(since.stages, [cost(Stage::LinkInput, 10, 7, 1)]);
    assert_eq!((since.readings, since.on_for), (2, 2 * 20));
    assert_eq!(since.statement(Probe(10.0), 25).unexplained, 5);
}

#[test]
fn readings_of_a_ports_parts_are_subtracted_from_the_stage_around_them() {
    let [lane, port] = [on(), on()];
    let start = TICKS.get();
    let lap = lane.lap(read);
    let began = port.begin(read);
    pass(100);
    let taken = port.since(began, Stage::PortTake, 8, read);
    pass(50);
    port.since(taken, Stage::PortRefill, 8, read);
    lap.mark(Stage::PortRx, 8);
    let now = TICKS.get();
    let parts = Costs::of([&port], now);
    let statement = Costs::of([&lane], now).around(&parts).statement(Probe(10.0), now - start);
    assert_eq!((statement.ticks(Stage::PortRx), statement.probes, statement.unexplained), (150, 50, 0));
    let parts = parts.statement(Probe(10.0), 0);
    assert_eq!((parts.ticks(Stage::PortTake), parts.ticks(Stage::PortRefill)), (100, 50));
}

/// The first booking of each stage and every 64th after it is a sample: the time for each frame.
#[test]
fn bookings_are_sampled_by_time() {
    let ledger = Ledger::default();
    ledger.set_on_with_times(true, TICKS.get(), 1_000_000_000); // a tick is a nanosecond
    for n in 0..SAMPLED + 1 {
        let lap = ledger.lap(read);
        pass(if n == SAMPLED { 7990 } else { 150 });
        lap.mark(Stage::Demux, if n == SAMPLED { 2 } else { 10 });
        lap.mark(Stage::Socket, 0);
    }
    let [demux, socket] = ledger.times().collect::<Vec<_>>()[..] else { panic!("two stages") };
    assert_eq!((demux.stage, demux.buckets), (Stage::Demux, [1, 0, 0, 0, 1, 0, 0, 0, 0, 0]), "16 ns, 4 us");
    assert_eq!(demux.sum_ps, 16_000 + 4_000_000);
    assert_eq!((socket.stage, socket.buckets[0], socket.sum_ps), (Stage::Socket, 2, 20_000), "calls without frames");
    assert_eq!(ledger.readings(), 3 * (SAMPLED + 1), "samples need no readings of their own");
    let sums = StageTimes::of([&ledger, &on(), &ledger]);
    assert_eq!(sums.iter().map(|sum| sum.buckets.iter().sum::<u64>()).collect::<Vec<_>>(), [4, 4]);
    assert_eq!(sums[0].sum_ps, 2 * demux.sum_ps);
}

#[test]
fn times_are_in_the_bucket_of_their_bound() {
    let ledger = Ledger::default();
    ledger.set_on_with_times(true, TICKS.get(), 1_000_000_000);
    for (at, bound) in STAGE_BOUNDS_NS.into_iter().enumerate() {
        let at_bucket = |ns: u64| {
            let before = ledger.times().next().map_or([0; 10], |times| times.buckets);
            ledger.sample(Stage::Timers, ns, 1);
            let after = ledger.times().next().unwrap().buckets;
            (0..10).find(|place| after[*place] > before[*place]).unwrap()
        };
        assert_eq!((at_bucket(bound), at_bucket(bound + 1)), (at, at + 1));
    }
}

#[test]
fn a_ledger_without_a_rate_has_no_times() {
    let ledger = on();
    ledger.lap(read).mark(Stage::Demux, 1);
    assert_eq!((ticks(&ledger).len(), ledger.times().count()), (1, 0));
    let off = Ledger::default();
    off.set_on_with_times(false, TICKS.get(), 1);
    assert!(off.samples.get().is_none(), "a ledger that is off has no memory for samples");
}
