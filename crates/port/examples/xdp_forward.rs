//! Measures the cost of a frame that is received by AF_XDP and sent back with its MAC addresses
//! swapped: with rings alone, and with a port.
//!
//!     cargo run --release --example xdp_forward -p linerate-port -- [ROUNDS] [FRAMES] [LENGTH] [BURST]
//!
//! Both loops run in turns (A B B A) on the same veth, in a separate namespace, on one thread: pin
//! it (`taskset -c 1`). A generator sends a burst from the other end, which the kernel delivers
//! within that call. Then the loop runs, timed, until it has sent the whole burst back. Then the
//! generator receives the burst. The ticks thus include receiving, swapping and sending, and what
//! the kernel does during the send call.

use buf::{Burst, Pool, PoolConfig};
use clock::{Instant, tsc};
use linerate_port::os::netlink::Netlink;
use linerate_port::os::netns;
use linerate_port::xdp::bare::{BareSwap, port_turn};
use linerate_port::xdp::{self, XdpConfig};
use linerate_port::{Port, RxHalf, TxHalf};
use std::process::{Command, ExitCode};

type Answer<T> = Result<T, Box<dyn std::error::Error>>;

struct Plan {
    rounds: usize,
    frames: usize,
    len: usize,
    burst: usize,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xdp_forward: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Answer<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_none_or(|first| first != "inside") {
        let mut cmd = Command::new(std::env::current_exe()?);
        let status = netns::command(cmd.arg("inside").args(args)).status()?;
        return if status.success() { Ok(()) } else { Err("it failed in its namespace".into()) };
    }
    let number = |i: usize, default: usize| args.get(i).map_or(Ok(default), |word| word.parse());
    let plan = Plan { rounds: number(1, 6)?, frames: number(2, 100_000)?, len: number(3, 60)?, burst: number(4, 64)? };
    let mut netlink = Netlink::open()?;
    netlink.add_veth("x0", "k0")?;
    ["x0", "k0"].iter().try_for_each(|dev| netlink.set_up(dev))?;
    measure(&plan)
}

fn measure(plan: &Plan) -> Answer<()> {
    let (pool, generators) = (Pool::new(&PoolConfig::default())?, Pool::new(&PoolConfig::default())?);
    let mut generator = xdp::open("k0", &XdpConfig::default(), &generators)?;
    let (mut bare, mut ours) = (Vec::new(), Vec::new());
    for round in 0..plan.rounds {
        for first in [round % 2 == 0, round % 2 != 0] {
            if first {
                let mut circle = BareSwap::open("x0", &XdpConfig::default())?;
                bare.push(trial(plan, &mut generator, &generators, || circle.turn())?);
            } else {
                let mut port = xdp::open("x0", &XdpConfig::default(), &pool)?;
                let mut burst = Burst::new();
                ours.push(trial(plan, &mut generator, &generators, || {
                    port_turn(&mut port, &mut burst, Instant::ZERO)
                })?);
            }
        }
        if let (Some(a), Some(b)) = (bare.last(), ours.last()) {
            println!("round {round}: bare {a:7.1} ticks a frame, port {b:7.1}: {:.3} of its rate", a / b);
        }
    }
    let (a, b) = (median(&mut bare), median(&mut ours));
    println!("median: bare {a:.1} ticks a frame, port {b:.1}: {:.3} of its rate; {} Hz", a / b, tsc::hertz());
    Ok(())
}

/// Runs one trial, after a tenth of it for warming up. Returns the ticks per frame: the median over
/// the bursts, so that occasional other activity of the machine does not count.
fn trial(plan: &Plan, generator: &mut Port, pool: &Pool, mut turn: impl FnMut() -> usize) -> Answer<f64> {
    let mut samples = Vec::new();
    let warm = plan.frames / 10;
    for at in (0..warm + plan.frames).step_by(plan.burst) {
        send(generator.tx.as_mut(), pool, plan)?;
        let start = tsc::ticks();
        let mut came = 0;
        for turns in 1..1_000_000 {
            came += turn();
            if came >= plan.burst {
                break;
            }
            if turns % 100 == 0 {
                std::thread::yield_now(); // the kernel's own thread for it may have to deliver them, on this processor
            }
        }
        let spent = tsc::ticks() - start;
        receive(generator.rx.as_mut());
        if at >= warm && came > 0 {
            samples.push(spent as f64 / came as f64);
        }
        if came < plan.burst {
            return Err(format!("{came} of {} came", plan.burst).into());
        }
    }
    Ok(median(&mut samples))
}

fn send(tx: &mut dyn TxHalf, pool: &Pool, plan: &Plan) -> Answer<()> {
    let mut burst = Burst::new();
    pool.get_burst_of(plan.burst, plan.len, &mut burst);
    for frame in burst.as_mut_slice() {
        // An EtherType for experiments, which no frame of the kernel itself has.
        let header = frame.bytes_mut().first_chunk_mut::<14>().ok_or("frames of 14 bytes at least")?;
        *header = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    }
    tx.tx_burst(&mut burst, Instant::ZERO);
    if burst.is_empty() { Ok(()) } else { Err("the generator's ring is full".into()) }
}

fn receive(rx: &mut dyn RxHalf) {
    let mut burst = Burst::new();
    while rx.rx_burst(&mut burst, 256, Instant::ZERO) > 0 {
        burst.clear();
    }
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}
