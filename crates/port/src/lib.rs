//! Where frames enter and leave. A port has no addresses and does not know who reads it.
//!
//! A [`Port`] is two halves. [`RxHalf`] belongs to the one loop that polls it, so "two loops never work on one
//! interface" (bridge2004) is ownership and not a check; [`TxHalf`] sits behind the stack's transmit queue, where any
//! thread may come to it. Both move [`Burst`]s. Kinds and wrappers are named by one grammar: see [`spec`].

#![deny(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unreachable)
)]

mod counts;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod impair;
mod long;
pub mod nic;
pub mod null;
pub mod offload;
mod open;
pub mod os;
pub mod packet;
pub mod pair;
pub mod pcap;
pub mod pktgen;
pub mod spec;
pub mod tap;
#[cfg(test)]
mod testns;
pub mod text;
pub mod tracer;
pub mod xdp;

use buf::{Burst, Frame};
use clock::Instant;
pub use counts::{PortCounts, RxCounts, TxCounts};
pub use open::{
    Env, OpenError, PairError, Pairs, buffer_len, fit_pool, is_zero_copy, open, pool_for, said_of, stride_for,
};
pub use spec::{Spec, SpecError};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// What a port can do for its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caps {
    /// The largest network packet, in bytes, Ethernet header not counted.
    pub mtu: u16,
    /// Fills in IPv4 header checksums of frames flagged `TX_IP_CSUM`.
    pub tx_ip_csum: bool,
    /// Fills in TCP and UDP checksums of frames flagged `TX_L4_CSUM`.
    pub tx_l4_csum: bool,
    /// Verifies checksums of received frames and sets `RX_*_OK`.
    pub rx_csum: bool,
    /// Takes large TCP segments (`Frame::gso_size`) of up to this many bytes of packet, and cuts them up or passes them on whole;
    /// 0: does not.
    pub tso_max: u32,
    /// May give large TCP segments.
    pub lro: bool,
}

impl Caps {
    /// A plain Ethernet: 1500 bytes, no offloads.
    pub const PLAIN: Caps =
        Caps { mtu: 1500, tx_ip_csum: false, tx_l4_csum: false, rx_csum: false, tso_max: 0, lro: false };
}

/// Where frames come in.
pub trait RxHalf: Send {
    /// Appends up to `most` received frames to `into`, without waiting; says how many.
    fn rx_burst(&mut self, into: &mut Burst, most: usize, now: Instant) -> usize;
    /// Something to sleep on until frames may be there; `None`: poll it.
    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// When frames held back by time (a pace, an impairment) will be ready; `None`: no such frames.
    fn next_event(&self) -> Option<Instant> {
        None
    }
    /// Has the port ended (device gone, file at its end, peer closed)? It will never give a frame again.
    fn is_gone(&self) -> bool {
        false
    }
    /// Does it give nothing by its nature: is the port only a sink?
    fn is_silent(&self) -> bool {
        false
    }
    /// Why it has ended, in a sentence, if there is more to say than that it came to its end.
    fn why_gone(&self) -> Option<String> {
        None
    }
    /// What was wrong with what came in and did not end the port, a sentence each: the first few, and how many in all.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
    /// Frames held inside (delayed, queued), for the audit.
    fn held(&self) -> usize {
        0
    }
}

/// Where frames go out.
pub trait TxHalf: Send {
    /// Takes frames from the front of `from`; what was not taken stays. Says how many were taken.
    fn tx_burst(&mut self, from: &mut Burst, now: Instant) -> usize;
    /// Takes a frame that came alone; gives it back if the port is full. The same as a burst of one; ports for which that
    /// costs more than a frame have a shorter way.
    fn tx_one(&mut self, frame: Frame, now: Instant) -> Result<(), Frame> {
        let mut burst = Burst::of(frame);
        self.tx_burst(&mut burst, now);
        burst.pop().map_or(Ok(()), Err)
    }
    /// Moves on what time has made ready (delays, paces).
    fn poll(&mut self, now: Instant) {
        let _ = now;
    }
    /// When [`TxHalf::poll`] has something to do; `None`: nothing held.
    fn next_event(&self) -> Option<Instant> {
        None
    }
    /// Writes what the port buffers to its file, when no more frames follow. An error ends the port
    /// ([`TxHalf::why_gone`]).
    fn finish(&mut self) {}
    /// Will it never send a frame again: does nobody read what it writes? It still takes them, and counts them as dropped.
    fn is_gone(&self) -> bool {
        false
    }
    /// Why it sends nothing any more, in a sentence, if there is more to say than that nobody reads it.
    fn why_gone(&self) -> Option<String> {
        None
    }
    /// Frames held inside, for the audit.
    fn held(&self) -> usize {
        0
    }
}

/// A port, opened: two halves and what is known about them.
pub struct Port {
    /// The name after the last colon: `tap0`.
    pub name: String,
    /// The whole name as opened: `impair(loss=1%):tap:tap0`.
    pub spec: String,
    /// What it can do.
    pub caps: Caps,
    /// The receiving half.
    pub rx: Box<dyn RxHalf>,
    /// The transmitting half.
    pub tx: Box<dyn TxHalf>,
    /// Its counters, readable from anywhere.
    pub counts: Arc<PortCounts>,
    /// What else there is to know of a [`nic`], or of one under wrappers: knobs, doorbells, the bus.
    pub nic: Option<Arc<nic::Nic>>,
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").field("spec", &self.spec).field("caps", &self.caps).finish_non_exhaustive()
    }
}
