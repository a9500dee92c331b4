//! Interfaces offered to Wireshark: any port by its name, and each port of a running host.

use crate::control::{is_ours_alone, own_control_dir};
use crate::exit::Fault;
use node::control;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the interface that is always listed, and that captures from any port.
const ANY: &str = "linerate";
/// Port that the interface `linerate` opens by default: a generator, so that there are frames to
/// capture.
pub const EXAMPLE: &str = "pktgen(rate=1k):pg0";
/// Maximum time to wait for the list of a host's ports, during which Wireshark's start is delayed.
const PATIENCE: Duration = Duration::from_millis(500);
/// Maximum number of control sockets that are queried for ports.
const SOCKETS_MAX: usize = 32;

/// Interface that is offered to Wireshark.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Interface {
    /// Any port, which the user specifies in the options of the interface.
    Any,
    /// A port of a running host.
    Running {
        /// Name of the interface in Wireshark.
        name: String,
        /// Control socket of the host.
        url: String,
        /// Name of the port on the host.
        iface: String,
        /// Specification with which the port was opened.
        spec: String,
    },
}

impl Interface {
    /// Returns the interface called `name`.
    pub fn named(name: &str) -> anyhow::Result<Interface> {
        if name == ANY {
            return Ok(Interface::Any);
        }
        let found = running()
            .into_iter()
            .find(|interface| matches!(interface, Interface::Running { name: n, .. } if n == name));
        found.ok_or_else(|| {
            Fault::usage(format!("--extcap-interface {name}: no such interface; --extcap-interfaces lists all"))
        })
    }

    /// Returns the line that describes this interface in the list of interfaces.
    fn sentence(&self) -> String {
        match self {
            Interface::Any => format!("interface {{value={ANY}}}{{display=Any port of linerate, by its name}}\n"),
            Interface::Running { name, iface, spec, .. } => {
                format!(
                    "interface {{value={name}}}{{display={} of a running host: {}}}\n",
                    printable_label(iface),
                    printable_label(spec)
                )
            }
        }
    }

    /// Returns the lines that describe the options of this interface.
    pub fn config(&self) -> String {
        let mut args = Vec::new();
        if *self == Interface::Any {
            args.push(format!(
                "{{call=--port}}{{display=Port}}{{type=string}}{{default={EXAMPLE}}}{{tooltip=As in tap:tap0, pcap:FILE or text:FIFO; \
                 'linerate ports' lists all kinds}}"
            ));
        }
        args.push(format!(
            "{{call=--snaplen}}{{display=Bytes kept of each frame}}{{type=unsigned}}{{default={0}}}{{range=1,{0}}}",
            node::capture::SNAPLEN
        ));
        args.iter().enumerate().map(|(number, arg)| format!("arg {{number={number}}}{arg}\n")).collect()
    }
}

/// Returns the list of all current interfaces in Wireshark's format.
pub fn list() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let head = format!("extcap {{version={version}}}{{display=linerate: ports of a user-space network system}}\n");
    std::iter::once(Interface::Any).chain(running()).fold(head, |out, interface| out + &interface.sentence())
}

/// Returns the ports of running hosts: of the host at $LINERATE_CTL, and of all hosts with a
/// control socket in the directory that `linerate up` uses.
fn running() -> Vec<Interface> {
    let mut sockets: Vec<PathBuf> = Vec::new();
    if let Ok(url) = std::env::var("LINERATE_CTL") {
        sockets.extend(control::path_of(&url).ok());
    }
    let dir = Some(own_control_dir()).filter(|dir| is_ours_alone(dir));
    let entries = dir.and_then(|dir| std::fs::read_dir(dir).ok()).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    found.retain(|path| path.extension().is_some_and(|end| end == "sock") && !sockets.contains(path));
    found.sort();
    sockets.extend(found);
    sockets.iter().take(SOCKETS_MAX).flat_map(|socket| ports_of(socket)).collect()
}

/// Returns the ports of the host at a control socket; no ports if the host does not reply.
fn ports_of(socket: &Path) -> Vec<Interface> {
    let url = socket.display().to_string();
    let words = ["show", "ports"].map(str::to_owned);
    let Some(answer) = control::request(&url, &words, true, PATIENCE).ok().filter(|answer| answer.ok) else {
        return Vec::new();
    };
    let Ok(Value::Array(ports)) = serde_json::from_str::<Value>(&answer.text) else { return Vec::new() };
    let host = socket.file_stem().unwrap_or_default().to_string_lossy();
    let port = |port: &Value| {
        let iface = port.get("ifname")?.as_str()?.to_string();
        let spec = port.get("port")?.as_str()?.to_string();
        Some(Interface::Running { name: word(&format!("{ANY}-{host}-{iface}")), url: url.clone(), iface, spec })
    };
    ports.iter().filter_map(port).collect()
}

/// Replaces characters that an interface name must not contain, since Wireshark uses it in the
/// names of preferences.
fn word(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '_' }).collect()
}

/// Replaces braces, which delimit the values in the list of interfaces.
fn printable_label(text: &str) -> String {
    text.replace(['{', '}'], "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_sentences_contain_no_delimiters() {
        assert_eq!(word("linerate-a b-tap/0é"), "linerate-a_b-tap_0_");
        let interface = Interface::Running {
            name: "linerate-a-x".to_string(),
            url: "/a.sock".to_string(),
            iface: "x".to_string(),
            spec: "text:{x}".to_string(),
        };
        assert_eq!(interface.sentence(), "interface {value=linerate-a-x}{display=x of a running host: text:_x_}\n");
        assert_eq!(interface.config().lines().count(), 1, "its port is open already");
        assert_eq!(Interface::Any.config().lines().count(), 2);
    }

    #[test]
    fn unknown_interface_names_are_rejected() {
        assert_eq!(Interface::named("linerate").unwrap(), Interface::Any);
        assert!(Interface::named("eth0").unwrap_err().to_string().contains("no such interface"));
    }
}
