//! The report as one JSON object in the format of `iperf3 -J`: start, intervals, end.

use super::report::{EndRow, Interval, StreamInterval, percent, rate, sum_of, sum_of_ends};
use super::stream::{Datagrams, Stream};
use super::test::{Role, Test};
use crate::date::{self, Wall};
use linerate::stack::Instant;
use serde_json::{Map, Value, json};

const VERSION: &str = concat!("linerate ", env!("CARGO_PKG_VERSION"));

type Pairs = Vec<(&'static str, Value)>;

/// Builds the JSON fields for a time span in seconds, its bytes and the resulting rate.
fn amount(from: f64, to: f64, bytes: u64) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("start".into(), json!(from));
    map.insert("end".into(), json!(to));
    map.insert("seconds".into(), json!(to - from));
    map.insert("bytes".into(), json!(bytes));
    map.insert("bits_per_second".into(), json!(rate(bytes, to - from)));
    map
}

fn with(mut map: Map<String, Value>, rest: &[(&str, Value)]) -> Value {
    map.extend(rest.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    Value::Object(map)
}

/// Builds the JSON fields that a UDP receiver measures: jitter and losses.
fn losses(datagrams: &Datagrams) -> Pairs {
    vec![
        ("jitter_ms", json!(datagrams.jitter_s * 1e3)),
        ("lost_packets", json!(datagrams.lost)),
        ("packets", json!(datagrams.packets)),
        ("lost_percent", json!(percent(datagrams))),
    ]
}

fn row_json(interval: &Interval, row: &StreamInterval, is_udp: bool) -> Value {
    let mut rest = match (is_udp, row.is_sender) {
        (true, true) => vec![("packets", json!(row.datagrams.packets))],
        (true, false) => losses(&row.datagrams),
        (false, _) => tcp_row(row),
    };
    rest.insert(0, ("socket", json!(row.id)));
    rest.extend([("omitted", json!(interval.is_omitted)), ("sender", json!(row.is_sender))]);
    with(amount(interval.from, interval.to, row.bytes), &rest)
}

fn tcp_row(row: &StreamInterval) -> Pairs {
    let (Some(info), Some(retransmits)) = (row.info, row.retransmits) else { return Vec::new() };
    vec![
        ("retransmits", json!(retransmits)),
        ("snd_cwnd", json!(info.snd_cwnd)),
        ("snd_wnd", json!(info.snd_wnd)),
        ("rtt", json!(info.rtt_us)),
        ("rttvar", json!(info.rttvar_us)),
        ("pmtu", json!(info.pmtu)),
    ]
}

fn interval_json(test: &Test, interval: &Interval) -> Value {
    let is_udp = test.params.is_udp();
    let mut all = Map::new();
    all.insert("streams".into(), interval.rows.iter().map(|row| row_json(interval, row, is_udp)).collect());
    for (at, is_sender) in test.directions().enumerate() {
        let rows: Vec<&StreamInterval> = interval.rows.iter().filter(|row| row.is_sender == is_sender).collect();
        if rows.is_empty() {
            continue;
        }
        let datagrams = sum_of(rows.iter().map(|row| &row.datagrams));
        let retransmits = rows.iter().map(|row| row.retransmits).sum::<Option<u64>>();
        let mut rest = match (is_udp, is_sender) {
            (true, true) => vec![("packets", json!(datagrams.packets))],
            (true, false) => losses(&datagrams),
            (false, _) => retransmits.map(|n| ("retransmits", json!(n))).into_iter().collect(),
        };
        rest.extend([("omitted", json!(interval.is_omitted)), ("sender", json!(is_sender))]);
        let bytes = rows.iter().map(|row| row.bytes).sum();
        all.insert(sum_name("sum", at), with(amount(interval.from, interval.to, bytes), &rest));
    }
    Value::Object(all)
}

/// Returns the JSON key of a sum over all streams of one direction; for the second direction of a
/// bidirectional test the key has a suffix.
fn sum_name(name: &str, at: usize) -> String {
    if at == 0 { name.to_owned() } else { format!("{name}_bidir_reverse") }
}

fn stream_json(stream: &Stream, seconds: f64, is_udp: bool) -> Value {
    let [sender, receiver] = stream.both_ends(seconds);
    let common = [("socket", json!(stream.id)), ("sender", json!(stream.is_sender))];
    if is_udp {
        let own = if stream.is_sender { sender } else { receiver };
        let mut rest = losses(&Datagrams { packets: own.datagrams.packets, ..receiver.datagrams });
        rest.push(("out_of_order", json!(stream.counted().out_of_order)));
        rest.extend(common);
        return json!({ "udp": with(amount(0.0, own.seconds, own.bytes), &rest) });
    }
    let mut of_sender: Pairs = common.to_vec();
    if let Some(retransmits) = stream.retransmits_of_sender() {
        of_sender.push(("retransmits", json!(retransmits)));
    }
    if stream.retransmits().is_some() {
        of_sender.extend([
            ("max_snd_cwnd", json!(stream.max_cwnd)),
            ("max_snd_wnd", json!(stream.max_wnd)),
            ("max_rtt", json!(stream.rtt.max)),
            ("min_rtt", json!(stream.rtt.min)),
            ("mean_rtt", json!(stream.rtt.mean())),
        ]);
    }
    json!({
        "sender": with(amount(0.0, sender.seconds, sender.bytes), &of_sender),
        "receiver": with(amount(0.0, receiver.seconds, receiver.bytes), &common),
    })
}

fn end_sums(test: &Test, end: &mut Map<String, Value>) {
    let (seconds, is_udp) = (test.seconds(), test.params.is_udp());
    for (at, is_sender) in test.directions().enumerate() {
        let streams = test.streams.iter().filter(|stream| stream.is_sender == is_sender);
        let ends: Vec<[EndRow; 2]> = streams.map(|stream| stream.both_ends(seconds)).collect();
        if ends.is_empty() {
            continue;
        }
        let [sender, receiver] = sum_of_ends(ends.iter());
        let sum = |row: &EndRow, rest: Pairs, of_sender: bool| {
            let rest = [rest, vec![("sender", json!(of_sender))]].concat();
            with(amount(0.0, row.seconds, row.bytes), &rest)
        };
        if is_udp {
            let own = if is_sender { sender } else { receiver };
            end.insert(sum_name("sum", at), sum(&own, losses(&receiver.datagrams), is_sender));
            end.insert(sum_name("sum_sent", at), sum(&sender, losses(&sender.datagrams), true));
            end.insert(sum_name("sum_received", at), sum(&receiver, losses(&receiver.datagrams), false));
        } else {
            let retransmits = sender.retransmits.map(|n| ("retransmits", json!(n))).into_iter().collect();
            end.insert(sum_name("sum_sent", at), sum(&sender, retransmits, is_sender));
            end.insert(sum_name("sum_received", at), sum(&receiver, Vec::new(), is_sender));
        }
    }
}

fn start_json(test: &Test, wall: Option<Wall>) -> Value {
    let params = &test.params;
    let host = |at: std::net::SocketAddr| json!({ "host": at.ip().to_string(), "port": at.port() });
    let connected = test.streams.iter().map(|stream| {
        json!({
            "socket": stream.id,
            "local_host": stream.ends.local.ip().to_string(),
            "local_port": stream.ends.local.port(),
            "remote_host": stream.ends.peer.ip().to_string(),
            "remote_port": stream.ends.peer.port(),
        })
    });
    let cookie = test.cookie.strip_suffix(b"\0").unwrap_or(&test.cookie);
    let mut start = json!({
        "connected": connected.collect::<Value>(),
        "version": VERSION,
        "system_info": VERSION,
        "cookie": String::from_utf8_lossy(cookie),
        "target_bitrate": params.rate,
        "sock_bufsize": params.window,
        "test_start": {
            "protocol": if params.is_udp() { "UDP" } else { "TCP" },
            "num_streams": params.streams,
            "blksize": params.block,
            "omit": params.omit.as_secs(),
            "duration": params.time.as_secs(),
            "bytes": params.bytes,
            "blocks": params.blocks,
            "reverse": i32::from(params.reverse),
            "bidir": i32::from(params.bidir),
            "tos": params.tos,
            "target_bitrate": params.rate,
        },
    });
    let Some(map) = start.as_object_mut() else { return start };
    let peer = if test.role == Role::Server { "accepted_connection" } else { "connecting_to" };
    map.insert(peer.into(), host(test.ends.peer));
    if let Some(wall) = wall {
        let seconds = wall.unix_s(test.started);
        map.insert("timestamp".into(), json!({ "time": date::http(seconds), "timesecs": seconds }));
    }
    if let Some(info) = test.streams.iter().find_map(|stream| stream.info).filter(|_| !params.is_udp()) {
        map.insert("tcp_mss_default".into(), json!(info.mss));
        map.insert("tcp_mss".into(), json!(info.mss));
    }
    start
}

pub(super) fn report(test: &Test, wall: Option<Wall>) -> Value {
    let (params, seconds) = (&test.params, test.seconds());
    let mut end = Map::new();
    if test.error.is_none() || test.ended.is_some() {
        let streams = test.streams.iter().map(|stream| stream_json(stream, seconds, params.is_udp()));
        end.insert("streams".into(), streams.collect());
        end_sums(test, &mut end);
        let [host, host_user, host_system] = test.cpu_percent;
        let [remote, remote_user, remote_system] = test.peer_cpu_percent;
        let percents = json!({
            "host_total": host, "host_user": host_user, "host_system": host_system,
            "remote_total": remote, "remote_user": remote_user, "remote_system": remote_system,
        });
        end.insert("cpu_utilization_percent".into(), percents);
    }
    if let Some(congestion) = test.peer_congestion.as_ref().filter(|_| !params.is_udp()) {
        let name = if test.sends(0) { "receiver_tcp_congestion" } else { "sender_tcp_congestion" };
        end.insert(name.into(), json!(congestion));
    }
    let mut all = Map::new();
    all.insert("start".into(), start_json(test, wall));
    all.insert("intervals".into(), test.intervals.iter().map(|interval| interval_json(test, interval)).collect());
    if test.left_out > 0 {
        all.insert("intervals_left_out".into(), json!(test.left_out));
    }
    all.insert("end".into(), Value::Object(end));
    let texts = [("title", &params.title), ("extra_data", &params.extra), ("error", &test.error)];
    for (name, text) in texts {
        if let Some(text) = text {
            all.insert(name.into(), json!(text));
        }
    }
    Value::Object(all)
}

/// Returns the report as JSON text; without `wall` the report has no timestamp.
pub(super) fn text(test: &Test, wall: Option<Wall>) -> String {
    format!("{:#}\n", report(test, wall))
}

/// Returns the start time of a test as text, in the format of HTTP dates.
pub(super) fn time_of_day(wall: Wall, now: Instant) -> String {
    date::http(wall.unix_s(now))
}
