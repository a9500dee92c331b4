//! Runs this program again as a child process that executes commands, for work that needs its own
//! process or network namespace.
//!
//! | line | from | meaning |
//! |---|---|---|
//! | `ready TEXT` | child | setup is complete; `TEXT` describes it |
//! | a command | parent | sent by [`Child::ask`] |
//! | `done RESULT` | child | result of the command |
//! | `failed REASON` | child | sent instead of `ready` or `done` |
//!
//! The network namespace is entered before the exec, so the child starts in it with a single
//! thread. The child exits when it reads end of file from its socket, so it does not outlive the
//! parent. A program that starts children must call [`crate::child_main_if_requested`] first.

use anyhow::{Context, bail, ensure};
use port::os::netns;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Environment variable of a child: `KIND ROLE`.
const ASKED: &str = "LINERATE_CHILD";
/// Timeout of a child's answer; the longest command takes some seconds.
const PATIENCE: Duration = Duration::from_secs(120);
/// Time limit for a child to exit. The child may first have to end its own hosts and programs.
const ENDING: Duration = Duration::from_secs(10);

/// Set once this process serves commands; from then on it may start children of its own.
static SERVING: AtomicBool = AtomicBool::new(false);

/// Returns the kind and role that this process was started with, if it is a child.
pub(crate) fn requested_role() -> Option<(String, String)> {
    let requested = std::env::var(ASKED).ok()?;
    let (kind, role) = requested.split_once(' ')?;
    Some((kind.to_owned(), role.to_owned()))
}

/// Returns a command that runs this program as a child of `kind` in `role`.
///
/// # Errors
/// This process was started as a child and does not serve commands. Without this check, each child
/// would start another child.
pub(crate) fn again(kind: &str, role: &str) -> anyhow::Result<Command> {
    let alone = std::env::var_os(ASKED).is_none() || SERVING.load(Ordering::Relaxed);
    ensure!(alone, "main must call lab::child_main_if_requested() first");
    // /proc/self/exe is this program even if its file was replaced after the start
    let mut command = Command::new("/proc/self/exe");
    #[cfg(test)]
    command.args(tests::CHILD);
    command.env(ASKED, format!("{kind} {role}"));
    Ok(command)
}

/// Removes the child role from the environment of `command`, which is another program or an
/// ordinary run of this one.
pub(crate) fn no_child(command: &mut Command) -> &mut Command {
    command.env_remove(ASKED)
}

/// The parent's handle of a child process.
#[derive(Debug)]
pub(crate) struct Child {
    process: process::Child,
    socket: BufReader<UnixStream>,
    ready: String,
}

impl Child {
    /// Starts a command built by [`again`] in the current namespace, and waits until the child is
    /// set up.
    ///
    /// # Errors
    /// The reason reported by the child.
    pub(crate) fn start(mut command: Command) -> anyhow::Result<Child> {
        let (ours, theirs) = UnixStream::pair().context("cannot create a socket pair for the child")?;
        ours.set_read_timeout(Some(PATIENCE))?;
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        // Ctrl-C signals the parent only, which then still receives the answer
        command.process_group(0);
        let process = command.spawn().context("cannot start this program as a child")?;
        // closes the child's end of the socket in this process; otherwise this process would not
        // notice the child's exit
        drop(command);
        let mut child = Child { process, socket: BufReader::new(ours), ready: String::new() };
        child.ready = child.answer("ready")?;
        Ok(child)
    }

    /// Starts the child in a new network namespace, and in a new user namespace where that is
    /// required.
    ///
    /// # Errors
    /// Namespaces are unavailable; otherwise as [`Child::start`].
    pub(crate) fn start_apart(mut command: Command) -> anyhow::Result<Child> {
        netns::available().map_err(anyhow::Error::msg)?;
        netns::command(&mut command);
        Child::start(command)
    }

    /// Returns the text that the child sent with `ready`.
    pub(crate) fn ready(&self) -> &str {
        &self.ready
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Sends a command and returns its result.
    ///
    /// # Errors
    /// The reason reported by the child, or the child is gone.
    pub(crate) fn ask(&mut self, order: &str) -> anyhow::Result<String> {
        writeln!(self.socket.get_mut(), "{order}").context("cannot send a command: the child has exited")?;
        self.answer("done")
    }

    /// Returns the rest of the next line, which must begin with `word`.
    fn answer(&mut self, word: &str) -> anyhow::Result<String> {
        let mut line = String::new();
        self.socket.read_line(&mut line).context("cannot read the child's reply")?;
        let line = line.trim_end();
        match line.split_once(' ').unwrap_or((line, "")) {
            (first, rest) if first == word => Ok(rest.to_owned()),
            ("failed", why) => bail!("{why}"),
            _ => bail!("unexpected line {line:?} from the child: main must call lab::child_main_if_requested() first"),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // the child reads end of file, and exits
        let _ = self.socket.get_ref().shutdown(std::net::Shutdown::Both);
        let until = Instant::now() + ENDING;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.process.kill(); // does nothing if the child has been waited for
        let _ = self.process.wait();
    }
}

/// Runs the main loop of a child until the end of file on its socket. `begin` creates the child's
/// state and returns it with a description; `obey` executes each command. Returns the state that
/// `begin` created, for callers that have to shut it down.
///
/// # Errors
/// The error of `begin`, after it was sent to the parent; an error of the socket.
pub(crate) fn serve<W>(
    begin: impl FnOnce() -> anyhow::Result<(W, String)>,
    mut obey: impl FnMut(&mut W, &str) -> anyhow::Result<String>,
) -> anyhow::Result<W> {
    SERVING.store(true, Ordering::Relaxed);
    let mut socket = BufReader::new(UnixStream::from(OwnedFd::from(port::os::stdin()?)));
    let mut work = match begin() {
        Ok((work, what)) => {
            writeln!(socket.get_mut(), "ready {what}")?;
            work
        }
        Err(why) => {
            writeln!(socket.get_mut(), "failed {}", one_line(&why))?;
            return Err(why);
        }
    };
    let mut line = String::new();
    while socket.read_line(&mut line)? > 0 {
        match obey(&mut work, line.trim_end()) {
            Ok(answer) => writeln!(socket.get_mut(), "done {answer}")?,
            Err(why) => writeln!(socket.get_mut(), "failed {}", one_line(&why))?,
        }
        line.clear();
    }
    Ok(work)
}

/// Formats an error with its causes, with line ends replaced: they would break the line protocol.
pub(crate) fn one_line(why: &anyhow::Error) -> String {
    format!("{why:#}").replace('\n', " ")
}

/// Parses numbers separated by single spaces.
///
/// # Errors
/// A word is not a number.
pub(crate) fn list(line: &str) -> anyhow::Result<Vec<u64>> {
    let values: Result<Vec<u64>, _> = line.split(' ').map(str::parse).collect();
    values.with_context(|| format!("invalid numbers in {line:?}"))
}

/// Parses a line of exactly `N` numbers.
///
/// # Errors
/// As [`list`], or the line does not contain exactly `N` numbers.
pub(crate) fn numbers<const N: usize>(line: &str) -> anyhow::Result<[u64; N]> {
    list(line)?.try_into().map_err(|_| anyhow::anyhow!("expected {N} numbers, received {line:?}"))
}

#[cfg(test)]
mod tests;
