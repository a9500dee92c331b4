use super::*;

fn outcome(options: &Options) -> (serde_json::Value, String) {
    let (mut json, mut block) = (Vec::new(), Vec::new());
    run(&Options { json: true, ..options.clone() }, &mut json).unwrap();
    run(&Options { json: false, ..options.clone() }, &mut block).unwrap();
    (serde_json::from_slice(&json).unwrap(), String::from_utf8(block).unwrap())
}

fn assert_moved(options: &Options, source: u64) {
    let (json, block) = outcome(options);
    assert_eq!(json["source_count"], source, "{json}");
    assert_eq!(json["sink_count"], source, "{json}");
    assert_eq!(json["imbalance"], 0, "{json}");
    for label in [
        "total elapsed time: ",
        "aggregate source count: ",
        "aggregate sink count: ",
        "source packets per second: ",
        "sink packets per second: ",
        "ratio of packets by source/packets by sink (w/ frags): 100.000000%",
        "source pps (normalized): ",
        "sink pps (normalized): ",
        "sink byte count: ",
        "ratio of bytes by source/bytes by sink: ",
        "gigabits per second at source: ",
        "gigabits per second at sink: ",
        "Gbps source (normalized): ",
        "Gbps sink (normalized): ",
    ] {
        assert!(block.contains(label), "no '{label}' in\n{block}");
    }
}

#[test]
fn send_moves_what_it_is_told_under_every_lock() {
    for locks in ["up", "light", "heavy"] {
        assert_moved(&Options { count: 5000, locks: locks.into(), ..Options::default() }, 5000);
    }
    let (json, _) = outcome(&Options { count: 100, ..Options::default() });
    assert_eq!(json["sink_bytes"], 6400, "64-byte frames, FCS not counted");
}

#[test]
fn a_payload_above_the_mtu_arrives_in_fragments() {
    let (json, _) = outcome(&Options { count: 10, size: 20_000, ..Options::default() });
    assert_eq!(json["source_count"], 10);
    assert_eq!(json["sink_count"], 30, "three fragments each at mtu 9000: {json}");
    assert_eq!(json["imbalance"], 0);
}

#[test]
fn recv_reads_what_it_is_told() {
    let options = Options { mode: Mode::Recv, count: 20_000, burst: 32, ..Options::default() };
    let (json, _) = outcome(&options);
    assert!(json["sink_count"].as_u64().unwrap() >= 20_000, "{json}");
    assert_eq!(json["imbalance"], 0, "{json}");
}

#[test]
fn route_sums_every_pair() {
    for (locks, parallel) in [("up", 1), ("up", 3), ("light", 3)] {
        let options =
            Options { mode: Mode::Route, count: 2000, parallel, burst: 32, locks: locks.into(), ..Options::default() };
        assert_moved(&options, 2000 * parallel as u64);
    }
}

#[test]
fn options_out_of_range_are_refused() {
    for (bad, word) in [
        (Options { burst: 0, ..Options::default() }, "-b 0"),
        (Options { parallel: 33, mode: Mode::Route, ..Options::default() }, "-p 33"),
        (Options { parallel: 2, ..Options::default() }, "-p is for route"),
        (Options { size: 9000, mode: Mode::Recv, ..Options::default() }, "-s 9000"),
        (Options { locks: "none".into(), ..Options::default() }, "--locks none"),
        (Options { locks: "up".into(), mode: Mode::Recv, ..Options::default() }, "one thread"),
        (Options { native: true, ..Options::default() }, "host kernel"),
        (Options { rc: Some("/no/such/script".into()), count: 1, ..Options::default() }, "cannot be run"),
    ] {
        let error = format!("{:#}", run(&bad, &mut Vec::new()).unwrap_err());
        assert!(error.contains(word), "{error}");
    }
}
