//! Control commands, by calls and through control sockets.

use linerate::{Bridge, Error, Host, Offload};
use std::error::Error as _;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// A control socket from a file or the builder answers commands and ends with its host.
#[test]
fn control_sockets_answer_commands() {
    let path = std::env::temp_dir().join(format!("linerate-control-{}", std::process::id()));
    let text = format!("[[host]]\nname = \"c\"\ncontrol = \"{}\"\n", path.display());
    for builder in builders(&text, &path) {
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
    for builder in builders(&text, &path) {
        let local = builder.build_local().unwrap_err().to_string();
        assert!(local.contains("use build()"), "{local}");
    }
}

/// Returns hosts with the control socket `path`: from the builder and, if the library reads files,
/// from a file with the text `text`.
fn builders(text: &str, path: &Path) -> Vec<linerate::HostBuilder> {
    let _ = text;
    vec![
        #[cfg(feature = "files")]
        linerate::HostBuilder::from_file(super::files::file("control.toml", text)).unwrap(),
        Host::builder().control(path),
    ]
}

#[test]
fn a_rejected_command_has_a_source() {
    let host = Host::builder().build_local().unwrap();
    let rejected = host.command(&["sysctl", "net.inet.ip.tll"]).unwrap_err();
    assert!(matches!(&rejected, Error::Rejected { what, .. } if what == "sysctl net.inet.ip.tll"), "{rejected}");
    let source = rejected.source().unwrap();
    assert!(source.is::<linerate::error::CommandError>());
    assert!(source.to_string().contains("net.inet.ip.ttl"), "the nearest name");
    let host = Host::builder().sysctl("net.inet.tcp.cc.algorithm", "cubic").build_local().unwrap();
    assert!(host.command(&["sysctl", "net.inet.tcp.cc.algorithm"]).unwrap().contains("cubic"));
}

#[test]
fn a_bridge_runs_commands_when_it_is_built_and_later() {
    let bridge =
        Bridge::builder().name("br7").port("pair:seven").port("pair:eight").ifconfig("private seven -learn eight");
    let bridge = bridge.build().unwrap();
    assert!(bridge.command(&["ifconfig", "br7"]).unwrap().contains("PRIVATE"));
    assert!(bridge.command(&["no", "such"]).is_err());
    let wrong = Bridge::builder().port("pair:seven2").port("pair:eight2").ifconfig("private nine").build().unwrap_err();
    assert!(wrong.to_string().contains("nine") && wrong.source().is_some(), "{wrong}");
}

#[test]
fn offloads_are_set_or_rejected() {
    let flags = |port: &str, what, on| {
        let host = Host::builder().port(port).addr("10.0.0.1/24").offload(what, on).build_local()?;
        host.command(&["ifconfig", "p0"])
    };
    let kinds = [Offload::TransportChecksum, Offload::Segmentation, Offload::ReceiveChecksum, Offload::IpChecksum];
    for what in kinds {
        let why = flags("pair:p0", what, true).unwrap_err().to_string();
        assert!(why.contains("does not support"), "{why}");
        if what == Offload::Segmentation {
            continue; // only devices of the kernel support it
        }
        let (off, on) = (flags("pktgen:p0", what, false).unwrap(), flags("pktgen:p0", what, true).unwrap());
        assert_ne!(on, off, "{what:?}");
    }
}

#[test]
fn static_neighbors_of_both_families_need_no_resolution() {
    let host = Host::builder().port("null:n0").addr("10.0.0.1/24").addr("fd00::1/64");
    let host = host.neighbor([10, 0, 0, 9], [2, 0, 0, 0, 0, 9]);
    let host = host.neighbor("fd00::9".parse::<std::net::Ipv6Addr>().unwrap(), [2, 0, 0, 0, 0, 9]);
    let host = host.iface_name("renamed0").build_local().unwrap();
    let shown = host.command(&["ip", "neigh"]).unwrap();
    for addr in ["10.0.0.9", "fd00::9"] {
        let line = shown.lines().find(|line| line.starts_with(addr)).unwrap_or_else(|| panic!("{shown}"));
        assert!(line.contains("02:00:00:00:00:09") && line.contains("PERMANENT"), "{line}");
    }
    let far = "fd00::9".parse::<std::net::Ipv6Addr>().unwrap();
    assert!(Host::builder().neighbor(far, [2, 0, 0, 0, 0, 9]).build().is_err(), "there is no interface");
}
