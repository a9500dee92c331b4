//! Control sockets: their directory and names, errors of their replies, safe output.

use crate::exit::{Exit, Fault};
use node::control::ControlError;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Maximum time to wait for a reply. A host usually replies within a millisecond; a list of a
/// million routes takes longer.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Returns the error of a request, with its exit code.
pub fn fault(why: ControlError) -> anyhow::Error {
    match why {
        ControlError::BadUrl(_) | ControlError::BadWord => Fault::usage(why),
        why => Fault { exit: Exit::Nobody, what: why.to_string() }.into(),
    }
}

/// Returns `text` with control characters other than line breaks and tabs escaped, since names of
/// ifaces and files come from the host and a terminal would interpret them.
pub fn printable(text: &str) -> std::borrow::Cow<'_, str> {
    let is_obeyed = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(is_obeyed) {
        return text.into();
    }
    let escaped = text.chars().map(|c| if is_obeyed(c) { c.escape_default().to_string() } else { c.to_string() });
    escaped.collect::<String>().into()
}

/// Returns the path of a control socket. If `url` is a single word, it is the name of a host whose
/// socket is in the directory used by `up`.
pub fn socket_of(url: &str) -> String {
    if url.is_empty() || url.contains('/') || Path::new(url).exists() {
        return url.to_string();
    }
    own_control_dir().join(format!("{url}.sock")).display().to_string()
}

/// Returns the default directory of control sockets.
pub fn own_control_dir() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => Path::new(&dir).join("linerate"),
        None => PathBuf::from(format!("/tmp/linerate-{}", uid())),
    }
}

/// Returns whether `dir` is a directory that only this user can enter.
pub fn is_ours_alone(dir: &Path) -> bool {
    fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.uid() == uid() && meta.mode() & 0o077 == 0)
}

fn uid() -> u32 {
    fs::metadata("/proc/self").map(|meta| meta.uid()).unwrap_or_default()
}
