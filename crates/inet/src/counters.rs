//! What the stack counts, one shard per thread; drop reasons and the cost ledger ride along.

use crate::iface::AtomicQueueSet;
use stats::{Described, Drops, End, Entry, Ledger, Shards, counters};
use std::sync::atomic::AtomicU32;

counters! {
    /// Ethernet, both directions.
    pub struct Ether at "inet.link.ether" {
        /// Frames handed up by ports.
        received,
        /// Frames handed to ports.
        sent,
    }
}

counters! {
    /// The loopback queue: packets of this host to itself.
    pub struct Loopback at "inet.link.loopback" {
        /// Packets put into it.
        queued,
    }
}

counters! {
    /// ARP.
    pub struct Arp at "inet.arp" {
        /// Requests received.
        requests_received,
        /// Replies received.
        replies_received,
        /// Requests sent.
        requests_sent,
        /// Replies sent.
        replies_sent,
        /// Gratuitous announcements sent (RFC 5227 2.3).
        announcements_sent,
        /// Somebody else uses an address of ours (RFC 5227 2.4).
        conflicts,
    }
}

counters! {
    /// The neighbor table.
    pub struct Neigh at "inet.neigh" {
        /// Entries made.
        created,
        /// Entries that got their answer.
        resolved,
        /// Entries that never did.
        failed,
        /// Entries removed to make room.
        evicted,
        /// A neighbor's MAC address changed.
        moved,
    }
}

counters! {
    /// IPv4.
    pub struct Ip4 at "inet.ip4" {
        /// Packets handed up by the link layer.
        received,
        /// Packets delivered to a protocol here.
        delivered,
        /// Packets forwarded.
        forwarded,
        /// Packets sent from here.
        sent,
        /// Fragments received.
        fragments_received,
        /// Datagrams reassembled.
        reassembled,
        /// Packets that left as fragments.
        fragmented,
        /// Fragments made.
        fragments_sent,
        /// Packets from here that found no route.
        no_route,
        /// Path MTUs forgotten before their time to make room for others.
        path_mtus_evicted,
    }
}

counters! {
    /// ICMP for IPv4.
    pub struct Icmp4 at "inet.icmp4" {
        /// Messages received.
        received,
        /// Echo requests answered.
        echoes_answered,
        /// Errors sent.
        errors_sent,
        /// Errors not sent: the rate limit.
        errors_limited,
        /// Errors not sent: the rules of RFC 1122 3.2.2 forbid it.
        errors_forbidden,
        /// Redirects sent.
        redirects_sent,
        /// Redirects received and believed: each is a route for ten minutes.
        redirects_accepted,
        /// Routes made by redirects that have had their ten minutes.
        redirects_aged,
        /// Routes made by redirects that went for newer ones.
        redirects_evicted,
        /// Errors handed to a socket.
        errors_delivered,
    }
}

counters! {
    /// IGMP.
    pub struct Igmp at "inet.igmp" {
        /// Queries received.
        queries_received,
        /// Reports sent.
        reports_sent,
        /// Leaves sent.
        leaves_sent,
    }
}

counters! {
    /// IPv6.
    pub struct Ip6 at "inet.ip6" {
        /// Packets handed up by the link layer.
        received,
        /// Packets delivered to a protocol here.
        delivered,
        /// Packets forwarded.
        forwarded,
        /// Packets sent from here.
        sent,
        /// Fragments received.
        fragments_received,
        /// Datagrams reassembled.
        reassembled,
        /// Packets that left as fragments.
        fragmented,
        /// Fragments made.
        fragments_sent,
        /// Packets from here that found no route.
        no_route,
        /// Paths that are narrower than was known (RFC 8201).
        paths_narrowed,
        /// Path MTUs forgotten before their time to make room for others.
        path_mtus_evicted,
    }
}

counters! {
    /// ICMP for IPv6.
    pub struct Icmp6 at "inet.icmp6" {
        /// Messages received.
        received,
        /// Echo requests answered.
        echoes_answered,
        /// Errors sent.
        errors_sent,
        /// Errors not sent: the rate limit.
        errors_limited,
        /// Errors not sent: the rules of RFC 4443 2.4 forbid it.
        errors_forbidden,
        /// Errors handed to a socket.
        errors_delivered,
    }
}

counters! {
    /// Neighbor discovery.
    pub struct Nd at "inet.nd" {
        /// Solicitations received.
        solicits_received,
        /// Advertisements received.
        adverts_received,
        /// Solicitations sent.
        solicits_sent,
        /// Advertisements sent.
        adverts_sent,
        /// Solicitations sent to find out whether an address is ours alone (RFC 4862 5.4.2).
        probes_sent,
        /// Addresses given up: somebody else has them.
        duplicates,
        /// Somebody else uses an address of ours.
        conflicts,
        /// Router solicitations sent.
        router_solicits_sent,
        /// Router solicitations accepted, on interfaces that send router advertisements.
        router_solicits_received,
        /// Router advertisements sent.
        router_adverts_sent,
        /// Router advertisements accepted.
        router_adverts_received,
        /// Accepted router advertisements with an entry that did not fit its table.
        table_full,
        /// Redirects not accepted; router advertisements without accept_rtadv; router solicitations to a host that sends no advertisements.
        ignored,
        /// Redirects sent.
        redirects_sent,
        /// Redirects accepted: each is a route for ten minutes.
        redirects_accepted,
        /// Routes made by redirects that have had their ten minutes.
        redirects_aged,
        /// Routes made by redirects that were evicted by newer ones.
        redirects_evicted,
    }
}

counters! {
    /// MLD.
    pub struct Mld at "inet.mld" {
        /// Queries received.
        queries_received,
        /// Reports sent.
        reports_sent,
    }
}

counters! {
    /// UDP.
    pub struct Udp at "inet.udp" {
        /// Datagrams received.
        received,
        /// Datagrams queued for a socket.
        delivered,
        /// Datagrams copied to the caller of a receive call, one a call (recvfrom).
        copied_out,
        /// Datagrams sent.
        sent,
        /// Datagrams that came without a checksum.
        no_checksum,
        /// Datagrams sent with the header kept from the one before.
        header_cached,
    }
}

counters! {
    /// Raw and ICMP sockets.
    pub struct Raw at "inet.raw" {
        /// Packets queued for a socket.
        delivered,
        /// Packets sent.
        sent,
    }
}

counters! {
    /// Tunnels.
    pub struct Tunnel at "inet.tunnel" {
        /// Packets and frames sent inside another packet.
        encapsulated,
        /// Packets and frames taken out of one.
        decapsulated,
        /// Those of them that were queued to be taken in.
        requeued,
        /// ICMP errors about outer packets told to an inner sender (RFC 2003 4).
        relayed,
        /// A tunnel's MTU was lowered: its path is narrower than it was thought to be.
        narrowed,
    }
}

counters! {
    /// What TCP's connections may hold (`net.inet.tcp.memlimit`).
    pub struct TcpMemory at "inet.tcp.memory" {
        /// Segments out of order that were not kept: half the limit was reached.
        out_of_order_refused,
        /// Segments in order that were not kept, all of the limit was reached and their reader had more to read.
        text_refused,
        /// Buffers that were not made larger: three quarters of the limit were reached.
        growth_refused,
        /// Sends that had to wait (EAGAIN): other connections held too much, or the pool was empty.
        sends_refused,
        /// Connections that forgot what they held out of order, for want of memory (RFC 2018 8).
        reneged,
        /// Connections reset at their close: there were too many that no process holds.
        orphans_refused,
        /// Connections that no process held, given up because their peers took nothing.
        orphans_stalled,
        /// Connections given up because memory had run out and their peers took nothing.
        stalled,
    }
}

counters! {
    /// The conservation audit: received + made = sent + consumed + dropped + held.
    pub struct Audit at "inet.audit" {
        /// Frames that came from ports.
        received,
        /// Frames made here.
        made,
        /// Frames that went to ports.
        sent,
        /// Frames whose datagram an application has read.
        consumed,
    }
}

/// One thread's shard.
#[derive(Debug, Default)]
pub struct Counters {
    /// Ethernet.
    pub ether: Ether,
    /// The loopback queue.
    pub loopback: Loopback,
    /// ARP.
    pub arp: Arp,
    /// Neighbors.
    pub neigh: Neigh,
    /// IPv4.
    pub ip4: Ip4,
    /// ICMP.
    pub icmp4: Icmp4,
    /// IGMP.
    pub igmp: Igmp,
    /// IPv6.
    pub ip6: Ip6,
    /// ICMPv6.
    pub icmp6: Icmp6,
    /// Neighbor discovery.
    pub nd: Nd,
    /// MLD.
    pub mld: Mld,
    /// UDP.
    pub udp: Udp,
    /// Raw and ICMP sockets.
    pub raw: Raw,
    /// TCP.
    pub tcp: ::tcp::counters::Counters,
    /// TCP's memory.
    pub tcp_memory: TcpMemory,
    /// Tunnels.
    pub tunnel: Tunnel,
    /// Tunnels that this thread is sending through at the moment, one in another.
    pub(crate) nesting: AtomicU32,
    /// Queues at which this thread has staged frames since its last flush.
    pub(crate) staged: AtomicQueueSet,
    /// One more than the queue by which this thread sends; 0: the thread's number.
    pub(crate) queue: AtomicU32,
    /// The audit.
    pub audit: Audit,
    /// Drops by reason.
    pub drops: Drops,
    /// Ticks by stage.
    pub ledger: Ledger,
}

impl Described for Counters {
    fn visit(&self, each: &mut dyn FnMut(&'static str, &'static str, &'static str, u64)) {
        let groups: [&dyn Described; 18] = [
            &self.ether,
            &self.loopback,
            &self.arp,
            &self.neigh,
            &self.ip4,
            &self.icmp4,
            &self.igmp,
            &self.ip6,
            &self.icmp6,
            &self.nd,
            &self.mld,
            &self.udp,
            &self.raw,
            &self.tcp,
            &self.tcp_memory,
            &self.tunnel,
            &self.audit,
            &self.drops,
        ];
        groups.iter().for_each(|group| group.visit(each));
    }
}

/// The balance of frames at a quiet moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditReport {
    /// Frames that came from ports.
    pub received: u64,
    /// Frames made here.
    pub made: u64,
    /// Frames that went to ports.
    pub sent: u64,
    /// Frames used up here: those whose datagram was read, and those of [`AuditReport::uses`].
    pub consumed: u64,
    /// Of these, frames whose datagram was read.
    pub read: u64,
    /// Frames lost, all reasons.
    pub dropped: u64,
    /// Frames queued somewhere inside.
    pub held: u64,
    /// The losses by reason.
    pub reasons: Vec<Entry>,
    /// Frames that were used up and not read, by reason: answered, merged, cut up.
    pub uses: Vec<Entry>,
}

impl AuditReport {
    /// Frames unaccounted for: must be 0 at any quiet moment.
    pub fn imbalance(&self) -> i64 {
        let entered = self.received.wrapping_add(self.made);
        let left = self.sent.wrapping_add(self.consumed).wrapping_add(self.dropped).wrapping_add(self.held);
        entered.wrapping_sub(left) as i64
    }

    /// Returns the imbalance alone, without a text for each reason; `held` is what queues hold now.
    pub fn imbalance_of(shards: &Shards<Counters>, held: u64) -> i64 {
        let balance = |c: &Counters| {
            let entered = c.audit.received.get().wrapping_add(c.audit.made.get());
            let left = c.audit.sent.get().wrapping_add(c.audit.consumed.get()).wrapping_add(c.drops.total());
            entered.wrapping_sub(left)
        };
        shards.iter().map(balance).fold(0, u64::wrapping_add).wrapping_sub(held) as i64
    }

    /// Sums the shards; `held` is what queues hold now.
    pub fn of(shards: &Shards<Counters>, held: u64) -> AuditReport {
        let sum = |pick: fn(&Counters) -> u64| shards.iter().map(pick).sum::<u64>();
        let ended = |end: End| {
            let is_it = |entry: &Entry| {
                entry.value > 0 && stats::DropReason::ALL.iter().any(|why| why.end() == end && why.name() == entry.name)
            };
            shards.snapshot().into_iter().filter(is_it).collect()
        };
        let read = sum(|c| c.audit.consumed.get());
        AuditReport {
            received: sum(|c| c.audit.received.get()),
            made: sum(|c| c.audit.made.get()),
            sent: sum(|c| c.audit.sent.get()),
            consumed: read + sum(|c| c.drops.total_of(End::Consumed)),
            read,
            dropped: sum(|c| c.drops.total_of(End::Lost)),
            held,
            reasons: ended(End::Lost),
            uses: ended(End::Consumed),
        }
    }
}
