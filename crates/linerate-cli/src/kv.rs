//! `kvd` and `kvload`: flags of a key-value server and of its load generator.

use crate::args::{PeerArgs, ServedArgs};
use crate::exit::Exit;
use crate::load::LoadArgs;
use crate::serve;
use apps::kv::{Bounds, Config, Kv, PORT};
use apps::load::{KEYS_MAX, Kvload, Proportions, VALUE_MAX};
use clap::Args;
use std::ffi::OsString;

/// Arguments of `kvd`.
#[derive(Args, Debug)]
#[command(after_help = "\
The flags of 'linerate host' apply, and the host ends in the same cases; the keys are kept in \
memory only. Protocols: RESP2 and RESP3 (HELLO 3), on port 6379. Commands: strings, lists, sets, hashes, sorted sets, \
EXPIRE, SCAN, MULTI and WATCH; COMMAND lists all.

Not supported: persistence, replication, databases other than 0, users other than 'default' (no password), publish and \
subscribe, scripts, streams, blocking commands, options of ZADD, ZRANGE BYLEX. Limits: an argument 1 MiB, a request 8 \
MiB, a transaction 65,536 requests or 8 MiB, 4096 watched keys.

Example:
  linerate kvd --port tap:tap0 --addr 10.0.0.2/24
  redis-benchmark -h 10.0.0.2 -q -n 10000 -P 16")]
pub struct KvdArgs {
    /// Limit keys and values to this many MiB; further writes fail (-OOM)
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub memory: u32,
    /// Limit the number of keys
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(1..=1 << 28))]
    pub keys: u32,
    /// Limit concurrent clients
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub clients: u32,
    #[command(flatten)]
    pub peers: PeerArgs,
    #[command(flatten)]
    pub served: ServedArgs,
}

/// Runs `kvd`.
pub fn serve(args: &KvdArgs, words: &[OsString]) -> anyhow::Result<Exit> {
    let clients = args.clients as usize;
    let config = Config {
        bounds: Bounds { keys: args.keys as usize, bytes: (args.memory as usize) << 20 },
        clients_max: clients,
        clients_per_peer: args.peers.or(clients.div_ceil(2)),
        ..Config::default()
    };
    serve::run(&args.served, words, PORT, |_| Kv::new(config), |_| Ok(false))
}

/// Arguments of `kvload`.
#[derive(Args, Debug)]
#[command(after_help = "\
Client and server both run in this command, as with 'linerate netperf', unless -H gives the address of a running \
'linerate kvd' or another RESP server. All keys are set before the measurement. A client sends a request for each reply.

Examples:
  linerate kvload -l 5
  linerate kvload -c 32 -P 16 --over tap --from kernel
  linerate kvload -H 127.0.0.1 --over native")]
pub struct KvloadArgs {
    /// Use this many keys
    #[arg(short = 'n', value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(KEYS_MAX)))]
    pub keys: u32,
    /// Set the size of a value in bytes
    #[arg(short = 'd', value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(VALUE_MAX)))]
    pub value: u32,
    /// Set the percentage of GETs; the other requests are SETs
    #[arg(long, value_name = "N", default_value_t = 90, value_parser = clap::value_parser!(u32).range(..=100))]
    pub gets: u32,
    /// Set Zipf's exponent: 0 (uniform) to below 1 (few keys used often)
    #[arg(long, value_name = "S", default_value = "0.99", value_parser = skew)]
    pub zipf: f64,
    #[command(flatten)]
    pub load: LoadArgs,
}

/// Runs `kvload`.
pub fn load(args: &KvloadArgs, words: &[OsString]) -> anyhow::Result<Exit> {
    let proportions =
        Proportions { keys: args.keys.into(), value: args.value as usize, gets: args.gets, skew: args.zipf };
    args.load.play(words, Kvload::new(proportions))
}

fn skew(word: &str) -> Result<f64, String> {
    let skew = word.parse().ok().filter(|skew| (0.0..1.0).contains(skew));
    skew.ok_or_else(|| "expected a number from 0 to below 1".to_owned())
}
