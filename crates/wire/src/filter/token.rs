//! Tokens of the filter language.

use super::protocol::Word;
use core::net::Ipv6Addr;

/// A keyword that is not a protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Dst,
    Src,
    Host,
    Net,
    Mask,
    Port,
    PortRange,
    Proto,
    ProtoChain,
    Gateway,
    Less,
    Greater,
    Byte,
    Broadcast,
    Multicast,
    And,
    Or,
    Not,
    Len,
    Vlan,
    Mpls,
    Pppoed,
    Pppoes,
    Llc,
    Rnr,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Token<'a> {
    Key(Key),
    Word(Word),
    Number(u32),
    /// Two to four numbers separated by dots, as text: `10.1`.
    Dotted(&'a str),
    Address6(Ipv6Addr),
    Mac([u8; 6]),
    Name(&'a str),
    /// A keyword of the language that is not supported here, with the reason.
    Foreign(&'static str),
    Open,
    Close,
    OpenIndex,
    CloseIndex,
    Colon,
    Plus,
    Minus,
    Times,
    Divide,
    Modulo,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    End,
}

/// A token, and its byte offset in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot<'a> {
    pub token: Token<'a>,
    pub at: usize,
}
