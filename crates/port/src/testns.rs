//! Tests that need devices run in a network namespace of their own: the test's binary runs again, for that test alone.

use crate::os::{netns, tun};
use std::process::Command;

const INSIDE: &str = "LINERATE_IN_NS";

/// Runs `body` in a namespace of its own, where TAP devices can be made; says "skipped" and why where that cannot be.
/// `test` is the test's whole name, as `--exact` takes it.
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
    // What went wrong comes first, before the harness's own words, which end what CI shows of a failed test.
    print!("{}{text}", String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{test} did not pass in its namespace (status {})",
        output.status
    );
}

/// Is there a /dev/net/tun that we may use? Says "skipped" if not.
pub fn has_tun(test: &str) -> bool {
    match tun::open_tap("probe%d", tun::Config { vnet_hdr: 0, rx_csum: false, rx_large: false }) {
        Ok(_) => true,
        Err((step, error)) => {
            println!("skipped: {test}: {step}: {error}");
            false
        }
    }
}

/// May we open packet sockets? Says "skipped" if not.
pub fn has_packet(test: &str) -> bool {
    match crate::os::packet::rx::available() {
        Ok(()) => true,
        Err(error) => {
            println!("skipped: {test}: packet sockets: {error}");
            false
        }
    }
}
