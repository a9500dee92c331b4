//! Causes of ICMP errors.

use crate::udp::SoError;
use std::net::Ipv4Addr;
use wire::icmp4::{Problem, unreachable};

/// Cause of an ICMP error.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cause {
    Unreachable(u8),
    FragNeeded(u16),
    /// Host unreachable, because the next hop did not answer ARP requests.
    NoNeighbor,
    TtlExceeded,
    ReassemblyTimeout,
    Redirect(Ipv4Addr),
    /// Parameter problem. The value is the offset of the invalid octet in the IP header.
    Parameter(u8),
}

impl Cause {
    /// Returns the error to report to a socket of this host; `None` if this cause is not reported.
    pub(crate) fn for_socket(self) -> Option<SoError> {
        match self {
            Cause::Unreachable(unreachable::PORT | unreachable::PROTOCOL) => Some(SoError::Refused),
            Cause::Unreachable(unreachable::NET) => Some(SoError::NetUnreachable),
            Cause::Unreachable(_) | Cause::NoNeighbor | Cause::TtlExceeded => Some(SoError::HostUnreachable),
            Cause::FragNeeded(_) => Some(SoError::MessageSize),
            Cause::Parameter(_) => Some(SoError::ProtocolOption),
            Cause::ReassemblyTimeout | Cause::Redirect(_) => None,
        }
    }

    pub(crate) fn problem(self) -> Problem {
        match self {
            Cause::Unreachable(code) => Problem::Unreachable { code, next_mtu: 0 },
            Cause::NoNeighbor => Cause::Unreachable(unreachable::HOST).problem(),
            Cause::FragNeeded(mtu) => Problem::Unreachable { code: unreachable::FRAG_NEEDED, next_mtu: mtu },
            Cause::TtlExceeded => Problem::TimeExceeded { code: 0 },
            Cause::ReassemblyTimeout => Problem::TimeExceeded { code: 1 },
            Cause::Redirect(gateway) => Problem::Redirect { code: 1, gateway },
            Cause::Parameter(pointer) => Problem::ParameterProblem { pointer },
        }
    }
}

/// Returns the largest MTU in common use that is below `total_len`, the length of a packet that
/// exceeded the MTU of a link. Used if the router does not report the MTU (RFC 1191 7.1).
pub(crate) fn plateau(total_len: u16) -> usize {
    const PLATEAUS: [usize; 10] = [32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, 508, 296, 68];
    PLATEAUS.into_iter().find(|&mtu| mtu < usize::from(total_len)).unwrap_or(68)
}
