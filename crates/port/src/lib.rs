//! Internal crate of [linerate](https://docs.rs/linerate): its interface may change in any release.
//!
//! Ports: the points where frames enter and leave the stack. A port has no network addresses and
//! does not depend on the component that reads it.
//!
//! A [`Port`] has two halves. [`RxHalf`] belongs to the single loop that polls it, so ownership
//! guarantees that two loops never work on the same interface. [`TxHalf`] is fed by the stack's
//! transmit queue, which any thread may use. Both halves exchange frames in [`Burst`]s. All kinds
//! of ports and wrappers share one naming grammar: see [`spec`].

#![deny(unsafe_code)]
#![deny(missing_docs)]
#![cfg_attr(
    not(test),
    deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unreachable)
)]

mod counts;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod impair;
mod ip_link;
pub mod links;
mod long;
pub mod mirror;
pub mod nic;
pub mod null;
pub mod offload;
mod open;
pub mod os;
pub mod own;
#[cfg(target_os = "linux")]
pub mod packet;
pub mod pair;
pub mod pcap;
pub mod pktgen;
pub mod spec;
#[cfg(target_os = "linux")]
pub mod tap;
#[cfg(test)]
mod testns;
pub mod text;
pub mod tracer;
#[cfg(target_os = "linux")]
pub mod xdp;

use buf::{Burst, Frame};
use clock::Instant;
pub use counts::{LinkState, PortCounts, RxCounts, TxCounts};
pub use open::{
    DeviceError, Env, OpenError, PairError, Pairs, buffer_len, fit_pool, is_zero_copy, open, pool_for, port_message,
    stride_for,
};
pub use spec::{Spec, SpecError};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use wire::{eth, vlan};

/// Maximum number of bytes in a frame in addition to the packet: an Ethernet header and one VLAN
/// tag.
pub(crate) const LINK_LEN: usize = eth::HEADER_LEN + vlan::TAG_LEN;

/// Capabilities that a port offers its host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caps {
    /// Maximum size of a network packet in bytes, without the Ethernet header.
    pub mtu: u16,
    /// True if the port fills in IPv4 header checksums of frames flagged `TX_IP_CSUM`.
    pub tx_ip_csum: bool,
    /// True if the port fills in TCP and UDP checksums of frames flagged `TX_L4_CSUM`.
    pub tx_l4_csum: bool,
    /// True if the port verifies checksums of received frames and sets `RX_*_OK`.
    pub rx_csum: bool,
    /// Length in bytes of the longest TCP packet (with `Frame::gso_size` set) that the port accepts
    /// in one frame. The port splits such a large segment or passes it on whole. 0 if large
    /// segments are not supported.
    pub tso_max: u32,
    /// True if the port may deliver large TCP segments, longer than the MTU.
    pub lro: bool,
}

impl Caps {
    /// Plain Ethernet: 1500 bytes, no offloads.
    pub const PLAIN: Caps =
        Caps { mtu: 1500, tx_ip_csum: false, tx_l4_csum: false, rx_csum: false, tso_max: 0, lro: false };
}

/// The receiving half of a port.
pub trait RxHalf: Send {
    /// Appends up to `most` received frames to `into`, without waiting. Returns their number.
    fn rx_burst(&mut self, into: &mut Burst, most: usize, now: Instant) -> usize;
    /// Returns a file descriptor to sleep on until frames may be available; `None` if the port must
    /// be polled.
    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    /// Returns the time at which the port's next frame is ready, if the port holds frames until a
    /// given time (pacing, an impairment); `None` if it holds none.
    fn next_event(&self) -> Option<Instant> {
        None
    }
    /// Returns whether the port has ended (device gone, end of file, peer closed). After that it
    /// never returns a frame again.
    fn is_gone(&self) -> bool {
        false
    }
    /// Returns whether the port never receives frames by design, because it is only a sink.
    fn is_silent(&self) -> bool {
        false
    }
    /// Returns the reason why the port ended, as a sentence. Returns `None` if it is open, or ended
    /// normally (end of file, for example).
    fn why_gone(&self) -> Option<String> {
        None
    }
    /// Returns warnings about bad input that did not end the port, one sentence each: the first few
    /// individually, then the total number.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
    /// Returns the number of frames that the port holds (delayed or queued), for the audit of all
    /// frames.
    fn held(&self) -> usize {
        0
    }
}

/// The transmitting half of a port.
pub trait TxHalf: Send {
    /// Takes frames from the front of `from` and leaves the rest in it. Returns the number of
    /// frames taken.
    fn tx_burst(&mut self, from: &mut Burst, now: Instant) -> usize;
    /// Takes a single frame. Returns it as the error if the port is full. Equivalent to a burst of
    /// one frame; ports for which a burst costs more than this method override it.
    fn tx_one(&mut self, frame: Frame, now: Instant) -> Result<(), Frame> {
        let mut burst = Burst::of(frame);
        self.tx_burst(&mut burst, now);
        burst.pop().map_or(Ok(()), Err)
    }
    /// Sends the held frames that are now due (after delays or pacing).
    fn poll(&mut self, now: Instant) {
        let _ = now;
    }
    /// Returns the time at which [`TxHalf::poll`] next has work; `None` if no frame is held.
    fn next_event(&self) -> Option<Instant> {
        None
    }
    /// Writes buffered data to the port's file. Called when no more frames follow. An error ends
    /// the port ([`TxHalf::why_gone`]).
    fn finish(&mut self) {}
    /// Returns whether the port can never send again because nothing reads its output any more. The
    /// port still accepts frames, and counts them as dropped.
    fn is_gone(&self) -> bool {
        false
    }
    /// Returns the reason why the port no longer sends, as a sentence. Returns `None` if it still
    /// sends, or if its output merely has no reader.
    fn why_gone(&self) -> Option<String> {
        None
    }
    /// Returns the number of frames that the port holds, for the audit of all frames.
    fn held(&self) -> usize {
        0
    }
}

/// An open port: its two halves and their properties.
pub struct Port {
    /// Name of the port: the part of the spec after the last colon, such as `tap0`.
    pub name: String,
    /// The whole spec with which the port was opened, such as `impair(loss=1%):tap:tap0`.
    pub spec: String,
    /// Capabilities of the port.
    pub caps: Caps,
    /// The receiving half.
    pub rx: Box<dyn RxHalf>,
    /// The transmitting half.
    pub tx: Box<dyn TxHalf>,
    /// Counters of the port, readable from any thread.
    pub counts: Arc<PortCounts>,
    /// Controller of a [`nic`] port (sysctls, doorbells, bus), even if wrappers surround the port;
    /// `None` for other kinds of ports.
    pub nic: Option<Arc<nic::Nic>>,
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Port").field("spec", &self.spec).field("caps", &self.caps).finish_non_exhaustive()
    }
}
