//! Hosts from configuration files.

use linerate::{Error, Host, HostBuilder};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// Writes `text` to a new file in the test directory and returns its path.
fn file(name: &str, text: &str) -> PathBuf {
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
    assert!(host.command(&["ip", "addr"]).unwrap().contains("10.7.0.1/24"));
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

/// A control socket from a file or the builder answers commands and ends with its host.
#[test]
fn control_sockets_answer_commands() {
    let path = std::env::temp_dir().join(format!("linerate-control-{}", std::process::id()));
    let text = format!("[[host]]\nname = \"c\"\ncontrol = \"{}\"\n", path.display());
    let of_file = || HostBuilder::from_file(file("control.toml", &text)).unwrap();
    for builder in [of_file(), Host::builder().control(&path)] {
        let host = builder.build().unwrap();
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(b"sysctl net.inet.ip.ttl\n").unwrap();
        let mut answer = [0; 5];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"ok 20");
        let second = Host::builder().control(&path).build().unwrap_err();
        assert!(second.to_string().contains("another process uses this socket"), "{second}");
        drop(host);
        assert!(!path.exists());
    }
    let local = of_file().build_local().unwrap_err().to_string();
    assert!(local.contains("use build()"), "{local}");
}
