use super::*;

fn bucket(names: &[&str]) -> Bucket {
    decide(names.iter().copied()).1
}

#[test]
fn every_name_has_the_bucket_of_the_part_it_is_of() {
    let names = [
        ("wire::checksum::simd::sum", Bucket::Checksum),
        ("memcpy", Bucket::Copy),
        ("__memmove_avx_unaligned_erms", Bucket::Copy),
        ("core::slice::copy_from_slice", Bucket::Copy),
        ("buf::pool::free::pop", Bucket::Allocation),
        ("_int_malloc", Bucket::Allocation),
        ("lock::light::lock", Bucket::Locks),
        ("std::sync::poison::mutex::lock", Bucket::Locks),
        ("std::thread::functions::panicking", Bucket::Locks),
        ("std::thread::park", Bucket::Scheduling),
        ("inet::fib::table::lookup", Bucket::RouteNeighbor),
        ("inet::neigh::resolve", Bucket::RouteNeighbor),
        ("inet::fib6::lookup", Bucket::RouteNeighbor),
        ("inet::nd::nd_ask", Bucket::RouteNeighbor),
        ("clock::tsc::ticks", Bucket::Time),
        ("[vdso] clock_gettime", Bucket::Time),
        ("tcp::input::segment", Bucket::Tcp),
        ("inet::tcp::output", Bucket::Tcp),
        ("inet::udp::output::emit", Bucket::Udp),
        ("inet::demux::find", Bucket::Udp),
        ("inet::ip4::forward::forward", Bucket::IpEthernet),
        ("wire::eth::emit", Bucket::IpEthernet),
        ("bridge::fdb::learn", Bucket::IpEthernet),
        ("socket::calls::send_to", Bucket::Socket),
        ("port::pktgen::tx_burst", Bucket::Port),
        ("lock::context::enter", Bucket::Scheduling),
        ("node::host::step", Bucket::Scheduling),
        ("[kernel] write", Bucket::Kernel),
        ("apps::testtool::send::run", Bucket::Application),
        ("elsewhere::work", Bucket::Other),
    ];
    for (name, expected) in names {
        assert_eq!(bucket(&[name]), expected, "{name}");
    }
    let missing = [Bucket::Unresolved];
    let all = [
        Bucket::Checksum,
        Bucket::Copy,
        Bucket::Allocation,
        Bucket::Locks,
        Bucket::RouteNeighbor,
        Bucket::Time,
        Bucket::Tcp,
        Bucket::Udp,
        Bucket::IpEthernet,
        Bucket::Socket,
        Bucket::Port,
        Bucket::Scheduling,
        Bucket::Kernel,
        Bucket::Application,
        Bucket::Other,
    ];
    assert!(all.iter().all(|bucket| names.iter().any(|(_, expected)| expected == bucket)));
    assert!(missing.iter().all(|bucket| names.iter().all(|(_, expected)| expected != bucket)), "needs an address");
}

#[test]
fn the_innermost_name_that_a_rule_knows_decides() {
    let names = ["core::num::wrapping_add", "wire::checksum::fold", "inet::udp::output::emit"];
    assert_eq!(decide(names.into_iter()), (1, Bucket::Checksum));
    assert_eq!(
        bucket(&["core::option::unwrap", "inet::route::lookup", "inet::ip4::output::output"]),
        Bucket::RouteNeighbor
    );
    assert_eq!(bucket(&["memcpy", "socket::calls::recv_from"]), Bucket::Copy);
    assert_eq!(bucket(&["core::sync::atomic::fetch_add", "stats::counter::add", "port::null::tx_burst"]), Bucket::Port);
    assert_eq!(
        decide(["a::b", "c::d"].into_iter()),
        (0, Bucket::Other),
        "no rule knows any: the innermost stands for itself"
    );
    assert_eq!(decide(std::iter::empty()), (0, Bucket::Other));
}

#[test]
fn the_demux_is_whose_caller_it_is() {
    let find = |caller| bucket(&["core::hash", "inet::demux::find", "inet::slots::get", caller, "inet::ip4::input"]);
    assert_eq!(find("inet::tcp::input::tcp_input"), Bucket::Tcp);
    assert_eq!(find("inet::udp::input::deliver"), Bucket::Udp);
    let names = ["inet::demux::hash", "node::host::step"];
    assert_eq!(decide(names.into_iter()), (0, Bucket::Udp), "nobody says");
    // Only the demux asks its callers.
    assert_eq!(bucket(&["wire::checksum::sum", "inet::demux::find", "inet::tcp::input"]), Bucket::Checksum);
}

#[test]
fn a_module_is_not_another_that_begins_alike() {
    assert_eq!(bucket(&["buffer::get"]), Bucket::Other);
    assert_eq!(bucket(&["portal"]), Bucket::Other);
    assert_eq!(bucket(&["buf"]), Bucket::Allocation);
}

#[test]
fn no_rule_is_hidden_by_one_before_it() {
    for (expected, patterns) in RULES {
        for pattern in *patterns {
            assert_eq!(of(pattern.trim_end_matches('*')), Some(*expected), "{pattern}");
        }
    }
}
