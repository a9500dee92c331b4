//! `ctl` and its short forms: words to a running host, its answer to standard output.

use crate::args::ShortArgs;
use crate::exit::{Exit, Fault, notice, print};
use crate::hosts::own_control_dir;
use node::control::{self, ControlError};
use std::path::Path;
use std::time::Duration;

/// A host answers within a millisecond; one that is busy with a listing of a million routes takes longer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Says `words`.
pub fn run(url: Option<&str>, json: bool, mut words: Vec<String>) -> anyhow::Result<Exit> {
    // Wherever it stands: 'netstat -Q -j' as 'netstat -j -Q'.
    let before = words.len();
    words.retain(|word| word != "-j" && word != "--json");
    let json = json || words.len() < before;
    let Some(url) = url else {
        return Err(Fault::usage("no control socket: give --url unix:///path, or set LINERATE_CTL"));
    };
    match control::request(&socket_of(url), &words, json, PATIENCE) {
        Ok(answer) if answer.ok => print(&printable(&answer.text)).map(|()| Exit::Fine),
        Ok(answer) => {
            notice(&format!("{}: {}", words.first().map_or("ctl", String::as_str), printable(answer.text.trim_end())));
            Ok(Exit::Failed)
        }
        Err(error @ (ControlError::BadUrl(_) | ControlError::BadWord)) => Err(Fault::usage(error)),
        Err(error) => Err(Fault { exit: Exit::Nobody, what: error.to_string() }.into()),
    }
}

/// Returns `text` with control characters other than line breaks and tabs escaped: names of ifaces and files are
/// the host's, and a terminal obeys what it is sent.
fn printable(text: &str) -> std::borrow::Cow<'_, str> {
    let is_obeyed = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(is_obeyed) {
        return text.into();
    }
    let escaped = text.chars().map(|c| if is_obeyed(c) { c.escape_default().to_string() } else { c.to_string() });
    escaped.collect::<String>().into()
}

/// The place that is meant: a word that is no path is the name of a host that `up` runs, where it puts control sockets.
pub fn socket_of(url: &str) -> String {
    if url.is_empty() || url.contains('/') || Path::new(url).exists() {
        return url.to_string();
    }
    own_control_dir().join(format!("{url}.sock")).display().to_string()
}

/// `linerate arp -a` for `linerate ctl arp -a`.
pub fn short(word: &str, args: ShortArgs) -> anyhow::Result<Exit> {
    let words = std::iter::once(word.to_string()).chain(args.words).collect();
    run(args.url.as_deref(), args.json, words)
}
