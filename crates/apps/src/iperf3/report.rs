//! The server's own report: lines as the test goes on, or one JSON object of the form that `iperf3 -s -J` prints.

use super::test::{Stream, Test};
use crate::streams::StreamInfo;
use serde_json::{Map, Value, json};

/// A stream in an interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamInterval {
    pub(super) id: u32,
    pub(super) is_sender: bool,
    pub(super) bytes: u64,
    pub(super) retransmits: Option<u64>,
    pub(super) info: Option<StreamInfo>,
}

/// An interval, in seconds since counting began.
#[derive(Debug)]
pub(super) struct Interval {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) is_omitted: bool,
    pub(super) rows: Vec<StreamInterval>,
}

/// `902 MBytes` (powers of 1024), `7.57 Gbits/sec` (powers of 1000): four places, as iperf3 writes them.
fn scaled(value: f64, step: f64, unit: &str) -> String {
    let mut value = value;
    let mut prefix = "";
    for next in ["K", "M", "G", "T"] {
        if value < step {
            break;
        }
        value /= step;
        prefix = next;
    }
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:>4.digits$} {prefix}{unit}")
}

fn rate(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

const RULER: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -";

impl Test {
    pub(super) fn head_lines(&mut self) {
        for at in 0..self.streams.len() {
            let Some(stream) = self.streams.get(at) else { return };
            let (id, local, peer) = (stream.id, stream.ends.local, stream.ends.peer);
            self.line(&format!(
                "[{id:3}] local {} port {} connected to {} port {}",
                local.ip(),
                local.port(),
                peer.ip(),
                peer.port()
            ));
        }
        self.line("[ ID] Interval           Transfer     Bitrate");
    }

    fn row_line(&mut self, id: &str, from: f64, to: f64, bytes: u64, tail: &str) {
        let (transfer, bitrate) =
            (scaled(bytes as f64, 1024.0, "Bytes"), scaled(rate(bytes, to - from), 1000.0, "bits/sec"));
        self.line(format!("[{id:>3}] {from:6.2}-{to:<6.2} sec  {transfer}  {bitrate}{tail}").trim_end());
    }

    pub(super) fn interval_lines(&mut self, interval: &Interval) {
        let tail = if interval.is_omitted { "  (omitted)" } else { "" };
        for row in &interval.rows {
            self.row_line(&row.id.to_string(), interval.from, interval.to, row.bytes, tail);
        }
        for is_sender in [false, true] {
            let rows = interval.rows.iter().filter(|row| row.is_sender == is_sender);
            if rows.clone().count() > 1 {
                self.row_line("SUM", interval.from, interval.to, rows.map(|row| row.bytes).sum(), tail);
            }
        }
    }

    pub(super) fn end_lines(&mut self) {
        let seconds = self.seconds();
        self.line(RULER);
        self.line("[ ID] Interval           Transfer     Bitrate");
        for is_sender in [false, true] {
            let role = if is_sender { "                  sender" } else { "                  receiver" };
            let streams = self.streams.iter().filter(|stream| stream.is_sender == is_sender);
            let rows: Vec<(u32, u64)> = streams.map(|stream| (stream.id, stream.bytes)).collect();
            for (id, bytes) in &rows {
                self.row_line(&id.to_string(), 0.0, seconds, *bytes, role);
            }
            if rows.len() > 1 {
                self.row_line("SUM", 0.0, seconds, rows.iter().map(|(_, bytes)| bytes).sum(), role);
            }
        }
    }
}

/// Length, bytes, rate.
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

fn interval_json(interval: &Interval, is_bidir: bool) -> Value {
    let amount = |bytes| amount(interval.from, interval.to, bytes);
    let omitted = ("omitted", json!(interval.is_omitted));
    let streams = interval.rows.iter().map(|row| {
        let mut rest = vec![("socket", json!(row.id))];
        if let (Some(info), Some(retransmits)) = (row.info, row.retransmits) {
            rest.extend([
                ("retransmits", json!(retransmits)),
                ("snd_cwnd", json!(info.snd_cwnd)),
                ("snd_wnd", json!(info.snd_wnd)),
                ("rtt", json!(info.rtt_us)),
                ("rttvar", json!(info.rttvar_us)),
                ("pmtu", json!(info.pmtu)),
            ]);
        }
        rest.extend([omitted.clone(), ("sender", json!(row.is_sender))]);
        with(amount(row.bytes), &rest)
    });
    let mut all = Map::new();
    all.insert("streams".into(), streams.collect());
    for is_sender in [false, true] {
        let rows: Vec<&StreamInterval> = interval.rows.iter().filter(|row| row.is_sender == is_sender).collect();
        if rows.is_empty() {
            continue;
        }
        let mut rest = vec![omitted.clone(), ("sender", json!(is_sender))];
        if let Some(retransmits) = rows.iter().map(|row| row.retransmits).sum::<Option<u64>>() {
            rest.push(("retransmits", json!(retransmits)));
        }
        let name = if is_bidir && is_sender { "sum_bidir_reverse" } else { "sum" };
        all.insert(name.into(), with(amount(rows.iter().map(|row| row.bytes).sum()), &rest));
    }
    Value::Object(all)
}

/// What the sending and the receiving side of a stream counted.
fn both_sides(stream: &Stream) -> (u64, u64) {
    if stream.is_sender { (stream.bytes, stream.peer_bytes) } else { (stream.peer_bytes, stream.bytes) }
}

fn stream_json(stream: &Stream, seconds: f64) -> Value {
    let (sent, received) = both_sides(stream);
    let common = [("socket", json!(stream.id)), ("sender", json!(stream.is_sender))];
    let mut of_sender = common.to_vec();
    if stream.is_sender
        && let Some(retransmits) = stream.retransmits()
    {
        let mean = stream.rtt_sum.checked_div(stream.rtt_count).unwrap_or(0);
        of_sender.extend([
            ("retransmits", json!(retransmits)),
            ("max_snd_cwnd", json!(stream.max_cwnd)),
            ("max_snd_wnd", json!(stream.max_wnd)),
            ("max_rtt", json!(stream.rtt_max)),
            ("min_rtt", json!(if stream.rtt_count == 0 { 0 } else { stream.rtt_min })),
            ("mean_rtt", json!(mean)),
        ]);
    } else if let Some(retransmits) = stream.peer_retransmits.filter(|n| *n >= 0) {
        of_sender.push(("retransmits", json!(retransmits)));
    }
    json!({
        "sender": with(amount(0.0, seconds, sent), &of_sender),
        "receiver": with(amount(0.0, seconds, received), &common),
    })
}

/// The whole report.
pub(super) fn json(test: &Test) -> Value {
    let (params, seconds) = (&test.params, test.seconds());
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
        "version": concat!("linerate ", env!("CARGO_PKG_VERSION")),
        "accepted_connection": { "host": test.ends.peer.ip().to_string(), "port": test.ends.peer.port() },
        "cookie": String::from_utf8_lossy(cookie),
        "target_bitrate": params.rate,
        "test_start": {
            "protocol": "TCP",
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
    let mss = test.streams.iter().find_map(|stream| stream.info).map(|info| info.mss);
    if let (Some(mss), Some(start)) = (mss, start.as_object_mut()) {
        start.insert("tcp_mss".into(), json!(mss));
    }
    let mut end = Map::new();
    end.insert("streams".into(), test.streams.iter().map(|stream| stream_json(stream, seconds)).collect());
    for is_sender in [false, true] {
        let streams: Vec<&Stream> = test.streams.iter().filter(|stream| stream.is_sender == is_sender).collect();
        if streams.is_empty() {
            continue;
        }
        let sent = streams.iter().map(|stream| both_sides(stream).0).sum();
        let received = streams.iter().map(|stream| both_sides(stream).1).sum();
        let role = ("sender", json!(is_sender));
        let mut of_sender = vec![role.clone()];
        if let Some(retransmits) = streams.iter().map(|stream| stream.retransmits()).sum::<Option<u64>>() {
            of_sender.push(("retransmits", json!(retransmits)));
        }
        let behind = if params.bidir && is_sender { "_bidir_reverse" } else { "" };
        end.insert(format!("sum_sent{behind}"), with(amount(0.0, seconds, sent), &of_sender));
        end.insert(format!("sum_received{behind}"), with(amount(0.0, seconds, received), &[role]));
    }
    let ([host, host_user, host_system], [remote, remote_user, remote_system]) =
        (test.cpu_percent, test.peer_cpu_percent);
    end.insert(
        "cpu_utilization_percent".into(),
        json!({
            "host_total": host, "host_user": host_user, "host_system": host_system,
            "remote_total": remote, "remote_user": remote_user, "remote_system": remote_system,
        }),
    );
    if let Some(congestion) = &test.peer_congestion {
        let name = if params.reverse { "receiver_tcp_congestion" } else { "sender_tcp_congestion" };
        end.insert(name.into(), json!(congestion));
    }
    let mut all = Map::new();
    all.insert("start".into(), start);
    let intervals = test.intervals.iter().map(|interval| interval_json(interval, params.bidir));
    all.insert("intervals".into(), intervals.collect());
    all.insert("end".into(), Value::Object(end));
    if let Some(title) = &params.title {
        all.insert("title".into(), json!(title));
    }
    if let Some(extra) = &params.extra {
        all.insert("extra_data".into(), json!(extra));
    }
    if let Some(error) = &test.error {
        all.insert("error".into(), json!(error));
    }
    Value::Object(all)
}
