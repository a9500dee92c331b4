//! `cargo xtask deb`: a package for Debian with the program, its manual pages, completions, the
//! unit for systemd, and examples. Needs dpkg-deb, gzip, and objcopy and objdump of binutils.

use crate::cargo::{cargo, succeed, target_dir};
use anyhow::{Context, bail};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Name and address in the package, which Debian requires, unless the variables `DEBFULLNAME` and
/// `DEBEMAIL` have others.
const MAINTAINER: [&str; 2] = ["The linerate developers", "linerate@example.org"];
const DESCRIPTION: &str = "\
user-space network stack, bridge, router and laboratory
 linerate runs hosts with a BSD-architecture TCP/IP stack, Ethernet bridges and
 IP routers in user space, over TAP devices, packet sockets, AF_XDP, UNIX
 sockets, files of packets, and cables in memory.
 .
 The package contains the program, a unit for systemd that runs a network from
 a file in /etc/linerate, and example files.";

/// Arguments of `deb`.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Program to package; `None` builds it in release mode.
    program: Option<PathBuf>,
    /// Directory for the package; `None` for `target/deb`.
    dir: Option<PathBuf>,
}

impl Wanted {
    /// Parses `[--program FILE] [DIR]`.
    ///
    /// # Errors
    /// Returns an error for other arguments.
    pub fn parse(words: &[String]) -> anyhow::Result<Wanted> {
        let mut wanted = Wanted { program: None, dir: None };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--program" => wanted.program = Some(words.next().context("--program: expected a file")?.into()),
                dir if !dir.starts_with('-') && wanted.dir.is_none() => wanted.dir = Some(dir.into()),
                other => bail!("unknown argument '{other}': expected [--program FILE] [DIR]"),
            }
        }
        Ok(wanted)
    }
}

/// Builds the package and prints its path.
///
/// # Errors
/// A build or tool fails, or a file cannot be written.
pub fn command(root: &Path, wanted: Wanted) -> anyhow::Result<ExitCode> {
    let target = target_dir(root)?;
    let program = match wanted.program {
        Some(program) => program,
        None => {
            succeed(cargo(root).args(["build", "--release", "-p", "linerate-cli"]))?;
            target.join("release/linerate")
        }
    };
    let dir = wanted.dir.unwrap_or_else(|| target.join("deb"));
    let tree = Tree { root: dir.join("linerate") };
    if tree.root.exists() {
        fs::remove_dir_all(&tree.root).with_context(|| format!("cannot remove {}", tree.root.display()))?;
    }
    fill(root, &tree, &program)?;
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?.trim().to_string();
    let version = format!("{}-1", env!("CARGO_PKG_VERSION"));
    let stripped = tree.at("usr/bin/linerate");
    let control = format!(
        "Package: linerate\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: {}\n\
         Installed-Size: {}\nDepends: libc6 (>= {}), libgcc-s1\nSection: net\nPriority: optional\n\
         Description: {DESCRIPTION}\n",
        maintainer(),
        tree.kibibytes()?,
        glibc_of(&stripped)?
    );
    tree.text("DEBIAN/control", &control)?;
    tree.text("DEBIAN/md5sums", &tree.sums()?)?;
    let package = dir.join(format!("linerate_{version}_{architecture}.deb"));
    // Files belong to root, not to the user who builds the package.
    succeed(Command::new("dpkg-deb").args(["--root-owner-group", "--build"]).args([&tree.root, &package]))?;
    println!("{}", package.display());
    Ok(ExitCode::SUCCESS)
}

fn maintainer() -> String {
    let [name, address] = MAINTAINER;
    let variable = |name, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_string());
    format!("{} <{}>", variable("DEBFULLNAME", name), variable("DEBEMAIL", address))
}

/// Creates the files of the package.
fn fill(root: &Path, tree: &Tree, program: &Path) -> anyhow::Result<()> {
    let installed = tree.file("usr/bin/linerate")?;
    succeed(Command::new("objcopy").arg("--strip-all").args([program, &installed]))?;
    fs::set_permissions(&installed, fs::Permissions::from_mode(0o755))?;
    let man = tree.root.with_extension("man");
    fs::create_dir_all(&man)?;
    succeed(Command::new(program).arg("man").arg(&man))?;
    for entry in fs::read_dir(&man)? {
        let path = entry?.path();
        let section = path.extension().and_then(|section| section.to_str()).context("a page has no section")?;
        let name = path.file_name().context("a page has no name")?.display();
        tree.text(&format!("usr/share/man/man{section}/{name}"), &fs::read_to_string(&path)?)?;
        tree.compress(&format!("usr/share/man/man{section}/{name}"))?;
    }
    fs::remove_dir_all(&man)?;
    for (shell, place) in [
        ("bash", "usr/share/bash-completion/completions/linerate"),
        ("zsh", "usr/share/zsh/vendor-completions/_linerate"),
        ("fish", "usr/share/fish/vendor_completions.d/linerate.fish"),
    ] {
        tree.text(place, &output(Command::new(program).args(["completions", shell]))?)?;
    }
    let unit = fs::read_to_string(root.join("examples/systemd/linerate@.service"))?;
    tree.text("lib/systemd/system/linerate@.service", &unit.replace("/usr/local/bin/", "/usr/bin/"))?;
    let doc = "usr/share/doc/linerate";
    for folder in ["topo", "examples/prometheus", "examples/pipes"] {
        for entry in fs::read_dir(root.join(folder))? {
            let path = entry?.path();
            let name = path.file_name().context("an example has no name")?.display();
            let folder = folder.trim_start_matches("examples/");
            tree.text(&format!("{doc}/examples/{folder}/{name}"), &fs::read_to_string(&path)?)?;
        }
    }
    tree.text(&format!("{doc}/changelog"), &fs::read_to_string(root.join("CHANGELOG.md"))?)?;
    let date = output(Command::new("date").args(["-R", "-u"]))?;
    let version = env!("CARGO_PKG_VERSION");
    let entry = format!(
        "linerate ({version}-1) unstable; urgency=medium\n\n  * Built from the sources of version {version}.\n\n \
         -- {}  {}\n",
        maintainer(),
        date.trim()
    );
    tree.text(&format!("{doc}/changelog.Debian"), &entry)?;
    tree.compress(&format!("{doc}/changelog"))?;
    tree.compress(&format!("{doc}/changelog.Debian"))?;
    // Only packages of Debian itself close a request for packaging.
    tree.text("usr/share/lintian/overrides/linerate", "linerate: initial-upload-closes-no-bugs\n")?;
    tree.text(&format!("{doc}/copyright"), &copyright(root)?)
}

/// Returns the file of copyrights in Debian's format.
fn copyright(root: &Path) -> anyhow::Result<String> {
    let mit = fs::read_to_string(root.join("LICENSE-MIT"))?;
    let mut out = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
                   Upstream-Name: linerate\n\nFiles: *\nCopyright: The linerate developers\n\
                   License: MIT or Apache-2.0\n\nLicense: Apache-2.0\n The text of this license is in \
                   /usr/share/common-licenses/Apache-2.0.\n\nLicense: MIT\n"
        .to_string();
    for line in mit.lines() {
        let _ = writeln!(out, " {}", if line.trim().is_empty() { "." } else { line });
    }
    Ok(out)
}

/// Files of the package, as they will be installed.
struct Tree {
    root: PathBuf,
}

impl Tree {
    fn at(&self, place: &str) -> PathBuf {
        self.root.join(place)
    }

    /// Returns the path of a file whose directory exists.
    fn file(&self, place: &str) -> anyhow::Result<PathBuf> {
        let path = self.at(place);
        let mut dir = self.root.clone();
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        for part in Path::new(place).parent().into_iter().flat_map(Path::components) {
            dir.push(part);
            fs::set_permissions(&dir, fs::Permissions::from_mode(0o755))?;
        }
        fs::set_permissions(&self.root, fs::Permissions::from_mode(0o755))?;
        Ok(path)
    }

    fn text(&self, place: &str, text: &str) -> anyhow::Result<()> {
        let path = self.file(place)?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        let mode = if text.starts_with("#!") { 0o755 } else { 0o644 };
        Ok(fs::set_permissions(&path, fs::Permissions::from_mode(mode))?)
    }

    fn compress(&self, place: &str) -> anyhow::Result<()> {
        succeed(Command::new("gzip").args(["-9n", "-f"]).arg(self.at(place)))
    }

    /// Returns the paths of the installed files, in order, relative to the root.
    fn files(&self) -> anyhow::Result<Vec<String>> {
        let (mut files, mut folders) = (Vec::new(), vec![self.root.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                let place = path.strip_prefix(&self.root)?.display().to_string();
                match path.is_dir() {
                    true if place == "DEBIAN" => {}
                    true => folders.push(path),
                    false => files.push(place),
                }
            }
        }
        files.sort();
        Ok(files)
    }

    fn kibibytes(&self) -> anyhow::Result<u64> {
        let sizes = self.files()?.into_iter().map(|place| Ok(fs::metadata(self.at(&place))?.len()));
        Ok(sizes.sum::<anyhow::Result<u64>>()?.div_ceil(1024))
    }

    /// Returns the checksums of the installed files, which dpkg verifies.
    fn sums(&self) -> anyhow::Result<String> {
        output(Command::new("md5sum").args(self.files()?).current_dir(&self.root))
    }
}

/// Returns the lowest version of glibc with which a program runs.
fn glibc_of(program: &Path) -> anyhow::Result<String> {
    let symbols = output(Command::new("objdump").arg("-T").arg(program))?;
    let versions = symbols.split_whitespace().filter_map(|word| {
        let word = word.trim_matches(['(', ')']).strip_prefix("GLIBC_")?;
        word.split('.').map(|number| number.parse().ok()).collect::<Option<Vec<u32>>>()
    });
    let most = versions.max().context("the program does not use glibc")?;
    Ok(most.iter().map(u32::to_string).collect::<Vec<_>>().join("."))
}

fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command.output().with_context(|| format!("cannot run {:?}", command.get_program()))?;
    if !output.status.success() {
        bail!("{command:?} ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed() {
        let parse = |line: &str| Wanted::parse(&line.split_whitespace().map(str::to_string).collect::<Vec<_>>());
        assert_eq!(parse("").unwrap(), Wanted { program: None, dir: None });
        let both = parse("--program a/b out").unwrap();
        assert_eq!(both, Wanted { program: Some("a/b".into()), dir: Some("out".into()) });
        for bad in ["--program", "a b", "-x"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
