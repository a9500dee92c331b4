//! Checks by the counters of hosts and ports that each row of `bench tcp` measures what its title
//! states.

use super::*;
use crate::subject::Subject;

const SOFT: Link = Link { family: Domain::Inet, mtu: 1500, offload: false };
const HARD: Link = Link { offload: true, ..SOFT };
const LARGE: Link = Link { mtu: 65_521, ..HARD };
const SIX: Link = Link { family: Domain::Inet6, ..SOFT };

/// Returns the values of counters, and the frames and bytes sent, of one host.
fn counted(host: &Host<Up>, names: &[&str]) -> Vec<u64> {
    let port = &host.ports()[0].counts.tx;
    let counters = names.iter().map(|name| host.stack.counter(name));
    counters.chain([port.frames.get(), port.bytes.get()]).collect()
}

/// Returns the growth of each value.
fn grown(before: &[u64], after: &[u64]) -> Vec<u64> {
    before.iter().zip(after).map(|(before, after)| after - before).collect()
}

#[test]
fn a_streams_segments_have_the_size_of_its_row_and_its_checksums_are_where_the_row_has_them() {
    for (link, least, most) in
        [(SOFT, 1_300, 1_514), (HARD, 1_300, 1_514), (LARGE, 20_000, 65_535), (SIX, 1_300, 1_514)]
    {
        let mut rig = BulkRig::new("bulk", link).unwrap();
        rig.trial().unwrap();
        let names = ["tcp.out.data", "tcp.out.data_bytes", "tcp.out.retransmitted"];
        let [before, back] = [0, 1].map(|end| counted(rig.ends()[end].host(), &names));
        let ops = rig.trial().unwrap().ops;
        let sent = grown(&before, &counted(rig.ends()[0].host(), &names));
        let answered = grown(&back, &counted(rig.ends()[1].host(), &names));
        let [data, data_bytes, retransmitted, frames, bytes] = sent[..] else { panic!("{sent:?}") };
        // The measured bytes, and those compared afterwards.
        assert!(data_bytes >= ops && retransmitted == 0, "{link:?}: {sent:?} of {ops}");
        assert!((least..=most).contains(&(bytes / frames)), "{link:?}: {} bytes a frame", bytes / frames);
        assert!(frames >= data && answered[0] == 0 && answered[3] < frames, "{link:?}: {sent:?} {answered:?}");
        for end in rig.ends() {
            let host = end.host();
            let offload = host.stack.ifaces().any(|iface| iface.offload().tx_l4);
            assert_eq!(offload, link.offload, "{link:?}");
            assert_eq!(host.stack.counter("inet.tcp.in.bad_checksum"), 0);
        }
    }
}

#[test]
fn a_transaction_is_one_packet_each_way_among_the_connections_that_the_row_has() {
    for (family, idle) in [(Domain::Inet, 0), (Domain::Inet, 50), (Domain::Inet6, 50)] {
        let mut rig = RrRig::tcp("rr.tcp", family, idle).unwrap();
        let names = ["tcp.out.data", "tcp.out.data_bytes", "tcp.out.retransmitted"];
        for host in rig.hosts() {
            assert_eq!(host.stack.counter("tcp.state.established"), idle as u64 + 1);
        }
        let before = rig.hosts().each_ref().map(|host| counted(host, &names));
        assert_eq!(rig.trial().unwrap().ops, TRANSACTIONS);
        for (host, before) in rig.hosts().iter().zip(before) {
            let sent = grown(&before, &counted(host, &names));
            assert_eq!(sent[..3], [TRANSACTIONS, TRANSACTIONS, 0]);
            // The acknowledgement is sent with the answer; on a slow machine some are sent alone.
            assert!(sent[3] >= TRANSACTIONS && sent[3] < 2 * TRANSACTIONS, "{sent:?}");
        }
    }
    for family in [Domain::Inet, Domain::Inet6] {
        let mut rig = RrRig::udp("rr.udp", family).unwrap();
        let before = rig.hosts().each_ref().map(|host| counted(host, &["inet.udp.copied_out"]));
        rig.trial().unwrap();
        for (host, before) in rig.hosts().iter().zip(before) {
            assert_eq!(grown(&before, &counted(host, &["inet.udp.copied_out"]))[..2], [TRANSACTIONS, TRANSACTIONS]);
        }
    }
}

#[test]
fn each_connection_is_opened_accepted_and_closed_from_both_ends() {
    for family in [Domain::Inet, Domain::Inet6] {
        let mut rig = ConnectRig::new("connect_close", family).unwrap();
        let names = ["tcp.state.established", "tcp.state.closed", "tcp.out.resets"];
        let before = rig.hosts().each_ref().map(|host| counted(host, &names));
        assert_eq!(rig.trial().unwrap().ops, CONNECTIONS);
        for (host, before) in rig.hosts().iter().zip(before) {
            let did = grown(&before, &counted(host, &names));
            assert_eq!((did[0], did[2]), (CONNECTIONS, 0), "{did:?}");
            assert!(did[3] >= 3 * CONNECTIONS, "SYN or its answer, FIN, ACK: {did:?}");
        }
    }
}
