//! Arguments of `ftpd`, `httpd` and `serve`.

use super::host::{LimitArgs, ServedArgs};
use clap::{Args, ValueEnum, ValueHint};
use std::path::PathBuf;

/// Arguments of `ftpd` and `httpd`.
#[derive(Args, Debug)]
#[command(after_help = "\
The flags of 'linerate host' apply, and the host ends in the same cases. /dev/zero is an endless file; over HTTP, \
/dev/zero?bytes=N has N bytes. /dev/null accepts any upload. FTP implements the minimum of RFC 959, RFC 2428, RFC 3659 \
(MLSD, SIZE, MDTM, REST), APPE, and patterns (* ? [a-z]) in LIST and NLST; and as far as --uploads permits, MKD, RMD, \
DELE, RNFR and RNTO.

Example:
  linerate ftpd --port tap:tap0 --addr 10.0.0.2/24 --root /srv/files
  curl -o /dev/null ftp://anonymous@10.0.0.2/dev/zero")]
pub struct FilesArgs {
    /// Serve the files in this directory too; links out of it are not followed
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub root: Option<PathBuf>,
    /// Accept uploads to --root (ftpd): under new names only, or any name
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "new", requires = "root")]
    pub uploads: Option<UploadsArg>,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub served: ServedArgs,
}

/// Permitted names of uploads.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum UploadsArg {
    /// Allow new names and directories
    New,
    /// Allow any name: existing files may also be appended to, renamed and removed
    Replace,
}

/// Arguments of `serve`.
#[derive(Args, Debug)]
#[command(after_help = "\
The flags of 'linerate host' apply, and the host ends in the same cases.

Example:
  linerate serve echo --port tap:tap0 --addr 10.0.0.2/24 -p 7")]
pub struct ServeArgs {
    /// Select the service
    pub kind: SmallKind,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub served: ServedArgs,
}

/// Services of `serve`.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum SmallKind {
    /// Send back received bytes (RFC 862, port 7)
    Echo,
    /// Discard received bytes (RFC 863, port 9)
    Discard,
    /// Send an endless stream of characters (RFC 864, port 19)
    Chargen,
    /// Discard received bytes and print their number at the end (port 9)
    Sink,
}
