//! Explanation of a packet's path, for IPv4 and IPv6: every step of the routing decision, for
//! `route get ADDR --why`.

use super::{Path, Route, Via, Via6};
use crate::Stack;
use crate::iface::{Iface, IfaceId};
use crate::ip::Input;
use crate::ip::exit::Target;
use crate::ip4::requests_address;
use crate::neigh::Neighbor;
use clock::Instant;
use fib::Matched;
use lock::{Cx, Locks};
use stats::DropReason;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::{Proto, ip6};

/// The packet whose path is explained.
#[derive(Clone, Copy, Debug)]
pub struct Question<A = Ipv4Addr> {
    /// Destination address.
    pub dst: A,
    /// Interface, for a link-local or multicast destination; `None` if it was not specified.
    pub zone: Option<IfaceId>,
    /// Receiving interface and source address; `None` for a packet that this host sends.
    pub from: Option<(IfaceId, A)>,
    /// Protocol; 0 if unknown.
    pub proto: u8,
    /// Source and destination L4 port; both 0 if there are none.
    pub l4_ports: (u16, u16),
}

/// Selection among the paths of a multipath route.
#[derive(Clone, Debug)]
pub struct Choice<A = Ipv4Addr> {
    /// All paths of the route. For a path whose gateway did not answer, also the time until which
    /// the path is avoided.
    pub paths: Vec<(Path<A>, Option<Instant>)>,
    /// The flow's hash, keyed by a secret of the stack.
    pub hash: u64,
    /// Bucket that the hash selects, out of [`super::paths::BUCKETS`].
    pub bucket: usize,
}

/// Explanation of a routing decision.
#[derive(Clone, Debug)]
pub struct Why<A: Matched = u32> {
    /// Route that is used.
    pub matched: Option<Route<A>>,
    /// Other routes whose shorter prefixes also contain the destination, the longest prefix first.
    pub passed_over: Vec<Route<A>>,
    /// Next hop; for a multipath route, the selected path. Multicast and link-local destinations
    /// have a next hop without a route.
    pub via: Option<Via<A::Addr>>,
    /// Selection among several paths; `None` if the route has only one.
    pub choice: Option<Choice<A::Addr>>,
    /// Outgoing interface, and the IP address of the neighbor that receives the frame.
    pub next: Option<(IfaceId, IpAddr)>,
    /// Neighbor entry, if there is one.
    pub neighbor: Option<Neighbor<IpAddr>>,
    /// Length of the longest packet in bytes: the MTU of the interface, or the path MTU if that is
    /// smaller.
    pub mtu: Option<usize>,
    /// Source address that this host would select for a packet to the destination.
    pub source: Option<A::Addr>,
    /// Route to the source of the packet, which source validation checks; `None` if source
    /// validation is off.
    pub back: Option<Option<Route<A>>>,
    /// Reason for which this host would drop the packet; `None` if it would not.
    pub end: Option<DropReason>,
}

/// Next hop, and the selection among paths that resulted in it.
type Chosen<G> = (Option<Via<G>>, Option<Choice<G>>);

/// Family-specific steps of [`Stack::why`].
trait Explained: Input {
    /// Returns the next hop of a packet that needs no route lookup, or `Some(None)` if this packet
    /// has no next hop. Returns `None` if the packet needs a route lookup.
    fn without_route<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        question: &Question<Self::Addr>,
    ) -> Option<Option<Via<Self::Addr>>>;
    fn source_to<L: Locks>(stack: &Stack<L>, cx: Cx, question: &Question<Self::Addr>) -> Option<Self::Addr>;
    fn flow_of<L: Locks>(stack: &Stack<L>, src: Self::Addr, question: &Question<Self::Addr>) -> u64;
    /// Returns the reason for which this host would drop the packet if `iface` received it from
    /// `src`.
    fn refusal<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        iface: IfaceId,
        src: Self::Addr,
        question: &Question<Self::Addr>,
        via: Option<Via<Self::Addr>>,
    ) -> Option<DropReason>;
    /// Returns the reason for which a packet with this next hop is not forwarded.
    fn unroutable(via: Option<Via<Self::Addr>>) -> Option<DropReason>;
}

impl<L: Locks> Stack<L> {
    /// Explains the path of an IPv4 packet. Sends nothing and changes no state.
    pub fn why(&self, cx: Cx, question: &Question) -> Why {
        self.explain::<u32>(cx, question)
    }

    /// Explains the path of an IPv6 packet. Sends nothing and changes no state.
    pub fn why6(&self, cx: Cx, question: &Question<Ipv6Addr>) -> Why<u128> {
        self.explain::<u128>(cx, question)
    }

    #[inline(never)]
    fn explain<A: Explained>(&self, cx: Cx, question: &Question<A::Addr>) -> Why<A> {
        let without = A::without_route(self, cx, question);
        let covering = || A::routes(self).lock(cx).covering(question.dst);
        let mut covering = if without.is_some() { Vec::new() } else { covering() }.into_iter();
        let matched = covering.next();
        let (via, choice) = match without.unwrap_or(matched.map(|route| route.via)) {
            Some(via @ Via::Paths(_)) => self.why_this_path::<A>(cx, via, question),
            via => (via, None),
        };
        let next = match via {
            Some(Via::Link(iface) | Via::Broadcast(iface) | Via::Local(iface)) => Some((iface, question.dst.into())),
            Some(Via::Gateway(iface, gateway)) => Some((iface, gateway.into())),
            Some(Via::Gateway6(iface, gateway)) => Some((iface, gateway.into())),
            _ => None,
        };
        let leaves = next.filter(|_| !matches!(via, Some(Via::Local(_) | Via::Broadcast(_))));
        let path_mtu = A::path_mtu(self, cx, A::of(question.dst));
        let validated = question.from.filter(|_| self.validates::<A>());
        let source = A::source_to(self, cx, question);
        let refusal = match question.from {
            Some((iface, src)) => A::refusal(self, cx, iface, src, question, via),
            // For a packet that this host sends, a missing route and a missing source address have
            // the same drop reason.
            None => (A::unroutable(via).is_some() || source.is_none()).then_some(A::NO_ROUTE),
        };
        let is_down = leaves.and_then(|(iface, _)| self.iface(iface)).is_some_and(|iface| !iface.is_up());
        Why {
            matched,
            passed_over: covering.collect(),
            via,
            choice,
            next,
            neighbor: leaves.and_then(|(iface, addr)| self.neighbor_entry(cx, iface, addr)),
            mtu: leaves.and_then(|(iface, _)| Some(A::mtu(self.iface(iface)?).min(path_mtu))),
            source,
            back: validated.map(|(_, src)| A::routes(self).lock(cx).explain(src)),
            end: refusal.or(is_down.then_some(DropReason::TxNoPort)),
        }
    }

    fn neighbor_entry(&self, cx: Cx, iface: IfaceId, addr: IpAddr) -> Option<Neighbor<IpAddr>> {
        match addr {
            IpAddr::V4(addr) => entry_of(self.neighbors(cx), iface, addr),
            IpAddr::V6(addr) => entry_of(self.neighbors6(cx), iface, addr),
        }
    }

    fn why_this_path<A: Explained>(&self, cx: Cx, via: Via<A::Addr>, question: &Question<A::Addr>) -> Chosen<A::Addr> {
        let Via::Paths(set) = via else { return (Some(via), None) };
        let hash = match question.from {
            Some((_, src)) => A::flow_of(self, src, question),
            None => self.own_hash(A::of(question.dst)),
        };
        let (routes, reader) = (A::routes(self).lock(cx), A::routes_reader(self));
        let dead = |path: &Path<A::Addr>| routes.hop_to(path.via).and_then(|id| reader.dead_until(id));
        let paths = routes.paths(set).iter().map(|path| (*path, dead(path))).collect();
        let chosen = reader.would_choose(&reader.pin(cx), set, hash, cx.now);
        (chosen, Some(Choice { paths, hash, bucket: super::paths::bucket(hash) }))
    }
}

fn entry_of<A: Copy + PartialEq + Into<IpAddr>>(
    all: Vec<Neighbor<A>>,
    iface: IfaceId,
    addr: A,
) -> Option<Neighbor<IpAddr>> {
    let found = all.into_iter().find(|n| (n.iface, n.addr) == (iface, addr))?;
    let Neighbor { iface, addr, mac, state, pending, since } = found;
    Some(Neighbor { iface, addr: addr.into(), mac, state, pending, since })
}

fn ports<A>(question: &Question<A>) -> u32 {
    let (source, destination) = question.l4_ports;
    u32::from(source) << 16 | u32::from(destination)
}

impl Explained for u32 {
    fn without_route<L: Locks>(stack: &Stack<L>, cx: Cx, question: &Question) -> Option<Option<Via>> {
        let dst = question.dst;
        let leaves = || stack.exit_for(cx, dst, question.zone).ok().map(|exit| exit.iface);
        // The FIB is not used for received broadcasts and multicasts. For broadcasts and multicasts
        // that this host sends, it only determines the interface.
        (dst.is_broadcast() || dst.is_multicast())
            .then(|| question.from.map(|(iface, _)| iface).or_else(leaves).map(Via::Broadcast))
    }

    fn source_to<L: Locks>(stack: &Stack<L>, cx: Cx, question: &Question) -> Option<Ipv4Addr> {
        stack.source_towards(cx, question.dst, None).ok()
    }

    fn flow_of<L: Locks>(stack: &Stack<L>, src: Ipv4Addr, question: &Question) -> u64 {
        stack.flow_hash_of(src, question.dst, question.proto, ports(question).into())
    }

    /// Applies the checks of `ip4::input` and `ip4::forward`, in their order.
    fn refusal<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        iface: IfaceId,
        src: Ipv4Addr,
        question: &Question,
        via: Option<Via>,
    ) -> Option<DropReason> {
        let first = src.octets()[0];
        let to = question.dst.octets()[0];
        let here = matches!(via, Some(Via::Local(_) | Via::Broadcast(_)));
        // A packet of unknown protocol is explained as UDP, the only protocol that may do this.
        let proto = if question.proto == 0 { Proto::UDP } else { Proto(question.proto) };
        let requests_address = requests_address(src, question.dst, proto);
        if (first == 0 || first == 127 || first >= 224) && !requests_address {
            Some(DropReason::Ip4MartianSource)
        } else if src == question.dst || !requests_address && stack.is_own(cx, src) {
            Some(DropReason::Ip4OwnSource)
        } else if !requests_address && !stack.is_valid_source(cx, iface, src.to_bits()) {
            Some(DropReason::Ip4InvalidSource)
        } else if to == 0 || to == 127 || to >= 240 && !question.dst.is_broadcast() {
            Some(DropReason::Ip4MartianDestination)
        } else if question.dst.is_multicast() && !stack.groups.lock(cx).is_member(iface, question.dst) {
            Some(DropReason::Ip4NotMember)
        } else if !here && !stack.sysctls.forwarding.on() {
            Some(DropReason::Ip4NotForwarding)
        } else {
            u32::unroutable(via)
        }
    }

    fn unroutable(via: Option<Via>) -> Option<DropReason> {
        match via {
            None | Some(Via::Reject | Via::Blackhole | Via::Paths(_)) => Some(DropReason::Ip4NoRoute),
            Some(Via::Prohibit) => Some(DropReason::Ip4Prohibited),
            _ => None,
        }
    }
}

impl Explained for u128 {
    fn without_route<L: Locks>(stack: &Stack<L>, cx: Cx, question: &Question<Ipv6Addr>) -> Option<Option<Via6>> {
        let dst = question.dst;
        if !dst.is_multicast() && !ip6::is_link_local(dst) {
            return None;
        }
        let iface = question.from.map(|(iface, _)| iface).or(question.zone);
        let exit = stack.exit6_for(cx, dst, iface).ok();
        Some(exit.and_then(|exit| match exit.to {
            Target::Here => Some(Via6::Local(exit.iface)),
            // Link-local packets of other hosts are not forwarded (RFC 4291 2.5.6).
            Target::Neighbor(_) | Target::Neighbor6(_) => question.from.is_none().then_some(Via6::Link(exit.iface)),
            _ => Some(Via6::Broadcast(exit.iface)),
        }))
    }

    fn source_to<L: Locks>(stack: &Stack<L>, cx: Cx, question: &Question<Ipv6Addr>) -> Option<Ipv6Addr> {
        stack.source6_towards(cx, question.dst, question.zone)
    }

    fn flow_of<L: Locks>(stack: &Stack<L>, src: Ipv6Addr, question: &Question<Ipv6Addr>) -> u64 {
        let mut packet = [0; ip6::HEADER_LEN + 4];
        let (header, upper) = packet.split_at_mut(ip6::HEADER_LEN);
        if let Some(header) = header.first_chunk_mut() {
            header_of(src, question).emit(header);
        }
        upper.copy_from_slice(&ports(question).to_be_bytes());
        stack.flow_hash::<u128>(&packet)
    }

    fn refusal<L: Locks>(
        stack: &Stack<L>,
        cx: Cx,
        iface: IfaceId,
        src: Ipv6Addr,
        question: &Question<Ipv6Addr>,
        via: Option<Via6>,
    ) -> Option<DropReason> {
        let iface: Option<&Iface<L>> = stack.iface(iface);
        iface.and_then(|iface| stack.refusal6(cx, iface, &header_of(src, question), via))
    }

    fn unroutable(via: Option<Via6>) -> Option<DropReason> {
        match via {
            None | Some(Via6::Reject | Via6::Blackhole | Via6::Paths(_)) => Some(DropReason::Ip6NoRoute),
            Some(Via6::Prohibit) => Some(DropReason::Ip6Prohibited),
            _ => None,
        }
    }
}

/// Returns the header of a packet with four bytes of payload.
fn header_of(src: Ipv6Addr, question: &Question<Ipv6Addr>) -> ip6::Header {
    let next = Proto(question.proto);
    ip6::Header { traffic_class: 0, flow_label: 0, payload_len: 4, next, hop_limit: 64, src, dst: question.dst }
}
