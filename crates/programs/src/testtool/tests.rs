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
fn send_moves_the_requested_datagrams_under_every_lock() {
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

fn dropped(json: &serde_json::Value, reason: &str) -> u64 {
    let drops = json["drops"].as_array().unwrap();
    drops.iter().filter(|drop| drop[0] == reason).map(|drop| drop[1].as_u64().unwrap()).sum()
}

#[test]
fn recv_reads_the_requested_datagrams_and_counts_the_others() {
    for size in [22, 1472, 8972] {
        let options = Options { mode: Mode::Recv, count: 20_000, burst: 32, size, ..Options::default() };
        let (json, _) = outcome(&options);
        let (source, sink) = (json["source_count"].as_u64().unwrap(), json["sink_count"].as_u64().unwrap());
        assert_eq!((sink, json["sink_bytes"].as_u64().unwrap()), (20_000, 20_000 * size as u64), "{json}");
        // Datagrams that were generated but not read: they did not fit into the socket's buffer, or
        // were unread when the socket was closed.
        let unread = dropped(&json, "inet.udp.in.buffer_full") + dropped(&json, "inet.udp.in.closed");
        assert_eq!((source, &json["imbalance"]), (sink + unread, &0.into()), "{json}");
    }
}

/// The generator creates bursts even if the reader has not read the earlier ones. Without a reader,
/// the socket's buffer fills, and further datagrams are dropped and counted.
#[test]
fn the_generator_does_not_wait_for_the_reader() {
    let options = Options { mode: Mode::Recv, burst: 256, ..Options::default() };
    let host = host::<lock::Light>("testtool", &options).unwrap();
    let end = recv::End::open(&host, options.family).unwrap();
    let (mut generator, mut burst) = (end.generator(&host, options.size), buf::Burst::new());
    for _ in 0..800 {
        recv::pull(&host, &end, &mut generator, &mut burst, options.burst);
    }
    assert_eq!(generator.counts.rx.frames.get(), 800 * 256);
    let audit = host.stack.audit(host.cx());
    let full = audit.reasons.iter().find(|reason| reason.name == "inet.udp.in.buffer_full").map(|reason| reason.value);
    assert!(full.is_some_and(|full| (1..800 * 256).contains(&full)), "{full:?}");
    assert_eq!(audit.imbalance(), 0);
}

#[test]
fn recv_reassembles_fragments() {
    let options = Options { mode: Mode::Recv, count: 50, size: 65_507, ..Options::default() };
    let (json, _) = outcome(&options);
    assert_eq!(json["sink_bytes"], 50 * 65_507, "{json}");
    assert!(json["source_count"].as_u64().unwrap() >= 50 * 8, "eight fragments each at mtu 9000: {json}");
    assert_eq!(json["imbalance"], 0, "{json}");
}

#[test]
fn send_accepts_the_longest_datagram() {
    let (json, _) = outcome(&Options { count: 10, size: 65_507, ..Options::default() });
    assert_eq!((&json["source_bytes"], &json["sink_count"]), (&655_070.into(), &80.into()), "{json}");
}

#[test]
fn route_sums_every_pair() {
    for (locks, parallel, shared) in
        [("up", 1, false), ("", 3, false), ("light", 2, false), ("up", 3, true), ("", 3, true), ("heavy", 2, true)]
    {
        let locks = locks.to_owned();
        let options =
            Options { mode: Mode::Route, count: 2000, parallel, shared, burst: 32, locks, ..Options::default() };
        assert_moved(&options, 2000 * parallel as u64);
    }
}

#[test]
fn route_forwards_fragments_too() {
    let options = Options { mode: Mode::Route, count: 100, parallel: 2, size: 20_000, ..Options::default() };
    assert_moved(&options, 2 * 100 * 3);
}

/// Each pair has its own host, with the same addresses as the first pair's.
#[test]
fn pairs_have_separate_hosts_unless_shared() {
    let options = Options { mode: Mode::Route, count: 10, parallel: 2, ..Options::default() };
    assert_eq!((locks_of(&options), locks_of(&Options { shared: true, ..options.clone() })), ("up", "light"));
    // An rc script is called once per host with a PARALLEL argument of 1, or for a shared host with
    // the number of all pairs.
    let dir = std::env::temp_dir().join(format!("linerate-rc-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let script = dir.join("rc.sh");
    std::fs::write(&script, format!("#!/bin/sh\necho \"$1 $2 $3\" >> {}\nexit 1\n", dir.join("seen").display()))
        .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    for (shared, calls) in [(false, ["route 1", "route 1"].as_slice()), (true, &["route 2"])] {
        let _ = std::fs::remove_file(dir.join("seen"));
        let options = Options { shared, rc: Some(script.clone()), ..options.clone() };
        let error = format!("{:#}", run(&options, &mut Vec::new()).unwrap_err());
        assert!(error.contains("failed: exit status: 1"), "{error}");
        let seen = std::fs::read_to_string(dir.join("seen")).unwrap();
        let mut urls: Vec<&str> = seen.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(seen.lines().zip(calls).all(|(line, call)| line.ends_with(call)), "{seen}");
        urls.dedup();
        assert_eq!((seen.lines().count(), urls.len()), (calls.len(), calls.len()), "{seen}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn host_options_are_applied() {
    let options = Options {
        count: 1000,
        locks: "light".into(),
        pool: buf::Kind::Freelist,
        clock: clock::Strategy::NsDivision,
        context: lock::How::Call,
        checksum: Some(wire::checksum::Kind::Word64),
        ..Options::default()
    };
    let host = host::<Light>("testtool", &options).unwrap();
    let sysctls = (host.stack.pool.stats().kind, host.clock.strategy(), host.context());
    assert_eq!(sysctls, (options.pool, Some(options.clock), options.context));
    assert_moved(&options, 1000);
    assert_eq!(wire::checksum::kind(), wire::checksum::Kind::Word64);
}

#[test]
fn options_out_of_range_are_refused() {
    for (bad, word) in [
        (Options { burst: 0, ..Options::default() }, "-b 0"),
        (Options { parallel: 33, mode: Mode::Route, ..Options::default() }, "-p 33"),
        (Options { parallel: 2, ..Options::default() }, "-p applies only to route"),
        (Options { size: 65_508, mode: Mode::Recv, ..Options::default() }, "-s 65508"),
        (Options { size: 65_508, ..Options::default() }, "at most 65507 bytes"),
        (Options { shared: true, ..Options::default() }, "--shared applies only to route"),
        (Options { context: lock::How::Call, ..Options::default() }, "--context call has no effect with locks up"),
        (Options { locks: "none".into(), ..Options::default() }, "--locks none"),
        (Options { locks: "up".into(), mode: Mode::Recv, ..Options::default() }, "one thread"),
        (Options { native: true, ..Options::default() }, "host kernel"),
        (Options { rc: Some("/no/such/script".into()), count: 1, ..Options::default() }, "cannot run"),
    ] {
        let error = format!("{:#}", run(&bad, &mut Vec::new()).unwrap_err());
        assert!(error.contains(word), "{error}");
    }
}

#[test]
fn all_modes_over_ipv6() {
    let six = Options { family: Family::V6, burst: 32, ..Options::default() };
    assert_moved(&Options { count: 5000, burst: 1, ..six.clone() }, 5000);
    let (json, _) = outcome(&Options { count: 100, ..six.clone() });
    assert_eq!(json["sink_bytes"], 8400, "84-byte frames, FCS not counted");
    let (json, _) = outcome(&Options { count: 10, size: 20_000, ..six.clone() });
    assert_eq!((&json["sink_count"], &json["imbalance"]), (&30.into(), &0.into()), "three fragments each at mtu 9000");
    for size in [22, 1472, WHOLE_MAX] {
        let (json, _) = outcome(&Options { mode: Mode::Recv, count: 50, size, ..six.clone() });
        assert_eq!((&json["sink_bytes"], &json["imbalance"]), (&(50 * size).into(), &0.into()), "{json}");
    }
    let refused = check(&Options { mode: Mode::Recv, size: WHOLE_MAX + 1, ..six.clone() }).unwrap_err();
    assert!(refused.to_string().contains("65487 bytes over IPv6"), "{refused}");
    for (parallel, shared) in [(1, false), (3, false), (3, true)] {
        let options = Options { mode: Mode::Route, count: 2000, parallel, shared, ..six.clone() };
        assert_moved(&options, 2000 * parallel as u64);
    }
    assert_moved(&Options { mode: Mode::Route, count: 100, size: 20_000, ..six }, 100 * 3);
}
