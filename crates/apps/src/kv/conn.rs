//! A client connection, which receives requests and sends the replies in the same order.
//!
//! While more than [`STOP`] bytes of replies are buffered, no request is processed. Further
//! requests stay in the request buffer and, when it is full, in the socket.

use super::KvCounts;
use super::command::{self, Call};
use super::roster::Roster;
use super::server::Facts;
use super::store::Store;
use super::transaction::Session;
use crate::resp::{Limits, Replies, Requests};
use crate::slots::Connection;
use linerate::stack::Instant;
use std::net::IpAddr;

/// Number of buffered reply bytes at which the connection stops processing requests until it has
/// sent some of them.
const STOP: usize = 64 * 1024;

/// State of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    Open,
    /// All replies are sent; the connection can be closed.
    Done,
}

#[derive(Debug)]
pub(super) struct Conn {
    pub(super) peer: IpAddr,
    /// Time of the last activity.
    pub(super) since: Instant,
    requests: Requests,
    replies: Replies,
    pub(super) session: Session,
    is_last: bool,
    at_eof: bool,
}

impl Connection for Conn {
    fn peer(&self) -> IpAddr {
        self.peer
    }

    fn moved(&self) -> Instant {
        self.since
    }
}

impl Conn {
    pub(super) fn new(peer: IpAddr, limits: Limits, replies_max: usize, now: Instant) -> Conn {
        let (requests, replies) = (Requests::new(limits), Replies::new(replies_max));
        // The slot number of the connection is not known yet; it is set after insertion.
        let session = Session::new(u32::MAX);
        Conn { peer, since: now, requests, replies, session, is_last: false, at_eof: false }
    }

    /// Returns the number of bytes of memory that the connection uses.
    pub(super) fn held(&self) -> usize {
        self.requests.held() + self.replies.held() + self.session.held()
    }

    /// Returns whether the replies have exceeded the limit of the reply buffer.
    pub(super) fn is_over(&self) -> bool {
        self.replies.is_over()
    }

    pub(super) fn status(&self) -> Status {
        let is_done = (self.is_last || self.at_eof) && self.replies.waiting().is_empty();
        if is_done { Status::Done } else { Status::Open }
    }

    pub(super) fn room(&self) -> usize {
        if self.is_last { 0 } else { self.requests.room() }
    }

    pub(super) fn output(&self) -> &[u8] {
        self.replies.waiting()
    }

    pub(super) fn on_bytes(&mut self, bytes: &[u8], now: Instant) {
        self.since = now;
        self.requests.push(bytes);
    }

    pub(super) fn on_eof(&mut self) {
        self.at_eof = true;
    }

    pub(super) fn sent(&mut self, n: usize, now: Instant) {
        self.since = now;
        self.replies.sent(n);
    }

    /// Processes the pending requests as long as the buffer has space for their replies.
    pub(super) fn proceed(
        &mut self,
        (store, roster): (&mut Store, &mut Roster),
        facts: &Facts,
        counts: &KvCounts,
        now: Instant,
    ) {
        while !self.is_last && !self.replies.is_over() && self.replies.waiting().len() < STOP {
            let args = match self.requests.next_request() {
                Ok(None) => return,
                Ok(Some(args)) => args,
                Err(bad) => {
                    counts.malformed.bump();
                    self.replies.error(format_args!("ERR {bad}"));
                    self.is_last = true;
                    return;
                }
            };
            let name = args.get(0);
            // This is probably an HTTP request that an attacker made a browser send (cross-protocol
            // request forgery; see CWE-918). The connection is closed and the rest of the input is
            // ignored.
            if name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"HOST:") {
                counts.malformed.bump();
                self.is_last = true;
                return;
            }
            self.is_last = name.eq_ignore_ascii_case(b"QUIT");
            counts.requests.bump();
            command::answer(&mut Call {
                args,
                store: &mut *store,
                session: &mut self.session,
                roster: &mut *roster,
                out: &mut self.replies,
                now,
                facts,
                counts,
            });
        }
    }
}
