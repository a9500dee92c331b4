//! What a sample was for: the groups in which rtems2014's profile is read, and the one table of rules that sorts into them.
//!
//! A sample's names go from the innermost inlined function outwards. The first that a rule knows decides: it gives the
//! bucket, and its own name to the table's row. So an `unwrap` inlined into a FIB lookup is the lookup's, a `memcpy` called from
//! anywhere is a copy, and what the standard library does for a lock is the lock's.

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
    /// IP, ICMP, Ethernet, the bridge, the ifaces between them.
    IpEthernet,
    /// The socket calls.
    Socket,
    /// Ports and their wrappers.
    Port,
    /// Whose turn it is: the loop of a host, contexts, threads.
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
    (Bucket::Scheduling, &["lock::context"]),
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
        ],
    ),
    (Bucket::Tcp, &["tcp", "inet::tcp", "wire::tcp"]),
    (Bucket::Udp, &["inet::udp", "inet::demux", "wire::udp"]),
    (Bucket::IpEthernet, &["inet", "wire", "bridge"]),
    (Bucket::Socket, &["socket"]),
    (Bucket::Port, &["port", "pipe"]),
    (Bucket::Scheduling, &["dispatch", "node", "std::thread", "std::sys::thread"]),
    (Bucket::Application, &["apps", "cli", "lab", "rung", "sim", "bench"]),
];

/// The bucket of one name, if a rule knows it.
fn of(name: &str) -> Option<Bucket> {
    let fits = |pattern: &&str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name.strip_prefix(*pattern).is_some_and(|rest| rest.is_empty() || rest.starts_with("::")),
    };
    RULES.iter().find(|(_, patterns)| patterns.iter().any(fits)).map(|(bucket, _)| *bucket)
}

/// What TCP and UDP both use: it is whose caller it is.
const SHARED: &str = "inet::demux";

/// Which of `names`, innermost first, decides, and what.
pub(super) fn decide<'a>(mut names: impl Iterator<Item = &'a str>) -> (usize, Bucket) {
    let known = names.by_ref().enumerate().find_map(|(at, name)| Some((at, name, of(name)?)));
    let Some((at, name, bucket)) = known else { return (0, Bucket::Other) };
    let callers = || names.filter_map(of).find(|caller| matches!(caller, Bucket::Tcp | Bucket::Udp));
    let is_shared = name.strip_prefix(SHARED).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    (at, if is_shared { callers().unwrap_or(bucket) } else { bucket })
}

#[cfg(test)]
mod tests;
