//! Runs of a stream: from standard input or files, through stages, to a sink.

use super::args::StreamArgs;
use super::ends::{self, To, ended};
use crate::exit::{Exit, Fault};
use anyhow::Context;
use pipe::run::{Jobs, RunError};
use pipe::stage::Chain;
use pipe::{BadInput, Format, Input, Output, run};

/// Moves frames from an open stream to standard output, or discards them if `quiet`.
pub(super) fn run_stream(input: Input, stages: &mut Chain, stream: &StreamArgs, quiet: bool) -> anyhow::Result<Exit> {
    let sink = |format| open_sink(!quiet, None, format, stream.form.tick());
    let (ran, undone) = from_stream(input, stages, stream, sink)?;
    stream_ended(ran, undone, stream)
}

pub(super) fn from_stream(
    mut input: Input,
    stages: &mut Chain,
    stream: &StreamArgs,
    sink: impl FnOnce(Format) -> anyhow::Result<ends::Sinks>,
) -> anyhow::Result<(Result<(), RunError>, bool)> {
    let form = &stream.form;
    let read = input.format().with_context(|| ends::name(stream))?;
    let format = form.output.unwrap_or(read);
    if read.is_text()
        && let Some(front) = stages.take_front()
    {
        input.select(front);
    }
    let mut sink = sink(format)?;
    let jobs = form.jobs.map_or(1, usize::from);
    let stop = dispatch::stop_requested;
    let ran = match (jobs, &mut sink) {
        (2.., ends::Sinks::Stream(output)) => {
            let how = Jobs { jobs, ordered: !form.unordered };
            run::run_spread(&mut input, stages, output, format, form.tick(), how, stop)
        }
        (_, sink) => run::run(&mut input, stages, sink.as_sink(), stop),
    };
    // The sink is ended after an error too, since a capture without frames still needs its header.
    let ran = sink.end().and(ran);
    let undone = ends::print_warnings(&input) | sink.tell();
    Ok((ran, undone))
}

/// Returns the exit code as [`ended`] does, and adds the name of the input to its errors.
pub(super) fn stream_ended(ran: Result<(), RunError>, undone: bool, stream: &StreamArgs) -> anyhow::Result<Exit> {
    match ran {
        Err(RunError::Input(why @ BadInput::LinkType(_))) => {
            Err(Fault::usage(format!("{}: {why}", ends::name(stream))))
        }
        Err(RunError::Input(why)) => Err(anyhow::Error::from(why).context(ends::name(stream))),
        ran => ended(ran, undone),
    }
}

/// Opens the sink of a row: the port of `to`, or standard output. If `to` is `None` and the stages
/// do not pass frames on, the sink discards its input.
pub(super) fn open_sink(passes: bool, to: Option<To>, format: Format, tick: u64) -> anyhow::Result<ends::Sinks> {
    match to {
        None if !passes => Ok(ends::Sinks::Stream(Output::new(std::io::sink(), format, tick))),
        to => ends::sink(to, format, tick),
    }
}
