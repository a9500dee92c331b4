//! Files below a directory on disk. Symbolic links are followed only to targets inside the
//! directory.
//!
//! A path is resolved first and must lie below the (resolved) root. The last component is opened
//! without following links, so that a link created in the meantime is not followed. The opened file
//! is checked again: it must be a regular file at a path below the root. One race remains: a local
//! user who renames directories below the root between the two checks can cause an empty file to be
//! created outside the root.

use super::{Meta, Name, Refusal};
use std::fs::{self, File, OpenOptions, ReadDir};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Resolves the symbolic links of a path; returns `NotFound` if the result is outside the root.
fn resolve(root: &Path, name: &Name) -> Result<PathBuf, Refusal> {
    let path = root.join(name.as_str().trim_start_matches('/')).canonicalize()?;
    if path.starts_with(root) { Ok(path) } else { Err(Refusal::NotFound) }
}

fn meta_of(found: &fs::Metadata) -> Result<Meta, Refusal> {
    let modified = found.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let modified_ns = modified.and_then(|since| u64::try_from(since.as_nanos()).ok());
    match () {
        () if found.is_dir() => Ok(Meta { is_dir: true, len: None, modified_ns }),
        () if found.is_file() => Ok(Meta { is_dir: false, len: Some(found.len()), modified_ns }),
        () => Err(Refusal::NotPlain),
    }
}

pub(super) fn meta(root: &Path, name: &Name) -> Result<Meta, Refusal> {
    meta_of(&fs::metadata(resolve(root, name)?)?)
}

/// Opens a regular file. Does not block, even on a pipe without a writer, and does not follow a
/// symbolic link in the last component.
fn open_plain(root: &Path, path: &Path, options: &mut OpenOptions) -> Result<(File, Meta), Refusal> {
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let meta = meta_of(&file.metadata()?)?;
    // If /proc shows the path of the opened file, it must still lie below the root.
    let reported = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()));
    if meta.is_dir || reported.is_ok_and(|reported| !reported.starts_with(root)) {
        return Err(Refusal::NotPlain);
    }
    Ok((file, meta))
}

pub(super) fn open(root: &Path, name: &Name) -> Result<(File, Meta), Refusal> {
    open_plain(root, &resolve(root, name)?, OpenOptions::new().read(true))
}

/// Opens a file for writing and truncates it to `offset` bytes. If the call fails, the file is
/// unchanged.
pub(super) fn create(root: &Path, name: &Name, may_replace: bool, offset: u64) -> Result<File, Refusal> {
    let path = entry(root, name)?;
    // Resuming an upload changes the existing file.
    if offset > 0 && !may_replace {
        return Err(Refusal::Denied);
    }
    let mut options = OpenOptions::new();
    options.write(true).create(offset == 0).create_new(!may_replace).mode(0o644);
    let (mut file, meta) = open_plain(root, &path, &mut options)?;
    if meta.len.is_none_or(|len| offset > len) {
        return Err(Refusal::BadOffset);
    }
    file.set_len(offset)?;
    file.seek(SeekFrom::Start(offset))?;
    Ok(file)
}

/// Opens the file `name` for appending and returns it with its current length. `may_change` permits
/// changing an existing file.
pub(super) fn append(root: &Path, name: &Name, may_change: bool) -> Result<(File, u64), Refusal> {
    let path = entry(root, name)?;
    let mut options = OpenOptions::new();
    // Appending changes an existing file.
    options.write(true).create(may_change).create_new(!may_change);
    let (mut file, _) = open_plain(root, &path, options.mode(0o644))?;
    let len = file.seek(SeekFrom::End(0))?;
    Ok((file, len))
}

/// Returns the path of an entry with only its parent directory resolved, so that a symbolic link in
/// the last component is not followed.
fn entry(root: &Path, name: &Name) -> Result<PathBuf, Refusal> {
    let dir = resolve(root, &name.parent())?;
    if name.file_name().is_empty() { Err(Refusal::Denied) } else { Ok(dir.join(name.file_name())) }
}

pub(super) fn make_directory(root: &Path, name: &Name) -> Result<(), Refusal> {
    Ok(fs::create_dir(entry(root, name)?)?)
}

pub(super) fn remove(root: &Path, name: &Name) -> Result<(), Refusal> {
    Ok(fs::remove_file(entry(root, name)?)?)
}

pub(super) fn remove_directory(root: &Path, name: &Name) -> Result<(), Refusal> {
    Ok(fs::remove_dir(entry(root, name)?)?)
}

pub(super) fn rename(root: &Path, from: &Name, to: &Name) -> Result<(), Refusal> {
    Ok(fs::rename(entry(root, from)?, entry(root, to)?)?)
}

/// Iterator over a directory. Omits entries that are neither files nor directories, and links that
/// lead outside the root.
#[derive(Debug)]
pub(super) struct Entries {
    root: PathBuf,
    dir: Name,
    read: ReadDir,
}

pub(super) fn list(root: &Path, dir: &Name) -> io::Result<Entries> {
    let path = resolve(root, dir).map_err(io::Error::other)?;
    Ok(Entries { root: root.to_owned(), dir: dir.clone(), read: fs::read_dir(path)? })
}

impl Entries {
    /// Returns the next entry whose name `is_wanted` accepts.
    pub(super) fn next_named(&mut self, mut is_wanted: impl FnMut(&str) -> bool) -> Option<(String, Meta)> {
        loop {
            let Ok(entry) = self.read.next()? else { continue };
            // Names that are not UTF-8 are not listed, since a client could not request them.
            let Ok(name) = entry.file_name().into_string() else { continue };
            if !is_wanted(&name) {
                continue;
            }
            let Ok(full) = self.dir.join(name.as_bytes()) else { continue };
            if let Ok(meta) = meta(&self.root, &full) {
                return Some((name, meta));
            }
        }
    }
}
