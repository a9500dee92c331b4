//! `why`: explains how a running host or bridge treats the frames of a flow. Reports the ports
//! where they arrive and leave, the route or address table entry that applies, the socket, drops
//! with their reasons, and packets that wait for neighbor resolution.
//!
//! Combines existing control commands: a capture, for some seconds, of frames that pass or are
//! dropped; the host's sample of earlier drops; `route get --why`, `ss`, `bridge fdb`.

mod flow;

use crate::args::WhyArgs;
use crate::exit::{Exit, Fault, print};
use crate::running::Running;
use anyhow::Context;
use flow::{Ends, FlowQuery};
use node::capture::{Caught, Fate};
use port::pcap::Direction;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Instant;
use wire::dissect;
use wire::filter::Filter;

/// Maximum number of bytes captured of each frame, enough for the headers.
const SNAPLEN: u32 = 256;
/// Maximum number of flows, and of stations, that are looked up. Frames of further flows are only
/// counted.
const FLOWS_MAX: usize = 8;

/// Runs `why`.
///
/// # Errors
/// The flow is invalid, or no host replies.
pub fn run(args: &WhyArgs) -> anyhow::Result<Exit> {
    let requested = FlowQuery::parse(&args.flow).map_err(Fault::usage)?;
    Filter::compile(&requested.expression).map_err(Fault::usage)?;
    let host = Running::of(args.url.as_deref())?;
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let before = host.dropped(&requested.expression)?.frames;
    let start = Instant::now();
    let (mut tally, mut missed) = (Tally::default(), 0);
    if !args.duration.is_zero() {
        let capture = host.open("all", SNAPLEN, &requested.expression)?;
        let (without_room, ended) = capture.follow(Some(args.duration), |batch| {
            batch.frames.into_iter().for_each(|frame| tally.take(frame));
            Ok(true)
        });
        ended?;
        missed = without_room;
    }
    let seconds = if args.duration.is_zero() { 0.0 } else { start.elapsed().as_secs_f64() };
    let report = Report::of(&host, &requested, before, tally, missed, seconds);
    print(&if args.json { format!("{}\n", report.json()) } else { report.text() })?;
    Ok(Exit::Fine)
}

/// Captured frames at the same port that were all received, all sent, or all dropped for the same
/// reason.
struct Group {
    place: String,
    fate: Fate,
    frames: usize,
    last: Caught,
}

/// Direction and iface of a frame that passed.
type Passed = (Direction, String);

/// Captured frames, grouped by port and by whether they were received, sent or dropped.
#[derive(Default)]
struct Tally {
    /// Groups in the order of their first frame.
    groups: Vec<Group>,
    /// Flows, each with the direction and iface of its frames: those of arriving frames if there
    /// are any, else those of leaving frames. `None` if all frames of the flow were dropped.
    flows: BTreeMap<Ends, Option<Passed>>,
    /// Destination MAC addresses, which are looked up if the process is a bridge.
    stations: Vec<[u8; 6]>,
}

impl Tally {
    fn take(&mut self, frame: Caught) {
        self.take_flow(&frame);
        if let Some(mac) = frame.data.first_chunk::<6>()
            && self.stations.len() < FLOWS_MAX
            && !self.stations.contains(mac)
        {
            self.stations.push(*mac);
        }
        match self.groups.iter_mut().find(|group| group.place == frame.iface && group.fate == frame.fate) {
            Some(group) => (group.frames, group.last) = (group.frames + 1, frame),
            None => {
                self.groups.push(Group { place: frame.iface.clone(), fate: frame.fate, frames: 1, last: frame });
            }
        }
    }

    fn take_flow(&mut self, frame: &Caught) {
        let Some(ends) = Ends::of(&frame.data) else { return };
        if self.flows.len() < FLOWS_MAX || self.flows.contains_key(&ends) {
            let known = self.flows.entry(ends).or_default();
            let is_known = |(direction, _): &Passed| *direction == Direction::Inbound;
            if let Fate::Passed(direction) = frame.fate
                && !known.as_ref().is_some_and(is_known)
            {
                *known = Some((direction, frame.iface.clone()));
            }
        }
    }
}

/// Heading of a control request, and the lines of its reply.
struct Answer {
    about: String,
    text: Vec<String>,
}

struct Report {
    expression: String,
    seconds: f64,
    missed: u64,
    before: Vec<Caught>,
    groups: Vec<Group>,
    answers: Vec<Answer>,
}

impl Report {
    fn of(
        host: &Running,
        requested: &FlowQuery,
        before: Vec<Caught>,
        mut tally: Tally,
        missed: u64,
        seconds: f64,
    ) -> Report {
        before.iter().for_each(|frame| tally.take_flow(frame));
        let Tally { groups, mut flows, stations } = tally;
        if flows.is_empty() {
            flows.extend(requested.ends.iter().map(|ends| (ends.clone(), None)));
        }
        let answers = answers(host, &flows, &stations);
        Report { expression: requested.expression.clone(), seconds, missed, before, groups, answers }
    }

    fn text(&self) -> String {
        let mut out = match (self.groups.is_empty(), self.seconds > 0.0) {
            (true, true) => {
                format!("no frame of '{}' was received, sent or dropped in {:.1} s\n", self.expression, self.seconds)
            }
            (true, false) => String::new(),
            (false, _) => format!("frames of '{}' in {:.1} s\n", self.expression, self.seconds),
        };
        for group in &self.groups {
            out += &format!("  {} {}: {}\n", fate_word(group.fate), at(&group.place), frames(group.frames));
            if let Fate::Dropped(why) = group.fate {
                out += &format!("    {}: {}\n", why.name(), why.sentence());
            }
            out += &format!("    last: {}\n", line(&group.last));
        }
        if self.missed > 0 {
            out += &format!("  not captured because the buffer was full: {}\n", frames(self.missed as usize));
        }
        if !self.before.is_empty() {
            let mut reasons: BTreeMap<&str, (usize, &Caught)> = BTreeMap::new();
            for frame in &self.before {
                if let Fate::Dropped(why) = frame.fate {
                    let known = reasons.entry(why.name()).or_insert((0, frame));
                    *known = (known.0 + 1, frame);
                }
            }
            out += "dropped earlier (the host keeps a sample of recent drops)\n";
            for (why, (count, last)) in reasons {
                out += &format!("  {why} {}: {}\n    last: {}\n", at(&last.iface), frames(count), line(last));
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
            "filter": self.expression, "seconds": self.seconds, "missed": self.missed,
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

/// Queries the host's routes and sockets for `flows` or, from a bridge, the ports at which
/// `stations` were learned.
fn answers(host: &Running, flows: &BTreeMap<Ends, Option<Passed>>, stations: &[[u8; 6]]) -> Vec<Answer> {
    if let Ok(table) = host.ask(&["bridge", "fdb", "show"], true) {
        return stations.iter().map(|mac| entry(mac, &table)).collect();
    }
    let mut out: Vec<Answer> = Vec::new();
    for (ends, passed) in flows {
        let about = format!("route to {}", ends.dst);
        let words = route_words(ends, passed.as_ref());
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let lines = host.ask(&words, false).map(|text| lines_of(&text));
        let lines = lines.unwrap_or_else(|why| vec![why.to_string()]);
        if !out.iter().any(|answer| answer.about == about && answer.text == lines) {
            out.push(Answer { about, text: lines });
        }
    }
    let about = "sockets (netid, state, receive queue, send queue, local, peer)".to_string();
    let text = sockets(host, flows).unwrap_or_else(|why| vec![why.to_string()]);
    out.push(Answer { about, text });
    out
}

/// Returns one line for each socket that receives or sends packets of `flows`.
fn sockets(host: &Running, flows: &BTreeMap<Ends, Option<Passed>>) -> anyhow::Result<Vec<String>> {
    let rows: Vec<Value> = serde_json::from_str(&host.ask(&["ss", "-a"], true)?).context("ss: not JSON")?;
    let reached = rows.iter().filter(|row| flows.keys().any(|ends| ends.is_of_socket(row)));
    let lines: Vec<String> = reached.map(socket_line).collect();
    Ok(if lines.is_empty() { vec!["no matching socket".to_string()] } else { lines })
}

/// Returns a line that describes a socket; `row` is its object in the JSON output of `ss`.
fn socket_line(row: &Value) -> String {
    let word = |key: &str| match row.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => "*".to_string(),
    };
    let end = |addr: &str, port: &str| match word(addr) {
        six if six.contains(':') => format!("[{six}]:{}", word(port)),
        other => format!("{other}:{}", word(port)),
    };
    let [netid, state, recv, send] = ["netid", "state", "recv_q", "send_q"].map(word);
    format!("{netid} {state} {recv} {send} {} {}", end("local", "local_port"), end("peer", "peer_port"))
}

fn lines_of(text: &str) -> Vec<String> {
    text.lines().map(str::to_string).collect()
}

/// Returns the words of the command `ip route get DST ... --why` for a flow. If the flow was
/// received, the command requests the route of a forwarded packet (`from` and `iif`).
fn route_words(ends: &Ends, passed: Option<&Passed>) -> Vec<String> {
    let mut words: Vec<String> = ["ip"].map(String::from).into();
    words.extend(ends.dst.is_ipv6().then(|| "-6".to_string()));
    words.extend(["route", "get"].map(String::from));
    match (passed, ends.src_word()) {
        (Some((Direction::Inbound, iface)), Some(src)) => {
            words.extend([ends.dst_word(), "from", src, "iif", iface].map(String::from));
        }
        (Some((_, iface)), _) if ends.is_of_link() => words.push(format!("{}%{iface}", ends.dst_word())),
        _ => words.push(ends.dst_word().to_string()),
    }
    for (name, value) in ends.upper().into_iter().filter(|(_, value)| *value > 0) {
        words.extend([name.to_string(), value.to_string()]);
    }
    words.push("--why".to_string());
    words
}

/// Returns the ports at which a bridge has learned the MAC address `mac`; `table` is the JSON
/// output of `bridge fdb show`.
fn entry(mac: &[u8; 6], table: &str) -> Answer {
    let name = wire::Mac(*mac).to_string();
    let rows: Vec<Value> = serde_json::from_str(table).unwrap_or_default();
    let word = |row: &Value, key: &str| row.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
    let known = rows.iter().filter(|row| word(row, "mac") == name);
    let mut text: Vec<String> = known
        .map(|row| {
            let vlan = row.get("vlan").map(|vlan| format!(" in VLAN {vlan}")).unwrap_or_default();
            format!("port {}{vlan} {}", word(row, "ifname"), word(row, "state")).trim_end().to_string()
        })
        .collect();
    if text.is_empty() {
        let group = mac[0] & 1 == 1;
        let known = if group { "group address: sent to several ports" } else { "unknown address: sent to all ports" };
        text.push(known.to_string());
    }
    Answer { about: format!("station {name}"), text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;
    use wire::{Proto, eth, ip6};

    /// Returns the ends of an IPv6 datagram from port 1 to port 2.
    fn ends(dst: &str) -> Ends {
        let mut frame = vec![0; eth::HEADER_LEN + ip6::HEADER_LEN];
        frame[12..14].copy_from_slice(&eth::EtherType::IPV6.0.to_be_bytes());
        let (src, dst) = (Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9), dst.parse().unwrap());
        let header =
            ip6::Header { traffic_class: 0, flow_label: 0, payload_len: 8, next: Proto::UDP, hop_limit: 64, src, dst };
        header.emit(frame[eth::HEADER_LEN..].first_chunk_mut().unwrap());
        frame.extend([0, 1, 0, 2, 0, 8, 0, 0]);
        Ends::of(&frame).unwrap()
    }

    #[test]
    fn route_lookups_match_the_direction_of_the_flow() {
        let words = |dst: &str, direction: Option<Direction>| {
            let passed = direction.map(|direction| (direction, "em0".to_string()));
            route_words(&ends(dst), passed.as_ref()).join(" ")
        };
        let upper = "ipproto 17 sport 1 dport 2 --why";
        let came = Some(Direction::Inbound);
        assert_eq!(words("fd00::1", came), format!("ip -6 route get fd00::1 from fd00::9 iif em0 {upper}"));
        let left = Some(Direction::Outbound);
        assert_eq!(words("fe80::1", left), format!("ip -6 route get fe80::1%em0 {upper}"));
        assert_eq!(words("ff02::1", left), format!("ip -6 route get ff02::1%em0 {upper}"));
        assert_eq!(words("fd00::1", left), format!("ip -6 route get fd00::1 {upper}"));
        assert_eq!(words("fd00::1", None), format!("ip -6 route get fd00::1 {upper}"));
    }
}
