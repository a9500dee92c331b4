//! `linerate testtool`: the test tool of rump-pktgenif (a packet generator for FreeBSD's rump
//! kernel) on our stack.
//!
//! | mode | source | sink |
//! |---|---|---|
//! | `send` | the application's sendto to 1.0.0.2:55443 | the port |
//! | `recv` | the port: frames from 1.0.0.2:12345 to 1.0.0.1:54321 | the application's recvfrom |
//! | `route` | the N even ports: packets from (2i+1).0.0.2 to (2i+2).0.0.2 | the N odd ports |
//!
//! Over IPv6 (`-6`) the networks are those of RFC 5180: 2001:2:0:N::/64. In each, the host has the
//! address ::1 and its peer ::2.
//!
//! An rc script configures the host through the host's control socket; it is called as `SCRIPT
//! unix:///path MODE PARALLEL`. Without a script, the tool runs the same commands itself. `recv`
//! uses one thread for the packet generator and one for reading. The generator never waits for the
//! reader: datagrams that do not fit the socket's buffer are dropped and counted. `route` uses one
//! host and one thread per pair of ports. These hosts use `up` locks (single-threaded), since they
//! share nothing, and each of them is configured as for a single pair. With `shared`, all pairs use
//! one host. The results of all pairs are added up (the original tool multiplies the results of the
//! first pair by N).
//!
//! Interfaces have an MTU of 9000 bytes, as in `examples/config.sh`. Longer datagrams are
//! fragmented.

mod rc;
mod recv;
mod result;
mod route;
mod send;
#[cfg(test)]
mod tests;

pub use result::Outcome;

use anyhow::{Context, bail};
use lock::{Heavy, Light, Locks, Up};
use node::Host;
use node::config::HostConfig;
use port::pktgen::Family;
use std::io::Write;
use std::path::PathBuf;

/// Mode of the tool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// An application on the host sends datagrams.
    Send,
    /// An application on the host receives datagrams.
    Recv,
    /// The host forwards packets between pairs of ports.
    Route,
}

impl Mode {
    /// Returns the name of the mode, as on the command line and as passed to the rc script.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Send => "send",
            Mode::Recv => "recv",
            Mode::Route => "route",
        }
    }
}

/// Options of the tool.
#[derive(Clone, Debug)]
pub struct Options {
    /// Mode of the tool.
    pub mode: Mode,
    pub family: Family,
    /// Maximum number of frames that the generator (in `send`, the port) transfers at a time, 1 to
    /// 256.
    pub burst: usize,
    /// Number of packets to process, in `route` per pair; 0: until Ctrl-C is pressed.
    pub count: u64,
    /// Number of pairs in `route`, 1 to 32.
    pub parallel: usize,
    /// Set if all pairs of `route` use one host; otherwise each pair has its own.
    pub shared: bool,
    /// Path of the rc script; `None`: the tool runs the same commands itself.
    pub rc: Option<PathBuf>,
    /// Payload of each datagram in bytes.
    pub size: usize,
    /// Set if the tool runs on the host kernel instead of our stack (`send` only). [`run`] rejects
    /// this; `lab` implements it.
    pub native: bool,
    /// Kind of locks: `up` (single-threaded), `light` (spin) or `heavy` (semaphore). Empty selects
    /// `up`, or `light` if several threads enter the host.
    pub locks: String,
    /// Data structure that stores the buffer pool's free buffers.
    pub pool: buf::Kind,
    /// Clock from which the time is read.
    pub clock: clock::Strategy,
    /// Method by which a socket call finds the context of the thread that runs it.
    pub context: lock::How,
    /// Implementation of the Internet checksum; `None`: the widest that the machine supports.
    pub checksum: Option<wire::checksum::Kind>,
    /// Sysctl values to set, by name.
    pub sysctl: Vec<(String, i64)>,
    /// Set if one JSON object is printed instead of the block of text.
    pub json: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            mode: Mode::Send,
            family: Family::V4,
            burst: 1,
            count: 0,
            parallel: 1,
            shared: false,
            rc: None,
            size: 22,
            native: false,
            locks: String::new(),
            pool: Default::default(),
            clock: Default::default(),
            context: Default::default(),
            checksum: None,
            sysctl: Vec::new(),
            json: false,
        }
    }
}

/// MTU of the interfaces in bytes, as in `examples/config.sh`.
const MTU: usize = 9000;
/// Maximum payload in bytes of a datagram whose frame fits into a buffer of the default size.
const SMALL_MAX: usize = 1472;
/// Maximum payload of an IPv4 datagram in bytes.
const SIZE_MAX: usize = 65_535 - 28;
/// Maximum payload of an IPv6 datagram in bytes: after reassembly, the datagram must fit a large
/// buffer together with its headers.
const WHOLE_MAX: usize = 65_535 - 48;
/// Number of buffers in the pool of each host.
const BUFFERS: usize = 16_384;

/// Runs the tool and prints its results to `out`, as a block of text or as JSON. Ctrl-C ends the
/// run early; the results so far are still printed.
///
/// # Errors
/// Options that are out of range; a failure of the rc script, of a port or of a socket call.
pub fn run(options: &Options, out: &mut dyn Write) -> anyhow::Result<()> {
    check(options)?;
    if options.native {
        bail!("--native measures the host kernel: it cannot run on this stack");
    }
    if let Some(kind) = options.checksum {
        wire::checksum::select(kind).with_context(|| format!("--checksum {kind}"))?;
    }
    if options.parallel > 1 && !options.shared {
        return report(options, out, || match locks_of(options) {
            "heavy" => route::on_hosts::<Heavy>(options),
            "light" => route::on_hosts::<Light>(options),
            _ => route::on_hosts::<Up>(options),
        });
    }
    report(options, out, || match locks_of(options) {
        "up" => on::<Up>(options),
        "heavy" => shared::<Heavy>(options),
        _ => shared::<Light>(options),
    })
}

/// Runs `work` and prints its results as a block of text or as JSON. Ctrl-C ends `work` early
/// (through [`dispatch::stop_requested`]); a line printed at the start announces this.
///
/// # Errors
/// Errors of `work`, or of writing to `out`.
pub fn report(
    options: &Options,
    out: &mut dyn Write,
    work: impl FnOnce() -> anyhow::Result<Outcome>,
) -> anyhow::Result<()> {
    // If the handler cannot be installed, the run continues, but Ctrl-C ends it without printing
    // results.
    let _ = dispatch::install_stop_handler();
    if !options.json {
        match options.count {
            0 => writeln!(out, "starting ... ctrl-c to stop")?,
            n => writeln!(out, "starting ... processing {n} packets")?,
        }
        out.flush()?;
    }
    let outcome = work()?;
    if options.json { outcome.json(out) } else { outcome.block(out) }
}

/// Checks the ranges and combinations of the options.
///
/// # Errors
/// The option that is out of range, and the expected range.
pub fn check(options: &Options) -> anyhow::Result<()> {
    if !(1..=buf::BURST_MAX).contains(&options.burst) {
        bail!("-b {}: expected 1 to {}", options.burst, buf::BURST_MAX);
    }
    if !(1..=32).contains(&options.parallel) {
        bail!("-p {}: expected 1 to 32", options.parallel);
    }
    if options.parallel > 1 && options.mode != Mode::Route {
        bail!("-p applies only to route: {} runs one pair", options.mode.word());
    }
    if options.shared && options.mode != Mode::Route {
        bail!("--shared applies only to route: {} runs one host", options.mode.word());
    }
    if options.size > SIZE_MAX {
        bail!("-s {}: must be at most {SIZE_MAX} bytes", options.size);
    }
    if (options.mode, options.family) == (Mode::Recv, Family::V6) && options.size > WHOLE_MAX {
        bail!("-s {}: must be at most {WHOLE_MAX} bytes over IPv6, the reassembly limit", options.size);
    }
    if !["", "up", "light", "heavy"].contains(&options.locks.as_str()) {
        bail!("--locks {}: expected up, light or heavy", options.locks);
    }
    if options.mode == Mode::Recv && options.locks == "up" {
        bail!("--locks up allows one thread, but recv runs two: use --locks light or heavy");
    }
    if locks_of(options) == "up" && options.context != lock::How::Register {
        let context = options.context;
        bail!("--context {context} has no effect with locks up: use --locks light or heavy");
    }
    Ok(())
}

fn locks_of(options: &Options) -> &str {
    match (options.locks.as_str(), options.mode) {
        ("", Mode::Recv) => "light",
        ("", Mode::Route) if options.parallel > 1 && options.shared => "light",
        ("", _) => "up",
        (word, _) => word,
    }
}

fn host<L: Locks>(name: &str, options: &Options) -> anyhow::Result<Host<L>> {
    let config = HostConfig {
        name: name.to_owned(),
        locks: L::NAME.to_owned(),
        burst: options.burst,
        clock: options.clock,
        context: options.context,
        pool_kind: options.pool,
        pool_buffers: BUFFERS,
        // Buffers for an MTU of 9000 are used only for datagrams that need them, since smaller
        // buffers make the pool more compact in memory.
        pool_data: if options.size > SMALL_MAX { 9216 } else { 2048 },
        sysctl: options.sysctl.iter().cloned().collect(),
        ..HostConfig::default()
    };
    let host = Host::new(&config, clock::Clock::live(config.clock))?;
    rc::configure(&host, options)?;
    Ok(host)
}

fn on<L: Locks>(options: &Options) -> anyhow::Result<Outcome> {
    let host = host::<L>("testtool", options)?;
    match options.mode {
        Mode::Send => send::run(&host, options),
        Mode::Route => route::on_one_thread(&host, options),
        Mode::Recv => bail!("recv requires --locks light or heavy"),
    }
}

fn shared<L: Locks>(options: &Options) -> anyhow::Result<Outcome>
where
    Host<L>: Sync,
{
    let host = host::<L>("testtool", options)?;
    match options.mode {
        Mode::Send => send::run(&host, options),
        Mode::Recv => recv::run(&host, options),
        Mode::Route => route::on_threads(&host, options),
    }
}
