//! The words of the filter language: keywords, constants, and a small table of services.

use super::protocol::WORDS;
use super::token::{Key, Token};

const KEYS: &[(&str, Key)] = &[
    ("dst", Key::Dst),
    ("src", Key::Src),
    ("host", Key::Host),
    ("net", Key::Net),
    ("mask", Key::Mask),
    ("port", Key::Port),
    ("portrange", Key::PortRange),
    ("proto", Key::Proto),
    ("protochain", Key::ProtoChain),
    ("gateway", Key::Gateway),
    ("less", Key::Less),
    ("greater", Key::Greater),
    ("byte", Key::Byte),
    ("broadcast", Key::Broadcast),
    ("multicast", Key::Multicast),
    ("and", Key::And),
    ("or", Key::Or),
    ("not", Key::Not),
    ("len", Key::Len),
    ("length", Key::Len),
    ("vlan", Key::Vlan),
    ("mpls", Key::Mpls),
    ("pppoed", Key::Pppoed),
    ("pppoes", Key::Pppoes),
    ("llc", Key::Llc),
    ("rnr", Key::Rnr),
];

/// Words of pcap-filter(7) that cannot be tested on a single Ethernet frame, grouped by the reason.
const FOREIGN: &[(&str, &[&str])] = &[
    ("a frame contains neither its direction nor its interface", &["inbound", "outbound", "ifindex"]),
    ("tunnels are not decoded", &["geneve", "vxlan"]),
    (
        "it applies only to 802.11 frames",
        &[
            "type",
            "subtype",
            "dir",
            "direction",
            "addr1",
            "addr2",
            "addr3",
            "addr4",
            "address1",
            "address2",
            "address3",
            "address4",
            "ra",
            "ta",
            "radio",
        ],
    ),
    (
        "it applies only to logs of the packet filter pf",
        &["on", "ifname", "rset", "ruleset", "rulenum", "srnr", "subrulenum", "reason", "action"],
    ),
    (
        "it applies only to ATM",
        &[
            "lane",
            "metac",
            "bcc",
            "oam",
            "oamf4",
            "oamf4ec",
            "oamf4sc",
            "sc",
            "ilmic",
            "vpi",
            "vci",
            "connectmsg",
            "metaconnect",
        ],
    ),
    (
        "it applies only to SS7",
        &[
            "fisu", "lssu", "lsu", "msu", "hfisu", "hlssu", "hmsu", "sio", "opc", "dpc", "sls", "hsio", "hopc", "hdpc",
            "hsls",
        ],
    ),
];

/// Named offsets and values (pcap-filter(7); RFC 792, RFC 4443, RFC 9293 3.1).
const CONSTANTS: &[(&str, u32)] = &[
    ("icmptype", 0),
    ("icmpcode", 1),
    ("icmp-echoreply", 0),
    ("icmp-unreach", 3),
    ("icmp-sourcequench", 4),
    ("icmp-redirect", 5),
    ("icmp-echo", 8),
    ("icmp-routeradvert", 9),
    ("icmp-routersolicit", 10),
    ("icmp-timxceed", 11),
    ("icmp-paramprob", 12),
    ("icmp-tstamp", 13),
    ("icmp-tstampreply", 14),
    ("icmp-ireq", 15),
    ("icmp-ireqreply", 16),
    ("icmp-maskreq", 17),
    ("icmp-maskreply", 18),
    ("icmp6type", 0),
    ("icmp6code", 1),
    ("icmp6-destinationunreach", 1),
    ("icmp6-packettoobig", 2),
    ("icmp6-timeexceeded", 3),
    ("icmp6-parameterproblem", 4),
    ("icmp6-echo", 128),
    ("icmp6-echoreply", 129),
    ("icmp6-multicastlistenerquery", 130),
    ("icmp6-multicastlistenerreportv1", 131),
    ("icmp6-multicastlistenerdone", 132),
    ("icmp6-routersolicit", 133),
    ("icmp6-routeradvert", 134),
    ("icmp6-neighborsolicit", 135),
    ("icmp6-neighboradvert", 136),
    ("icmp6-redirect", 137),
    ("icmp6-routerrenum", 138),
    ("icmp6-nodeinformationquery", 139),
    ("icmp6-nodeinformationresponse", 140),
    ("icmp6-ineighbordiscoverysolicit", 141),
    ("icmp6-ineighbordiscoveryadvert", 142),
    ("icmp6-multicastlistenerreportv2", 143),
    ("icmp6-homeagentdiscoveryrequest", 144),
    ("icmp6-homeagentdiscoveryreply", 145),
    ("icmp6-mobileprefixsolicit", 146),
    ("icmp6-mobileprefixadvert", 147),
    ("icmp6-certpathsolicit", 148),
    ("icmp6-certpathadvert", 149),
    ("icmp6-multicastrouteradvert", 151),
    ("icmp6-multicastroutersolicit", 152),
    ("icmp6-multicastrouterterm", 153),
    ("tcpflags", 13),
    ("tcp-fin", 0x01),
    ("tcp-syn", 0x02),
    ("tcp-rst", 0x04),
    ("tcp-push", 0x08),
    ("tcp-ack", 0x10),
    ("tcp-urg", 0x20),
    ("tcp-ece", 0x40),
    ("tcp-cwr", 0x80),
];

/// Returns the token of a reserved word, or `None` for a name.
pub(super) fn token(word: &str) -> Option<Token<'static>> {
    let foreign = |(why, words): &(&'static str, &[&str])| words.contains(&word).then_some(Token::Foreign(why));
    find(WORDS, word)
        .map(Token::Word)
        .or_else(|| find(KEYS, word).map(Token::Key))
        .or_else(|| find(CONSTANTS, word).map(Token::Number))
        .or_else(|| FOREIGN.iter().find_map(foreign))
}

fn find<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(found, _)| *found == name).map(|(_, value)| *value)
}

/// Transport protocols over which a named service runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Carrier {
    Tcp,
    Udp,
    Both,
}

/// Known services, with the transports of Debian's /etc/services: `port ssh` is TCP alone.
const SERVICES: &[(&str, (u16, Carrier))] = &[
    ("echo", (7, Carrier::Both)),
    ("discard", (9, Carrier::Both)),
    ("daytime", (13, Carrier::Both)),
    ("chargen", (19, Carrier::Both)),
    ("ftp-data", (20, Carrier::Tcp)),
    ("ftp", (21, Carrier::Tcp)),
    ("ssh", (22, Carrier::Tcp)),
    ("telnet", (23, Carrier::Tcp)),
    ("smtp", (25, Carrier::Tcp)),
    ("time", (37, Carrier::Both)),
    ("whois", (43, Carrier::Tcp)),
    ("domain", (53, Carrier::Both)),
    ("bootps", (67, Carrier::Udp)),
    ("bootpc", (68, Carrier::Udp)),
    ("tftp", (69, Carrier::Udp)),
    ("http", (80, Carrier::Tcp)),
    ("kerberos", (88, Carrier::Both)),
    ("pop3", (110, Carrier::Tcp)),
    ("sunrpc", (111, Carrier::Both)),
    ("nntp", (119, Carrier::Tcp)),
    ("ntp", (123, Carrier::Udp)),
    ("imap2", (143, Carrier::Tcp)),
    ("snmp", (161, Carrier::Both)),
    ("snmp-trap", (162, Carrier::Both)),
    ("bgp", (179, Carrier::Tcp)),
    ("ldap", (389, Carrier::Both)),
    ("https", (443, Carrier::Both)),
    ("microsoft-ds", (445, Carrier::Tcp)),
    ("submissions", (465, Carrier::Tcp)),
    ("isakmp", (500, Carrier::Udp)),
    ("syslog", (514, Carrier::Udp)),
    ("route", (520, Carrier::Udp)),
    ("dhcpv6-client", (546, Carrier::Udp)),
    ("dhcpv6-server", (547, Carrier::Udp)),
    ("submission", (587, Carrier::Tcp)),
    ("ldaps", (636, Carrier::Both)),
    ("domain-s", (853, Carrier::Both)),
    ("imaps", (993, Carrier::Tcp)),
    ("pop3s", (995, Carrier::Tcp)),
    ("radius", (1812, Carrier::Both)),
    ("nfs", (2049, Carrier::Both)),
    ("mysql", (3306, Carrier::Tcp)),
    ("sip", (5060, Carrier::Both)),
    ("mdns", (5353, Carrier::Udp)),
    ("postgresql", (5432, Carrier::Tcp)),
];

pub(super) fn service(name: &str) -> Option<(u16, Carrier)> {
    find(SERVICES, name)
}

/// IP protocol names, as in /etc/protocols.
const PROTOCOLS: &[(&str, u32)] = &[
    ("ip", 0),
    ("hopopt", 0),
    ("icmp", 1),
    ("igmp", 2),
    ("ipencap", 4),
    ("tcp", 6),
    ("egp", 8),
    ("igp", 9),
    ("udp", 17),
    ("ipv6", 41),
    ("ipv6-route", 43),
    ("ipv6-frag", 44),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ipv6-icmp", 58),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("ospf", 89),
    ("ipip", 94),
    ("pim", 103),
    ("ipcomp", 108),
    ("vrrp", 112),
    ("l2tp", 115),
    ("isis", 124),
    ("sctp", 132),
    ("udplite", 136),
];

pub(super) fn ip_protocol(name: &str) -> Option<u32> {
    find(PROTOCOLS, name)
}

/// Names that `ether proto` accepts. Numbers of 1536 and above are EtherTypes, smaller ones are
/// 802.2 service access points (SAPs).
const ETHER_PROTOCOLS: &[(&str, u32)] = &[
    ("aarp", 0x80f3),
    ("arp", 0x0806),
    ("atalk", 0x809b),
    ("decnet", 0x6003),
    ("ip", 0x0800),
    ("ip6", 0x86dd),
    ("lat", 0x6004),
    ("loopback", 0x9000),
    ("mopdl", 0x6001),
    ("moprc", 0x6002),
    ("rarp", 0x8035),
    ("sca", 0x6007),
    ("iso", 0xfe),
    ("stp", 0x42),
    ("ipx", 0xe0),
    ("netbeui", 0xf0),
];

pub(super) fn ether_protocol(name: &str) -> Option<u32> {
    find(ETHER_PROTOCOLS, name)
}

/// Returns the OSI network layer protocol identifier of a protocol name (ISO/IEC TR 9577).
pub(super) fn osi_protocol(name: &str) -> Option<u32> {
    find(&[("clnp", 0x81), ("esis", 0x82), ("isis", 0x83)], name)
}

/// Returns `(value, mask)` for the 802.2 control field of a frame type (IEEE 802.2 5.4).
pub(super) fn llc_kind(name: &str) -> Option<(u32, u32)> {
    const FORMAT: &[(&str, (u32, u32))] = &[("i", (0, 0x01)), ("s", (1, 0x03)), ("u", (3, 0x03))];
    const KINDS: &[(&str, (u32, u32))] = &[
        ("rr", (0x01, 0x0f)),
        ("rnr", (0x05, 0x0f)),
        ("rej", (0x09, 0x0f)),
        ("ui", (0x03, 0xef)),
        ("ua", (0x63, 0xef)),
        ("disc", (0x43, 0xef)),
        ("dm", (0x0f, 0xef)),
        ("sabme", (0x6f, 0xef)),
        ("test", (0xe3, 0xef)),
        ("xid", (0xaf, 0xef)),
        ("frmr", (0x87, 0xef)),
    ];
    find(FORMAT, &name.to_ascii_lowercase()).or_else(|| find(KINDS, name))
}
