//! `cargo xtask sim`: runs an optimized build of the simulation of two hosts, with many seeds or
//! with one seed and a trace.

use crate::cargo::{cargo, succeed};
use anyhow::{Context, bail};
use std::path::Path;
use std::process::ExitCode;

/// Default number of seeds, the same as in CI.
const SEEDS: u64 = 20_000;

/// Parsed command line of `sim`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    Seeds(u64),
    One(u64),
}

impl Wanted {
    pub fn parse(words: &[String]) -> anyhow::Result<Wanted> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let number = |text: &str| text.parse().with_context(|| format!("'{text}' is not a number"));
        Ok(match words.as_slice() {
            [] => Wanted::Seeds(SEEDS),
            ["--seeds", n] => Wanted::Seeds(number(n)?),
            ["--seed", n] => Wanted::One(number(n)?),
            other => bail!("unknown arguments '{}': expected --seeds N or --seed S", other.join(" ")),
        })
    }
}

pub fn command(root: &Path, wanted: Wanted) -> anyhow::Result<ExitCode> {
    let mut test = cargo(root);
    test.args(["test", "--release", "-p", "linerate-sim", "--test", "all"]);
    let (name, value) = match wanted {
        Wanted::Seeds(n) => ("STREAM_SEEDS", n),
        Wanted::One(seed) => ("STREAM_SEED", seed),
    };
    succeed(test.env(name, value.to_string()).args(["--", "--nocapture", "streams::"]))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_parsed() {
        let parse = |words: &[&str]| Wanted::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(parse(&[]).unwrap(), Wanted::Seeds(20_000));
        assert_eq!(parse(&["--seeds", "3"]).unwrap(), Wanted::Seeds(3));
        assert_eq!(parse(&["--seed", "7"]).unwrap(), Wanted::One(7));
        assert!(parse(&["--seeds", "many"]).is_err() && parse(&["--seeds"]).is_err());
    }
}
