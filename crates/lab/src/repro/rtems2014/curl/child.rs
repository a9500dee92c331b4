//! The child's side: a host for each configuration, and one run of curl for each line that the
//! parent sends.
//!
//! | line | from | meaning |
//! |---|---|---|
//! | `down ID MS`, `up ID MS` | parent | a transfer of MS milliseconds |
//! | `end` | parent | ends the hosts |
//! | `done BYTES WALL_NS CPU_NS` | child | curl's bytes, wall time, our thread's CPU time |
//! | `done ` | child | answer to `end` |

use super::super::{Variant, Way, variants};
use super::IDS;
use crate::child;
use anyhow::{Context, bail, ensure};
use apps::files::Root;
use apps::ftp::{Config, Ftp};
use node::config::{HostConfig, IfaceConfig};
use node::run::Event;
use port::os::netlink::Netlink;
use programs::{Ended, RunError};
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::checksum;

/// Kind of the child. Its role is the hosts' core.
pub(crate) const KIND: &str = "curl";
/// Exit code of curl when its time limit is reached.
const TIME_IS_OVER: i32 = 28;

/// Runs the child's side.
pub(crate) fn serve(role: &str) -> anyhow::Result<()> {
    let begin = || {
        let core = role.parse().with_context(|| format!("invalid core {role:?}"))?;
        let hosts = begin(core)?;
        // curl inherits this affinity, so that curl and the kernel's side of the TAP do not use the
        // hosts' core.
        let elsewhere = dispatch::other_core(core).map(dispatch::pinned_to_core);
        Ok(((hosts, elsewhere), String::new()))
    };
    let obey = |(hosts, _): &mut (Vec<Served>, _), order: &str| match order {
        "end" => hosts.drain(..).try_for_each(Served::end).map(|()| String::new()),
        order => transfer(hosts, order),
    };
    child::serve(begin, obey)?.0.into_iter().try_for_each(Served::end)
}

fn begin(core: usize) -> anyhow::Result<Vec<Served>> {
    let mut netlink = Netlink::open()?;
    netlink.set_up("lo")?;
    let all = variants().into_iter().filter(|variant| IDS.contains(&variant.id));
    all.enumerate().map(|(at, variant)| Served::begin(at as u8, variant, core, &mut netlink)).collect()
}

/// A host that serves FTP on its own TAP, on a thread of its own.
struct Served {
    variant: Variant,
    at: Ipv4Addr,
    /// Path of the file in which /proc counts the thread's time.
    schedstat: String,
    enough: Arc<AtomicBool>,
    thread: JoinHandle<Result<Ended<Ftp>, RunError>>,
}

/// Messages that a host's thread sends while it starts.
enum Output {
    Thread(String),
    Running,
}

impl Served {
    fn begin(n: u8, variant: Variant, core: usize, netlink: &mut Netlink) -> anyhow::Result<Served> {
        let (at, kernels, tap) = (Ipv4Addr::new(10, 0, n, 2), Ipv4Addr::new(10, 0, n, 1), format!("rtems{n}"));
        let config = config(&variant, &tap, at)?;
        let (say, said) = mpsc::channel();
        let enough = Arc::new(AtomicBool::new(false));
        let reported = enough.clone();
        let thread = dispatch::spawn_worker(&format!("ftpd.{}", variant.id), Some(core), move |_| {
            // Sending fails only after the receiver has ended.
            let _ =
                say.send(Output::Thread(fs::read_link("/proc/thread-self").unwrap_or_default().display().to_string()));
            let app = |wall| Ftp::new(Config { wall, ..Config::new(Root::devices()) });
            let mut each = |event: &Event| {
                if matches!(event, Event::Running { .. }) {
                    let _ = say.send(Output::Running);
                }
            };
            programs::run(&config, 21, app, &mut each, &mut |_| reported.load(Ordering::Relaxed))
        })?;
        let mut schedstat = String::new();
        loop {
            match said.recv_timeout(Duration::from_secs(10)) {
                Ok(Output::Thread(thread)) => schedstat = format!("/proc/{thread}/schedstat"),
                Ok(Output::Running) => break,
                Err(RecvTimeoutError::Timeout) => bail!("{tap}: the host did not start within 10 s"),
                Err(RecvTimeoutError::Disconnected) => {
                    let ended = thread.join().map_err(|_| anyhow::anyhow!("{tap}: the host's thread panicked"))?;
                    return Err(ended.err().map_or(anyhow::anyhow!("{tap}: the host ended at once"), Into::into));
                }
            }
        }
        netlink.set_up(&tap)?;
        netlink.add_addr(&tap, kernels, 24)?;
        Ok(Served { variant, at, schedstat, enough, thread })
    }

    /// Returns the processor time that the thread has used, in nanoseconds.
    fn cpu_ns(&self) -> anyhow::Result<u64> {
        let text = fs::read_to_string(&self.schedstat).with_context(|| self.schedstat.clone())?;
        Ok(text.split_whitespace().next().context("schedstat is empty")?.parse()?)
    }

    fn end(self) -> anyhow::Result<()> {
        self.enough.store(true, Ordering::Relaxed);
        let ended = self.thread.join().map_err(|_| anyhow::anyhow!("the host's thread panicked"))??;
        ensure!(
            ended.outcome.is_balanced(),
            "{}: frames unaccounted for: {:?}",
            self.variant.id,
            ended.outcome.imbalance
        );
        Ok(())
    }
}

fn config(variant: &Variant, tap: &str, at: Ipv4Addr) -> anyhow::Result<HostConfig> {
    let mut config = variant.setup.host(tap);
    let spec = match variant.setup.offload {
        true => format!("tap(rx_csum=trust):{tap}"),
        false => format!("tap(vnet_hdr=off):{tap}"),
    };
    config.ifaces.push(IfaceConfig::on(&spec));
    let offload = if variant.setup.offload { "on" } else { "off" };
    for (key, value) in [("addresses", format!("{at}/24").as_str()), ("udp4csum", offload), ("rxcsum", offload)] {
        config.set_iface(key, value).map_err(anyhow::Error::msg)?;
    }
    Ok(config)
}

fn transfer(hosts: &[Served], ask: &str) -> anyhow::Result<String> {
    let words: Vec<&str> = ask.split(' ').collect();
    let [way, id, ms] = words[..] else { bail!("invalid transfer command {ask:?}") };
    let way = match way {
        "down" => Way::Down,
        "up" => Way::Up,
        other => bail!("unknown direction {other:?}: expected down or up"),
    };
    let host = hosts.iter().find(|host| host.variant.id == id).with_context(|| format!("unknown host {id:?}"))?;
    let seconds = format!("{:.3}", ms.parse::<u64>()?.clamp(1, 10_000) as f64 / 1000.0);
    checksum::select(host.variant.setup.checksum)?;
    let before = host.cpu_ns()?;
    let (bytes, wall) = curl(way, host.at, &seconds)?;
    let cpu = host.cpu_ns()?.saturating_sub(before);
    Ok(format!("{bytes} {} {cpu}", (wall * 1e9) as u64))
}

/// Runs curl; returns the bytes that it moved, and the seconds from its first byte on.
fn curl(way: Way, at: Ipv4Addr, seconds: &str) -> anyhow::Result<(u64, f64)> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--noproxy", "*", "--max-time", seconds, "-o", "/dev/null", "--write-out"]);
    curl.stdin(Stdio::null());
    let (size, url) = match way {
        Way::Down => ("%{size_download}", format!("ftp://anonymous@{at}/dev/zero")),
        Way::Up => ("%{size_upload}", format!("ftp://anonymous@{at}/dev/null")),
    };
    curl.arg(format!("{size} %{{time_pretransfer}} %{{time_total}}"));
    if way == Way::Up {
        curl.args(["-T", "-"]).stdin(File::open("/dev/zero")?);
    }
    let output = curl.arg(&url).output().context("cannot run curl")?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.code() == Some(TIME_IS_OVER), "curl {url} failed: {}: {}", output.status, errors.trim());
    let numbers: Vec<f64> = said.split(' ').map(str::parse).collect::<Result<_, _>>().context(said.clone())?;
    let [bytes, begun, ended] = numbers[..] else { bail!("unexpected output of curl: {said:?}") };
    ensure!(ended > begun, "unexpected output of curl: {said:?}");
    Ok((bytes as u64, ended - begun))
}
