//! Classification of samples: buckets like those of the profile in the report rtems2014, and the
//! table of rules that assigns samples to them.
//!
//! The names of a sample run from the innermost inlined function outwards. The first name that
//! matches a rule determines the bucket and the name of the table's row. So the time of an `unwrap`
//! that is inlined into a FIB lookup is assigned to the lookup, that of a `memcpy` to copying, and
//! that of library code called for a lock to the lock. Rules classify functions by their purpose:
//! if a module has functions of several kinds, rules name the functions.

use serde::Serialize;

/// Bucket: a group of functions with the same purpose, to which samples are assigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bucket {
    /// Checksums of headers and payload, including those that copy at the same time.
    Checksum,
    /// Copying and clearing of memory.
    Copy,
    /// Buffers and their pools; the heap.
    Allocation,
    /// Locks of every kind.
    Locks,
    /// Routes, FIB and neighbor tables.
    RouteNeighbor,
    /// Clocks, tick counters, the vdso.
    Time,
    /// TCP, with its part of the demux.
    Tcp,
    /// UDP, with its part of the demux.
    Udp,
    /// IP, ICMP and Ethernet of this host's own packets, and the ifaces between them.
    IpEthernet,
    /// Forwarding of other hosts' packets and frames: IP forwarding and the bridge.
    Forwarding,
    /// The socket calls of the stack.
    Socket,
    /// Ports, their wrappers, and the transfer of frames to a port; frames as text.
    Port,
    /// Scheduling: the loop of a host, contexts, threads, wake-ups.
    Scheduling,
    /// System calls of any caller.
    Kernel,
    /// Applications, and the measuring code of this crate.
    Application,
    /// Functions that match no rule.
    Other,
    /// Code without a function name.
    Unresolved,
}

impl Bucket {
    /// Returns the display name.
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

/// Rules, of which the first matching one applies. A pattern matches a module or function and
/// everything below it. A pattern with a star at the end is a prefix. Specific rules precede
/// general ones.
const RULES: &[(Bucket, &[&str])] = &[
    (Bucket::Kernel, &["[kernel]*"]),
    // The timer wheel belongs to scheduling, since it reads no clock.
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
    (Bucket::Scheduling, &["lock::context", "lock::doorbell", "lock::signal"]),
    (
        Bucket::Locks,
        &[
            "lock",
            "std::sync",
            "std::sys::sync",
            "std::thread::functions::panicking", // called by a mutex for its poison flag
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
            "fib",
            "inet::neigh",
            "inet::arp",
            "inet::nd",
            "wire::arp",
            "wire::icmp6::nd",
            // Last step of every packet, forwarded or local: the neighbor's MAC address.
            "inet::ip::forward::send_to_neighbor",
        ],
    ),
    (Bucket::Tcp, &["tcp", "inet::tcp", "wire::tcp"]),
    (Bucket::Udp, &["inet::udp", "inet::demux", "inet::ready", "wire::udp"]),
    (
        Bucket::IpEthernet,
        &[
            // `output_fragments` also fragments the host's own packets. The other functions
            // send ICMP messages, which are packets of this host.
            "inet::ip4::forward::output_fragments",
            "inet::ip4::forward::host_unreachable",
            "inet::ip4::forward::maybe_redirect",
            "inet::ip6::forward::host_unreachable6",
        ],
    ),
    (Bucket::Forwarding, &["inet::ip::forward", "inet::ip4::forward", "inet::ip6::forward", "bridge"]),
    (Bucket::Port, &["wire::text", "inet::iface::queue::output_one"]),
    (Bucket::IpEthernet, &["inet", "wire"]),
    (Bucket::Socket, &["socket"]),
    (
        Bucket::Port,
        &[
            "port",
            "pipe",
            // The host's functions that receive from and transmit to ports.
            "node::capture",
            "node::host::output",
            "rung::output",
            "rung::output_one",
        ],
    ),
    (Bucket::Application, &["node::config", "node::control", "node::service", "commands"]),
    (Bucket::Scheduling, &["dispatch", "node", "std::thread", "std::sys::thread"]),
    (Bucket::Application, &["apps", "programs", "linerate", "linerate_cli", "lab", "rung", "pkt", "sim", "bench"]),
];

/// Returns whether `name` is the module or function `path`, or below it.
fn is_in(name: &str, path: &str) -> bool {
    name.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Returns the bucket of a name, if a rule matches.
fn of(name: &str) -> Option<Bucket> {
    let fits = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => is_in(name, pattern),
    };
    RULES.iter().find(|(_, patterns)| patterns.iter().any(fits)).map(|(bucket, _)| *bucket)
}

/// Modules used by several protocols. Their time is assigned to the caller's protocol, as in the
/// report rtems2014, where `in_pcblookup_hash` and `callout_reset_on` belong to TCP.
const SHARED: [&str; 3] = ["inet::demux", "inet::ready", "clock::wheel"];

/// Returns the index of the name that determines the bucket, and the bucket. `names` is ordered
/// innermost first.
pub(super) fn decide<'a>(mut names: impl Iterator<Item = &'a str>) -> (usize, Bucket) {
    let known = names.by_ref().enumerate().find_map(|(at, name)| Some((at, name, of(name)?)));
    let Some((at, name, bucket)) = known else { return (0, Bucket::Other) };
    let callers = || names.filter_map(of).find(|caller| matches!(caller, Bucket::Tcp | Bucket::Udp));
    let is_shared = SHARED.iter().any(|module| is_in(name, module));
    (at, if is_shared { callers().unwrap_or(bucket) } else { bucket })
}

#[cfg(test)]
mod tests;
