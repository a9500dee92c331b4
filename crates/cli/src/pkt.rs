//! `pkt`: scripts against our TCP, each on a host and a clock of its own.

use crate::args::PktArgs;
use crate::exit::{Exit, print};
use sim::pkt::{Rules, run_file};

/// Plays each script; says of each whether it held.
pub fn play(args: &PktArgs) -> anyhow::Result<Exit> {
    let rules = Rules { any_psh: args.any_psh };
    let mut failed = 0;
    for file in &args.files {
        match run_file(file, rules) {
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
