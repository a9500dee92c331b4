//! The child's side: sets up the other end of the TAP device, and runs iperf3's client once for
//! each line.
//!
//! The parent entered the namespace before the exec. Programs started here are killed when the
//! child reads end of file from its socket.

use super::client::Server;
use super::{Way, Who};
use crate::child;
use crate::native::shell::program;
use anyhow::Context;
use clock::{Clock, Instant, Strategy};
use lock::Up;
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::Pairs;
use port::os::netlink::Netlink;
use port::os::{netns, tun};
use std::fs::File;
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Kind of the child process; its role is the name of a [`Who`], or [`INSIDE`].
pub(crate) const KIND: &str = "tap";

/// Role of slirp4netns's second child: runs iperf3 in its own namespace, where slirp4netns creates
/// a TAP device.
const INSIDE: &str = "inside";

/// Impairment with a round trip of 20 ms and a loss of 1 %; its queue is longer than any window
/// here.
const LOSSY: &str = "impair(loss=1%,delay=10ms,dir=both,limit=20000)";

/// Segmentation offloads off, so that packets of the MTU are lost one by one. A large segment would
/// be lost as a whole, so a sender of larger segments would see fewer losses.
const SMALL: &str = "tap(tso=off,lro=off)";

/// Congestion control of both ends: our default, which is also set on the kernel, since the
/// kernel's own default may differ (often bbr).
const CONGESTION: &str = "cubic";

const TAP: &str = "tap0";
const PORT: u16 = 5201;

pub(crate) fn serve(role: &str) -> anyhow::Result<()> {
    let begin = || Ok((Inner::new(role)?, role.to_owned()));
    let obey = |inner: &mut Inner, order: &str| inner.run_command(order).map(|(bytes, ns)| format!("{bytes} {ns}"));
    child::serve(begin, obey).map(|_| ())
}

/// A program that is killed when this is dropped.
struct Kept(Child);

impl Kept {
    fn start(cmd: &mut Command) -> anyhow::Result<Kept> {
        let name = cmd.get_program().to_string_lossy().into_owned();
        child::no_child(cmd).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Kept(cmd.spawn().with_context(|| format!("cannot start {name}"))?))
    }

    fn iperf3() -> anyhow::Result<Kept> {
        Kept::start(Command::new("iperf3").args(["-s", "-p", &PORT.to_string()]))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The other end of the TAP device, and what a client needs to reach it.
#[expect(clippy::large_enum_variant, reason = "there is one")]
enum Inner {
    /// iperf3 runs in this namespace.
    Here { server: Server, _kept: Vec<Kept> },
    /// pasta creates a namespace for each run.
    Pasta { server: Server, _kept: Kept, _outside: File },
    /// slirp4netns serves the namespace of another child.
    Slirp { inside: super::Place, _kept: [Kept; 2] },
    /// Two network namespaces of the kernel, connected by one of our routers.
    Routed { server: Server, router: Host<Up>, _kept: Kept },
}

impl Inner {
    fn new(role: &str) -> anyhow::Result<Inner> {
        let who = Who::ALL.into_iter().find(|who| who.name() == role);
        match who {
            Some(Who::Ours) => Inner::ours(&format!("tap:{TAP}"), None),
            Some(Who::Lossy) => Inner::ours(&format!("{LOSSY}:{SMALL}:{TAP}"), Some(CONGESTION)),
            Some(Who::Pasta) => Inner::pasta(),
            Some(Who::Slirp4netns) => Inner::slirp(),
            Some(Who::LossyKernel) => Inner::routed(),
            None => {
                anyhow::ensure!(role == INSIDE, "unknown child role '{role}'");
                // The address that slirp4netns maps to the machine's loopback.
                let server = Server { addr: Ipv4Addr::new(10, 0, 2, 2), port: PORT, congestion: None };
                Ok(Inner::Here { server, _kept: Vec::new() })
            }
        }
    }

    /// Starts one of our hosts, at the other end of a TAP device of this namespace.
    fn ours(spec: &str, congestion: Option<&'static str>) -> anyhow::Result<Inner> {
        let (ours, theirs) = (Ipv4Addr::new(10, 98, 0, 2), Ipv4Addr::new(10, 98, 0, 1));
        let words = ["iperf3", "-s", "--port", spec, "--addr", &format!("{ours}/24")];
        let host = Kept::start(Command::new(program()?).args(words))?;
        let mut netlink = Netlink::open()?;
        for tries in (0..50).rev() {
            match netlink.set_up(TAP) {
                Ok(()) => break,
                Err(why) if tries == 0 => return Err(why).context("our host did not open the TAP device"),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
        netlink.add_addr(TAP, theirs, 24)?;
        Ok(Inner::Here { server: Server { addr: ours, port: PORT, congestion }, _kept: vec![host] })
    }

    /// Prepares pasta, which copies its addresses from an interface and maps the gateway to the
    /// loopback of this namespace.
    fn pasta() -> anyhow::Result<Inner> {
        let plain = tun::Config { vnet_hdr: 0, rx_csum: false, rx_large: false };
        let opened = tun::open_tap("out0", plain).map_err(|(step, why)| anyhow::Error::new(why).context(step))?;
        let mut netlink = Netlink::open()?;
        netlink.set_up("lo")?;
        netlink.set_up("out0")?;
        let server = Server { addr: Ipv4Addr::new(10, 98, 1, 1), port: PORT, congestion: None };
        Ok(Inner::Pasta { server, _kept: Kept::iperf3()?, _outside: opened.file })
    }

    fn slirp() -> anyhow::Result<Inner> {
        Netlink::open()?.set_up("lo")?;
        let iperf3 = Kept::iperf3()?;
        let inside = super::Place::of(INSIDE)?;
        let pid = inside.0.pid().to_string();
        let slirp = Kept::start(Command::new("slirp4netns").args(["-c", "--mtu=65520", &pid, TAP]))?;
        Ok(Inner::Slirp { inside, _kept: [iperf3, slirp] })
    }

    /// Sets up one of our routers between two namespaces of the kernel. The server's namespace is
    /// set up first; this thread then enters the client's namespace.
    fn routed() -> anyhow::Result<Inner> {
        let (server, client) = (Ipv4Addr::new(10, 98, 2, 1), Ipv4Addr::new(10, 98, 3, 1));
        let (to_server, to_client) = (Ipv4Addr::new(10, 98, 2, 2), Ipv4Addr::new(10, 98, 3, 2));
        let sysctl = [("net.inet.ip.forwarding".to_owned(), 1)].into();
        let config = HostConfig { name: "router".to_owned(), sysctl, pool_buffers: 32_768, ..HostConfig::default() };
        let router = Host::new(&config, Clock::live(Strategy::TscScaled))?;
        let pairs = Pairs::new();
        let attach = |spec: &str, own: Ipv4Addr| {
            let addr = inet::iface::IfaceAddr { addr: own, len: 24 };
            router.add_port(&IfaceConfig { addresses: vec![addr], ..IfaceConfig::on(spec) }, &pairs)
        };
        let kernel = |tap: &str, own: Ipv4Addr, other: Ipv4Addr, gateway: Ipv4Addr| -> anyhow::Result<()> {
            let mut netlink = Netlink::open()?;
            netlink.set_up(tap)?;
            netlink.add_addr(tap, own, 24)?;
            netlink.add_route(Ipv4Addr::from_bits(other.to_bits() & !0xff), 24, Some(gateway), tap)?;
            Ok(())
        };
        attach(&format!("{SMALL}:far0"), to_server)?;
        kernel("far0", server, client, to_server)?;
        let iperf3 = Kept::iperf3()?;
        netns::enter_new().context("cannot create a second namespace")?;
        attach(&format!("{LOSSY}:{SMALL}:near0"), to_client)?;
        kernel("near0", client, server, to_client)?;
        let server = Server { addr: server, port: PORT, congestion: Some(CONGESTION) };
        Ok(Inner::Routed { server, router, _kept: iperf3 })
    }

    fn run_command(&mut self, line: &str) -> anyhow::Result<(u64, u64)> {
        let (way, seconds) = line.split_once(' ').with_context(|| format!("invalid command {line:?}"))?;
        let way = if way == "down" { Way::Down } else { Way::Up };
        let seconds = seconds.parse().with_context(|| format!("invalid number of seconds in {line:?}"))?;
        let waits = |_: &mut Child| Ok(());
        match self {
            Inner::Here { server, .. } => server.run(&[], way, seconds, waits),
            Inner::Pasta { server, .. } => {
                let gateway = server.addr.to_string();
                let words = ["pasta", "--config-net", "--foreground", "--runas", "0", "-i", "out0", "-n", "24"];
                let words = [&words[..], &["-a", "10.98.1.2", "-g", &gateway, "--"]].concat();
                server.run(&words, way, seconds, waits)
            }
            Inner::Slirp { inside, .. } => inside.run(way, seconds),
            Inner::Routed { server, router, .. } => server.run(&[], way, seconds, |client| {
                while client.try_wait()?.is_none() {
                    let step = router.step();
                    if step.frames == 0 {
                        // Sleeps at most a millisecond, since no descriptor signals the exit of the
                        // client here.
                        let soon = step.now.after(clock::Duration::from_millis(1));
                        router.wait(step.next.unwrap_or(Instant::NEVER).min(soon), None);
                    }
                }
                Ok(())
            }),
        }
    }
}
