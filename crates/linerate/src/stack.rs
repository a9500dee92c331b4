//! The network stack without ports, threads and clocks, for programs that provide all three.
//!
//! A [`Stack`] is one host. The caller passes it bursts of frames and the time, and takes the
//! frames that the stack sends. [`Calls`] are the BSD socket calls on a stack.
//!
//! Two stacks whose frames the program carries from one to the other:
//!
//! ```
//! use linerate::stack::*;
//! use linerate::wire::Mac;
//! use std::sync::mpsc::{Sender, channel};
//!
//! /// Takes the frames that a stack sends.
//! struct Cable(Sender<Frame>);
//!
//! impl Output for Cable {
//!     fn output(&mut self, burst: &mut Burst, _now: Instant) -> usize {
//!         burst.drain().filter_map(|frame| self.0.send(frame).ok()).count()
//!     }
//! }
//!
//! fn stack(cx: Cx, number: u8, cable: Cable) -> (Stack<Up>, IfaceId) {
//!     let pool = Pool::new(&PoolConfig::default()).expect("memory");
//!     let stack = Stack::new(cx, Config::new("example", pool));
//!     let mac = Mac([2, 0, 0, 0, 0, number]);
//!     let iface = stack.add_iface("eth0", mac, 1500, Offload::default()).expect("an iface");
//!     stack.set_output(cx, iface, Some(Box::new(cable)));
//!     let addr = IfaceAddr { addr: [10, 0, 0, number].into(), len: 24 };
//!     stack.add_addr(cx, iface, addr).expect("an address");
//!     (stack, iface)
//! }
//!
//! fn main() -> Result<(), Errno> {
//!     // The time of all calls: this program has no clock.
//!     let cx = Cx::enter(How::Register, Instant::from_millis(1));
//!     let ((to_b, at_b), (to_a, at_a)) = (channel(), channel());
//!     let (a, on_a) = stack(cx, 1, Cable(to_b));
//!     let (b, on_b) = stack(cx, 2, Cable(to_a));
//!
//!     let (client, server) = (Calls::new(&a, cx), Calls::new(&b, cx));
//!     let (from, to) = (client.socket()?, server.socket()?);
//!     server.bind(to, ([10, 0, 0, 2], 7).into())?;
//!     client.send_to(from, b"hello", &([10, 0, 0, 2], 7).into())?;
//!
//!     // An ARP request, its reply, and the datagram that waited for it.
//!     for _ in 0..2 {
//!         at_b.try_iter().for_each(|frame| b.input(cx, on_b, &mut Burst::of(frame)));
//!         at_a.try_iter().for_each(|frame| a.input(cx, on_a, &mut Burst::of(frame)));
//!     }
//!     let mut text = [0; 5];
//!     let (len, peer) = server.recv_from(to, &mut text)?;
//!     assert_eq!((&text[..len], peer.ip()), (&b"hello"[..], [10, 0, 0, 1].into()));
//!     Ok(())
//! }
//! ```

pub use ::buf::{Burst, Frame, Pool, PoolConfig, PoolLocks};
pub use ::clock::{Clock, Instant, SimClock};
pub use ::inet::fib::{Prefix, Prefix6};
pub use ::inet::iface::{Iface, IfaceAddr, IfaceId, Offload, Output};
pub use ::inet::ip6::IfaceAddr6;
pub use ::inet::route::{Via, Via6};
pub use ::inet::{Config, Stack};
pub use ::lock::{Cx, How, Light, Locks, Up};
pub use ::socket::{Calls, Drive, Errno, Events, Fd, Opt, OptKind, PollFd, Poller};
/// TCP as a state machine over sequence numbers, without payload.
#[doc(inline)]
pub use ::tcp;
