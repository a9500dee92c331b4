//! Loop detection without a spanning tree, as in FreeBSD 4's bridge: an address that repeatedly
//! moves between ports indicates a looping frame, or two stations with the same address.
//!
//! Moves are counted for each address ([`crate::Fdb::moves`]). If an address moves more than
//! [`Mute::moves`] times within [`Mute::within`], its previous port is muted at the end of the
//! current burst. A muted port neither receives nor sends for the time [`Mute::lasts`] (until
//! [`Bridge::poll`] unmutes it). FreeBSD drops the frame with which an address moves. This bridge
//! forwards it, so that a station that moves to another port is reachable at once. A drawback of
//! loop detection is that a host that forges a source address can cause the port of the address's
//! owner to be muted. Static and sticky entries do not move.

use super::Bridge;
use crate::{Key, PortNo};
use clock::{Duration, Instant};
use std::collections::VecDeque;

/// Thresholds of loop detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mute {
    /// Number of moves of one address that are tolerated within a window; at most 254.
    pub moves: u8,
    /// Length of the window. Windows are consecutive, so up to twice as many moves are tolerated
    /// around the boundary between two windows.
    pub within: Duration,
    /// Time for which the port is muted.
    pub lasts: Duration,
}

impl Default for Mute {
    /// Returns the thresholds of FreeBSD 4 (bridge.c): more than 10 moves within 10 s mute a port
    /// for 10 s.
    fn default() -> Mute {
        Mute { moves: 10, within: Duration::from_secs(10), lasts: Duration::from_secs(10) }
    }
}

/// Move of an address between ports (logged by if_bridge with log_mac_flap).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// VLAN and address that moved.
    pub key: Key,
    /// Port at which the address was reachable before.
    pub from: PortNo,
    /// Port to which the address moved.
    pub to: PortNo,
    /// Time of the move.
    pub at: Instant,
    /// Number of moves of the address in this window, including this one.
    pub times: u8,
    /// True if port `from` was muted because of the move.
    pub muted: bool,
}

/// Maximum number of moves kept for the log.
const MOST: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Moves {
    log: VecDeque<Move>,
    lost: u64,
    /// Number of times that ports were muted.
    mutings: u64,
    /// Number of ports currently muted.
    muted: usize,
}

impl Bridge {
    /// Sets the thresholds of loop detection; `None` disables it. The initial value is
    /// [`Mute::default`].
    pub fn set_mute(&mut self, mute: Option<Mute>) {
        self.fdb.set_window(mute.unwrap_or_default().within);
        self.mute = mute;
    }

    /// Returns the thresholds of loop detection.
    pub fn mute(&self) -> Option<Mute> {
        self.mute
    }

    /// Sets whether a spanning tree protects a port from loops. Such a port is never muted; if it
    /// is muted now, it is unmuted at once.
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

    /// Returns the time until which a port is muted; `None` if it is not muted.
    pub fn muted(&self, port: PortNo) -> Option<Instant> {
        self.extra(port).and_then(|extra| extra.muted)
    }

    /// Returns how often ports were muted.
    pub fn mutings(&self) -> u64 {
        self.moves.mutings
    }

    /// Returns the next move from the log. The log keeps up to 64 moves; further ones are only
    /// counted ([`Bridge::moves_lost`]).
    pub fn take_move(&mut self) -> Option<Move> {
        self.moves.log.pop_front()
    }

    /// Returns the number of moves that did not fit into the log.
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

    /// Mutes the port that was selected during the burst, if any.
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

    /// Mutes a port until the given time, unless the port is muted already or cannot be muted.
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

    /// Resets the rarely read state of a port, so that the next port with the same number starts
    /// with defaults.
    pub(super) fn forget_extra(&mut self, port: PortNo) {
        if let Some(extra) = self.extra_mut(port) {
            let muted = std::mem::take(extra).muted.is_some();
            self.moves.muted -= usize::from(muted);
        }
    }

    /// Unmutes the ports whose mute time is over.
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
