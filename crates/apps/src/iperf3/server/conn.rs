//! Connections of the server, by function.

use crate::slots::Connection;
use crate::streams::Ends;
use linerate::stack::Instant;
use std::net::IpAddr;

/// A stream: index of its test, and index of the stream in the test.
pub(super) type StreamAt = (u32, usize);

#[derive(Debug)]
pub(super) enum Conn {
    /// Waiting for the rest of the cookie.
    New {
        ends: Ends,
        cookie: Vec<u8>,
        since: Instant,
    },
    /// Control connection of the test with this index.
    Control(u32),
    Stream(StreamAt),
    /// Connection that measures latency; the value contains the received bytes that are not sent
    /// back yet.
    Echo(Vec<u8>),
    /// A refused connection, to which ACCESS_DENIED is sent.
    Denied {
        ends: Ends,
        since: Instant,
    },
    /// The UDP socket, shared by all tests.
    Datagrams,
}

impl Conn {
    /// Returns the connection if it is subject to the limit on connections without a cookie; such a
    /// connection may be evicted.
    pub(super) fn as_stranger(&self) -> Option<Stranger> {
        match self {
            Conn::New { ends, since, .. } | Conn::Denied { ends, since } => Some(Stranger(*ends, *since)),
            _ => None,
        }
    }
}

/// A connection without a complete cookie, or one that receives ACCESS_DENIED.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stranger(Ends, Instant);

impl Connection for Stranger {
    fn peer(&self) -> IpAddr {
        self.0.peer.ip()
    }

    fn moved(&self) -> Instant {
        self.1
    }
}
