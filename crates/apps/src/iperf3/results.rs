//! The exchange of results: what the client counted, and what we did, by stream.

use super::params::{Refused, whole};
use super::report;
use super::test::Test;
use serde_json::{Map, Value, json};

/// Notes what the client counted.
pub(super) fn take(test: &mut Test, json: &[u8]) -> Result<(), Refused> {
    let json: Value = serde_json::from_slice(json).map_err(|_| Refused::Results)?;
    let percent = |name: &str| json.get(name).and_then(Value::as_f64).ok_or(Refused::Results);
    test.peer_cpu_percent = [percent("cpu_util_total")?, percent("cpu_util_user")?, percent("cpu_util_system")?];
    test.peer_congestion = json.get("congestion_used").and_then(Value::as_str).map(str::to_owned);
    let streams = json.get("streams").and_then(Value::as_array).ok_or(Refused::Results)?;
    for of_stream in streams {
        let id = of_stream.get("id").and_then(whole).ok_or(Refused::Results)?;
        let bytes = of_stream.get("bytes").and_then(whole).ok_or(Refused::Results)?;
        let found = test.streams.iter_mut().find(|stream| u64::from(stream.id) == id);
        let stream = found.ok_or(Refused::Results)?;
        stream.peer_bytes = bytes;
        stream.peer_retransmits = of_stream.get("retransmits").and_then(Value::as_i64);
    }
    Ok(())
}

/// What we counted.
pub(super) fn give(test: &Test, is_json: bool) -> Value {
    let [total, user, system] = test.cpu_percent;
    let sends = test.streams.iter().any(|stream| stream.is_sender);
    let knows = test.streams.iter().any(|stream| stream.retransmits().is_some());
    let mut all = Map::new();
    all.insert("cpu_util_total".into(), json!(total));
    all.insert("cpu_util_user".into(), json!(user));
    all.insert("cpu_util_system".into(), json!(system));
    all.insert("sender_has_retransmits".into(), json!(if sends { i32::from(knows) } else { -1 }));
    if test.params.wants_output && is_json {
        all.insert("server_output_json".into(), report::json(test));
    } else if test.params.wants_output {
        all.insert("server_output_text".into(), json!(test.lines));
    }
    let seconds = test.seconds();
    let streams = test.streams.iter().map(|stream| {
        let retransmits = stream.retransmits().map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX));
        json!({
            "id": stream.id,
            "bytes": stream.bytes,
            "retransmits": retransmits,
            "jitter": 0,
            "errors": 0,
            "omitted_errors": 0,
            "packets": 0,
            "omitted_packets": 0,
            "start_time": 0,
            "end_time": seconds,
        })
    });
    all.insert("streams".into(), streams.collect());
    Value::Object(all)
}
