//! What a sample was for: the groups in which rtems2014's profile is read, and the one table of rules that sorts into them.
//!
//! A sample's names go from the innermost inlined function outwards. The first that a rule knows decides: it gives the
//! bucket, and its own name to the table's row. So an `unwrap` inlined into a FIB lookup is the lookup's, a `memcpy` called from
//! anywhere is a copy, and what the standard library does for a lock is the lock's. A rule goes by what a function does:
//! where a module holds functions of several kinds, rules name the functions.

use serde::Serialize;

/// A group of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bucket {
    /// Sums of headers and payload, also those that copy on the way.
    Checksum,
    /// Copies and clears.
    Copy,
    /// Buffers and their pools; the heap.
    Allocation,
    /// Locks of every kind.
    Locks,
    /// Routes, FIB, neighbors.
    RouteNeighbor,
    /// Clocks, counters of ticks, the vdso.
    Time,
    /// TCP, with its part of the demux.
    Tcp,
    /// UDP, with its part of the demux.
    Udp,
    /// IP, ICMP and Ethernet of this host's own packets, and the ifaces between them.
    IpEthernet,
    /// Packets and frames of others: IP forwarding, the bridge.
    Forwarding,
    /// The socket calls.
    Socket,
    /// Ports, their wrappers, and the hand-over of frames to a port; frames as text.
    Port,
    /// Whose turn it is: the loop of a host, contexts, threads, wake-ups.
    Scheduling,
    /// System calls, whoever made them.
    Kernel,
    /// Programs on top, the lab itself.
    Application,
    /// A name that no rule knows.
    Other,
    /// No name.
    Unresolved,
}

impl Bucket {
    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Bucket::Checksum => "checksum",
            Bucket::Copy => "copy",
            Bucket::Allocation => "allocation",
            Bucket::Locks => "locks",
            Bucket::RouteNeighbor => "route+neighbor",
            Bucket::Time => "time",
            Bucket::Tcp => "TCP",
            Bucket::Udp => "UDP",
            Bucket::IpEthernet => "IP+Ethernet",
            Bucket::Forwarding => "forwarding",
            Bucket::Socket => "socket",
            Bucket::Port => "port",
            Bucket::Scheduling => "scheduling",
            Bucket::Kernel => "kernel",
            Bucket::Application => "application",
            Bucket::Other => "other",
            Bucket::Unresolved => "unresolved",
        }
    }
}

/// A name belongs to the first rule with a pattern that fits it. A pattern is a module or function and all below it; with a
/// star at its end, whatever begins like that. The particular stands before the general.
const RULES: &[(Bucket, &[&str])] = &[
    (Bucket::Kernel, &["[kernel]*"]),
    // Deadlines are filed here; no clock is read.
    (Bucket::Scheduling, &["clock::wheel"]),
    (
        Bucket::Time,
        &["[vdso]*", "clock", "core_arch::x86::rdtsc", "lab::tsc", "std::time", "std::sys::time", "clock_gettime"],
    ),
    (Bucket::Checksum, &["wire::checksum"]),
    (
        Bucket::Copy,
        &[
            "memcpy*",
            "memmove*",
            "memset*",
            "bzero",
            "__memcpy*",
            "__memmove*",
            "__memset*",
            "compiler_builtins::mem",
            "core::slice::copy_from_slice",
            "core::slice::copy_within",
            "core::slice::fill",
            "core::slice::specialize::fill",
            "core::ptr::copy*",
            "core::intrinsics::copy*",
            "core::ptr::write_bytes",
        ],
    ),
    (
        Bucket::Allocation,
        &[
            "buf",
            "alloc::alloc",
            "alloc::raw_vec",
            "__rust_*",
            "__rdl_*",
            "malloc*",
            "calloc",
            "realloc",
            "free",
            "cfree",
            "_int_*",
            "__libc_malloc*",
            "__libc_free*",
            "mmap*",
            "munmap",
            "madvise",
        ],
    ),
    (Bucket::Scheduling, &["lock::context", "lock::signal"]),
    (
        Bucket::Locks,
        &[
            "lock",
            "std::sync",
            "std::sys::sync",
            "std::thread::functions::panicking", // what a mutex asks for its poison
            "pthread_mutex_*",
            "pthread_rwlock_*",
            "sem_*",
            "__lll_*",
        ],
    ),
    (
        Bucket::RouteNeighbor,
        &[
            "inet::route",
            "inet::fib",
            "inet::fib6",
            "inet::neigh",
            "inet::arp",
            "inet::nd",
            "wire::arp",
            "wire::icmp6::nd",
            // A packet's last step, a host's own packet's too: the neighbor's MAC address.
            "inet::ip4::forward::send_to_neighbor",
            "inet::ip4::forward::remember_gateway",
            "inet::ip6::forward::send_to_neighbor6",
        ],
    ),
    (Bucket::Tcp, &["tcp", "inet::tcp", "wire::tcp"]),
    (Bucket::Udp, &["inet::udp", "inet::demux", "wire::udp"]),
    (
        Bucket::IpEthernet,
        &[
            // Fragments of a host's own packets are made here too, and errors about others' packets are this host's.
            "inet::ip4::forward::output_fragments",
            "inet::ip4::forward::host_unreachable",
            "inet::ip4::forward::maybe_redirect",
            "inet::ip6::forward::host_unreachable6",
        ],
    ),
    (Bucket::Forwarding, &["inet::ip4::forward", "inet::ip6::forward", "bridge"]),
    (Bucket::Port, &["wire::text", "inet::iface::output_one"]),
    (Bucket::IpEthernet, &["inet", "wire"]),
    (Bucket::Socket, &["socket"]),
    (
        Bucket::Port,
        &[
            "port",
            "pipe",
            // A host's side of its ports.
            "node::capture",
            "node::host::output",
            "node::host::output_one",
            "node::host::output_watched",
            "node::host::poll",
            "node::host::transmit",
            "node::host::transmit_one",
            "rung::output",
            "rung::output_one",
        ],
    ),
    (Bucket::Application, &["node::config", "node::control", "node::service", "node::words"]),
    (Bucket::Scheduling, &["dispatch", "node", "std::thread", "std::sys::thread"]),
    (Bucket::Application, &["apps", "cli", "lab", "rung", "sim", "bench"]),
];

/// Whether `name` is the module or function `path`, or below it.
fn is_in(name: &str, path: &str) -> bool {
    name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The bucket of one name, if a rule knows it.
fn of(name: &str) -> Option<Bucket> {
    let fits = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => is_in(name, pattern),
    };
    RULES.iter().find(|(_, patterns)| patterns.iter().any(fits)).map(|(bucket, _)| *bucket)
}

/// Modules that serve several protocols: their time belongs to the caller's protocol (the report's `in_pcblookup_hash` and
/// `callout_reset_on` are TCP's).
const SHARED: [&str; 2] = ["inet::demux", "clock::wheel"];

/// Which of `names`, innermost first, decides, and what.
pub(super) fn decide<'a>(mut names: impl Iterator<Item = &'a str>) -> (usize, Bucket) {
    let known = names.by_ref().enumerate().find_map(|(at, name)| Some((at, name, of(name)?)));
    let Some((at, name, bucket)) = known else { return (0, Bucket::Other) };
    let callers = || names.filter_map(of).find(|caller| matches!(caller, Bucket::Tcp | Bucket::Udp));
    let is_shared = SHARED.iter().any(|module| is_in(name, module));
    (at, if is_shared { callers().unwrap_or(bucket) } else { bucket })
}

#[cfg(test)]
mod tests;
