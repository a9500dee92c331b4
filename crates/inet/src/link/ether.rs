//! Ethernet input and output.
//!
//! A frame arrives from the port and continues to `ip::input` with its header pulled. ARP and
//! frames that are not addressed to this station alone are handled separately. On output, the
//! header is pushed into the headroom of a packet, which is then staged at its interface. The port
//! handles FCS and padding. IP input drops a packet that is longer than its frame.

use crate::Stack;
use crate::family::Family;
use crate::iface::{AtOnce, Iface, IfaceKind};
use crate::ip::Input;
use crate::stack::{SlowFrames, begins_with_ip6};
use buf::{Burst, Flags, Frame};
use lock::{Cx, Locks};
use stats::{DropReason, Lap, Stage};
use wire::Mac;
use wire::eth::{self, EtherType};
use wire::vlan;

impl<L: Locks> Stack<L> {
    /// Processes a chunk of frames while source validation is on. Without source validation, the
    /// Ethernet header is checked together with the IP header ([`Stack::ip_input`]).
    pub(crate) fn ether_input(&self, cx: Cx, iface: &Iface<L>, frames: &mut Burst, lap: Lap<'_>) {
        if begins_with_ip6(frames.as_slice()) {
            self.ether_input_of::<u128>(cx, iface, frames, lap);
        } else {
            self.ether_input_of::<u32>(cx, iface, frames, lap);
        }
    }

    /// Processes a chunk of frames, most of them of the family `F`.
    fn ether_input_of<F: Input>(&self, cx: Cx, iface: &Iface<L>, frames: &mut Burst, lap: Lap<'_>) {
        let (n, mac, mut slow, mut four) = (frames.len(), iface.mac, SlowFrames::default(), Burst::new());
        for (at, frame) in frames.as_mut_slice().iter_mut().enumerate() {
            if eth::is_between(frame.bytes(), mac, F::ETHERTYPE) {
                frame.pull_link(eth::HEADER_LEN);
            } else {
                slow.add(at);
            }
        }
        if slow.any() {
            let lost = || self.count_bug(cx);
            slow.sort(frames, lost, |frame| {
                let packet = self.ether_slow(cx, iface, frame)?;
                if F::ETHERTYPE == EtherType::IPV4 {
                    return Some(packet);
                }
                four.put(packet, lost); // has space, since it takes no more frames than arrived
                None
            });
        }
        lap.mark(Stage::LinkInput, n as u64);
        self.ip_input::<F>(cx, Some(iface), None, frames, lap);
        self.ip_input::<u32>(cx, Some(iface), None, &mut four, lap);
    }

    /// Processes a single frame. The fast path is for frames with an IPv4 or IPv6 packet.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn ether_input_one(&self, cx: Cx, iface: &Iface<L>, mut frame: Frame, lap: Lap<'_>) {
        if eth::is_between(frame.bytes(), iface.mac, EtherType::IPV4) {
            frame.pull_link(eth::HEADER_LEN);
            lap.mark(Stage::LinkInput, 1);
            return self.ip_input_one::<u32>(cx, iface, frame, lap);
        }
        if eth::is_between(frame.bytes(), iface.mac, EtherType::IPV6) && iface.has_ip6() {
            frame.pull_link(eth::HEADER_LEN);
            lap.mark(Stage::LinkInput, 1);
            return self.ip_input_one::<u128>(cx, iface, frame, lap);
        }
        let packet = self.ether_slow(cx, iface, frame);
        lap.mark(Stage::LinkInput, 1);
        if let Some(packet) = packet {
            self.ip_input_one::<u32>(cx, iface, packet, lap);
        }
    }

    /// Processes a frame of any EtherType on the slow path. An IPv4 packet is not processed here:
    /// it is returned without its link header, and the caller must process it.
    #[inline(never)]
    pub(crate) fn ether_slow(&self, cx: Cx, iface: &Iface<L>, mut frame: Frame) -> Option<Frame> {
        let header = match eth::Header::parse(frame.bytes()) {
            Ok(header) => header,
            Err(_) => {
                self.drop_frame(cx, frame, DropReason::EtherShort);
                return None;
            }
        };
        if !header.src.is_unicast() || header.src == Mac::ZERO {
            self.drop_frame(cx, frame, DropReason::EtherBadSource);
            return None;
        }
        if header.src == iface.mac {
            iface.set_own_source_seen();
            self.drop_frame(cx, frame, DropReason::EtherOwnSource);
            return None;
        }
        if header.dst != iface.mac {
            if !header.dst.is_multicast() {
                self.drop_frame(cx, frame, DropReason::EtherOtherHost);
                return None;
            }
            frame.set_flags(frame.flags().with(Flags::LINK_BROADCAST));
        }
        let mut frame = self.punt_frame(cx, iface, header.ethertype, frame)?;
        frame.pull_link(eth::HEADER_LEN);
        match untagged(&mut frame, header.ethertype) {
            EtherType::IPV4 => Some(frame),
            EtherType::ARP => {
                self.arp_input(cx, iface, frame);
                None
            }
            EtherType::IPV6 => {
                self.ip6_input(cx, Some(iface), frame);
                None
            }
            _ => {
                self.drop_frame(cx, frame, DropReason::EtherUnknownType);
                None
            }
        }
    }

    /// Sends a packet to the station `dst`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn ether_output<F: Family>(
        &self,
        cx: Cx,
        iface: &Iface<L>,
        dst: Mac,
        mut packet: Frame,
        at_once: AtOnce,
    ) {
        if iface.kind == IfaceKind::Tunnel {
            return self.tunnel_output(cx, iface, packet, at_once); // `dst` is a group address
        }
        match packet.push::<{ eth::HEADER_LEN }>() {
            Some(room) => *room = iface.header_to(dst, F::ETHERTYPE),
            None => return self.drop_as_bug(cx, packet, "no headroom for the Ethernet header"),
        }
        self.stage(cx, iface, packet, at_once);
    }
}

/// Removes the Ethernet header and the priority tags of a frame with the destination `mac`. Returns
/// the EtherType that follows them; `None` if the frame has another destination, for example a
/// multicast address.
pub(crate) fn remove_link(frame: &mut Frame, mac: Mac) -> Option<EtherType> {
    let header = eth::Header::parse(frame.bytes()).ok().filter(|header| header.dst == mac)?;
    frame.pull_link(eth::HEADER_LEN);
    Some(untagged(frame, header.ethertype))
}

/// Removes priority tags from the payload of a frame and returns the EtherType after them.
fn untagged(frame: &mut Frame, ethertype: EtherType) -> EtherType {
    let (ethertype, tags) = vlan::skip_priority(ethertype, frame.bytes());
    if tags > 0 {
        frame.pull_link(tags);
    }
    ethertype
}
