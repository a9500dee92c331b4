//! `netrate http -t`: a thread with blocking calls for each connection, as in the program that it
//! imitates.
//!
//! With our hosts, the near end is a host that many threads enter (`light` locks), with one more
//! thread that steps it. The far end is the same as without `-t`.

use super::{Over, Place, balanced, beside, far_end};
use crate::native::sockets::{Calls, KernelSockets};
use anyhow::{anyhow, ensure};
use apps::netperf::sockets::PATIENCE;
use apps::netrate::{Fetch, Httpd, http};
use apps::span::Took;
use lock::Light;
use port::Pairs;
use socket::net::TcpStream;
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Maximum number of concurrent connections if the near end is our host, limited by the number of
/// threads that can be inside stacks.
pub const THREADS_MAX: usize = 48;
/// Pause after a failed connect, during which an L4 port may become free.
const NAP: Duration = Duration::from_millis(1);

impl Place {
    /// Runs `fetch` with a thread for each of its connections.
    ///
    /// # Errors
    /// The link does not support `-t`, or a host, port or thread cannot be created.
    pub fn http_threads(&self, fetch: &mut Fetch<'_>) -> anyhow::Result<()> {
        match self.over {
            Over::Native => self.kernels(fetch),
            Over::Pair | Over::Nic => {
                let most = THREADS_MAX;
                ensure!(
                    fetch.at_a_time <= most,
                    "-t: {} threads: a host of our stack supports at most {most}",
                    fetch.at_a_time
                );
                self.ours(fetch)
            }
            Over::Router | Over::Tap | Over::Veth => Err(anyhow!("-t is supported only over pair, nic or native")),
        }
    }

    fn ours(&self, fetch: &mut Fetch<'_>) -> anyhow::Result<()> {
        let pairs = Pairs::new();
        let far =
            |over: &AtomicBool, reported: &super::Told| self.far_there::<Fetch<'_>>(&pairs, over, reported).map(drop);
        beside(fetch, far, |fetch, port| {
            let near = self.host::<Light>(0, &pairs)?;
            let (at, over) = (self.far_at(port), AtomicBool::new(false));
            thread::scope(|scope| {
                // stops the thread on every exit, before the scope joins
                let _end = super::End(&over);
                dispatch::spawn_scoped(scope, "near", || near.run(|| over.load(Ordering::Acquire)))?;
                each(fetch, || {
                    let stream = TcpStream::connect_timeout(&&near, &at, PATIENCE)?;
                    stream.set_read_timeout(Some(PATIENCE))?;
                    Ok(stream)
                })
            })?;
            balanced(&near)
        })
    }

    /// Runs both ends on the kernel's loopback.
    fn kernels(&self, fetch: &mut Fetch<'_>) -> anyhow::Result<()> {
        let loopback = self.far_at(0);
        beside(
            fetch,
            |over, reported| far_end::<Httpd, _>(&mut KernelSockets::new(Calls::Wait), loopback, over, reported),
            |fetch, port| {
                let at = self.far_at(port);
                each(fetch, || {
                    let stream = std::net::TcpStream::connect_timeout(&at, PATIENCE)?;
                    stream.set_read_timeout(Some(PATIENCE))?;
                    Ok(stream)
                })
            },
        )
    }
}

/// Runs a thread for each connection, which performs one transfer after the other until the time is
/// over.
fn each<C: Read + Write>(fetch: &mut Fetch<'_>, connect: impl Fn() -> io::Result<C> + Sync) -> anyhow::Result<()> {
    let path = fetch.path;
    http::transfer(&mut connect()?, path); // resolves neighbors before the time starts
    let start = Instant::now();
    let until = start + fetch.time;
    let one = || {
        let (mut transfers, mut errors) = (0u64, 0u64);
        while Instant::now() < until && !dispatch::stop_requested() {
            match connect().map(|mut stream| http::transfer(&mut stream, path)) {
                Ok(true) => transfers += 1,
                Ok(false) => errors += 1,
                Err(_) => {
                    errors += 1;
                    thread::sleep(NAP);
                }
            }
        }
        (transfers, errors)
    };
    let (transfers, errors) = thread::scope(|scope| {
        let threads = (0..fetch.at_a_time).map(|at| dispatch::spawn_scoped(scope, &format!("http{at}"), one));
        let threads: Vec<_> = threads.collect::<io::Result<_>>()?;
        let mut sum = (0, 0);
        for thread in threads {
            let (transfers, errors) = thread.join().map_err(|_| anyhow!("a thread panicked"))?;
            sum = (sum.0 + transfers, sum.1 + errors);
        }
        anyhow::Ok(sum)
    })?;
    let seconds = start.elapsed().as_secs_f64();
    fetch.done = Some((transfers, Took { seconds, preempted: 0.0 }));
    Ok(http::print_rates(fetch.out, transfers, errors, seconds)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use apps::netrate::PATH;

    #[test]
    fn each_connection_has_a_thread_on_our_stack_and_on_the_kernel() {
        for over in [Over::Pair, Over::Native] {
            let mut out = Vec::new();
            let mut fetch =
                Fetch { at_a_time: 6, time: Duration::from_millis(300), path: PATH, out: &mut out, done: None };
            Place::new(over).http_threads(&mut fetch).unwrap();
            let (transfers, _) = fetch.done.unwrap();
            let said = String::from_utf8(out).unwrap();
            assert!(transfers > 6 && said.ends_with("transfers/second\n0 errors/second\n"), "{over:?}: {said}");
        }
        for (over, says) in [(Over::Pair, "at most 48"), (Over::Veth, "over pair, nic or native")] {
            let (mut out, time) = (Vec::new(), Duration::from_millis(1));
            let mut fetch = Fetch { at_a_time: 49, time, path: PATH, out: &mut out, done: None };
            assert!(Place::new(over).http_threads(&mut fetch).unwrap_err().to_string().contains(says));
        }
    }
}
