//! A connection of the server by what it is for.

use crate::slots::Connection;
use crate::streams::Ends;
use clock::Instant;
use std::net::IpAddr;

/// (test index, stream index)
pub(super) type StreamAt = (u32, usize);

#[derive(Debug)]
pub(super) enum Conn {
    /// It has sent so much of its cookie.
    New {
        ends: Ends,
        cookie: Vec<u8>,
        since: Instant,
    },
    /// Of the test at that place in the list.
    Control(u32),
    Stream(StreamAt),
    /// What came goes back.
    Echo(Vec<u8>),
    /// It is told that it is not wanted.
    Denied {
        ends: Ends,
        since: Instant,
    },
    /// The datagrams of all tests.
    Datagrams,
}

impl Conn {
    /// A connection that is limited and may give way.
    pub(super) fn as_stranger(&self) -> Option<Stranger> {
        match self {
            Conn::New { ends, since, .. } | Conn::Denied { ends, since } => Some(Stranger(*ends, *since)),
            _ => None,
        }
    }
}

/// A connection that has not said yet what it is, or is being told that it is not wanted.
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
