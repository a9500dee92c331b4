use super::*;
use crate::sample::Disturbance;
use crate::subject::Reading;

fn sample(id: &str, ticks: &[u64]) -> Sample {
    let reading = |ticks| Reading { ops: 10, ticks, wall_ns: 1000, cpu_ns: 990 };
    let trial =
        |(round, ticks): (usize, &u64)| Trial { round: round as u32, reading: reading(*ticks), disturbed: None };
    Sample { trials: ticks.iter().enumerate().map(trial).collect(), ..Sample::new(id) }
}

fn figure(median: f64, unit: &str) -> Figure {
    Figure { median, lo: median * 0.99, hi: median * 1.01, n: 30, unit: unit.into(), range: None }
}

/// Returns a report that uses every feature, also for the tests of table and plot.
pub fn example() -> (Report, Vec<Sample>) {
    let ours = sample("udp.send", &[572, 570, 579, 571, 573, 575, 570, 574, 611, 572]);
    let theirs = sample("lwip.udp.send", &[1240, 1200, 1260, 1230, 1242, 1250, 1222, 1241, 1239, 1230]);
    let floor = NoiseFloor { ratio: 1.0, lo: 0.996, hi: 1.004, n: 30 };
    let now = Figure::ticks(&ours).unwrap();
    let mut row = Row::new("udp.send", "UDP send, 22-byte payload", now.clone());
    row.then = Some(Quoted { median: 2357.0, lo: None, hi: None, n: None, unit: "ticks/op".into() });
    row.vs_previous = Change::between_runs(&figure(60.0, "ticks/op"), &now, Better::Less, &floor);
    let grep = Row::new("text.grep", "five MACs <fixed columns> & all", figure(5.3, "GB/s"));
    let times = Times { median: 2.3, lo: 2.2, hi: 2.4, n: 30 };
    let peers = vec![
        Peer::new("lwip", &theirs, &ours).unwrap(),
        Peer {
            id: "linux.udp.send".into(),
            row: "udp.send".into(),
            now: figure(1178.0, "ticks/op"),
            ratio: Some(Times { median: 20.6, lo: 20.1, hi: 21.0, n: 30 }),
        },
        Peer { id: "ripgrep.text.grep".into(), row: "text.grep".into(), now: figure(2.3, "GB/s"), ratio: Some(times) },
    ];
    let report = Report {
        noise_floor: floor,
        rows: vec![row, grep],
        peers,
        notes: vec!["64-byte frames without FCS".into()],
        ..Report::empty("example", Environment::read(std::path::Path::new("/nonexistent")))
    };
    (report, vec![ours, theirs])
}

#[test]
fn json_has_the_contracts_shape() {
    let (report, _) = example();
    let json: serde_json::Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&json), ["env", "name", "noise_floor", "notes", "peers", "rows", "version"]);
    assert_eq!(keys(&json["rows"][0]), ["id", "now", "then", "title", "vs_previous"]);
    assert_eq!(keys(&json["rows"][0]["now"]), ["hi", "lo", "median", "n", "range", "unit"]);
    assert_eq!(keys(&json["rows"][0]["vs_previous"]), ["floor_pct", "hi", "lo", "n", "ratio", "verdict"]);
    assert_eq!(json["rows"][0]["vs_previous"]["verdict"], "faster");
    assert!(json["rows"][1]["then"].is_null() && json["rows"][1]["vs_previous"].is_null());
    assert_eq!(keys(&json["peers"][0]), ["id", "now", "ratio", "row"]);
    assert_eq!(keys(&json["peers"][0]["ratio"]), ["hi", "lo", "median", "n"]);
    assert_eq!(
        (json["peers"][0]["id"].as_str(), json["peers"][0]["row"].as_str()),
        (Some("lwip.udp.send"), Some("udp.send"))
    );
}

#[test]
fn json_and_back() {
    let (report, _) = example();
    assert_eq!(Report::from_json(&report.to_json().unwrap()).unwrap(), report);
    for (text, why) in [
        ("{}", "not a report"),
        ("{\"rows\": [", "EOF"),
        ("{\"version\": 1, \"rows\": []}", "version 1, this program reads version 2: measure again"),
        ("{\"rows\": []}", "version 1"),
        ("{\"version\": 9, \"rows\": []}", "version 9"),
        ("{\"version\": 2, \"rows\": []}", "missing field"),
    ] {
        let error = Report::from_json(text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    assert_eq!(report.row("text.grep").unwrap().now.as_ref().unwrap().unit, "GB/s");
    assert_eq!(report.row("absent"), None);
}

#[test]
fn a_peers_ratio_is_above_one_if_ours_is_better() {
    let (report, _) = example();
    let times = report.peers[0].ratio.unwrap();
    assert!((2.1..2.2).contains(&times.median) && times.lo <= times.median && times.median <= times.hi);
    assert_eq!(report.peers[0].now.range, Some([120.0, 126.0]));
}

#[test]
fn a_peer_of_two_states_has_its_range_and_no_ratio() {
    let ours = sample("tap.up", &[570; 8]);
    let theirs = |fast: u64| sample("passt.tap.up", &[1200, 1210, fast, 1190, 1220, fast, 1200, 1230]);
    let peer = |fast: u64| Peer::new("passt", &theirs(fast), &ours).unwrap();
    assert!(peer(300).ratio.is_some_and(|times| times.median > 2.0));
    let two = peer(200);
    assert_eq!((two.ratio, two.now.range), (None, Some([20.0, 123.0])));
    let report = Report { peers: vec![two], ..example().0 };
    let text = crate::table::render(&report);
    assert!(text.contains("20.00 to 123.0") && text.contains(crate::table::TWO_STATES), "{text}");
}

#[test]
fn changes_have_the_same_direction_for_costs_and_rates() {
    let floor = NoiseFloor { ratio: 1.0, lo: 0.996, hi: 1.004, n: 30 };
    let change =
        |before, now, better| Change::between_runs(&figure(before, "x"), &figure(now, "x"), better, &floor).unwrap();
    assert_eq!(change(100.0, 80.0, Better::Less).verdict, Verdict::Faster);
    assert_eq!(change(100.0, 80.0, Better::More).verdict, Verdict::Slower);
    let better = change(100.0, 125.0, Better::More);
    assert!((better.ratio - 1.25).abs() < 1e-12 && better.verdict == Verdict::Faster);
    assert!((better.hi / better.ratio - 1.0142).abs() < 0.001, "1 % and 1 % make 1.41 %");
    assert_eq!(Change::between_runs(&figure(1.0, "x"), &figure(1.0, "y"), Better::Less, &floor), None);
    assert_eq!(Change::between_runs(&figure(0.0, "x"), &figure(1.0, "x"), Better::Less, &floor), None);
}

#[test]
fn paired_changes_have_a_verdict() {
    let (_, samples) = example();
    let floor = NoiseFloor { ratio: 1.0, lo: 0.996, hi: 1.004, n: 30 };
    assert_eq!(Change::paired(&samples[1], &samples[0], &floor).unwrap().verdict, Verdict::Faster);
    assert!(Change::paired(&samples[1], &sample("short", &[1]), &floor).is_err());
}

#[test]
fn every_trial_is_a_line() {
    let mut one = sample("a", &[100, 101]);
    one.dropped.push(Trial { disturbed: Some(Disturbance::CpuShare), ..one.trials[1] });
    let mut out = Vec::new();
    write_trials(&mut out, "run", &[one]).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(
        lines[0],
        r#"{"name":"run","id":"a","kept":true,"round":0,"reading":{"ops":10,"ticks":100,"wall_ns":1000,"cpu_ns":990},"disturbed":null}"#
    );
    assert!(lines[2].contains(r#""kept":false"#) && lines[2].contains(r#""disturbed":"cpu_share""#));
}
