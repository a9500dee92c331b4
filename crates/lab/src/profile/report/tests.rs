use super::*;
use crate::profile::Stack;
use stats::{Stage, StageCost};

fn stack(name: &str, bucket: Bucket, ns: u64) -> Stack {
    Stack { thread: "main".into(), names: vec![name.into()], decider: 0, bucket, samples: 1, ns }
}

fn profile(unresolved: u64) -> Profile {
    let stacks = vec![
        stack("wire::checksum::fold", Bucket::Checksum, 500_000),
        stack("[vdso] clock_gettime", Bucket::Time, 200_000),
        stack("[kernel] write", Bucket::Kernel, 296_000 - unresolved),
        stack("[unknown]", Bucket::Unresolved, unresolved),
        stack("inet::a", Bucket::IpEthernet, 3_000),
        stack("inet::b", Bucket::IpEthernet, 1_000),
    ];
    let thread = |name: &str, cpu_ns, dropped| Thread {
        name: name.into(),
        cpu_ns,
        samples: 1000,
        dropped,
        dropped_ns: dropped * 1_000_000,
        handler_ns: 2_000,
    };
    Profile {
        rate_hz: 997,
        source: Source::ThreadTimers,
        seconds: 1.5,
        process_ns: 1_300_000,
        stacks,
        threads: vec![thread("main", 1_000_000, 0), thread("puller", 250_000, 2)],
    }
}

fn report(unresolved: u64) -> Report {
    Report::of(&profile(unresolved), "testtool send", Environment::detect())
}

#[test]
fn the_text_has_coverage_functions_buckets_and_warnings() {
    let text = report(1_000).text();
    let expected = "\
profile of: testtool send

       perf disabled   coverage:  99.900%  runtime:  96.153%   covtime:  80.000%
name________________________________________|ratio___|1%_____2%________5%_____10%_____20%_______50%____100%|
wire::checksum::fold                        | 50.000%|==========================================           |
[kernel] write                              | 29.500%|====================================                 |
[vdso] clock_gettime                        | 20.000%|================================                     |
(3 more)                                    |  0.500%|<                                                    |

bucket______________________________________|ratio___|1%_____2%________5%_____10%_____20%_______50%____100%|
checksum                                    | 50.000%|==========================================           |
kernel                                      | 29.500%|====================================                 |
time                                        | 20.000%|================================                     |
IP+Ethernet                                 |  0.400%|<                                                    |
unresolved                                  |  0.100%|<                                                    |

unresolved 0.10 %, kernel 29.50 %, vdso 20.00 %
2000 samples of 2 threads represent 0.001 s of processor time in 1.500 s; rate 997 per second (thread timers); \
2 dropped; the handler took 0.32 % of it
WARNING: 2 samples dropped (0.002 s): buffer full
";
    assert_eq!(&text[..expected.len()], expected, "{text}");
}

#[test]
fn more_than_five_percent_without_a_symbol_gives_a_warning() {
    let warned = |ns| report(ns).warnings.iter().any(|warning| warning.contains("has no symbol"));
    assert!(!warned(50_000), "five percent are not more");
    assert!(warned(50_010));
    assert_eq!(report(50_010).coverage, 94_999);
}

#[test]
fn few_samples_and_a_process_timer_give_warnings() {
    let mut weak = profile(0);
    weak.threads.truncate(1);
    weak.threads[0].samples = 999;
    weak.source = Source::ProcessTimer;
    let warnings = Report::of(&weak, "x", Environment::detect()).warnings;
    assert!(warnings[0].starts_with("WARNING: only 999 samples"), "{warnings:?}");
    assert!(warnings[1].starts_with("WARNING: no timers for threads"), "{warnings:?}");
}

#[test]
fn the_ledger_is_listed_summed_over_hosts() {
    let mut report = report(0);
    assert!(!report.text().contains("ledger"));
    let cost = |stage, ticks, units| StageCost { stage, ticks, units, bookings: 3 };
    let kept = |ticks: u64| {
        let stages = vec![cost(Stage::UdpOutput, ticks + 60, 10), cost(Stage::PortTx, 110, 5)];
        Kept { host: "h".into(), costs: Costs { stages, readings: 7, on_for: 1000 } }
    };
    report.add_ledger_read_at(Probe(20.0), (vec![kept(100), kept(200)], 3));
    let text = report.text();
    for line in [
        "inet.udp.output                             | 75.000%|            300|          20|         15.0|\n",
        "port.tx                                     | 25.000%|            100|          10|         10.0|\n",
        "400 ticks; 280 more in 14 readings of the counter",
        "note: ledgers of 3 more hosts were not kept\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn a_difference_lists_the_largest_change_first() {
    let mut report = report(0);
    report.add_diff("main;a 50\nmain;b 40\nmain;c 10\n", "main;a 10\nmain;d 20\nmain;c 10\nmain;b 60\n").unwrap();
    let diff = report.diff.clone().unwrap();
    let [first, second, third, fourth] = &diff[..] else { panic!("{diff:?}") };
    assert_eq!((&*first.name, first.before, first.after), ("a", 50_000, 10_000));
    assert_eq!((&*second.name, second.before, second.after), ("b", 40_000, 60_000));
    assert_eq!((&*third.name, third.before, third.after), ("d", 0, 20_000));
    assert_eq!((&*fourth.name, fourth.before, fourth.after), ("c", 10_000, 10_000));
    let text = report.text();
    assert!(
        text.contains("| 50.000%| 10.000%| -40.000|\n") && text.contains("|  0.000%| 20.000%| +20.000|\n"),
        "{text}"
    );
    assert!(!text.contains("\nc  "), "what did not move is not listed");
    assert!(report.add_diff("nonsense", "main;a 1\n").is_err());
}

#[test]
fn json_has_the_same_figures() {
    let report = report(1_000);
    let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
    assert_eq!(json["buckets"][0]["bucket"], "checksum");
    assert_eq!(json["functions"][0]["share"], 50_000);
    assert_eq!((&json["unresolved"], &json["kernel"]), (&100.into(), &29_500.into()));
    assert_eq!(json["threads"][1]["dropped"], 2);
    assert!(json.get("ledger").is_none() && json.get("diff").is_none());
}

#[test]
fn a_profile_without_samples_gives_a_report() {
    let nothing = Profile { stacks: Vec::new(), threads: Vec::new(), process_ns: 0, ..profile(0) };
    let report = Report::of(&nothing, "x", Environment::detect());
    assert_eq!((report.samples, report.coverage, report.unresolved), (0, 0, 0));
    assert!(report.text().contains("0 samples of 0 threads"));
}
