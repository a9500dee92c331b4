//! Ethernet input and output.
//!
//! A frame arrives as the port gave it and leaves, its header pulled, for `ip4::input`; ARP is dealt with at once. On
//! the way out a packet gets its header pushed into the headroom and is staged at its iface. FCS and padding are the
//! port's business; what IP is told to be longer than the frame is dropped there.

use crate::Stack;
use crate::iface::Iface;
use crate::stack::AtOnce;
use buf::{Flags, Frame};
use lock::{Cx, Locks};
use stats::DropReason;
use wire::Mac;
use wire::eth::{self, EtherType};

impl<L: Locks> Stack<L> {
    /// Takes one frame; gives the IPv4 packet in it, if that is what it was and it was for us.
    #[inline(always)]
    pub(crate) fn ether_input(&self, cx: Cx, iface: &Iface<L>, mut frame: Frame) -> Option<Frame> {
        let header = match eth::Header::parse(frame.bytes()) {
            Ok(header) => header,
            Err(_) => {
                self.drop_frame(cx, frame, DropReason::EtherShort);
                return None;
            }
        };
        if !header.src.is_unicast() || header.src == iface.mac || header.src == Mac::ZERO {
            self.drop_frame(cx, frame, DropReason::EtherBadSource);
            return None;
        }
        if header.dst != iface.mac {
            if !header.dst.is_multicast() {
                self.drop_frame(cx, frame, DropReason::EtherOtherHost);
                return None;
            }
            frame.set_flags(frame.flags().with(Flags::LINK_BROADCAST));
        }
        frame.pull(eth::HEADER_LEN);
        frame.mark_l3();
        match header.ethertype {
            EtherType::IPV4 => Some(frame),
            EtherType::ARP => {
                self.arp_input(cx, iface, &header, frame);
                None
            }
            _ => {
                self.drop_frame(cx, frame, DropReason::EtherUnknownType);
                None
            }
        }
    }

    /// Sends an IPv4 packet to the station `dst`.
    #[inline(always)]
    pub(crate) fn ether_output(&self, cx: Cx, iface: &Iface<L>, dst: Mac, mut packet: Frame, at_once: AtOnce) {
        let header = eth::Header { dst, src: iface.mac, ethertype: EtherType::IPV4 };
        match packet.push::<{ eth::HEADER_LEN }>() {
            Some(room) => header.emit(room),
            None => return self.drop_frame(cx, packet, DropReason::TxNoPort),
        }
        self.stage(cx, iface, packet, at_once);
    }
}
