//! What scripts state of a host's counters.

use super::script::IpVersion;
use inet::Stack;
use lock::Up;
use std::collections::BTreeMap;

/// Counters by their names.
pub(super) type Counts = BTreeMap<String, u64>;

/// Returns the name of the counter that a script means by `name`: over IPv6, IPv6's counter of what the one of IPv4 counts.
pub(super) fn meant(name: &str, version: IpVersion) -> String {
    match version {
        IpVersion::V6 => name.replacen("inet.icmp4.", "inet.icmp6.", 1).replacen("inet.ip4.", "inet.ip6.", 1),
        _ => name.to_owned(),
    }
}

/// The counters that scripts state: TCP's, ICMP's, UDP's, and every reason for a drop. Frames and packets counted below
/// say nothing that these do not.
pub(super) fn counters(stack: &Stack<Up>, version: IpVersion) -> Counts {
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
