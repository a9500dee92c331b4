//! `recv`: one thread takes bursts of frames from the generator without pause and passes them to
//! the host; the main thread reads the datagrams. As in the original tool, the generator does not
//! wait for the reader: datagrams that do not fit the socket's buffer are dropped and counted
//! (`inet.udp.in.buffer_full`). The ratio of sink to source thus shows which share of the load the
//! host can process.

use super::{BUFFERS, MTU, Options, Outcome, SIZE_MAX};
use anyhow::Context;
use apps::streams::{any_towards, at_port};
use buf::Burst;
use inet::iface::IfaceId;
use lock::Locks;
use node::Host;
use port::Port;
use port::pktgen::{self, Family, Source};
use socket::{Domain, Errno, Fd, Opt};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Size of the socket's receive buffer in bytes. The buffers of queued datagrams may have a total
/// size of eight times this value, that is 7,281 of the pool's 16,384 buffers. The pool is
/// therefore never empty, and the generator never stops.
const RECV_BUFFER: usize = 2 << 20;
const _: () = assert!(RECV_BUFFER * 8 / 2048 <= BUFFERS / 2);
/// L4 port at which the datagrams are received.
const PORT: u16 = 54_321;
/// Number of consecutive empty reads after which the reader sleeps. A wake-up from another core
/// costs more than spinning for this long.
const SPINS: u32 = 20_000;

/// The receiving end: a socket bound to the destination of the generated datagrams, and the iface
/// that receives their frames.
pub(super) struct End {
    iface: IfaceId,
    mac: wire::Mac,
    fd: Fd,
    family: Family,
}

impl End {
    pub(super) fn open<L: Locks>(host: &Host<L>, family: Family) -> anyhow::Result<End> {
        let iface = host.stack.iface_named("pg0").context("the rc script did not create interface pg0")?.id;
        let mac = host.stack.iface(iface).context("no interface pg0")?.mac;
        let calls = host.shared_calls();
        let ours = SocketAddr::new(pktgen::net(family, 0, 1), PORT);
        let fd = calls.socket_of(Domain::of(&ours))?;
        calls.bind(fd, at_port(any_towards(ours), PORT))?;
        calls.set_option(fd, Opt::RecvBuffer(RECV_BUFFER))?;
        calls.set_option(fd, Opt::RecvTimeout(Some(Duration::from_millis(50))))?;
        Ok(End { iface, mac, fd, family })
    }

    /// Returns a port that generates datagrams with `size` bytes of payload for this end.
    pub(super) fn generator<L: Locks>(&self, host: &Host<L>, size: usize) -> Port {
        let [dst, src] = [1, 2].map(|host| pktgen::net(self.family, 0, host));
        let source = Source { size, dst_mac: self.mac, src, dst, mtu: Some(MTU), ..Source::default() };
        pktgen::open("pg0", Some(&source), &host.stack.pool)
    }
}

/// Passes at most `most` frames from the generator to the host, even if the receive buffer of the
/// host's socket is full.
pub(super) fn pull<L: Locks>(host: &Host<L>, end: &End, generator: &mut Port, burst: &mut Burst, most: usize) {
    let cx = host.cx();
    generator.rx.rx_burst(burst, most, cx.now);
    host.stack.input(cx, end.iface, burst);
}

pub(super) fn run<L: Locks>(host: &Host<L>, options: &Options) -> anyhow::Result<Outcome>
where
    Host<L>: Sync,
{
    let calls = host.shared_calls();
    let end = End::open(host, options.family)?;
    let (fd, mut generator) = (end.fd, end.generator(host, options.size));
    let stop = AtomicBool::new(false);
    let (mut got, mut bytes) = (0u64, 0u64);
    let start = Instant::now();
    std::thread::scope(|scope| -> anyhow::Result<()> {
        let puller = dispatch::spawn_scoped(scope, "puller", || {
            // Two threads that are pinned to the same core would be slower than unpinned ones. If
            // pinning fails, the thread runs unpinned.
            let _ = dispatch::pin_to_core(dispatch::core_at(0));
            let alone = dispatch::cores() > 1;
            let mut burst = Burst::new();
            while !stop.load(Ordering::Relaxed) {
                pull(host, &end, &mut generator, &mut burst, options.burst);
                if !alone {
                    std::thread::yield_now(); // there is only one core, which the reader needs, too
                }
            }
        })?;
        let (mut spins, mut into) = (0, vec![0; SIZE_MAX]);
        calls.set_option(fd, Opt::NonBlocking(true))?;
        while !dispatch::stop_requested() && (options.count == 0 || got < options.count) {
            match calls.recv_from(fd, &mut into) {
                Ok((n, _)) => {
                    (got, bytes) = (got + 1, bytes + n as u64);
                    if spins >= SPINS {
                        calls.set_option(fd, Opt::NonBlocking(true))?;
                    }
                    spins = 0;
                }
                Err(Errno::EAGAIN) => {
                    spins += 1;
                    if spins == SPINS {
                        calls.set_option(fd, Opt::NonBlocking(false))?;
                    }
                }
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    return Err(error.into());
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        puller.join().map_err(|_| anyhow::anyhow!("generator thread panicked"))
    })?;
    let mut outcome = Outcome::new(options.mode, 1, start.elapsed());
    (outcome.source_count, outcome.source_bytes) = (generator.counts.rx.frames.get(), generator.counts.rx.bytes.get());
    (outcome.sink_count, outcome.sink_bytes) = (got, bytes);
    let not_made = generator.counts.rx.no_buffer.get();
    if not_made > 0 {
        outcome.drops.push(("pg0.rx.no_buffer".to_owned(), not_made));
    }
    calls.close(fd)?;
    Ok(outcome.audited(host))
}
