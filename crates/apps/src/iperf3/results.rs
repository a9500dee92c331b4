//! Exchange of results: after the test both sides send the counts of each stream, in the same
//! format.

use super::json;
use super::params::{Refused, whole};
use super::stream::{Datagrams, PeerCounts};
use super::test::Test;
use serde_json::{Map, Value, json};

/// Maximum length of the peer's results in bytes: 256 streams of about 200 bytes, with reserve.
pub(super) const RESULTS_MAX: usize = 256 * 1024;
/// Maximum length in bytes of results that include the peer's report; this side does not send
/// longer ones either.
pub(super) const REPORT_MAX: usize = 8 << 20;

/// Format of the report that is attached to the results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Json,
    Text,
}

/// Stores the counts that the peer sent in `json`; returns the peer's report, if the results
/// include one.
pub(super) fn take(test: &mut Test, json: &[u8]) -> Result<Option<String>, Refused> {
    let json: Value = serde_json::from_slice(json).map_err(|_| Refused::Results)?;
    let percent = |name: &str| json.get(name).and_then(Value::as_f64).ok_or(Refused::Results);
    test.peer_cpu_percent = [percent("cpu_util_total")?, percent("cpu_util_user")?, percent("cpu_util_system")?];
    test.peer_congestion = json.get("congestion_used").and_then(Value::as_str).map(str::to_owned);
    let streams = json.get("streams").and_then(Value::as_array).ok_or(Refused::Results)?;
    for of_stream in streams {
        let id = of_stream.get("id").and_then(whole).ok_or(Refused::Results)?;
        let found = test.streams.iter_mut().find(|stream| u64::from(stream.id) == id);
        let stream = found.ok_or(Refused::Results)?;
        stream.peer = counts(of_stream, &stream.datagrams_omitted)?;
    }
    let text = json.get("server_output_text").and_then(Value::as_str).map(str::to_owned);
    Ok(text.or_else(|| json.get("server_output_json").map(indented)))
}

/// Formats a report with indentation, or compactly if the indentation would make it excessively
/// long: deep nesting can add hundreds of bytes per number.
fn indented(report: &Value) -> String {
    struct Bounded(Vec<u8>);
    impl std::io::Write for Bounded {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.0.len() + bytes.len() > 2 * REPORT_MAX {
                return Err(std::io::ErrorKind::OutOfMemory.into());
            }
            self.0.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut text = Bounded(Vec::new());
    match serde_json::to_writer_pretty(&mut text, report) {
        Ok(()) => String::from_utf8_lossy(&text.0).into_owned() + "\n",
        Err(_) => format!("{report}\n"),
    }
}

/// Parses the peer's counts of one stream. `omitted` are the datagrams that this side counted
/// during the omitted time at the beginning.
///
/// Stock iperf3 counts datagrams from the beginning of the test. From version 3.14 on it also sends
/// how many of them fell into the omitted time; up to version 3.13 it does not, and this side's own
/// number is subtracted instead. Receivers up to 3.13 do not report the losses in the omitted time
/// separately, so these losses remain in the lost count.
fn counts(json: &Value, omitted: &Datagrams) -> Result<PeerCounts, Refused> {
    // Each count is limited, so that the sum over all streams does not overflow.
    let is_count = |n: &u64| *n < 1 << 53;
    let bytes = json.get("bytes").and_then(whole).filter(is_count).ok_or(Refused::Results)?;
    let seconds = |name: &str| json.get(name).and_then(Value::as_f64).filter(|s| (0.0..1e9).contains(s)).unwrap_or(0.0);
    // A missing or invalid count is 0; stock iperf3 sends -1 for an invalid count.
    let count = |name: &str| json.get(name).and_then(whole).filter(is_count);
    let since =
        |total: &str, part: &str, own: u64| count(total).unwrap_or(0).saturating_sub(count(part).unwrap_or(own));
    let packets = since("packets", "omitted_packets", omitted.packets);
    Ok(PeerCounts {
        bytes,
        retransmits: count("retransmits"),
        jitter_s: seconds("jitter"),
        lost: since("errors", "omitted_errors", omitted.lost).min(packets),
        packets,
        seconds: (seconds("end_time") - seconds("start_time")).max(0.0),
    })
}

/// Returns our report as JSON, without the intervals if the peer would reject it as too long.
fn report_of(test: &Test) -> Value {
    let mut report = json::report(test, None);
    if report.to_string().len() > REPORT_MAX - RESULTS_MAX
        && let Some(map) = report.as_object_mut()
    {
        map.insert("intervals".into(), json!([]));
        map.insert("intervals_left_out".into(), json!(test.intervals.len() + test.left_out));
    }
    report
}

/// Returns our counts as JSON, with our report attached in the requested format.
pub(super) fn give(test: &Test, form: Option<Form>) -> Value {
    let [total, user, system] = test.cpu_percent;
    let sends = test.streams.iter().any(|stream| stream.is_sender);
    let knows = test.streams.iter().any(|stream| stream.retransmits().is_some());
    let mut all = Map::new();
    all.insert("cpu_util_total".into(), json!(total));
    all.insert("cpu_util_user".into(), json!(user));
    all.insert("cpu_util_system".into(), json!(system));
    all.insert("sender_has_retransmits".into(), json!(if sends { i32::from(knows) } else { -1 }));
    match form {
        Some(Form::Json) => drop(all.insert("server_output_json".into(), report_of(test))),
        Some(Form::Text) => drop(all.insert("server_output_text".into(), json!(test.printed))),
        None => {}
    }
    let seconds = test.seconds();
    // These counts cover the whole test, including the omitted time, as every version of stock
    // iperf3 expects.
    let streams = test.streams.iter().map(|stream| {
        let (all, omitted) = (&stream.datagrams, &stream.datagrams_omitted);
        json!({
            "id": stream.id,
            "bytes": stream.bytes,
            "retransmits": stream.retransmits().map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX)),
            "jitter": all.jitter_s,
            "errors": all.lost,
            "omitted_errors": omitted.lost,
            "packets": all.packets,
            "omitted_packets": omitted.packets,
            "start_time": 0,
            "end_time": seconds,
        })
    });
    all.insert("streams".into(), streams.collect());
    Value::Object(all)
}
