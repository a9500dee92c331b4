//! `why`: what becomes of a flow's frames in a running host or bridge: where they come in and leave, the
//! route or address table entry that decides, the socket, the drops and their reasons, what waits.
//!
//! The answer is put together from the words that everybody can say to a host: a capture of the frames
//! that pass and are dropped, for a while; the record of frames dropped before; `route get --why`, `ss`,
//! `bridge fdb`.

mod flow;

use crate::args::WhyArgs;
use crate::exit::{Exit, Fault, print};
use crate::running::Running;
use anyhow::Context;
use flow::{Asked, Ends};
use node::capture::{Caught, Fate, SNAPLEN};
use port::pcap::Direction;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use wire::dissect;
use wire::filter::Filter;

/// Time between two readings.
const PAUSE: Duration = Duration::from_millis(50);
/// Flows about which routes and sockets are asked; others are counted only.
const FLOWS_MAX: usize = 8;

/// `why`.
///
/// # Errors
/// A flow that is not understood, or no host.
pub fn run(args: &WhyArgs) -> anyhow::Result<Exit> {
    let asked = Asked::parse(&args.flow).map_err(Fault::usage)?;
    Filter::compile(&asked.expression).map_err(Fault::usage)?;
    let host = Running::of(args.url.as_deref())?;
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let before = host.dropped(&asked.expression)?.frames;
    let (frames, seconds) = watch(&host, &asked.expression, args.duration)?;
    let report = Report::of(&host, &asked, before, frames, seconds);
    print(&if args.json { format!("{}\n", report.json()) } else { report.text() })?;
    Ok(Exit::Fine)
}

/// Captures the frames that pass or are dropped for `time`; returns them and the seconds it took.
fn watch(host: &Running, expression: &str, time: Duration) -> anyhow::Result<(Vec<Caught>, f64)> {
    let start = Instant::now();
    if time.is_zero() {
        return Ok((Vec::new(), 0.0));
    }
    let capture = host.open("all", SNAPLEN, expression)?;
    let mut frames = Vec::new();
    let mut watched = || -> anyhow::Result<()> {
        while start.elapsed() < time && !dispatch::stop_requested() {
            std::thread::sleep(PAUSE.min(time.saturating_sub(start.elapsed())));
            frames.extend(capture.read()?.frames);
        }
        Ok(())
    };
    let ended = watched();
    let closed = capture.close();
    ended.and(closed)?;
    Ok((frames, start.elapsed().as_secs_f64()))
}

/// Frames with the same place and fate.
struct Group {
    place: String,
    fate: Fate,
    frames: usize,
    last: Caught,
}

/// A question to the host and its answer.
struct Answer {
    about: String,
    text: Vec<String>,
}

struct Report {
    expression: String,
    seconds: f64,
    before: Vec<Caught>,
    groups: Vec<Group>,
    answers: Vec<Answer>,
}

impl Report {
    fn of(host: &Running, asked: &Asked, before: Vec<Caught>, frames: Vec<Caught>, seconds: f64) -> Report {
        // By place and fate, in the order of first sight; and the flows, with the place where they came in.
        let mut groups: Vec<Group> = Vec::new();
        let mut flows: BTreeMap<Ends, Option<String>> = BTreeMap::new();
        let mut stations: Vec<[u8; 6]> = Vec::new();
        for frame in frames.iter().chain(&before) {
            let Some(ends) = Ends::of(&frame.data) else { continue };
            let came = matches!(frame.fate, Fate::Passed(Direction::Inbound)).then(|| frame.iface.clone());
            if flows.len() < FLOWS_MAX || flows.contains_key(&ends) {
                let known = flows.entry(ends).or_default();
                *known = known.take().or(came);
            }
        }
        for frame in frames {
            if let Some(mac) = frame.data.first_chunk::<6>()
                && stations.len() < FLOWS_MAX
                && !stations.contains(mac)
            {
                stations.push(*mac);
            }
            match groups.iter_mut().find(|group| group.place == frame.iface && group.fate == frame.fate) {
                Some(group) => (group.frames, group.last) = (group.frames + 1, frame),
                None => groups.push(Group { place: frame.iface.clone(), fate: frame.fate, frames: 1, last: frame }),
            }
        }
        if flows.is_empty() {
            flows.extend(asked.ends.iter().map(|ends| (ends.clone(), None)));
        }
        let answers = answers(host, &flows, &stations);
        Report { expression: asked.expression.clone(), seconds, before, groups, answers }
    }

    fn text(&self) -> String {
        let mut out = match (self.groups.is_empty(), self.seconds > 0.0) {
            (true, true) => {
                format!("no frame of '{}' came, left or was dropped in {:.1} s\n", self.expression, self.seconds)
            }
            (true, false) => String::new(),
            (false, _) => format!("frames of '{}' in {:.1} s\n", self.expression, self.seconds),
        };
        for group in &self.groups {
            out += &format!("  {} {}: {}\n", fate_word(group.fate), at(&group.place), frames(group.frames));
            if let Fate::Dropped(why) = group.fate {
                out += &format!("    {}: {}\n", why.name(), why.sentence());
            }
            out += &format!("    the last: {}\n", line(&group.last));
        }
        if !self.before.is_empty() {
            let mut reasons: BTreeMap<&str, (usize, &Caught)> = BTreeMap::new();
            for frame in &self.before {
                if let Fate::Dropped(why) = frame.fate {
                    let known = reasons.entry(why.name()).or_insert((0, frame));
                    *known = (known.0 + 1, frame);
                }
            }
            out += "dropped before that (the host keeps a sample of the last drops)\n";
            for (why, (count, last)) in reasons {
                out += &format!("  {why} {}: {}\n    the last: {}\n", at(&last.iface), frames(count), line(last));
            }
        }
        for answer in &self.answers {
            out += &format!("{}\n", answer.about);
            answer.text.iter().for_each(|line| out += &format!("  {line}\n"));
        }
        out
    }

    fn json(&self) -> Value {
        let dropped = |fate| match fate {
            Fate::Dropped(why) => json!({ "reason": why.name(), "sentence": why.sentence() }),
            Fate::Passed(_) => Value::Null,
        };
        let group = |group: &Group| {
            json!({ "place": group.place, "fate": fate_word(group.fate), "dropped": dropped(group.fate),
                    "frames": group.frames, "last": line(&group.last) })
        };
        let before =
            |frame: &Caught| json!({ "place": frame.iface, "dropped": dropped(frame.fate), "frame": line(frame) });
        let answer = |answer: &Answer| json!({ "about": answer.about, "lines": answer.text });
        json!({
            "filter": self.expression, "seconds": self.seconds,
            "frames": self.groups.iter().map(group).collect::<Vec<_>>(),
            "dropped_before": self.before.iter().map(before).collect::<Vec<_>>(),
            "answers": self.answers.iter().map(answer).collect::<Vec<_>>(),
        })
    }
}

fn frames(n: usize) -> String {
    if n == 1 { "1 frame".into() } else { format!("{n} frames") }
}

fn at(place: &str) -> String {
    if place == "-" { "in the host".into() } else { format!("at {place}") }
}

fn fate_word(fate: Fate) -> &'static str {
    match fate {
        Fate::Passed(Direction::Outbound) => "sent",
        Fate::Passed(_) => "received",
        Fate::Dropped(_) => "dropped",
    }
}

fn line(frame: &Caught) -> String {
    dissect::brief(&frame.data, frame.len as usize).to_string()
}

/// Asks the host for its decisions about `flows`; of a bridge, where it has `stations`.
fn answers(host: &Running, flows: &BTreeMap<Ends, Option<String>>, stations: &[[u8; 6]]) -> Vec<Answer> {
    if let Ok(table) = host.ask(&["bridge", "fdb", "show"], true) {
        return stations.iter().map(|mac| entry(mac, &table)).collect();
    }
    let mut out: Vec<Answer> = Vec::new();
    for (ends, came) in flows {
        let about = format!("the way to {}", ends.dst);
        let lines = host.ask(&route_words(ends, came.as_deref()), false).map(|text| lines_of(&text));
        let lines = lines.unwrap_or_else(|why| vec![why.to_string()]);
        if !out.iter().any(|answer| answer.about == about && answer.text == lines) {
            out.push(Answer { about, text: lines });
        }
    }
    let sockets = host.ask(&["ss", "-a"], false).unwrap_or_default();
    let rows: Vec<Value> =
        host.ask(&["ss", "-a"], true).ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    // The listing has a head; its lines are in the order of the rows.
    let matching: Vec<String> = rows
        .iter()
        .zip(sockets.lines().skip(1))
        .filter(|(row, _)| flows.keys().any(|ends| ends.is_of_socket(row)))
        .map(|(_, line)| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let about = "sockets (netid, state, receive queue, send queue, local, peer)".to_string();
    let none = || vec!["none is bound or connected there".to_string()];
    out.push(Answer { about, text: if matching.is_empty() { none() } else { matching } });
    out
}

fn lines_of(text: &str) -> Vec<String> {
    text.lines().map(str::to_string).collect()
}

/// `route get DST ... --why`: of a flow that came in, as a packet from outside.
fn route_words<'a>(ends: &'a Ends, came: Option<&'a str>) -> Vec<&'a str> {
    let mut words = vec!["ip"];
    words.extend(if ends.dst.is_ipv6() { ["-6", "route"].as_slice() } else { ["route"].as_slice() });
    words.extend(["get", ends.dst_word()]);
    if let (Some(iface), Some(src), false) = (came, ends.src_word(), ends.dst.is_ipv6()) {
        words.extend(["from", src, "iif", iface]);
    }
    if !ends.dst.is_ipv6() {
        words.push("--why");
    }
    words
}

/// Where a bridge has a station.
fn entry(mac: &[u8; 6], table: &str) -> Answer {
    let name = wire::Mac(*mac).to_string();
    let rows: Vec<Value> = serde_json::from_str(table).unwrap_or_default();
    let word = |row: &Value, key: &str| row.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
    let known = rows.iter().filter(|row| word(row, "mac") == name);
    let mut text: Vec<String> = known
        .map(|row| {
            let vlan = row.get("vlan").map(|vlan| format!(" in VLAN {vlan}")).unwrap_or_default();
            format!("is at {}{vlan} {}", word(row, "ifname"), word(row, "state")).trim_end().to_string()
        })
        .collect();
    if text.is_empty() {
        let group = mac[0] & 1 == 1;
        text.push(if group { "a group address: to several ports" } else { "not known: to all ports" }.to_string());
    }
    Answer { about: format!("the station {name}"), text }
}
