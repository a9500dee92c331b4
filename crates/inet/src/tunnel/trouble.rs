//! Failure of an outer packet, in the form of an error about the inner packet.

use crate::icmp4::Cause;
use crate::ip4::pmtu;
use wire::icmp4::unreachable;
use wire::icmp6;

/// Failure of an outer packet, as reported to the sender of the inner packet.
#[derive(Clone, Copy)]
pub(crate) enum Trouble {
    /// The inner packet exceeds this MTU, in bytes.
    TooBig(usize),
    /// The destination cannot be reached.
    Host,
}

impl Trouble {
    pub(super) fn cause(self) -> Cause {
        match self {
            Trouble::TooBig(mtu) => Cause::FragNeeded(mtu as u16),
            Trouble::Host => Cause::Unreachable(unreachable::HOST),
        }
    }

    /// Returns the ICMPv6 error to be sent. The MTU that it reports is at least 1280, because the
    /// outer packet of a smaller inner packet can be fragmented (RFC 2473 7.1).
    pub(super) fn problem6(self) -> icmp6::Problem {
        match self {
            Trouble::TooBig(mtu) => icmp6::Problem::TooBig { mtu: mtu.max(pmtu::FLOOR6) as u32 },
            Trouble::Host => icmp6::Problem::Unreachable { code: icmp6::unreachable::ADDRESS },
        }
    }
}
