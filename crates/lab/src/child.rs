//! This program again, as a child that obeys lines: for work that wants a process, or a network namespace, of its own.
//!
//! | line | from | means |
//! |---|---|---|
//! | `ready WHAT` | child | it is set up, and what it says of that |
//! | an order | parent | [`Child::ask`] |
//! | `done ANSWER` | child | what came of the order |
//! | `failed WHY` | child | instead of either answer |
//!
//! Its namespace was chosen before the exec, so the child finds itself in it, with one thread. It ends at its socket's end of file, however
//! the parent ended. A program that starts one calls [`crate::child_main_if_asked`] first.

use anyhow::{Context, bail, ensure};
use port::os::netns;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Set in a child's environment: `KIND ROLE`.
const ASKED: &str = "LINERATE_CHILD";
/// The longest order takes some seconds; after this nobody will ever answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// A child that was told to end has hosts and programs of its own to end.
const ENDING: Duration = Duration::from_secs(10);

/// This process serves: a child of its own is then no mistake.
static SERVING: AtomicBool = AtomicBool::new(false);

/// What this process was started to be: kind and role.
pub(crate) fn asked() -> Option<(String, String)> {
    let asked = std::env::var(ASKED).ok()?;
    let (kind, role) = asked.split_once(' ')?;
    Some((kind.to_owned(), role.to_owned()))
}

/// This program again, to be a child of `kind` in `role`.
///
/// # Errors
/// This process is such a child itself and does not serve: without this, each would start the next.
pub(crate) fn again(kind: &str, role: &str) -> anyhow::Result<Command> {
    let alone = std::env::var_os(ASKED).is_none() || SERVING.load(Ordering::Relaxed);
    ensure!(alone, "main must call lab::child_main_if_asked() first");
    let mut command = Command::new("/proc/self/exe"); // also right when the file was replaced meanwhile
    #[cfg(test)]
    command.args(tests::CHILD);
    command.env(ASKED, format!("{kind} {role}"));
    Ok(command)
}

/// `command` is another program, or this one as anybody starts it.
pub(crate) fn no_child(command: &mut Command) -> &mut Command {
    command.env_remove(ASKED)
}

/// The parent's side.
#[derive(Debug)]
pub(crate) struct Child {
    process: process::Child,
    socket: BufReader<UnixStream>,
    ready: String,
}

impl Child {
    /// Starts what [`again`] made, where this process is, and waits until it is set up.
    ///
    /// # Errors
    /// What the child said.
    pub(crate) fn start(mut command: Command) -> anyhow::Result<Child> {
        let (ours, theirs) = UnixStream::pair().context("a socket pair to the child")?;
        ours.set_read_timeout(Some(PATIENCE))?;
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        command.process_group(0); // Ctrl-C is for the parent, which then still gets its answer
        let process = command.spawn().context("start this program again")?;
        drop(command); // with the child's end of the socket: else its death would go unnoticed
        let mut child = Child { process, socket: BufReader::new(ours), ready: String::new() };
        child.ready = child.answer("ready")?;
        Ok(child)
    }

    /// In a network namespace of its own, and a user namespace where that takes one.
    ///
    /// # Errors
    /// No namespaces; and as [`Child::start`].
    pub(crate) fn start_apart(mut command: Command) -> anyhow::Result<Child> {
        netns::available().map_err(anyhow::Error::msg)?;
        netns::command(&mut command);
        Child::start(command)
    }

    /// What it said of itself when it was set up.
    pub(crate) fn ready(&self) -> &str {
        &self.ready
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Says a line; what came of it.
    ///
    /// # Errors
    /// What the child said; or it is gone.
    pub(crate) fn ask(&mut self, order: &str) -> anyhow::Result<String> {
        writeln!(self.socket.get_mut(), "{order}").context("the child is gone")?;
        self.answer("done")
    }

    /// The rest of the next line, which must begin with `word`.
    fn answer(&mut self, word: &str) -> anyhow::Result<String> {
        let mut line = String::new();
        self.socket.read_line(&mut line).context("no answer from the child")?;
        let line = line.trim_end();
        match line.split_once(' ').unwrap_or((line, "")) {
            (first, rest) if first == word => Ok(rest.to_owned()),
            ("failed", why) => bail!("{why}"),
            _ => bail!("the child said {line:?}: does main call lab::child_main_if_asked() first?"),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.socket.get_ref().shutdown(std::net::Shutdown::Both); // the child's end of file
        let until = Instant::now() + ENDING;
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.process.kill(); // does nothing to one that has been waited for
        let _ = self.process.wait();
    }
}

/// The child's side, until its socket's end of file: `begin` sets up and says what it has, `obey` is called for each order. What was set up
/// is handed back, for whom ending it is work.
///
/// # Errors
/// What `begin` said, after the parent has heard it; the socket's.
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

/// An error with its causes, without the line ends that would break the conversation.
pub(crate) fn one_line(why: &anyhow::Error) -> String {
    format!("{why:#}").replace('\n', " ")
}

/// Numbers with a space between.
///
/// # Errors
/// Something that is none.
pub(crate) fn list(line: &str) -> anyhow::Result<Vec<u64>> {
    let values: Result<Vec<u64>, _> = line.split(' ').map(str::parse).collect();
    values.with_context(|| format!("numbers in {line:?}"))
}

/// The `N` numbers of a line.
///
/// # Errors
/// As [`list`]; or another count.
pub(crate) fn numbers<const N: usize>(line: &str) -> anyhow::Result<[u64; N]> {
    list(line)?.try_into().map_err(|_| anyhow::anyhow!("{N} numbers in {line:?}"))
}

#[cfg(test)]
mod tests;
