use super::*;
use crate::net::{Far, Net, Rig};
use crate::streams::{CongestionName, StreamInfo, StreamOption};
use proptest::prelude::*;
use serde_json::Value;
use std::time::Duration;

const COOKIE_A: &[u8; COOKIE] = b"abcdefghijklmnopqrstuvwxyz0123456789\0";
const COOKIE_B: &[u8; COOKIE] = b"bbcdefghijklmnopqrstuvwxyz0123456789\0";

fn rig(json: bool) -> Rig<Iperf3> {
    let info = StreamInfo { retransmits: 3, snd_cwnd: 14_480, rtt_us: 50, mss: 1448, ..StreamInfo::default() };
    let config = Config { json, clients_max: 1, ..Config::default() };
    Rig::new(Iperf3::new(config), Net { info: Some(info), ..Net::default() })
}

fn framed(json: &str) -> Vec<u8> {
    [&(json.len() as u32).to_be_bytes()[..], json.as_bytes()].concat()
}

fn bytes(rig: &mut Rig<Iperf3>, far: Far) -> Vec<u8> {
    rig.run_until_idle();
    rig.net.far_recv(far, 1 << 20)
}

/// Starts a test; returns its control connection and streams.
fn begin(rig: &mut Rig<Iperf3>, params: &str, streams: usize) -> (Far, Vec<Far>) {
    let control = rig.client();
    rig.net.far_send(control, COOKIE_A);
    assert_eq!(bytes(rig, control), [9]);
    rig.net.far_send(control, &framed(params));
    assert_eq!(bytes(rig, control), [10]);
    let streams = (0..streams).map(|_| {
        let stream = rig.client();
        rig.net.far_send(stream, COOKIE_A);
        stream
    });
    let streams = streams.collect();
    assert_eq!(bytes(rig, control), [1, 2]);
    (control, streams)
}

fn results(streams: &[(u32, u64)]) -> Vec<u8> {
    let streams: Vec<Value> = streams.iter().map(|(id, bytes)| serde_json::json!({"id": id, "bytes": bytes, "retransmits": 7, "jitter": 0, "errors": 0, "packets": 0})).collect();
    let json = serde_json::json!({"cpu_util_total": 5.5, "cpu_util_user": 5, "cpu_util_system": 0.5, "sender_has_retransmits": 1, "congestion_used": "cubic", "streams": streams});
    framed(&json.to_string())
}

/// Sends TEST_END and exchanges results; returns the server's results.
fn end(rig: &mut Rig<Iperf3>, control: Far, theirs: &[(u32, u64)]) -> Value {
    rig.net.far_send(control, &[4]);
    assert_eq!(bytes(rig, control), [13]);
    rig.net.far_send(control, &results(theirs));
    let mut answer = bytes(rig, control);
    assert_eq!(answer.pop(), Some(14));
    let len = u32::from_be_bytes(answer[..4].try_into().unwrap()) as usize;
    assert_eq!(answer.len(), 4 + len);
    rig.net.far_send(control, &[16]);
    rig.run_until_idle();
    assert!(rig.net.far_eof(control) && !rig.net.is_reset(control));
    assert!(!rig.server.app.is_testing());
    serde_json::from_slice(&answer[4..]).unwrap()
}

#[test]
fn an_upload_from_cookie_to_report() {
    let mut rig = rig(false);
    let params = r#"{"tcp":true,"omit":0,"time":2,"num":0,"blockcount":0,"nodelay":true,"MSS":1000,"window":65536,"TOS":16,"congestion":"cubic","parallel":2,"len":1000}"#;
    let (control, streams) = begin(&mut rig, params, 2);
    let options: Vec<_> = rig.net.options[1..6].to_vec();
    assert_eq!(
        options,
        [
            StreamOption::NoDelay(true),
            StreamOption::MaxSegment(1000),
            StreamOption::Buffers(65536),
            StreamOption::Tos(16),
            StreamOption::Congestion(CongestionName::new("cubic").unwrap())
        ]
    );
    rig.say(streams[0], &[1; 30_000]);
    rig.pass(Duration::from_secs(1));
    rig.say(streams[1], &[1; 20_000]);
    rig.pass(Duration::from_millis(500));
    let ours = end(&mut rig, control, &[(1, 31_000), (3, 20_000)]);
    let of = |at: usize, name: &str| ours["streams"][at][name].as_f64().unwrap();
    assert_eq!((of(0, "id"), of(0, "bytes"), of(0, "end_time"), of(0, "retransmits")), (1.0, 30_000.0, 1.5, -1.0));
    assert_eq!((of(1, "id"), of(1, "bytes")), (3.0, 20_000.0));
    assert_eq!(ours["sender_has_retransmits"], -1);
    let lines = rig.server.app.take_output();
    for line in [
        "Accepted connection from 1.0.0.2, port 50001",
        "[  1] local 1.0.0.1 port 21 connected to 1.0.0.2 port 50002",
        "[  1]   0.00-1.00   sec  29.3 KBytes   240 Kbits/sec",
        "[SUM]   1.00-1.50   sec  19.5 KBytes   320 Kbits/sec",
        "[SUM]   0.00-1.50   sec  48.8 KBytes   267 Kbits/sec                  receiver",
    ] {
        assert!(lines.lines().any(|l| l.trim_end() == line), "{line}\n{lines}");
    }
    let counts = &rig.server.app.counts;
    assert_eq!((counts.tests.get(), counts.finished.get(), counts.received.get()), (1, 1, 50_000));
    // A second test.
    let (control, _) = begin(&mut rig, r#"{"tcp":true,"time":1}"#, 1);
    end(&mut rig, control, &[(1, 0)]);
    assert_eq!(rig.server.app.counts.finished.get(), 2);
}

#[test]
fn a_download_with_a_rate_and_with_an_amount() {
    let mut rig = rig(true);
    // 80 kbit/s in blocks of 1000 bytes: one each tenth of a second.
    let (control, streams) = begin(&mut rig, r#"{"tcp":true,"time":2,"reverse":true,"len":1000,"bandwidth":80000}"#, 1);
    let mut got = bytes(&mut rig, streams[0]).len();
    for _ in 0..20 {
        rig.pass(Duration::from_millis(100));
        got += bytes(&mut rig, streams[0]).len();
    }
    assert!((20_000..=22_000).contains(&got), "{got}");
    end(&mut rig, control, &[(1, got as u64)]);
    let report: Value = serde_json::from_str(&rig.server.app.take_output()).unwrap();
    let sent = &report["end"]["sum_sent"];
    assert_eq!(
        (sent["bytes"].as_u64(), sent["retransmits"].as_u64(), sent["sender"].as_bool()),
        (Some(got as u64), Some(3), Some(true))
    );
    assert_eq!(report["end"]["sum_received"]["bytes"].as_u64(), Some(got as u64));
    assert_eq!(report["end"]["cpu_utilization_percent"]["remote_total"].as_f64(), Some(5.5));
    assert_eq!(report["end"]["receiver_tcp_congestion"], "cubic");
    assert_eq!((report["intervals"].as_array().unwrap().len(), &report["start"]["tcp_mss"]), (2, &Value::from(1448)));
    assert_eq!(report["intervals"][0]["streams"][0]["rtt"], 50);
    // Exactly five blocks.
    let (control, streams) = begin(&mut rig, r#"{"tcp":true,"blockcount":5,"reverse":true,"len":1000}"#, 1);
    assert_eq!(bytes(&mut rig, streams[0]).len(), 5_000);
    rig.pass(Duration::from_secs(1));
    assert_eq!(bytes(&mut rig, streams[0]).len(), 0);
    end(&mut rig, control, &[(1, 5_000)]);
}

#[test]
fn a_bidirectional_test_excludes_omitted_bytes() {
    let mut rig = rig(true);
    let (control, streams) =
        begin(&mut rig, r#"{"tcp":true,"time":2,"omit":1,"bidirectional":true,"parallel":1,"len":1000}"#, 2);
    rig.say(streams[0], &[1; 5_000]);
    assert!(!bytes(&mut rig, streams[1]).is_empty(), "the second one is ours to send on");
    rig.pass(Duration::from_secs(1));
    rig.say(streams[0], &[1; 3_000]);
    rig.pass(Duration::from_secs(1));
    let ours = end(&mut rig, control, &[(1, 3_000), (3, 0)]);
    assert_eq!(
        (ours["streams"][0]["bytes"].as_u64(), ours["streams"][0]["end_time"].as_f64()),
        (Some(3_000), Some(1.0))
    );
    assert_eq!(ours["streams"][1]["retransmits"], 0, "all three were omitted");
    let report: Value = serde_json::from_str(&rig.server.app.take_output()).unwrap();
    let first = &report["intervals"][0];
    assert_eq!((first["sum"]["omitted"].as_bool(), first["sum"]["bytes"].as_u64()), (Some(true), Some(5_000)));
    assert!(first["sum_bidir_reverse"]["bytes"].as_u64().unwrap() > 0);
    assert!(report["end"].get("sum_sent_bidir_reverse").is_some());
}

#[test]
fn only_one_test_runs_at_a_time() {
    let mut rig = rig(false);
    let (control, _) = begin(&mut rig, r#"{"tcp":true,"time":1}"#, 1);
    for cookie in [COOKIE_B, COOKIE_A] {
        let other = rig.client();
        rig.net.far_send(other, cookie);
        assert_eq!(bytes(&mut rig, other), [255], "the second time: of this test, which has its streams");
        assert!(rig.net.far_eof(other) && !rig.net.is_reset(other));
    }
    assert_eq!(rig.server.app.counts.denied.get(), 2);
    end(&mut rig, control, &[(1, 0)]);
}

#[test]
fn tests_of_one_address_are_limited() {
    let config = Config { clients_max: 3, clients_per_peer: 1, ..Config::default() };
    let mut rig = Rig::new(Iperf3::new(config), Net::default());
    let cookies = [COOKIE_A, COOKIE_B].map(|cookie| cookie.to_vec());
    for (from, cookie, answer) in [(2, 0, 9), (2, 1, 255), (3, 1, 9)] {
        let control = rig.client_from([1, 0, 0, from]);
        rig.net.far_send(control, &cookies[cookie]);
        assert_eq!(bytes(&mut rig, control), [answer], "1.0.0.{from}");
    }
    assert_eq!((rig.server.app.testing(), rig.server.app.counts.denied.get()), (2, 1));
}

#[test]
fn refused_tests_get_an_error_number() {
    for (params, number) in [
        (r#"{"udp":true}"#, 13), // no UDP socket
        (r#"{"tcp":true,"sctp":true}"#, 13),
        (r#"{}"#, 13),
        (r#"{"tcp":true,"time":86401}"#, 5),
        (r#"{"tcp":true,"parallel":129}"#, 6),
        (r#"{"tcp":true,"parallel":0}"#, 6),
        (r#"{"tcp":true,"len":1048577}"#, 7),
        (r#"{"tcp":true,"len":0}"#, 7),
        (r#"{"tcp":true,"omit":601}"#, 12),
        (r#"{"tcp":true,"time":-1}"#, 114),
        (r#"{"tcp":true,"time":"1"}"#, 114),
        (r#"{"tcp":true,"reverse":true,"bidirectional":true}"#, 114),
        ("[]", 114),
        ("{", 114),
    ] {
        let mut rig = rig(false);
        let control = rig.client();
        rig.net.far_send(control, COOKIE_A);
        rig.net.far_send(control, &framed(params));
        assert_eq!(bytes(&mut rig, control), [9, 254, 0, 0, 0, number, 0, 0, 0, 0], "{params}");
        assert!(rig.net.far_eof(control) && !rig.server.app.is_testing());
        assert_eq!(rig.server.app.counts.failed.get(), 1);
    }
    // Lengths above the maximum, and zero.
    for len in [u32::MAX, 8193, 0] {
        let mut rig = rig(false);
        let control = rig.client();
        rig.net.far_send(control, COOKIE_A);
        rig.net.far_send(control, &len.to_be_bytes());
        assert_eq!(bytes(&mut rig, control)[1..6], [254, 0, 0, 0, 114]);
    }
}

#[test]
fn every_phase_of_a_test_has_a_timeout() {
    let expect = |rig: &mut Rig<Iperf3>, control: Far, after_s: u64, number: u8| {
        rig.pass(Duration::from_secs(after_s) - Duration::from_millis(1));
        assert!(rig.server.app.is_testing());
        rig.pass(Duration::from_millis(2));
        let reported = bytes(rig, control);
        assert_eq!(reported[reported.len() - 9..reported.len() - 4], [254, 0, 0, 0, number]);
        assert!(!rig.server.app.is_testing());
    };
    // Timeouts: after the cookie, without streams, idle, beyond the duration, without results.
    let mut silent = rig(false);
    let control = silent.client();
    silent.net.far_send(control, COOKIE_A);
    bytes(&mut silent, control);
    expect(&mut silent, control, 15, 114);
    let mut idle = rig(false);
    let (control, _) = begin(&mut idle, r#"{"tcp":true,"time":600}"#, 1);
    expect(&mut idle, control, 120, 144);
    let mut late = rig(false);
    let (control, streams) = begin(&mut late, r#"{"tcp":true,"time":1}"#, 1);
    late.pass(Duration::from_secs(30));
    late.say(streams[0], b"x");
    expect(&mut late, control, 11, 160);
    assert!(late.net.is_reset(streams[0]));
    let mut without = rig(false);
    let (control, _) = begin(&mut without, r#"{"tcp":true,"time":1}"#, 1);
    without.net.far_send(control, &[4]);
    bytes(&mut without, control);
    expect(&mut without, control, 15, 117);
    // An incomplete cookie.
    let mut rig = rig(false);
    let client = rig.client();
    rig.net.far_send(client, &COOKIE_A[..36]);
    rig.pass(Duration::from_secs(15));
    assert!(rig.net.is_reset(client));
    assert_eq!((rig.server.app.counts.silent.get(), rig.net.fds()), (1, 1));
}

#[test]
fn a_client_disconnect_ends_the_test() {
    for how in 0..3 {
        let mut rig = rig(true);
        let (control, streams) = begin(&mut rig, r#"{"tcp":true,"time":9,"reverse":true}"#, 1);
        match how {
            0 => rig.net.far_reset(control),
            1 => rig.net.far_shut(control),
            _ => drop(rig.net.far_send(control, &[12])),
        }
        rig.run_until_idle();
        assert!(rig.net.is_reset(streams[0]));
        assert_eq!((rig.server.app.counts.abandoned.get(), rig.server.app.is_testing()), (1, false));
        let report: Value = serde_json::from_str(&rig.server.app.take_output()).unwrap();
        assert!(report["error"].as_str().unwrap().starts_with("the client has "), "{report}");
        rig.pass(Duration::from_secs(3));
        assert_eq!(rig.net.fds(), 1);
    }
}

#[test]
fn a_server_stopped_after_the_results_counts_the_test_as_finished() {
    let mut rig = rig(true);
    let (control, _) = begin(&mut rig, r#"{"tcp":true,"time":1}"#, 1);
    rig.net.far_send(control, &[4]);
    assert_eq!(bytes(&mut rig, control), [13]);
    rig.net.far_send(control, &results(&[(1, 0)]));
    let answer = bytes(&mut rig, control);
    assert_eq!(answer.last(), Some(&14));
    let now = rig.now;
    crate::app::App::stop(&mut rig.server.app, now);
    // A stop is not a channel event: its actions are carried out in the next turn.
    let next = rig.client();
    assert_eq!(bytes(&mut rig, control), [0u8; 0], "no word of an end: it has everything");
    assert!(rig.net.far_eof(control) && !rig.server.app.is_testing());
    assert_eq!(bytes(&mut rig, next), [255]);
    let counts = &rig.server.app.counts;
    assert_eq!((counts.finished.get(), counts.abandoned.get()), (1, 0));
    let report: Value = serde_json::from_str(&rig.server.app.take_output()).unwrap();
    assert_eq!(report.get("error"), None);
}

#[test]
fn connections_without_cookie_are_limited_and_do_not_disturb_a_test() {
    let mut rig = rig(false);
    for _ in 0..100 {
        rig.client();
    }
    assert_eq!(rig.server.app.counts.refused.get(), 68, "32 of one address");
    for _ in 0..32 {
        rig.client_from([1, 0, 0, 3]);
    }
    rig.pass(Duration::from_secs(2));
    let next = rig.client_from([1, 0, 0, 4]);
    assert_eq!((rig.server.app.counts.refused.get(), rig.server.app.counts.evicted.get()), (68, 1));
    rig.pass(Duration::from_secs(13));
    assert_eq!(rig.server.app.counts.silent.get(), 63);
    assert!(!rig.net.is_reset(next));
    let (control, _) = begin(&mut rig, r#"{"tcp":true,"time":1}"#, 1);
    end(&mut rig, control, &[(1, 0)]);
}

#[test]
fn invalid_results_are_rejected() {
    for json in [
        "{}",
        "[]",
        r#"{"cpu_util_total":1,"cpu_util_user":1,"cpu_util_system":1,"streams":[{"id":2,"bytes":1}]}"#,
        r#"{"cpu_util_total":1,"cpu_util_user":1,"cpu_util_system":1,"streams":[{"id":1,"bytes":-1}]}"#,
        // The sum of two such streams would overflow.
        r#"{"cpu_util_total":1,"cpu_util_user":1,"cpu_util_system":1,"streams":[{"id":1,"bytes":18446744073709551615}]}"#,
    ] {
        let mut rig = rig(false);
        let (control, _) = begin(&mut rig, r#"{"tcp":true,"time":1}"#, 1);
        rig.net.far_send(control, &[4]);
        rig.net.far_send(control, &framed(json));
        assert_eq!(bytes(&mut rig, control)[..6], [13, 254, 0, 0, 0, 117], "{json}");
    }
}

proptest! {
    #[test]
    fn any_parameters_are_parsed_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
        let _ = Params::parse(&bytes);
    }

    #[test]
    fn params_are_within_limits(time in any::<i64>(), len in any::<f64>(), parallel in any::<u64>(), num in any::<u64>()) {
        let json = serde_json::json!({"tcp": true, "time": time, "len": len, "parallel": parallel, "num": num}).to_string();
        if let Ok(params) = Params::parse(json.as_bytes()) {
            prop_assert!(params.time <= Duration::from_secs(86_400) && (1..=1 << 20).contains(&params.block));
            prop_assert!((1..=STREAMS_MAX).contains(&params.streams) && params.bytes == num);
        }
    }
}
