//! Runs the ends of netperf, netrate and workloads on our hosts: implements [`Sockets`] on one of
//! our hosts, which the calling thread also runs.

pub mod serve;
#[cfg(test)]
mod tests;

use apps::netperf::sockets::{Pace, Setup, Sizes, Sockets};
use apps::streams::Failure;
use clock::Instant;
use lock::Locks;
use node::Host;
use socket::{Ancillary, Calls, Domain, Errno, Fd, Opt, OptKind};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::time::Duration;

/// Number of rounds without a frame after which a spinning thread yields its CPU, so that the host
/// at the other end soon runs even if there are more hosts than cores.
const POLITE: u32 = 1 << 5;
/// Maximum duration of a sleep, and thus the maximum delay with which a deadline is noticed.
const NAP: Duration = Duration::from_millis(10);

/// Behavior of a round in which no frame arrives, if the caller of the round waits for an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rest {
    /// Returns at once, since the same thread also runs the other end, which has its turn next.
    Never,
    /// Spins, and regularly yields the CPU. Used if another thread runs the other end and a ring
    /// connects the two ends.
    Spins,
    /// Sleeps until the descriptor of the port is readable or a timer expires.
    Sleeps,
}

/// The sockets of one host.
#[derive(Debug)]
pub struct OurSockets<'h, L: Locks> {
    host: &'h Host<L>,
    now: Instant,
    rest: Rest,
    idle: u32,
}

impl<'h, L: Locks> OurSockets<'h, L> {
    /// Creates the sockets of `host`, which only the calling thread runs.
    pub fn new(host: &'h Host<L>, rest: Rest) -> OurSockets<'h, L> {
        OurSockets { host, now: host.clock.now(), rest, idle: 0 }
    }

    /// Reads the clock after a round that the caller ran itself. The following calls use this time,
    /// which is also returned.
    pub fn set_now(&mut self) -> Instant {
        self.now = self.host.clock.now();
        self.now
    }

    /// Returns socket calls that use the time of the last round. Reading the clock for each call
    /// would take a sixth of a transaction's time.
    #[inline(always)]
    fn calls(&self) -> Calls<'h, L> {
        self.host.calls_at(self.now)
    }

    fn nap(&mut self, next: Option<Instant>) {
        self.idle = self.idle.wrapping_add(1);
        match self.rest {
            Rest::Never => {}
            Rest::Spins if self.idle.is_multiple_of(POLITE) => std::thread::yield_now(),
            Rest::Spins => std::hint::spin_loop(),
            Rest::Sleeps => {
                let until = next.unwrap_or(Instant::NEVER).min(self.now.after(NAP));
                self.host.wait(until, None);
            }
        }
    }

    fn set_up(&self, fd: Fd, setup: &Setup) -> Result<(), Errno> {
        let calls = self.calls();
        calls.set_option(fd, Opt::NonBlocking(true))?;
        if let Some(bytes) = setup.recv_buffer {
            calls.set_option(fd, Opt::RecvBuffer(bytes))?;
        }
        if !fd.is_stream() {
            return Ok(()); // UDP has no send buffer
        }
        if let Some(bytes) = setup.send_buffer {
            calls.set_option(fd, Opt::SendBuffer(bytes))?;
        }
        if setup.nodelay { calls.set_option(fd, Opt::NoDelay(true)) } else { Ok(()) }
    }

    /// Returns `fd`, or closes it and returns the error.
    fn or_close(&self, fd: Fd, done: Result<(), Errno>) -> Result<Fd, Failure> {
        done.map(|()| fd).map_err(|why| {
            let _ = self.calls().close(fd); // opened above
            failure(why)
        })
    }
}

impl<L: Locks> Sockets for OurSockets<'_, L> {
    type Fd = Fd;

    #[inline]
    fn step(&mut self, pace: Pace) -> Instant {
        let step = self.host.step();
        self.now = step.now;
        if step.frames == 0 && pace == Pace::Wait {
            self.nap(step.next);
        } else {
            self.idle = 0;
        }
        self.now
    }

    #[inline(always)]
    fn latest(&self) -> Instant {
        self.now
    }

    fn now(&self) -> Instant {
        self.host.clock.now()
    }

    fn listen(&mut self, at: SocketAddr, setup: &Setup) -> Result<Fd, Failure> {
        let calls = self.calls();
        let fd = calls.stream_socket_of(Domain::of(&at)).map_err(failure)?;
        let begin = || {
            self.set_up(fd, setup)?;
            calls.set_option(fd, Opt::ReuseAddr(true))?;
            calls.bind(fd, at)?;
            calls.listen(fd, 128)
        };
        self.or_close(fd, begin())
    }

    fn accept(&mut self, listener: Fd) -> Result<(Fd, SocketAddr), Failure> {
        let calls = self.calls();
        let (fd, peer) = calls.accept(listener).map_err(failure)?;
        Ok((self.or_close(fd, calls.set_option(fd, Opt::NonBlocking(true)))?, peer))
    }

    fn connect(&mut self, to: SocketAddr, setup: &Setup) -> Result<Fd, Failure> {
        let calls = self.calls();
        let fd = calls.stream_socket_of(Domain::of(&to)).map_err(failure)?;
        let begin = || {
            self.set_up(fd, setup)?;
            if let Some(from) = setup.from {
                calls.bind(fd, SocketAddr::from((from, 0)))?;
            }
            match calls.connect(fd, to) {
                Err(Errno::EINPROGRESS) => Ok(()),
                done => done,
            }
        };
        self.or_close(fd, begin())
    }

    #[inline]
    fn connected(&mut self, fd: Fd) -> Result<(), Failure> {
        let calls = self.calls();
        match calls.take_error(fd) {
            Ok(None) => {}
            Ok(Some(why)) | Err(why) => return Err(failure(why)),
        }
        match calls.peer_addr(fd) {
            Ok(_) => Ok(()),
            Err(Errno::ENOTCONN) => Err(Failure::Again),
            Err(why) => Err(failure(why)),
        }
    }

    fn datagrams(&mut self, at: SocketAddr, to: Option<SocketAddr>, setup: &Setup) -> Result<Fd, Failure> {
        let calls = self.calls();
        let fd = calls.socket_of(Domain::of(&at)).map_err(failure)?;
        let begin = || {
            self.set_up(fd, setup)?;
            calls.set_option(fd, Opt::RecvPacketInfo(true))?;
            calls.bind(fd, at)?;
            to.map_or(Ok(()), |to| calls.connect(fd, to))
        };
        self.or_close(fd, begin())
    }

    #[inline]
    fn send(&mut self, fd: Fd, bytes: &[u8]) -> Result<usize, Failure> {
        self.calls().send(fd, bytes).map_err(failure)
    }

    #[inline]
    fn recv(&mut self, fd: Fd, into: &mut [u8]) -> Result<usize, Failure> {
        self.calls().recv(fd, into).map_err(failure)
    }

    #[inline]
    fn send_to(&mut self, fd: Fd, bytes: &[u8], to: SocketAddr) -> Result<usize, Failure> {
        self.calls().send_to(fd, bytes, &to).map_err(failure)
    }

    #[inline]
    fn recv_from(&mut self, fd: Fd, into: &mut [u8]) -> Result<(usize, SocketAddr), Failure> {
        self.calls().recv_from(fd, into).map_err(failure)
    }

    #[inline]
    fn recv_msg(&mut self, fd: Fd, into: &mut [u8]) -> Result<(usize, SocketAddr, IpAddr), Failure> {
        let message = self.calls().recv_msg(fd, into).map_err(failure)?;
        Ok((message.len, message.from, message.to()))
    }

    #[inline]
    fn send_msg(&mut self, fd: Fd, bytes: &[u8], to: SocketAddr, from: IpAddr) -> Result<usize, Failure> {
        self.calls().send_msg(fd, bytes, Some(&to), &Ancillary::source(from)).map_err(failure)
    }

    fn shutdown(&mut self, fd: Fd) {
        let _ = self.calls().shutdown(fd, Shutdown::Write); // fails only if the connection is gone
    }

    fn close(&mut self, fd: Fd) {
        let _ = self.calls().close(fd); // never blocks: SO_LINGER is not set
    }

    fn sizes(&self, fd: Fd) -> Sizes {
        let calls = self.calls();
        let recv = match calls.option(fd, OptKind::RecvBuffer) {
            Ok(Opt::RecvBuffer(bytes)) => bytes,
            _ => 0,
        };
        let send = match calls.option(fd, OptKind::SendBuffer) {
            Ok(Opt::SendBuffer(bytes)) => bytes,
            _ => self.host.stack.sysctls.udp_sendspace.get().max(0) as usize,
        };
        Sizes { send, recv }
    }

    fn local(&self, fd: Fd) -> Result<SocketAddr, Failure> {
        self.calls().local_addr(fd).map_err(failure)
    }
}

fn failure(errno: Errno) -> Failure {
    match errno {
        Errno::EADDRNOTAVAIL => Failure::InUse, // connect: all L4 ports are in use
        Errno::EMSGSIZE => Failure::Invalid,
        other => apps::streams::net::failure_of(other),
    }
}
