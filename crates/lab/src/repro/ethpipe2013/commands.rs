//! The report's table of commands: linerate's commands and the usual tools, on lines of 64-byte and
//! of 1518-byte frames.

use super::Lab;
use crate::bench::FIVE;
use crate::native::shell::is_installed;
use crate::result::Row;

/// Pattern with a wildcard, a source address of the device and a type. The report planned "patterns
/// like regular expressions (asterisk etc.)" but measured none.
const WILDCARD: &str = "0022CF.*8899";

/// A command: its name, the program that it needs, its command line.
type Entry = (&'static str, &'static str, String);

/// Returns the commands on `file`.
fn entries(file: &str) -> Vec<Entry> {
    let alternatives = FIVE.replace('\\', "");
    vec![
        ("linerate.grep", "sh", format!("$LINERATE grep '{FIVE}' < {file}")),
        ("linerate.grep.j2", "sh", format!("$LINERATE grep -j 2 '{FIVE}' < {file}")),
        ("gnu_grep", "grep", format!("LC_ALL=C grep '{FIVE}' < {file}")),
        (
            "gnu_grep.parallel",
            "parallel",
            format!("LC_ALL=C parallel --pipe -k -j 2 --block 4M grep '{FIVE}' < {file}"),
        ),
        ("ripgrep", "rg", format!("rg '{alternatives}' < {file}")),
        ("linerate.wildcard", "sh", format!("$LINERATE grep '{WILDCARD}' < {file}")),
        ("linerate.wildcard.j2", "sh", format!("$LINERATE grep -j 2 '{WILDCARD}' < {file}")),
        ("gnu_grep.wildcard", "grep", format!("LC_ALL=C grep '{WILDCARD}' < {file}")),
        ("ripgrep.wildcard", "rg", format!("rg '{WILDCARD}' < {file}")),
        ("linerate.grep.terms", "sh", format!("$LINERATE grep 'dst=00:11:* type=0x8899' < {file}")),
        ("linerate.conv", "sh", format!("$LINERATE conv < {file}")),
        ("linerate.rewrite", "sh", format!("$LINERATE rewrite dst=02:00:00:00:00:01 < {file}")),
        ("linerate.vlan", "sh", format!("$LINERATE rewrite vlan.push=7 + rewrite vlan.pop < {file}")),
        ("linerate.count", "sh", format!("$LINERATE count -q < {file} 2>&1")),
        ("sed", "sed", format!("LC_ALL=C sed -e 's/8899/8898/' < {file}")),
        ("awk", "awk", format!("LC_ALL=C awk '$1==\"001111111111\"{{print $0}}' < {file}")),
        ("tr", "tr", format!("tr A-F a-f < {file}")),
        ("wc", "wc", format!("wc -l < {file}")),
    ]
}

/// Adds a row for each command.
pub(super) fn table(lab: &Lab, size: usize, file: &str, rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let bytes = lab.corpus.len(file)?;
    for (name, tool, script) in entries(file) {
        let (id, title) =
            (format!("cmd.{size}.{name}"), format!("{size}-byte frames: {}", script.replace("$LINERATE", "linerate")));
        if is_installed(tool) {
            lab.rows(&[(id, format!("{script} | cat > /dev/null"), bytes)], &[title], rows);
        } else {
            rows.push(Row::missing(&id, &title, &format!("{tool} is not installed")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_compared_with_grep_with_one_and_two_threads() {
        let entries = entries("f64.txt");
        let line =
            |name: &str| entries.iter().find(|(other, ..)| *other == name).map(|(.., line)| line.as_str()).unwrap();
        for (ours, two, theirs, pattern) in [
            ("linerate.grep", "linerate.grep.j2", "gnu_grep", FIVE),
            ("linerate.wildcard", "linerate.wildcard.j2", "gnu_grep.wildcard", "0022CF.*8899"),
        ] {
            assert_eq!(line(ours), format!("$LINERATE grep '{pattern}' < f64.txt"));
            assert_eq!(line(two), line(ours).replace("grep ", "grep -j 2 "));
            assert_eq!(line(theirs), line(ours).replace("$LINERATE grep", "LC_ALL=C grep"));
        }
    }
}
