//! Reads the figures of a host or switch from its state, on the thread that runs it.

#[cfg(test)]
mod tests;

use crate::Host;
use crate::figures::{Collector, Figures, PortFigures};
use crate::fpm::FpmServer;
use crate::isr;
use crate::switch::Switch;
use bridge::Carrier;
use inet::neigh::State;
use lock::Locks;
use stats::Entry;
use std::io;

/// Returns the place of a state in [`TCP_STATES`](crate::figures::TCP_STATES).
fn place_of(state: tcp::State) -> usize {
    use tcp::State;
    match state {
        State::SynSent => 1,
        State::SynReceived => 2,
        State::Established => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::CloseWait => 6,
        State::Closing => 7,
        State::LastAck => 8,
        State::TimeWait => 9,
        State::Closed => 10,
    }
}

/// Returns the numbers of TCP connections by state, and adds their round-trip times to the host's
/// histogram. A listener's handshakes are in SYN-RECEIVED. A socket that neither listens nor was
/// connected is not counted.
fn connections<L: Locks>(host: &Host<L>) -> [u64; 11] {
    let (stack, cx) = (&host.stack, host.cx());
    let mut all = [0; 11];
    stack.for_each_sock(cx, |_, sock| match (sock.tcb(), sock.embryonic()) {
        (Some(tcb), _) => {
            all.get_mut(place_of(tcb.state())).into_iter().for_each(|count| *count += 1);
            let us = tcb.srtt().map(|rtt| u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX));
            us.into_iter().for_each(|us| host.rtts.add(us));
        }
        (None, Some((handshakes, _))) => {
            all[0] += 1;
            all[2] += handshakes as u64;
        }
        (None, None) => {}
    });
    all[9] += stack.tcp_time_wait_count(cx) as u64;
    all
}

fn place_of_neighbor(state: State) -> usize {
    match state {
        State::Incomplete => 0,
        State::Reachable => 1,
        State::Stale => 2,
        State::Probe => 3,
        State::Permanent => 4,
    }
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
            speed: port.counts.link.speed(),
        });
        let (unseen, lost) = host.isr_lost();
        let mut neighbors = [[0; 5]; 2];
        stack.for_each_neighbor_state(cx, |family, state| {
            let counts = neighbors.get_mut(family).and_then(|counts| counts.get_mut(place_of_neighbor(state)));
            counts.into_iter().for_each(|count| *count += 1);
        });
        let own = host.isr.as_ref().and_then(|isr| isr.shard.as_ref()).map(|shard| shard.at);
        let mut queues = isr::snapshot(host).work;
        queues.retain(|row| own.is_none_or(|at| row.workstream == at)); // all stacks share the netisr
        let pool = stack.pool.stats();
        let connections = connections(host);
        let mut counters = stack.snapshot();
        counters.extend(host.fpm().into_iter().flat_map(FpmServer::counters));
        Figures {
            node: stack.name.clone(),
            counters,
            unaccounted: stack.imbalance(cx) + unseen as i64 - lost as i64,
            ports: ports.collect(),
            pool: [pool.live(), pool.buffers as u64],
            routes: Some(stack.route_counts(cx).map(|count| count as u64)),
            fpm: host.fpm_status(),
            neighbors: Some(neighbors),
            connections: Some(connections),
            rtt: Some(host.rtts.figures()),
            addresses: None,
            isr: queues,
            dispatched: Vec::new(),
            stages: stack.ledger().stages,
            stage_times: stack.stage_times(),
        }
    }

    /// Returns the figures of a switch. Called by its first thread.
    pub fn of_switch(switch: &Switch) -> Figures {
        let audit = switch.audit();
        let (costs, stage_times) = switch.loop_costs();
        let pool = switch.pool().stats();
        let ports = switch.members().into_iter().flat_map(|(_, info)| {
            let is_up = matches!(info.link().1, Carrier::Up);
            let name = info.name.clone();
            info.queues.into_iter().map(move |queue| {
                let all = [stats::entries(&queue.counts.rx), stats::entries(&queue.counts.tx)].concat();
                let (is_up, speed) = (is_up && queue.counts.link.is_up(), queue.counts.link.speed());
                PortFigures { name: name.clone(), counters: all, is_up, speed }
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
            .chain(switch.drops(&audit))
            .collect(),
            unaccounted: audit.unaccounted(),
            ports: ports.collect(),
            pool: [pool.live(), pool.buffers as u64],
            addresses: Some(switch.address_count() as u64),
            stages: costs.stages,
            stage_times,
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

    /// Ends the connection with the collector, which otherwise waits for a switch that no longer
    /// runs.
    pub fn end_report(&self) {
        if let Some(source) = self.figures.get() {
            source.end();
        }
    }
}
