//! The kinds of ports and wrappers, and their options: name, form, default, sentence. This is their
//! only declaration.

use super::{Form, SpecError, Value};
use std::fmt;
use std::str::FromStr;

/// A kind of port or wrapper.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// Generates and sinks UDP frames.
    Pktgen,
    /// Receives nothing and discards everything sent.
    Null,
    /// One end of a pair of connected ports.
    Pair,
    /// An in-memory Ethernet controller with descriptor rings.
    Nic,
    /// A TAP device of the kernel.
    Tap,
    /// A kernel interface, through packet sockets.
    Packet,
    /// A queue of a network interface, through AF_XDP.
    Xdp,
    /// Frames of a capture file.
    Pcap,
    /// Files of text lines.
    Text,
    /// Wrapper: writes all passing frames to a capture file.
    Tracer,
    /// Wrapper: drops, delays, reorders and corrupts frames.
    Impair,
}

/// Description of a kind.
#[derive(PartialEq, Eq, Debug)]
pub struct Info {
    /// Name of the kind.
    pub name: &'static str,
    /// True if it is a wrapper around another port.
    pub wrapper: bool,
    /// Description in one sentence.
    pub sentence: &'static str,
    /// Names that it allows (ports only).
    pub names: NameRule,
    /// Options of the kind.
    pub options: &'static [OptionInfo],
}

/// Names that a kind of port allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameRule {
    /// Any name, or an empty one.
    Any,
    /// Any name that is not empty.
    Some,
    /// Name of a network interface.
    Interface,
    /// Name of a file; `-` is standard input or output.
    File,
}

/// One option of a kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OptionInfo {
    /// Name of the option.
    pub name: &'static str,
    /// Form of its values.
    pub form: Form,
    /// Default behavior if it is not given.
    pub fallback: Fallback,
    /// Description in one sentence.
    pub sentence: &'static str,
}

/// Default of an option that is not given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fallback {
    /// This value, as text.
    Is(&'static str),
    /// Determined when the port is opened, as described in the sentence.
    Open,
    /// No default: the option is required.
    Required,
}

impl OptionInfo {
    /// Returns the default value, if it is fixed.
    pub fn default(&self) -> Option<Value> {
        match self.fallback {
            Fallback::Is(text) => self.form.parse(text),
            Fallback::Open | Fallback::Required => None,
        }
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
    option("snaplen", Form::Count { min: 1, max: 262_144 }, Is("262144"), "Bytes kept of each frame written.");
const TIME: OptionInfo = option(
    "time",
    Form::Word(&["clock", "wall"]),
    Is("clock"),
    "Stamps written: the clock's own (the same in every run of a simulation), or moved to the calendar's time.",
);

static PKTGEN: Info = Info {
    name: "pktgen",
    wrapper: false,
    sentence: "Makes UDP frames from a template and sinks what it is sent.",
    names: NameRule::Any,
    options: &[
        option("size", Form::Count { min: 0, max: 65_000 }, Is("22"), "Payload bytes behind the UDP header."),
        option("rate", Form::Rate, Is("0"), "Frames a second; 0: as fast as it is asked."),
        option("count", ANY, Is("0"), "Frames in all; 0: no end."),
        option("flows", Form::Count { min: 1, max: 4_000_000_000 }, Is("1"), "Different source addresses and ports."),
        option("order", Form::Word(&["sequence", "random"]), Is("sequence"), "In which order the flows take turns."),
        option("rotate", Form::Switch, Is("off"), "Send to ethpipe2013's ten MAC addresses in turn."),
        option("static", Form::Switch, Is("off"), "Make some frames once and give them again and again (id=off)."),
        option(
            "random_dst",
            Form::Switch,
            Is("off"),
            "Draw each IPv4 destination at random from all unicast addresses.",
        ),
        option("id", Form::Switch, Is("on"), "Own IP identification and checksum for each frame."),
        option("udp_csum", Form::Switch, Is("off"), "Fill in the UDP checksum."),
        option("rx_csum", Form::Switch, Is("off"), "Mark checksums as verified, as a NIC does."),
        option("source", Form::Switch, Is("on"), "off: only sink."),
        option("dst_mac", Form::Mac, Open, "Destination MAC address; else the host's."),
        option("src_mac", Form::Mac, Open, "Source MAC address; else 12:23:34:45:56:UNIT."),
        option("family", Form::Word(&["4", "6"]), Is("4"), "IPv4 or IPv6."),
        option("src", Form::Ip, Open, "Source address; else (UNIT+1).0.0.2 or 2001:2:0:UNIT::2."),
        option("src_port", L4PORT, Is("12345"), "Source L4 port (of a single flow)."),
        option("dst", Form::Ip, Open, "Destination address; else (UNIT+1).0.0.1 or 2001:2:0:UNIT::1."),
        option("dst_port", L4PORT, Is("54321"), "Destination L4 port."),
        option("ttl", Form::Count { min: 0, max: 255 }, Is("5"), "Time to live."),
    ],
};

static NULL: Info = Info {
    name: "null",
    wrapper: false,
    sentence: "Gives nothing, takes everything.",
    names: NameRule::Any,
    options: &[option("mtu", MTU, Is("1500"), "The largest packet it claims to take.")],
};

static PAIR: Info = Info {
    name: "pair",
    wrapper: false,
    sentence: "One of two ports joined back to back; opened twice by the same name.",
    names: NameRule::Some,
    options: &[
        option("slots", Form::Count { min: 1, max: 1 << 20 }, Is("256"), "Frames that each direction can hold."),
        option(
            "csum",
            Form::Switch,
            Is("off"),
            "Leave TCP and UDP checksums out: what stays in memory is not corrupted.",
        ),
        option("tso", Form::Switch, Is("off"), "Carry large TCP segments whole, their checksums left out."),
        option("mtu", MTU, Is("1500"), "The largest packet it claims to take."),
    ],
};

static NIC_OPTIONS: [OptionInfo; crate::nic::Knobs::INFO.len() + 2] = crate::nic::knobs::options(&[
    option(
        "wire",
        Form::Text,
        Open,
        "Joined back to back with the other nic of this wire; without one the link is down.",
    ),
    option("mtu", Form::Count { min: 68, max: 9000 }, Is("1500"), "The largest packet."),
]);

static NIC: Info = Info {
    name: "nic",
    wrapper: false,
    sentence: "An Ethernet controller with descriptor rings, in memory, modelled on the 8254x, and its driver.",
    names: NameRule::Some,
    options: &NIC_OPTIONS,
};

static TAP: Info = Info {
    name: "tap",
    wrapper: false,
    sentence: "The kernel's TAP device of that name, made if there is none.",
    names: NameRule::Interface,
    options: &[
        option("vnet_hdr", Form::Switch, Is("on"), "Exchange checksum work with the kernel in a virtio header."),
        option(
            "rx_csum",
            Form::Word(&["complete", "trust", "off"]),
            Is("trust"),
            "Checksums the kernel left open: trust them as they are, to be closed where a frame is passed on to a wire; \
             complete them here; or have the kernel close them.",
        ),
        option("tx_csum", Form::Switch, Is("on"), "Leave TCP and UDP checksums of sent frames to the kernel."),
        option("tso", Form::Switch, Is("on"), "Send large TCP segments uncut (needs tx_csum)."),
        option("lro", Form::Switch, Is("on"), "Receive large TCP segments uncut (needs rx_csum)."),
        option("mtu", MTU, Open, "Set the device's MTU; else it is read."),
        option("mac", Form::Mac, Open, "Set the MAC address of the kernel's side."),
        option("up", Form::Switch, Is("off"), "Bring the kernel's side up."),
        option(
            "queues",
            Form::Count { min: 1, max: 256 },
            Is("1"),
            "Queues of the device: opened so many times in one process it gives a port for each, over which flows are spread.",
        ),
    ],
};

static PACKET: Info = Info {
    name: "packet",
    wrapper: false,
    sentence: "An interface of the kernel, by packet sockets with rings in shared memory.",
    names: NameRule::Interface,
    options: &[
        option(
            "rx_ring",
            Form::Count { min: 64, max: 65_536 },
            Is("4096"),
            "Slots of the receiving ring, rounded up to a power of two: so many frames may wait to be read.",
        ),
        option(
            "tx_ring",
            Form::Count { min: 64, max: 4096 },
            Is("512"),
            "Slots of the sending ring, rounded up to a power of two.",
        ),
        option(
            "fanout",
            Form::Count { min: 0, max: 65_535 },
            Is("0"),
            "Share the interface's frames with the other ports that are opened on it with this number; 0: do not.",
        ),
        option(
            "fanout_mode",
            Form::Word(&["hash", "lb", "cpu", "rollover"]),
            Is("hash"),
            "Which of them gets a frame: by its flow; in turns; by the processor; the first, until it is full.",
        ),
        option("promisc", Form::Switch, Is("on"), "Receive what is addressed to other stations too."),
        option("qdisc_bypass", Form::Switch, Is("on"), "Send past the interface's queueing discipline."),
        option("ignore_outgoing", Form::Switch, Is("on"), "Do not receive what the interface sends."),
        option("vnet_hdr", Form::Switch, Is("on"), "Exchange checksum work with the kernel in a virtio header."),
        option(
            "rx_csum",
            Form::Word(&["complete", "trust"]),
            Is("trust"),
            "Checksums that a local sender left open: trust them as they are, to be closed where a frame is passed on to a wire; \
             or complete them here.",
        ),
        option("tx_csum", Form::Switch, Is("on"), "Leave TCP and UDP checksums of sent frames to the kernel."),
        option("tso", Form::Switch, Is("on"), "Send large TCP segments uncut (needs tx_csum)."),
        option("lro", Form::Switch, Is("on"), "Receive large TCP segments uncut; off: cut them up here."),
    ],
};

static XDP: Info = Info {
    name: "xdp",
    wrapper: false,
    sentence: "A queue of a network interface, whose frames come here and not to the kernel (AF_XDP).",
    names: NameRule::Interface,
    options: &[
        option("queue", Form::Count { min: 0, max: 255 }, Is("0"), "The interface's queue."),
        option(
            "mode",
            Form::Word(&["auto", "copy", "zerocopy"]),
            Is("auto"),
            "Whether the kernel copies each frame; auto: only if the driver cannot do without.",
        ),
        option(
            "attach",
            Form::Word(&["auto", "skb", "native"]),
            Is("auto"),
            "Where frames are taken: in the driver (native), or in the kernel's receive path (skb); auto: the first that works.",
        ),
        option(
            "need_wakeup",
            Form::Switch,
            Is("on"),
            "Call the kernel only when it asks for it; off: after every burst.",
        ),
        option(
            "ring",
            Form::Count { min: 64, max: 4096 },
            Is("2048"),
            "Places in each ring, rounded up to a power of two; at most an eighth of the pool's buffers wait to be filled.",
        ),
        option(
            "rx_csum",
            Form::Word(&["complete", "trust", "off"]),
            Is("trust"),
            "Checksums that a local sender left open, which a virtual interface passes on: trust them as they are, to be closed where a \
             frame is passed on to a wire; complete them here; or leave the frames alone.",
        ),
    ],
};

static PCAP: Info = Info {
    name: "pcap",
    wrapper: false,
    sentence: "Reads frames from a capture file and writes frames to one.",
    names: NameRule::File,
    options: &[
        option("read", Form::Switch, Is("on"), "Receive the frames of the file NAME; off: NAME is written."),
        option("write", Form::Text, Open, "Write sent frames to this file; without it, a reader's are discarded."),
        option("pace", Form::Switch, Is("off"), "Keep the distances between the file's time stamps."),
        option("loop", ANY, Is("1"), "How many times the file is read; 0: no end."),
        option("format", Form::Word(&["auto", "pcap", "pcapng"]), Is("auto"), "Format written; auto: by the name."),
        SNAPLEN,
        TIME,
    ],
};

static TEXT: Info = Info {
    name: "text",
    wrapper: false,
    sentence: "Reads frames as lines of a file or FIFO, and writes frames as lines to another.",
    names: NameRule::File,
    options: &[
        option("read", Form::Switch, Is("on"), "Receive the frames of the file NAME; off: NAME is written."),
        option(
            "write",
            Form::Text,
            Open,
            "Write sent frames to this file; without it, - writes to standard output and others discard them.",
        ),
        option("strict", Form::Switch, Is("off"), "End at the first line that is no frame; off: count it and go on."),
    ],
};

static TRACER: Info = Info {
    name: "tracer",
    wrapper: true,
    sentence: "Writes every frame that passes, in both directions, to a pcapng file.",
    names: NameRule::Any,
    options: &[option("file", Form::Text, Required, "The file; - is standard output."), SNAPLEN, TIME],
};

static IMPAIR: Info = Info {
    name: "impair",
    wrapper: true,
    sentence: "Loses, duplicates, damages, delays, reorders and paces frames, the same way for the same seed.",
    names: NameRule::Any,
    options: &[
        option("loss", Form::Percent, Is("0%"), "Frames lost."),
        option("dup", Form::Percent, Is("0%"), "Frames that come twice."),
        option("corrupt", Form::Percent, Is("0%"), "Frames with one bit flipped, after checksums."),
        option(
            "reorder",
            Form::Percent,
            Is("0%"),
            "Frames that skip delay=, and so overtake others by that time at most.",
        ),
        option("gap", Form::Count { min: 1, max: 1 << 20 }, Is("1"), "Only every gap-th frame may overtake."),
        option("delay", Form::Duration, Is("0ns"), "Time every frame is held."),
        option("jitter", Form::Duration, Is("0ns"), "Delay varies by up to this, either way; order is kept."),
        option("rate", Form::Rate, Is("0"), "Bits a second (FCS not included); 0: no limit."),
        option("limit", Form::Count { min: 1, max: 1 << 20 }, Is("1000"), "Frames held at most in one direction."),
        option("seed", ANY, Is("1"), "Of the pseudo-random numbers."),
        option("dir", Form::Word(&["rx", "tx", "both"]), Is("tx"), "The direction it works on."),
    ],
};

impl Kind {
    /// All kinds, ports first.
    pub const ALL: [Kind; 11] = [
        Kind::Pktgen,
        Kind::Null,
        Kind::Pair,
        Kind::Nic,
        Kind::Tap,
        Kind::Packet,
        Kind::Xdp,
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
            Kind::Packet => &PACKET,
            Kind::Xdp => &XDP,
            Kind::Pcap => &PCAP,
            Kind::Text => &TEXT,
            Kind::Tracer => &TRACER,
            Kind::Impair => &IMPAIR,
        }
    }

    /// Returns the option called `name`.
    pub fn option(self, name: &str) -> Option<&'static OptionInfo> {
        self.info().options.iter().find(|option| option.name == name)
    }

    pub(super) fn check_name(self, name: &str) -> Result<(), SpecError> {
        let plain = !name.contains(char::is_control);
        let (good, expected) = match self.info().names {
            NameRule::Any => (plain, "no control characters"),
            NameRule::Some => (plain && !name.is_empty(), "a name without control characters"),
            NameRule::File => (plain && !name.is_empty(), "a file name, or - for standard input or output"),
            NameRule::Interface => (
                // Names accepted by the kernel's dev_valid_name (a percent sign only as in tap%d).
                (1..=15).contains(&name.len())
                    && name.bytes().all(|b| b.is_ascii_graphic() && b != b'/' && b != b':')
                    && !matches!(name, "." | "..")
                    && (!name.contains('%') || (name.matches('%').count() == 1 && name.ends_with("%d"))),
                "an interface name of 1 to 15 characters without / : and spaces",
            ),
        };
        if good { Ok(()) } else { Err(SpecError::BadName { kind: self, found: name.to_string(), expected }) }
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
