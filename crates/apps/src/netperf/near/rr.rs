//! TCP_RR and UDP_RR: exchanges requests and responses on one socket. With `-b`, several requests
//! are in flight.

use super::{Interim, Measured, Near, Pace, Sockets, setup};
use crate::netperf::Options;
use crate::netperf::hist::Histogram;
use crate::streams::Failure;
use anyhow::anyhow;
use linerate::stack::Instant;
use std::collections::VecDeque;
use std::net::SocketAddr;

impl<S: Sockets, R: FnMut(&mut S, Pace) -> Instant, E: FnMut(Interim)> Near<'_, S, R, E> {
    pub(super) fn rr(&mut self, to: SocketAddr, options: &Options) -> anyhow::Result<Measured> {
        let udp = options.test.is_udp();
        let fd = if udp { self.datagrams(to, options)? } else { self.connect(to, &setup(options))? };
        let (request, response) = (vec![b'n'; options.request], options.response);
        let mut into = vec![0; if udp { crate::netperf::DATAGRAM_MAX } else { response }];
        let mut found = Measured { times: options.times.then(Histogram::default), ..Measured::default() };
        found.sizes = self.sockets.sizes(fd);
        let mut begun = VecDeque::with_capacity(options.burst + 1);
        let mut meter = self.meter(options);
        // Number of requests left to send, bytes already sent of the next one, and bytes already
        // received of the current response.
        let (mut due, mut sent, mut got) = (options.burst as u64 + 1, 0, 0);
        due = due.min(meter.goal);
        let mut requested = due;
        while self.goes_on(&mut meter, found.messages)? {
            let mut pace = Pace::Wait;
            while due > 0 {
                if sent == 0 && found.times.is_some() {
                    begun.push_back(self.sockets.now());
                }
                match self.sockets.send(fd, request.get(sent..).unwrap_or_default()) {
                    Ok(n) => sent += n,
                    // A datagram for which no buffer is free is sent again later.
                    Err(Failure::Again | Failure::NoRoom) => {
                        if sent == 0 {
                            begun.pop_back();
                        }
                        break;
                    }
                    Err(why) => return Err(anyhow!(why).context("send")),
                }
                if sent >= options.request {
                    (due, sent) = (due - 1, 0);
                }
            }
            loop {
                let space = if udp { into.as_mut_slice() } else { into.get_mut(got..).unwrap_or_default() };
                match self.sockets.recv(fd, space) {
                    Ok(0) if !udp => return Err(anyhow!("connection closed by the far end")),
                    Ok(n) => got += n,
                    Err(Failure::Again) => break,
                    Err(why) => return Err(anyhow!(why).context("receive")),
                }
                if got < response {
                    continue;
                }
                pace = Pace::Go;
                (got, found.messages) = (0, found.messages + 1);
                if let (Some(times), Some(begun)) = (&mut found.times, begun.pop_front()) {
                    times.add(self.sockets.now().since(begun));
                }
                if requested < meter.goal {
                    (requested, due) = (requested + 1, due + 1);
                }
                break; // as in netperf, the next request is sent before the next receive
            }
            if pace == Pace::Wait {
                self.step(pace);
            }
        }
        found.took = meter.span.end(self.now);
        found.bytes = found.messages * (options.request + response) as u64;
        found.cut = meter.cut;
        if !udp {
            self.finish(fd, &mut into)?;
        }
        self.sockets.close(fd);
        Ok(found)
    }

    /// Reads until the far end closes the connection, since closing with unread data would reset
    /// it.
    fn finish(&mut self, fd: S::Fd, into: &mut [u8]) -> anyhow::Result<()> {
        self.sockets.shutdown(fd);
        while self.wait("waiting for the far end to close", |sockets| sockets.recv(fd, into))? > 0 {}
        Ok(())
    }
}
