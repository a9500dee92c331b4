//! Ports: the points where frames enter and leave hosts and bridges.
//!
//! A port is named by its kind, its options in brackets, and its name:
//!
//! | specification | port |
//! |---|---|
//! | `pair:NAME` | one end of a virtual cable; the second host that uses the name gets the other end |
//! | `tap:NAME` | a TAP device of the kernel |
//! | `tun:NAME` | a TUN device of the kernel: IP packets without Ethernet headers, not for bridges |
//! | `packet:NAME` | a network interface of the kernel, through packet sockets |
//! | `xdp:NAME` | a network interface of the kernel, through AF_XDP |
//! | `unix:PATH` | a UNIX socket, shared with QEMU, passt or another program |
//! | `pcap:FILE` | frames from a capture file |
//! | `text:FILE` | frames as lines of text |
//! | `pktgen:NAME` | a generator of frames |
//! | `null:NAME` | receives nothing, discards everything |
//!
//! Wrappers precede the port, as in `impair(loss=1%,delay=10ms):tap:tap0` and
//! `tracer(file=x.pcapng):pair:cable`. `linerate ports` describes all kinds and options.
//!
//! A port of your own is a [`FrameSource`] and a [`FrameSink`]
//! ([`HostBuilder::frames`](crate::HostBuilder::frames)), or a [`channel`]:
//!
//! ```
//! use linerate::{Host, port};
//! use std::time::Duration;
//!
//! let (end, sender, receiver) = port::channel(64);
//! let host = Host::builder().channel("chan0", end).addr("10.0.0.1/24").build()?;
//! // An ARP request for 10.0.0.1, from 10.0.0.2.
//! let mut request = vec![0xff; 6];
//! request.extend([2, 0, 0, 0, 0, 2, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2]);
//! request.extend([0, 0, 0, 0, 0, 0, 10, 0, 0, 1]);
//! sender.send(&request)?;
//! let answers = |frame: &Vec<u8>| frame[12..14] == [8, 6] && frame[20..22] == [0, 2];
//! let reply = std::iter::repeat_with(|| receiver.recv(Duration::from_secs(5))).find(|frame| frame.as_ref().map_or(true, answers));
//! assert_eq!(reply.unwrap()?[28..32], [10, 0, 0, 1]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod relay;

use ::port::Pairs;
use std::sync::{Arc, LazyLock};

/// Frames, bursts of frames, and the pool from which a port takes buffers for received frames.
pub use ::buf::{Burst, Frame, Pool};
/// An open port, as returned by the function passed to
/// [`HostBuilder::own_port`](crate::HostBuilder::own_port).
pub use ::port::Port as OpenPort;
/// Sources and sinks of frames over UNIX sockets, as QEMU and other virtual machine monitors use
/// them.
pub use ::port::own::unix;
pub use ::port::own::{ChannelPort, FrameReceiver, FrameSender, FrameSink, FrameSource, channel};
/// The halves of a port that moves bursts of frames itself.
pub use ::port::{Caps, LinkState, PortCounts, RxHalf, TxHalf};
pub use relay::{Relay, Towards, Verdict};

/// Virtual cables of this process by name.
static PAIRS: LazyLock<Arc<Pairs>> = LazyLock::new(Arc::default);

/// Returns the registry of virtual cables that all hosts and bridges of the library share.
pub(crate) fn pairs() -> &'static Arc<Pairs> {
    &PAIRS
}
