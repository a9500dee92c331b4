//! Tests of sessions under each kind of setting.

use super::*;

const A: Setup = Setup {
    locks: LockKind::Light,
    clock: Strategy::TscTimespec,
    pool: PoolKind::Zone,
    checksum: checksum::Kind::Generic16,
    offload: false,
    burst: 32,
};

#[test]
fn a_trial_transfers_the_requested_bytes_in_both_directions_repeatedly() {
    let setups = [
        A,
        Setup { clock: Strategy::NsDivision, ..A },
        Setup { clock: Strategy::Timespec, ..A },
        Setup { locks: LockKind::Heavy, ..A },
        Setup { locks: LockKind::Up, pool: PoolKind::Freelist, offload: true, burst: 1, ..A },
    ];
    for (setup, way) in setups.into_iter().flat_map(|setup| [(setup, Way::Down), (setup, Way::Up)]) {
        let what = format!("{setup:?} {way:?}");
        let mut rig = ftp_rig("t", setup, way, 1 << 20).unwrap();
        for _ in 0..2 {
            let reading = rig.trial().unwrap();
            // A turn carries up to a socket buffer more than requested.
            let most = (1 << 20) + (BUFFER as u64);
            assert!(reading.ops > (1 << 20) - BUFFER as u64 && reading.ops <= most, "{what}: {reading:?}");
            assert!(reading.ticks > 0, "{what}");
        }
        let (locks, taken) = rig.locks();
        assert!(locks > 20 && taken > 0, "{what}: {locks} locks, taken {taken} times");
    }
}
