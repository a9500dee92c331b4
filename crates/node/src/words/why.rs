//! `route get ADDR --why`: every step from an address to a frame, as sentences; with -j as fields.

use super::ip::set;
use super::parse::{self, Words};
use super::{Ctl, WordError};
use inet::iface::IfaceId;
use inet::neigh::State;
use inet::route::{Choice, Path, Question, Route, Via, Why};
use lock::Locks;
use serde_json::{Value, json};

/// What stands behind the address in `get ADDR [from SRC iif IF] [ipproto N] [sport N] [dport N] [--why]`.
pub(super) struct Asked {
    question: Question,
    /// As sentences.
    pub why: bool,
}

/// Reads the rest of a `get`.
pub(super) fn asked<L: Locks>(ctl: &Ctl<'_, L>, words: &mut Words<'_>) -> Result<Asked, WordError> {
    let mut why = words.skip("--why") || words.skip("-why");
    let dst = parse::ip4("address", words.next("an address")?)?;
    let (mut src, mut iface) = (None, None);
    let mut question = Question { dst, from: None, proto: 0, l4_ports: (0, 0) };
    while let Some(word) = words.take() {
        match word {
            "--why" | "-why" => why = true,
            "from" => src = Some(parse::ip4("source", words.next("a source address")?)?),
            "iif" => iface = Some(ctl.iface(words.next("an iface")?)?.id),
            "ipproto" => question.proto = proto(words.next("tcp, udp, icmp or a number")?)?,
            "sport" => question.l4_ports.0 = parse::number("L4 port", words.next("a number")?, 0, 65_535)? as u16,
            "dport" => question.l4_ports.1 = parse::number("L4 port", words.next("a number")?, 0, 65_535)? as u16,
            other => {
                let known = ["--why", "from", "iif", "ipproto", "sport", "dport"];
                return Err(WordError::unknown("word", other, known.into_iter()));
            }
        }
    }
    question.from = match (src, iface) {
        (Some(src), Some(iface)) => Some((iface, src)),
        (None, None) => None,
        _ => {
            return Err(WordError::missing(
                "both from SRC and iif IF: a packet that comes in has a source and an iface",
            ));
        }
    };
    Ok(Asked { question, why })
}

fn proto(word: &str) -> Result<u8, WordError> {
    match word {
        "tcp" => Ok(6),
        "udp" => Ok(17),
        "icmp" => Ok(1),
        word => Ok(parse::number("protocol", word, 0, 255)? as u8),
    }
}

impl Asked {
    /// Of which address.
    pub fn dst(&self) -> std::net::Ipv4Addr {
        self.question.dst
    }

    /// The answer.
    pub fn answer<L: Locks>(&self, ctl: &Ctl<'_, L>) -> Why {
        ctl.host.stack.why(ctl.cx, &self.question)
    }

    /// The answer as sentences, or as JSON if that was asked for.
    pub fn explain<L: Locks>(&self, ctl: &Ctl<'_, L>) -> String {
        let why = self.answer(ctl);
        ctl.listing(|| fields(ctl, &self.question, &why), || sentences(ctl, &self.question, &why).join("\n") + "\n")
    }
}

/// A way in words: `via 10.0.0.1 dev em0`.
pub(super) fn way<L: Locks>(ctl: &Ctl<'_, L>, via: Via) -> String {
    let dev = |id: IfaceId| format!("dev {}", ctl.iface_name(id));
    match via {
        Via::Local(id) => format!("to this host ({})", dev(id)),
        Via::Broadcast(id) => format!("to everybody on the link ({})", dev(id)),
        Via::Link(id) => format!("to the destination itself on the link, {}", dev(id)),
        Via::Gateway(id, gateway) => format!("via {gateway} {}", dev(id)),
        Via::Paths(_) => format!("one of {} paths", ctl.host.stack.paths(ctl.cx, via).len()),
        Via::Reject => "nowhere: host unreachable is answered".to_owned(),
        Via::Prohibit => "nowhere: administratively prohibited is answered".to_owned(),
        Via::Blackhole => "nowhere, in silence".to_owned(),
    }
}

fn sentences<L: Locks>(ctl: &Ctl<'_, L>, question: &Question, why: &Why) -> Vec<String> {
    let mut out = Vec::new();
    if let Some((iface, src)) = question.from {
        out.push(format!("a packet from {src} to {} comes by {}", question.dst, ctl.iface_name(iface)));
    }
    match why.matched {
        Some(Route { prefix, via }) => {
            out.push(format!("{} is in {}, the longest prefix of a route: {}", question.dst, prefix, way(ctl, via)));
        }
        None => out.push(format!("no route leads to {}", question.dst)),
    }
    for Route { prefix, via } in &why.passed_over {
        out.push(format!("passed over, as it is shorter: {prefix}, {}", way(ctl, *via)));
    }
    if let Some(choice) = &why.choice {
        out.extend(choice_sentences(ctl, why, choice));
    }
    if let Some((iface, next)) = why.next.filter(|_| why.mtu.is_some()) {
        let state = match &why.neighbor {
            Some(known) if known.state == State::Incomplete => {
                format!("is being asked for, {} packets wait", known.pending)
            }
            Some(known) => format!("is at {} ({})", known.mac, state_word(known.state)),
            None => "is not known: the first packet waits while ARP asks".to_owned(),
        };
        out.push(format!("the neighbor {next} on {} {state}", ctl.iface_name(iface)));
    }
    out.extend(why.mtu.map(|mtu| format!("packets up to {mtu} bytes go as they are")));
    if question.from.is_none() {
        out.extend(why.source.map(|src| format!("a packet of this host would come from {src}")));
    }
    match why.back {
        Some(Some(Route { prefix, via })) => {
            out.push(format!("source validation: packets back would go by {prefix}, {}", way(ctl, via)));
        }
        Some(None) => out.push("source validation: no route leads back to the source".to_owned()),
        None => {}
    }
    out.push(match why.end {
        Some(reason) => format!("the packet ends here: {} ({})", reason.sentence(), reason.name()),
        None => "nothing stands in its way".to_owned(),
    });
    out
}

fn choice_sentences<L: Locks>(ctl: &Ctl<'_, L>, why: &Why, choice: &Choice) -> Vec<String> {
    let mut out = Vec::new();
    for (Path { via, weight }, dead) in &choice.paths {
        let avoided = if dead.is_some() { ", avoided: its gateway did not answer" } else { "" };
        out.push(format!("path: {} weight {weight}{avoided}", way(ctl, *via)));
    }
    let chosen = why.via.map(|via| way(ctl, via)).unwrap_or_default();
    out.push(format!("the flow's hash {:016x} names bucket {}: {chosen}", choice.hash, choice.bucket));
    out
}

fn state_word(state: State) -> &'static str {
    match state {
        State::Incomplete => "incomplete",
        State::Reachable => "reachable",
        State::Stale => "stale",
        State::Probe => "probe",
        State::Permanent => "permanent",
    }
}

fn fields<L: Locks>(ctl: &Ctl<'_, L>, question: &Question, why: &Why) -> Value {
    let route = |route: &Route| json!({ "dst": parse::prefix_text(route.prefix), "way": way(ctl, route.via) });
    let mut out = json!({
        "dst": question.dst.to_string(),
        "matched": why.matched.as_ref().map(route),
        "passed_over": why.passed_over.iter().map(route).collect::<Vec<_>>(),
        "why": sentences(ctl, question, why),
    });
    if let Some((iface, src)) = question.from {
        set(&mut out, "from", src.to_string());
        set(&mut out, "iif", ctl.iface_name(iface));
    }
    if let Some(choice) = &why.choice {
        let path = |(path, dead): &(Path, Option<_>)| json!({ "way": way(ctl, path.via), "weight": path.weight, "dead": dead.is_some() });
        set(&mut out, "paths", choice.paths.iter().map(path).collect::<Vec<_>>());
        set(&mut out, "hash", format!("{:016x}", choice.hash));
        set(&mut out, "bucket", choice.bucket);
    }
    if let Some((iface, next)) = why.next {
        set(&mut out, "dev", ctl.iface_name(iface));
        set(&mut out, "next", next.to_string());
    }
    if let Some(known) = &why.neighbor {
        set(&mut out, "lladdr", known.mac.to_string());
        set(&mut out, "state", state_word(known.state));
    }
    if let Some(mtu) = why.mtu {
        set(&mut out, "mtu", mtu);
    }
    if let Some(src) = why.source.filter(|_| question.from.is_none()) {
        set(&mut out, "prefsrc", src.to_string());
    }
    if let Some(back) = &why.back {
        set(&mut out, "back", json!(back.as_ref().map(route)));
    }
    set(&mut out, "end", json!(why.end.map(|reason| reason.name())));
    out
}
