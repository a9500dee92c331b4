//! `cargo xtask packetdrill`: somebody else's scripts, run by somebody else's packetdrill, against our TCP.
//!
//! Builds the library, then runs every script below a directory, each in a network namespace of its own (where that is
//! allowed) with a `tun0` for the shell commands that scripts take for granted, and none longer than its time. A line for each
//! script, and how many passed. Nothing of theirs is kept.

use crate::cargo::{cargo, succeed, target_dir};
use anyhow::{Context, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What a script may take at most, in seconds.
const SECONDS: u64 = 60;
/// How much of what a script says is shown.
const SHOWN: usize = 300;
/// In the namespace: what scripts' shell commands are about.
const PREPARE: &str = "ip link set lo up; ip tuntap add dev tun0 mode tun; ip link set tun0 up; exec \"$@\"";

/// What a command line asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    tree: PathBuf,
    bin: PathBuf,
    flags: String,
    seconds: u64,
    /// Only scripts whose path has this in it.
    only: String,
    /// For packetdrill itself.
    more: Vec<String>,
}

impl Wanted {
    pub fn parse(words: &[String]) -> anyhow::Result<Wanted> {
        let (mut tree, mut bin) = (None, PathBuf::from("packetdrill"));
        let (mut flags, mut seconds, mut only) = ("profile=linux".to_owned(), SECONDS, String::new());
        let mut words = words.iter();
        while let Some(word) = words.next() {
            if word == "--" {
                break;
            }
            let value = words.next().with_context(|| format!("{word} wants a value"))?;
            match word.as_str() {
                "--tree" => tree = Some(PathBuf::from(value)),
                "--bin" => bin = PathBuf::from(value),
                "--flags" => flags = value.clone(),
                "--only" => only = value.clone(),
                "--seconds" => seconds = value.parse().with_context(|| format!("'{value}' is not a number"))?,
                other => bail!("packetdrill takes --tree, --bin, --flags, --only, --seconds, not '{other}'"),
            }
        }
        let tree = tree.context("packetdrill wants --tree DIR, where the scripts are")?;
        Ok(Wanted { tree, bin, flags, seconds, only, more: words.cloned().collect() })
    }
}

/// How a script ended.
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
        println!("without network namespaces: what scripts set by shell commands is set here, or not at all");
    }
    let mut ends = Vec::new();
    for script in &scripts {
        let (end, said) = run(script, &bin, &library, apart, wanted)?;
        let name = script.strip_prefix(&wanted.tree).unwrap_or(script).display();
        match end {
            End::Passed => println!("ok    {name}"),
            End::Failed => println!("FAIL  {name}: {said}"),
            End::Hung => println!("HUNG  {name}: nothing after {} s: {said}", wanted.seconds),
        }
        ends.push(end);
    }
    let count = |which| ends.iter().filter(|end| **end == which).count();
    println!("{} of {} scripts pass, {} hang", count(End::Passed), ends.len(), count(End::Hung));
    Ok(if count(End::Passed) == ends.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The scripts below `place`.
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

/// Runs one script: how it ended, and the first of what it said.
fn run(script: &Path, bin: &Path, library: &Path, apart: bool, wanted: &Wanted) -> anyhow::Result<(End, String)> {
    let script = script.canonicalize()?;
    let (Some(place), Some(name)) = (script.parent(), script.file_name()) else { bail!("{}?", script.display()) };
    let said = std::env::temp_dir().join(format!("linerate-packetdrill-{}", std::process::id()));
    let out = File::create(&said).with_context(|| format!("cannot write {}", said.display()))?;
    let mut child = if apart {
        let mut shell = Command::new("unshare");
        shell.args(["-n", "sh", "-c", PREPARE, "sh"]).arg(bin);
        shell
    } else {
        Command::new(bin)
    };
    child.arg(format!("--so_filename={}", library.display())).arg(format!("--so_flags={}", wanted.flags));
    child.args(&wanted.more).arg(name).current_dir(place);
    let child = child.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out).spawn();
    let ended = wait(child.with_context(|| format!("cannot run {}", bin.display()))?, wanted.seconds)?;
    let text = fs::read(&said).unwrap_or_default();
    let _ = fs::remove_file(&said);
    let text: String = String::from_utf8_lossy(&text).split_whitespace().collect::<Vec<_>>().join(" ");
    let end = match ended {
        None => End::Hung,
        Some(status) if status.success() => End::Passed,
        Some(_) => End::Failed,
    };
    Ok((end, text.chars().take(SHOWN).collect()))
}

/// The child's end; `None`: it took too long and was killed.
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
    fn what_is_asked_for() {
        let wanted = parse(&["--tree", "a", "--flags", "cc=reno", "--seconds", "5", "--", "-D", "A=b"]).unwrap();
        assert_eq!((wanted.tree, wanted.flags, wanted.seconds), ("a".into(), "cc=reno".to_owned(), 5));
        assert_eq!(wanted.more, ["-D", "A=b"]);
        assert!(parse(&[]).is_err() && parse(&["--tree"]).is_err() && parse(&["--tree", "a", "--x", "b"]).is_err());
    }

    #[test]
    fn what_takes_too_long_is_ended() {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        assert!(wait(child, 0).unwrap().is_none());
        let child = Command::new("true").spawn().unwrap();
        assert!(wait(child, 600).unwrap().unwrap().success());
    }
}
