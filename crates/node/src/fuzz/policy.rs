//! Body of the fuzz target for policies.

use crate::policy::{Decision, Flow, Policy, Quota, Volume, source_of};
use buf::{Burst, Frame, Pool, PoolConfig};
use clock::{Duration, Instant};
use std::cell::Cell;
use std::collections::BTreeMap;

/// Maximum number of flows of the policy, low enough that inputs can reach it.
const FLOWS_MAX: usize = 8;
/// Number of bytes that each station may send.
const TOTAL: u64 = 10_000;
/// Maximum number of frames of one input.
const FRAMES_MAX: usize = 64;

/// The input consists of frames that stations send and receive. Three bytes precede each frame: the
/// first selects the direction and the time since the previous frame, and the other two are the
/// length of the frame.
///
/// Invariants: no panic; a frame is either admitted or rejected; the hook is called once for each
/// decision; no station sends more than its total; the table of flows is bounded.
pub fn policy(data: &[u8]) {
    let hook = |flow: &Flow| match flow.destination.port() % 4 {
        0 => Decision::Refuse,
        1 => Decision::Drop,
        _ => Decision::Allow,
    };
    let policy = Policy::new(hook).upload(Quota::total(TOTAL).with_rate(5_000)).max_flows(FLOWS_MAX);
    let pool = Pool::new(&PoolConfig { buffers: 2, ..PoolConfig::default() }).unwrap();
    let (mut rest, mut now) = (data, Instant::from_millis(1));
    for _ in 0..FRAMES_MAX {
        let Some(([kind, high, low], after)) = rest.split_first_chunk() else { break };
        let len = usize::from(u16::from_be_bytes([*high, *low])).min(after.len());
        let (bytes, next) = after.split_at(len);
        rest = next;
        now = now.after(Duration::from_millis(u64::from(kind >> 1) * 100));
        let mut frame = pool.get().unwrap();
        if frame.extend(bytes).is_none() {
            continue;
        }
        pass(&policy, frame, kind & 1 == 0, now);
        assert!(policy.flows().len() <= FLOWS_MAX);
    }
    let states = policy.flows();
    for state in states.iter().filter(|state| state.decision != Decision::Allow && state.by_station) {
        assert_eq!(state.sent, Volume::default(), "{state:?}");
    }
    let mut sent = BTreeMap::new();
    for state in states {
        *sent.entry(source_of(state.flow.source.ip())).or_insert(0) += state.sent.bytes;
    }
    assert!(sent.values().all(|sent| *sent <= TOTAL), "{sent:?}");
}

/// Passes one frame in one direction.
fn pass(policy: &Policy, frame: Frame, from_station: bool, now: Instant) {
    let mut burst = Burst::of(frame);
    if !from_station {
        let removed = policy.limit(&mut burst, 0, now);
        return assert_eq!(removed + burst.len(), 1);
    }
    let counts = policy.counts();
    let decided = || counts.allowed.get() + counts.refused.get() + counts.dropped.get();
    let (before, rejected) = (decided(), Cell::new(0));
    policy.admit(&mut burst, now, |addr| addr.is_multicast(), |_, _, _| rejected.set(rejected.get() + 1));
    assert_eq!(rejected.get() + burst.len(), 1);
    assert!(decided() <= before + 1);
}
