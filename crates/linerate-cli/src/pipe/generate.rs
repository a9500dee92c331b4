//! `gen`: generates frames.

use super::args::FormArgs;
use crate::exit::{Fault, notice};
use clap::Args;
use pipe::Format;
use pipe::generate::{Gen, GenConfig};
use std::io::Write;
use std::net::SocketAddrV4;
use wire::Mac;
use wire::eth::EtherType;

/// Arguments of `gen`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Frames are generated one by one; with --static, one buffer is written repeatedly, as in the measurements of the \
report ethpipe2013. The method is reported on standard error. -t spaces timestamps as on a wire: 64 bytes at 1000 Mb/s \
are 84 ticks of 8 ns. Timestamps are relative to register 1, which the first frame of each round (-m) resets.

Examples:
  linerate gen --static --rotate | LC_ALL=C grep -c 001111111111
  linerate gen -n 5 -t 1000 --udp 10.0.0.1:7-10.0.0.2:9 | linerate put tap:tap0")]
pub struct GenArgs {
    /// Set the size of a frame in bytes, including FCS
    #[arg(short, long, value_name = "BYTES", default_value_t = 64)]
    pub size: usize,
    /// Generate N frames per round; 0: no limit
    #[arg(short = 'n', long, value_name = "N", default_value_t = 0)]
    pub count: u64,
    /// Generate N rounds
    #[arg(short = 'm', long, value_name = "N", default_value_t = 1)]
    pub loops: u64,
    /// Set timestamps as if frames followed one another at this line rate, in Mb/s
    #[arg(short = 't', long, value_name = "MBPS", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub mbps: Option<u64>,
    /// Send to these MAC addresses in turn [default: broadcast]
    #[arg(long, value_name = "MAC", value_parser = mac, value_delimiter = ',')]
    pub dst: Vec<Mac>,
    /// Send to the ten addresses of the report ethpipe2013 in turn: 001111111111, 002222222222 ..
    /// 009999999999, FFFFFFFFFFFF
    #[arg(long, conflicts_with = "dst")]
    pub rotate: bool,
    /// Set the source MAC address
    #[arg(long, value_name = "MAC", value_parser = mac, default_value = "0022CF63967B")]
    pub src: Mac,
    /// Set the EtherType, in hexadecimal
    #[arg(long = "type", value_name = "HEX", value_parser = ethertype, default_value = "8899", conflicts_with = "udp")]
    pub ethertype: EtherType,
    /// Send UDP datagrams between these endpoints
    #[arg(long, value_name = "A:PORT-B:PORT", value_parser = endpoints)]
    pub udp: Option<(SocketAddrV4, SocketAddrV4)>,
    /// Generate one buffer of frames and write it repeatedly, for measurements
    #[arg(long = "static")]
    pub fixed: bool,
    #[command(flatten)]
    pub form: FormArgs,
}

impl GenArgs {
    pub fn open(&self) -> anyhow::Result<Gen> {
        Gen::new(GenConfig {
            size: self.size,
            count: self.count,
            loops: self.loops,
            mbps: self.mbps,
            tick_ns: self.form.tick(),
            dst: if self.rotate { port::pktgen::ROTATION.to_vec() } else { self.dst.clone() },
            src: self.src,
            ethertype: self.ethertype,
            udp: self.udp,
        })
        .map_err(Fault::usage)
    }

    /// Writes one buffer of frames repeatedly.
    pub fn run_fixed(&self) -> anyhow::Result<()> {
        let format = self.form.output.unwrap_or(Format::Text);
        let fixed = self.open()?.fixed(format).map_err(Fault::usage)?;
        let mut out = pipe::os::stdout()?;
        pipe::os::widen_pipe(std::os::fd::AsFd::as_fd(&out));
        let mut written = 0;
        let mut wrote = out.write_all(&fixed.header);
        while wrote.is_ok() && !dispatch::stop_requested() {
            let (piece, frames) = fixed.piece(written);
            if frames == 0 {
                break;
            }
            wrote = out.write_all(piece);
            written += if wrote.is_ok() { frames } else { 0 };
        }
        notice(&format!("{written} frames: one buffer of {} written repeatedly", fixed.frames));
        Ok(wrote?)
    }
}

/// Parses `02:00:00:00:00:01` or `020000000001`.
pub fn mac(word: &str) -> Result<Mac, String> {
    if let (12, Ok(bits)) = (word.len(), u64::from_str_radix(word, 16)) {
        let [_, _, mac @ ..] = bits.to_be_bytes();
        return Ok(Mac(mac));
    }
    word.parse().map_err(|why: wire::eth::BadMac| why.to_string())
}

fn ethertype(word: &str) -> Result<EtherType, String> {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    u16::from_str_radix(digits, 16)
        .map(EtherType)
        .map_err(|_| "expected up to four hexadecimal digits as in 8899".into())
}

fn endpoints(word: &str) -> Result<(SocketAddrV4, SocketAddrV4), String> {
    let parsed = word.split_once('-').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
    parsed.ok_or_else(|| "expected A:PORT-B:PORT as in 10.0.0.1:7-10.0.0.2:9".into())
}
