//! Finds and checks the source tree. Builds from it those rungs (steps of `linerate ladder`) that
//! need other build options than this program.
//!
//! The tree is the one that contains the current directory, or the one given by `--source DIR`,
//! never a path compiled in. It is built only if it has the revision that this program was built
//! from. Otherwise those rungs are left out, with the reason.

use crate::env::Build;
use anyhow::{Context, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Source tree with the revision of this program, in which the rungs have been built.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    root: PathBuf,
}

impl Source {
    /// Finds the tree, checks its revision, and builds the rungs with cargo; an up-to-date build
    /// takes a second.
    ///
    /// # Errors
    /// No tree, another revision, no cargo, or a failed build.
    pub(crate) fn build(named: Option<&Path>) -> anyhow::Result<Source> {
        let source = Source::find(named)?;
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args(["run", "--quiet", "--package", "xtask", "--", "ladder"])
            .current_dir(&source.root)
            .stdin(Stdio::null())
            .output()
            .context("cannot run cargo")?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            bail!("cargo xtask ladder failed: {}", text.lines().last().unwrap_or("no message"));
        }
        Ok(source)
    }

    /// Finds the tree and checks its revision.
    ///
    /// # Errors
    /// There is no source tree, or it has another revision than this program.
    pub(crate) fn find(named: Option<&Path>) -> anyhow::Result<Source> {
        let root = match named {
            Some(dir) => {
                ensure!(is_tree(dir), "--source {}: not a source tree of linerate", dir.display());
                dir.canonicalize()?
            }
            None => {
                let here = std::env::current_dir().context("cannot determine the current directory")?;
                let tree = here.ancestors().find(|dir| is_tree(dir));
                tree.context("the current directory is not in a source tree of linerate: pass --source DIR")?.to_owned()
            }
        };
        let (theirs, ours) = (revision(&root), Build::this().git_rev);
        ensure!(
            theirs == ours,
            "the source tree {} has revision {theirs}, but this program has {ours}: rebuild it in that tree, or pass its own tree with --source DIR",
            root.display()
        );
        Ok(Source { root })
    }

    /// Returns the path of a built rung below `target/rungs/`.
    ///
    /// # Errors
    /// The reason why it was not built.
    pub(crate) fn rung(&self, variant: &str, file: &str) -> anyhow::Result<PathBuf> {
        let place = self.root.join("target/rungs").join(variant);
        if let Ok(why) = std::fs::read_to_string(place.join("why-not.txt")) {
            bail!("{}", why.trim());
        }
        let path = place.join(file);
        ensure!(path.is_file(), "{} is missing", path.display());
        Ok(path)
    }
}

fn is_tree(dir: &Path) -> bool {
    dir.join("crates/rung/Cargo.toml").is_file() && dir.join("xtask/Cargo.toml").is_file()
}

/// Returns the commit of a tree, with `-dirty` if tracked source files differ from it, or
/// `unknown`; the same text that the build script records.
fn revision(root: &Path) -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(root).args(args).stdin(Stdio::null()).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    // A directory without a repository of its own may lie inside another repository.
    let top = git(&["rev-parse", "--show-toplevel"]).map(PathBuf::from);
    if top.and_then(|top| top.canonicalize().ok()) != root.canonicalize().ok() {
        return "unknown".to_owned();
    }
    let code = [":/crates", ":/xtask", ":/Cargo.toml", ":/Cargo.lock"];
    let status = [&["--no-optional-locks", "status", "--porcelain", "--untracked-files=no", "--"][..], &code].concat();
    match (git(&["rev-parse", "--short=12", "HEAD"]), git(&status)) {
        (Some(commit), Some(changes)) if changes.is_empty() => commit,
        (Some(commit), _) => format!("{commit}-dirty"),
        (None, _) => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_found_from_a_subdirectory_and_another_revision_is_rejected() {
        // Tests run in the crate's directory, which lies in the tree.
        let found = Source::find(None);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
        match found {
            Ok(source) => assert_eq!(source.root, root),
            // The tree has changed since this program was built.
            Err(why) => assert!(why.to_string().contains("has revision"), "{why}"),
        }
        let empty = std::env::temp_dir().join(format!("linerate-source-{}", std::process::id()));
        std::fs::create_dir_all(empty.join("crates/rung")).unwrap();
        let why = Source::find(Some(&empty)).unwrap_err().to_string();
        assert!(why.contains("not a source tree"), "{why}");
        std::fs::create_dir_all(empty.join("xtask")).unwrap();
        std::fs::write(empty.join("crates/rung/Cargo.toml"), "").unwrap();
        std::fs::write(empty.join("xtask/Cargo.toml"), "").unwrap();
        let why = Source::find(Some(&empty)).unwrap_err().to_string();
        assert!(why.contains("has revision unknown, but this program has"), "{why}");
        std::fs::remove_dir_all(&empty).unwrap();
    }

    #[test]
    fn a_rung_that_was_not_built_has_a_reason() {
        let root = std::env::temp_dir().join(format!("linerate-rungs-{}", std::process::id()));
        std::fs::create_dir_all(root.join("target/rungs/pgo")).unwrap();
        std::fs::write(root.join("target/rungs/pgo/why-not.txt"), "no llvm-profdata\n").unwrap();
        let source = Source { root: root.clone() };
        assert_eq!(source.rung("pgo", "linerate-rung").unwrap_err().to_string(), "no llvm-profdata");
        assert!(source.rung("static", "linerate-rung").unwrap_err().to_string().ends_with("is missing"));
        std::fs::remove_dir_all(&root).unwrap();
    }
}
