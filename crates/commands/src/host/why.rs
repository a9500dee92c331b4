//! `route get ADDR --why`: explains step by step how the host handles a packet to an address:
//! route, path, neighbor, MTU, source address and drop reason. The output is sentences or, with -j,
//! JSON fields.

use super::context::Ctl;
use super::six;
use crate::json::set;
use crate::parse;
use grammar::{Args, CommandError, Form};
use inet::fib::{IpPrefix, Matched, Prefix, Prefix6};
use inet::iface::{IfaceId, IfaceKind};
use inet::neigh::State;
use inet::route::{Choice, Path, Protocol, Question, Route, Via, Via6, Why};
use lock::Locks;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Address family of a query.
pub(super) trait WhyFamily: Matched {
    /// Name of the ICMP error that is sent for a packet to a reject route.
    const REJECTED: &'static str;

    /// Parses an address, with the iface if the address has a zone.
    ///
    /// # Errors
    /// Returns an error if it is not an address of this family, or there is no such iface.
    fn addr<L: Locks>(ctl: &Ctl<'_, L>, what: &str, word: &str) -> Result<(Self::Addr, Option<IfaceId>), CommandError>;
    fn shown(prefix: IpPrefix<Self>) -> String;
    fn paths<L: Locks>(ctl: &Ctl<'_, L>, via: Via<Self::Addr>) -> usize;
    fn why<L: Locks>(ctl: &Ctl<'_, L>, question: &Question<Self::Addr>) -> Why<Self>;
}

impl WhyFamily for u32 {
    const REJECTED: &'static str = "host unreachable";

    fn addr<L: Locks>(_: &Ctl<'_, L>, what: &str, word: &str) -> Result<(Ipv4Addr, Option<IfaceId>), CommandError> {
        Ok((parse::ip4(what, word)?, None))
    }

    fn shown(prefix: Prefix) -> String {
        parse::prefix_text(prefix)
    }

    fn paths<L: Locks>(ctl: &Ctl<'_, L>, via: Via) -> usize {
        ctl.host.stack.paths(ctl.cx, via).len()
    }

    fn why<L: Locks>(ctl: &Ctl<'_, L>, question: &Question) -> Why {
        ctl.host.stack.why(ctl.cx, question)
    }
}

impl WhyFamily for u128 {
    const REJECTED: &'static str = "no route to destination";

    fn addr<L: Locks>(ctl: &Ctl<'_, L>, what: &str, word: &str) -> Result<(Ipv6Addr, Option<IfaceId>), CommandError> {
        six::zoned(ctl, what, word)
    }

    fn shown(prefix: Prefix6) -> String {
        six::prefix_text(prefix)
    }

    fn paths<L: Locks>(ctl: &Ctl<'_, L>, via: Via6) -> usize {
        ctl.host.stack.paths6(ctl.cx, via).len()
    }

    fn why<L: Locks>(ctl: &Ctl<'_, L>, question: &Question<Ipv6Addr>) -> Why<u128> {
        ctl.host.stack.why6(ctl.cx, question)
    }
}

/// Parameters of `get ADDR [from SRC iif IF] [ipproto N] [sport N] [dport N] [--why]`.
pub(super) struct RouteQuery<A: WhyFamily> {
    question: Question<A::Addr>,
    /// Explain the choice of the next hop (`--why`).
    pub why: bool,
}

/// Syntax form of `ip route get`, after the verb. The form of `route get` uses the same parameter
/// names.
pub(super) const GET: &[Form<()>] = &[Form {
    grammar: "[--why,-why] ADDR [from SRC] [iif IF] [ipproto PROTO] [sport 0-65535] [dport 0-65535]",
    about: "",
    run: (),
}];

/// Reads the parameters of a `get`.
///
/// # Errors
/// Returns an error for an address of another family, an unknown interface, or if only one of
/// `from` and `iif` is given.
pub(super) fn route_query<A: WhyFamily, L: Locks>(
    ctl: &Ctl<'_, L>,
    args: &Args<'_>,
) -> Result<RouteQuery<A>, CommandError> {
    let (dst, zone) = A::addr(ctl, "address", args.text("ADDR"))?;
    let src = args.get("SRC").map(|word| A::addr(ctl, "source", word)).transpose()?.map(|(src, _)| src);
    let iface = args.get("IF").map(|name| ctl.host.iface(name)).transpose()?.map(|iface| iface.id);
    let from = match (src, iface) {
        (Some(src), Some(iface)) => Some((iface, src)),
        (None, None) => None,
        _ => return Err(CommandError::missing("both 'from SRC' and 'iif IF', which describe a forwarded packet")),
    };
    let port = |name| args.number(name).unwrap_or(0) as u16;
    let proto = args.get("PROTO").map(proto).transpose()?.unwrap_or(0);
    let question = Question { dst, zone, from, proto, l4_ports: (port("sport"), port("dport")) };
    Ok(RouteQuery { question, why: args.has("--why") })
}

fn proto(word: &str) -> Result<u8, CommandError> {
    match word {
        "tcp" => Ok(6),
        "udp" => Ok(17),
        "icmp" => Ok(1),
        "ipv6-icmp" | "icmp6" => Ok(58),
        word => Ok(parse::number("protocol", word, 0, 255)? as u8),
    }
}

impl<A: WhyFamily> RouteQuery<A> {
    /// Returns the queried address.
    pub fn dst(&self) -> A::Addr {
        self.question.dst
    }

    /// Returns the answer to the query.
    pub fn answer<L: Locks>(&self, ctl: &Ctl<'_, L>) -> Why<A> {
        A::why(ctl, &self.question)
    }

    /// Returns the answer as sentences, or as JSON if that format was requested.
    pub fn explain<L: Locks>(&self, ctl: &Ctl<'_, L>) -> String {
        let why = self.answer(ctl);
        ctl.listing(|| fields(ctl, &self.question, &why), || sentences(ctl, &self.question, &why).join("\n") + "\n")
    }
}

/// Returns a next hop as text, such as `via 10.0.0.1 dev em0`.
fn next_hop_text<A: WhyFamily, L: Locks>(ctl: &Ctl<'_, L>, via: Via<A::Addr>) -> String {
    let dev = |id: IfaceId| format!("dev {}", ctl.iface_name(id));
    match via {
        Via::Local(id) => format!("to this host ({})", dev(id)),
        Via::Broadcast(id) => format!("to all hosts on the link ({})", dev(id)),
        Via::Link(id) => format!("directly to the destination on the link, {}", dev(id)),
        Via::Gateway(id, gateway) => format!("via {gateway} {}", dev(id)),
        Via::Gateway6(id, gateway) => format!("via inet6 {gateway} {}", dev(id)),
        Via::Paths(_) => format!("one of {} paths", A::paths(ctl, via)),
        Via::Reject => format!("dropped, with ICMP {} to the sender", A::REJECTED),
        Via::Prohibit => "dropped, with ICMP administratively prohibited to the sender".to_owned(),
        Via::Blackhole => "dropped without an ICMP error".to_owned(),
    }
}

/// Facts about a route that a routing engine has announced.
struct Announced {
    protocol: Protocol,
    /// Time since its last change, in seconds.
    age: u64,
    nh_id: Option<u32>,
    is_stale: bool,
}

impl Announced {
    /// Returns the facts about a route; `None` for an own route.
    fn of<A: WhyFamily, L: Locks>(ctl: &Ctl<'_, L>, route: &Route<A>) -> Option<Announced> {
        let Route { prefix, origin, .. } = route;
        if origin.is_own() {
            return None;
        }
        let wide = A::of(prefix.addr()).to_wide();
        let dst = if A::BITS == 32 { Ipv4Addr::from(wide as u32).into() } else { Ipv6Addr::from(wide).into() };
        let (nh_id, is_stale) = ctl.host.fpm_route(dst, prefix.len(), origin.generation)?;
        let age = (ctl.cx.now.nanos() / 1_000_000_000).saturating_sub(origin.since.into());
        Some(Announced { protocol: origin.protocol, age, nh_id, is_stale })
    }

    fn sentence(&self) -> String {
        let id = self.nh_id.map_or(String::new(), |id| format!(", nhid {id}"));
        let stale = if self.is_stale { ", stale" } else { "" };
        format!("the route comes from a routing engine: proto {}{id}, {} s old{stale}", self.protocol, self.age)
    }
}

fn sentences<A: WhyFamily, L: Locks>(ctl: &Ctl<'_, L>, question: &Question<A::Addr>, why: &Why<A>) -> Vec<String> {
    let mut out = Vec::new();
    if let Some((iface, src)) = question.from {
        out.push(format!("a packet from {src} to {} arrives on {}", question.dst, ctl.iface_name(iface)));
    }
    match why.matched {
        Some(route @ Route { prefix, via, .. }) => {
            let way = next_hop_text::<A, L>(ctl, via);
            out.push(format!("{} matches the route with the longest prefix, {prefix}: {way}", question.dst));
            out.extend(Announced::of(ctl, &route).map(|announced| announced.sentence()));
        }
        None => out.push(match why.via {
            Some(via) => format!("{} needs no table lookup: {}", question.dst, next_hop_text::<A, L>(ctl, via)),
            None => format!("there is no route to {}", question.dst),
        }),
    }
    for Route { prefix, via, .. } in &why.passed_over {
        out.push(format!("not used, because its prefix is shorter: {prefix}, {}", next_hop_text::<A, L>(ctl, *via)));
    }
    if let Some(choice) = &why.choice {
        out.extend(choice_sentences(ctl, why, choice));
    }
    let leaves = why.next.filter(|_| why.mtu.is_some());
    let is_tunnel = |id| ctl.host.stack.iface(id).is_some_and(|iface| iface.kind == IfaceKind::Tunnel);
    if let Some((iface, _)) = leaves.filter(|(iface, _)| is_tunnel(*iface)) {
        out.push(format!("the packet enters the tunnel {}", ctl.iface_name(iface)));
    } else if let Some((iface, next)) = leaves {
        let state = match &why.neighbor {
            Some(known) if known.state == State::Incomplete => {
                format!("is being resolved, {} packets wait", known.pending)
            }
            Some(known) => format!("is at {} ({})", known.mac, state_word(known.state)),
            None if next.is_ipv6() => "is not known: the first packet waits for neighbor discovery".to_owned(),
            None => "is not known: the first packet waits for ARP".to_owned(),
        };
        out.push(format!("the neighbor {next} on {} {state}", ctl.iface_name(iface)));
    }
    out.extend(why.mtu.map(|mtu| format!("packets up to {mtu} bytes are sent without fragmentation")));
    if question.from.is_none() {
        out.extend(why.source.map(|src| format!("packets sent by this host would have the source address {src}")));
    }
    match why.back {
        Some(Some(Route { prefix, via, .. })) => {
            out.push(format!(
                "source validation: replies to the source would use {prefix}, {}",
                next_hop_text::<A, L>(ctl, via)
            ));
        }
        Some(None) => out.push("source validation: there is no route to the source".to_owned()),
        None => {}
    }
    out.push(match why.end {
        Some(reason) => format!("the packet is dropped: {} ({})", reason.sentence(), reason.name()),
        None => "no check drops the packet".to_owned(),
    });
    out
}

fn choice_sentences<A: WhyFamily, L: Locks>(ctl: &Ctl<'_, L>, why: &Why<A>, choice: &Choice<A::Addr>) -> Vec<String> {
    let mut out = Vec::new();
    for (Path { via, weight }, dead) in &choice.paths {
        let avoided = if dead.is_some() { ", not used: its gateway did not reply" } else { "" };
        out.push(format!("path: {} weight {weight}{avoided}", next_hop_text::<A, L>(ctl, *via)));
    }
    let chosen = why.via.map(|via| next_hop_text::<A, L>(ctl, via)).unwrap_or_default();
    out.push(format!("the flow's hash {:016x} selects bucket {}: {chosen}", choice.hash, choice.bucket));
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

fn fields<A: WhyFamily, L: Locks>(ctl: &Ctl<'_, L>, question: &Question<A::Addr>, why: &Why<A>) -> Value {
    let route =
        |route: &Route<A>| json!({ "dst": A::shown(route.prefix), "way": next_hop_text::<A, L>(ctl, route.via) });
    let mut out = json!({
        "dst": question.dst.to_string(),
        "matched": why.matched.as_ref().map(route),
        "passed_over": why.passed_over.iter().map(route).collect::<Vec<_>>(),
        "why": sentences(ctl, question, why),
    });
    if let Some(announced) = why.matched.as_ref().and_then(|route| Announced::of(ctl, route)) {
        let Announced { protocol, age, nh_id, is_stale } = announced;
        set(&mut out, "protocol", protocol.to_string());
        set(&mut out, "age_s", age);
        set(&mut out, "nhid", json!(nh_id));
        set(&mut out, "stale", is_stale);
    }
    if let Some((iface, src)) = question.from {
        set(&mut out, "from", src.to_string());
        set(&mut out, "iif", ctl.iface_name(iface));
    }
    if let Some(choice) = &why.choice {
        let path = |(path, dead): &(Path<A::Addr>, Option<_>)| json!({ "way": next_hop_text::<A, L>(ctl, path.via), "weight": path.weight, "dead": dead.is_some() });
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
