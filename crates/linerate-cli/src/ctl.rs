//! `ctl` and its short forms: send commands to a running host or bridge and print the replies.

mod monitor;

use crate::args::{CtlArgs, ShortCommand};
use crate::control::{PATIENCE, fault, printable, socket_of};
use crate::exit::{Exit, Fault, notice, print};
use anyhow::Context;
use node::control::{Client, ControlError, line};
use std::path::Path;
use std::time::{Duration, Instant};

/// Maximum size of a file of commands, in bytes.
const BATCH_MAX: u64 = 16 << 20;
/// Time between two attempts of --wait.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs `ctl`.
///
/// # Errors
/// No control socket is given, or no host replies at it.
pub fn ctl(args: CtlArgs) -> anyhow::Result<Exit> {
    let (words, flags) = Flags::of(args.words, args.url, args.json)?;
    let mut client = flags.connect(args.wait)?;
    if let Some(file) = &args.file {
        return batch(&mut client, file, flags.json, args.force);
    }
    if words.is_empty() && args.wait.is_some() {
        return Ok(Exit::Fine);
    }
    run_one(&mut client, &words, flags.json)
}

/// Sends one command to the host at `url`.
///
/// # Errors
/// No control socket is given, or no host replies at it.
pub fn run(url: Option<&str>, json: bool, words: Vec<String>) -> anyhow::Result<Exit> {
    let (words, flags) = Flags::of(words, url.map(str::to_string), json)?;
    run_one(&mut flags.connect(None)?, &words, flags.json)
}

/// Flags that may be anywhere in the line: 'netstat -Q -j' is 'netstat -j -Q'.
pub struct Flags {
    /// Control socket as given: a URL, a path or the name of a host.
    pub url: String,
    /// True if JSON output is requested.
    pub json: bool,
}

impl Flags {
    /// Removes these flags from `words`. Returns the remaining words and the flags.
    ///
    /// # Errors
    /// No control socket is given.
    pub fn of(words: Vec<String>, url: Option<String>, json: bool) -> anyhow::Result<(Vec<String>, Flags)> {
        let (mut url, mut json, mut rest) = (url, json, Vec::new());
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "-j" | "--json" => json = true,
                "--url" => url = Some(words.next().ok_or_else(|| Fault::usage("--url: expected a control socket"))?),
                _ => match word.strip_prefix("--url=") {
                    Some(given) => url = Some(given.to_string()),
                    None => rest.push(word),
                },
            }
        }
        let url = url.ok_or_else(|| Fault::usage("no control socket: give --url unix:///path, or set LINERATE_CTL"))?;
        Ok((rest, Flags { url, json }))
    }

    /// Connects; with `wait`, retries for that long while there is no server.
    fn connect(&self, wait: Option<Duration>) -> anyhow::Result<Client> {
        let start = Instant::now();
        loop {
            // The URL is resolved on each attempt, since a file of that name may appear, as well as
            // a host's socket.
            match Client::connect(&socket_of(&self.url)) {
                Err(ControlError::Connect { .. }) if wait.is_some_and(|wait| start.elapsed() < wait) => {
                    std::thread::sleep(PAUSE);
                }
                Ok(client) => return Ok(client),
                Err(why) => return Err(fault(why)),
            }
        }
    }
}

/// Runs one command. `ip monitor` runs in this process, all others in the host.
fn run_one(client: &mut Client, words: &[String], json: bool) -> anyhow::Result<Exit> {
    match monitor::requested(words) {
        Some(objects) => monitor::run(client, &objects?),
        None => request(client, words, json),
    }
}

/// Sends one command and prints the reply.
fn request(client: &mut Client, words: &[String], json: bool) -> anyhow::Result<Exit> {
    let answer = client.request(words, json, PATIENCE).map_err(fault)?;
    if answer.ok {
        return print(&printable(&answer.text)).map(|()| Exit::Fine);
    }
    notice(&format!("{}: {}", words.first().map_or("ctl", String::as_str), printable(answer.text.trim_end())));
    Ok(Exit::Failed)
}

/// Runs the commands of a file, or of standard input (-), one per line over one connection. Skips
/// blank lines and lines that begin with #. Stops at the first error unless `force`.
fn batch(client: &mut Client, file: &Path, json: bool, force: bool) -> anyhow::Result<Exit> {
    let name = file.display();
    let text = match file.as_os_str() == "-" {
        true => port::os::read_text(Path::new("/dev/stdin"), BATCH_MAX),
        false => port::os::read_text(file, BATCH_MAX),
    };
    let text = text.with_context(|| name.to_string())?;
    let mut exit = Exit::Fine;
    for (number, text) in text.lines().enumerate() {
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let at = |why: &dyn std::fmt::Display| format!("{name}:{}: {why}", number + 1);
        let mut words = line::split(text.as_bytes()).map_err(|why| Fault::usage(at(&why)))?;
        let before = words.len();
        words.retain(|word| word != "-j" && word != "--json");
        if monitor::requested(&words).is_some() {
            return Err(Fault::usage(at(&"ip monitor does not end: run it by itself")));
        }
        let answer = client.request(&words, json || words.len() < before, PATIENCE).map_err(fault)?;
        if answer.ok {
            print(&printable(&answer.text))?;
            continue;
        }
        notice(&at(&printable(answer.text.trim_end())));
        exit = Exit::Failed;
        if !force {
            break;
        }
    }
    Ok(exit)
}

/// Runs a short form: `linerate arp -a` for `linerate ctl arp -a`.
pub fn short(command: ShortCommand) -> anyhow::Result<Exit> {
    let words = std::iter::once(command.name.to_string()).chain(command.args.words).collect();
    run(command.args.url.as_deref(), command.args.json, words)
}
