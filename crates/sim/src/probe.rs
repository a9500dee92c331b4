//! Everybody asks everybody: a datagram from each host of a file to each echo, again and again, and how long answers took.

use crate::World;
use crate::programs::WithPrograms;
use clock::{Duration, Instant};
use node::config::{HostConfig, ServiceKind};
use socket::{Errno, Fd, Opt};
use std::net::SocketAddr;

/// How exactly a round trip is known: so often the sockets are looked at while answers are awaited.
pub const GRAIN: Duration = Duration::from_micros(100);

/// What one host heard from one echo.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Heard {
    /// Who asked.
    pub from: String,
    /// Who was asked.
    pub to: String,
    /// How often.
    pub sent: u32,
    /// Answers that came, as they were sent, before the next question.
    pub answered: u32,
    /// The shortest time to an answer.
    pub least: Duration,
    /// The longest.
    pub most: Duration,
    /// The sum of all.
    pub sum: Duration,
}

struct Asker {
    host: usize,
    fd: Fd,
    to: SocketAddr,
    waits: bool,
    heard: Heard,
}

/// Lets `span` pass in a world that was made of `hosts`; each asks each echo once every `every`.
///
/// # Errors
/// Of a socket's making.
pub fn probe(
    programs: &mut WithPrograms<'_>,
    hosts: &[HostConfig],
    span: Duration,
    every: Duration,
) -> Result<Vec<Heard>, Errno> {
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
        world.hosts[asker.host].calls().close(asker.fd)?;
    }
    Ok(askers.into_iter().map(|asker| asker.heard).collect())
}

fn askers(world: &World, hosts: &[HostConfig]) -> Result<Vec<Asker>, Errno> {
    let mut out = Vec::new();
    for (at, from) in hosts.iter().enumerate() {
        for to in hosts.iter().filter(|to| to.name != from.name) {
            let echo = to.services.iter().find(|service| service.kind == ServiceKind::Echo);
            let addr = to.ifaces.iter().flat_map(|iface| &iface.addresses).next();
            let (Some(echo), Some(addr)) = (echo, addr) else { continue };
            let calls = world.hosts[at].calls();
            let fd = calls.socket()?;
            calls.set_option(fd, Opt::NonBlocking(true))?;
            let heard = Heard {
                from: from.name.clone(),
                to: to.name.clone(),
                sent: 0,
                answered: 0,
                least: Duration::MAX,
                most: Duration::ZERO,
                sum: Duration::ZERO,
            };
            out.push(Asker { host: at, fd, to: SocketAddr::from((addr.addr, echo.port.0)), waits: false, heard });
        }
    }
    Ok(out)
}

impl Asker {
    fn ask(&mut self, world: &World) {
        self.heard.sent += 1;
        // One that finds no way is one without an answer.
        let sent = world.hosts[self.host].calls().send_to(self.fd, &self.heard.sent.to_be_bytes(), &self.to);
        self.waits = sent.is_ok();
    }

    fn listen(&mut self, world: &World, asked: Instant) {
        let mut into = [0; 8];
        if !self.waits {
            return;
        }
        let calls = world.hosts[self.host].calls();
        // A link may have carried the answer twice.
        while self.waits
            && let Ok((len, from)) = calls.recv_from(self.fd, &mut into)
        {
            if from == self.to && into.get(..len) == Some(&self.heard.sent.to_be_bytes()[..]) {
                let took = world.now().since(asked);
                self.waits = false;
                self.heard.answered += 1;
                self.heard.least = self.heard.least.min(took);
                self.heard.most = self.heard.most.max(took);
                self.heard.sum += took;
            }
        }
    }
}
