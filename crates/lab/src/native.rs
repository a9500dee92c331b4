//! The host's own kernel as a measured subject: the cost of a packet that the kernel sends instead
//! of our stack.
//!
//! ```text
//! this process                      a child: this program again, in a network namespace of its own
//! NativeSend -> Sender -- socket -- send::serve -> Sink: connected UDP socket
//!                                                -> TAP device -> dropped, counted
//! ```
//!
//! Packets are dropped at the device's egress: the figure includes all work of the kernel's stack
//! and no work of a driver. [`NativeSend::device`] reports the drop method that this kernel
//! supports, and whether the kernel computed the checksums. Where no namespace or no TAP device is
//! available, the packets go over loopback to a socket that is never read. The figure then includes
//! the receive path, and `device` reports this. Every packet is accounted for: a trial fails unless
//! the drops in the device's own statistics grew by the number of packets sent. The child ends when
//! its socket to the parent closes, however the parent ends.
//!
//! [`forward`] compares bridges in the same way: devices, generator, loop and sink run in one such
//! child. [`routed`] is the kernel's host, router and host for `crate::netperf`.
//!
//! [`NativeRecv`] times `recv` alone, in this process. [`testtool`] runs the test tool's `send` on
//! this subject.

mod batch;
pub mod delay;
mod drops;
pub mod forward;
pub mod juggle;
pub mod loopback;
mod readback;
pub mod routed;
pub(crate) mod send;
pub mod shell;
mod sink;
pub mod sockets;
mod subject;
pub mod tap;
#[cfg(test)]
mod tests;
pub mod testtool;

pub use subject::{NativeLoop, NativeRecv, NativeSend, native_loop};

/// Payload size in bytes in every row of the comparison; the frame has 64 bytes without FCS.
const PAYLOAD: usize = 22;
