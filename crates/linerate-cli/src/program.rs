//! `run`: a program of the system on the sockets of a host configured by flags.

use crate::args::RunArgs;
use crate::exit::{Exit, Fault, notice};
use crate::hosts;
use crate::ready::Ready;
use crate::serve;
use anyhow::Context;
use node::config::MetricsConfig;
use node::run::Event;
use programs::RunError;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

/// Exit codes of shells for a program that was not found, and for one that cannot be started.
const NOT_FOUND: u8 = 127;
const NOT_STARTED: u8 = 126;

/// Runs `run --port SPEC ... -- PROGRAM ...`.
pub fn run(args: &RunArgs, words: &[OsString]) -> anyhow::Result<Exit> {
    // The flags of the program are not those of the host.
    let own = words.split(|word| word == "--").next().unwrap_or_default();
    let mut config = hosts::from_flags(&args.host, own).map_err(Fault::usage)?;
    serve::for_streams(&mut config, &args.host);
    let Some((program, arguments)) = args.program.split_first() else {
        return Err(Fault::usage("run: no program"));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let mut ready = Ready::new(args.host.ready_fd, 1)?;
    let mut metrics = args.metrics.bind(&MetricsConfig::default())?;
    let collector = metrics.collector.clone();
    let mut each = |event: &Event| match event {
        // Standard error is the program's, so only what is wrong is reported.
        Event::Running { .. } => {
            ready.note(event).unwrap_or_else(|why| notice(&format!("{why:#}")));
            metrics.serve();
        }
        other => hosts::print_event(other, &mut ready),
    };
    let ended = programs::command::run(&config, &mut command, collector.as_deref(), &mut each);
    drop(metrics);
    let (status, outcome) = match ended {
        Ok(ended) => ended,
        Err(RunError::Start { program, why }) => {
            notice(&format!("run: cannot start {program}: {why}"));
            let code = if why.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_STARTED };
            return Ok(Exit::Program(code));
        }
        Err(RunError::Build(node::run::BuildError::Config(why))) => return Err(Fault::usage(why)),
        Err(other) => return Err(anyhow::Error::from(other).context(config.name.clone())),
    };
    if args.audit {
        outcome.audit.lines().for_each(notice);
    }
    if outcome.imbalance != [0; 3] {
        notice(&format!("{}: the audit has frames unaccounted for: --audit prints it", outcome.name));
    }
    Ok(status.map_or(Exit::Failed, |status| Exit::Program(code(status))))
}

/// Returns the exit code of a shell for a program that has ended with `status`.
fn code(status: ExitStatus) -> u8 {
    let of_signal = || status.signal().map_or(1, |signal| 128 + signal);
    u8::try_from(status.code().unwrap_or_else(of_signal)).unwrap_or(1)
}
