//! Throughput and delay of a frame by dd's block size, through pipes.

use super::{BLOCKS, Lab, generator};
use crate::native::delay::{self, Between, Blocks, Delays};
use crate::result::{Cell, Figure, Row, Sheet};
use crate::sample::Summary;
use anyhow::anyhow;

/// Returns the number of bytes that dd moves at a block size in about a quarter of a second.
fn volume(block: u64) -> u64 {
    (block * 400_000).clamp(8 << 20, 256 << 20)
}

/// Measures reading, writing and forwarding. All operations at one block size are measured in
/// interleaved trials; in the report the rows are grouped by operation.
pub(super) fn throughput(lab: &Lab, size: usize, file: &str, all: &mut Vec<Row>) -> anyhow::Result<()> {
    let rows = &mut Vec::new();
    let line = wire::text::len(size - 4) as u64;
    for (block, name) in BLOCKS {
        let bytes = volume(block).min(lab.corpus.len(file)?);
        let (lines, blocks) = (bytes / line, bytes.div_ceil(block));
        let (once, made) = (generator(size, true), generator(size, false));
        let moved = lines * line;
        let script = |what: &str, script: String| (format!("{what}.{size}.{name}"), script, moved);
        let scripts = [
            script("read", format!("$LINERATE cat -c {lines} '{once}' | dd of=/dev/null bs={block}")),
            script("generated", format!("$LINERATE cat -c {lines} '{made}' | dd of=/dev/null bs={block}")),
            script("write", format!("dd if={file} bs={block} count={blocks} | $LINERATE put null:")),
            script("forward", format!("$LINERATE cat -c {lines} '{once}' | dd bs={block} | $LINERATE put null:")),
        ];
        let titles = ["read", "read, made one by one", "write", "forward"];
        let titles: Vec<String> =
            titles.iter().map(|title| format!("{title}, {size}-byte frames, dd bs={name}")).collect();
        lab.rows(&scripts, &titles, rows);
    }
    for curve in ["read.", "generated.", "write.", "forward."] {
        all.extend(rows.extract_if(.., |row| row.id.starts_with(curve)));
    }
    Ok(())
}

/// Measures the delay of a frame. Adds rows for the paths in which dd fills its blocks, and returns
/// a table with all paths.
pub(super) fn delays(lab: &Lab, size: usize, rows: &mut Vec<Row>) -> Sheet {
    delays_by(lab.options.keep, size, rows, delay::trial)
}

/// A path from writer to reader, with its trials.
struct Measured {
    name: &'static str,
    between: Between,
    trials: anyhow::Result<Vec<Delays>>,
}

fn delays_by(
    keep: u32,
    size: usize,
    rows: &mut Vec<Row>,
    mut trial: impl FnMut(usize, Between) -> anyhow::Result<Delays>,
) -> Sheet {
    let ways = |(block, name)| [Blocks::Full, Blocks::AsRead].map(|blocks| (name, Between::Dd(block, blocks)));
    let all = [("none", Between::Pipe)].into_iter().chain(BLOCKS.into_iter().flat_map(ways));
    let mut measured: Vec<Measured> =
        all.map(|(name, between)| Measured { name, between, trials: Ok(Vec::new()) }).collect();
    // The paths take turns, so that a disturbance does not affect a single block size. A path that
    // fails is not tried again. Ctrl-C ends dd, too, so that failure is not recorded.
    'trials: for _ in 0..keep {
        for way in &mut measured {
            let Ok(trials) = &mut way.trials else { continue };
            let made = trial(size, way.between);
            if dispatch::stop_requested() {
                break 'trials;
            }
            match made {
                Ok(delays) => trials.push(delays),
                Err(why) => way.trials = Err(why),
            }
        }
    }
    for way in &mut measured {
        if way.trials.as_ref().is_ok_and(Vec::is_empty) {
            way.trials = Err(anyhow!("interrupted before its first trial"));
        }
    }
    let full = |way: &&Measured| !matches!(way.between, Between::Dd(_, Blocks::AsRead));
    for way in measured.iter().filter(full) {
        let dd = if way.between == Between::Pipe { "the pipe alone".to_owned() } else { format!("dd bs={}", way.name) };
        let title = |what: &str| format!("{what} delay of a frame, {size}-byte frames, {dd}");
        let id = format!("delay.{size}.{}", way.name);
        rows.push(row(&id, &title("median"), &way.trials, |delays| delays.median));
        rows.push(row(&format!("{id}.p99"), &title("99th percentile of the"), &way.trials, |delays| delays.p99));
    }
    let names = measured.iter().filter(full).map(|way| way.name);
    Sheet {
        title: format!(
            "delay of a frame in us, {size}-byte frames at {:.0} frame/s: dd with full blocks, and dd with blocks as read",
            delay::rate(size)
        ),
        head: ["bs", "full: median", "99 %", "as read: median", "99 %", "frames a trial"].map(str::to_owned).to_vec(),
        rows: names.map(|name| line(name, &measured)).collect(),
    }
}

fn row(id: &str, title: &str, trials: &anyhow::Result<Vec<Delays>>, of: impl Fn(&Delays) -> f64) -> Row {
    match median(trials, of) {
        Ok(summary) => Row::new(id, title, Figure::new(&summary, "us")),
        Err(why) => Row::missing(id, title, &why),
    }
}

fn median(trials: &anyhow::Result<Vec<Delays>>, of: impl Fn(&Delays) -> f64) -> Result<Summary, String> {
    let trials = trials.as_ref().map_err(|why| format!("{why:#}"))?;
    Summary::of(&trials.iter().map(of).collect::<Vec<f64>>()).map_err(|why| why.to_string())
}

/// Returns the table's row for a block size.
fn line(name: &'static str, measured: &[Measured]) -> Vec<Cell> {
    let mut cells: Vec<Cell> = vec![name.into()];
    let of = |blocks: Blocks| {
        measured.iter().find(|way| way.name == name && !matches!(way.between, Between::Dd(_, other) if other != blocks))
    };
    for way in [of(Blocks::Full), of(Blocks::AsRead)] {
        let figure = |of: fn(&Delays) -> f64| {
            way.and_then(|way| median(&way.trials, of).ok()).map_or("-".into(), |summary| summary.median.into())
        };
        cells.extend([figure(|delays| delays.median), figure(|delays| delays.p99)]);
    }
    let frames = of(Blocks::Full).and_then(|way| way.trials.as_ref().ok()?.first()).map(|delays| delays.frames as u64);
    cells.push(frames.map_or("-".into(), Cell::from));
    cells
}

#[cfg(test)]
mod tests;
