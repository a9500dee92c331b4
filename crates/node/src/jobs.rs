//! Jobs: long-running work started by clients of the control socket, such as `ping`, `traceroute`,
//! a TCP connection, a UDP socket or a program.
//!
//! A job is started, read and stopped by commands, whose crate has the kinds of jobs. It runs as
//! part of the host's rounds (`Jobs::turn`), on a live clock or on virtual time. Its output is
//! limited. A job with full output waits until it is read, and a job that is not read for
//! [`PATIENCE`] ends.

use clock::{Duration, Instant};
use inet::Stack;
use lock::{Cx, Locks};
use socket::Calls;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of open jobs.
pub const JOBS_MAX: usize = 16;
/// Maximum size of a job's unread output, and of a connection's unsent input, in bytes.
pub const BUFFER_MAX: usize = 256 * 1024;
/// Time after which a job that is not read ends.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Host on which a job runs, passed as an argument to each turn of the job.
pub struct Around<'a, L: Locks> {
    pub stack: &'a Stack<L>,
    pub calls: &'a Calls<'a, L>,
    pub cx: Cx,
}

/// Result of a job that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum End {
    /// The job succeeded.
    Done,
    /// The job failed for this reason.
    Failed(String),
}

/// Work of a job, performed in turns.
pub trait Work<L: Locks>: Send {
    /// Performs the steps that are due and appends their output to `out`. Returns the result if the
    /// job has ended, `None` while it runs.
    fn turn(&mut self, around: &Around<'_, L>, out: &mut String) -> Option<End>;

    /// Returns the time at which a turn is due even without input; [`Instant::NEVER`] if none is
    /// due.
    fn next(&self) -> Instant;

    /// Accepts input, and returns the number of bytes accepted.
    ///
    /// # Errors
    /// Returns an error if this kind of job accepts no input.
    fn write(&mut self, _bytes: &[u8]) -> Result<usize, String> {
        Err("the job accepts no input".into())
    }

    /// Signals the end of input.
    fn finish(&mut self) {}

    /// Releases the job's resources on the host, such as sockets.
    fn close(&mut self, around: &Around<'_, L>);
}

struct Job<L: Locks> {
    id: u32,
    about: String,
    work: Box<dyn Work<L>>,
    out: String,
    ended: Option<End>,
    read_at: Instant,
}

/// The jobs of a host.
pub struct Jobs<L: Locks> {
    /// Set while there are jobs, so that a round without jobs needs only this check.
    any: AtomicBool,
    open: Mutex<Open<L>>,
}

struct Open<L: Locks> {
    jobs: Vec<Job<L>>,
    last_id: u32,
    /// Set if the loop that runs the host also runs programs as jobs.
    runs_programs: bool,
    /// Programs that the loop has not started yet.
    wanted: Vec<Wanted>,
}

/// A program that the loop around the host must start as job `id`.
#[derive(Debug)]
pub struct Wanted {
    pub id: u32,
    pub words: Vec<String>,
}

/// Placeholder for a program in the list of jobs. The loop around the host runs the program and
/// reports its output ([`Jobs::report`]).
#[derive(Default)]
struct Outside {
    finished: bool,
}

impl<L: Locks> Work<L> for Outside {
    fn turn(&mut self, _around: &Around<'_, L>, _out: &mut String) -> Option<End> {
        self.finished.then(|| End::Failed("interrupted".into()))
    }

    fn next(&self) -> Instant {
        if self.finished { Instant::ZERO } else { Instant::NEVER }
    }

    fn finish(&mut self) {
        self.finished = true;
    }

    fn close(&mut self, _around: &Around<'_, L>) {}
}

impl<L: Locks> Default for Jobs<L> {
    fn default() -> Jobs<L> {
        Jobs {
            any: AtomicBool::new(false),
            open: Mutex::new(Open { jobs: Vec::new(), last_id: 0, runs_programs: false, wanted: Vec::new() }),
        }
    }
}

/// Output of a job, as returned to its reader.
pub struct Output {
    pub text: String,
    pub ended: Option<End>,
}

impl<L: Locks> Jobs<L> {
    fn lock(&self) -> MutexGuard<'_, Open<L>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether there are jobs.
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Starts a job and returns its number; `None` if [`JOBS_MAX`] jobs are open.
    pub fn start(&self, about: String, work: Box<dyn Work<L>>, now: Instant) -> Option<u32> {
        let mut open = self.lock();
        if open.jobs.len() >= JOBS_MAX {
            return None;
        }
        open.last_id = open.last_id.wrapping_add(1);
        let id = open.last_id;
        open.jobs.push(Job { id, about, work, out: String::new(), ended: None, read_at: now });
        self.any.store(true, Ordering::Relaxed);
        Some(id)
    }

    /// Records that the loop around the host runs programs as jobs ([`Jobs::take_wanted`]).
    pub(crate) fn run_programs(&self) {
        self.lock().runs_programs = true;
    }

    /// Starts a program as a job and returns its number; `None` if [`JOBS_MAX`] jobs are open.
    ///
    /// # Errors
    /// Returns an error if no loop around this host runs programs.
    pub fn start_program(&self, words: &[&str], now: Instant) -> Result<Option<u32>, String> {
        if !self.lock().runs_programs {
            return Err("programs cannot run here; use a host of 'linerate up' or 'linerate host'".into());
        }
        let Some(id) = self.start(words.join(" "), Box::new(Outside::default()), now) else { return Ok(None) };
        self.lock().wanted.push(Wanted { id, words: words.iter().map(|word| word.to_string()).collect() });
        Ok(Some(id))
    }

    /// Returns the programs that were requested, and clears their list.
    pub(crate) fn take_wanted(&self) -> Vec<Wanted> {
        if self.any() { std::mem::take(&mut self.lock().wanted) } else { Vec::new() }
    }

    /// Adds output of a program, and its result if it has ended. Returns `false` if the job was
    /// stopped. Discards `text` if [`BUFFER_MAX`] bytes of output are already unread.
    pub(crate) fn report(&self, id: u32, text: &str, ended: Option<End>) -> bool {
        let mut open = self.lock();
        let found = open.jobs.iter_mut().find(|job| job.id == id && job.ended.is_none());
        let Some(job) = found else { return false };
        if job.out.len() < BUFFER_MAX {
            job.out += text;
        }
        job.ended = ended;
        true
    }

    /// Runs a turn of each job, and returns the time of the next turn.
    #[cold]
    #[inline(never)]
    pub(crate) fn turn(&self, around: &Around<'_, L>) -> Instant {
        let (mut open, now) = (self.lock(), around.cx.now);
        let mut next = Instant::NEVER;
        for job in &mut open.jobs {
            if job.ended.is_none() && job.out.len() < BUFFER_MAX {
                job.ended = job.work.turn(around, &mut job.out);
                if job.ended.is_some() {
                    job.work.close(around);
                }
            }
            // A job with full output waits until it is read, even if a turn is due.
            let goes_on = job.ended.is_none() && job.out.len() < BUFFER_MAX;
            let due = if goes_on { job.work.next() } else { Instant::NEVER };
            next = next.min(due).min(job.read_at.after(PATIENCE));
        }
        for job in open.jobs.extract_if(.., |job| now.since(job.read_at) >= PATIENCE) {
            end(job, around);
        }
        self.any.store(!open.jobs.is_empty(), Ordering::Relaxed);
        next
    }

    /// Returns the output of job `id` since the last call, and removes the job if it has ended.
    /// `None` if there is no such job.
    pub fn read(&self, id: u32, now: Instant) -> Option<Output> {
        let mut open = self.lock();
        let at = open.jobs.iter().position(|job| job.id == id)?;
        let job = open.jobs.get_mut(at)?;
        job.read_at = now;
        let (text, ended) = (std::mem::take(&mut job.out), job.ended.clone());
        if ended.is_some() {
            open.jobs.remove(at);
            self.any.store(!open.jobs.is_empty(), Ordering::Relaxed);
        }
        Some(Output { text, ended })
    }

    /// Passes input, or the end of the input, to job `id`. Returns the number of bytes accepted, or
    /// `None` if there is no such job.
    pub fn write(&self, id: u32, bytes: &[u8], finish: bool) -> Option<Result<usize, String>> {
        let mut open = self.lock();
        let job = open.jobs.iter_mut().find(|job| job.id == id)?;
        if finish {
            job.work.finish();
            return Some(Ok(0));
        }
        Some(job.work.write(bytes))
    }

    /// Stops job `id`. Returns `false` if there is no such job.
    pub fn stop(&self, id: u32, around: &Around<'_, L>) -> bool {
        let mut open = self.lock();
        let Some(at) = open.jobs.iter().position(|job| job.id == id) else { return false };
        end(open.jobs.remove(at), around);
        self.any.store(!open.jobs.is_empty(), Ordering::Relaxed);
        true
    }

    /// Returns (number, description, whether it has ended) of each job.
    pub fn list(&self) -> Vec<(u32, String, bool)> {
        self.lock().jobs.iter().map(|job| (job.id, job.about.clone(), job.ended.is_some())).collect()
    }
}

fn end<L: Locks>(mut job: Job<L>, around: &Around<'_, L>) {
    if job.ended.is_none() {
        job.work.close(around);
    }
}
