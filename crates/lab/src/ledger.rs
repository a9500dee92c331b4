//! Measures the cost of UDP `sendto` and `recvfrom` by processing stage with the cost ledger, the
//! stack's own accounting of ticks. Also measures the total around the same trial.
//!
//! The ledger does not change the code path: a trial with the ledger on executes the same
//! instructions plus the ledger's own counter readings. [`stats::Statement`] subtracts these
//! readings and reports them. A trial with the ledger off gives a second total, which shows the
//! effect of the readings on the work between them: a processor overlaps two stages less when a
//! reading lies between them.
//!
//! The figures of a table come from a single trial, the one with the median total of [`TRIALS`]
//! trials. They are not medians of each stage.

use crate::result::{Cell, Sheet};
use crate::rigs::PAYLOAD;
use crate::run::{Host as _, Machine};
use crate::study::Study;
use crate::subject::{Reading, measure};
use anyhow::{anyhow, ensure};
use clock::{Clock, Strategy, tsc};
use inet::Stack;
use inet::iface::IfaceAddr;
use lock::Up;
use node::Host;
use node::config::{HostConfig, IfaceConfig};
use port::Pairs;
use rung::Settings;
use socket::{Fd, Opt};
use stats::{Probe, Statement};
use std::net::Ipv4Addr;

/// Number of trials of a rig; odd, so that there is a median trial.
const TRIALS: usize = 21;
/// Number of socket calls in a trial.
const CALLS: u64 = 20_000;
/// Maximum number of tries of a trial until the core has its usual speed at the end of the trial.
const TRIES: usize = 5;
/// Maximum share of the total that may lie outside all stages without a note in the table.
const SLACK: f64 = 0.05;
/// Maximum number of frames that a receiving host takes from its port per burst.
const BURST: u64 = 32;

/// Cost statement of one rig.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// Name of the socket call.
    pub call: &'static str,
    /// Number of socket calls in the trial.
    pub calls: u64,
    /// Ticks by stage, the cost of the ledger's own counter readings (probes), the unexplained
    /// remainder, and the total measured around the trial.
    pub statement: Statement,
    /// Ticks of one counter reading including its bookkeeping: the mean of a measurement before
    /// the trial and one after it.
    pub probe: f64,
    /// Ticks per call with the ledger off: the median of as many trials as with the ledger on.
    pub untimed: f64,
}

/// A rig that makes a given number of socket calls on one host.
trait Rig {
    fn stack(&self) -> &Stack<Up>;
    fn run(&mut self, calls: u64) -> anyhow::Result<()>;

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let mut done = Ok(());
        let reading = measure(CALLS, || done = self.run(CALLS));
        done.map(|()| reading)
    }

    /// Repeats a trial until the core has its usual speed at the end of it, at most [`TRIES`]
    /// times. Returns the reading of the last trial. The runner of a study also rejects trials on a
    /// slow core.
    fn warmed_up(&mut self, machine: &mut Machine) -> anyhow::Result<Reading> {
        let mut tries = 0;
        loop {
            machine.warm_up();
            let reading = self.trial()?;
            tries += 1;
            if tries == TRIES || !machine.is_slow() {
                return Ok(reading);
            }
        }
    }

    /// Measures the costs of `call`. `core` is the core to which the caller has pinned the thread,
    /// if any.
    fn account(&mut self, call: &'static str, core: Option<usize>) -> anyhow::Result<Account> {
        let machine = &mut Machine::new(core);
        self.trial()?; // warm-up: fills the caches and the header cache
        let mut off = (0..TRIALS).map(|_| Ok(self.warmed_up(machine)?.ticks)).collect::<anyhow::Result<Vec<u64>>>()?;
        self.stack().set_ledger(true);
        let (mut on, mut earlier) = (Vec::new(), Probe::measure(tsc::ticks));
        for _ in 0..TRIALS {
            machine.warm_up();
            let before = self.stack().ledger();
            let total = self.trial()?.ticks;
            let later = Probe::measure(tsc::ticks);
            let probe = Probe((earlier.0 + later.0) / 2.0);
            on.push((self.stack().ledger().since(&before).statement(probe, total), probe.0));
            earlier = later;
        }
        self.stack().set_ledger(false);
        off.sort_unstable();
        on.sort_by_key(|(statement, _)| statement.total);
        let (statement, probe) = on.swap_remove(TRIALS / 2);
        Ok(Account { call, calls: CALLS, statement, probe, untimed: off[TRIALS / 2] as f64 / CALLS as f64 })
    }
}

struct Send(rung::Rig<Up>);

impl Rig for Send {
    fn stack(&self) -> &Stack<Up> {
        self.0.stack()
    }

    fn run(&mut self, calls: u64) -> anyhow::Result<()> {
        let sent = self.0.send(calls, &PAYLOAD);
        ensure!(sent == calls, "{sent} of {calls} datagrams sent");
        Ok(())
    }
}

struct Receive {
    host: Host<Up>,
    fd: Fd,
}

impl Receive {
    fn new() -> anyhow::Result<Receive> {
        let config = HostConfig { name: "ledger".to_owned(), locks: "up".to_owned(), ..HostConfig::default() };
        let mut host: Host<Up> = Host::new(&config, Clock::live(Strategy::TscScaled))?;
        host.set_burst(BURST as usize);
        let addr = IfaceAddr { addr: Ipv4Addr::new(1, 0, 0, 1), len: 8 };
        let spec = "pktgen(id=off,udp_csum=on):pg0";
        let iface = IfaceConfig { addresses: vec![addr], rxcsum: Some(false), ..IfaceConfig::on(spec) };
        host.add_port(&iface, &Pairs::new())?;
        let calls = host.calls();
        let fd = calls.socket()?;
        calls.bind(fd, "1.0.0.1:54321".parse()?)?;
        calls.set_option(fd, Opt::NonBlocking(true))?;
        Ok(Receive { host, fd })
    }
}

impl Rig for Receive {
    fn stack(&self) -> &Stack<Up> {
        &self.host.stack
    }

    fn run(&mut self, calls: u64) -> anyhow::Result<()> {
        let (mut got, mut into) = (0, [0u8; 2048]);
        while got < calls {
            let step = self.host.step();
            let calls = self.host.calls_at(step.now);
            for _ in 0..step.frames {
                std::hint::black_box(calls.recv_from(self.fd, &mut into))?;
                std::hint::black_box(&into);
            }
            got += step.frames as u64;
        }
        Ok(())
    }
}

/// Measures `sendto` of 22 bytes into a sink, on one thread, which the caller has pinned to `core`,
/// if given. `settings` has the syntax of [`rung::Settings`].
///
/// # Errors
/// Invalid settings, no memory, or a failed call.
pub fn send(settings: &str, core: Option<usize>) -> anyhow::Result<Account> {
    let settings: Settings = settings.parse()?;
    ensure!(
        settings.locks == rung::LockKind::Up,
        "locks={:?}: the ledger's rig has one thread, expected locks=up",
        settings.locks
    );
    Send(rung::Rig::new(&settings).map_err(|why| anyhow!(why))?).account("sendto", core)
}

/// Measures `recvfrom`, from the port's burst of 32 to the copied payload, on one thread, which the
/// caller has pinned to `core`, if given.
///
/// # Errors
/// Memory cannot be allocated, or a socket call fails.
pub fn receive(core: Option<usize>) -> anyhow::Result<Account> {
    Receive::new()?.account("recvfrom", core)
}

/// Adds a table of the cost by stage for `sendto` and `recvfrom` to the study, measured on its
/// core; without a table, a note states the reason.
pub(crate) fn sheets(study: &mut Study<'_>) {
    let pinned = study.options().cpu.and_then(|core| Some((core, dispatch::pinned_to_core(core).ok()?)));
    let core = pinned.as_ref().map(|(core, _)| *core);
    for (call, account) in [("sendto", send("locks=up", core)), ("recvfrom", receive(core))] {
        match account {
            Ok(account) => study.beside().sheets.push(account.sheet()),
            Err(why) => study.note(format!("{call}: no cost by stage: {why:#}")),
        }
    }
}

impl Account {
    /// Returns the ticks per call.
    fn each(&self, ticks: i64) -> f64 {
        ticks as f64 / self.calls as f64
    }

    /// Returns the table: a row for each stage, the probes, the remainder, the total, and the total
    /// with the ledger off.
    pub fn sheet(&self) -> Sheet {
        let Statement { rows, readings, probes, total, unexplained } = &self.statement;
        let line = |name: &str, ticks: i64, note: String| -> Vec<Cell> {
            let share = 100.0 * ticks as f64 / (*total).max(1) as f64;
            vec![name.into(), self.each(ticks).into(), share.into(), note.into()]
        };
        let stage = |row: &stats::Row| line(row.stage.word(), row.ticks as i64, row.stage.sentence().to_owned());
        let mut lines: Vec<Vec<Cell>> = rows.iter().map(stage).collect();
        let each = format!(
            "{:.2} per call at {:.1} ticks, measured in addition to the trial and subtracted from the rows",
            *readings as f64 / self.calls as f64,
            self.probe
        );
        lines.push(line("readings of the counter", *probes as i64, each));
        let mut rest = "the caller's loop, and code outside all stages".to_owned();
        if self.statement.unexplained_share().abs() > SLACK {
            rest += "; MORE THAN 5 %: the stages do not explain this total";
        }
        lines.push(line("unexplained", *unexplained, rest));
        lines.push(line("total, ledger on", *total as i64, "measured around the same trial".to_owned()));
        lines.push(vec![
            "total, ledger off".into(),
            self.untimed.into(),
            (100.0 * self.untimed / self.each(*total as i64)).into(),
            "the same instructions without readings".into(),
        ]);
        let title = format!("{}: ticks per call by stage, {} calls", self.call, self.calls);
        Sheet { title, head: ["stage", "ticks", "percent", ""].map(str::to_owned).to_vec(), rows: lines }
    }
}

#[cfg(test)]
mod tests;
