//! Whole commands, as a shell runs them: the measured time includes the start and the end of the
//! programs.

use crate::subject::{Reading, Subject};
use anyhow::{Context, ensure};
use port::pcap::{Direction, Format, Record, Writer};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};
use wire::text::{self, MAX_LINE, SLACK};

/// Returns whether a program named `tool` is on the PATH.
pub fn is_installed(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(tool).is_file())
}

/// Returns the path of the program `linerate`. This is the running program, the program in the same
/// directory if a benchmark is running, or the one in the parent directory if a test is running.
///
/// # Errors
/// The program does not exist.
pub fn program() -> anyhow::Result<PathBuf> {
    let this = std::env::current_exe().context("cannot determine the path of this program")?;
    let beside = this.with_file_name("linerate");
    let above = this.parent().and_then(Path::parent).map(|dir| dir.join("linerate"));
    let found = match this.file_stem() {
        Some(name) if name == "linerate" => this,
        _ => above.filter(|above| cfg!(test) && above.is_file()).unwrap_or(beside),
    };
    ensure!(found.is_file(), "{} does not exist: run cargo build --release -p linerate-cli", found.display());
    Ok(found)
}

/// Files of frames, in /dev/shm if it exists, removed on drop. The frames are those of the dummy
/// device of the report ethpipe2013, which go to ten destinations in turn.
#[derive(Debug)]
pub struct Corpus {
    dir: PathBuf,
    /// Locked while the files are in use.
    _lock: File,
    /// Approximate size of each text file, in bytes.
    bytes: u64,
}

/// Prefix of the name of a corpus's directory.
const PREFIX: &str = "linerate-lab-";
/// Name of the file in the directory that is locked while the corpus is in use.
const LOCK: &str = "lock";
/// The kernel's FUSE device.
const FUSE: &str = "/dev/fuse";
/// Frame sizes with FCS, and the names of their files.
pub const SIZES: [(usize, &str); 2] = [(64, "f64.txt"), (1518, "f1518.txt")];
/// Number of addresses in `addresses.txt`, two of which occur in the corpus.
const ADDRESSES: usize = 5000;

impl Corpus {
    /// Writes the files: `f64.txt`, `f1518.txt`, `ip64.txt` (UDP), `ip64.pcap` (the frames of
    /// `ip64.txt`), `addresses.txt`.
    ///
    /// # Errors
    /// A file cannot be written, for example because memory is full.
    pub fn new(bytes: u64) -> anyhow::Result<Corpus> {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        remove_stale(&base);
        let name = format!("{}-{:x}", std::process::id(), crate::os::monotonic_ns());
        // Other processes remove unlocked directories that begin with PREFIX, so the directory gets
        // that name only after its file is locked.
        let (new, dir) = (base.join(format!("linerate-new-{name}")), base.join(format!("{PREFIX}{name}")));
        fs::create_dir(&new).with_context(|| new.display().to_string())?;
        let lock = File::create(new.join(LOCK)).with_context(|| new.display().to_string())?;
        lock.lock().context("cannot lock the files of frames")?;
        fs::rename(&new, &dir).with_context(|| dir.display().to_string())?;
        let corpus = Corpus { dir, _lock: lock, bytes };
        for (size, name) in SIZES {
            let frames: Vec<Vec<u8>> = port::pktgen::ROTATION.iter().map(|dst| dummy(dst.0, size - 4)).collect();
            corpus.lines(name, &frames)?;
        }
        let udp: Vec<Vec<u8>> = (0..10_u16).map(|at| udp(at, port::pktgen::ROTATION[usize::from(at)].0)).collect();
        corpus.lines("ip64.txt", &udp)?;
        corpus.capture("ip64.pcap", &udp)?;
        let mut addresses = corpus.create("addresses.txt")?;
        for at in 0..ADDRESSES as u64 {
            let address = match at {
                0 => "001111111111".to_owned(),
                1 => "FFFFFFFFFFFF".to_owned(),
                _ => format!("02{:010X}", at.wrapping_mul(0x9e_3779_b97f) & 0xff_ffff_ffff),
            };
            writeln!(addresses, "{address}")?;
        }
        addresses.flush()?;
        Ok(corpus)
    }

    /// Returns the directory of the files.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns a file's length in bytes.
    ///
    /// # Errors
    /// The file does not exist.
    pub fn len(&self, name: &str) -> anyhow::Result<u64> {
        Ok(fs::metadata(self.dir.join(name)).with_context(|| name.to_owned())?.len())
    }

    fn create(&self, name: &str) -> anyhow::Result<BufWriter<File>> {
        let path = self.dir.join(name);
        Ok(BufWriter::with_capacity(1 << 20, File::create(&path).with_context(|| path.display().to_string())?))
    }

    fn lines(&self, name: &str, frames: &[Vec<u8>]) -> anyhow::Result<()> {
        let (mut all, mut line) = (Vec::new(), vec![0; MAX_LINE + SLACK]);
        for frame in frames {
            let len = text::encode(frame, None, &mut line).context("cannot encode a frame as a line")?;
            all.extend_from_slice(&line[..len]);
        }
        let mut out = self.create(name)?;
        for _ in 0..self.bytes / all.len() as u64 {
            out.write_all(&all)?;
        }
        Ok(out.flush()?)
    }

    fn capture(&self, name: &str, frames: &[Vec<u8>]) -> anyhow::Result<()> {
        let mut out = Writer::new(self.create(name)?, Format::Pcap, 65_535)?;
        let each = self.bytes / 8 / 76 / frames.len() as u64;
        for round in 0..each {
            for frame in frames {
                let (ts_ns, orig_len) = (round * 672, frame.len() as u32);
                let direction = Direction::Unknown;
                out.write(&Record { ts_ns, orig_len, data: frame, direction, ..Record::default() })?;
            }
        }
        Ok(out.flush()?)
    }
}

impl Drop for Corpus {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Removes the directories that killed processes left in `base`. A directory is removed if its lock
/// is free, whichever user, container or process namespace created it.
fn remove_stale(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours && File::open(entry.path().join(LOCK)).is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = Command::new("fusermount3").args(["-u", "-q", "-z"]).arg(entry.path().join("mnt")).output();
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Builds the frame that the dummy device of the report ethpipe2013 sends to `dst`, padded with
/// zeros to `len` bytes.
pub(super) fn dummy(dst: [u8; 6], len: usize) -> Vec<u8> {
    let mut frame = dst.to_vec();
    frame.extend([0x00, 0x22, 0xcf, 0x63, 0x96, 0x7b, 0x88, 0x99, 0x23, 0x1e, 0x0a, 0xcf, 0xe5, 0x3a, 0xdf]);
    frame.extend([0x00, 0x22, 0xcf, 0x63, 0x96, 0x7b, 0x00, 0x20]);
    frame.resize(len - 1, 0);
    frame.push(0x20);
    frame
}

/// Builds ten UDP frames to ten stations, alternating with ten frames that are not IP.
pub(crate) fn mixed() -> Vec<Vec<u8>> {
    let stations = (0u16..).zip(port::pktgen::ROTATION.iter());
    stations.flat_map(|(at, dst)| [udp(at, dst.0), dummy(dst.0, 60)]).collect()
}

/// Builds a UDP frame with 18 bytes of payload: 64 bytes on the wire.
fn udp(at: u16, dst: [u8; 6]) -> Vec<u8> {
    let header = wire::ip4::Header::new([10, 0, 0, 2].into(), [10, 0, 0, 1].into(), wire::Proto::UDP, 26);
    let mut packet = [0; wire::ip4::HEADER_LEN];
    if let Some(header) = header {
        header.emit(&mut packet);
    }
    let ends = [(12_345 + at).to_be_bytes(), 54_321_u16.to_be_bytes(), [0, 26], [0, 0]].concat();
    let frame = [&dst[..], &[0x02, 0, 0, 0, 0, 1, 8, 0], &packet, &ends, &[0; 18]];
    frame.concat()
}

/// A command line for sh(1), run in the corpus's directory with `$LINERATE` set. An operation is a
/// byte or a frame; ticks are computed from wall time.
#[derive(Debug)]
pub struct Shell {
    id: String,
    script: String,
    ops: u64,
    corpus: Rc<Corpus>,
    program: PathBuf,
    tsc_hz: u64,
}

impl Shell {
    /// Creates a subject from `script`, which performs `ops` operations.
    ///
    /// # Errors
    /// The program `linerate` does not exist.
    pub fn new(id: &str, script: &str, ops: u64, corpus: &Rc<Corpus>, tsc_hz: u64) -> anyhow::Result<Shell> {
        let (id, script) = (id.to_owned(), script.to_owned());
        Ok(Shell { id, script, ops, corpus: Rc::clone(corpus), program: program()?, tsc_hz })
    }

    /// Runs the script once.
    ///
    /// # Errors
    /// sh cannot be started, or the script failed. The error contains the last line of the script's
    /// standard error.
    pub fn output(&self) -> anyhow::Result<Output> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(&self.script).current_dir(&self.corpus.dir).env("LINERATE", &self.program);
        // Not /dev/null: GNU grep stops at its first match if its output is discarded.
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = command.spawn().context("cannot start sh")?.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "the script of {} failed: {}: {}",
            self.id,
            output.status,
            said.lines().last().unwrap_or_default()
        );
        Ok(output)
    }
}

impl Subject for Shell {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let begun = Instant::now();
        self.output()?;
        let wall_ns = begun.elapsed().as_nanos() as u64;
        let ticks = (u128::from(wall_ns) * u128::from(self.tsc_hz) / 1_000_000_000) as u64;
        Ok(Reading { ops: self.ops, ticks, wall_ns, cpu_ns: wall_ns })
    }
}

/// A running `linerate mount` of some ports, unmounted on drop.
#[derive(Debug)]
pub struct Mounted {
    child: Child,
    /// File of the first port.
    pub file: PathBuf,
}

impl Mounted {
    /// Mounts the frame generator `port` under the name pg0, and waits until its file exists.
    ///
    /// # Errors
    /// `linerate mount` failed; the error contains its message: no FUSE, no permission to mount.
    pub fn new(corpus: &Corpus, port: &str) -> anyhow::Result<Mounted> {
        Mounted::of(corpus, &[(port, "pg0")])
    }

    /// Mounts `ports`, each with the name of its file, and waits until the files exist.
    ///
    /// # Errors
    /// `linerate mount` failed; the error contains its message: no FUSE, no permission to mount.
    pub fn of(corpus: &Corpus, ports: &[(&str, &str)]) -> anyhow::Result<Mounted> {
        ensure!(
            Path::new(FUSE).exists(),
            "{FUSE} does not exist: the kernel has no FUSE, or this container has no access to it"
        );
        let dir = corpus.dir.join("mnt");
        fs::create_dir_all(&dir)?;
        let mut command = Command::new(program()?);
        command.arg("mount").arg(&dir).args(ports.iter().map(|(port, _)| port));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let files: Vec<PathBuf> = ports.iter().map(|(_, name)| dir.join(name)).collect();
        let file = files.first().context("no port to mount")?.clone();
        let mut mounted = Mounted { child: command.spawn().context("cannot start linerate mount")?, file };
        let patience = Instant::now() + Duration::from_secs(5);
        while !files.iter().all(|file| file.exists()) {
            if let Some(status) = mounted.child.try_wait()? {
                let mut said = String::new();
                if let Some(stderr) = &mut mounted.child.stderr {
                    std::io::Read::read_to_string(stderr, &mut said)?;
                }
                anyhow::bail!("linerate mount failed: {status}: {}", said.trim());
            }
            ensure!(Instant::now() < patience, "linerate mount: no file after 5 s");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(mounted)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        // `linerate mount` unmounts on SIGTERM.
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let patience = Instant::now() + Duration::from_secs(5);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
