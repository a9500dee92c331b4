//! `recv`: a puller thread takes frames off the generator and puts them where they belong; this thread reads them.

use super::{Options, Outcome};
use anyhow::Context;
use buf::Burst;
use lock::Locks;
use node::Host;
use port::pktgen::{self, Source};
use socket::{Errno, Opt};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Datagrams taken with one call.
const BURST: usize = 64;
/// Empty reads in a row before the reader sleeps: a wake-up across cores costs more than spinning this long.
const SPINS: u32 = 20_000;

pub(super) fn run<L: Locks>(host: &Host<L>, options: &Options) -> anyhow::Result<Outcome>
where
    Host<L>: Sync,
{
    let iface = host.stack.iface_named("pg0").context("the rc script created no pg0")?.id;
    let mac = host.stack.iface(iface).context("pg0")?.mac;
    let calls = host.shared_calls();
    let fd = calls.socket()?;
    calls.bind(fd, "0.0.0.0:54321".parse()?)?;
    calls.set_option(fd, Opt::RecvBuffer(8 << 20))?;
    calls.set_option(fd, Opt::RecvTimeout(Some(Duration::from_millis(50))))?;
    let source = Source { size: options.size, dst_mac: mac, ..Source::default() };
    let mut generator = pktgen::open("pg0", Some(&source), &host.stack.pool);
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut got, mut bytes) = (0u64, 0u64);
    let start = Instant::now();
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let puller = dispatch::spawn_scoped(scope, "puller", || {
            // Two threads on one core are worse than unpinned ones; a core that cannot be had is none.
            let _ = dispatch::pin_to_core(0);
            let mut burst = Burst::new();
            let mut pulled = 0u64;
            while !stop.load(Ordering::Relaxed) {
                // The generator waits for the reader instead of filling its buffer with datagrams to be dropped.
                if pulled > received.load(Ordering::Relaxed) + 8192 {
                    std::hint::spin_loop();
                    continue;
                }
                let cx = host.cx();
                pulled += generator.rx.rx_burst(&mut burst, options.burst, cx.now) as u64;
                host.stack.input(cx, iface, &mut burst);
            }
        })?;
        let mut spins = 0;
        while !dispatch::stop_requested() && (options.count == 0 || got < options.count) {
            calls.set_option(fd, Opt::NonBlocking(spins < SPINS))?;
            match calls.recv_burst(fd, BURST, |datagram, _| bytes += datagram.len() as u64) {
                Ok(n) => {
                    got += n as u64;
                    received.store(got, Ordering::Relaxed);
                    spins = 0;
                }
                Err(Errno::EAGAIN) => spins += 1,
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    return Err(error.into());
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        puller.join().map_err(|_| anyhow::anyhow!("the puller panicked"))
    })?;
    let mut outcome = Outcome::new(options.mode, 1, start.elapsed());
    (outcome.source_count, outcome.source_bytes) = (generator.counts.rx.frames.get(), generator.counts.rx.bytes.get());
    (outcome.sink_count, outcome.sink_bytes) = (got, bytes);
    calls.close(fd)?;
    Ok(outcome.audited(host))
}
