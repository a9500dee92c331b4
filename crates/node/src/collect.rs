//! Collects the figures of hosts and switches, on the threads that run them.

#[cfg(test)]
mod tests;

use crate::Host;
use crate::figures::{Collector, Figures, PortFigures};
use crate::switch::Switch;
use bridge::Carrier;
use inet::neigh::State;
use lock::Locks;
use stats::Entry;
use std::io;

fn place_of(state: Option<tcp::State>) -> usize {
    use tcp::State;
    match state {
        None => 0,
        Some(State::SynSent) => 1,
        Some(State::SynReceived) => 2,
        Some(State::Established) => 3,
        Some(State::FinWait1) => 4,
        Some(State::FinWait2) => 5,
        Some(State::CloseWait) => 6,
        Some(State::Closing) => 7,
        Some(State::LastAck) => 8,
        Some(State::TimeWait) => 9,
        Some(State::Closed) => 10,
    }
}

fn by_state(states: impl Iterator<Item = State>) -> [u64; 5] {
    let mut all = [0; 5];
    for state in states {
        let place = match state {
            State::Incomplete => &mut all[0],
            State::Reachable => &mut all[1],
            State::Stale => &mut all[2],
            State::Probe => &mut all[3],
            State::Permanent => &mut all[4],
        };
        *place += 1;
    }
    all
}

impl Figures {
    /// Returns the figures of a host. Called by its thread.
    pub fn of_host<L: Locks>(host: &Host<L>) -> Figures {
        let (stack, cx) = (&host.stack, host.cx());
        let name = |id| stack.iface(id).map_or_else(String::new, |iface| iface.name.clone());
        let gone = host.gone();
        let ports = host.ports().into_iter().map(|port| PortFigures {
            name: name(port.iface),
            counters: port.counters(),
            is_up: port.counts.link.is_up() && !gone.iter().any(|(id, _)| *id == port.iface),
        });
        let (unseen, lost) = host.isr_lost();
        let mut connections = [0; 11];
        stack.for_each_sock(cx, |_, sock| {
            if let Some(count) = connections.get_mut(place_of(sock.tcb().map(tcp::Tcb::state))) {
                *count += 1;
            }
        });
        let pool = stack.pool.stats();
        Figures {
            node: stack.name.clone(),
            counters: stack.snapshot(),
            unaccounted: stack.imbalance(cx) + unseen as i64 - lost as i64,
            ports: ports.collect(),
            pool: [pool.live(), pool.buffers as u64],
            routes: Some(stack.route_counts(cx).map(|count| count as u64)),
            neighbors: Some([
                by_state(stack.neighbors(cx).into_iter().map(|neighbor| neighbor.state)),
                by_state(stack.neighbors6(cx).into_iter().map(|neighbor| neighbor.state)),
            ]),
            connections: Some(connections),
            addresses: None,
            stages: stack.ledger().stages,
        }
    }

    /// Returns the figures of a switch. Called by its first thread.
    pub fn of_switch(switch: &Switch) -> Figures {
        let audit = switch.audit();
        let pool = switch.pool().stats();
        let ports = switch.members().into_iter().flat_map(|(_, info)| {
            let is_up = matches!(info.link().1, Carrier::Up);
            let name = info.name.clone();
            info.queues.into_iter().map(move |queue| {
                let all = [stats::entries(&queue.counts.rx), stats::entries(&queue.counts.tx)].concat();
                PortFigures { name: name.clone(), counters: all, is_up: is_up && queue.counts.link.is_up() }
            })
        });
        let total = |name: &str, sentence, value| Entry { name: name.to_owned(), sentence, value };
        Figures {
            node: switch.name.clone(),
            counters: [
                total("bridge.received", "Frames received from ports.", audit.bridge.received),
                total("bridge.forwarded", "Frames passed to ports, each copy counted.", audit.bridge.given),
                total("bridge.local", "Frames for the bridge itself.", audit.bridge.local),
                total("bridge.made", "Frames that the bridge created.", audit.bridge.made),
                total("bridge.sent", "Frames sent through ports.", audit.sent),
            ]
            .into_iter()
            .chain(switch.drops())
            .collect(),
            unaccounted: audit.imbalance()[..2].iter().sum(),
            ports: ports.collect(),
            pool: [pool.live(), pool.buffers as u64],
            addresses: Some(switch.addresses().len() as u64),
            ..Figures::default()
        }
    }
}

impl<L: Locks> Host<L> {
    /// Makes the host's thread answer the requests of `collector`.
    ///
    /// # Errors
    /// Returns the errors of [`Collector::join`].
    pub fn report_to(&self, collector: &Collector) -> io::Result<()> {
        let source = collector.join(&self.stack.name)?;
        let _ = self.figures.set(source); // a host that reports already keeps its collector
        Ok(())
    }

    /// Answers a request for figures, if there is one.
    pub(crate) fn serve_figures(&self) {
        if let Some(source) = self.figures.get() {
            source.serve(|| Figures::of_host(self));
        }
    }
}

impl Switch {
    /// Makes the switch's first thread answer the requests of `collector`.
    ///
    /// # Errors
    /// Returns the errors of [`Collector::join`].
    pub fn report_to(&self, collector: &Collector) -> io::Result<()> {
        let source = collector.join(&self.name)?;
        let _ = self.figures.set(source); // a switch that reports already keeps its collector
        Ok(())
    }

    /// Answers a request for figures, if there is one.
    pub(crate) fn serve_figures(&self) {
        if let Some(source) = self.figures.get() {
            source.serve(|| Figures::of_switch(self));
        }
    }
}
