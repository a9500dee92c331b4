//! Counters of a host, and the rates computed from two readings.

use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

/// Number of intervals in the chart of a port.
const REMEMBERED: usize = 32;

/// Counters of a port at the time of a reading.
#[derive(Debug, Clone)]
struct Counted {
    name: String,
    spec: String,
    gone: Option<String>,
    counters: BTreeMap<String, u64>,
}

/// All counters of a host at one time.
#[derive(Debug, Clone)]
pub struct Reading {
    at: Instant,
    ports: Vec<Counted>,
    drops: BTreeMap<String, u64>,
    stages: Vec<(String, u64, u64)>,
    mode: String,
    work: Vec<Map<String, Value>>,
    pools: Vec<(u64, u64)>,
}

/// Rates of a port, per second.
#[derive(Debug, Clone, PartialEq)]
pub struct Port {
    /// Name of the port.
    pub name: String,
    /// Specification with which it was opened.
    pub spec: String,
    /// Reason why the port is gone; `None` while it is open.
    pub gone: Option<String>,
    /// Frames received, bits received, frames sent, bits sent, each per second.
    pub rates: [f64; 4],
    /// Frames lost at the port, per second: dropped, malformed or impaired.
    pub lost: f64,
}

/// Rates of a protocol in a netisr workstream, per second.
#[derive(Debug, Clone, PartialEq)]
pub struct Work {
    /// Number of the workstream.
    pub number: u64,
    /// Name of the protocol.
    pub protocol: String,
    /// Frames dispatched directly, frames dispatched by the hybrid policy, frames queued, frames
    /// dropped, each per second.
    pub rates: [f64; 4],
    /// Current length of the queue and its maximum so far, in frames.
    pub length: [u64; 2],
}

/// CPU time of a processing stage since the previous reading, from the host's cost ledger.
#[derive(Debug, Clone, PartialEq)]
pub struct Stage {
    /// Name of the stage.
    pub name: String,
    /// CPU ticks per frame, or per other unit that the stage counts.
    pub each: f64,
    /// Share of the ticks of all stages, 0 to 1.
    pub share: f64,
}

/// Rates of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// Seconds between the two readings.
    pub seconds: f64,
    /// Rates of the host's ports.
    pub ports: Vec<Port>,
    /// Dispatch policy of netisr.
    pub mode: String,
    /// Rates of the netisr workstreams, by protocol; rows without any frames so far are omitted.
    pub work: Vec<Work>,
    /// Drop reasons: name, drops per second and total number of drops, in descending order of the
    /// rate.
    pub drops: Vec<(String, f64, u64)>,
    /// Stages of the cost ledger in descending order of their share; empty while the ledger is
    /// disabled.
    pub stages: Vec<Stage>,
    /// Number of buffers in use, and number of all buffers.
    pub buffers: [u64; 2],
}

fn word(of: &Value, key: &str) -> String {
    of.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn count(of: &Value, key: &str) -> u64 {
    of.get(key).and_then(Value::as_u64).unwrap_or_default()
}

fn rows(of: &Value) -> &[Value] {
    of.as_array().map(Vec::as_slice).unwrap_or_default()
}

impl Reading {
    /// Parses a reading from the JSON replies to `show ports`, `show drops`, `show ledger`, `show
    /// isr` and `show pools`, in this order.
    pub fn of(at: Instant, [ports, drops, ledger, isr, pools]: [Value; 5]) -> Reading {
        let port = |row: &Value| {
            let counters = row.get("counters").and_then(Value::as_object).into_iter().flatten();
            let counters = counters.filter_map(|(name, value)| Some((name.clone(), value.as_u64()?)));
            let is_gone = row.get("gone").and_then(Value::as_bool).unwrap_or_default();
            // In the reply of a bridge, `gone` is the reason; in that of a host, it is true or
            // false, and `why` is the reason.
            let why = row.get("gone").and_then(Value::as_str).map(str::to_owned);
            Counted {
                name: word(row, "ifname"),
                spec: word(row, "port"),
                gone: why.or_else(|| is_gone.then(|| word(row, "why"))),
                counters: counters.collect(),
            }
        };
        let stage = |row: &Value| (word(row, "stage"), count(row, "ticks"), count(row, "units"));
        Reading {
            at,
            ports: rows(&ports).iter().map(port).collect(),
            drops: rows(&drops).iter().map(|row| (word(row, "name"), count(row, "value"))).collect(),
            stages: ledger.get("stages").map(rows).unwrap_or_default().iter().map(stage).collect(),
            mode: word(&isr, "dispatch-policy"),
            work: isr
                .get("workstreams")
                .map(rows)
                .unwrap_or_default()
                .iter()
                .filter_map(|row| row.as_object().cloned())
                .collect(),
            pools: rows(&pools).iter().map(|row| (count(row, "live"), count(row, "buffers"))).collect(),
        }
    }
}

impl Rates {
    /// Computes the rates between two readings.
    pub fn between(last: &Reading, now: &Reading) -> Rates {
        let seconds = now.at.saturating_duration_since(last.at).as_secs_f64().max(1e-3);
        // A counter has decreased if the host was restarted: the rate is then 0.
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        let ports = now.ports.iter().map(|Counted { name, spec, gone, counters }| {
            let before = last.ports.iter().find(|known| known.name == *name).map(|known| &known.counters);
            let of = |counter: &str| {
                let get = |from: &BTreeMap<String, u64>| from.get(counter).copied().unwrap_or_default();
                rate(before.map(get).unwrap_or_default(), get(counters))
            };
            let losses =
                ["missed", "no_buffer", "queue_full", "errors", "malformed", "impaired", "corrupted", "too_large"];
            let lost = losses.iter().map(|why| of(&format!("port.rx.{why}")) + of(&format!("port.tx.{why}"))).sum();
            let rates =
                [of("port.rx.frames"), 8.0 * of("port.rx.bytes"), of("port.tx.frames"), 8.0 * of("port.tx.bytes")];
            Port { name: name.clone(), spec: spec.clone(), gone: gone.clone(), rates, lost }
        });
        let mut drops: Vec<(String, f64, u64)> = now
            .drops
            .iter()
            .map(|(name, value)| {
                (name.clone(), rate(last.drops.get(name).copied().unwrap_or_default(), *value), *value)
            })
            .filter(|(_, _, all)| *all > 0)
            .collect();
        drops.sort_by(|x, y| y.1.total_cmp(&x.1).then(y.2.cmp(&x.2)));
        let buffers = now.pools.iter().fold([0, 0], |sum, pool| [sum[0] + pool.0, sum[1] + pool.1]);
        Rates {
            seconds,
            ports: ports.collect(),
            mode: now.mode.clone(),
            work: work(last, now, rate),
            drops,
            stages: stages(last, now),
            buffers,
        }
    }

    /// Returns the rates of the host called `host` as one JSON object.
    pub fn json(&self, host: &str) -> Value {
        let port = |p: &Port| {
            let [rx_fps, rx_bps, tx_fps, tx_bps] = p.rates;
            json!({ "ifname": p.name, "port": p.spec, "gone": p.gone.is_some(), "rx_fps": rx_fps, "rx_bps": rx_bps,
                    "tx_fps": tx_fps, "tx_bps": tx_bps, "lost_per_s": p.lost })
        };
        let work = |w: &Work| {
            let ([direct, hybrid, queued, drops], [length, watermark]) = (w.rates, w.length);
            json!({ "workstream": w.number, "protocol": w.protocol, "direct_per_s": direct, "hybrid_per_s": hybrid,
                    "queued_per_s": queued, "drops_per_s": drops, "length": length, "watermark": watermark })
        };
        let drop = |(name, rate, all): &(String, f64, u64)| json!({ "name": name, "per_s": rate, "total": all });
        let stage = |s: &Stage| json!({ "stage": s.name, "ticks_per_unit": s.each, "share": s.share });
        json!({
            "host": host, "seconds": self.seconds, "ports": self.ports.iter().map(port).collect::<Vec<_>>(),
            "dispatch": self.mode, "workstreams": self.work.iter().map(work).collect::<Vec<_>>(),
            "drops": self.drops.iter().map(drop).collect::<Vec<_>>(),
            "stages": self.stages.iter().map(stage).collect::<Vec<_>>(),
            "buffers": { "used": self.buffers[0], "all": self.buffers[1] },
        })
    }
}

fn work(last: &Reading, now: &Reading, rate: impl Fn(u64, u64) -> f64) -> Vec<Work> {
    let get = |row: &Map<String, Value>, key: &str| row.get(key).and_then(Value::as_u64).unwrap_or_default();
    let is_same = |a: &Map<String, Value>, b: &Map<String, Value>| {
        ["workstream", "name"].iter().all(|key| a.get(*key) == b.get(*key))
    };
    let moved = now.work.iter().filter(|row| get(row, "handled") + get(row, "queued") + get(row, "queue-drops") > 0);
    let row = |row: &Map<String, Value>| {
        let before = last.work.iter().find(|known| is_same(known, row));
        let of = |key: &str| rate(before.map_or(0, |before| get(before, key)), get(row, key));
        Work {
            number: get(row, "workstream"),
            protocol: row.get("name").and_then(Value::as_str).unwrap_or_default().to_owned(),
            rates: ["dispatched", "hybrid-dispatched", "queued", "queue-drops"].map(of),
            length: [get(row, "length"), get(row, "watermark")],
        }
    };
    moved.map(row).collect()
}

fn stages(last: &Reading, now: &Reading) -> Vec<Stage> {
    let before = |name: &str| {
        let found = last.stages.iter().find(|(known, ..)| known == name);
        found.map_or((0, 0), |(_, ticks, units)| (*ticks, *units))
    };
    let moved: Vec<(String, u64, u64)> = now
        .stages
        .iter()
        .map(|(name, ticks, units)| {
            let (ticks_before, units_before) = before(name);
            (name.clone(), ticks.saturating_sub(ticks_before), units.saturating_sub(units_before))
        })
        .filter(|(_, ticks, _)| *ticks > 0)
        .collect();
    let all: u64 = moved.iter().map(|(_, ticks, _)| ticks).sum();
    let stage = |(name, ticks, units): (String, u64, u64)| Stage {
        name,
        each: ticks as f64 / units.max(1) as f64,
        share: ticks as f64 / all.max(1) as f64,
    };
    let mut stages: Vec<Stage> = moved.into_iter().map(stage).collect();
    stages.sort_by(|x, y| y.share.total_cmp(&x.share));
    stages
}

/// Frame rate of each port in the last 32 intervals.
#[derive(Debug, Default)]
pub struct History(BTreeMap<String, VecDeque<f64>>);

impl History {
    /// Adds the rates of one interval.
    pub fn add(&mut self, rates: &Rates) {
        for port in &rates.ports {
            let past = self.0.entry(port.name.clone()).or_default();
            past.push_back(port.rates[0] + port.rates[2]);
            if past.len() > REMEMBERED {
                past.pop_front();
            }
        }
    }

    /// Returns the frame rates of a port: frames per second in both directions together, oldest
    /// interval first.
    pub fn of(&self, port: &str) -> Vec<f64> {
        self.0.get(port).into_iter().flatten().copied().collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::time::Duration;

    /// Returns the reading of a host that has received and sent `frames` frames of 64 bytes.
    pub fn reading(at: Instant, frames: u64, queued: u64) -> Reading {
        let ports = json!([{ "ifname": "eth0", "port": "pair:ab", "gone": false, "why": null, "counters": {
            "port.rx.frames": frames, "port.rx.bytes": 64 * frames, "port.tx.frames": frames, "port.tx.bytes": 64 * frames,
            "port.tx.queue_full": frames / 100 } }]);
        let drops = json!([{ "name": "inet.arp.in.ignored", "value": 1 + frames / 10, "sentence": "" },
                           { "name": "inet.ip4.in.ttl", "value": 7, "sentence": "" }]);
        let ledger = json!({ "stages": [{ "stage": "inet::ip4", "ticks": 30 * frames, "units": frames },
                                        { "stage": "wire", "ticks": 10 * frames, "units": frames }] });
        let isr = json!({ "dispatch-policy": "deferred", "workstreams": [
            { "workstream": 0, "name": "ip", "handled": queued, "queued": queued, "queue-drops": 0, "dispatched": 0,
              "hybrid-dispatched": 0, "length": 3, "watermark": 12 },
            { "workstream": 0, "name": "ip6", "handled": 0, "queued": 0, "queue-drops": 0 }] });
        Reading::of(at, [ports, drops, ledger, isr, json!([{ "live": 5, "buffers": 4096 }])])
    }

    #[test]
    fn two_readings_make_rates() {
        let start = Instant::now();
        let rates = Rates::between(&reading(start, 1000, 10), &reading(start + Duration::from_secs(2), 3000, 50));
        let port = &rates.ports[0];
        assert_eq!((port.name.as_str(), port.rates, port.lost), ("eth0", [1000.0, 512_000.0, 1000.0, 512_000.0], 10.0));
        assert_eq!(rates.drops[0], ("inet.arp.in.ignored".to_owned(), 100.0, 301), "the highest rate comes first");
        assert_eq!(rates.drops[1], ("inet.ip4.in.ttl".to_owned(), 0.0, 7));
        assert_eq!(rates.work.len(), 1, "rows without frames are omitted");
        assert_eq!((rates.work[0].rates, rates.work[0].length), ([0.0, 0.0, 20.0, 0.0], [3, 12]));
        assert_eq!(
            (rates.stages[0].name.as_str(), rates.stages[0].each, rates.stages[0].share),
            ("inet::ip4", 30.0, 0.75)
        );
        assert_eq!(rates.buffers, [5, 4096]);
        let json = rates.json("a");
        assert_eq!((&json["ports"][0]["rx_fps"], &json["workstreams"][0]["watermark"]), (&json!(1000.0), &json!(12)));
    }

    #[test]
    fn restarted_hosts_and_invalid_replies_are_tolerated() {
        let start = Instant::now();
        let later = start + Duration::from_secs(1);
        let rates = Rates::between(&reading(start, 5000, 9), &reading(later, 10, 0));
        assert_eq!((rates.ports[0].rates, rates.stages.len()), ([0.0; 4], 0));
        let nonsense = Reading::of(later, [json!(1), json!({}), json!([]), json!("x"), json!(null)]);
        let rates = Rates::between(&reading(start, 5000, 9), &nonsense);
        assert!(rates.ports.is_empty() && rates.work.is_empty() && rates.drops.is_empty());
    }

    #[test]
    fn history_is_bounded() {
        let start = Instant::now();
        let mut history = History::default();
        for n in 0..100 {
            let at = |n: u64| start + Duration::from_secs(n);
            history.add(&Rates::between(&reading(at(n), 0, 0), &reading(at(n + 1), n, 0)));
        }
        let past = history.of("eth0");
        assert_eq!((past.len(), past.last()), (REMEMBERED, Some(&198.0)));
    }
}
