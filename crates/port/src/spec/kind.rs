//! The kinds of ports and wrappers and their options, each with name, form, default and
//! description. This is the only place where they are declared.

use super::option::{Fallback, OptionInfo};
use super::value::Form;
use std::fmt;
use std::str::FromStr;

/// A kind of port or wrapper.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Port that generates and discards UDP frames.
    Pktgen,
    /// Port that receives nothing and discards everything sent.
    Null,
    /// Port that is one end of a pair of connected ports.
    Pair,
    /// Port of an in-memory Ethernet controller with descriptor rings.
    Nic,
    /// Port on a TAP device of the kernel.
    Tap,
    /// Port on a TUN device of the kernel, which carries IP packets without Ethernet headers.
    Tun,
    /// Port on a kernel interface, through packet sockets.
    Packet,
    /// Port on a queue of a network interface, through AF_XDP.
    Xdp,
    /// Port that exchanges frames with another process over a UNIX socket.
    Unix,
    /// Port that receives frames from a capture file and writes sent frames to another.
    Pcap,
    /// Port on files or FIFOs with one frame per line of text.
    Text,
    /// Wrapper that writes all passing frames to a capture file.
    Tracer,
    /// Wrapper that drops, delays, reorders and corrupts frames.
    Impair,
}

/// Description of a kind of port or wrapper.
#[derive(PartialEq, Eq, Debug)]
pub struct Info {
    /// Name of the kind.
    pub name: &'static str,
    /// True if the kind is a wrapper around another port.
    pub wrapper: bool,
    /// Description in one sentence.
    pub sentence: &'static str,
    /// Rule for the port's name, which is the text after the colon. Not used for wrappers.
    pub names: NameRule,
    /// Options of the kind.
    pub options: &'static [OptionInfo],
}

/// Rule for the names that a kind of port allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameRule {
    /// Any name, or an empty one.
    Any,
    /// Any name that is not empty.
    Some,
    /// Name of a network interface.
    Interface,
    /// Path of a UNIX socket.
    Socket,
    /// Name of a file; `-` is standard input or output.
    File,
}

/// Maximum length of a socket's path in bytes (unix(7)).
const SOCKET_PATH_MAX: usize = 107;

impl NameRule {
    /// Checks the name of a port. The error describes the names that the rule allows.
    pub(super) fn check(self, name: &str) -> Result<(), &'static str> {
        let plain = !name.contains(char::is_control);
        let (good, expected) = match self {
            NameRule::Any => (plain, "a name without control characters, or none"),
            NameRule::Some => (plain && !name.is_empty(), "a name without control characters"),
            NameRule::Socket => {
                (plain && (1..=SOCKET_PATH_MAX).contains(&name.len()), "the path of a socket, of at most 107 bytes")
            }
            NameRule::File => (plain && !name.is_empty(), "a file name, or - for standard input or output"),
            NameRule::Interface => (
                // Names that the kernel's dev_valid_name accepts, with a percent sign only as in
                // tap%d.
                (1..=15).contains(&name.len())
                    && name.bytes().all(|b| b.is_ascii_graphic() && b != b'/' && b != b':')
                    && !matches!(name, "." | "..")
                    && (!name.contains('%') || (name.matches('%').count() == 1 && name.ends_with("%d"))),
                "an interface name of 1 to 15 characters without / : and spaces",
            ),
        };
        if good { Ok(()) } else { Err(expected) }
    }
}

const fn option(name: &'static str, form: Form, fallback: Fallback, sentence: &'static str) -> OptionInfo {
    OptionInfo { name, form, fallback, sentence }
}

use Fallback::{Is, Open, Required};
const ANY: Form = Form::Count { min: 0, max: u64::MAX };
const L4PORT: Form = Form::Count { min: 0, max: 65_535 };
const MTU: Form = Form::Count { min: 68, max: 65_521 };
const SNAPLEN: OptionInfo =
    option("snaplen", Form::Count { min: 1, max: 262_144 }, Is("262144"), "Maximum bytes written per frame.");
const TIME: OptionInfo = option(
    "time",
    Form::Word(&["clock", "wall"]),
    Is("clock"),
    "Clock of the timestamps. clock: the program's (the same in every run of a simulation); wall: wall-clock time.",
);

static PKTGEN: Info = Info {
    name: "pktgen",
    wrapper: false,
    sentence: "Generates UDP frames from a template and discards frames sent to it.",
    names: NameRule::Any,
    options: &[
        option("size", Form::Count { min: 0, max: 65_000 }, Is("22"), "UDP payload size, in bytes."),
        option("rate", Form::Rate, Is("0"), "Number of frames per second; 0: as many as are polled."),
        option("count", ANY, Is("0"), "Total number of frames; 0: unlimited."),
        option(
            "flows",
            Form::Count { min: 1, max: 4_000_000_000 },
            Is("1"),
            "Number of flows: distinct pairs of source address and port.",
        ),
        option(
            "order",
            Form::Word(&["sequence", "random"]),
            Is("sequence"),
            "Order in which flows are used: round robin or pseudo-random.",
        ),
        option("rotate", Form::Switch, Is("off"), "Send to ten different destination MAC addresses in turn."),
        option("static", Form::Switch, Is("off"), "Build frames once and send copies of them (implies id=off)."),
        option(
            "random_dst",
            Form::Switch,
            Is("off"),
            "Choose each IPv4 destination at random from all unicast addresses.",
        ),
        option("id", Form::Switch, Is("on"), "Give each frame its own IP identification and header checksum."),
        option("udp_csum", Form::Switch, Is("off"), "Fill in the UDP checksum."),
        option("rx_csum", Form::Switch, Is("off"), "Mark checksums of generated frames as verified, as a NIC does."),
        option("source", Form::Switch, Is("on"), "Generate frames; off: only discard frames."),
        option("dst_mac", Form::Mac, Open, "Destination MAC address; if omitted, that of the host."),
        option("src_mac", Form::Mac, Open, "Source MAC address; if omitted, 12:23:34:45:56:UNIT (generator number)."),
        option("family", Form::Word(&["4", "6"]), Is("4"), "IP version of the frames."),
        option(
            "src",
            Form::Ip,
            Open,
            "Source address; if omitted, (UNIT+1).0.0.2 or 2001:2:0:UNIT::2 (UNIT: generator).",
        ),
        option("src_port", L4PORT, Is("12345"), "Source UDP port, if flows=1."),
        option(
            "dst",
            Form::Ip,
            Open,
            "Destination address; if omitted, (UNIT+1).0.0.1 or 2001:2:0:UNIT::1 (UNIT: generator).",
        ),
        option("dst_port", L4PORT, Is("54321"), "Destination UDP port."),
        option("ttl", Form::Count { min: 0, max: 255 }, Is("5"), "TTL (IPv4) or hop limit (IPv6)."),
    ],
};

static NULL: Info = Info {
    name: "null",
    wrapper: false,
    sentence: "Receives no frames and discards all frames sent to it.",
    names: NameRule::Any,
    options: &[option("mtu", MTU, Is("1500"), "MTU of the port, in bytes.")],
};

static PAIR: Info = Info {
    name: "pair",
    wrapper: false,
    sentence: "Connects two ports back to back. Open the same name twice, once for each end.",
    names: NameRule::Some,
    options: &[
        option("slots", Form::Count { min: 1, max: 1 << 20 }, Is("256"), "Queue size per direction, in frames."),
        option(
            "csum",
            Form::Switch,
            Is("off"),
            "Omit TCP and UDP checksums, because frames stay in memory and cannot be corrupted.",
        ),
        option("tso", Form::Switch, Is("off"), "Pass large TCP segments unsplit, without checksums."),
        option("mtu", MTU, Is("1500"), "MTU of the port, in bytes."),
    ],
};

static NIC_OPTIONS: [OptionInfo; crate::nic::Settings::INFO.len() + 2] = crate::nic::settings::options(&[
    option(
        "wire",
        Form::Text,
        Open,
        "Name of the wire that connects this nic to another; if omitted, the link is down.",
    ),
    option("mtu", Form::Count { min: 68, max: 9000 }, Is("1500"), "MTU of the port, in bytes."),
]);

static NIC: Info = Info {
    name: "nic",
    wrapper: false,
    sentence: "Models an Ethernet controller with descriptor rings (Intel 8254x) in memory, and its driver.",
    names: NameRule::Some,
    options: &NIC_OPTIONS,
};

const VNET_HDR: OptionInfo =
    option("vnet_hdr", Form::Switch, Is("on"), "Exchange offload requests with the kernel in a virtio header.");
const TUN_RX_CSUM: OptionInfo = option(
    "rx_csum",
    Form::Word(&["complete", "trust", "off"]),
    Is("trust"),
    "Handling of TCP and UDP checksums that the kernel left incomplete. trust: accept them, and complete them when \
     forwarding to a wire; complete: complete them on receipt; off: make the kernel complete them.",
);
const TX_CSUM: OptionInfo =
    option("tx_csum", Form::Switch, Is("on"), "Let the kernel fill in TCP and UDP checksums of sent frames.");
const TSO: OptionInfo = option("tso", Form::Switch, Is("on"), "Send large TCP segments unsplit (needs tx_csum).");
const LRO: OptionInfo = option("lro", Form::Switch, Is("on"), "Receive large TCP segments unsplit (needs rx_csum).");
const DEVICE_MTU: OptionInfo = option("mtu", MTU, Open, "MTU to set, in bytes; if omitted, the device's MTU is used.");
const UP: OptionInfo = option("up", Form::Switch, Is("off"), "Bring up the kernel's interface.");

static TAP: Info = Info {
    name: "tap",
    wrapper: false,
    sentence: "Opens a TAP device of the kernel, and creates it if it does not exist.",
    names: NameRule::Interface,
    options: &[
        VNET_HDR,
        TUN_RX_CSUM,
        TX_CSUM,
        TSO,
        LRO,
        DEVICE_MTU,
        option("mac", Form::Mac, Open, "MAC address to set on the kernel's interface."),
        UP,
        option(
            "queues",
            Form::Count { min: 1, max: 256 },
            Is("1"),
            "Number of queues, among which the kernel distributes flows; open NAME once for each queue.",
        ),
    ],
};

static TUN: Info = Info {
    name: "tun",
    wrapper: false,
    sentence: "Opens a TUN device of the kernel, which carries IP packets without Ethernet headers. Creates it if it \
               does not exist.",
    names: NameRule::Interface,
    options: &[VNET_HDR, TUN_RX_CSUM, TX_CSUM, TSO, LRO, DEVICE_MTU, UP],
};

static PACKET: Info = Info {
    name: "packet",
    wrapper: false,
    sentence: "Accesses a kernel interface through packet sockets with rings in shared memory.",
    names: NameRule::Interface,
    options: &[
        option(
            "rx_ring",
            Form::Count { min: 64, max: 65_536 },
            Is("4096"),
            "Receive ring size, in frames; rounded up to a power of two.",
        ),
        option(
            "tx_ring",
            Form::Count { min: 64, max: 4096 },
            Is("512"),
            "Transmit ring size, in frames; rounded up to a power of two.",
        ),
        option(
            "fanout",
            Form::Count { min: 0, max: 65_535 },
            Is("0"),
            "Number of a fanout group, whose ports share the interface's frames; 0: no group.",
        ),
        option(
            "fanout_mode",
            Form::Word(&["hash", "lb", "cpu", "rollover"]),
            Is("hash"),
            "Choice of a port in the group. hash: by flow; lb: in turn; cpu: by CPU; rollover: the first until full.",
        ),
        option(
            "promisc",
            Form::Switch,
            Is("on"),
            "Enable promiscuous mode: also receive frames addressed to other stations.",
        ),
        option("qdisc_bypass", Form::Switch, Is("on"), "Bypass the interface's queueing discipline when sending."),
        option("ignore_outgoing", Form::Switch, Is("on"), "Ignore frames that the interface sends."),
        VNET_HDR,
        option(
            "rx_csum",
            Form::Word(&["complete", "trust"]),
            Is("trust"),
            "Handling of TCP and UDP checksums that a local sender left incomplete. trust: accept them, and complete \
             them when forwarding to a wire; complete: complete them on receipt.",
        ),
        TX_CSUM,
        TSO,
        option("lro", Form::Switch, Is("on"), "Receive large TCP segments unsplit; off: split them on receipt."),
    ],
};

static XDP: Info = Info {
    name: "xdp",
    wrapper: false,
    sentence: "Accesses a queue of a network interface through AF_XDP; its frames bypass the kernel's stack.",
    names: NameRule::Interface,
    options: &[
        option("queue", Form::Count { min: 0, max: 255 }, Is("0"), "Number of the interface's queue."),
        option(
            "mode",
            Form::Word(&["auto", "copy", "zerocopy"]),
            Is("auto"),
            "Transfer of frames. copy: copy each frame; zerocopy: no copy; auto: zero copy if the driver supports it.",
        ),
        option(
            "attach",
            Form::Word(&["auto", "skb", "native"]),
            Is("auto"),
            "Hook of the XDP program. native: driver; skb: the kernel's receive path; auto: native if supported.",
        ),
        option(
            "need_wakeup",
            Form::Switch,
            Is("on"),
            "Notify the kernel of frames to send only when it requests this; off: after every burst.",
        ),
        option(
            "ring",
            Form::Count { min: 64, max: 4096 },
            Is("2048"),
            "Size of each ring, rounded up to a power of two; the fill ring gets at most 1/8 of the pool's buffers.",
        ),
        option(
            "rx_csum",
            Form::Word(&["complete", "trust", "off"]),
            Is("trust"),
            "Handling of TCP and UDP checksums that a local sender left incomplete, on a virtual interface. trust: \
             accept them, and complete them when forwarding to a wire; complete: complete them on receipt; off: pass \
             frames unchanged.",
        ),
    ],
};

static UNIX: Info = Info {
    name: "unix",
    wrapper: false,
    sentence: "Exchanges frames with another process over the UNIX socket NAME, such as QEMU or passt.",
    names: NameRule::Socket,
    options: &[
        option(
            "type",
            Form::Word(&["stream", "dgram"]),
            Is("stream"),
            "Type of the socket. stream: a length of 4 bytes precedes each frame (QEMU's -netdev stream); dgram: each \
             datagram is a frame (-netdev dgram).",
        ),
        option("server", Form::Switch, Is("off"), "Listen at NAME and serve one peer at a time; off: connect to NAME."),
        option(
            "local",
            Form::Text,
            Open,
            "With type=dgram, path to which this port's socket is bound; NAME is the peer's path.",
        ),
        option(
            "reconnect",
            Form::Duration,
            Is("1s"),
            "Interval between attempts to reach the peer; less than 10ms means 10ms. 0s: no further attempts, and a \
             stream port ends with its first connection.",
        ),
        option("mtu", MTU, Is("1500"), "MTU of the port, in bytes."),
    ],
};

static PCAP: Info = Info {
    name: "pcap",
    wrapper: false,
    sentence: "Reads frames from a capture file and writes frames to one.",
    names: NameRule::File,
    options: &[
        option("read", Form::Switch, Is("on"), "Receive frames from the file NAME; off: write sent frames to it."),
        option("write", Form::Text, Open, "File for sent frames; if omitted, they are discarded."),
        option("pace", Form::Switch, Is("off"), "Replay frames at the intervals of their timestamps; off: at once."),
        option("loop", ANY, Is("1"), "Number of times that the file is read; 0: unlimited."),
        option(
            "format",
            Form::Word(&["auto", "pcap", "pcapng"]),
            Is("auto"),
            "Format of the written file; auto: pcap for names in .pcap and .cap, otherwise pcapng.",
        ),
        SNAPLEN,
        TIME,
    ],
};

static TEXT: Info = Info {
    name: "text",
    wrapper: false,
    sentence: "Reads frames as text lines from a file or FIFO, and writes frames as text lines to another.",
    names: NameRule::File,
    options: &[
        option("read", Form::Switch, Is("on"), "Receive frames from the file NAME; off: write sent frames to it."),
        option(
            "write",
            Form::Text,
            Open,
            "File for sent frames; if omitted, text:- writes them to standard output, and other names discard them.",
        ),
        option("strict", Form::Switch, Is("off"), "Stop at the first invalid line; off: count it and continue."),
    ],
};

static TRACER: Info = Info {
    name: "tracer",
    wrapper: true,
    sentence: "Writes all frames of both directions to a pcapng file.",
    names: NameRule::Any,
    options: &[option("file", Form::Text, Required, "Output file; - is standard output."), SNAPLEN, TIME],
};

static IMPAIR: Info = Info {
    name: "impair",
    wrapper: true,
    sentence: "Drops, duplicates, corrupts, delays, reorders and rate-limits frames, reproducibly for a given seed.",
    names: NameRule::Any,
    options: &[
        option("loss", Form::Percent, Is("0%"), "Percentage of frames that are dropped."),
        option("dup", Form::Percent, Is("0%"), "Percentage of frames that are duplicated."),
        option(
            "corrupt",
            Form::Percent,
            Is("0%"),
            "Percentage of frames in which one bit is flipped after checksums are filled in.",
        ),
        option("reorder", Form::Percent, Is("0%"), "Percentage of frames that skip the delay and overtake others."),
        option(
            "gap",
            Form::Count { min: 1, max: 1 << 20 },
            Is("1"),
            "Minimum distance between reordered frames: only every gap-th frame may overtake others.",
        ),
        option("delay", Form::Duration, Is("0ns"), "Delay of every frame."),
        option(
            "jitter",
            Form::Duration,
            Is("0ns"),
            "Maximum random deviation from the delay, up or down. Frames stay in order.",
        ),
        option("rate", Form::Rate, Is("0"), "Rate limit in bits per second (FCS not included); 0: unlimited."),
        option(
            "limit",
            Form::Count { min: 1, max: 1 << 20 },
            Is("1000"),
            "Maximum number of frames held in each direction.",
        ),
        option("seed", ANY, Is("1"), "Seed of the pseudo-random numbers."),
        option("dir", Form::Word(&["rx", "tx", "both"]), Is("tx"), "Direction in which frames are impaired."),
    ],
};

impl Kind {
    /// All kinds, ports first.
    pub const ALL: [Kind; 13] = [
        Kind::Pktgen,
        Kind::Null,
        Kind::Pair,
        Kind::Nic,
        Kind::Tap,
        Kind::Tun,
        Kind::Packet,
        Kind::Xdp,
        Kind::Unix,
        Kind::Pcap,
        Kind::Text,
        Kind::Tracer,
        Kind::Impair,
    ];

    /// Returns the description of the kind.
    pub fn info(self) -> &'static Info {
        match self {
            Kind::Pktgen => &PKTGEN,
            Kind::Null => &NULL,
            Kind::Pair => &PAIR,
            Kind::Nic => &NIC,
            Kind::Tap => &TAP,
            Kind::Tun => &TUN,
            Kind::Packet => &PACKET,
            Kind::Xdp => &XDP,
            Kind::Unix => &UNIX,
            Kind::Pcap => &PCAP,
            Kind::Text => &TEXT,
            Kind::Tracer => &TRACER,
            Kind::Impair => &IMPAIR,
        }
    }

    /// Returns the option called `name`; `None` if the kind has no such option.
    pub fn option(self, name: &str) -> Option<&'static OptionInfo> {
        self.info().options.iter().find(|option| option.name == name)
    }
}

impl FromStr for Kind {
    type Err = ();
    fn from_str(word: &str) -> Result<Kind, ()> {
        Kind::ALL.into_iter().find(|kind| kind.info().name == word).ok_or(())
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.info().name)
    }
}
