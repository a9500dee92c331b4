//! The parent's side: starts the child in its namespace, asks for runs, sees to it that the child ends.
//!
//! | line | from | means |
//! |---|---|---|
//! | `device <sentence>` | child | set up; where packets will go |
//! | `run <count> <size> <burst> <processor>` | parent | a [`Job`], on that processor |
//! | `done <ticks> <wall_ns> <cpu_ns> <errors> <dropped>` | child | what it took, and the device's own count |
//! | `failed <why>` | child | instead of either answer |

use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use port::os::netns;

use super::child::{ASKED, user_namespace};
use crate::os;
use crate::subject::Reading;

/// The largest payload in one frame of 1500 bytes.
const LARGEST: usize = 1472;
/// Most messages in one sendmmsg(2): UIO_MAXIOV.
const MOST_AT_ONCE: usize = 1024;

/// What the child is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Job {
    pub count: u64,
    /// Payload bytes.
    pub size: usize,
    /// Datagrams in a call: 1 is `send`, more is `sendmmsg`.
    pub burst: usize,
}

impl Job {
    pub fn check(&self) -> anyhow::Result<()> {
        ensure!(self.count >= 1, "a count of {}: the kernel's loop wants at least 1", self.count);
        ensure!((1..=LARGEST).contains(&self.size), "a payload of {} bytes is not in 1..={LARGEST}", self.size);
        ensure!((1..=MOST_AT_ONCE).contains(&self.burst), "a burst of {} is not in 1..={MOST_AT_ONCE}", self.burst);
        Ok(())
    }
}

/// What it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Done {
    pub reading: Reading,
    pub dropped: u64,
}

#[derive(Debug)]
pub(super) struct Worker {
    pub child: Child,
    pub socket: BufReader<UnixStream>,
    pub device: String,
}

impl Worker {
    /// `args` are the child's, for programs (tests) that come to [`super::child_main_if_asked`] by them only.
    pub fn start(args: &[&str]) -> anyhow::Result<Worker> {
        Worker::start_where(args, netns::available())
    }

    /// In a namespace of its own, or in ours for the reason given.
    pub fn start_where(args: &[&str], available: Result<(), String>) -> anyhow::Result<Worker> {
        ensure!(std::env::var_os(ASKED).is_none(), "main must call lab::native::child_main_if_asked() first");
        let (ours, childs) = UnixStream::pair().context("a socket pair to the child")?;
        // A run takes about a second; set-up a few milliseconds. Longer means that nobody will ever answer.
        ours.set_read_timeout(Some(Duration::from_secs(60)))?;
        let child = spawn(args, childs, available).context("start this program again as the kernel's subject")?;
        let mut worker = Worker { child, socket: BufReader::new(ours), device: String::new() };
        worker.device = worker.answer("device")?;
        Ok(worker)
    }

    /// # Errors
    /// Also when the kernel refused a packet, or the device did not count each as dropped.
    pub fn run(&mut self, job: Job) -> anyhow::Result<Done> {
        let cpu = os::current_cpu().context("which processor is this?")?;
        writeln!(self.socket.get_mut(), "run {} {} {} {cpu}", job.count, job.size, job.burst)
            .context("the kernel subject's child is gone")?;
        let answer = self.answer("done")?;
        let [ticks, wall_ns, cpu_ns, errors, dropped] = numbers(&answer)?;
        ensure!(errors == 0, "the kernel refused {errors} of {} packets: {}", job.count, self.device);
        let count = job.count;
        ensure!(dropped >= count, "{dropped} of {count} packets were dropped by the device: {}", self.device);
        Ok(Done { reading: Reading { ops: count, ticks, wall_ns, cpu_ns }, dropped })
    }

    /// The rest of the child's next line, which must start with `word`.
    fn answer(&mut self, word: &str) -> anyhow::Result<String> {
        let mut line = String::new();
        self.socket.read_line(&mut line).context("no answer from the kernel subject's child")?;
        match line.trim_end().split_once(' ') {
            Some((first, rest)) if first == word => Ok(rest.to_owned()),
            Some(("failed", why)) => bail!("{why}"),
            _ => bail!("the child said {line:?}: does main call lab::native::child_main_if_asked() first?"),
        }
    }
}

/// The child's end of the socket is closed here when it has been handed over: else its death would go unnoticed.
fn spawn(args: &[&str], socket: UnixStream, available: Result<(), String>) -> io::Result<Child> {
    let mut cmd = Command::new("/proc/self/exe"); // also right when the file was replaced meanwhile
    cmd.args(args).stdin(Stdio::from(OwnedFd::from(socket))).stdout(Stdio::null());
    cmd.process_group(0); // Ctrl-C is for the parent, which then still gets its answer
    match available {
        Ok(()) => netns::command(cmd.env(ASKED, format!("own {}", user_namespace()))).spawn(),
        Err(why) => cmd.env(ASKED, format!("none {why}")).spawn(),
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.socket.get_ref().shutdown(std::net::Shutdown::Both); // the child's end of file
        let patience = Instant::now() + Duration::from_secs(2);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.child.kill(); // does nothing to one that has been waited for
        let _ = self.child.wait();
    }
}

/// The `N` numbers of a line, with a space between.
pub(super) fn numbers<const N: usize>(line: &str) -> anyhow::Result<[u64; N]> {
    let values: Result<Vec<u64>, _> = line.split(' ').map(str::parse).collect();
    let values = values.with_context(|| format!("numbers in {line:?}"))?;
    values.try_into().map_err(|_| anyhow::anyhow!("{N} numbers in {line:?}"))
}
