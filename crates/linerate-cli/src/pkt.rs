//! `pkt`: runs packetdrill scripts against linerate's TCP, each with its own host and clock.

use crate::args::{IpVersions, PktArgs};
use crate::exit::{Exit, Fault, print};
use pkt::{IpVersion, PktError, Played, Rules, run_file, versions_of};
use std::path::Path;

/// Runs each script and prints whether it passed.
pub fn play(args: &PktArgs) -> anyhow::Result<Exit> {
    if args.restate_counters && args.ip_version == Some(IpVersions::Each) {
        return Err(Fault::usage("--restate-counters cannot be used with --ip-version each: give one version"));
    }
    let (mut plays, mut failed) = (0, 0);
    for file in &args.files {
        let versions: Vec<Option<IpVersion>> = match args.ip_version {
            None => vec![None],
            Some(IpVersions::One(version)) => vec![Some(version)],
            Some(IpVersions::Each) => match versions_of(file) {
                Ok(versions) => versions.iter().copied().map(Some).collect(),
                Err(_) => vec![None], // playing it reports the error
            },
        };
        for version in versions {
            let rules = Rules { any_psh: args.any_psh, any_counters: args.restate_counters, ip_version: version };
            let played = run_file(file, rules);
            if let Ok(played) = &played {
                restate(file, &played.counters)?;
            }
            plays += 1;
            failed += usize::from(played.is_err());
            report(args, file, version, &played)?;
        }
    }
    print(&format!("{} of {plays} scripts passed\n", plays - failed))?;
    Ok(if failed == 0 { Exit::Fine } else { Exit::Failed })
}

/// Prints the result line of one script.
fn report(
    args: &PktArgs,
    file: &Path,
    version: Option<IpVersion>,
    played: &Result<Played, PktError>,
) -> anyhow::Result<()> {
    let version = version.map_or(String::new(), |version| format!(" ({})", version.name()));
    match played {
        Ok(_) if args.quiet => {}
        Ok(played) => {
            print(&format!("ok    {}{version}: {} events, {:?}\n", file.display(), played.events, played.time))?;
        }
        Err(error) => {
            let word = if error.ran { "FAIL" } else { "wrong" };
            print(&format!("{word:5} {}{version}: {}\n", error.place(), error.what))?;
        }
    }
    Ok(())
}

/// Replaces the values of the given `counters` lines in a script.
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
