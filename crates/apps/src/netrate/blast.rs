//! `netblast` sends datagrams as fast as possible, `netsend` sends them at a given rate, and
//! `netreceive` receives them. Each datagram of at least 4 bytes starts with a sequence number in
//! network byte order. Failed sends also consume a number.

use super::{Kind, Out, Services, stamp, wall};
use crate::netperf::session::{FarEnd, Play, Round};
use crate::netperf::sockets::{Pace, Setup, Sockets, Waits};
use crate::slots::Limits;
use crate::streams::{Failure, any_towards};
use linerate::stack::Instant;
use std::net::SocketAddr;
use std::time::Duration;

/// Default L4 port of netreceive.
const AT: u16 = 9000;
/// Maximum number of sends between two calls of `round`. If one thread runs both ends, the receive
/// buffer must have space for these datagrams until the far end has its turn.
const QUANTUM: usize = 16;
/// Maximum number of payload bytes sent between two calls of `round`.
const QUANTUM_BYTES: usize = 32 << 10;

/// Counters of successful and failed sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sends {
    calls: u64,
    errors: u64,
    counter: u32,
}

impl Sends {
    fn one<S: Sockets>(&mut self, sockets: &mut S, fd: S::Fd, packet: &mut [u8]) {
        if let Some(number) = packet.first_chunk_mut() {
            *number = self.counter.to_be_bytes();
        }
        self.counter = self.counter.wrapping_add(1);
        self.calls += 1;
        self.errors += u64::from(sockets.send(fd, packet).is_err());
    }
}

fn open<S: Sockets>(sockets: &mut S, to: SocketAddr) -> anyhow::Result<S::Fd> {
    let setup = Setup { waits: Waits::Briefly, ..Setup::default() };
    Ok(sockets.datagrams(any_towards(to), Some(to), &setup)?)
}

/// The tool `netblast`.
pub struct Netblast<'o> {
    /// Payload of each datagram in bytes.
    pub payload: usize,
    /// Duration for which datagrams are sent.
    pub time: Duration,
    /// Destination of the output.
    pub out: Out<'o>,
}

impl std::fmt::Debug for Netblast<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Netblast").field("payload", &self.payload).finish_non_exhaustive()
    }
}

impl Play for Netblast<'_> {
    type Far = Netreceive;

    fn near<S: Sockets>(&mut self, sockets: &mut S, round: Round<'_, S>, at: SocketAddr) -> anyhow::Result<()> {
        let fd = open(sockets, at)?;
        let (mut packet, mut sends) = (vec![0; self.payload], Sends::default());
        let burst = (QUANTUM_BYTES / self.payload.max(1)).clamp(1, QUANTUM);
        let (start, began) = (wall(), round(sockets, Pace::Go));
        let until = began.after(self.time);
        let mut now = began;
        while now < until && !dispatch::stop_requested() {
            (0..burst).for_each(|_| sends.one(sockets, fd, &mut packet));
            now = round(sockets, Pace::Go);
        }
        sockets.close(fd);
        let (Sends { calls, errors, .. }, seconds) = (sends, now.since(began).as_secs_f64().max(1e-9));
        let share = errors as f64 / calls.max(1) as f64;
        write!(
            self.out,
            "\nstart:             {}\nfinish:            {}\nsend calls:        {calls}\nsend errors:       {errors}\n\
             approx send rate:  {}\napprox error rate: {share:.6}\n",
            stamp(start),
            stamp(wall()),
            ((calls - errors) as f64 / seconds) as u64,
        )?;
        Ok(())
    }
}

/// The tool `netsend`.
pub struct Netsend<'o> {
    /// Payload of each datagram in bytes.
    pub payload: usize,
    /// Number of datagrams to send per second, at most a million.
    pub rate: u32,
    /// Duration in seconds; 0: until Ctrl-C.
    pub seconds: u64,
    /// Destination of the output.
    pub out: Out<'o>,
}

impl std::fmt::Debug for Netsend<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Netsend").field("rate", &self.rate).finish_non_exhaustive()
    }
}

impl Play for Netsend<'_> {
    type Far = Netreceive;

    fn near<S: Sockets>(&mut self, sockets: &mut S, round: Round<'_, S>, at: SocketAddr) -> anyhow::Result<()> {
        let interval = Duration::from_nanos(1_000_000_000 / u64::from(self.rate.max(1)));
        let Netsend { payload, seconds, out, .. } = self;
        writeln!(out, "Sending packet of payload size {payload} every {} for {seconds} seconds", stamp(interval))?;
        out.flush()?;
        let fd = open(sockets, at)?;
        let (mut packet, mut sends) = (vec![0; *payload], Sends::default());
        // As in the original tool, sending starts on a full second of the clock, one to two seconds
        // from now.
        let lead = Duration::from_secs(2).saturating_sub(Duration::from_nanos(wall().subsec_nanos().into()));
        let mut due = round(sockets, Pace::Go).after(lead);
        let end = if *seconds == 0 { Instant::NEVER } else { due.after(Duration::from_secs(*seconds)) };
        'all: loop {
            due = due.after(interval);
            // At least one round runs before each datagram, even when sending is late, to detect
            // Ctrl-C and because the other end may need this thread.
            let now = loop {
                round(sockets, Pace::Go);
                if dispatch::stop_requested() {
                    break 'all;
                }
                let now = sockets.now();
                if now >= due {
                    break now;
                }
            };
            if now >= end {
                break;
            }
            sends.one(sockets, fd, &mut packet);
        }
        round(sockets, Pace::Go);
        sockets.close(fd);
        let Sends { calls, errors, .. } = sends;
        if errors > 0 {
            writeln!(out, "{errors} of {calls} sends failed")?;
        }
        Ok(())
    }
}

/// netreceive, the far end of netblast and netsend.
#[derive(Debug)]
pub struct Netreceive;

impl FarEnd for Netreceive {
    type End<S: Sockets> = Services<S>;

    const PORT: u16 = AT;

    const CONNECTIONS: usize = 0;

    fn open<S: Sockets>(sockets: &mut S, at: SocketAddr, limits: Limits) -> Result<(Services<S>, u16), Failure> {
        Services::open(sockets, at, Kind::TakeDatagrams, limits)
    }
}
