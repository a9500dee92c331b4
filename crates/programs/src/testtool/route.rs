//! `route`: N generators send through one host, or through one host each, to N sinks. One thread
//! runs all pairs, or each pair has its own thread.

use super::{MTU, Options, Outcome};
use anyhow::Context;
use buf::Burst;
use inet::iface::IfaceId;
use lock::Locks;
use node::Host;
use port::pktgen::{self, Source};
use port::{Port, PortCounts};
use std::sync::{Arc, Barrier};
use std::time::Instant;

/// A pair of ports: a generator on iface pg(2i), and the sink pg(2i+1).
struct Pair {
    iface: IfaceId,
    generator: Port,
    sink: Arc<PortCounts>,
    before: (u64, u64),
}

fn pairs<L: Locks>(host: &Host<L>, options: &Options) -> anyhow::Result<Vec<Pair>> {
    let ports = host.ports();
    (0..options.parallel)
        .map(|i| {
            let (from, to) = (format!("pg{}", 2 * i), format!("pg{}", 2 * i + 1));
            let iface =
                host.stack.iface_named(&from).with_context(|| format!("the rc script did not create {from}"))?;
            let out = host.stack.iface_named(&to).with_context(|| format!("the rc script did not create {to}"))?.id;
            let sink = ports.iter().find(|port| port.iface == out).with_context(|| to.clone())?.counts.clone();
            let source = Source {
                size: options.size,
                count: options.count,
                dst_mac: iface.mac,
                src: pktgen::net(options.family, 2 * i as u16, 2),
                dst: pktgen::net(options.family, 2 * i as u16 + 1, 2),
                mtu: Some(MTU),
                ..Source::default()
            };
            let generator = pktgen::open(&from, Some(&source), &host.stack.pool);
            let before = (sink.tx.frames.get(), sink.tx.bytes.get());
            Ok(Pair { iface: iface.id, generator, sink, before })
        })
        .collect()
}

impl Pair {
    /// Routes one burst; returns `false` once the generator has sent all its packets.
    fn turn<L: Locks>(&mut self, host: &Host<L>, burst: &mut Burst, most: usize) -> bool {
        let cx = host.cx();
        if self.generator.rx.rx_burst(burst, most, cx.now) == 0 && self.generator.rx.is_gone() {
            return false;
        }
        host.stack.input(cx, self.iface, burst);
        true
    }
}

/// Runs all pairs on the calling thread, one burst of each pair in turn.
pub(super) fn on_one_thread<L: Locks>(host: &Host<L>, options: &Options) -> anyhow::Result<Outcome> {
    host.step();
    let mut pairs = pairs(host, options)?;
    let mut burst = Burst::new();
    let start = Instant::now();
    let mut going = true;
    while going && !dispatch::stop_requested() {
        going = false;
        for _ in 0..64 {
            for pair in &mut pairs {
                going |= pair.turn(host, &mut burst, options.burst);
            }
        }
        host.stack.poll(host.cx());
    }
    Ok(sum(options, start, &pairs).audited(host))
}

/// Runs each pair on its own host and thread, and on its own core if there are enough cores. All
/// pairs start when the last one is ready.
pub(super) fn on_hosts<L: Locks>(options: &Options) -> anyhow::Result<Outcome> {
    let alone = Options { parallel: 1, ..options.clone() };
    let ready = Barrier::new(options.parallel);
    let outcomes = std::thread::scope(|scope| {
        let pair = |i: usize| {
            let (alone, ready) = (&alone, &ready);
            dispatch::spawn_scoped(scope, &format!("pair{i}"), move || -> anyhow::Result<Outcome> {
                // If there are more pairs than cores, pairs share cores. If pinning fails, the
                // thread runs unpinned.
                let _ = dispatch::pin_to_core(dispatch::core_at(i));
                let host = super::host::<L>(&format!("testtool{i}"), alone);
                ready.wait(); // also after a failure, so that the other threads do not wait forever
                on_one_thread(&host?, alone)
            })
        };
        let threads: Vec<_> = (0..options.parallel).map(pair).collect();
        threads
            .into_iter()
            .map(|thread| match thread?.join() {
                Ok(outcome) => outcome,
                Err(_) => anyhow::bail!("thread of a pair panicked"),
            })
            .collect::<anyhow::Result<Vec<Outcome>>>()
    })?;
    Ok(Outcome::together(options.mode, outcomes))
}

/// Runs each pair on its own thread, and on its own core if there are enough cores.
pub(super) fn on_threads<L: Locks>(host: &Host<L>, options: &Options) -> anyhow::Result<Outcome>
where
    Host<L>: Sync,
{
    host.step();
    let mut pairs = pairs(host, options)?;
    let start = Instant::now();
    std::thread::scope(|scope| -> std::io::Result<()> {
        for (i, pair) in pairs.iter_mut().enumerate() {
            dispatch::spawn_scoped(scope, &format!("pair{i}"), move || {
                // If there are more pairs than cores, pairs share cores. If pinning fails, the
                // thread runs unpinned.
                let _ = dispatch::pin_to_core(dispatch::core_at(i));
                let mut burst = Burst::new();
                while pair.turn(host, &mut burst, options.burst) && !dispatch::stop_requested() {}
            })
            // Pairs that already run would not end if no packet count is set.
            .inspect_err(|_| dispatch::request_stop())?;
        }
        Ok(())
    })?;
    host.stack.poll(host.cx());
    Ok(sum(options, start, &pairs).audited(host))
}

fn sum(options: &Options, start: Instant, pairs: &[Pair]) -> Outcome {
    let mut outcome = Outcome::new(options.mode, options.parallel, start.elapsed());
    for pair in pairs {
        outcome.source_count += pair.generator.counts.rx.frames.get();
        outcome.source_bytes += pair.generator.counts.rx.bytes.get();
        outcome.sink_count += pair.sink.tx.frames.get() - pair.before.0;
        outcome.sink_bytes += pair.sink.tx.bytes.get() - pair.before.1;
    }
    outcome
}
