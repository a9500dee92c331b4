//! The network stack without ports, threads and clocks, for programs that provide all three.
//!
//! A [`Stack`] is one host. The caller passes it bursts of frames and the time, and takes the
//! frames that the stack sends. [`Calls`] are the BSD socket calls on a stack.

pub use ::clock::{Clock, Instant, SimClock};
pub use ::inet::iface::{Iface, IfaceAddr, IfaceId, Offload, Output};
pub use ::inet::{Config, Stack};
pub use ::lock::{Cx, How, Light, Locks, Up};
pub use ::socket::{Calls, Drive, Errno, Events, Fd, Opt, OptKind, PollFd, Poller};
/// TCP as a state machine over sequence numbers, without payload.
#[doc(inline)]
pub use ::tcp;
