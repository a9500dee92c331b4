//! `rewrite` and `crc`: change frames that pass through.

use super::args::{FormArgs, StreamArgs};
use super::step::Step;
use crate::exit::{Fault, notice};
use clap::Args;
use clock::{Clock, Strategy};
use pipe::Stage;
use pipe::crc::{Action, Crc};
use pipe::rewrite::nat::{Between, Config, Dir, NatStage, Timeouts};
use pipe::rewrite::{BadExpr, Rewrite};
use pipe::stage::Chain;
use std::ops::RangeInclusive;

/// Arguments of `rewrite`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Edits apply in the given order, each to the frames that have the field. Checksums that cover the field are updated; a \
wrong checksum stays wrong.
  dst=00:11:22:33:44:55  src=00:11:22:*:*:*  type=0x0800  swap=mac|ip|port
  vlan.push=ID[,PCP][,0x88a8]  vlan.pop  vlan.id=N  'vlan.id=10->20'  vlan.pcp=N
  ip.src=10.0.0.1  ip.dst=10.0.0.0/8 (the host part stays)  ip.src=fd00::1
  ip.ttl=64  ip.ttl-=1 (dropped at 0)  ip.dscp=46  ip.id=0x1234
  sport=N  dport=N  tcp.sport=N  tcp.dport=N  udp.sport=N  udp.dport=N
  'byte[14:2]=0x4500' (raw: checksums are not updated)
With --nat44, frames from the inside network leave with the outside address, and replies are translated back; edits \
apply after translation. Sessions are kept for TCP, UDP and ICMP echo; an ICMP error belongs to the session that it \
quotes. Frames from outside without a session are dropped.

Examples:
  linerate rewrite swap=mac swap=ip swap=port < frames.txt
  linerate cat tap:tap0 + rewrite dst=02:00:00:00:00:01 ip.ttl-=1 + put tap:tap1
  linerate rewrite --nat44 10.0.0.0/8=192.0.2.1 -o pcapng < trace.txt
  linerate rewrite 'vlan.id=10->20' < frames.txt")]
pub struct RewriteArgs {
    /// Apply these edits, FIELD=VALUE, in the given order
    #[arg(value_name = "EXPR", required_unless_present = "nat44")]
    pub exprs: Vec<String>,
    /// Translate addresses of an inside network to one outside address, as in 10.0.0.0/8=192.0.2.1
    #[arg(long, value_name = "NET=ADDR")]
    pub nat44: Option<Between>,
    /// Set the direction of all frames: out (from inside), in (from outside), or auto (by their
    /// addresses)
    #[arg(long, value_name = "DIR", default_value = "auto", requires = "nat44", value_parser = dir)]
    pub nat44_dir: Dir,
    /// Use these L4 ports of the outside address, as in 1024-65535
    #[arg(long, value_name = "A-B", default_value = "1-65535", requires = "nat44", value_parser = ports)]
    pub nat44_ports: RangeInclusive<u16>,
    /// Limit the number of sessions; at the limit, each new session evicts an idle one
    #[arg(long, value_name = "N", default_value_t = 65_536, requires = "nat44", value_parser = clap::value_parser!(u32).range(1..=16_777_216))]
    pub nat44_limit: u32,
    /// Set idle timeouts of sessions in seconds: udp=300,icmp=60,tcp=7440,transitory=240 (TCP not
    /// established)
    #[arg(long, value_name = "NAME=SECONDS", requires = "nat44")]
    pub nat44_timeouts: Option<Timeouts>,
    #[command(flatten)]
    pub form: FormArgs,
}

/// Arguments of `crc`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Covers IPv4 headers, TCP, UDP, ICMP, IGMP and ICMPv6. Checksums of fragments and of truncated packets cannot be \
computed and are left unchanged.

Examples:
  linerate crc < frames.txt
  linerate crc --check trace.pcap > /dev/null && echo all are right")]
pub struct CrcArgs {
    /// Check only, with exit code 1 if a checksum is wrong
    #[arg(long, conflicts_with_all = ["udp_zero", "pad"])]
    pub check: bool,
    /// Set UDP checksums to 0 (\"not computed\") where permitted: over IPv4
    #[arg(long)]
    pub udp_zero: bool,
    /// Pad frames shorter than 60 bytes with zeros
    #[arg(long)]
    pub pad: bool,
    #[command(flatten)]
    pub stream: StreamArgs,
}

fn dir(word: &str) -> Result<Dir, String> {
    match word {
        "auto" => Ok(Dir::Auto),
        "in" => Ok(Dir::In),
        "out" => Ok(Dir::Out),
        _ => Err("expected in, out or auto".to_owned()),
    }
}

fn ports(words: &str) -> Result<RangeInclusive<u16>, String> {
    let range = words.split_once('-').and_then(|(first, last)| Some(first.parse().ok()?..=last.parse().ok()?));
    range
        .filter(|ports: &RangeInclusive<u16>| *ports.start() > 0 && !ports.is_empty())
        .ok_or_else(|| "expected two ports, as in 1024-65535".to_owned())
}

/// Creates the stages of `rewrite`: translation, then edits.
pub fn rewrite(args: RewriteArgs) -> anyhow::Result<Step> {
    let mut stages: Vec<Box<dyn Stage>> = Vec::new();
    let edits = Rewrite::new(&args.exprs).map_err(|bad| shown(&bad))?;
    if let Some(between) = args.nat44 {
        let mut config = Config::new(between);
        (config.dir, config.ports, config.limit) = (args.nat44_dir, args.nat44_ports, args.nat44_limit as usize);
        config.timeouts = args.nat44_timeouts.unwrap_or_default();
        stages.push(Box::new(NatStage::new(config, Clock::live(Strategy::TscScaled))));
    }
    if !args.exprs.is_empty() {
        stages.push(Box::new(edits));
    }
    let stream = StreamArgs { form: args.form, ..StreamArgs::default() };
    Ok(Step::Stage(Box::new(Chain(stages)), stream))
}

/// Prints the expression with a caret below the error, and returns the error as one line.
fn shown(bad: &BadExpr) -> anyhow::Error {
    bad.picture().lines().for_each(|line| notice(&format!("  {line}")));
    Fault::usage(format!("{bad}; see 'linerate rewrite --help'"))
}

/// Creates the stage of `crc`.
pub fn crc(args: CrcArgs) -> anyhow::Result<Step> {
    let action = match (args.check, args.udp_zero) {
        (true, _) => Action::Check,
        (false, true) => Action::SetUdpZero,
        (false, false) => Action::Set,
    };
    Ok(Step::Stage(Box::new(Crc::new(action, args.pad)), args.stream))
}
