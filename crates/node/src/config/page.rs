//! Reference page of the keys of topology files, generated from their declarations in [`keys`].

use super::keys::{self, Key, Takes, Unset};
use crate::sysctl;
use std::fmt::Write;

/// Top-level tables of a file.
pub const TOP: [&str; 3] = ["host", "switch", "metrics"];

/// A table of a file.
#[derive(Debug)]
pub struct Table {
    /// Name of the table, as in `host.iface`.
    pub name: &'static str,
    /// Description of the table, as a sentence.
    pub about: &'static str,
    rows: fn() -> Vec<Row>,
}

/// One key of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Name of the key.
    pub name: String,
    /// TOML type and range of the value.
    pub value: String,
    /// Default value, or a description of the behavior without the key.
    pub default: String,
    /// Description of the key, as a sentence.
    pub about: String,
}

/// All tables, in the order of the page.
pub const TABLES: &[Table] = &[
    Table { name: "host", about: "A host; a file has at least one host.", rows: || rows(keys::HOST) },
    Table {
        name: "host.iface",
        about: "An iface of the preceding host: a port or a tunnel.",
        rows: || rows(keys::IFACE),
    },
    Table {
        name: "host.route",
        about: "A route, in addition to the on-link routes of the addresses.",
        rows: || rows(keys::ROUTE),
    },
    Table { name: "host.neighbor", about: "A static neighbor entry.", rows: || rows(keys::NEIGHBOR) },
    Table { name: "host.service", about: "A service of the host.", rows: || rows(keys::SERVICE) },
    Table {
        name: "host.sysctl",
        about: "Sysctls of the host; 'linerate sysctl' shows and sets them at run time.",
        rows: sysctls,
    },
    Table { name: "switch", about: "A learning bridge between hosts.", rows: || rows(keys::SWITCH) },
    Table {
        name: "metrics",
        about: "Metrics of the process, which 'linerate up' serves for Prometheus. A change needs a restart.",
        rows: || rows(keys::METRICS),
    },
];

impl Table {
    /// Returns the keys of the table.
    pub fn rows(&self) -> Vec<Row> {
        (self.rows)()
    }

    /// Returns the line that begins the table in a file, as in `[[host.iface]]`.
    pub fn header(&self) -> String {
        let is_single = matches!(self.name, "host.sysctl" | "metrics");
        if is_single { format!("[{}]", self.name) } else { format!("[[{}]]", self.name) }
    }
}

fn rows<T>(keys: &[Key<T>]) -> Vec<Row> {
    let row = |key: &Key<T>| Row {
        name: key.name.to_string(),
        value: match key.takes {
            Takes::Switch => key.takes.toml_type().to_string(),
            Takes::Number(min, i64::MAX) => format!("{}, {min} or more", key.takes.toml_type()),
            Takes::Number(min, max) => format!("{}, {min} to {max}", key.takes.toml_type()),
            takes => format!("{}: {takes}", takes.toml_type()),
        },
        default: match key.unset {
            Unset::Is(value) => value.to_string(),
            Unset::Means(what) => format!("({what})"),
            Unset::Required => "required".to_string(),
        },
        about: key.about.to_string(),
    };
    keys.iter().map(row).collect()
}

fn sysctls() -> Vec<Row> {
    let row = |[name, value, default, about]: [String; 4]| Row { name: format!("\"{name}\""), value, default, about };
    sysctl::documented().into_iter().map(row).collect()
}

const INTRODUCTION: &str = "'linerate up' runs the hosts and switches of a TOML file, 'linerate up --check' checks it. \
    --set and 'linerate host --set' set keys and sysctls of a host as KEY=VALUE. A default in parentheses is a \
    description, not a value.";

/// Returns the page in Markdown.
pub fn markdown() -> String {
    let mut out = format!("# Keys of topology files\n\n{}\n", filled(INTRODUCTION));
    for table in TABLES {
        let _ = write!(out, "\n## `{}`\n\n{}\n\n", table.header(), filled(table.about));
        out += "| key | value | default | meaning |\n|---|---|---|---|\n";
        for Row { name, value, default, about } in table.rows() {
            let cell = |text: &str| text.replace('|', "\\|");
            let _ = writeln!(out, "| `{name}` | {} | {} | {} |", cell(&value), cell(&default), cell(&about));
        }
    }
    out
}

/// Returns the page as a manual page of section 5.
pub fn roff() -> String {
    let mut out = ".TH linerate-keys 5\n.SH NAME\nlinerate-keys \\- keys of topology files\n".to_string();
    let _ = writeln!(out, ".SH DESCRIPTION\n{}", escaped(INTRODUCTION));
    for table in TABLES {
        let _ = writeln!(out, ".SH {}\n{}", escaped(&table.header()), escaped(table.about));
        for Row { name, value, default, about } in table.rows() {
            let [value, default, about] = [value, default, about].map(|text| escaped(&text));
            let _ = writeln!(out, ".TP\n\\fB{}\\fR = {value}\n{about} Default: {default}.", escaped(&name));
        }
    }
    out
}

/// Escapes text for roff.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq")
}

/// Wraps a paragraph to at most 100 columns.
fn filled(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |line| line.len() + 1 + word.len());
        match lines.last_mut() {
            Some(last) if line <= 100 && !last.is_empty() => *last += &format!(" {word}"),
            Some(last) if last.is_empty() => last.push_str(word),
            _ => lines.push(word.to_string()),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::super::{HostConfig, IfaceConfig, MetricsConfig, NeighborConfig, RouteConfig, SwitchFile, read_network};
    use super::keys::{Item, set_key};
    use super::*;
    use std::fmt::Debug;

    /// Setting a key to its documented default changes nothing.
    fn defaults_hold<T: Debug>(keys: &[Key<T>], make: fn() -> T) {
        for key in keys {
            if let Unset::Is(value) = key.unset {
                let mut one = make();
                set_key(keys, &mut one, key.name, &Item::Word(value.to_string())).unwrap();
                // For keys such as tso4, which are an Option, the default is only described, so
                // that there is nothing to set.
                assert_eq!(format!("{one:?}"), format!("{:?}", make()), "{} = {value}", key.name);
            }
        }
    }

    #[test]
    fn documented_defaults_are_the_real_defaults() {
        defaults_hold(keys::HOST, HostConfig::default);
        defaults_hold(keys::IFACE, IfaceConfig::default);
        defaults_hold(keys::ROUTE, RouteConfig::default);
        defaults_hold(keys::NEIGHBOR, NeighborConfig::default);
        defaults_hold(keys::SWITCH, SwitchFile::default);
        defaults_hold(keys::METRICS, MetricsConfig::default);
    }

    /// Every key on the page is accepted in a file, and the error message for a misspelled key
    /// contains the nearest valid key.
    #[test]
    fn every_documented_key_is_accepted() {
        for table in TABLES {
            for row in table.rows() {
                let key = row.name.trim_matches('"').to_string();
                let (name, key) = match key.split_once('.') {
                    Some((group, key)) if table.name == "host" => (format!("host.{group}"), key.to_string()),
                    _ => (table.name.to_string(), row.name.clone()),
                };
                let parent = if name.starts_with("host.") { "[[host]]\n" } else { "" };
                let single = ["host.fpm", "host.isr", "host.mirror", "host.pool", "host.sysctl", "metrics"];
                let header = if single.contains(&name.as_str()) { format!("[{name}]") } else { format!("[[{name}]]") };
                // No key accepts a date. The message is therefore about the value if the key
                // exists.
                let why = read_network(&format!("{parent}{header}\n{key} = 2000-01-01\n"), "t").unwrap_err().what;
                assert!(!why.contains("unknown key") && !why.contains("unknown sysctl"), "{header} {key}: {why}");
            }
        }
        let why = read_network("[[host]]\nsysctll = 1\n", "t").unwrap_err().what;
        assert!(why.contains("'sysctl'"), "{why}");
    }

    #[test]
    fn the_pages_list_every_key() {
        let (markdown, roff) = (markdown(), roff());
        for table in TABLES {
            for row in table.rows() {
                assert!(markdown.contains(&format!("| `{}` |", row.name)), "{}", row.name);
                assert!(roff.contains(&format!("\\fB{}\\fR", escaped(&row.name))), "{}", row.name);
                assert!(row.about.ends_with('.') || row.about.ends_with('?'), "{}: {}", row.name, row.about);
            }
        }
    }
}
