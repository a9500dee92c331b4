use super::send::{Job, Sender};
use super::sink::Sink;
use super::sockets::{Calls, KernelSockets};
use super::subject::{MOST_IN_A_RUN, REFILLS, WAITING, loop_on};
use super::testtool::native;
use super::*;
use crate::subject::Subject;
use apps::netperf::sockets::{Setup, Sockets};
use apps::streams::Failure;
use programs::testtool::{Mode, Options};

fn sender() -> Sender {
    Sender::start().expect("at least loopback")
}

#[test]
fn every_packet_sent_is_dropped_and_counted() {
    let mut sender = sender();
    println!("{}", sender.device());
    for burst in [1, 7, 32] {
        let done = sender.run(Job { count: 1000, size: PAYLOAD, burst }).unwrap();
        assert_eq!((done.reading.ops, done.dropped), (1000, 1000), "{}", sender.device());
        assert!(done.reading.ticks > 0 && done.reading.wall_ns > 0);
    }
}

#[test]
fn loopback_is_used_without_a_namespace_and_the_reason_is_given() {
    let mut sender = Sender::start_where(Err("a test".to_owned())).unwrap();
    assert!(sender.device().starts_with("loopback to a full socket that is not read (a test);"), "{}", sender.device());
    assert_eq!(sender.run(Job { count: 500, size: PAYLOAD, burst: 1 }).unwrap().dropped, 500);
}

#[test]
fn a_loopback_sink_drops_every_packet() {
    let mut sink = Sink::loopback("a test").unwrap();
    let before = sink.drops.read().unwrap();
    assert_eq!(sink.send(Job { count: 500, size: PAYLOAD, burst: 1 }).1, 0);
    assert_eq!(sink.drops.read().unwrap().since(before), 500);
}

#[test]
fn a_long_loop_is_split_into_runs() {
    let done = loop_on(sender(), Job { count: MOST_IN_A_RUN + 5, size: 1, burst: 64 }).unwrap();
    assert_eq!((done.reading.ops, done.dropped), (MOST_IN_A_RUN + 5, MOST_IN_A_RUN + 5));
    assert_eq!(done.call, "sendmmsg, 64 messages per call");
}

#[test]
fn invalid_jobs_are_rejected() {
    for (count, size, burst) in [(0, 22, 1), (1, 0, 1), (1, 1473, 1), (1, 22, 0), (1, 22, 1025)] {
        let why = loop_on(sender(), Job { count, size, burst }).unwrap_err().to_string();
        assert!(why.contains("must be"), "{why}");
    }
}

#[test]
fn a_receiving_trial_reads_what_was_sent() {
    let reading = NativeRecv::start().unwrap().trial().unwrap();
    assert_eq!(reading.ops, WAITING * REFILLS);
}

fn printed(options: &Options) -> anyhow::Result<String> {
    let mut out = Vec::new();
    native(options, &mut out)?;
    Ok(String::from_utf8(out)?)
}

#[test]
fn the_tool_prints_its_block_and_the_device() {
    let options = Options { native: true, count: 2000, burst: 8, ..Options::default() };
    let block = printed(&options).unwrap();
    println!("{block}");
    assert!(block.starts_with("starting ... processing 2000 packets\n\ntotal elapsed time: "), "{block}");
    for line in ["aggregate source count: 2000\n", "aggregate sink count: 2000\n", "sink byte count: 128000\n"] {
        assert!(block.contains(line), "{block}");
    }
    let last = block.lines().last().unwrap();
    assert!(last.starts_with("device: TAP in a separate ") || last.starts_with("device: loopback to "), "{last}");
}

#[test]
fn the_tools_json_names_the_device() {
    let options = Options { native: true, count: 100, json: true, ..Options::default() };
    let json: serde_json::Value = serde_json::from_str(&printed(&options).unwrap()).unwrap();
    assert_eq!((&json["mode"], &json["sink_count"]), (&"send".into(), &100.into()));
    assert!(json["device"].as_str().is_some_and(|device| device.contains("drop") || device.contains("loopback")));
}

#[test]
fn unsupported_native_options_are_rejected() {
    let native = Options { native: true, count: 1, ..Options::default() };
    for (options, word) in [
        (Options { mode: Mode::Recv, ..native.clone() }, "mode 'recv'"),
        (Options { mode: Mode::Route, ..native.clone() }, "mode 'route'"),
        (Options { rc: Some("x".into()), ..native.clone() }, "rc script"),
        (Options { locks: "heavy".to_owned(), ..native.clone() }, "--locks heavy"),
        (Options { sysctl: vec![("x".to_owned(), 1)], ..native.clone() }, "settings"),
        (Options { size: 1473, ..native.clone() }, "'1473'"),
        (Options { burst: 257, ..native.clone() }, "-b 257"),
    ] {
        let why = printed(&options).unwrap_err().to_string();
        assert!(why.contains(word), "{why}");
    }
}

#[test]
fn nonblocking_connects_do_not_wait_for_the_listener() {
    let mut far = KernelSockets::new(Calls::Return);
    let setup = Setup::default();
    let listener = far.listen((std::net::Ipv4Addr::LOCALHOST, 0).into(), &setup).unwrap();
    let at = far.local(listener).unwrap();
    // More connections than the accept queue holds: further ones are not answered.
    let mut near = KernelSockets::new(Calls::Return);
    let fds: Vec<usize> = (0..300).map(|_| near.connect(at, &setup).unwrap()).collect();
    let mut connected: Vec<_> = fds.iter().map(|fd| near.connected(*fd)).collect();
    assert!(connected.contains(&Err(Failure::Again)), "{connected:?}");
    while far.accept(listener).is_ok() {}
    connected.dedup();
    assert!(connected.contains(&Ok(())) && connected.iter().all(|done| matches!(done, Ok(()) | Err(Failure::Again))));
    // No listener.
    let nowhere = near.connect((std::net::Ipv4Addr::LOCALHOST, 1).into(), &setup);
    assert_eq!(nowhere.and_then(|fd| near.connected(fd)), Err(Failure::Refused));
}
