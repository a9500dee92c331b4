//! What scripts state of a host's counters.

use inet::Stack;
use lock::Up;
use std::collections::BTreeMap;

/// The counters that scripts state: TCP's, ICMP's, UDP's, and every reason for a drop. Frames and packets counted below
/// say nothing that these do not.
pub(super) fn counters(stack: &Stack<Up>) -> BTreeMap<String, u64> {
    let stated = |name: &str| {
        name.starts_with("tcp.")
            || name.starts_with("inet.icmp4.")
            || name.starts_with("inet.udp.")
            || stats::DropReason::ALL.iter().any(|why| why.name() == name)
    };
    let all = stack.snapshot().into_iter().filter(|entry| stated(&entry.name));
    all.map(|entry| (entry.name, entry.value)).collect()
}
