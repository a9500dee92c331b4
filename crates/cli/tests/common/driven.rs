//! Hosts of ours in a test's own process, which it steps itself while something of the kernel's talks to them.

use lock::Up;
use node::Host;
use port::Pairs;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// What the host says to a control word.
#[track_caller]
pub fn word(host: &Host<Up>, line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    node::words::run(host, &Pairs::new(), &words, false).unwrap_or_else(|why| panic!("{line}: {why}"))
}

/// Steps the hosts until `done`, and sleeps a little where nothing comes.
pub fn drive(hosts: &[&Host<Up>], what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        let frames: usize = hosts.iter().map(|host| host.step().frames).sum();
        if frames == 0 {
            std::thread::sleep(Duration::from_micros(200));
        }
        assert!(Instant::now() < deadline, "{what}: stalled");
    }
}
