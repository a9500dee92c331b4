//! `cargo xtask image`: tests the container image of `examples/container/Dockerfile` without a
//! container engine. The files that the Dockerfile copies are put into an empty directory, and its
//! command runs there as in a container: with this directory as root, so without any library.

use crate::cargo::{cargo, succeed, target_dir};
use crate::dist;
use anyhow::{Context, bail, ensure};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Time within which the program starts, reloads and ends.
const PATIENCE: Duration = Duration::from_secs(60);

/// Arguments of `image`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Program for the image, which gets its shared libraries, too; `None` to build one that is
    /// linked statically, without optimization.
    program: Option<PathBuf>,
}

impl Wanted {
    /// Parses `[--program FILE]`.
    ///
    /// # Errors
    /// Returns an error for other arguments.
    pub fn parse(words: &[String]) -> anyhow::Result<Wanted> {
        match words {
            [] => Ok(Wanted::default()),
            [flag, file] if flag == "--program" => Ok(Wanted { program: Some(file.into()) }),
            _ => bail!("image: expected [--program FILE]"),
        }
    }
}

/// Instructions of a Dockerfile that starts from nothing.
#[derive(Debug, Default, PartialEq, Eq)]
struct Dockerfile {
    /// Files of the build directory, and their absolute names in the image.
    copies: Vec<(String, String)>,
    /// Words of ENTRYPOINT and CMD.
    command: Vec<String>,
}

impl Dockerfile {
    fn parse(text: &str) -> anyhow::Result<Dockerfile> {
        let mut out = Dockerfile::default();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.split_once(' ').with_context(|| format!("no argument: {line}"))? {
                ("FROM", "scratch") => {}
                ("COPY", files) => {
                    let (from, to) = files.split_once(' ').with_context(|| format!("expected two files: {line}"))?;
                    ensure!(to.starts_with('/'), "expected an absolute name: {line}");
                    out.copies.push((from.to_owned(), to.to_owned()));
                }
                ("ENTRYPOINT" | "CMD", words) => {
                    let words: Vec<String> = serde_json::from_str(words).with_context(|| line.to_owned())?;
                    out.command.extend(words);
                }
                _ => bail!("unknown instruction: {line}"),
            }
        }
        Ok(out)
    }
}

/// Runs the content of the image: its host must answer a ping, reload its file and end with an
/// audit.
///
/// # Errors
/// Returns an error if the program does not build or the content does not run.
pub fn command(root: &Path, wanted: &Wanted) -> anyhow::Result<ExitCode> {
    let context = root.join("examples/container");
    let text = std::fs::read_to_string(context.join("Dockerfile")).context("cannot read the Dockerfile")?;
    let file = Dockerfile::parse(&text).context("Dockerfile")?;
    let program = match &wanted.program {
        Some(program) => program.clone(),
        None => build(root)?,
    };
    let dir = target_dir(root)?.join("image");
    if dir.exists() {
        std::fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
    }
    for (from, to) in &file.copies {
        let from = if from == "linerate" { program.clone() } else { context.join(from) };
        let to = dir.join(to.trim_start_matches('/'));
        std::fs::create_dir_all(to.parent().unwrap_or(&dir))?;
        std::fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    for library in wanted.program.as_deref().map_or_else(|| Ok(Vec::new()), libraries)? {
        let to = dir.join(library.strip_prefix("/").unwrap_or(&library));
        std::fs::create_dir_all(to.parent().unwrap_or(&dir))?;
        std::fs::copy(&library, &to).with_context(|| format!("cannot copy {}", library.display()))?;
    }
    Running::start(&dir, &file.command)?.test()?;
    println!("image: {} answers, reloads and ends", file.command.join(" "));
    Ok(ExitCode::SUCCESS)
}

/// Builds a program that is linked statically.
fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let mut build = cargo(root);
    build.args(["build", "-p", "linerate-cli"]);
    let target = dist::link_statically(&mut build)?;
    succeed(&mut build)?;
    Ok(target_dir(root)?.join(target).join("debug/linerate"))
}

/// Returns the shared libraries that a program loads, by ldd(1).
fn libraries(program: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("cannot run ldd")?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect())
}

/// Script that runs its arguments with the root directory `$0`, and /proc, which containers have.
const ENTER: &str = r#"mkdir -p "$0/proc" && mount --rbind /proc "$0/proc" && exec chroot "$0" "$@""#;

/// Returns a command that runs `words` with the root directory `dir` in a mount namespace, which an
/// ordinary user gets within a user namespace.
fn within(dir: &Path, words: &[&str]) -> Command {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|of| of.uid() == 0);
    let mut command = Command::new("unshare");
    command.arg("--mount").args((!is_root).then_some("--map-root-user"));
    command.args(["sh", "-c", ENTER]).arg(dir).args(words).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

/// The program of the image, while it runs.
struct Running {
    child: Child,
    dir: PathBuf,
    /// File with its standard error.
    log: PathBuf,
}

impl Running {
    fn start(dir: &Path, words: &[String]) -> anyhow::Result<Running> {
        let log = dir.with_extension("log");
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command = within(dir, &words);
        command.stdout(Stdio::piped()).stderr(File::create(&log)?);
        let child = command.spawn().with_context(|| format!("cannot run {:?}", command.get_program()))?;
        Ok(Running { child, dir: dir.to_owned(), log })
    }

    /// Waits until a host answers a ping, reloads the file, and ends the program as `docker stop`
    /// does.
    fn test(&mut self) -> anyhow::Result<()> {
        self.until("an echo reply", |this| {
            let ping = ["/linerate", "ping", "--url", "/run/a.sock", "-c", "1", "10.0.0.2"];
            Ok(within(&this.dir, &ping).output()?.status.success())
        })?;
        self.signal("HUP")?;
        self.until("a reload", |this| Ok(std::fs::read_to_string(&this.log)?.contains("reload: done")))?;
        self.signal("TERM")?;
        self.until("the end", |this| Ok(this.child.try_wait()?.is_some()))?;
        let mut audit = String::new();
        self.child.stdout.take().context("no output")?.read_to_string(&mut audit)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "the program ended with {status}");
        ensure!(
            audit.lines().any(|line| line.contains("imbalance") && line.trim_end().ends_with(" 0")),
            "expected an audit: {audit}"
        );
        Ok(())
    }

    /// Waits until `holds` returns `true`.
    fn until(&mut self, what: &str, holds: impl Fn(&mut Running) -> anyhow::Result<bool>) -> anyhow::Result<()> {
        let began = Instant::now();
        while !holds(self)? {
            let log = || std::fs::read_to_string(&self.log).unwrap_or_default();
            ensure!(began.elapsed() < PATIENCE, "{what} did not come within {PATIENCE:?}: {}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    fn signal(&self, name: &str) -> anyhow::Result<()> {
        succeed(Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_are_parsed_and_others_rejected() {
        let text = "# text\nFROM scratch\nCOPY a /b\n\nENTRYPOINT [\"/b\"]\nCMD [\"up\", \"x\"]\n";
        let command = ["/b", "up", "x"].map(str::to_owned).to_vec();
        let copies = vec![("a".to_owned(), "/b".to_owned())];
        assert_eq!(Dockerfile::parse(text).unwrap(), Dockerfile { copies, command });
        for (text, why) in [
            ("FROM debian\n", "unknown instruction: FROM debian"),
            ("RUN\n", "no argument: RUN"),
            ("COPY a b\n", "expected an absolute name: COPY a b"),
        ] {
            assert_eq!(Dockerfile::parse(text).unwrap_err().to_string(), why);
        }
    }
}
