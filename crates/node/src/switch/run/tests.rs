use super::*;
use crate::switch::SwitchConfig;
use clock::{Clock, Strategy};

fn none_for_2<'scope>(scope: &'scope Scope<'scope, '_>, name: &str, work: Work<'scope>) -> io::Result<Thread<'scope>> {
    match name {
        "bridge0.2" => Err(io::Error::from(io::ErrorKind::WouldBlock)),
        _ => begin(scope, name, work),
    }
}

/// If the error did not stop the threads that were already started, `run_by` would wait for them
/// forever.
#[test]
fn a_failed_thread_start_is_an_error_and_ends_the_others() {
    for (loops, workers) in [(3, 0), (1, 2)] {
        let config = SwitchConfig { loops, workers, ..SwitchConfig::default() };
        let switch = Switch::new(&config, Clock::live(Strategy::TscScaled)).unwrap();
        let ran = switch.run_by(none_for_2, None, Until::Stopped, || false);
        assert_eq!(ran.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let began = switch.clock.now();
        let stop = || switch.clock.now().since(began) > Duration::from_millis(5);
        switch.run(None, Until::Stopped, stop).unwrap();
    }
}
