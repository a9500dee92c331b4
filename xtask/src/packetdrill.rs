//! `cargo xtask packetdrill`: runs third-party scripts with the original packetdrill against our
//! TCP.
//!
//! Builds the library, then runs every script below a directory. Each script has a time limit and,
//! where permitted, runs in a separate network namespace with a `tun0` for the shell commands in
//! scripts. The command prints a line for each script, and the number of scripts that passed. It
//! stores no third-party files.

use crate::cargo::{cargo, succeed, target_dir};
use anyhow::{Context, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Default time limit of a script, in seconds.
const SECONDS: u64 = 60;
/// Maximum number of characters printed of a script's output.
const SHOWN: usize = 300;
/// Commands run in the namespace to prepare it for the scripts.
const PREPARE: &str = "ip link set lo up; ip tuntap add dev tun0 mode tun; ip link set tun0 up; exec \"$@\"";

/// IP versions, as in packetdrill's option `--ip_version`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    V4,
    Mapped,
    V6,
}

impl Version {
    const ALL: [Version; 3] = [Version::V4, Version::Mapped, Version::V6];

    fn name(self) -> &'static str {
        match self {
            Version::V4 => "ipv4",
            Version::Mapped => "ipv4-mapped-ipv6",
            Version::V6 => "ipv6",
        }
    }

    /// Returns packetdrill's arguments: those that its own `run_all.py` passes, and an ICMPv6 code
    /// that `run_all.py` does not define.
    fn args(self) -> Vec<&'static str> {
        let (mtu, addresses, defined) = match self {
            Version::V4 | Version::Mapped => (
                "--mtu=1500",
                ["--local_ip=192.168.0.1", "--gateway_ip=192.168.0.1", "--remote_ip=192.0.2.1"],
                ["CODE=host_unreachable", "TFO_COOKIE=3021b9d889017eeb"],
            ),
            Version::V6 => (
                "--mtu=1520",
                [
                    "--local_ip=fd3d:0a0b:17d6::1",
                    "--gateway_ip=fd3d:0a0b:17d6:8888::1",
                    "--remote_ip=fd3d:fa7b:d17d::1",
                ],
                ["CODE=address_unreachable", "TFO_COOKIE=c1d1e9742a47a9bc"],
            ),
        };
        let control = match self {
            Version::V4 => ["CMSG_LEVEL_IP=SOL_IP", "CMSG_TYPE_RECVERR=IP_RECVERR"],
            Version::Mapped | Version::V6 => ["CMSG_LEVEL_IP=SOL_IPV6", "CMSG_TYPE_RECVERR=IPV6_RECVERR"],
        };
        let defined = defined.into_iter().chain(control).flat_map(|symbol| ["-D", symbol]);
        [mtu, "--netmask_ip=255.255.0.0"].into_iter().chain(addresses).chain(defined).collect()
    }

    /// Returns the library's flags for this version. Over IPv6, the MTU is set so that segments
    /// have the same length as over IPv4.
    fn flags(self) -> &'static str {
        if self == Version::V6 { ",mtu=1520" } else { "" }
    }

    /// Returns whether a script is for this version. If a script is for one version only, its name
    /// ends with the version.
    fn is_for(self, script: &Path) -> bool {
        let name = script.to_string_lossy();
        let other = if self == Version::V6 { "v4.pkt" } else { "v6.pkt" };
        !name.ends_with(other)
    }
}

/// Parsed command line of `packetdrill`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    tree: PathBuf,
    bin: PathBuf,
    flags: String,
    seconds: u64,
    /// IP versions to run each script with; if empty, packetdrill chooses.
    versions: Vec<Version>,
    /// Text that must occur in the path of a script for it to be run; if empty, all scripts are
    /// run.
    only: String,
    /// Additional arguments of packetdrill.
    more: Vec<String>,
}

impl Wanted {
    pub fn parse(words: &[String]) -> anyhow::Result<Wanted> {
        let (mut tree, mut bin) = (None, PathBuf::from("packetdrill"));
        let mut versions = Vec::new();
        let (mut flags, mut seconds, mut only) = ("profile=linux".to_owned(), SECONDS, String::new());
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                break;
            }
            let value = words.next().with_context(|| format!("{word} needs a value"))?;
            match word.as_str() {
                "--tree" => tree = Some(PathBuf::from(value)),
                "--bin" => bin = PathBuf::from(value),
                "--flags" => flags = value.clone(),
                "--only" => only = value.clone(),
                "--ip-version" if value == "each" => versions = Version::ALL.to_vec(),
                "--ip-version" => {
                    let found = Version::ALL.into_iter().find(|version| version.name() == value);
                    versions = vec![found.with_context(|| {
                        format!("unknown IP version '{value}': expected ipv4, ipv4-mapped-ipv6, ipv6 or each")
                    })?];
                }
                "--seconds" => {
                    seconds = value.parse().with_context(|| format!("--seconds: '{value}' is not a number"))?;
                }
                other => {
                    bail!(
                        "unknown option '{other}': expected --tree, --bin, --flags, --ip-version, --only or --seconds"
                    )
                }
            }
        }
        let tree = tree.context("packetdrill needs --tree DIR, the directory of the scripts")?;
        Ok(Wanted { tree, bin, flags, seconds, versions, only, more: words.cloned().collect() })
    }
}

/// Result of a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Passed,
    Failed,
    Hung,
}

pub fn command(root: &Path, wanted: &Wanted) -> anyhow::Result<ExitCode> {
    succeed(cargo(root).args(["build", "--release", "-p", "linerate-packetdrill"]))?;
    let library = target_dir(root)?.join("release/liblinerate_packetdrill.so");
    let bin = if wanted.bin.components().count() > 1 { wanted.bin.canonicalize()? } else { wanted.bin.clone() };
    let mut scripts = Vec::new();
    find(&wanted.tree, &mut scripts)?;
    scripts.retain(|path| path.to_string_lossy().contains(&wanted.only));
    scripts.sort();
    let apart = Command::new("unshare").args(["-n", "true"]).stderr(Stdio::null()).status();
    let apart = apart.is_ok_and(|status| status.success());
    if !apart {
        println!("no network namespaces: shell commands of scripts change the settings of this machine, or fail");
    }
    let versions: Vec<_> = match wanted.versions.as_slice() {
        [] => vec![None],
        some => some.iter().copied().map(Some).collect(),
    };
    let mut all_pass = true;
    for version in versions {
        let mut ends = Vec::new();
        for script in scripts.iter().filter(|script| version.is_none_or(|version| version.is_for(script))) {
            let (end, printed) = run(script, &bin, &library, apart, wanted, version)?;
            let name = script.strip_prefix(&wanted.tree).unwrap_or(script).display();
            match end {
                End::Passed => println!("ok    {name}"),
                End::Failed => println!("FAIL  {name}: {printed}"),
                End::Hung => println!("HUNG  {name}: not finished after {} s: {printed}", wanted.seconds),
            }
            ends.push(end);
        }
        let count = |which| ends.iter().filter(|end| **end == which).count();
        let of = version.map_or("scripts", Version::name);
        println!("{of}: {} of {} pass, {} hang", count(End::Passed), ends.len(), count(End::Hung));
        all_pass &= count(End::Passed) == ends.len();
    }
    Ok(if all_pass { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Finds the scripts below `place`.
fn find(place: &Path, into: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if place.is_file() {
        into.push(place.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(place).with_context(|| format!("cannot read {}", place.display()))? {
        let path = entry?.path();
        if path.is_dir() && !path.is_symlink() {
            find(&path, into)?;
        } else if path.extension().is_some_and(|end| end == "pkt") {
            into.push(path);
        }
    }
    Ok(())
}

/// Runs one script. Returns its result and the start of its output.
fn run(
    script: &Path,
    bin: &Path,
    library: &Path,
    apart: bool,
    wanted: &Wanted,
    version: Option<Version>,
) -> anyhow::Result<(End, String)> {
    let script = script.canonicalize()?;
    let (Some(place), Some(name)) = (script.parent(), script.file_name()) else {
        bail!("{} is not the path of a script", script.display())
    };
    let printed = std::env::temp_dir().join(format!("linerate-packetdrill-{}", std::process::id()));
    let out = File::create(&printed).with_context(|| format!("cannot write {}", printed.display()))?;
    let mut child = if apart {
        let mut shell = Command::new("unshare");
        shell.args(["-n", "sh", "-c", PREPARE, "sh"]).arg(bin);
        shell
    } else {
        Command::new(bin)
    };
    let flags = version.map_or("", Version::flags);
    child.arg(format!("--so_filename={}", library.display())).arg(format!("--so_flags={}{flags}", wanted.flags));
    if let Some(version) = version {
        child.arg(format!("--ip_version={}", version.name())).args(version.args());
    }
    child.args(&wanted.more).arg(name).current_dir(place);
    let child = child.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).spawn();
    let ended = wait(child.with_context(|| format!("cannot run {}", bin.display()))?, wanted.seconds)?;
    let text = fs::read(&printed).unwrap_or_default();
    let _ = fs::remove_file(&printed);
    let text: String = String::from_utf8_lossy(&text).split_whitespace().collect::<Vec<_>>().join(" ");
    let end = match ended {
        None => End::Hung,
        Some(status) if status.success() => End::Passed,
        Some(_) => End::Failed,
    };
    Ok((end, text.chars().take(SHOWN).collect()))
}

/// Waits for the child. Returns `None` if it exceeded the time limit and was killed.
fn wait(mut child: Child, seconds: u64) -> anyhow::Result<Option<ExitStatus>> {
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= end {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> anyhow::Result<Wanted> {
        Wanted::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn the_command_line_is_parsed() {
        let wanted = parse(&["--tree", "a", "--flags", "cc=reno", "--seconds", "5", "--", "-D", "A=b"]).unwrap();
        assert_eq!((wanted.tree, wanted.flags, wanted.seconds), ("a".into(), "cc=reno".to_owned(), 5));
        assert_eq!(wanted.more, ["-D", "A=b"]);
        let versions = |value| parse(&["--tree", "a", "--ip-version", value]).map(|wanted| wanted.versions).ok();
        assert_eq!((versions("ipv6"), versions("ipv5")), (Some(vec![Version::V6]), None));
        assert_eq!(versions("each"), Some(Version::ALL.to_vec()));
        assert!(Version::V6.is_for(Path::new("a/b-v6.pkt")) && !Version::Mapped.is_for(Path::new("a/b-v6.pkt")));
        assert!(parse(&[]).is_err() && parse(&["--tree"]).is_err() && parse(&["--tree", "a", "--x", "b"]).is_err());
    }

    #[test]
    fn a_script_beyond_its_time_is_ended() {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        assert!(wait(child, 0).unwrap().is_none());
        let child = Command::new("true").spawn().unwrap();
        assert!(wait(child, 600).unwrap().unwrap().success());
    }
}
