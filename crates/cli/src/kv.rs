//! `kvd` and `kvload`: flags to a key-value server, and to a workload that asks it.

use crate::args::{PeerArgs, ServedArgs};
use crate::exit::Exit;
use crate::load::LoadArgs;
use crate::serve;
use apps::kv::{Bounds, Config, Kv, PORT};
use apps::load::{KEYS_MAX, Kvload, Proportions, VALUE_MAX};
use clap::Args;
use std::ffi::OsString;

/// `kvd`.
#[derive(Args, Debug)]
#[command(after_help = "\
The host's flags are those of 'linerate host'; it ends as that one does, and its keys with it. It speaks RESP2 and \
RESP3 (HELLO 3) at port 6379: strings, lists, sets, hashes, sorted sets, EXPIRE, SCAN, MULTI and WATCH; COMMAND lists \
all.

Not here: disk, replicas, databases but 0, users but 'default' (no password), publish and subscribe, scripts, streams, \
blocking commands, ZADD's options, ZRANGE BYLEX. Limits: an argument 1 MiB, a request 8 MiB, a transaction 65,536 \
requests or 8 MiB, 4096 watched keys.

Example:
  linerate kvd --port tap:tap0 --addr 10.0.0.2/24
  redis-benchmark -h 10.0.0.2 -q -n 10000 -P 16")]
pub struct KvdArgs {
    /// Mebibytes of keys and values; what would be more is refused (-OOM)
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub memory: u32,
    /// Keys
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(1..=1 << 28))]
    pub keys: u32,
    /// Clients at a time
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub clients: u32,
    #[command(flatten)]
    pub peers: PeerArgs,
    #[command(flatten)]
    pub served: ServedArgs,
}

/// `kvd`.
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

/// `kvload`.
#[derive(Args, Debug)]
#[command(after_help = "\
Both ends are here, as of 'linerate netperf', unless -H says where the far one is: 'linerate kvd', or any server that \
speaks RESP. Its keys are set first, uncounted. A client asks again when it is answered.

Examples:
  linerate kvload -l 5
  linerate kvload -c 32 -P 16 --over tap --from kernel
  linerate kvload -H 127.0.0.1 --over native")]
pub struct KvloadArgs {
    /// Keys
    #[arg(short = 'n', value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=i64::from(KEYS_MAX)))]
    pub keys: u32,
    /// Bytes of a value
    #[arg(short = 'd', value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(VALUE_MAX)))]
    pub value: u32,
    /// GETs of 100 requests; the others are SETs
    #[arg(long, value_name = "N", default_value_t = 90, value_parser = clap::value_parser!(u32).range(..=100))]
    pub gets: u32,
    /// Zipf's exponent, by which few keys are wanted often: 0 (all alike) to below 1
    #[arg(long, value_name = "S", default_value = "0.99", value_parser = skew)]
    pub zipf: f64,
    #[command(flatten)]
    pub load: LoadArgs,
}

/// `kvload`.
pub fn load(args: &KvloadArgs, words: &[OsString]) -> anyhow::Result<Exit> {
    let proportions =
        Proportions { keys: args.keys.into(), value: args.value as usize, gets: args.gets, skew: args.zipf };
    args.load.play(words, Kvload::new(proportions))
}

fn skew(word: &str) -> Result<f64, String> {
    let skew = word.parse().ok().filter(|skew| (0.0..1.0).contains(skew));
    skew.ok_or_else(|| "expected a number from 0 to below 1".to_owned())
}
