//! Hosts from configuration files.

use linerate::{Error, HostBuilder};
use std::path::PathBuf;

/// Writes `text` to a new file in the test directory and returns its path.
pub(super) fn file(name: &str, text: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn the_first_host_of_a_file_is_built() {
    let text = "[[host]]\nname = \"web\"\n[[host.iface]]\nport = \"null:n\"\naddresses = [\"10.7.0.1/24\"]\n\
                [[host]]\nname = \"second\"\n";
    let host = HostBuilder::from_file(file("two-hosts.toml", text)).unwrap().build().unwrap();
    assert_eq!(host.name(), "web");
    assert!(host.addrs().iter().any(|(_, addr, len)| (addr.to_string().as_str(), *len) == ("10.7.0.1", 24)));
}

#[test]
fn an_error_names_the_line_and_a_key_without_effect_is_rejected() {
    let wrong = HostBuilder::from_file(file("wrong.toml", "[[host]]\nname = \"a\"\nstaks = 2\n")).unwrap_err();
    assert!(matches!(&wrong, Error::Config(why) if why.line == 3 && why.what.contains("stacks")), "{wrong}");
    let rejected =
        HostBuilder::from_file(file("threads.toml", "[[host]]\nlocks = \"light\"\nthreads = 2\n")).unwrap_err();
    assert!(matches!(&rejected, Error::Rejected { what, .. } if what.ends_with("locks")), "{rejected}");
    let missing = HostBuilder::from_file("/nonexistent/host.toml").unwrap_err();
    assert!(missing.to_string().starts_with("/nonexistent/host.toml: "), "{missing}");
}

/// Without the commands, a control socket cannot be honoured.
#[test]
#[cfg(not(feature = "commands"))]
fn a_control_socket_needs_the_commands() {
    let text = "[[host]]\nname = \"c\"\ncontrol = \"/tmp/c.sock\"\n";
    let why = HostBuilder::from_file(file("no-control.toml", text)).unwrap_err().to_string();
    assert!(why.contains("no-control.toml: control: ") && why.contains("'commands'"), "{why}");
}
