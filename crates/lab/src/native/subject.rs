//! The subjects: the kernel's `send` into a device that drops, its `recv` alone, and a loop over
//! either send call.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use anyhow::{Context, ensure};

use super::PAYLOAD;
use super::send::{Done, Job, Sender};
use crate::subject::{Reading, Subject, measure};

const NOTHING: Reading = Reading { ops: 0, ticks: 0, wall_ns: 0, cpu_ns: 0 };

fn add(sum: &mut Reading, one: Reading) {
    sum.ops += one.ops;
    sum.ticks += one.ticks;
    sum.wall_ns += one.wall_ns;
    sum.cpu_ns += one.cpu_ns;
}

/// The kernel's connected UDP `send`, 22-byte payload, into a device that drops.
#[derive(Debug)]
pub struct NativeSend {
    sender: Sender,
    job: Job,
    sent: u64,
    dropped: u64,
}

impl NativeSend {
    /// Starts the child, which sets up its device. A trial calls `send` once per packet.
    ///
    /// # Errors
    /// The child cannot be started, or has neither a TAP nor loopback to send into.
    pub fn start() -> anyhow::Result<NativeSend> {
        let job = Job { count: 20_000, size: PAYLOAD, burst: 1 };
        Ok(NativeSend { sender: Sender::start()?, job, sent: 0, dropped: 0 })
    }

    /// Returns a sentence on the device that received the packets, the drop method, and whether the
    /// kernel computed the checksums.
    pub fn device(&self) -> &str {
        self.sender.device()
    }

    /// Returns the number of packets sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Returns the number of packets dropped so far, by the device's own statistics.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Subject for NativeSend {
    fn id(&self) -> &str {
        "kernel.send.csum"
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let done = self.sender.run(self.job)?;
        self.sent += done.reading.ops;
        self.dropped += done.dropped;
        Ok(done.reading)
    }
}

/// Result of [`native_loop`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeLoop {
    /// Description of the device, as [`NativeSend::device`].
    pub device: String,
    /// Send call: `send`, or `sendmmsg, <burst> messages per call`.
    pub call: String,
    /// Number of packets sent, and their cost.
    pub reading: Reading,
    /// Packets dropped, by the device's own statistics.
    pub dropped: u64,
}

/// Sends `count` packets of `size` payload bytes through the kernel: `send` each if `burst` is 1,
/// else `sendmmsg`.
///
/// # Errors
/// Arguments out of range (`count` at least 1, `size` 1 to 1472, `burst` 1 to 1024), or as
/// [`NativeSend::start`].
pub fn native_loop(count: u64, size: usize, burst: usize) -> anyhow::Result<NativeLoop> {
    loop_on(Sender::start()?, Job { count, size, burst })
}

pub(super) fn loop_on(mut sender: Sender, job: Job) -> anyhow::Result<NativeLoop> {
    let done = repeat(&mut sender, job, || false)?;
    let call = if job.burst == 1 { "send".to_owned() } else { format!("sendmmsg, {} messages per call", job.burst) };
    Ok(NativeLoop { device: sender.device().to_owned(), call, reading: done.reading, dropped: done.dropped })
}

/// Maximum number of packets in a run. The child reads its socket only between runs, so that a run
/// should take no more than about a second.
pub(super) const MOST_IN_A_RUN: u64 = 1_000_000;

/// Runs until `job.count` packets were sent, or until `stop` returns true between two runs. Only
/// the send calls are timed.
pub(super) fn repeat(sender: &mut Sender, job: Job, stop: impl Fn() -> bool) -> anyhow::Result<Done> {
    job.check()?;
    let mut sum = Done { reading: NOTHING, dropped: 0 };
    while sum.reading.ops < job.count && !stop() {
        let count = (job.count - sum.reading.ops).min(MOST_IN_A_RUN);
        let done = sender.run(Job { count, ..job })?;
        sum.dropped += done.dropped;
        add(&mut sum.reading, done.reading);
    }
    Ok(sum)
}

/// The kernel's `recv` call alone: times the reading of 22-byte datagrams that wait in a loopback
/// socket.
#[derive(Debug)]
pub struct NativeRecv {
    from: UdpSocket,
    to: UdpSocket,
}

/// Number of datagrams that wait in the socket. A default receive buffer has space for 277 (212,992
/// bytes, of which each datagram is charged 768).
pub(super) const WAITING: u64 = 128;
pub(super) const REFILLS: u64 = 100;

impl NativeRecv {
    /// Binds the two sockets on 127.0.0.1, in this process and its own namespace.
    ///
    /// # Errors
    /// Errors of socket(2), bind(2) or connect(2).
    pub fn start() -> anyhow::Result<NativeRecv> {
        let to = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot bind a UDP socket on 127.0.0.1")?;
        let from = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot bind a UDP socket on 127.0.0.1")?;
        from.connect(to.local_addr()?).context("cannot connect over loopback")?;
        to.set_read_timeout(Some(Duration::from_secs(1)))?;
        Ok(NativeRecv { from, to })
    }

    fn fill(&self) -> anyhow::Result<()> {
        for _ in 0..WAITING {
            self.from.send(&[0x5a; PAYLOAD]).context("cannot send over loopback")?;
        }
        Ok(())
    }

    /// Reads the waiting datagrams: the measured part.
    fn drain(&self) -> anyhow::Result<Reading> {
        let (mut bytes, mut buffer) = (0, [0; 64]);
        let mut outcome = Ok(());
        let reading = measure(WAITING, || {
            outcome = (0..WAITING).try_for_each(|_| self.to.recv(&mut buffer).map(|n| bytes += n as u64));
        });
        outcome.context("cannot receive over loopback")?;
        let expected = WAITING * PAYLOAD as u64;
        ensure!(bytes == expected, "received {bytes} bytes, expected {expected}");
        Ok(reading)
    }
}

impl Subject for NativeRecv {
    fn id(&self) -> &str {
        "kernel.recv.one_thread"
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let mut sum = NOTHING;
        for _ in 0..REFILLS {
            self.fill()?;
            add(&mut sum, self.drain()?);
        }
        Ok(sum)
    }
}
