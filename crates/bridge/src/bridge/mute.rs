//! Loops found without a spanning tree, as FreeBSD 4's bridge did: an address that comes through one port, then another, then the first
//! again is a frame going round, or two stations with one address.
//!
//! Each move is counted with the address ([`crate::Fdb::moves`]). One more than [`Mute::moves`] within [`Mute::within`], and the port where
//! the address was before is muted when the burst in hand is done: nothing is taken from it and nothing given to it, until
//! [`Mute::lasts`] is over ([`Bridge::poll`]). There the frame of a move was dropped; here it passes, so that a station that is carried to
//! another port is heard at once. Who can forge a source can have its owner's port muted: the price of the method; a static or sticky
//! entry does not move.

use super::Bridge;
use crate::{Key, PortNo};
use clock::{Duration, Instant};
use std::collections::VecDeque;

/// When a port is muted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mute {
    /// Moves of one address that are borne; at most 254.
    pub moves: u8,
    /// Within this time. Windows of it follow each other: at their edge up to twice as many are borne.
    pub within: Duration,
    /// How long the port is muted.
    pub lasts: Duration,
}

impl Default for Mute {
    /// 10 moves in 10 s, for 10 s (bridge.c of FreeBSD 4).
    fn default() -> Mute {
        Mute { moves: 10, within: Duration::from_secs(10), lasts: Duration::from_secs(10) }
    }
}

/// An address has moved (if_bridge's log_mac_flap).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// Whose.
    pub key: Key,
    /// Where it was.
    pub from: PortNo,
    /// Where it is.
    pub to: PortNo,
    /// When.
    pub at: Instant,
    /// Its moves in this window, this one among them.
    pub times: u8,
    /// `from` is muted for it.
    pub muted: bool,
}

/// Moves that are remembered for a log.
const MOST: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Moves {
    log: VecDeque<Move>,
    lost: u64,
    /// How often a port was muted.
    mutings: u64,
    /// Ports that are muted.
    muted: usize,
}

impl Bridge {
    /// When ports are muted; `None`: never. [`Mute::default`] at first.
    pub fn set_mute(&mut self, mute: Option<Mute>) {
        self.fdb.set_window(mute.unwrap_or_default().within);
        self.mute = mute;
    }

    /// When ports are muted.
    pub fn mute(&self) -> Option<Mute> {
        self.mute
    }

    /// Whether a spanning tree keeps loops away from a port: it is not muted then, and speaks again at once if it was.
    pub fn set_spanned(&mut self, port: PortNo, spanned: bool) {
        let Some(extra) = self.extra_mut(port) else { return };
        extra.spanned = spanned;
        let was_muted = spanned && extra.muted.take().is_some();
        self.moves.muted -= usize::from(was_muted);
        self.reconsider();
    }

    fn is_mutable(&self, port: PortNo) -> bool {
        self.extra(port).is_some_and(|extra| extra.muted.is_none() && !extra.spanned)
    }

    /// Until when a port is muted; `None`: it is not.
    pub fn muted(&self, port: PortNo) -> Option<Instant> {
        self.extra(port).and_then(|extra| extra.muted)
    }

    /// How often ports were muted.
    pub fn mutings(&self) -> u64 {
        self.moves.mutings
    }

    /// The next move for a log: the first 64 that nobody took. Those after them are only counted ([`Bridge::moves_lost`]).
    pub fn take_move(&mut self) -> Option<Move> {
        self.moves.log.pop_front()
    }

    /// Moves that were not remembered.
    pub fn moves_lost(&self) -> u64 {
        self.moves.lost
    }

    pub(super) fn moved(&mut self, key: Key, from: PortNo, to: PortNo, now: Instant) {
        let times = self.fdb.moves(key, to, now);
        let muted = self.mute.is_some_and(|mute| times > mute.moves.min(254)) && self.is_mutable(from);
        if muted {
            self.muting = Some(from);
        }
        if self.moves.log.len() < MOST {
            self.moves.log.push_back(Move { key, from, to, at: now, times, muted });
        } else {
            self.moves.lost += 1;
        }
    }

    /// The port that was to be muted is.
    #[cold]
    pub(super) fn mute_port(&mut self, now: Instant) {
        let (Some(port), Some(mute)) = (self.muting.take(), self.mute) else { return };
        let until = now.after(mute.lasts);
        self.moves.mutings += 1;
        self.mute_until(port, until);
        if let Some(announced) = &mut self.announced {
            announced.muted(port, until);
        }
    }

    /// Mutes a port that is not muted yet.
    pub(super) fn mute_until(&mut self, port: PortNo, until: Instant) {
        if !self.is_mutable(port) {
            return;
        }
        if let Some(extra) = self.extra_mut(port) {
            extra.muted = Some(until);
        }
        self.moves.muted += 1;
        self.reconsider();
    }

    /// Whoever has the port's place next begins anew.
    pub(super) fn forget_extra(&mut self, port: PortNo) {
        if let Some(extra) = self.extra_mut(port) {
            let muted = std::mem::take(extra).muted.is_some();
            self.moves.muted -= usize::from(muted);
        }
    }

    /// Those whose time is over may speak again.
    pub(super) fn unmute(&mut self, now: Instant) {
        if self.moves.muted == 0 {
            return;
        }
        for extra in &mut self.extras {
            if extra.muted.is_some_and(|until| now >= until) {
                extra.muted = None;
                self.moves.muted -= 1;
            }
        }
        self.reconsider();
    }
}
