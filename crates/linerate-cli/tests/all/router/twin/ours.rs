//! Our router in the comparison: a host with forwarding over two pair ports, in virtual time.

use super::net::{GATEWAYS, LINKS, ROUTES, SECOND, To, mac, neighbors};
use super::{Out, Validation};
use buf::{Burst, Pool, PoolConfig};
use clock::{Clock, Instant, SimClock};
use inet::iface::{IfaceAddr, IfaceId};
use inet::route::Via;
use lock::Up;
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::{Caps, Port};

pub struct Ours {
    host: Host<Up>,
    ends: Vec<Port>,
    pool: Pool,
}

impl Ours {
    /// Creates the router without a limit of errors, like the kernel's.
    pub fn new(validation: Validation) -> Ours {
        let config = HostConfig { seed: Some(1), ..HostConfig::default() };
        let host = Host::<Up>::new(&config, Clock::sim(&SimClock::new())).unwrap();
        let sysctls = &host.stack.sysctls;
        sysctls.forwarding.set(1);
        sysctls.icmp_rate.set(0);
        sysctls.echo_rate.set(0);
        sysctls.source_validation.set(match validation {
            Validation::Off => 0,
            Validation::Loose => 1,
            Validation::Strict => 2,
        });
        let ends = LINKS.iter().enumerate().map(|(at, link)| {
            let (near, far) = port::pair::pair(&format!("p{at}"), 64, Caps::PLAIN);
            let addr = IfaceAddr { addr: link.addr, len: link.len };
            let config = IfaceConfig { mtu: Some(link.mtu), addresses: vec![addr], ..IfaceConfig::default() };
            host.attach(&format!("em{at}"), link.mac, near, &config).unwrap();
            far
        });
        let ends = ends.collect();
        for (link, addr) in neighbors() {
            host.stack.set_neighbor(host.cx(), iface(link), addr, mac(addr));
        }
        for (prefix, to) in ROUTES {
            host.stack.add_route(host.cx(), prefix.parse().unwrap(), via(to)).unwrap();
        }
        // Fragments for the router itself stay in buffers, since time does not advance.
        let pool = Pool::new(&PoolConfig { buffers: 4096, ..PoolConfig::default() }).unwrap();
        let mut ours = Ours { host, ends, pool };
        ours.turn();
        ours.ends.iter_mut().for_each(|end| drop(received(end)));
        ours
    }

    pub fn pass(&mut self, from: usize, bytes: &[u8]) -> Out {
        let mut frame = self.pool.get().unwrap();
        frame.extend(bytes).unwrap();
        assert!(self.ends[from].tx.tx_one(frame, Instant::ZERO).is_ok());
        self.turn();
        [received(&mut self.ends[0]), received(&mut self.ends[1])]
    }

    fn turn(&self) {
        while self.host.step().frames > 0 {}
    }

    pub fn holds(&self) {
        let audit = self.host.stack.audit(self.host.cx());
        assert_eq!(audit.imbalance(), 0, "{audit:#?}");
    }
}

/// Returns the iface of a link. `lo0` is the first iface.
fn iface(link: usize) -> IfaceId {
    IfaceId(link as u16 + 1)
}

fn via(to: To) -> Via {
    match to {
        To::Gateway(link) => Via::Gateway(iface(link), GATEWAYS[link]),
        To::Second => Via::Gateway(iface(0), SECOND),
        To::Reject => Via::Reject,
        To::Prohibit => Via::Prohibit,
        To::Blackhole => Via::Blackhole,
    }
}

/// Returns all IPv4 packets that wait at a port, sorted.
pub fn received(port: &mut Port) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let mut burst = Burst::new();
    while port.rx.rx_burst(&mut burst, 32, Instant::ZERO) > 0 {
        all.extend(
            burst.drain().map(|frame| frame.bytes().to_vec()).filter(|bytes| bytes.get(12..14) == Some(&[8, 0])),
        );
    }
    all.sort();
    all
}
