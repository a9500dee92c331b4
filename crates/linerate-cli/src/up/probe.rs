//! Connectivity probe: every host sends datagrams to every echo service and measures the round-trip
//! times.

use clock::{Duration, Instant};
use node::config::{HostConfig, ServiceKind};
use sim::programs::WithPrograms;
use sim::{HostId, World};
use socket::{Errno, Fd, Opt};
use std::net::SocketAddr;

/// Interval at which sockets are polled for replies, and thus the resolution of the round-trip
/// times.
pub const GRAIN: Duration = Duration::from_micros(100);

/// Result for one host and one echo service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EchoReplies {
    /// Name of the sending host.
    pub from: String,
    /// Name of the probed host.
    pub to: String,
    /// Number of requests sent to the service.
    pub sent: u32,
    /// Number of unmodified replies that arrived before the next request.
    pub answered: u32,
    /// Minimum round-trip time of the replies.
    pub least: Duration,
    /// Maximum round-trip time of the replies.
    pub most: Duration,
    /// Sum of the round-trip times of the replies.
    pub sum: Duration,
}

struct Asker {
    host: HostId,
    fd: Fd,
    to: SocketAddr,
    waits: bool,
    heard: EchoReplies,
}

/// Advances the virtual time by `span`. Meanwhile each of `hosts`, from which the world was built,
/// probes each echo service once per `every`.
///
/// # Errors
/// Returns the error of creating or closing a socket.
pub fn probe(
    programs: &mut WithPrograms<'_>,
    hosts: &[HostConfig],
    span: Duration,
    every: Duration,
) -> Result<Vec<EchoReplies>, Errno> {
    let world = programs.world();
    let mut askers = askers(world, hosts)?;
    let end = world.now().after(span);
    while world.now().after(every) <= end {
        let begin = world.now();
        askers.iter_mut().for_each(|asker| asker.ask(world));
        while askers.iter().any(|asker| asker.waits) && world.now().after(GRAIN) <= begin.after(every) {
            programs.run_for(GRAIN);
            askers.iter_mut().for_each(|asker| asker.listen(world, begin));
        }
        programs.run_for(begin.after(every).since(world.now()));
    }
    programs.run_for(end.since(world.now()));
    for asker in &askers {
        world.host(asker.host).calls().close(asker.fd)?;
    }
    Ok(askers.into_iter().map(|asker| asker.heard).collect())
}

fn askers(world: &World, hosts: &[HostConfig]) -> Result<Vec<Asker>, Errno> {
    let mut out = Vec::new();
    for (host, from) in world.hosts().zip(hosts) {
        for to in hosts.iter().filter(|to| to.name != from.name) {
            let echo = to.services.iter().find(|service| service.kind == ServiceKind::Echo);
            let addr = to.ifaces.iter().flat_map(|iface| &iface.addresses).next();
            let (Some(echo), Some(addr)) = (echo, addr) else { continue };
            let calls = world.host(host).calls();
            let fd = calls.socket()?;
            calls.set_option(fd, Opt::NonBlocking(true))?;
            let heard = EchoReplies {
                from: from.name.clone(),
                to: to.name.clone(),
                sent: 0,
                answered: 0,
                least: Duration::MAX,
                most: Duration::ZERO,
                sum: Duration::ZERO,
            };
            out.push(Asker { host, fd, to: SocketAddr::from((addr.addr, echo.port.0)), waits: false, heard });
        }
    }
    Ok(out)
}

impl Asker {
    fn ask(&mut self, world: &World) {
        self.heard.sent += 1;
        // If a request has no route, it counts as sent and unanswered.
        let sent = world.host(self.host).calls().send_to(self.fd, &self.heard.sent.to_be_bytes(), &self.to);
        self.waits = sent.is_ok();
    }

    fn listen(&mut self, world: &World, requested: Instant) {
        let mut into = [0; 8];
        if !self.waits {
            return;
        }
        let calls = world.host(self.host).calls();
        // Skips late and duplicated replies: a link may have duplicated a frame.
        while self.waits
            && let Ok((len, from)) = calls.recv_from(self.fd, &mut into)
        {
            if from == self.to && into.get(..len) == Some(&self.heard.sent.to_be_bytes()[..]) {
                let took = world.now().since(requested);
                self.waits = false;
                self.heard.answered += 1;
                self.heard.least = self.heard.least.min(took);
                self.heard.most = self.heard.most.max(took);
                self.heard.sum += took;
            }
        }
    }
}
