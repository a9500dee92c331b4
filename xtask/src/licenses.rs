//! `cargo xtask licenses`: checks the licenses of the packages that the library and the program
//! contain, and of those that build them.
//!
//! `cargo tree` lists the packages for this platform. `cargo metadata` would also list optional
//! dependencies that no feature enables. The license of a package is an SPDX expression.

use crate::cargo::cargo;
use anyhow::{Context, bail, ensure};
use std::collections::BTreeSet;
use std::iter::Peekable;
use std::path::Path;
use std::process::ExitCode;
use std::str::SplitWhitespace;

/// Licenses that need no exception: they are compatible with `MIT OR Apache-2.0`.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Further permitted licenses in the program, as (package, license, reason). The library has none.
const EXCEPTIONS: &[(&str, &str, &str)] =
    &[("inferno", "CDDL-1.0", "draws flamegraphs; a build without the feature `flamegraph` does not contain it")];

/// Checks the packages of the library and of the program, with all their features.
///
/// # Errors
/// Returns an error if `cargo tree` fails. A license that is not permitted is a finding.
pub fn command(root: &Path) -> anyhow::Result<ExitCode> {
    let (mut checked, mut findings) = (BTreeSet::new(), BTreeSet::new());
    for (name, exceptions) in [("linerate", &[][..]), ("linerate-cli", EXCEPTIONS)] {
        let mut tree = cargo(root);
        tree.args(["tree", "--locked", "--offline", "--all-features", "--edges", "normal,build", "--color", "never"]);
        let output = tree.args(["--prefix", "none", "--format", "{p}\t{l}\t", "--package", name]).output();
        let output = output.context("cannot run cargo tree")?;
        ensure!(output.status.success(), "cargo tree: {}", String::from_utf8_lossy(&output.stderr));
        for line in String::from_utf8_lossy(&output.stdout).lines().filter(|line| !line.is_empty()) {
            findings.extend(finding(line, exceptions));
            checked.insert(line.split('\t').next().map(str::to_owned));
        }
    }
    findings.extend(missing_files(root)?);
    findings.iter().for_each(|finding| println!("{finding}"));
    println!("licenses: {} packages, findings: {}", checked.len(), findings.len());
    Ok(if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the published packages of the workspace without the texts of their licenses.
fn missing_files(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut metadata = cargo(root);
    metadata.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
    let output = metadata.output().context("cannot run cargo metadata")?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    missing_beside(packages, Path::is_file)
}

/// Returns the published packages among `packages`, as `cargo metadata` lists them, beside whose
/// manifest a text of the licenses is missing.
fn missing_beside(packages: &[serde_json::Value], is_file: impl Fn(&Path) -> bool) -> anyhow::Result<Vec<String>> {
    let is_published = |package: &&serde_json::Value| package["publish"].as_array().is_none_or(|list| !list.is_empty());
    let mut missing = Vec::new();
    for package in packages.iter().filter(is_published) {
        let manifest = Path::new(package["manifest_path"].as_str().context("a package has no path")?);
        for file in ["LICENSE-APACHE", "LICENSE-MIT"] {
            if !is_file(&manifest.with_file_name(file)) {
                missing.push(format!("{}: {file} is missing; link it to that of the repository", package["name"]));
            }
        }
    }
    Ok(missing)
}

/// Returns what is wrong with a package, given as `name version`, tab, license, tab.
fn finding(line: &str, exceptions: &[(&str, &str, &str)]) -> Option<String> {
    let mut columns = line.split('\t');
    let (package, expression) = (columns.next()?, columns.next()?);
    let name = package.split(' ').next();
    let excepted = exceptions.iter().filter(|(package, ..)| name == Some(package)).map(|(_, license, _)| *license);
    let permitted: Vec<&str> = ALLOWED.iter().copied().chain(excepted).collect();
    match is_satisfied(expression, &permitted) {
        Ok(true) => None,
        Ok(false) => Some(format!(
            "{package}: license '{expression}' is not permitted; replace the package or list it in EXCEPTIONS"
        )),
        Err(why) => Some(format!("{package}: license '{expression}' does not parse: {why}")),
    }
}

/// Words of an expression.
type Words<'a> = Peekable<SplitWhitespace<'a>>;

/// Returns whether the permitted licenses satisfy an SPDX expression. `/` is the former notation
/// of OR in Cargo.
fn is_satisfied(expression: &str, permitted: &[&str]) -> anyhow::Result<bool> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let satisfied = any(&mut words, permitted)?;
    match words.next() {
        None => Ok(satisfied),
        Some(word) => bail!("unexpected '{word}'"),
    }
}

/// Evaluates terms joined by OR.
fn any(words: &mut Words, permitted: &[&str]) -> anyhow::Result<bool> {
    let mut satisfied = all(words, permitted)?;
    while words.next_if_eq(&"OR").is_some() {
        satisfied |= all(words, permitted)?;
    }
    Ok(satisfied)
}

/// Evaluates terms joined by AND, which binds more closely than OR.
fn all(words: &mut Words, permitted: &[&str]) -> anyhow::Result<bool> {
    let mut satisfied = term(words, permitted)?;
    while words.next_if_eq(&"AND").is_some() {
        satisfied &= term(words, permitted)?;
    }
    Ok(satisfied)
}

/// Evaluates a license, a license WITH an exception, or an expression in parentheses.
fn term(words: &mut Words, permitted: &[&str]) -> anyhow::Result<bool> {
    match words.next().context("a license is missing")? {
        "(" => {
            let satisfied = any(words, permitted)?;
            ensure!(words.next() == Some(")"), "missing ')'");
            Ok(satisfied)
        }
        word @ (")" | "AND" | "OR" | "WITH") => bail!("unexpected '{word}'"),
        license if words.next_if_eq(&"WITH").is_some() => {
            let exception = words.next().context("an exception is missing after WITH")?;
            Ok(permitted.contains(&format!("{license} WITH {exception}").as_str()))
        }
        license => Ok(permitted.contains(&license)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn satisfied(expression: &str) -> bool {
        is_satisfied(expression, ALLOWED).unwrap()
    }

    #[test]
    fn expressions_are_evaluated() {
        for expression in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/GPL-3.0",
            "MIT / Apache-2.0",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "GPL-3.0 AND ISC OR MIT",
            "MIT OR ISC AND GPL-3.0",
            "Apache-2.0 WITH LLVM-exception",
            "((MIT))",
        ] {
            assert!(satisfied(expression), "{expression}");
        }
        for expression in [
            "GPL-3.0",
            "GPL-3.0/CDDL-1.0",
            "MIT AND GPL-3.0",
            "MIT AND (GPL-3.0 OR CDDL-1.0)",
            "(GPL-3.0 OR MIT) AND CDDL-1.0",
            "MIT WITH LLVM-exception",
            "mit",
        ] {
            assert!(!satisfied(expression), "{expression}");
        }
    }

    #[test]
    fn malformed_expressions_are_errors() {
        for (expression, expected) in [
            ("", "a license is missing"),
            ("MIT OR", "a license is missing"),
            ("(MIT", "missing ')'"),
            ("MIT)", "unexpected ')'"),
            ("MIT Apache-2.0", "unexpected 'Apache-2.0'"),
            ("AND MIT", "unexpected 'AND'"),
            ("MIT WITH", "an exception is missing after WITH"),
        ] {
            assert_eq!(is_satisfied(expression, ALLOWED).unwrap_err().to_string(), expected, "{expression}");
        }
    }

    #[test]
    fn published_packages_have_the_texts_of_their_licenses() {
        let package = |name: &str, publish: serde_json::Value| serde_json::json!({ "name": name, "manifest_path": format!("/{name}/Cargo.toml"), "publish": publish });
        let none = serde_json::Value::Null;
        let packages = [package("whole", none.clone()), package("half", none), package("own", serde_json::json!([]))];
        let is_file = |path: &Path| path.starts_with("/whole") || path == Path::new("/half/LICENSE-MIT");
        let missing = missing_beside(&packages, is_file).unwrap();
        assert_eq!(missing, ["\"half\": LICENSE-APACHE is missing; link it to that of the repository"]);
        assert!(missing_beside(&[serde_json::json!({ "name": "lost" })], is_file).is_err());
    }

    #[test]
    fn an_exception_holds_for_its_package_only() {
        let exceptions = [("a", "CDDL-1.0", "a reason")];
        assert_eq!(finding("a v1.0.0\tCDDL-1.0\t", &exceptions), None);
        assert_eq!(finding("a v1.0.0 (proc-macro)\tMIT AND CDDL-1.0\t (*)", &exceptions), None);
        let other = finding("ab v1.0.0\tCDDL-1.0\t", &exceptions).unwrap();
        assert!(other.starts_with("ab v1.0.0: license 'CDDL-1.0' is not permitted"), "{other}");
        assert!(finding("a v1.0.0\tGPL-3.0\t", &exceptions).is_some());
        assert!(finding("a v1.0.0\t\t", &exceptions).unwrap().ends_with("does not parse: a license is missing"));
    }
}
