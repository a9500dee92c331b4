//! Configuring the host: by an rc script over the control socket, or by the same words without one.

use super::{MTU, Mode, Options};
use anyhow::{Context, bail};
use lock::Locks;
use node::{Host, control, words};
use port::Pairs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

/// What examples/config.sh says.
fn default_words(options: &Options) -> Vec<String> {
    let ifaces = match options.mode {
        Mode::Route => 2 * options.parallel,
        _ => 1,
    };
    let mut lines = vec!["sysctl -w net.inet.udp.sendspace=200000".to_owned()];
    for n in 0..ifaces {
        let net = n + 1;
        lines.push(format!("ifconfig pg{n} create"));
        lines.push(format!("ifconfig pg{n} inet {net}.0.0.1"));
        lines.push(format!("ifconfig pg{n} ip4csum"));
        lines.push(format!("ifconfig pg{n} udp4csum"));
        lines.push(format!("ifconfig pg{n} mtu {MTU}"));
        lines.push(format!("arp -s {net}.0.0.2 12:23:34:45:56:{n:02x}"));
    }
    if options.mode == Mode::Route {
        lines.push("sysctl -w net.inet.ip.forwarding=1".to_owned());
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
                words::run(host, &pairs, &line, false).with_context(|| line.join(" "))?;
            }
            Ok(())
        }
    }
}

fn by_script<L: Locks>(host: &Host<L>, pairs: &Pairs, options: &Options, script: &Path) -> anyhow::Result<()> {
    let socket = std::env::temp_dir().join(format!("linerate-{}-{}", host.stack.name, std::process::id()));
    let mut server = control::Server::bind(&socket).with_context(|| format!("{}", socket.display()))?;
    // A bare name is looked for here, not in PATH: `-r config.sh` is how the report calls it.
    let path = if script.components().count() == 1 { Path::new(".").join(script) } else { script.to_owned() };
    let mut child = Command::new(&path)
        .arg(format!("unix://{}", socket.display()))
        .arg(options.mode.word())
        .arg(options.parallel.to_string())
        .spawn()
        .with_context(|| format!("rc script \"{}\" cannot be run (is it executable?)", script.display()))?;
    loop {
        server.serve(host, pairs);
        if let Some(status) = child.try_wait()? {
            if !status.success() {
                bail!("rc script \"{}\" failed: {status}", script.display());
            }
            return Ok(());
        }
        if dispatch::stop_requested() {
            end(&mut child);
            bail!("interrupted while rc script \"{}\" was running", script.display());
        }
        dispatch::wait_readable(&server.fds(), Some(Duration::from_millis(5)))?;
    }
}

fn end(child: &mut Child) {
    // It may have ended by itself in the meantime.
    let _ = child.kill();
    let _ = child.wait();
}
