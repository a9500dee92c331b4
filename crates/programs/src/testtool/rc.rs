//! Configures the host: runs an rc script that uses the control socket, or executes the same
//! commands without a script.

use super::{MTU, Mode, Options};
use anyhow::{Context, bail};
use lock::Locks;
use node::{Host, control};
use port::Pairs;
use port::pktgen::{self, Family};
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

/// Returns the commands that `examples/config.sh` runs.
fn default_words(options: &Options) -> Vec<String> {
    let ifaces = match options.mode {
        Mode::Route => 2 * options.parallel,
        _ => 1,
    };
    let mut lines = vec!["sysctl -w net.inet.udp.sendspace=200000".to_owned()];
    if options.family == Family::V6 {
        // There is no other host on these links, so duplicate address detection is not needed.
        lines.push("sysctl -w net.inet6.ip6.dad_count=0".to_owned());
    }
    for n in 0..ifaces {
        let [own, other] = [1, 2].map(|host| pktgen::net(options.family, n as u16, host));
        lines.push(format!("ifconfig pg{n} create"));
        lines.push(match options.family {
            Family::V4 => format!("ifconfig pg{n} inet {own}"),
            Family::V6 => format!("ifconfig pg{n} inet6 {own}/64"),
        });
        lines.push(format!("ifconfig pg{n} ip4csum"));
        lines.push(format!("ifconfig pg{n} udp4csum"));
        lines.push(format!("ifconfig pg{n} mtu {MTU}"));
        let table = if options.family == Family::V4 { "arp" } else { "ndp" };
        lines.push(format!("{table} -s {other} 12:23:34:45:56:{n:02x}"));
    }
    if options.mode == Mode::Route {
        let sysctl = if options.family == Family::V4 { "net.inet.ip" } else { "net.inet6.ip6" };
        lines.push(format!("sysctl -w {sysctl}.forwarding=1"));
    }
    lines
}

pub(super) fn configure<L: Locks>(host: &Host<L>, options: &Options) -> anyhow::Result<()> {
    let pairs = Pairs::new();
    match &options.rc {
        Some(script) => by_script(host, &pairs, options, script),
        None => {
            for line in default_words(options) {
                let line: Vec<&str> = line.split_whitespace().collect();
                commands::host::run(host, &pairs, &line, false)
                    .with_context(|| format!("'{}' failed", line.join(" ")))?;
            }
            Ok(())
        }
    }
}

fn by_script<L: Locks>(host: &Host<L>, pairs: &Pairs, options: &Options, script: &Path) -> anyhow::Result<()> {
    let socket = std::env::temp_dir().join(format!("linerate-{}-{}", host.stack.name, std::process::id()));
    let mut control = control::HostServer::bind::<commands::All>(&socket)
        .with_context(|| format!("cannot open control socket {}", socket.display()))?;
    // A file name without a directory is searched in the current directory, not in PATH, so that
    // `-r config.sh` works.
    let path = if script.components().count() == 1 { Path::new(".").join(script) } else { script.to_owned() };
    let mut child = Command::new(&path)
        .arg(format!("unix://{}", socket.display()))
        .arg(options.mode.word())
        .arg(options.parallel.to_string())
        .spawn()
        .with_context(|| format!("cannot run rc script '{}': it must exist and be executable", script.display()))?;
    loop {
        control.serve(host, pairs);
        if let Some(status) = child.try_wait()? {
            if !status.success() {
                bail!("rc script '{}' failed: {status}", script.display());
            }
            return Ok(());
        }
        if dispatch::stop_requested() {
            end(&mut child);
            bail!("interrupted while rc script '{}' was running", script.display());
        }
        dispatch::wait_readable(&control.server.fds(), Some(Duration::from_millis(5)))?;
    }
}

fn end(child: &mut Child) {
    // The child process may have ended in the meantime, so an error is ignored.
    let _ = child.kill();
    let _ = child.wait();
}
