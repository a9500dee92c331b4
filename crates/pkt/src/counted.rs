//! Counters that scripts can check.

use crate::script::IpVersion;
use inet::Stack;
use lock::Up;
use std::collections::BTreeMap;

/// Values of counters by their full names.
pub(crate) type Counts = BTreeMap<String, u64>;

/// Returns the full name of the counter for `name` in a script. Over IPv6, the name of an IPv4
/// counter denotes the corresponding IPv6 counter.
pub(crate) fn meant(name: &str, version: IpVersion) -> String {
    match version {
        IpVersion::V6 => name.replacen("inet.icmp4.", "inet.icmp6.", 1).replacen("inet.ip4.", "inet.ip6.", 1),
        _ => name.to_owned(),
    }
}

/// Returns the counters that scripts must state: the counters of TCP, ICMP and UDP, and all drop
/// reasons. Counters of frames and packets in lower layers would add no information.
pub(crate) fn counters(stack: &Stack<Up>, version: IpVersion) -> Counts {
    let icmp = meant("inet.icmp4.", version);
    let stated = |name: &str| {
        name.starts_with("tcp.")
            || name.starts_with(&icmp)
            || name.starts_with("inet.udp.")
            || stats::DropReason::ALL.iter().any(|why| why.name() == name)
    };
    let all = stack.snapshot().into_iter().filter(|entry| stated(&entry.name));
    all.map(|entry| (entry.name, entry.value)).collect()
}
