//! Files offered by a server: built-in files and the files below one directory.
//!
//! A [`Name`] is absolute, without `.` and `..`. [`Name::join`] rejects names that lead above the
//! root; [`Name::walk`] treats the root as its own parent. On disk the path is checked again with
//! symbolic links resolved: paths outside the directory count as nonexistent. Devices, sockets and
//! pipes are not served ([`Refusal::NotPlain`]); `/dev/zero` and `/dev/null` are built in.

mod disk;
mod flow;

use crate::glob::{Fuel, Glob};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use flow::{Sink, Source, ZEROS};

/// Maximum length of a name in bytes.
pub const NAME_MAX: usize = 1024;
/// Maximum number of steps for matching a pattern against the names of one directory.
const FUEL: Fuel = Fuel(1 << 26);

/// Reason for refusing access to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// No file with this name exists below the root.
    NotFound,
    /// The name leads above the root.
    Escape,
    /// Invalid name: too long, not UTF-8, or with control characters.
    BadName,
    /// Offset beyond the end of the file.
    BadOffset,
    /// Not a regular file.
    NotPlain,
    /// Directory not empty.
    NotEmpty,
    NotDirectory,
    /// Access denied by the operating system or by the configuration ([`Uploads`]).
    Denied,
    /// The file exists and may not be replaced.
    Exists,
    /// The disk is full, or the file would be longer than permitted.
    NoSpace,
    /// Matching the pattern takes too many steps.
    Pattern,
    /// Disk error.
    Io,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::NotFound => "No such file or directory",
            Refusal::Escape => "Path outside the root directory",
            Refusal::BadName => "Invalid file name",
            Refusal::BadOffset => "Offset beyond the end of the file",
            Refusal::NotPlain => "Not a regular file",
            Refusal::NotEmpty => "Directory not empty",
            Refusal::Pattern => "Pattern takes too long to match",
            Refusal::NotDirectory => "Not a directory",
            Refusal::Denied => "Permission denied",
            Refusal::Exists => "File exists",
            Refusal::NoSpace => "No space left on device",
            Refusal::Io => "Input/output error",
        })
    }
}

impl std::error::Error for Refusal {}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        use io::ErrorKind as K;
        match error.kind() {
            K::NotFound => Refusal::NotFound,
            K::PermissionDenied | K::ReadOnlyFilesystem => Refusal::Denied,
            K::AlreadyExists => Refusal::Exists,
            K::NotADirectory => Refusal::NotDirectory,
            K::IsADirectory => Refusal::NotPlain,
            K::DirectoryNotEmpty => Refusal::NotEmpty,
            K::StorageFull | K::QuotaExceeded | K::FileTooLarge => Refusal::NoSpace,
            K::InvalidInput | K::InvalidFilename => Refusal::BadName,
            // ELOOP means a symbolic link where none is followed. It is compared by number, since
            // its `ErrorKind` is unstable.
            _ if error.raw_os_error() == Some(libc::ELOOP) => Refusal::NotFound,
            _ => Refusal::Io,
        }
    }
}

/// Meaning of `..` in the root directory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Above {
    Refused,
    Root,
}

/// An absolute path below the root of the served files, such as `/` or `/pub/a`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Name(String);

impl Name {
    pub fn root() -> Name {
        Name("/".to_owned())
    }

    /// Resolves `text` relative to this directory, including `.` and `..`. A leading `/` makes
    /// `text` absolute.
    ///
    /// # Errors
    /// `Escape` if `..` leads above the root; `BadName` if the name is invalid.
    pub fn join(&self, text: &[u8]) -> Result<Name, Refusal> {
        self.resolve(text, Above::Refused)
    }

    /// Resolves `text` like [`Name::join`], with the root as its own parent (POSIX.1-2017 XBD
    /// 4.13).
    ///
    /// # Errors
    /// `BadName`.
    pub fn walk(&self, text: &[u8]) -> Result<Name, Refusal> {
        self.resolve(text, Above::Root)
    }

    fn resolve(&self, text: &[u8], above: Above) -> Result<Name, Refusal> {
        let text = std::str::from_utf8(text).map_err(|_| Refusal::BadName)?;
        if text.len() > NAME_MAX || text.chars().any(char::is_control) {
            return Err(Refusal::BadName);
        }
        let mut parts: Vec<&str> = if text.starts_with('/') { Vec::new() } else { self.parts().collect() };
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." if parts.pop().is_none() && above == Above::Refused => return Err(Refusal::Escape),
                ".." => {}
                part if part.len() > 255 => return Err(Refusal::BadName),
                part => parts.push(part),
            }
        }
        let name = format!("/{}", parts.join("/"));
        if name.len() > NAME_MAX { Err(Refusal::BadName) } else { Ok(Name(name)) }
    }

    /// Returns the components of the path.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|part| !part.is_empty())
    }

    /// Returns the name as a string.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the last component; empty for the root.
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the parent directory; the root is its own parent.
    pub fn parent(&self) -> Name {
        match self.0.rsplit_once('/') {
            Some((above, _)) if !above.is_empty() => Name(above.to_owned()),
            _ => Name::root(),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A built-in file, not stored on disk.
#[derive(Clone, Debug)]
pub enum Builtin {
    /// `/dev/zero`: an endless file of zeros.
    Zero,
    /// `/dev/null`: reads as empty, discards all writes.
    Null,
    Bytes(Arc<[u8]>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Uploads {
    /// No uploads, except that writing to `/dev/null` is permitted.
    #[default]
    Refused,
    /// Files may be created under new names, but existing files may not be changed.
    New,
    /// Files may be uploaded under any name; existing files are replaced.
    Replace,
}

/// Attributes of a file or directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Meta {
    /// Set if the entry is a directory.
    pub is_dir: bool,
    /// Length in bytes; `None` for directories and for `/dev/zero`.
    pub len: Option<u64>,
    /// Modification time, in nanoseconds since 1970.
    pub modified_ns: Option<u64>,
}

impl Meta {
    const DIRECTORY: Meta = Meta { is_dir: true, len: None, modified_ns: None };

    /// Returns the modification time in seconds since 1970.
    pub fn modified_s(&self) -> Option<u64> {
        self.modified_ns.map(|ns| ns / 1_000_000_000)
    }
}

/// The set of files that can be served.
#[derive(Clone, Debug, Default)]
pub struct Root {
    builtin: Vec<(String, Builtin)>,
    dir: Option<PathBuf>,
    uploads: Uploads,
    /// Maximum length of an uploaded file in bytes.
    upload_max: u64,
}

impl Root {
    /// Creates a root that serves no files.
    pub fn empty() -> Root {
        Root::default()
    }

    /// Creates a root with `/dev/zero` and `/dev/null`.
    pub fn devices() -> Root {
        Root::empty().with("/dev/zero", Builtin::Zero).with("/dev/null", Builtin::Null)
    }

    /// Adds a built-in file. Built-in files take precedence over files on disk.
    pub fn with(mut self, name: &str, file: Builtin) -> Root {
        if let Ok(name) = Name::root().join(name.as_bytes()) {
            self.builtin.push((name.0, file));
        }
        self
    }

    /// Adds the files below `dir`, with uploads of at most `upload_max` bytes each.
    ///
    /// # Errors
    /// The directory cannot be resolved or is not a directory.
    pub fn with_directory(mut self, dir: &Path, uploads: Uploads, upload_max: u64) -> io::Result<Root> {
        let dir = dir.canonicalize()?;
        if !dir.is_dir() {
            return Err(io::Error::new(io::ErrorKind::NotADirectory, format!("{}: not a directory", dir.display())));
        }
        (self.dir, self.uploads, self.upload_max) = (Some(dir), uploads, upload_max);
        Ok(self)
    }

    fn builtin(&self, name: &Name) -> Option<&Builtin> {
        self.builtin.iter().find(|(known, _)| *known == name.0).map(|(_, file)| file)
    }

    /// Returns whether the name is a directory that contains a built-in file.
    fn is_builtin_dir(&self, name: &Name) -> bool {
        name.0 == "/" || self.builtin.iter().any(|(known, _)| below(known, name).is_some())
    }

    /// Returns the attributes of a file or directory, following symbolic links.
    ///
    /// # Errors
    /// `NotFound`, `NotPlain`, `Denied`, `Io`.
    pub fn meta(&self, name: &Name) -> Result<Meta, Refusal> {
        match self.builtin(name) {
            Some(Builtin::Zero) => return Ok(Meta { is_dir: false, len: None, modified_ns: None }),
            Some(Builtin::Null) => return Ok(Meta { is_dir: false, len: Some(0), modified_ns: None }),
            Some(Builtin::Bytes(b)) => {
                return Ok(Meta { is_dir: false, len: Some(b.len() as u64), modified_ns: None });
            }
            None => {}
        }
        let found = self.dir.as_ref().ok_or(Refusal::NotFound).and_then(|dir| disk::meta(dir, name));
        if found.is_err() && self.is_builtin_dir(name) { Ok(Meta::DIRECTORY) } else { found }
    }

    /// Opens a file for reading from `offset`.
    ///
    /// # Errors
    /// `NotFound`, `NotPlain`, `Denied`, `Io`.
    pub fn open(&self, name: &Name, offset: u64) -> Result<(Source, Meta), Refusal> {
        let source = match self.builtin(name) {
            Some(Builtin::Zero) => Source::zeros(u64::MAX),
            Some(Builtin::Null) => Source::zeros(0),
            Some(Builtin::Bytes(bytes)) => Source::bytes(bytes.clone(), offset, u64::MAX),
            None if self.meta(name)?.is_dir => return Err(Refusal::NotPlain),
            None => {
                let dir = self.dir.as_ref().ok_or(Refusal::NotFound)?;
                let (file, meta) = disk::open(dir, name)?;
                return Ok((Source::file(file, offset, meta.len.unwrap_or(0))?, meta));
            }
        };
        Ok((source, self.meta(name)?))
    }

    /// Checks that the file may be written. Returns the served directory on disk; `None` for
    /// `/dev/null`.
    fn writable(&self, name: &Name) -> Result<Option<&Path>, Refusal> {
        match self.builtin(name) {
            Some(Builtin::Null) => return Ok(None),
            Some(_) => return Err(Refusal::Denied),
            None => {}
        }
        let dir = self.dir.as_ref().filter(|_| self.uploads != Uploads::Refused).ok_or(Refusal::Denied)?;
        if self.meta(name).is_ok_and(|meta| meta.is_dir) {
            return Err(Refusal::NotPlain);
        }
        Ok(Some(dir))
    }

    /// Opens a file for writing from `offset`, which must not exceed the file's length.
    ///
    /// # Errors
    /// `Denied`, `Exists`, `NotFound` (the file or its directory), `BadOffset`, `NotPlain`,
    /// `NoSpace`, `Io`.
    pub fn create(&self, name: &Name, offset: u64) -> Result<Sink, Refusal> {
        let Some(dir) = self.writable(name)? else { return Ok(Sink::null()) };
        let left = self.upload_max.checked_sub(offset).ok_or(Refusal::NoSpace)?;
        let file = disk::create(dir, name, self.uploads == Uploads::Replace, offset)?;
        Ok(Sink::file(file, left))
    }

    /// Opens a file for appending; creates it if it does not exist.
    ///
    /// # Errors
    /// The errors of [`Root::create`].
    pub fn append(&self, name: &Name) -> Result<Sink, Refusal> {
        let Some(dir) = self.writable(name)? else { return Ok(Sink::null()) };
        let (file, len) = disk::append(dir, name, self.uploads == Uploads::Replace)?;
        Ok(Sink::file(file, self.upload_max.saturating_sub(len)))
    }

    /// Returns which uploads are permitted.
    pub fn uploads(&self) -> Uploads {
        self.uploads
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// `Denied`, `Exists`, `NotFound` (the parent directory), `NoSpace`, `Io`.
    pub fn make_directory(&self, name: &Name) -> Result<(), Refusal> {
        let dir = self.dir.as_ref().filter(|_| self.uploads != Uploads::Refused).ok_or(Refusal::Denied)?;
        if self.meta(name).is_ok() {
            return Err(Refusal::Exists);
        }
        disk::make_directory(dir, name)
    }

    /// Checks that the entry exists and may be removed or renamed. Returns the served directory on
    /// disk and the attributes of the entry.
    fn changeable(&self, name: &Name) -> Result<(&Path, Meta), Refusal> {
        let meta = self.meta(name)?;
        let is_ours = self.builtin(name).is_some() || self.is_builtin_dir(name);
        let dir = self.dir.as_deref().filter(|_| self.uploads == Uploads::Replace && !is_ours);
        dir.map(|dir| (dir, meta)).ok_or(Refusal::Denied)
    }

    /// Removes a file, or a symbolic link to a file.
    ///
    /// # Errors
    /// `Denied`, `NotFound`, `NotPlain`, `Io`.
    pub fn remove(&self, name: &Name) -> Result<(), Refusal> {
        match self.changeable(name)? {
            (_, meta) if meta.is_dir => Err(Refusal::NotPlain),
            (dir, _) => disk::remove(dir, name),
        }
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `Denied`, `NotFound`, `NotDirectory`, `NotEmpty`, `Io`.
    pub fn remove_directory(&self, name: &Name) -> Result<(), Refusal> {
        match self.changeable(name)? {
            (dir, meta) if meta.is_dir => disk::remove_directory(dir, name),
            _ => Err(Refusal::NotDirectory),
        }
    }

    /// Checks that an entry exists and may be renamed.
    ///
    /// # Errors
    /// `Denied`, `NotFound`, `Io`.
    pub fn may_rename(&self, name: &Name) -> Result<(), Refusal> {
        self.changeable(name).map(drop)
    }

    /// Renames a file or directory. An existing file with the new name is replaced.
    ///
    /// # Errors
    /// `Denied`, `NotFound`, `Exists` (the new name is a directory), `BadName` (the new name is
    /// below the old one), `Io`.
    pub fn rename(&self, from: &Name, to: &Name) -> Result<(), Refusal> {
        let (dir, _) = self.changeable(from)?;
        if self.builtin(to).is_some() || self.is_builtin_dir(to) {
            return Err(Refusal::Denied);
        }
        if self.meta(to).is_ok_and(|meta| meta.is_dir) {
            return Err(Refusal::Exists);
        }
        disk::rename(dir, from, to)
    }

    /// Returns an iterator over the entries of a directory, in no particular order.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `Denied`, `Io`.
    pub fn list(&self, name: &Name) -> Result<Listing, Refusal> {
        self.list_matching(name, None)
    }

    /// Returns an iterator over the entries of a directory whose names match `pattern`.
    ///
    /// # Errors
    /// The errors of [`Root::list`].
    pub fn list_matching(&self, name: &Name, pattern: Option<&[u8]>) -> Result<Listing, Refusal> {
        let meta = self.meta(name)?;
        if !meta.is_dir {
            return Err(Refusal::NotDirectory);
        }
        let mut builtin: Vec<(String, Meta)> = Vec::new();
        for (known, _) in &self.builtin {
            let Some(rest) = below(known, name) else { continue };
            let (first, is_dir) = rest.split_once('/').map_or((rest, false), |(first, _)| (first, true));
            if !builtin.iter().any(|(seen, _)| seen == first) {
                let full = name.join(first.as_bytes())?;
                let meta = if is_dir { Meta::DIRECTORY } else { self.meta(&full)? };
                builtin.push((first.to_owned(), meta));
            }
        }
        let on_disk = self.dir.as_ref().and_then(|dir| disk::list(dir, name).ok());
        let hidden = builtin.iter().map(|(name, _)| name.clone()).collect();
        let wanted = Wanted { pattern: pattern.map(<[u8]>::to_vec), fuel: FUEL, is_undecided: false };
        Ok(Listing { hidden, builtin, on_disk, wanted })
    }
}

/// Returns the part of the path `known` that lies below the directory `name`.
fn below<'a>(known: &'a str, name: &Name) -> Option<&'a str> {
    let rest = known.strip_prefix(name.0.trim_end_matches('/'))?;
    rest.strip_prefix('/').filter(|rest| !rest.is_empty())
}

/// Iterator over the entries of a directory; returns names and attributes.
#[derive(Debug)]
pub struct Listing {
    builtin: Vec<(String, Meta)>,
    hidden: Vec<String>,
    on_disk: Option<disk::Entries>,
    wanted: Wanted,
}

/// Name filter of a listing.
#[derive(Debug)]
struct Wanted {
    pattern: Option<Vec<u8>>,
    fuel: Fuel,
    is_undecided: bool,
}

impl Wanted {
    /// Returns whether a name matches. As POSIX.1-2017 XCU 2.13.3 requires, a leading dot is
    /// matched only by a dot in the pattern.
    fn has(&mut self, name: &str) -> bool {
        let Some(pattern) = &self.pattern else { return true };
        if self.is_undecided || name.starts_with('.') && !pattern.starts_with(b".") {
            return false;
        }
        let matches = Glob::of_files(pattern).matches(name.as_bytes(), &mut self.fuel);
        self.is_undecided = matches.is_err();
        matches == Ok(true)
    }
}

impl Listing {
    /// Checks that the pattern was matched completely against every name. Must be called after the
    /// last entry.
    ///
    /// # Errors
    /// `Pattern` if matching was stopped because it took too many steps.
    pub fn finish(&self) -> Result<(), Refusal> {
        if self.wanted.is_undecided { Err(Refusal::Pattern) } else { Ok(()) }
    }
}

impl Iterator for Listing {
    type Item = (String, Meta);

    fn next(&mut self) -> Option<(String, Meta)> {
        while let Some(entry) = self.builtin.pop() {
            if self.wanted.has(&entry.0) {
                return Some(entry);
            }
        }
        let (hidden, wanted) = (&self.hidden, &mut self.wanted);
        self.on_disk.as_mut()?.next_named(|name| !hidden.iter().any(|known| known == name) && wanted.has(name))
    }
}

#[cfg(test)]
mod tests;
