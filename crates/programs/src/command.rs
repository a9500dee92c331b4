//! Runs a program of the system on the sockets of a host ([`door`]).

use crate::run::{PATIENCE, RunError, runner, stay_on_core};
use clock::{Clock, Duration, Instant};
use door::Door;
use lock::{Heavy, Light, Locks, Up};
use node::config::HostConfig;
use node::figures::Collector;
use node::run::{Event, Outcome};
use port::Pairs;
use std::os::fd::AsFd;
use std::process::{Command, ExitStatus};
use std::rc::Rc;

/// Time within which the program must end after SIGTERM.
const FAREWELL: Duration = Duration::from_secs(5);

/// Runs `command` on a host created from `config`, on the calling thread: its TCP sockets, and
/// those of its children, are sockets of the host. Ends when the last of these processes has ended.
/// On [`dispatch::request_stop`], the program gets SIGTERM, and must end within five seconds.
///
/// Returns the exit status of the program (`None` if it did not end), and the audit of the host.
///
/// # Errors
/// [`RunError`].
pub fn run(
    config: &HostConfig,
    command: &mut Command,
    collector: Option<&Collector>,
    each: &mut dyn FnMut(&Event),
) -> Result<(Option<ExitStatus>, Outcome), RunError> {
    stay_on_core(config, each);
    match config.locks.as_str() {
        "light" => live::<Light>(config, command, collector, each),
        "heavy" => live::<Heavy>(config, command, collector, each),
        _ => live::<Up>(config, command, collector, each),
    }
}

fn live<L: Locks>(
    config: &HostConfig,
    command: &mut Command,
    collector: Option<&Collector>,
    each: &mut dyn FnMut(&Event),
) -> Result<(Option<ExitStatus>, Outcome), RunError> {
    let pairs = Pairs::new();
    let host = node::run::build::<L>(config, &pairs, Clock::live(config.clock))?;
    collector.map_or(Ok(()), |collector| host.report_to(collector)).map_err(RunError::Figures)?;
    let (mut runner, mut programs) = runner(config, &host)?;
    let notice = &mut |text| each(&Event::Notice(text));
    let patience = std::time::Duration::from_millis(10);
    let poll = || runner.round_with(&host, &pairs, &mut |_| (), patience, &[], || 0);
    if let Err(why) = node::run::await_addresses(&host, notice, poll) {
        each(&Event::Notice(why.to_string()));
    }
    let calls = Rc::new(host.calls());
    let program = command.get_program().to_string_lossy().into_owned();
    let named = |why| RunError::Start { program: program.clone(), why };
    let mut door = Door::start(&calls, command).map_err(named)?;
    let events = door.fd().try_clone_to_owned().map_err(named)?;
    each(&Event::Running { name: config.name.clone(), control: config.control.clone() });
    let mut until = Instant::NEVER;
    while !door.is_over() && host.clock.now() < until {
        if dispatch::stop_requested() && until == Instant::NEVER {
            until = host.clock.now().after(FAREWELL);
            door.terminate();
        }
        let patience = programs.patience(|| host.clock.now(), PATIENCE);
        let turn = || {
            calls.set_now(host.clock.now());
            door.turn(calls.cx().now) + programs.turn(&host)
        };
        runner.round_with(&host, &pairs, &mut |text| each(&Event::Notice(text)), patience, &[events.as_fd()], turn);
        programs.report(&mut |line| each(&Event::Notice(format!("{}: {line}", config.name))));
    }
    programs.end();
    let lost_ports = runner.is_over(host.clock.now()) && runner.has_lost_a_port();
    let status = door.end();
    drop((runner, programs));
    node::run::farewell(&host, || false, &mut |text| each(&Event::Notice(text)));
    Ok((status, Outcome { lost_ports, ..node::run::end(&host) }))
}
