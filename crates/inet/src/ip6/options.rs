//! Checks of the extension headers of packets for this host, and of the Hop-by-Hop options of
//! forwarded packets. Unknown options are handled as the high bits of their type require (RFC 8200
//! 4.2). Routing headers are not followed (RFC 5095, RFC 8200 4.4). Packets with an Authentication
//! header are dropped, since this stack cannot verify them.

use crate::Stack;
use crate::iface::Iface;
use buf::Frame;
use lock::{Cx, Locks};
use stats::DropReason;
use wire::Proto;
use wire::icmp6::{Problem, parameter};
use wire::ip6::{self, Chain, Opt, Options};

impl<L: Locks> Stack<L> {
    /// Checks the Hop-by-Hop options, which every router must process. If there is a Hop-by-Hop
    /// header, it is the first extension header.
    pub(super) fn check_hop_by_hop(
        &self,
        cx: Cx,
        iface: Option<&Iface<L>>,
        packet: &Frame,
        header: &ip6::Header,
    ) -> Result<(), DropReason> {
        let payload = header.payload(packet.bytes());
        let len = payload.get(1).map_or(0, |units| (usize::from(*units) + 1) * 8);
        let options = payload.get(2..len).ok_or(DropReason::Ip6Malformed)?;
        self.check_options6(cx, iface, packet, ip6::HEADER_LEN + 2, Options::new(options))
    }

    pub(super) fn check_extensions(
        &self,
        cx: Cx,
        iface: Option<&Iface<L>>,
        packet: &Frame,
        chain: &Chain,
    ) -> Result<(), DropReason> {
        if let Some((_, named_at)) = chain.find(Proto::AUTH) {
            let code = parameter::NEXT_HEADER;
            self.parameter_problem(cx, iface, packet, code, named_at);
            return Err(DropReason::Ip6UnknownNext);
        }
        for extension in chain.extensions() {
            match extension.proto {
                Proto::DEST_OPTIONS => {
                    if let Some(options) = extension.options(packet.bytes()) {
                        self.check_options6(cx, iface, packet, extension.offset + 2, options)?;
                    }
                }
                Proto::ROUTING => {
                    let left = packet.bytes().get(extension.offset + 3).copied();
                    if left != Some(0) {
                        self.parameter_problem(cx, iface, packet, parameter::FIELD, extension.offset + 2);
                        return Err(DropReason::Ip6RoutingHeader);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks the options that begin at offset `at` of the packet.
    fn check_options6(
        &self,
        cx: Cx,
        iface: Option<&Iface<L>>,
        packet: &Frame,
        at: usize,
        options: Options<'_>,
    ) -> Result<(), DropReason> {
        let mut at = at;
        for option in options {
            let (kind, len) = match option.map_err(|_| DropReason::Ip6Malformed)? {
                Opt::Pad1 => (None, 1),
                Opt::PadN(len) => (None, usize::from(len) + 2),
                Opt::RouterAlert(_) => (None, 4),
                Opt::Other { kind, data } => (Some(kind), data.len() + 2),
            };
            match kind.map(Opt::unknown_action) {
                None | Some(0) => {}
                Some(1) => return Err(DropReason::Ip6BadOption),
                Some(action) => {
                    // If the two high bits of the option type are 11, no error is sent about a
                    // packet to a multicast address (RFC 8200 4.2).
                    let group = ip6::Header::parse_quoted(packet.bytes()).is_ok_and(|header| header.dst.is_multicast());
                    if action == 2 || !group {
                        self.parameter_problem(cx, iface, packet, parameter::OPTION, at);
                    }
                    return Err(DropReason::Ip6BadOption);
                }
            }
            at += len;
        }
        Ok(())
    }

    pub(super) fn parameter_problem(&self, cx: Cx, iface: Option<&Iface<L>>, packet: &Frame, code: u8, at: usize) {
        let problem = Problem::Parameter { code, pointer: at as u32 };
        self.icmp6_error(cx, iface.map(|iface| iface.id), packet, problem);
    }
}
