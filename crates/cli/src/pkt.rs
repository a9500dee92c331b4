//! `pkt`: scripts against our TCP, each on a host and a clock of its own.

use crate::args::PktArgs;
use crate::exit::{Exit, print};
use sim::pkt::{Rules, run_file};
use std::path::Path;

/// Plays each script; says of each whether it held.
pub fn play(args: &PktArgs) -> anyhow::Result<Exit> {
    let rules = Rules { any_psh: args.any_psh, any_counters: args.restate_counters };
    let mut failed = 0;
    for file in &args.files {
        let played = run_file(file, rules);
        if let Ok(played) = &played {
            restate(file, &played.counters)?;
        }
        match played {
            Ok(_) if args.quiet => {}
            Ok(played) => {
                print(&format!("ok    {}: {} events, {:?}\n", file.display(), played.events, played.time))?;
            }
            Err(error) => {
                failed += 1;
                let word = if error.ran { "FAIL" } else { "wrong" };
                print(&format!("{word:5} {error}\n"))?;
            }
        }
    }
    print(&format!("{} of {} scripts hold\n", args.files.len() - failed, args.files.len()))?;
    Ok(if failed == 0 { Exit::Fine } else { Exit::Failed })
}

/// Replaces what stands behind `counters` in these lines.
fn restate(file: &Path, lines: &[(usize, String)]) -> anyhow::Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let text = std::fs::read_to_string(file)?;
    let restated = text.lines().enumerate().map(|(at, line)| {
        let new = lines.iter().find(|(number, _)| *number == at + 1);
        let front = line.find("counters").and_then(|front| line.get(..front));
        new.zip(front).map_or_else(|| format!("{line}\n"), |((_, new), front)| format!("{front}{}\n", new.trim_end()))
    });
    let restated: String = restated.collect();
    std::fs::write(file, restated)?;
    Ok(())
}
