//! Sources and sinks of frames: files, standard input and output, ports.

use super::args::{CatArgs, FormArgs, PipeArgs, PutArgs, StreamArgs};
use super::generate::GenArgs;
use crate::exit::{Exit, Fault, notice};
use anyhow::Context;
use buf::{Pool, PoolConfig, PoolLocks};
use pipe::generate::Gen;
use pipe::ports::{Arrivals, Counter, PortSink, PortSource, whole_frames};
use pipe::run::{self, RunError, Sink, Source};
use pipe::stage::Chain;
use pipe::{Format, Input, Output, cat, os};
use port::spec::Kind;
use port::{Env, Pairs, Port, PortCounts, Spec};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Command that is the source of a pipeline, other than standard input and files.
pub enum From {
    Cat(CatArgs),
    Gen(GenArgs),
}

/// Command that is the sink of a pipeline, other than standard output.
pub enum To {
    Put(PutArgs),
}

impl From {
    pub fn form(&self) -> &FormArgs {
        match self {
            From::Cat(args) => &args.form,
            From::Gen(args) => &args.form,
        }
    }

    pub fn open(self) -> anyhow::Result<Sources> {
        let args = match self {
            From::Cat(args) => args,
            From::Gen(args) if args.fixed => {
                return Err(Fault::usage("gen --static: not supported in a pipeline with '+'"));
            }
            From::Gen(args) => return Ok(Sources::Gen(args.open()?)),
        };
        let Some(name) = args.port.as_deref().filter(|name| is_port(name)) else {
            let files = args.port.iter().map(Into::into).collect();
            let stream = StreamArgs { files, form: args.form.clone() };
            let input = input(&stream)?;
            // `cat` writes lines of text by default, for any input format.
            let format = Format::Text;
            return Ok(Sources::Stream(Limited { input, left: args.count.unwrap_or(u64::MAX) }, format));
        };
        let (port, _) = open(name)?;
        let counts = port.counts.clone();
        let counter = Counter::new(args.form.tick());
        let source = PortSource::new(
            port.rx,
            Some(port.tx),
            counter,
            arrivals(args.stamp, &args.form),
            args.count,
            dispatch::stop_requested,
        );
        Ok(Sources::Port(Box::new(source), counts, is_text(name)))
    }
}

/// Selects the time that is recorded for received frames: the tick counter with `stamp` and for
/// formats with timestamps (f2, bin2), calendar time for captures and JSON, and none for other
/// formats.
fn arrivals(stamp: bool, form: &FormArgs) -> Arrivals {
    match form.output {
        Some(Format::Pcap | Format::Pcapng | Format::Jsonl) if !stamp => Arrivals::Wall,
        Some(Format::Stamped | Format::Bin2) => Arrivals::Stamped,
        _ if stamp => Arrivals::Stamped,
        _ => Arrivals::Unsaid,
    }
}

/// Runs `cat PORT` without copying the lines, if it is the only command and writes text to a pipe.
/// In all other cases returns `None` without running it.
pub fn cat_into_pipe(args: &CatArgs) -> anyhow::Result<Option<Exit>> {
    let Some(name) = args.port.as_deref().filter(|name| is_port(name)) else { return Ok(None) };
    let stamped = match (args.form.output, args.stamp) {
        (None | Some(Format::Text), stamp) => stamp,
        (Some(Format::Plain), false) => false,
        (Some(Format::Stamped), _) => true,
        _ => return Ok(None),
    };
    let out = os::stdout().context("standard output")?;
    if !os::is_pipe(out.as_fd()) {
        return Ok(None);
    }
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    os::widen_pipe(out.as_fd());
    let spec = Spec::parse(name).map_err(Fault::usage)?;
    let made_once = spec.port.kind == Kind::Pktgen && spec.port.switch("static");
    // Only this thread uses the pool.
    let (port, _) = open_with(name, PoolLocks::Owner)?;
    let counts = port.counts.clone();
    let (counter, arrivals, stop) = (Counter::new(args.form.tick()), Arrivals::Unsaid, dispatch::stop_requested);
    let count = args.count.filter(|_| !made_once);
    let mut source = PortSource::new(port.rx, Some(port.tx), counter, arrivals, count, stop);
    let ran = if made_once && !stamped {
        let most = args.count.unwrap_or(u64::MAX);
        cat::Static::new(&mut source, most).and_then(|lines| lines.write(&out, most, stop))
    } else {
        cat::lines(&mut source, &out, stamped)
    };
    let undone = Sources::Port(Box::new(source), counts, is_text(name)).tell();
    ended(ran, undone).map(Some)
}

/// Returns whether `name` is the name of a port, such as `tap:tap0`, rather than of a file. A file
/// name contains no colon, or begins with `/` or `.`.
fn is_port(name: &str) -> bool {
    name.contains(':') && !name.starts_with(['/', '.'])
}

/// Returns whether `name` is a port that reads lines of text.
fn is_text(name: &str) -> bool {
    Spec::parse(name).is_ok_and(|spec| spec.port.kind == Kind::Text)
}

/// Source of frames that has been opened.
pub enum Sources {
    Stream(Limited, Format),
    /// A port, its counters, and `true` if it reads lines of text.
    Port(Box<PortSource>, Arc<PortCounts>, bool),
    Gen(Gen),
}

impl Sources {
    pub fn as_source(&mut self) -> &mut dyn Source {
        match self {
            Sources::Stream(input, _) => input,
            Sources::Port(source, ..) => source.as_mut(),
            Sources::Gen(source) => source,
        }
    }

    pub fn format(&self) -> Format {
        match self {
            Sources::Stream(_, format) => *format,
            Sources::Port(..) | Sources::Gen(_) => Format::Text,
        }
    }

    /// Prints errors of the source. Returns whether frames are missing.
    pub fn tell(&self) -> bool {
        match self {
            Sources::Stream(limited, _) => print_warnings(&limited.input),
            Sources::Port(source, counts, is_text) => {
                source.warnings().iter().for_each(|warning| notice(warning));
                if source.refused() > 0 {
                    notice(&format!("{} frames skipped: shorter than 14 bytes", source.refused()));
                }
                let malformed = counts.rx.malformed.get();
                if malformed > 0 && source.warnings().is_empty() {
                    notice(&format!("{malformed} frames skipped: longer than the port's buffers, or malformed"));
                }
                // Among lines of text, an invalid line counts as a comment if at least one line is
                // a frame.
                let is_missing = malformed > 0 && !(*is_text && counts.rx.frames.get() > 0);
                source.refused() > 0 || is_missing
            }
            Sources::Gen(source) => {
                notice(&format!("{} frames, generated one by one", source.made()));
                false
            }
        }
    }
}

impl Source for Sources {
    fn read(&mut self, frames: &mut pipe::Frames) -> Result<bool, RunError> {
        self.as_source().read(frames)
    }
}

/// Input that ends after a number of frames.
pub struct Limited {
    input: Input,
    left: u64,
}

impl Source for Limited {
    fn read(&mut self, frames: &mut pipe::Frames) -> Result<bool, RunError> {
        if self.left == 0 || !self.input.read(frames)? {
            return Ok(false);
        }
        frames.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= frames.len() as u64;
        Ok(true)
    }
}

/// Sink of frames that has been opened.
pub enum Sinks {
    Stream(Output),
    Port(Box<PortSink>, #[expect(dead_code, reason = "the port's other half stays open")] Box<dyn port::RxHalf>),
}

impl Sinks {
    pub fn as_sink(&mut self) -> &mut dyn Sink {
        match self {
            Sinks::Stream(output) => output,
            Sinks::Port(sink, _) => sink.as_mut(),
        }
    }

    /// Sends the frames that the sink still holds, or writes a missing file header.
    pub fn end(&mut self) -> Result<(), RunError> {
        self.as_sink().end()
    }

    /// Prints the number of frames that were not sent. Returns whether there were any.
    pub fn tell(&self) -> bool {
        let Sinks::Port(sink, _) = self else { return false };
        let (_, too_long) = sink.counts();
        if too_long > 0 {
            notice(&format!("{too_long} frames not sent: longer than the port's maximum"));
        }
        // If the port is gone, the caller reports the reason.
        let counts = &sink.port_counts().tx;
        let errors = if sink.is_gone() { 0 } else { counts.errors.get() + counts.malformed.get() };
        if errors > 0 {
            notice(&format!("{errors} frames not sent: transmit errors of the port"));
        }
        too_long + errors > 0
    }
}

/// Opens the port of `to`; without `to`, standard output.
pub fn sink(to: Option<To>, format: Format, tick: u64) -> anyhow::Result<Sinks> {
    let Some(To::Put(args)) = to else {
        let out = os::stdout().context("standard output")?;
        os::widen_pipe(out.as_fd());
        return Ok(Sinks::Stream(Output::new(out, format, tick)));
    };
    // Both halves are used by this thread.
    let (port, pool) = open_with(&args.port, PoolLocks::Owner)?;
    let (sink, rx) = PortSink::new(port, pool, Counter::new(tick), !args.at_once, dispatch::stop_requested);
    Ok(Sinks::Port(Box::new(sink), rx))
}

/// Checks that no file in `targets` occurs twice, and that no target is also an input, one of
/// `files` or standard input, since creating the target would truncate that input.
///
/// # Errors
/// A usage error that names the file.
pub fn check_targets(targets: &[String], files: &[PathBuf]) -> anyhow::Result<()> {
    // A file that does not exist yet is identified by its directory and name.
    let of = |path: &Path| {
        let found = std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino(), OsString::new(), meta.is_file()));
        found.ok().or_else(|| {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let meta = std::fs::metadata(parent).ok()?;
            Some((meta.dev(), meta.ino(), path.file_name()?.to_owned(), true))
        })
    };
    let standard = PathBuf::from("/dev/stdin");
    let named = |path| if path == Path::new("-") { &standard } else { path };
    let files = if files.is_empty() { std::slice::from_ref(&standard) } else { files };
    let inputs: Vec<_> = files.iter().filter_map(|path| of(named(path))).collect();
    let mut seen = Vec::new();
    for name in targets.iter().filter(|name| *name != "-" && !is_port(name)) {
        // Devices and pipes may have several writers.
        let Some(file) = of(Path::new(name)).filter(|(.., is_regular)| *is_regular) else { continue };
        if inputs.contains(&file) {
            return Err(Fault::usage(format!("-t {name}: the file is also read as input: write to another file")));
        }
        if seen.contains(&file) {
            return Err(Fault::usage(format!(
                "-t {name}: the file is given twice: give a different file for each target"
            )));
        }
        seen.push(file);
    }
    Ok(())
}

/// Opens the port or creates the file `name`, as a target of `mirror` or `split`.
pub fn target(name: &str, tick: u64) -> anyhow::Result<Box<dyn Sink + Send>> {
    if is_port(name) {
        let (port, pool) = open(name)?;
        let (sink, rx) = PortSink::new(port, pool, Counter::new(tick), false, dispatch::stop_requested);
        return Ok(Box::new(Whole(sink, rx)));
    }
    let file = File::create(name).with_context(|| name.to_owned())?;
    Ok(Box::new(Output::new(file, Format::of_name(name).unwrap_or(Format::Text), tick)))
}

/// Port to which frames are sent; the receive half is only kept open.
struct Whole(PortSink, #[expect(dead_code, reason = "the port's other half stays open")] Box<dyn port::RxHalf>);

impl Sink for Whole {
    fn write(&mut self, frames: &pipe::Frames) -> Result<(), RunError> {
        self.0.write(frames)
    }

    fn end(&mut self) -> Result<(), RunError> {
        self.0.drain()
    }
}

/// File or pipe whose reads return end of file when a stop is requested, even while they wait for
/// data.
struct Stoppable {
    file: File,
    /// True if reads may block; false for regular files.
    waits: bool,
}

impl Stoppable {
    fn new(file: File) -> std::io::Result<Stoppable> {
        let waits = !file.metadata()?.is_file();
        Ok(Stoppable { file, waits })
    }
}

impl Read for Stoppable {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        // Interval between two checks for a stop request, which bounds the delay of a signal that
        // arrives just before the wait.
        const LOOK: Duration = Duration::from_millis(100);
        while !dispatch::stop_requested() {
            if self.waits && dispatch::wait_readable(&[self.file.as_fd()], Some(LOOK))? == [false] {
                continue;
            }
            match self.file.read(buf) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
        Ok(0)
    }
}

/// Opens standard input, or the files one after the other.
pub fn input(stream: &StreamArgs) -> anyhow::Result<Input> {
    let stdin = || {
        let file = port::os::stdin().context("standard input")?;
        os::widen_pipe(file.as_fd());
        anyhow::Ok(file)
    };
    let open = |path: &Path| match path.as_os_str() == "-" {
        true => stdin(),
        false => File::open(path).with_context(|| path.display().to_string()),
    };
    let (format, strict) = (stream.form.input, stream.form.strict);
    let (first, others) = match stream.files.split_first() {
        Some((first, others)) => (open(first)?, others),
        None => (stdin()?, &[][..]),
    };
    let mut all = Input::new(Stoppable::new(first)?, format, strict);
    for path in others {
        all.then(Stoppable::new(open(path)?)?);
    }
    Ok(all)
}

/// Returns the name of the input for messages: the first file or "standard input".
pub fn name(stream: &StreamArgs) -> String {
    match stream.files.as_slice() {
        [] => "standard input".to_owned(),
        [first, ..] => first.display().to_string(),
    }
}

/// Prints errors in lines or packets of `input`. Returns whether they are a failure. An invalid
/// packet of a capture is always one; invalid lines are one only if no line is a frame.
pub fn print_warnings(input: &Input) -> bool {
    let tally = input.tally();
    let is_capture = input.section().is_some();
    let (one, all) = if is_capture { ("packet", "packets") } else { ("line", "lines") };
    for (line, why) in &tally.reported {
        notice(&format!("{one} {line}, {why}"));
    }
    if tally.bad > 0 {
        notice(&format!("{} of {} {all} are not valid frames", tally.bad, tally.lines));
    }
    tally.bad > 0 && (is_capture || tally.bad == tally.lines)
}

/// Creates the buffer pool for the port `spec`. Buffers of a port that reads a file fit a frame of
/// any length; all other buffers fit frames of the device's MTU.
fn pool(spec: &Spec, locks: PoolLocks) -> anyhow::Result<Pool> {
    let mut config = match spec.port.kind {
        Kind::Pcap | Kind::Text => {
            PoolConfig { locks, data: wire::text::MAX_FRAME, buffers: 1024, ..PoolConfig::default() }
        }
        _ => PoolConfig { locks, ..PoolConfig::default() },
    };
    config.stride = port::stride_for([spec]);
    port::fit_pool(&mut config, [spec]);
    Ok(Pool::new(&config)?)
}

/// Opens the port `name` for whole frames, without offloads, and creates its buffer pool. Different
/// threads may own the two halves of the port.
pub fn open(name: &str) -> anyhow::Result<(Port, Pool)> {
    open_with(name, PoolLocks::Light)
}

fn open_with(name: &str, locks: PoolLocks) -> anyhow::Result<(Port, Pool)> {
    open_spec(Spec::parse(name).map_err(Fault::usage)?, locks)
}

/// Opens a port as [`open`] does, from a parsed specification. `locks` must be [`PoolLocks::Light`]
/// if several threads use the pool.
pub fn open_spec(mut spec: Spec, locks: PoolLocks) -> anyhow::Result<(Port, Pool)> {
    let name = spec.to_string();
    whole_frames(&mut spec);
    let pool = pool(&spec, locks)?;
    let pairs = Pairs::new();
    let mac = wire::Mac([0x02, 0, 0, 0, 0, 1]);
    let env = Env { pool: pool.clone(), pairs: &pairs, mac, unit: 0 };
    let port = port::open(&spec, &env).map_err(|why| anyhow::anyhow!("port {}", port::port_message(&name, &why)))?;
    Ok((port, pool))
}

/// Runs `pipe PORT`: sends the frames of standard input through the port, and writes received
/// frames to standard output.
pub fn both_ways(args: &PipeArgs) -> anyhow::Result<Exit> {
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    let form = &args.form;
    let (port, pool) = open(&args.port)?;
    let counter = Counter::new(form.tick());
    let (mut sink, rx) = PortSink::new(port, pool, counter.clone(), !args.at_once, dispatch::stop_requested);
    let half = args.half;
    let stream = StreamArgs { form: form.clone(), ..StreamArgs::default() };
    let mut input = input(&stream)?;
    // A thread blocked in a read cannot be stopped, so it is not joined.
    dispatch::spawn_worker("pipe-in", None, move |_| {
        let ran = run::run(&mut input, &mut Chain(Vec::new()), &mut sink, dispatch::stop_requested);
        let ran = ran.and_then(|()| sink.drain());
        print_warnings(&input);
        if let Err(why) = &ran
            && !why.is_closed_pipe()
        {
            notice(&why.to_string());
        }
        if ran.is_err() || !half {
            dispatch::request_stop();
        } else {
            // The port stays open to receive frames.
            std::mem::forget(sink);
        }
    })?;
    let mut source = PortSource::new(rx, None, counter, arrivals(args.stamp, form), None, dispatch::stop_requested);
    let out = os::stdout().context("standard output")?;
    os::widen_pipe(out.as_fd());
    let mut output = Output::new(out, form.output.unwrap_or(Format::Text), form.tick());
    let ran = run::run(&mut source, &mut Chain(Vec::new()), &mut output, dispatch::stop_requested);
    source.warnings().iter().for_each(|warning| notice(warning));
    match ran {
        Err(error) if !error.is_closed_pipe() => Err(error.into()),
        _ => Ok(Exit::Fine),
    }
}

/// Returns the exit code for the result `ran`. `undone` is set if frames are missing even though no
/// error ended the pipeline.
pub fn ended(ran: Result<(), RunError>, undone: bool) -> anyhow::Result<Exit> {
    match ran {
        Ok(()) => Ok(if undone { Exit::Failed } else { Exit::Fine }),
        // The reader closed the pipe, as in `linerate ... | head -1`.
        Err(error) if error.is_closed_pipe() => Ok(if undone { Exit::Failed } else { Exit::Fine }),
        Err(
            error @ (RunError::Form(_)
            | RunError::Stage(pipe::stage::StageError::LinkType(_))
            | RunError::Input(pipe::BadInput::LinkType(_))),
        ) => Err(Fault::usage(error)),
        Err(error) => Err(error.into()),
    }
}
