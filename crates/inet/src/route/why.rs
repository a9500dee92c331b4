//! Why a packet would go where it goes: every step of the decision, for `route get ADDR --why`.

use super::{Path, Route, Via};
use crate::Stack;
use crate::iface::IfaceId;
use crate::neigh::Neighbor;
use clock::Instant;
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::Ipv4Addr;

/// A packet that is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Question {
    /// Its destination.
    pub dst: Ipv4Addr,
    /// Its source, and the iface it comes by; `None`: a packet of this host.
    pub from: Option<(IfaceId, Ipv4Addr)>,
    /// Its protocol, 0 if that is not known.
    pub proto: u8,
    /// Its L4 ports, source and destination; 0 and 0 if there are none.
    pub l4_ports: (u16, u16),
}

/// Which of several paths, and how that came about.
#[derive(Clone, Debug)]
pub struct Choice {
    /// All paths of the route, and until when each is avoided because its gateway did not answer.
    pub paths: Vec<(Path, Option<Instant>)>,
    /// The flow's hash, keyed by a secret of the stack.
    pub hash: u64,
    /// The bucket of [`super::paths::BUCKETS`] that the hash names.
    pub bucket: usize,
}

/// The chain of reasons.
#[derive(Clone, Debug)]
pub struct Why {
    /// The route that is taken.
    pub matched: Option<Route>,
    /// Routes that cover the destination too, with shorter prefixes, the longest first.
    pub passed_over: Vec<Route>,
    /// Where it leads: one path if the route has several.
    pub via: Option<Via>,
    /// How that was chosen, if the route has several paths.
    pub choice: Option<Choice>,
    /// The iface it leaves by, and who gets the frame.
    pub next: Option<(IfaceId, Ipv4Addr)>,
    /// What is known of that neighbor.
    pub neighbor: Option<Neighbor>,
    /// Bytes of the longest packet: the iface's, or less if the path has said so.
    pub mtu: Option<usize>,
    /// The source address that a packet of this host would have.
    pub source: Option<Ipv4Addr>,
    /// Where packets to the source of the question would go, if source validation asks.
    pub back: Option<Option<Route>>,
    /// Why the packet would end here.
    pub end: Option<DropReason>,
}

impl<L: Locks> Stack<L> {
    /// Explains what would become of a packet. Nothing is sent, asked or remembered.
    pub fn why(&self, cx: Cx, question: &Question) -> Why {
        let mut covering = self.routes.lock(cx).covering(question.dst).into_iter();
        let matched = covering.next();
        // What comes in for everybody, or for a group, is not asked for in the FIB.
        let for_many = question.dst.is_broadcast() || question.dst.is_multicast();
        let here = question.from.filter(|_| for_many).map(|(iface, _)| Via::Broadcast(iface));
        let (via, choice) = match here.or(matched.map(|route| route.via)) {
            Some(via @ Via::Paths(_)) => self.why_this_path(cx, via, question),
            via => (via, None),
        };
        let next = match via {
            Some(Via::Link(iface) | Via::Broadcast(iface) | Via::Local(iface)) => Some((iface, question.dst)),
            Some(Via::Gateway(iface, gateway)) => Some((iface, gateway)),
            _ => None,
        };
        let leaves = next.filter(|_| !matches!(via, Some(Via::Local(_) | Via::Broadcast(_))));
        let known = |n: &Neighbor| leaves == Some((n.iface, n.addr));
        let path_mtu = self.path_mtus.lock(cx).get(question.dst, cx.now);
        let validated = question.from.filter(|_| self.knobs.source_validation.on());
        Why {
            matched,
            passed_over: covering.collect(),
            via,
            choice,
            next,
            neighbor: leaves.and_then(|_| self.neighbors(cx).into_iter().find(known)),
            mtu: leaves.and_then(|(iface, _)| Some(self.iface(iface)?.mtu().min(path_mtu))),
            source: self.source_towards(cx, question.dst, None).ok(),
            back: validated.map(|(_, src)| self.route_to(cx, src)),
            end: self.why_not(cx, question, via),
        }
    }

    fn why_this_path(&self, cx: Cx, via: Via, question: &Question) -> (Option<Via>, Option<Choice>) {
        let Via::Paths(set) = via else { return (Some(via), None) };
        let (source, destination) = question.l4_ports;
        let ports = u64::from(source) << 16 | u64::from(destination);
        let hash = match question.from {
            Some((_, src)) => self.flow_hash_of(src, question.dst, question.proto, ports),
            None => self.own_hash(question.dst.to_bits()),
        };
        let routes = self.routes.lock(cx);
        let dead = |path: &Path| routes.hop_to(path.via).and_then(|id| self.ways.dead_until(id));
        let paths = routes.paths(set).iter().map(|path| (*path, dead(path))).collect();
        let chosen = self.ways.would_choose(&self.ways.pin(cx), set, hash, cx.now);
        (chosen, Some(Choice { paths, hash, bucket: super::paths::bucket(hash) }))
    }

    /// The checks of `ip4::input` and `ip4::forward`, in their order.
    fn why_not(&self, cx: Cx, question: &Question, via: Option<Via>) -> Option<DropReason> {
        let nowhere = match via {
            None | Some(Via::Reject | Via::Blackhole | Via::Paths(_)) => Some(DropReason::Ip4NoRoute),
            Some(Via::Prohibit) => Some(DropReason::Ip4Prohibited),
            _ => None,
        };
        let Some((iface, src)) = question.from else { return nowhere };
        let first = src.octets()[0];
        let to = question.dst.octets()[0];
        let here = matches!(via, Some(Via::Local(_) | Via::Broadcast(_)));
        if first == 0 || first == 127 || first >= 224 {
            Some(DropReason::Ip4MartianSource)
        } else if src == question.dst || self.is_own(cx, src) {
            Some(DropReason::Ip4OwnSource)
        } else if !self.source_is_valid(cx, iface, src) {
            Some(DropReason::Ip4InvalidSource)
        } else if to == 0 || to == 127 || to >= 240 && !question.dst.is_broadcast() {
            Some(DropReason::Ip4MartianDestination)
        } else if question.dst.is_multicast() && !self.groups.lock(cx).is_member(iface, question.dst) {
            Some(DropReason::Ip4NotMember)
        } else if !here && !self.knobs.forwarding.on() {
            Some(DropReason::Ip4NotForwarding)
        } else {
            nowhere
        }
    }
}
