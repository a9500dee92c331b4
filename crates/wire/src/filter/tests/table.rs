//! All primitives, with the samples of this crate that they match.

use super::frames;
use crate::filter::Filter;
use crate::samples;

/// Returns the names of the samples that an expression matches.
fn samples_of(expression: &str) -> Vec<&'static str> {
    let filter = Filter::compile(expression).unwrap_or_else(|why| panic!("{why}"));
    samples::frames().into_iter().filter(|(_, frame)| filter.matches(frame)).map(|(name, _)| name).collect()
}

const TCP: &[&str] = &["tcp_syn", "tcp_ack", "tcp_sack", "tcp_data", "tcp_fin", "tcp_rst", "tcp_urg"];
const UDP4: &[&str] = &["rump_udp", "udp_fragment", "udp_options"];
const V6: &[&str] = &["udp6", "echo6", "hop_by_hop6", "fragment6"];
const ARP: &[&str] = &["arp_request", "arp_reply"];
const BPDU: &[&str] = &["bpdu_rst", "bpdu_config", "bpdu_tcn"];
const IGMP: &[&str] = &["igmp_query", "igmp_query_group", "igmp_report", "igmp_leave"];

#[test]
fn primitives() {
    let cases: &[(&str, &[&str])] = &[
        ("ip6", V6),
        ("arp", ARP),
        ("rarp", &[]),
        ("tcp", TCP),
        ("igmp", IGMP),
        ("icmp6", &["echo6"]),
        ("ip and udp", UDP4),
        ("ip6 and udp", &["udp6", "fragment6"]),
        ("ip6 proto 0", &["hop_by_hop6"]),
        ("ip proto 2", IGMP),
        ("ip proto \\tcp", TCP),
        ("ether proto 0x0806", ARP),
        ("ether proto \\ip6", V6),
        ("ip and host 224.1.2.3", IGMP),
        ("ip multicast", IGMP),
        ("ether multicast", BPDU),
        ("stp", BPDU),
        ("ether host 01:80:c2:00:00:00 and less 60", BPDU),
        ("ether broadcast", &[]),
        ("arp dst 1.0.0.2", ARP),
        ("dst net 224.0.0.0/4", IGMP),
        ("dst net 224", IGMP),
        ("ip6 and src fd00::1", V6),
        ("ip6 and net fd00::/16", V6),
        ("src host fd00::2", &[]),
        ("not ether src 2:0:0:0:0:1", &[]),
        ("ether dst 02-00-00-00-00-01", &[]),
        ("port 5001", TCP),
        ("tcp dst port 5001", TCP),
        ("tcp src port 5001", &[]),
        ("src portrange 39999-40001", TCP),
        ("ip6 and port 55443", &["udp6"]),
        // The sample `udp_fragment` is a later fragment and has no ports.
        ("ip and udp port 55443", &["rump_udp", "udp_options"]),
        ("vlan", &["vlan_udp", "qinq_udp"]),
        ("vlan 100", &["vlan_udp", "qinq_udp"]),
        ("vlan and ip", &["vlan_udp"]),
        ("vlan and vlan and udp port 55443", &["qinq_udp"]),
        ("vlan 99", &[]),
        ("pppoed or pppoes or mpls", &[]),
        ("greater 154", &["tcp_data"]),
        ("less 42 and not igmp", ARP),
        ("len = 154", &["tcp_data"]),
        ("tcp[tcpflags] & (tcp-syn|tcp-fin) != 0", &["tcp_syn", "tcp_fin"]),
        ("tcp[tcpflags] = tcp-rst", &["tcp_rst"]),
        ("icmp[icmptype] = icmp-echo", &["echo_request"]),
        ("icmp[0] = 3 and icmp[icmpcode] = 4", &["frag_needed"]),
        ("icmp6[icmp6type] = icmp6-echo", &["echo6"]),
        ("ip[6:2] & 0x1fff != 0", &["udp_fragment"]),
        ("ip[0] & 0xf > 5", &["udp_options"]),
        ("arp[6:2] = 2", &["arp_reply"]),
        ("ether[12:2] = 0x88a8", &["qinq_udp"]),
        ("byte 12 = 0x86", V6),
        ("byte 12 & 0x06 and byte 13 | 0", V6),
        ("tcp[12] >> 4 > 8", &["tcp_syn", "tcp_sack"]),
    ];
    for (expression, expected) in cases {
        let found = samples_of(expression);
        assert_eq!(found, *expected, "{expression}");
    }
}

#[test]
fn what_differs_from_libpcap() {
    let rump = samples::rump_frame();
    for (expression, matches) in [
        // A load as a divisor or a shift, and a value in several parentheses.
        ("128 / ip[8] = 2", true),
        ("1 << ip[0] - 0x44 = 2", true),
        ("host ((1.0.0.1))", true),
        ("port ((12345) or 1)", true),
        // `byte` reads the byte of the frame, not the current contents of a register.
        ("byte 0 & 2", true),
        ("byte 0 & 1", false),
        ("byte 1 | 0", false),
        ("byte 1 | 4", true),
    ] {
        assert_eq!(Filter::compile(expression).unwrap().matches(&rump), matches, "{expression}");
    }
    // libpcap's optimizer finds that this is always true, and omits the load.
    assert!(!Filter::compile("ip or not ip").unwrap().matches(&rump[..12]));
}

#[test]
fn blank_text_matches_everything() {
    for text in ["", " \t\n"] {
        let filter = Filter::compile(text).unwrap();
        assert!(frames::all().iter().all(|of| filter.matches_captured(&of.frame, of.wire_len)));
    }
}

#[test]
fn a_truncated_frame_matches_nothing_even_negated() {
    let rump = samples::rump_frame();
    for expression in ["tcp port 443", "host 9.9.9.9 or port 1", "ip[20] = 0", "not ip[20] = 0x30"] {
        let filter = Filter::compile(expression).unwrap();
        let negated = Filter::compile(&format!("not ({expression})")).unwrap();
        assert!(filter.matches(&rump) != negated.matches(&rump), "{expression}");
        assert!(!filter.matches(&rump[..13]) && !negated.matches(&rump[..13]), "{expression}");
    }
}

#[test]
fn lengths_are_wire_lengths() {
    let rump = samples::rump_frame();
    let long = Filter::compile("greater 1000 and udp").unwrap();
    assert!(!long.matches(&rump) && !long.matches_captured(&rump, 999));
    assert!(long.matches_captured(&rump, 1000) && long.matches_captured(&rump[..24], usize::MAX));
}
