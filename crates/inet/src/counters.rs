//! Counters of the stack, drops by reason, and processing time by stage. Each thread has its own
//! copy (shard).

mod punted;

pub use punted::Punted;

use crate::iface::AtomicQueueSet;
use stats::{Described, Drops, End, Entry, Ledger, Shards, counters};
use std::sync::atomic::AtomicU32;

counters! {
    /// Counters of Ethernet, for both directions.
    pub struct Ether at "inet.link.ether" {
        /// Frames received from ports.
        received,
        /// Frames sent to ports.
        sent,
    }
}

counters! {
    /// Counters of the loopback queue, which contains the packets that this host sends to itself.
    pub struct Loopback at "inet.link.loopback" {
        /// Packets queued.
        queued,
    }
}

counters! {
    /// Counters of ARP.
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
        /// Packets that show that another station uses one of our addresses, or one that we probe
        /// for (RFC 5227 2.1.1, 2.4).
        conflicts,
    }
}

counters! {
    /// Counters of the neighbor table.
    pub struct Neigh at "inet.neigh" {
        /// Entries created.
        created,
        /// Entries for which the MAC address was resolved.
        resolved,
        /// Entries removed because the neighbor did not answer.
        failed,
        /// Entries evicted because the table was full.
        evicted,
        /// Changes of a neighbor's MAC address.
        moved,
    }
}

counters! {
    /// Counters of IPv4.
    pub struct Ip4 at "inet.ip4" {
        /// Packets received from the link layer.
        received,
        /// Packets delivered to a protocol of this host.
        delivered,
        /// Packets forwarded.
        forwarded,
        /// Packets sent by this host.
        sent,
        /// Fragments received.
        fragments_received,
        /// Datagrams reassembled.
        reassembled,
        /// Packets sent as fragments.
        fragmented,
        /// Fragments created.
        fragments_sent,
        /// Packets of this host that were not sent because there was no route.
        no_route,
        /// Path MTUs evicted before they expired, to make room for others.
        path_mtus_evicted,
    }
}

counters! {
    /// Counters of ICMP for IPv4.
    pub struct Icmp4 at "inet.icmp4" {
        /// Messages received.
        received,
        /// Echo requests answered.
        echoes_answered,
        /// Errors sent.
        errors_sent,
        /// Errors not sent because of the rate limit.
        errors_limited,
        /// Errors not sent because RFC 1122 3.2.2 forbids an error about this packet.
        errors_forbidden,
        /// Redirects sent.
        redirects_sent,
        /// Redirects accepted; each creates a route for ten minutes.
        redirects_accepted,
        /// Routes created by redirects that expired after ten minutes.
        redirects_aged,
        /// Routes created by redirects that newer ones evicted.
        redirects_evicted,
        /// Errors delivered to a socket.
        errors_delivered,
    }
}

counters! {
    /// Counters of IGMP.
    pub struct Igmp at "inet.igmp" {
        /// Queries received.
        queries_received,
        /// Reports sent.
        reports_sent,
        /// Leave messages sent.
        leaves_sent,
    }
}

counters! {
    /// Counters of IPv6.
    pub struct Ip6 at "inet.ip6" {
        /// Packets received from the link layer.
        received,
        /// Packets delivered to a protocol of this host.
        delivered,
        /// Packets forwarded.
        forwarded,
        /// Packets sent by this host.
        sent,
        /// Fragments received.
        fragments_received,
        /// Datagrams reassembled.
        reassembled,
        /// Packets sent as fragments.
        fragmented,
        /// Fragments created.
        fragments_sent,
        /// Packets of this host that were not sent because there was no route.
        no_route,
        /// Path MTUs lowered (RFC 8201).
        paths_narrowed,
        /// Path MTUs evicted before they expired, to make room for others.
        path_mtus_evicted,
    }
}

counters! {
    /// Counters of ICMP for IPv6.
    pub struct Icmp6 at "inet.icmp6" {
        /// Messages received.
        received,
        /// Echo requests answered.
        echoes_answered,
        /// Errors sent.
        errors_sent,
        /// Errors not sent because of the rate limit.
        errors_limited,
        /// Errors not sent because RFC 4443 2.4 forbids them.
        errors_forbidden,
        /// Errors delivered to a socket.
        errors_delivered,
    }
}

counters! {
    /// Counters of neighbor discovery.
    pub struct Nd at "inet.nd" {
        /// Solicitations received.
        solicits_received,
        /// Advertisements received.
        adverts_received,
        /// Solicitations sent.
        solicits_sent,
        /// Advertisements sent.
        adverts_sent,
        /// Solicitations sent for duplicate address detection (RFC 4862 5.4.2).
        probes_sent,
        /// Addresses given up because another station uses them.
        duplicates,
        /// Packets that show that another station uses one of our addresses.
        conflicts,
        /// Router solicitations sent.
        router_solicits_sent,
        /// Router solicitations accepted, on interfaces that send router advertisements.
        router_solicits_received,
        /// Router advertisements sent.
        router_adverts_sent,
        /// Router advertisements accepted.
        router_adverts_received,
        /// Accepted router advertisements that contained a router, prefix or other entry for which
        /// the table was full.
        table_full,
        /// Messages ignored: redirects that were not accepted, router advertisements on interfaces
        /// without accept_rtadv, and router solicitations received on interfaces that send no
        /// advertisements.
        ignored,
        /// Redirects sent.
        redirects_sent,
        /// Redirects accepted; each creates a route for ten minutes.
        redirects_accepted,
        /// Routes created by redirects that expired after ten minutes.
        redirects_aged,
        /// Routes created by redirects that newer ones evicted.
        redirects_evicted,
    }
}

counters! {
    /// Counters of MLD.
    pub struct Mld at "inet.mld" {
        /// Queries received.
        queries_received,
        /// Reports sent.
        reports_sent,
    }
}

counters! {
    /// Counters of UDP.
    pub struct Udp at "inet.udp" {
        /// Datagrams received.
        received,
        /// Datagrams queued for a socket.
        delivered,
        /// Datagrams copied to the caller of recvfrom, one per call.
        copied_out,
        /// Datagrams sent.
        sent,
        /// Datagrams received without a checksum.
        no_checksum,
        /// Datagrams sent with headers copied from those of the socket's previous datagram.
        header_cached,
    }
}

counters! {
    /// Counters of raw and ICMP sockets.
    pub struct Raw at "inet.raw" {
        /// Packets queued for a socket.
        delivered,
        /// Packets sent.
        sent,
    }
}

counters! {
    /// Counters of tunnels.
    pub struct Tunnel at "inet.tunnel" {
        /// Packets and frames encapsulated.
        encapsulated,
        /// Packets and frames decapsulated.
        decapsulated,
        /// Decapsulated packets that were queued for input.
        requeued,
        /// ICMP errors about outer packets relayed to the inner sender (RFC 2003 4).
        relayed,
        /// Times the MTU of a tunnel was lowered because the path MTU between its ends had
        /// decreased.
        narrowed,
    }
}

counters! {
    /// Counters of the mirrors of interfaces.
    pub struct Mirror at "inet.mirror" {
        /// Frames received from mirrors, for the ports of their interfaces.
        injected,
        /// Packets not copied to a mirror because no buffer was free.
        no_buffer,
    }
}

counters! {
    /// Counters of the memory of TCP connections, which `net.inet.tcp.memlimit` limits.
    pub struct TcpMemory at "inet.tcp.memory" {
        /// Out-of-order segments dropped because half of the memory limit was in use.
        out_of_order_refused,
        /// In-order segments dropped because all of the memory limit was in use and the application
        /// still had data to read.
        text_refused,
        /// Buffers not grown because three quarters of the memory limit were in use.
        growth_refused,
        /// Sends refused with EAGAIN because other connections held too much memory or the buffer
        /// pool was empty.
        sends_refused,
        /// Connections that discarded out-of-order data because memory was short (RFC 2018 8).
        reneged,
        /// Connections reset at close because there were too many orphans, that is, connections
        /// that no process holds.
        orphans_refused,
        /// Orphans dropped because their peers accepted no data.
        orphans_stalled,
        /// Connections dropped because memory was exhausted and their peers accepted no data.
        stalled,
    }
}

counters! {
    /// Counters of the audit of frames: received + created = sent + consumed + dropped + held.
    pub struct Audit at "inet.audit" {
        /// Frames received from ports.
        received,
        /// Frames created by this stack.
        made,
        /// Frames sent to ports.
        sent,
        /// Frames that contained a datagram read by an application.
        consumed,
    }
}

/// Counters that one thread writes.
#[derive(Debug, Default)]
pub struct Counters {
    /// Counters of Ethernet.
    pub ether: Ether,
    /// Counters of the loopback queue.
    pub loopback: Loopback,
    /// Counters of ARP.
    pub arp: Arp,
    /// Counters of the neighbor table.
    pub neigh: Neigh,
    /// Counters of IPv4.
    pub ip4: Ip4,
    /// Counters of ICMP for IPv4.
    pub icmp4: Icmp4,
    /// Counters of IGMP.
    pub igmp: Igmp,
    /// Counters of IPv6.
    pub ip6: Ip6,
    /// Counters of ICMPv6.
    pub icmp6: Icmp6,
    /// Counters of neighbor discovery.
    pub nd: Nd,
    /// Counters of MLD.
    pub mld: Mld,
    /// Counters of UDP.
    pub udp: Udp,
    /// Counters of raw and ICMP sockets.
    pub raw: Raw,
    /// Counters of TCP.
    pub tcp: ::tcp::counters::Counters,
    /// Counters of TCP's memory limits.
    pub tcp_memory: TcpMemory,
    /// Counters of tunnels.
    pub tunnel: Tunnel,
    /// Counters of the mirrors of interfaces.
    pub mirror: Mirror,
    /// Control packets for mirrors, by class.
    pub punted: Punted,
    /// Number of tunnels in which the packet that this thread currently sends is nested.
    pub(crate) nesting: AtomicU32,
    /// Transmit queues to which this thread has added frames since its last flush.
    pub(crate) staged: AtomicQueueSet,
    /// Number of the transmit queue that this thread uses, plus 1; 0 if the queue is derived from
    /// the thread's number.
    pub(crate) queue: AtomicU32,
    /// Counters of the audit of frames.
    pub audit: Audit,
    /// Numbers of dropped and consumed frames, by reason.
    pub drops: Drops,
    /// Processing time by stage, in ticks.
    pub ledger: Ledger,
}

impl Described for Counters {
    fn visit(&self, each: &mut dyn FnMut(&'static str, &'static str, &'static str, u64)) {
        let groups: [&dyn Described; 20] = [
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
            &self.mirror,
            &self.punted,
            &self.audit,
            &self.drops,
        ];
        groups.iter().for_each(|group| group.visit(each));
    }
}

/// Result of a frame audit: the frames that the stack received or created, and the frames that it
/// sent, consumed, dropped or still holds. The numbers are exact only while the stack is idle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditReport {
    /// Frames received from ports.
    pub received: u64,
    /// Frames created by this stack.
    pub made: u64,
    /// Frames sent to ports.
    pub sent: u64,
    /// Frames consumed by this host: [`AuditReport::read`] and the sum of [`AuditReport::uses`].
    pub consumed: u64,
    /// Consumed frames with a datagram that an application read.
    pub read: u64,
    /// Frames dropped, for all reasons.
    pub dropped: u64,
    /// Frames queued inside the stack.
    pub held: u64,
    /// Drops by reason.
    pub reasons: Vec<Entry>,
    /// Frames consumed without being read by an application, by reason. Examples are frames that
    /// were answered, merged into a datagram or fragmented.
    pub uses: Vec<Entry>,
}

impl AuditReport {
    /// Returns the number of frames unaccounted for: received and created frames, minus sent,
    /// consumed, dropped and held frames. It must be 0 whenever the stack is idle.
    pub fn imbalance(&self) -> i64 {
        let entered = self.received.wrapping_add(self.made);
        let left = self.sent.wrapping_add(self.consumed).wrapping_add(self.dropped).wrapping_add(self.held);
        entered.wrapping_sub(left) as i64
    }

    /// Returns [`AuditReport::imbalance`] without building a report. `held` is the number of frames
    /// in queues.
    pub fn imbalance_of(shards: &Shards<Counters>, held: u64) -> i64 {
        let balance = |c: &Counters| {
            let entered = c.audit.received.get().wrapping_add(c.audit.made.get());
            let left = c.audit.sent.get().wrapping_add(c.audit.consumed.get()).wrapping_add(c.drops.total());
            entered.wrapping_sub(left)
        };
        shards.iter().map(balance).fold(0, u64::wrapping_add).wrapping_sub(held) as i64
    }

    /// Builds a report from the sum of all shards. `held` is the number of frames in queues.
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
