//! The cost ledger measures processing time by stage without changing the packet path: with the
//! measurement on and off, the same frames are sent and the counters are the same. The types ensure
//! that no code depends on the measurement (`stats::Lap` does not reveal whether it is on).

use crate::common::packets::*;
use crate::common::*;
use linerate_inet::route::Via;
use linerate_inet::udp::Domain;
use lock::Locks;
use stats::Stage;
use std::collections::BTreeMap;
use std::net::SocketAddr;

conversations! {
    traffic_of_every_kind_takes_one_path_with_the_ledger_on_and_off
    every_stage_of_udp_is_booked_once_per_frame
    every_stage_of_tcp_is_booked
    nested_stages_are_booked_once
}

fn router<L: Locks>() -> Host<L> {
    let h = Host::<L>::router();
    h.route("198.51.100.0/24", Via::Gateway(EM1, FAR_GATEWAY.ip));
    h.knows(EM1, FAR_GATEWAY);
    h.knows(EM0, OTHER);
    h.forget_counters();
    h
}

/// Runs one round of traffic; returns what the applications read.
fn round<L: Locks>(h: &Host<L>, [bound, other]: [usize; 2], n: u8) -> Vec<String> {
    let mut seen = Vec::new();
    let datagram = |k: u8| udp_frame(PEER, 1000 + u16::from(k % 3), ME, 9, &[k; 30]);
    let forwarded = |k: u8| Ip::udp((PEER.ip, 1), ([198, 51, 100, k].into(), 9), &[k; 30]).between(PEER, ME);
    // One frame, one chunk, and more than one chunk.
    h.inject(EM0, datagram(n));
    h.inject_all(EM0, (0..20).map(datagram));
    h.inject_all(EM0, (0..70).map(forwarded));
    h.inject_all(EM0, (0..40).map(|k| if k % 2 == 0 { datagram(k) } else { forwarded(k) }));
    // Packets that are answered, rejected, unknown or malformed.
    h.inject(EM0, ping(PEER, ME.ip, 7, u16::from(n), b"ping").between(PEER, ME));
    h.inject(EM0, udp_frame(PEER, 1, ME, 4444, b"no socket"));
    h.inject(EM0, Ip::udp((PEER.ip, 1), ([198, 51, 100, 1].into(), 9), b"late").ttl(1).between(PEER, ME));
    h.inject(EM0, [0xff; 9]);
    // Sends: first through the layers, then with cached headers, in bursts, fragmented, to this
    // host itself, and without a route.
    for to in [at(PEER, 5), at(OTHER, 5), at(OTHER, 5), at(FAR, 5), at(ME, 9), SocketAddr::from(([9, 9, 9, 9], 9))] {
        seen.push(format!("{:?}", h.send(other, &[n; 100], to)));
    }
    seen.push(format!("{:?}", h.send(other, &[n; 4000], at(PEER, 6))));
    let payloads = (0..40).map(|_| &b"burst"[..]);
    seen.push(format!("{:?}", h.stack.udp_send_burst(h.cx(), other, payloads, Some(&at(PEER, 5)))));
    h.advance_secs(1);
    seen.extend(std::iter::from_fn(|| h.recv(bound)).map(|got| format!("{got:?}")));
    seen
}

fn counted<L: Locks>(h: &Host<L>) -> Vec<(String, u64)> {
    h.stack.snapshot().into_iter().map(|one| (one.name, one.value)).collect()
}

fn traffic_of_every_kind_takes_one_path_with_the_ledger_on_and_off<L: Locks>() {
    let [on, off] = [router::<L>(), router::<L>()];
    on.stack.set_ledger(true);
    let sockets = [&on, &off].map(|h| [h.bound(9), h.bound(10)]);
    for n in 0..20 {
        assert_eq!(round(&on, sockets[0], n), round(&off, sockets[1], n), "round {n}");
        for iface in [EM0, EM1] {
            assert_eq!(on.sent(iface), off.sent(iface), "round {n}");
        }
    }
    assert_eq!(counted(&on), counted(&off));
    let names = ["inet.udp.header_cached", "inet.ip4.forwarded", "inet.ip4.delivered", "inet.udp.delivered"];
    let tried = |name: &str| counted(&on).iter().any(|(counter, n)| counter == name && *n > 0);
    names.iter().for_each(|name| assert!(tried(name), "{name}: {:?}", counted(&on)));
    let locks = |h: &Host<L>| h.stack.lock_use();
    assert_eq!(locks(&on), locks(&off), "the same locks are acquired the same number of times");
    [&on, &off].iter().for_each(|h| h.audit());
    assert!(on.stack.ledger().readings > 0);
    assert_eq!(off.stack.ledger(), stats::Costs::default());
}

fn units<L: Locks>(h: &Host<L>, act: impl FnOnce()) -> BTreeMap<&'static str, u64> {
    let before = h.stack.ledger();
    act();
    h.stack.ledger().since(&before).stages.iter().map(|cost| (cost.stage.word(), cost.units)).collect()
}

fn expect(stages: &[(Stage, u64)]) -> BTreeMap<&'static str, u64> {
    stages.iter().map(|(stage, units)| (stage.word(), *units)).collect()
}

fn every_stage_of_udp_is_booked_once_per_frame<L: Locks>() {
    let h = router::<L>();
    h.stack.set_ledger(true);
    let s = h.bound(9);
    let sent = |to| h.send(s, b"payload", at(to, 5)).map(|_| ()).unwrap();
    let layers =
        [Stage::Socket, Stage::UdpOutput, Stage::Ip4Output, Stage::LinkOutput, Stage::PortTx].map(|stage| (stage, 1));
    assert_eq!(units(&h, || sent(PEER)), expect(&layers), "layer by layer");
    let kept = [Stage::Socket, Stage::UdpOutput, Stage::PortTx].map(|stage| (stage, 1));
    assert_eq!(units(&h, || sent(PEER)), expect(&kept), "with cached headers");
    let burst = || {
        let payloads = (0..40).map(|_| &b"payload"[..]);
        assert_eq!(h.stack.udp_send_burst(h.cx(), s, payloads, Some(&at(PEER, 5))), Ok(40));
    };
    assert_eq!(units(&h, burst), expect(&[(Stage::Socket, 1), (Stage::UdpOutput, 40), (Stage::PortTx, 40)]));
    let input = [Stage::LinkInput, Stage::Ip4Input, Stage::Ip4Forward, Stage::Demux];
    let datagram = || udp_frame(PEER, 1000, ME, 9, b"payload");
    assert_eq!(units(&h, || h.inject(EM0, datagram())), expect(&input.map(|stage| (stage, 1))), "alone");
    let burst = || h.inject_all(EM0, (0..40).map(|_| datagram()));
    assert_eq!(units(&h, burst), expect(&input.map(|stage| (stage, 40))), "a burst");
    let forwarded = || Ip::udp((PEER.ip, 1), ([198, 51, 100, 1].into(), 9), b"payload").between(PEER, ME);
    let router = [Stage::LinkInput, Stage::Ip4Input, Stage::Ip4Forward, Stage::PortTx].map(|stage| (stage, 40));
    assert_eq!(units(&h, || h.inject_all(EM0, (0..40).map(|_| forwarded()))), expect(&router), "forwarded");
}

fn every_stage_of_tcp_is_booked<L: Locks>() {
    let client = Host::<L>::new();
    let server = Host::<L>::bare(512, 2);
    server.add_iface("em0", PEER, 1500);
    client.knows(EM0, PEER);
    server.knows(EM0, ME);
    [&client, &server].iter().for_each(|h| h.stack.set_ledger(true));
    let listener = server.stack.tcp_open(server.cx(), Domain::Inet).unwrap();
    server.stack.tcp_bind(server.cx(), listener, any(80)).unwrap();
    server.stack.tcp_listen(server.cx(), listener, 8).unwrap();
    let id = client.stack.tcp_open(client.cx(), Domain::Inet).unwrap();
    client.stack.tcp_connect(client.cx(), id, at(PEER, 80)).unwrap();
    pump(&client, &server);
    let (child, _) = server.stack.tcp_accept(server.cx(), listener).unwrap();
    let send = || assert_eq!(client.stack.tcp_send(client.cx(), id, &[7; 100], true), Ok(100));
    let sent = units(&client, send);
    let stages: Vec<&str> = sent.keys().copied().collect();
    assert_eq!(stages, [Stage::TcpOutput, Stage::PortTx, Stage::Socket].map(Stage::word), "{sent:?}");
    assert_eq!((sent["inet.tcp.output"], sent["port.tx"], sent["socket"]), (1, 1, 1));
    let frames = client.sent_at_once(EM0);
    let came = units(&server, || server.inject_all(EM0, frames));
    assert!(came["inet.demux"] == 1 && came["inet.link.ether.input"] == 1, "{came:?}");
    let read = units(&server, || {
        assert_eq!(server.stack.tcp_recv(server.cx(), child, &mut [0; 200]), Ok(100));
    });
    assert_eq!(read["socket"], 1, "{read:?}");
    assert!(client.stack.tcp_close(client.cx(), id, true));
    for id in [child, listener] {
        assert!(server.stack.tcp_close(server.cx(), id, true));
    }
}

fn nested_stages_are_booked_once<L: Locks>() {
    // An echo is answered during input: IPv4 output and link output are nested in it.
    let h = router::<L>();
    h.stack.set_ledger(true);
    let before = clock::tsc::ticks();
    for seq in 0..500 {
        h.inject(EM0, ping(PEER, ME.ip, 7, seq, b"ping").between(PEER, ME));
    }
    let passed = clock::tsc::ticks() - before;
    let costs = h.stack.ledger();
    let booked: u64 = costs.stages.iter().map(|cost| cost.ticks).sum();
    assert!(booked <= passed, "{booked} ticks recorded of {passed}: {costs:?}");
    let of = |stage| costs.stages.iter().find(|cost| cost.stage == stage).map_or(0, |cost| cost.units);
    assert_eq!((of(Stage::Ip4Output), of(Stage::LinkOutput), of(Stage::PortTx)), (500, 500, 500), "{costs:?}");
}
