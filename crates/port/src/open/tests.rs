use super::*;
use buf::{Burst, PoolConfig};
use clock::Instant;

fn env(pairs: &Pairs) -> Env<'_> {
    let pool = Pool::new(&PoolConfig { buffers: 64, ..PoolConfig::default() }).unwrap();
    Env { pool, pairs, mac: Mac([2, 0, 0, 0, 0, 9]), unit: 3 }
}

fn open_text(text: &str, env: &Env<'_>) -> Result<Port, OpenError> {
    open(&Spec::parse(text).unwrap(), env)
}

#[test]
fn generator_addresses_follow_the_unit_unless_overridden() {
    let pairs = Pairs::new();
    let env = env(&pairs);
    let mut port = open_text("pktgen(size=22,ttl=9):pg3", &env).unwrap();
    let mut burst = Burst::new();
    assert_eq!(port.rx.rx_burst(&mut burst, 1, Instant::ZERO), 1);
    assert_eq!(
        wire::eth::Header::parse(burst.as_slice()[0].bytes()).unwrap(),
        wire::eth::Header {
            dst: env.mac,
            src: Mac([0x12, 0x23, 0x34, 0x45, 0x56, 3]),
            ethertype: wire::eth::EtherType::IPV4
        }
    );
    let header = wire::ip4::Header::parse(&burst.as_slice()[0].bytes()[14..]).unwrap();
    assert_eq!((header.src.to_string(), header.dst.to_string(), header.ttl), ("4.0.0.2".into(), "4.0.0.1".into(), 9));
    assert_eq!((port.name.as_str(), port.spec.as_str()), ("pg3", "pktgen(size=22,ttl=9):pg3"));

    let mut port = open_text("pktgen(src=9.8.7.6,dst_mac=02:00:00:00:00:01,order=random,count=1):x", &env).unwrap();
    assert_eq!(port.rx.rx_burst(&mut burst, 9, Instant::ZERO), 1);
    assert_eq!(burst.as_slice()[1].bytes()[26..30], [9, 8, 7, 6]);
    let mut sink = open_text("pktgen(source=off):x", &env).unwrap();
    assert_eq!(sink.rx.rx_burst(&mut burst, 9, Instant::ZERO), 0);
}

#[test]
fn every_unit_has_valid_host_addresses() {
    let first = |unit| match pktgen::net(Family::V4, unit, 9) {
        IpAddr::V4(addr) => [addr.octets()[0], addr.octets()[1]],
        IpAddr::V6(addr) => panic!("{addr}"),
    };
    assert_eq!((first(0), first(9), first(125), first(126)), ([1, 0], [10, 0], [126, 0], [128, 0]));
    assert_eq!((first(220), first(221)), ([222, 0], [1, 1]));
    assert!((0..=u16::MAX).all(|unit| first(unit)[0] != 127 && (1..=223).contains(&first(unit)[0])));
    assert_eq!(pktgen::net(Family::V6, 10, 2).to_string(), "2001:2:0:a::2");
}

#[test]
fn too_small_buffers_are_rejected_at_opening() {
    let pairs = Pairs::new();
    let error = open_text("pktgen(size=3000):big", &env(&pairs)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "pktgen(size=3k):big: frames of 3042 bytes do not fit in the pool's buffers of 2048 bytes: raise pool.data"
    );
}

#[test]
fn a_pair_has_exactly_two_ends() {
    let pairs = Pairs::new();
    let env = env(&pairs);
    let mut a = open_text("pair(slots=4):a", &env).unwrap();
    assert_eq!(pairs.unfinished(), ["a"]);
    let differs = open_text("pair(slots=8):a", &env).unwrap_err();
    assert_eq!(
        differs.to_string(),
        "pair:a: the other end was opened as pair(slots=4):a; use the same options, or none"
    );
    let mut b = open_text("pair:a", &env).unwrap();
    assert!(pairs.unfinished().is_empty());
    assert_eq!(open_text("pair:a", &env).unwrap_err().to_string(), "pair:a: both ends are already open");
    let mut burst = Burst::new();
    env.pool.get_burst(6, &mut burst);
    assert_eq!(a.tx.tx_burst(&mut burst, Instant::ZERO), 4, "as many frames as slots");
    let mut got = Burst::new();
    assert_eq!(b.rx.rx_burst(&mut got, 9, Instant::ZERO), 4);
}

#[test]
fn null_has_the_configured_mtu() {
    let pairs = Pairs::new();
    assert_eq!(open_text("null(mtu=9k):", &env(&pairs)).unwrap().caps.mtu, 9000);
}

/// Checks that each chain of errors contains the port's name once.
#[test]
fn errors_name_the_port_once() {
    for (spec, why, said) in [
        (
            "xdp:vx0",
            "xdp:vx0: no such interface in this network namespace",
            "xdp:vx0: no such interface in this network namespace",
        ),
        ("tap(up=on):lo", "tap:lo: in use", "tap:lo: in use"),
        ("impair(loss=1%):tap:t0", "tap:t0: in use", "tap:t0: in use"),
        ("pcap:/x.pcap", "pcap:/x.pcap: No such file", "pcap:/x.pcap: No such file"),
        ("pair:a", "it has two ends", "pair:a: it has two ends"),
        ("tracer(file=x):pair:a", "tracer: x: No such file", "tracer(file=x):pair:a: tracer: x: No such file"),
        ("tap:tap0", "tap:ap0: in use", "tap:tap0: tap:ap0: in use"),
    ] {
        assert_eq!(port_message(spec, &why), said);
    }
}
