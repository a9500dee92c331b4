use super::*;

fn bucket(names: &[&str]) -> Bucket {
    decide(names.iter().copied()).1
}

#[test]
fn names_are_sorted_into_buckets() {
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
        ("fib::table::lookup", Bucket::RouteNeighbor),
        ("inet::neigh::resolve", Bucket::RouteNeighbor),
        ("fib::trie::lookup", Bucket::RouteNeighbor),
        ("inet::nd::nd_ask", Bucket::RouteNeighbor),
        ("clock::tsc::ticks", Bucket::Time),
        ("[vdso] clock_gettime", Bucket::Time),
        ("tcp::input::segment", Bucket::Tcp),
        ("inet::tcp::output", Bucket::Tcp),
        ("inet::udp::output::emit", Bucket::Udp),
        ("inet::demux::find", Bucket::Udp),
        ("inet::ip4::output::ip4_output", Bucket::IpEthernet),
        ("wire::eth::emit", Bucket::IpEthernet),
        ("bridge::fdb::learn", Bucket::Forwarding),
        ("socket::calls::send_to", Bucket::Socket),
        ("port::pktgen::tx_burst", Bucket::Port),
        ("lock::context::enter", Bucket::Scheduling),
        ("node::host::step", Bucket::Scheduling),
        ("[kernel] write", Bucket::Kernel),
        ("programs::testtool::send::run", Bucket::Application),
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
        Bucket::Forwarding,
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
fn the_innermost_name_with_a_rule_decides() {
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
        "no rule matches any name, so the innermost name is used"
    );
    assert_eq!(decide(std::iter::empty()), (0, Bucket::Other));
}

#[test]
fn the_demux_counts_for_its_caller() {
    let find = |caller| bucket(&["core::hash", "inet::demux::find", "inet::slots::get", caller, "inet::ip4::input"]);
    assert_eq!(find("inet::tcp::input::tcp_input"), Bucket::Tcp);
    assert_eq!(find("inet::udp::input::deliver"), Bucket::Udp);
    let names = ["inet::demux::hash", "node::host::step"];
    assert_eq!(decide(names.into_iter()), (0, Bucket::Udp), "nobody says");
    // Only functions of shared modules are classified by their callers.
    assert_eq!(bucket(&["wire::checksum::sum", "inet::demux::find", "inet::tcp::input"]), Bucket::Checksum);
}

/// Functions of this tree, with their expected buckets.
const FUNCTIONS: &[(&str, Bucket)] = &[
    ("inet::ip4::output::reply_to", Bucket::IpEthernet),
    ("inet::ip6::output::reply_to6", Bucket::IpEthernet),
    ("inet::icmp4::icmp4_input", Bucket::IpEthernet),
    ("inet::icmp4::echo", Bucket::IpEthernet),
    ("inet::icmp4::icmp4_error", Bucket::IpEthernet),
    ("inet::icmp6::icmp6_input", Bucket::IpEthernet),
    ("inet::ip4::forward::host_unreachable", Bucket::IpEthernet),
    ("inet::ip4::forward::maybe_redirect", Bucket::IpEthernet),
    ("inet::ip6::forward::host_unreachable6", Bucket::IpEthernet),
    ("inet::ip4::forward::output_fragments", Bucket::IpEthernet),
    ("inet::ip::input::ip_input_one", Bucket::IpEthernet),
    ("inet::link::ether::ether_output", Bucket::IpEthernet),
    ("inet::stack::stage::stage_at_once", Bucket::IpEthernet),
    ("inet::ip::forward::ip_forward", Bucket::Forwarding),
    ("inet::ip4::forward::forward_slow", Bucket::Forwarding),
    ("inet::ip::forward::pass_on_large", Bucket::Forwarding),
    ("inet::ip6::forward::ip6_forward", Bucket::Forwarding),
    ("bridge::fdb::learn", Bucket::Forwarding),
    ("inet::ip::forward::send_to_neighbor", Bucket::RouteNeighbor),
    ("inet::neigh::resolve", Bucket::RouteNeighbor),
    ("fib::lookup_burst", Bucket::RouteNeighbor),
    ("node::host::output::output", Bucket::Port),
    ("node::host::output::output_one", Bucket::Port),
    ("node::host::output::output_watched", Bucket::Port),
    ("node::host::output::poll", Bucket::Port),
    ("node::host::output::transmit", Bucket::Port),
    ("node::host::output::transmit_one", Bucket::Port),
    ("inet::iface::queue::output_one", Bucket::Port),
    ("rung::output", Bucket::Port),
    ("rung::output_one", Bucket::Port),
    ("port::pair::tx_burst", Bucket::Port),
    ("node::host::step", Bucket::Scheduling),
    ("node::sleep::host::wait_for_any", Bucket::Scheduling),
    ("lock::doorbell::wake", Bucket::Scheduling),
    ("node::run::round_with", Bucket::Scheduling),
    ("dispatch::polling::turn", Bucket::Scheduling),
    ("lock::context::current", Bucket::Scheduling),
    ("lock::signal::wait_for", Bucket::Scheduling),
    ("lock::light::lock", Bucket::Locks),
    ("lock::light::owner::acquire", Bucket::Locks),
    ("lock::heavy::obtain", Bucket::Locks),
    ("lock::pins::pin", Bucket::Locks),
    ("clock::live::now", Bucket::Time),
    ("clock::live::timespec", Bucket::Time),
    ("clock::live::divided", Bucket::Time),
    ("clock::tsc::ticks", Bucket::Time),
    ("inet::tcp::timers::tcp_poll", Bucket::Tcp),
    ("tcp::predict::on_expected", Bucket::Tcp),
    ("socket::calls::send_to", Bucket::Socket),
    ("apps::ftp::on_event", Bucket::Application),
    ("node::control::serve", Bucket::Application),
];

/// Returns the name of a function of this tree without its path, and the source file of its module.
fn source_of(name: &str) -> (String, std::path::PathBuf) {
    let parts: Vec<&str> = name.split("::").collect();
    let [package, modules @ .., function] = &parts[..] else { panic!("{name}") };
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let inner = if modules.is_empty() { "lib".to_owned() } else { modules.join("/") };
    ((*function).to_owned(), crates.join(package).join("src").join(inner + ".rs"))
}

fn has_function(source: &str, function: &str) -> bool {
    ["(", "<"].iter().any(|next| source.contains(&format!("fn {function}{next}")))
}

#[test]
fn functions_of_the_stack_are_sorted_by_purpose() {
    for (name, expected) in FUNCTIONS {
        assert_eq!(bucket(&[name]), *expected, "{name}");
        let (function, file) = source_of(name);
        let source = std::fs::read_to_string(&file).unwrap_or_else(|why| panic!("{name}: {}: {why}", file.display()));
        assert!(has_function(&source, &function), "{} has no function {function}", file.display());
    }
}

#[test]
fn every_function_that_a_rule_names_exists() {
    let named = RULES.iter().flat_map(|(_, patterns)| *patterns).filter(|pattern| {
        let house = ["inet::", "node::host::", "rung::"].iter().any(|start| pattern.starts_with(start));
        house && pattern.matches("::").count() + usize::from(pattern.starts_with("rung")) >= 2
    });
    for pattern in named {
        let (function, file) = source_of(pattern);
        let is_module = file.with_extension("").join(format!("{function}.rs")).exists();
        let source = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(is_module || has_function(&source, &function), "{pattern} is in no file");
    }
}

#[test]
fn an_echo_reply_counts_as_ip_and_ethernet() {
    let names = ["inet::ip4::output::reply_to", "inet::icmp4::echo", "inet::icmp4::icmp4_input", "inet::ip4::ip4_run"];
    assert_eq!(bucket(&names), Bucket::IpEthernet);
    // The reply is sent as the host's own, like any other of its packets.
    let names =
        ["inet::ip::forward::send_to_neighbor", "inet::ip4::output::send_packet", "inet::ip4::output::ip4_output"];
    assert_eq!(bucket(&names), Bucket::RouteNeighbor);
}

#[test]
fn the_timer_wheel_counts_for_the_protocol_that_calls_it() {
    assert_eq!(bucket(&["clock::wheel::set", "inet::tcp::timers::tcp_arm", "inet::stack::poll"]), Bucket::Tcp);
    assert_eq!(bucket(&["inet::ready::push", "inet::tcp::wake", "inet::stack::poll"]), Bucket::Tcp);
    assert_eq!(bucket(&["clock::wheel::set", "node::host::step"]), Bucket::Scheduling);
}

#[test]
fn a_module_does_not_match_another_with_the_same_prefix() {
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
