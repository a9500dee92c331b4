//! `cargo xtask bench udp`: our figures with every peer beside them, in one run.

use lab::study::{Options, Progress};
use std::io::IsTerminal;
use std::process::ExitCode;

const USAGE: &str = "usage: linerate-bench udp [--json] [--quick] [--rounds N] [--core N]";

/// Rows that a peer does the same work for. The others (many sockets, the kernel's recv call alone) are not compared.
const COMPARED: [&str; 3] = ["send.csum", "send.offload", "recv.one_thread"];

fn main() -> ExitCode {
    lab::native::child_main_if_asked();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (options, json) = match options(&words) {
        Ok(asked) => asked,
        Err(why) => {
            eprintln!("linerate-bench: {why}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match udp(&options, json) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("linerate-bench: {why:#}");
            ExitCode::FAILURE
        }
    }
}

fn options(words: &[String]) -> Result<(Options, bool), String> {
    let mut words = words.iter();
    match words.next().map(String::as_str) {
        Some("udp") => {}
        Some(other) => return Err(format!("no group '{other}': there is udp")),
        None => return Err("which group?".to_owned()),
    }
    let (mut options, mut json) = (Options::default(), false);
    while let Some(word) = words.next() {
        let mut number = || {
            let value = words.next().ok_or(format!("{word} needs a number"))?;
            value.parse().map(Some).map_err(|_| format!("{word} {value}: expected a number"))
        };
        match word.as_str() {
            "--json" => json = true,
            "--quick" => options.quick = true,
            "--rounds" => options.rounds = number()?,
            "--core" => options.core = number()?,
            other => return Err(format!("unknown option '{other}'")),
        }
    }
    Ok((options, json))
}

fn udp(options: &Options, json: bool) -> anyhow::Result<()> {
    // Before the peers try which way of calling is the fastest.
    let pinned = lab::os::pin_to_cpu(options.core())?;
    let (found, missing) = linerate_bench::peers_and_missing();
    drop(pinned);
    let peers = found
        .into_iter()
        .filter(|peer| peer.subject.id().split_once('.').is_some_and(|(_, row)| COMPARED.contains(&row)))
        .filter(|peer| peer.subject.id() != "kernel.recv.one_thread")
        .map(|peer| (peer.subject, peer.how))
        .collect();
    let quiet = !std::io::stderr().is_terminal();
    let mut tell = |progress: Progress| {
        if !quiet {
            eprint!("\r\x1b[K{}/{} {}", progress.done, progress.total, progress.what);
        }
    };
    let mut report = lab::bench::udp_with(options, peers, &mut tell)?;
    if !quiet {
        eprint!("\r\x1b[K");
    }
    report.notes.extend(missing.into_iter().map(|why| format!("missing: {why}")));
    if json {
        println!("{}", report.to_json()?);
    } else {
        print!("{}", lab::table::render(&report, &[]));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What README.md and docs/results/README.md pass on to this program is understood.
    #[test]
    fn the_pages_commands_parse() {
        for page in [include_str!("../../../README.md"), include_str!("../../../docs/results/README.md")] {
            let shown = page.lines().filter_map(|line| line.strip_prefix("    cargo xtask bench ")?.split("  ").next());
            let shown: Vec<&str> = shown.collect();
            assert!(!shown.is_empty(), "the pattern finds no commands any more");
            for line in shown {
                let words: Vec<String> =
                    line.split_whitespace().take_while(|word| *word != ">").map(str::to_owned).collect();
                assert!(options(&words).is_ok(), "{line}: {:?}", options(&words));
            }
        }
        assert!(options(&["tcp".to_owned()]).is_err());
    }
}
