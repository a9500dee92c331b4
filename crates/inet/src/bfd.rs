//! Local repair by BFD: routes with several paths avoid a gateway as soon as the daemon of a
//! routing engine announces that its session with the gateway has failed.
//!
//! The daemon sends its state in the packets that leave by a mirror, at once when the state
//! changes and once a second afterwards. The routing engine itself may need seconds to replace the
//! routes of a large table.

use crate::Stack;
use crate::iface::Iface;
use buf::Frame;
use lock::{Cx, Locks};
use wire::bfd::{self, Control, State};
use wire::eth::{self, EtherType};
use wire::ip6::Chain;
use wire::{Proto, ip4, ip6, udp};

impl<L: Locks> Stack<L> {
    /// Reads the states of BFD sessions from frames that leave by `iface`.
    pub(crate) fn note_bfd(&self, cx: Cx, iface: &Iface<L>, frames: &[Frame]) {
        if !self.ways.has_paths() && !self.six.ways.has_paths() {
            return;
        }
        for frame in frames {
            let Ok(link) = eth::Header::parse(frame.bytes()) else { continue };
            let packet = frame.bytes().get(eth::HEADER_LEN..).unwrap_or_default();
            match link.ethertype {
                EtherType::IPV4 => {
                    let Ok(header) = ip4::Header::parse(packet) else { continue };
                    if let Some(control) =
                        control_in(header.proto, header.payload(packet)).filter(|_| !header.is_fragment())
                    {
                        match is_alive(control) {
                            Some(true) => self.answered::<u32>(cx, iface.id, header.dst),
                            Some(false) => self.silent::<u32>(cx, iface.id, header.dst),
                            None => {}
                        }
                    }
                }
                EtherType::IPV6 => {
                    let Ok(header) = ip6::Header::parse(packet) else { continue };
                    let (chain, _) = Chain::walk_far(&header, packet);
                    match control_in(chain.upper, chain.payload(&header, packet)).and_then(is_alive) {
                        Some(true) => self.answered::<u128>(cx, iface.id, header.dst),
                        Some(false) => self.silent::<u128>(cx, iface.id, header.dst),
                        None => {}
                    }
                }
                _ => {}
            }
        }
    }
}

fn control_in(proto: Proto, upper: &[u8]) -> Option<Control> {
    let header = udp::Header::parse(upper).ok().filter(|header| proto == Proto::UDP && header.dst == bfd::L4PORT)?;
    Control::parse(header.payload(upper))
}

/// Returns whether the gateway is alive; `None` if the packet does not show it.
fn is_alive(control: Control) -> Option<bool> {
    match control.state {
        State::Up => Some(true),
        _ => control.has_failed().then_some(false),
    }
}
