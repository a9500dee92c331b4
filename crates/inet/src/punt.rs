//! Control packets for a routing engine in the kernel's network stack.
//!
//! An interface may have a mirror: a device of the kernel with the same addresses, at which the
//! daemons of a routing engine run. This host forwards packets and answers ARP, neighbor
//! solicitations and echo requests. Other packets to the host without a receiver are passed to the
//! mirror: those without a socket, of an unknown protocol, or to a link-local group without a
//! member. It also gets copies of what both need: ARP replies, neighbor discovery, IGMP, MLD, ICMP
//! errors. Frames of the mirror leave by the interface unchanged.
//!
//! Each class of packets ([`ControlClass`]) has a rate limit of its own on each interface, so that
//! a flood of one class, or on one interface, does not end the sessions of another. The Ethernet
//! header of an IP packet is replaced; its source is 02:00:00:00:00:00.

use crate::Stack;
use crate::iface::{AtOnce, Iface, IfaceId, IfaceKind};
use crate::sysctls::{Sysctl, Sysctls};
use buf::{Burst, Frame};
use lock::{Cx, Locks};
use stats::DropReason;
use std::sync::atomic::Ordering;
use wire::control::ControlClass;
use wire::eth::{self, EtherType};
use wire::{Mac, ip4, ip6};

/// Source address of IP packets that are passed to a mirror (locally administered).
const PUNT_SOURCE: Mac = Mac([2, 0, 0, 0, 0, 0]);

/// Returns the sysctl with the rate of a class on each interface, in packets per second; 0 is no
/// limit.
pub fn rate(sysctls: &Sysctls, class: ControlClass) -> &Sysctl {
    match class {
        ControlClass::Arp => &sysctls.punt_arp,
        ControlClass::Nd => &sysctls.punt_nd,
        ControlClass::Igmp => &sysctls.punt_igmp,
        ControlClass::Bgp => &sysctls.punt_bgp,
        ControlClass::Bfd => &sysctls.punt_bfd,
        ControlClass::Ospf => &sysctls.punt_ospf,
        ControlClass::Isis => &sysctls.punt_isis,
        ControlClass::Vrrp => &sysctls.punt_vrrp,
        ControlClass::Pim => &sysctls.punt_pim,
        ControlClass::Lldp => &sysctls.punt_lldp,
        ControlClass::Lacp => &sysctls.punt_lacp,
        ControlClass::Icmp => &sysctls.punt_icmp,
        ControlClass::Group => &sysctls.punt_group,
        ControlClass::Local => &sysctls.punt_local,
    }
}

impl<L: Locks> Stack<L> {
    /// Adds a mirror, called `name`, of the interface `of`. Returns `None` if `of` is not an
    /// Ethernet interface, has a mirror already, or if there are too many interfaces.
    pub fn add_mirror(&self, of: IfaceId, name: &str) -> Option<IfaceId> {
        let iface = self.iface(of).filter(|iface| iface.kind == IfaceKind::Ethernet && iface.peer().is_none())?;
        let mtu = u16::try_from(iface.mtu()).unwrap_or(u16::MAX);
        let id = self.add_iface_kind(name, IfaceKind::Mirror, iface.mac, mtu, Default::default())?;
        self.iface(id)?.peer.store(of.0, Ordering::Relaxed);
        iface.peer.store(id.0, Ordering::Relaxed);
        Some(id)
    }

    /// Separates an interface that is removed from its mirror, or from the interface that it
    /// mirrors.
    pub(crate) fn separate(&self, iface: &Iface<L>) {
        if let Some(peer) = iface.peer().and_then(|id| self.ifaces.get(id)) {
            peer.peer.store(0, Ordering::Relaxed);
            iface.peer.store(0, Ordering::Relaxed);
        }
    }

    /// Sends the frames of a mirror by the interface that it mirrors.
    #[inline(never)]
    pub(crate) fn inject(&self, cx: Cx, mirror: &Iface<L>, burst: &mut Burst) {
        match mirror.peer().and_then(|id| self.iface(id)).filter(|iface| iface.is_up()) {
            Some(iface) => {
                self.count(cx).mirror.injected.add(burst.len() as u64);
                self.note_bfd(cx, iface, burst.as_slice());
                self.stage_all(cx, iface, burst);
                self.flush(cx);
            }
            None => burst.drain().for_each(|frame| self.drop_frame(cx, frame, DropReason::IfaceDown)),
        }
    }

    /// Returns the mirror to which packets received by `iface` are passed.
    #[inline(always)]
    fn mirror_of(&self, iface: &Iface<L>) -> Option<&Iface<L>> {
        self.ifaces.get(iface.peer()?).filter(|mirror| mirror.is_up() && mirror.has_link())
    }

    /// Passes a packet for which this host has no receiver to the mirror of `iface`, which received
    /// it. Returns the packet if there is no mirror, or if the packet has no class.
    #[inline(never)]
    pub(crate) fn punt(&self, cx: Cx, iface: Option<&Iface<L>>, mut packet: Frame) -> Option<Frame> {
        let Some((iface, mirror)) = iface.and_then(|iface| Some((iface, self.mirror_of(iface)?))) else {
            return Some(packet);
        };
        let Some(class) = ControlClass::of_packet(packet.l3_bytes()) else { return Some(packet) };
        if self.is_policed(cx, iface, class) {
            self.drop_frame(cx, packet, DropReason::PuntPoliced);
            return None;
        }
        packet.rewind_to_l3();
        self.pass_packet(cx, iface, mirror, class, packet);
        None
    }

    /// Passes a packet for which this host has no receiver to the mirror of `iface`, or drops it
    /// with the reason `why`.
    pub(crate) fn punt_or_drop(&self, cx: Cx, iface: Option<&Iface<L>>, packet: Frame, why: DropReason) {
        if let Some(packet) = self.punt(cx, iface, packet) {
            self.drop_frame(cx, packet, why);
        }
    }

    /// Passes a copy of a packet, which `iface` received, to the mirror of `iface` if there is one.
    #[inline(never)]
    pub(crate) fn punt_copy(&self, cx: Cx, iface: Option<&Iface<L>>, class: ControlClass, packet: &Frame) {
        if let Some((iface, mirror)) = iface.and_then(|iface| Some((iface, self.mirror_of(iface)?)))
            && !self.is_policed(cx, iface, class)
            && let Some(mut copy) = self.copy(cx, packet)
        {
            copy.rewind_to_l3();
            self.pass_packet(cx, iface, mirror, class, copy);
        }
    }

    /// Passes a frame that contains no IP packet to the mirror of `iface`, which received it, if
    /// the frame is for the control plane. Returns the frame if this host must process it.
    #[inline(always)]
    pub(crate) fn punt_frame(&self, cx: Cx, iface: &Iface<L>, ethertype: EtherType, frame: Frame) -> Option<Frame> {
        match self.mirror_of(iface) {
            Some(mirror) => self.punt_frame_to(cx, iface, mirror, ethertype, frame),
            None => Some(frame),
        }
    }

    #[inline(never)]
    fn punt_frame_to(
        &self,
        cx: Cx,
        iface: &Iface<L>,
        mirror: &Iface<L>,
        ethertype: EtherType,
        frame: Frame,
    ) -> Option<Frame> {
        let payload = frame.bytes().get(eth::HEADER_LEN..).unwrap_or_default();
        let Some(class) = ControlClass::of_frame(ethertype, payload) else { return Some(frame) };
        let is_policed = self.is_policed(cx, iface, class);
        if class == ControlClass::Arp {
            // The host needs it, too.
            if let Some(copy) = if is_policed { None } else { self.copy(cx, &frame) } {
                self.pass(cx, mirror, class, copy);
            }
            return Some(frame);
        }
        match is_policed {
            true => self.drop_frame(cx, frame, DropReason::PuntPoliced),
            false => self.pass(cx, mirror, class, frame),
        }
        None
    }

    /// Returns whether a packet of this class exceeds the rate of its class, and counts it.
    fn is_policed(&self, cx: Cx, iface: &Iface<L>, class: ControlClass) -> bool {
        let rate = rate(&self.sysctls, class).get() as u64;
        let is_policed = !iface.policers.lock(cx).take(class, rate, cx.now);
        if is_policed {
            self.count(cx).punted.police(class);
        }
        is_policed
    }

    fn copy(&self, cx: Cx, frame: &Frame) -> Option<Frame> {
        let copy = frame.try_clone();
        let counters = self.count(cx);
        match copy {
            Some(_) => counters.audit.made.bump(),
            None => counters.mirror.no_buffer.bump(),
        }
        copy
    }

    /// Stages a packet, which begins with its IP header, for the mirror of `iface`.
    fn pass_packet(&self, cx: Cx, iface: &Iface<L>, mirror: &Iface<L>, class: ControlClass, mut packet: Frame) {
        let header = link_header(packet.bytes(), iface.mac);
        match packet.push::<{ eth::HEADER_LEN }>() {
            Some(room) => *room = header,
            None => return self.drop_as_bug(cx, packet, "no headroom for the Ethernet header"),
        }
        self.pass(cx, mirror, class, packet);
    }

    /// Stages a frame for a mirror.
    fn pass(&self, cx: Cx, mirror: &Iface<L>, class: ControlClass, frame: Frame) {
        self.count(cx).punted.pass(class);
        self.stage(cx, mirror, frame, AtOnce::Later);
    }
}

/// Returns the Ethernet header of a packet to the station `own`, or to the packet's group.
fn link_header(packet: &[u8], own: Mac) -> [u8; eth::HEADER_LEN] {
    let (ethertype, group) = if ip6::is_version(packet) {
        let dst = ip6::Header::parse(packet).ok().map(|header| header.dst);
        (EtherType::IPV6, dst.filter(|dst| dst.is_multicast()).map(Mac::multicast6))
    } else {
        let dst = ip4::Header::parse(packet).ok().map(|header| header.dst);
        let group = dst.filter(|dst| dst.is_multicast()).map(Mac::multicast4);
        (EtherType::IPV4, group.or(dst.filter(|dst| dst.is_broadcast()).map(|_| Mac::BROADCAST)))
    };
    let mut header = [0; eth::HEADER_LEN];
    eth::Header { dst: group.unwrap_or(own), src: PUNT_SOURCE, ethertype }.emit(&mut header);
    header
}
