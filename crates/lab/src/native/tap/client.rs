//! Runs iperf3's client once.

use super::Way;
use anyhow::{Context, bail, ensure};
use std::io::Read;
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Address of the iperf3 server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Server {
    pub addr: Ipv4Addr,
    pub port: u16,
    /// Congestion control of both ends; `None` for iperf3's default if the test does not depend on
    /// it, since the choice requires privileges in the machine's own namespace.
    pub congestion: Option<&'static str>,
}

/// Time limit for a server to start.
const PATIENCE: Duration = Duration::from_secs(5);

impl Server {
    /// Runs iperf3's client, with the words of `before` in front of its command line. Returns the
    /// bytes received and the nanoseconds that the transfer took. A client that fails is started
    /// again for up to [`PATIENCE`]. `meanwhile` is called after each start; it may run until the
    /// client has ended, or return earlier.
    pub fn run(
        self,
        before: &[&str],
        way: Way,
        seconds: u32,
        mut meanwhile: impl FnMut(&mut Child) -> anyhow::Result<()>,
    ) -> anyhow::Result<(u64, u64)> {
        let begun = Instant::now();
        loop {
            let mut child = self.command(before, way, seconds).spawn().context("cannot start iperf3")?;
            meanwhile(&mut child)?;
            let said = finish(child, Duration::from_secs(u64::from(seconds) + 20))?;
            match parse(&said) {
                Err(why) if begun.elapsed() > PATIENCE => return Err(why),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
                done => return done,
            }
        }
    }

    fn command(self, before: &[&str], way: Way, seconds: u32) -> Command {
        let (addr, port, seconds) = (self.addr.to_string(), self.port.to_string(), seconds.to_string());
        let iperf3 = ["iperf3", "-c", &addr, "-p", &port, "-t", &seconds, "-J"];
        let mut words = before.iter().chain(&iperf3);
        let mut cmd = Command::new(words.next().unwrap_or(&"iperf3"));
        cmd.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        if way == Way::Down {
            cmd.arg("-R");
        }
        if let Some(congestion) = self.congestion {
            cmd.args(["-C", congestion]);
        }
        cmd
    }
}

/// Waits for the client and returns its output. The output has a few kilobytes, which fit into a
/// pipe.
fn finish(mut child: Child, patience: Duration) -> anyhow::Result<String> {
    let until = Instant::now() + patience;
    while child.try_wait().context("cannot wait for iperf3")?.is_none() {
        if Instant::now() > until {
            let _ = child.kill();
            let _ = child.wait();
            bail!("iperf3 did not exit within {} s", patience.as_secs());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut said = String::new();
    child.stdout.take().context("cannot read iperf3's output")?.read_to_string(&mut said)?;
    Ok(said)
}

/// Parses the JSON output: the bytes that the receiver received, and the duration.
pub(super) fn parse(said: &str) -> anyhow::Result<(u64, u64)> {
    let said: serde_json::Value = serde_json::from_str(said).context("iperf3's output is not JSON")?;
    if let Some(error) = said.get("error").and_then(|error| error.as_str()) {
        bail!("iperf3: {error}");
    }
    let received = said.pointer("/end/sum_received").context("no end.sum_received in iperf3's output")?;
    let number = |name: &str| received.get(name).and_then(serde_json::Value::as_f64).unwrap_or(0.0);
    let (bytes, seconds) = (number("bytes"), number("seconds"));
    ensure!(bytes > 0.0 && seconds > 0.0, "iperf3: no data received");
    Ok((bytes as u64, (seconds * 1e9) as u64))
}
