use super::*;
use crate::inputs::tests::{Ends, host, plug};
use lock::Light;
use std::time::{Duration, Instant};

/// No frame may be received before, because the process may still drop privileges or fail to start.
#[test]
fn a_part_receives_no_frame_before_the_gate_opens() {
    let mut host = host::<Light>();
    [0, 1].iter().for_each(|&n| drop(plug(&host, n)));
    host.divide(2);
    let (gate, over, config) = (Gate::default(), AtomicBool::new(false), HostConfig::default());
    let (say, _said) = channel();
    let received = || host.stack.counter("inet.link.ether.received");
    std::thread::scope(|scope| {
        let ends = Ends(&over);
        scope.spawn(|| run_part(&config, &host, 1, &gate, &over, &say));
        std::thread::sleep(5 * GATE_LOOK);
        assert_eq!(received(), 0);
        gate.open();
        let limit = Instant::now() + Duration::from_secs(30);
        while received() == 0 {
            assert!(Instant::now() < limit, "no frame is received after the gate has opened");
            std::thread::yield_now();
        }
        drop(ends);
    });
}

#[test]
fn a_part_whose_host_fails_ends_before_the_gate_opens() {
    let mut host = host::<Light>();
    [0, 1].iter().for_each(|&n| drop(plug(&host, n)));
    host.divide(2);
    let (say, _said) = channel();
    run_part(&HostConfig::default(), &host, 1, &Gate::default(), &AtomicBool::new(true), &say);
    assert_eq!(host.stack.counter("inet.link.ether.received"), 0);
}
