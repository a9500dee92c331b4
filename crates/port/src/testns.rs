//! Runs tests that need devices in a separate network namespace. Starts the test binary again for
//! each of these tests.

use crate::os::{netns, tun};
use std::process::Command;

const INSIDE: &str = "LINERATE_IN_NS";

/// Runs `body` in a separate network namespace, where TAP devices can be created. Prints "skipped"
/// and the reason if the system does not permit that. `test` is the full name of the test, as for
/// `--exact`.
pub fn isolated(test: &str, body: impl FnOnce()) {
    if std::env::var(INSIDE).is_ok_and(|inside| inside == test) {
        return body();
    }
    if let Err(why) = netns::available() {
        return println!("skipped: {test}: {why}");
    }
    let mut cmd = Command::new(std::env::current_exe().unwrap());
    cmd.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(INSIDE, test);
    let output = netns::command(&mut cmd).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    // Errors are printed first; otherwise the test harness's own output would push them out of the
    // end of the CI log.
    print!("{}{text}", String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{test} did not pass in its namespace (status {})",
        output.status
    );
}

/// Returns whether /dev/net/tun is usable. Prints "skipped" if it is not.
pub fn has_tun(test: &str) -> bool {
    match tun::open_tap("probe%d", tun::Config { vnet_hdr: 0, rx_csum: false, rx_large: false }) {
        Ok(_) => true,
        Err((step, error)) => {
            println!("skipped: {test}: {step}: {error}");
            false
        }
    }
}

/// Returns whether packet sockets can be opened. Prints "skipped" if they cannot.
pub fn has_packet(test: &str) -> bool {
    match crate::os::packet::rx::available() {
        Ok(()) => true,
        Err(error) => {
            println!("skipped: {test}: packet sockets: {error}");
            false
        }
    }
}
