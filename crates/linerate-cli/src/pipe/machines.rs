//! `tap`, which connects a new TAP interface with standard input and output, and `nanoping`.

use super::args::{FormArgs, PipeArgs};
use super::{ends, flow, generate};
use crate::exit::{Exit, Fault, notice};
use crate::surroundings::{self, Form};
use anyhow::Context;
use buf::{Burst, Pool};
use clap::Args;
use pipe::nanoping::{Figures, Ping, PingConfig};
use pipe::ports::Counter;
use port::Port;
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::Mac;

/// Arguments of `tap`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
Frames that the kernel sends through the interface are written to standard output; frames from standard input are \
passed to the kernel. The interface is created, brought up, and removed at the end. Equivalent to \
'linerate pipe tap(up=on):NAME'.

Example: two machines on one segment, by ssh
  mkfifo back; linerate tap vpn0 < back | ssh there linerate tap vpn0 > back")]
pub struct TapArgs {
    /// Create the TAP interface NAME
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Prefix each line with the frame's arrival time, as in format f2
    #[arg(short = 't', long)]
    pub stamp: bool,
    /// Keep writing frames from the kernel after the end of standard input
    #[arg(long)]
    pub half: bool,
    #[command(flatten)]
    pub form: FormArgs,
}

impl TapArgs {
    pub fn pipe(&self) -> anyhow::Result<PipeArgs> {
        // These characters have a meaning in a port specification.
        if self.name.contains([':', '(', ')', '\'', '"']) {
            return Err(Fault::usage(format!("'{}': invalid interface name", self.name)));
        }
        let (stamp, half, form) = (self.stamp, self.half, self.form.clone());
        Ok(PipeArgs { port: format!("tap(up=on):{}", self.name), stamp, at_once: false, half, form })
    }
}

/// Arguments of `nanoping`.
#[derive(Args, Debug, Clone)]
#[command(after_help = "\
A round trip is measured from just before the request is passed to the port until just after its reply is read from \
the port, with the machine's time counter. Exit code 1: no reply.

Example:
  linerate nanoping 10.0.0.1 tap:tap0 -S 10.0.0.2 -c 1000 -i 0")]
pub struct NanopingArgs {
    /// Send requests to this address
    #[arg(value_name = "ADDR")]
    pub addr: Ipv4Addr,
    /// Send and receive through this port, as in tap:tap0
    #[arg(value_name = "PORT")]
    pub port: String,
    /// Set the source IP address [default: ADDR with its last byte replaced by 254, or by 253 if it
    /// is 254]
    #[arg(short = 'S', long = "from", value_name = "ADDR")]
    pub own: Option<Ipv4Addr>,
    /// Set the source MAC address
    #[arg(long, value_name = "MAC", value_parser = generate::mac, default_value = "02:00:00:00:00:fe")]
    pub mac: Mac,
    /// Stop after N requests
    #[arg(short, long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub count: u32,
    /// Set the interval between requests, in seconds or as in 10ms; 0: send each request as soon as
    /// the previous one is answered
    #[arg(short, long, value_name = "SECS", value_parser = interval, default_value = "1")]
    pub interval: Duration,
    /// Set the time to wait for a reply, in seconds or as in 10ms
    #[arg(short = 'W', long, value_name = "SECS", value_parser = flow::seconds, default_value = "1")]
    pub wait: Duration,
    /// Set the length of the ICMP payload in bytes
    #[arg(short, long, value_name = "BYTES", default_value_t = 56, value_parser = clap::value_parser!(u16).range(0..=1472))]
    pub size: u16,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

fn interval(word: &str) -> Result<Duration, String> {
    if word == "0" { Ok(Duration::ZERO) } else { flow::seconds(word) }
}

pub fn nanoping(args: &NanopingArgs) -> anyhow::Result<Exit> {
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let [a, b, c, d] = args.addr.octets();
    let own = args.own.unwrap_or(Ipv4Addr::new(a, b, c, if d == 254 { 253 } else { 254 }));
    let (port, pool) = ends::open(&args.port)?;
    let ping = Ping::new(PingConfig {
        addr: args.addr,
        own,
        mac: args.mac,
        ident: std::process::id() as u16,
        size: usize::from(args.size),
        count: args.count,
        interval: args.interval,
        wait: args.wait,
    });
    surroundings::measured(Form::of(args.json), |out| {
        let figures = converse(ping, port, &pool)?;
        let text = if args.json { format!("{}\n", json(&figures)) } else { words(args.addr, &figures) };
        out.write_all(text.as_bytes()).context("standard output")?;
        Ok(if figures.received > 0 { Exit::Fine } else { Exit::Failed })
    })
}

/// Runs the measurement `ping` through `port` until it ends. Polls without sleeping, since the
/// round-trip times would otherwise include the time to wake up.
fn converse(mut ping: Ping, mut port: Port, pool: &Pool) -> anyhow::Result<Figures> {
    let clock = Counter::new(1).clock();
    let mut burst = Burst::new();
    let send = |port: &mut Port, bytes: &[u8], at| {
        if let Some(mut frame) = pool.get()
            && frame.extend(bytes).is_some()
        {
            // If the port does not accept a request, the request is reported as unanswered.
            let _ = port.tx.tx_one(frame, at);
        }
    };
    while !ping.is_over(clock.now()) && !dispatch::stop_requested() && !port.rx.is_gone() {
        if let Some(frame) = ping.poll(clock.now()) {
            let at = clock.now();
            ping.left(at);
            send(&mut port, &frame, at);
        }
        port.tx.poll(clock.now());
        port.rx.rx_burst(&mut burst, 32, clock.now());
        let now = clock.now();
        for frame in burst.drain() {
            if let Some(reply) = ping.input(frame.bytes(), now) {
                send(&mut port, &reply, now);
            }
        }
    }
    port.rx.warnings().iter().for_each(|warning| notice(warning));
    Ok(ping.figures())
}

fn words(addr: Ipv4Addr, figures: &Figures) -> String {
    let Figures { sent, received, stray, found, rtts } = figures;
    if !found {
        return format!("{addr}: no ARP reply\n");
    }
    let mut out = format!("{addr}: {sent} sent, {received} received, {} lost, {stray} stray\n", figures.lost());
    if let (Some(min), Some(max), Some(median), Some(p99)) =
        (rtts.first(), rtts.last(), figures.percentile(50), figures.percentile(99))
    {
        out += &format!("rtt min {min} ns, median {median} ns, p99 {p99} ns, max {max} ns\n");
    }
    out
}

fn json(figures: &Figures) -> serde_json::Value {
    serde_json::json!({
        "sent": figures.sent, "received": figures.received, "lost": figures.lost(), "stray": figures.stray,
        "arp": figures.found, "min_ns": figures.rtts.first(), "median_ns": figures.percentile(50),
        "p99_ns": figures.percentile(99), "max_ns": figures.rtts.last(),
    })
}
