//! ICMPv6 type numbers. Those below 128 are errors.

/// Destination unreachable (RFC 4443 3.1).
pub const UNREACHABLE: u8 = 1;
/// Packet too big (RFC 4443 3.2).
pub const TOO_BIG: u8 = 2;
/// Time exceeded (RFC 4443 3.3).
pub const TIME_EXCEEDED: u8 = 3;
/// Parameter problem (RFC 4443 3.4).
pub const PARAMETER_PROBLEM: u8 = 4;
/// Echo request (RFC 4443 4.1).
pub const ECHO_REQUEST: u8 = 128;
/// Echo reply (RFC 4443 4.2).
pub const ECHO_REPLY: u8 = 129;
/// Router solicitation (RFC 4861 4.1).
pub const ROUTER_SOLICIT: u8 = 133;
/// Router advertisement (RFC 4861 4.2).
pub const ROUTER_ADVERT: u8 = 134;
/// Neighbor solicitation (RFC 4861 4.3).
pub const NEIGHBOR_SOLICIT: u8 = 135;
/// Neighbor advertisement (RFC 4861 4.4).
pub const NEIGHBOR_ADVERT: u8 = 136;
/// Redirect (RFC 4861 4.5); not an error in ICMPv6.
pub const REDIRECT: u8 = 137;
