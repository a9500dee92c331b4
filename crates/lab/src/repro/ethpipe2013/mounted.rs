//! Throughput by dd's block size on the files of `linerate mount`, which correspond to the report's
//! device.

use super::{BLOCKS, Lab, generator};
use crate::native::shell::Mounted;
use crate::result::Row;

/// Name of the port that is a source of frames.
const GIVES: &str = "pg0";
/// Name of the port that is a sink of frames.
const TAKES: &str = "n0";
/// Smallest block size, in bytes. With blocks smaller than a page, each read or write is a separate
/// request to another process. A few such sizes are enough to show this.
const LEAST: u64 = 1 << 10;
/// Operations named by the report.
const WAYS: [&str; 3] = ["read", "write", "forward"];

/// Returns the number of bytes that dd moves at a block size. It assumes about 50 us for a request
/// of up to 128 KiB.
fn volume(block: u64) -> u64 {
    (block << 12).min(64 << 20)
}

/// Measures dd from a mounted port to /dev/null, from a file into a mounted port, and from one
/// mounted port into another.
pub(super) fn throughput(lab: &Lab, size: usize, file: &str, all: &mut Vec<Row>) -> anyhow::Result<()> {
    let title = |way: &str, name: &str| format!("{way} through FUSE, {size}-byte frames, dd bs={name}");
    let (generator, sink) = (format!("{}{GIVES}", generator(size, false)), format!("null:{TAKES}"));
    let mounted = match Mounted::of(&lab.corpus, &[(&generator, GIVES), (&sink, TAKES)]) {
        Ok(mounted) => mounted,
        Err(why) => {
            let why = format!("{why:#}");
            all.extend(WAYS.map(|way| Row::missing(&format!("fuse.{way}.{size}"), &title(way, "*"), &why)));
            return Ok(());
        }
    };
    let (gives, takes) = (&mounted.file, mounted.file.with_file_name(TAKES));
    let (gives, takes) = (gives.display(), takes.display());
    let rows = &mut Vec::new();
    for (block, name) in BLOCKS.into_iter().filter(|(block, _)| *block >= LEAST) {
        let bytes = volume(block).min(lab.corpus.len(file)?);
        let count = (bytes / block).max(1);
        let script = |way: &str, script: String| (format!("fuse.{way}.{size}.{name}"), script, count * block);
        let scripts = [
            script("read", format!("dd if={gives} of=/dev/null bs={block} count={count} iflag=fullblock")),
            script("write", format!("dd if={file} of={takes} bs={block} count={count} conv=notrunc")),
            script(
                "forward",
                format!("dd if={gives} of={takes} bs={block} count={count} iflag=fullblock conv=notrunc"),
            ),
        ];
        lab.rows(&scripts, &WAYS.map(|way| title(way, name)), rows);
    }
    for way in WAYS {
        let curve = format!("fuse.{way}.");
        all.extend(rows.extract_if(.., |row| row.id.starts_with(&curve)));
    }
    Ok(())
}
