//! The child's side: executes `run FRAMES CORE`, `costs FRAMES CORE`, `idle WINDOWS MS CORE` and
//! `wake FRAMES PAUSE_US CORE`, and ends at its socket's end of file.

use super::devices::Way;
use super::ends::Ends;
use super::idle;
use super::loops::{self, Bridge, Loop};
use super::{Run, Who};
use crate::child::{self, numbers};
use crate::subject::{Reading, measure};
use anyhow::{Context, bail, ensure};
use buf::PoolLocks;
use node::switch::Switch;
use std::time::{Duration, Instant};

/// Kind of the child; its role is the name of a forwarder.
pub(crate) const KIND: &str = "forward";

/// Time limit for forwarded frames to reach the far device.
const PATIENCE: Duration = Duration::from_millis(500);
/// Time limit for the kernel's bridge to start forwarding. It starts when it is notified that its
/// devices have a carrier, which takes up to a second.
const BEGINNING: Duration = Duration::from_secs(5);

/// Maximum number of frames that the kernel adds to a round, such as the multicast queries of its
/// bridge.
const STRAYS: u64 = 2;

pub(crate) fn serve(role: &str) -> anyhow::Result<()> {
    child::serve(|| Ok((Inner::new(role)?, role.to_owned())), Inner::run_command).map(|_| ())
}

enum Inner {
    Bridge(Box<Bridge>),
    Idle(Box<(Switch, Ends)>),
}

impl Inner {
    fn new(role: &str) -> anyhow::Result<Inner> {
        let who = Who::ALL.into_iter().find(|who| who.name() == role);
        let who = who.with_context(|| format!("unknown child role '{role}'"))?;
        if who == Who::Idle {
            // Each command runs on a thread of its own, so the pool has no owner thread.
            return Ok(Inner::Idle(Box::new((loops::tap_switch(PoolLocks::Light)?, Ends::taps()?))));
        }
        let mut bridge = Bridge::new(who)?;
        bridge.begin()?;
        let rounds = 2 * 1024usize.div_ceil(bridge.round);
        bridge.run((rounds * bridge.round) as u64).context("cannot forward the first frames")?;
        Ok(Inner::Bridge(Box::new(bridge)))
    }

    fn run_command(&mut self, line: &str) -> anyhow::Result<String> {
        let (word, rest) = line.split_once(' ').with_context(|| format!("invalid command {line:?}"))?;
        match (self, word) {
            (Inner::Bridge(bridge), "run") => {
                let [frames, core] = numbers(rest)?;
                dispatch::pin_to_core(core as usize).with_context(|| format!("cannot pin to core {core}"))?;
                let run = bridge.run(frames)?;
                let all = [&[run.frames][..], &run.sent, &run.passed, &run.bridge].concat();
                Ok(words(&all))
            }
            (Inner::Bridge(bridge), "costs") => {
                let [frames, core] = numbers(rest)?;
                dispatch::pin_to_core(core as usize).with_context(|| format!("cannot pin to core {core}"))?;
                bridge.costs(frames)
            }
            (Inner::Idle(idle), "idle") => {
                let [windows, ms, core] = numbers(rest)?;
                Ok(words(&idle::share(&idle.0, windows, ms, core as usize)?))
            }
            (Inner::Idle(idle), "wake") => {
                let [frames, pause, core] = numbers(rest)?;
                let (switch, ends) = idle.as_mut();
                Ok(words(&idle::wake(switch, ends, frames, pause, core as usize)?))
            }
            _ => bail!("unknown command {line:?}"),
        }
    }
}

fn words(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
}

impl Bridge {
    /// Waits until the kernel's bridge forwards. The bridge drops frames until it is notified, some
    /// time after its devices are up, that they have a carrier.
    fn begin(&mut self) -> anyhow::Result<()> {
        if !matches!(self.passes, Loop::Kernel) {
            return Ok(());
        }
        let since = Instant::now();
        for way in &mut self.ways {
            let before = way.arrived()?;
            while way.arrived()? == before {
                ensure!(since.elapsed() < BEGINNING, "{}: the kernel's bridge forwards no frames", way.sink());
                way.send(1)?;
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Ok(())
    }

    /// Runs rounds in alternating directions until `frames` frames have arrived.
    fn run(&mut self, frames: u64) -> anyhow::Result<Run> {
        let [ticks, sampled] = self.passes.average();
        let mut all = Run { frames: 0, sent: [0; 3], passed: [0; 3], bridge: [0; 2] };
        for way in (0..2).cycle() {
            if all.frames >= frames {
                break;
            }
            self.round(way, &mut all)?;
        }
        self.passes.check()?;
        let [after, of] = self.passes.average();
        all.bridge = [after - ticks, of - sampled];
        Ok(all)
    }

    /// Returns the cost of each stage over `frames` frames as JSON. The cost ledger is on during
    /// these frames only.
    fn costs(&mut self, frames: u64) -> anyhow::Result<String> {
        let Loop::Switch(switch) = &self.passes else { bail!("cost by stage is available for our switch only") };
        switch.set_ledger(true);
        self.run(frames)?;
        let Loop::Switch(switch) = &self.passes else { bail!("cost by stage is available for our switch only") };
        switch.set_ledger(false);
        let said = commands::bridge::run(switch, &["show", "ledger"], true).map_err(|why| anyhow::anyhow!("{why}"))?;
        Ok(said.trim_end().to_owned())
    }

    fn round(&mut self, way: usize, all: &mut Run) -> anyhow::Result<()> {
        let (way, count) = (&mut self.ways[way], self.round as u64);
        let before = way.arrived()?;
        let sent = way.send(self.round)?;
        if self.settle_ms > 0 {
            std::thread::sleep(Duration::from_millis(self.settle_ms));
        }
        let mut passed = 0;
        let passing = measure(count, || passed = self.passes.pass(count));
        ensure!(passed == count, "{passed} of {count} frames were received");
        let mut arrived = way.arrived()? - before;
        if arrived < count {
            // Rarely, one of the kernel's own threads processes some frames later. The wait for
            // these frames is included in the forwarding time.
            add(&mut all.passed, &measure(0, || self.passes.wait(way, before + count)));
            arrived = way.arrived()? - before;
        }
        ensure!((count..=count + STRAYS).contains(&arrived), "{arrived} of {count} frames arrived");
        all.frames += count;
        add(&mut all.sent, &sent);
        add(&mut all.passed, &passing);
        Ok(())
    }
}

impl Loop {
    /// Runs turns of the loop until the far device has received `arrived` frames.
    fn wait(&mut self, way: &Way, arrived: u64) {
        let since = Instant::now();
        while way.arrived().is_ok_and(|now| now < arrived) && since.elapsed() < PATIENCE {
            self.turn();
        }
    }
}

fn add(sum: &mut [u64; 3], reading: &Reading) {
    let parts = [reading.ticks, reading.wall_ns, reading.cpu_ns];
    sum.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
}
