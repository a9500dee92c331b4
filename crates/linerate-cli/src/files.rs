//! `filed` and `fileload`: flags of a file service and of its load generator.

use crate::args::{LimitArgs, ServedArgs};
use crate::exit::Exit;
use crate::load::LoadArgs;
use crate::serve;
use apps::filed::{Bounds, Config, Filed, PORT};
use apps::load::{FILE_MAX, FILES_MAX, Fileload, Files, TRANSFER};
use clap::Args;
use std::ffi::OsString;

/// Arguments of `filed`.
#[derive(Args, Debug)]
#[command(after_help = "\
The flags of 'linerate host' apply, and the host ends in the same cases; the files are kept in \
memory only. Requests are LOOKUP, GETATTR, READ, WRITE, CREATE and REMOVE, in records over TCP, port 52049. The only \
client is 'linerate fileload'; the files cannot be mounted.

Example:
  linerate filed --port tap:tap0 --addr 10.0.0.2/24
  linerate fileload -H 10.0.0.2 --over native")]
pub struct FiledArgs {
    /// Limit the files to this many MiB; further writes fail
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub memory: u32,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub served: ServedArgs,
}

/// Runs `filed`.
pub fn serve(args: &FiledArgs, words: &[OsString]) -> anyhow::Result<Exit> {
    let default = Config::default();
    let bounds = Bounds { bytes: (args.memory as usize) << 20, ..default.bounds };
    let limits = args.limits.or(default.clients_max);
    let config = Config { bounds, clients_max: limits.most, clients_per_peer: limits.per_peer, ..default };
    serve::run(&args.served, words, PORT, |_| Filed::new(config), |_| Ok(false))
}

/// Arguments of `fileload`.
#[derive(Args, Debug)]
#[command(after_help = "\
Client and server both run in this command, as with 'linerate netperf', unless -H gives the address of a running \
'linerate filed'. Requests have the proportions of SPEC SFS 2008, as far as the protocol supports them: 28 % LOOKUP, \
42 % GETATTR, 18 % READ and 10 % WRITE of 8 KiB, 2 % CREATE and REMOVE. The files are created before the measurement.

Examples:
  linerate fileload -l 5
  linerate fileload -c 16 --over native")]
pub struct FileloadArgs {
    /// Create this many files
    #[arg(short = 'n', value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=i64::from(FILES_MAX)))]
    pub files: u32,
    /// Set the size of a file in bytes, in steps of 8 KiB
    #[arg(short = 'd', value_name = "BYTES", default_value_t = 32_768, value_parser = clap::value_parser!(u32).range(TRANSFER as i64..=i64::from(FILE_MAX)))]
    pub bytes: u32,
    #[command(flatten)]
    pub load: LoadArgs,
}

/// Runs `fileload`.
pub fn load(args: &FileloadArgs, words: &[OsString]) -> anyhow::Result<Exit> {
    let files = Files { count: args.files, transfers: args.bytes / TRANSFER as u32 };
    args.load.play(words, Fileload::new(files))
}
