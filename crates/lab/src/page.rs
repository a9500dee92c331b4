//! Results as one self-contained HTML page: tables, charts, and the description of the machine.
//!
//! A [`Page`] takes files by name and content. The JSON of a [`Report`] becomes tables and a chart,
//! an SVG becomes an image, text and other JSON are shown unchanged. All file content is escaped,
//! and an SVG is embedded as an image, in which no script runs.

use crate::env::Environment;
use crate::plot::Chart;
use crate::result::{Figure, Peer, Report, Row, Sheet, is_report};
use crate::table;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Maximum size of a file, in bytes.
pub const FILE_MAX: u64 = 16 << 20;

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;max-width:1200px;margin:2em auto;padding:0 1em;color:#222}
h1{font-size:1.5em}h2{font-size:1.2em;border-top:1px solid #ccc;padding-top:1em;margin-top:2em}
table{border-collapse:collapse;margin:.7em 0;font-size:14px}td,th{padding:.15em .7em;text-align:left;vertical-align:top}
th{border-bottom:1px solid #999}td.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
tr:nth-child(even) td{background:#f6f6f6}pre{background:#f6f6f6;padding:.7em;overflow-x:auto;font-size:13px}
.env{color:#555;font-size:13px;white-space:pre-wrap}.warn{color:#a40000}.wide{overflow-x:auto}img,svg{max-width:100%;height:auto}";

/// Builder of an HTML page.
#[derive(Debug, Clone, Default)]
pub struct Page {
    sections: Vec<Section>,
}

#[derive(Debug, Clone)]
struct Section {
    file: String,
    title: String,
    body: String,
    /// Environment of the report in this section; `None` for a file that is no report.
    env: Option<Environment>,
}

impl Page {
    /// Adds a file. The type follows from the extension: `.json`, `.svg`, else text.
    ///
    /// # Errors
    /// The file is a report that this program cannot read. The page then contains the file as text,
    /// with the reason.
    pub fn add(&mut self, file: &str, content: &str) -> Result<(), String> {
        let kind = file.rsplit_once('.').map_or("", |(_, kind)| kind);
        let text = || format!("<pre>{}</pre>\n", escaped(content));
        let (mut title, mut env, mut refused) = (file.to_owned(), None, Ok(()));
        let body = match kind {
            "json" => match Report::from_json(content) {
                Ok(report) => {
                    title.clone_from(&report.name);
                    let body = of_report(&report);
                    env = Some(report.env);
                    body
                }
                Err(why) if serde_json::from_str(content).is_ok_and(|json| is_report(&json)) => {
                    refused = Err(why.to_string());
                    format!("<p class=\"warn\">shown as text: {}</p>\n{}", escaped(&why.to_string()), text())
                }
                Err(_) => text(),
            },
            "svg" => format!("<img alt=\"{}\" src=\"{}\">\n", escaped(file), image(content)),
            _ => text(),
        };
        self.sections.push(Section { file: file.to_owned(), title, body, env });
        refused
    }

    /// Returns one sentence for each property (machine, kernel, build, revision) in which the
    /// reports differ.
    pub fn differences(&self) -> Vec<String> {
        let reports = self.sections.iter().filter_map(|of| Some((of.file.as_str(), of.env.as_ref()?.origin())));
        let mut found: BTreeMap<(usize, &str), BTreeMap<String, Vec<&str>>> = BTreeMap::new();
        for (file, origin) in reports {
            for (at, (name, value)) in origin.into_iter().enumerate() {
                found.entry((at, name)).or_default().entry(value).or_default().push(file);
            }
        }
        let several = found.into_iter().filter(|(_, values)| values.len() > 1);
        let sentence = |((_, name), values): ((usize, &str), BTreeMap<String, Vec<&str>>)| {
            let values = values.into_iter().map(|(value, files)| format!("{value} ({})", files.join(", ")));
            format!("the results differ in {name}: {}", values.collect::<Vec<_>>().join("; "))
        };
        several.map(sentence).collect()
    }

    /// Returns the number of files added.
    pub fn len(&self) -> usize {
        self.sections.len()
    }

    /// Returns whether no file was added.
    pub fn is_empty(&self) -> bool {
        self.sections.is_empty()
    }

    /// Returns the page with the title `title` as HTML.
    pub fn html(&self, title: &str) -> String {
        let title = escaped(title);
        let mut out = format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<style>\n{STYLE}\n</style></head><body>\n<h1>{title}</h1>\n<ul>\n"
        );
        for (at, section) in self.sections.iter().enumerate() {
            let _ = writeln!(out, "<li><a href=\"#s{at}\">{}</a></li>", escaped(&section.title));
        }
        out += "</ul>\n";
        for difference in self.differences() {
            let _ = writeln!(out, "<p class=\"warn\">{}</p>", escaped(&difference));
        }
        for (at, Section { file, title, body, .. }) in self.sections.iter().enumerate() {
            let _ = write!(out, "<h2 id=\"s{at}\">{}</h2>\n{body}", escaped(title));
            if file != title {
                let _ = writeln!(out, "<p class=\"env\">{}</p>", escaped(file));
            }
        }
        out + "</body></html>\n"
    }
}

fn of_report(report: &Report) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "<p class=\"env\">{}</p>", escaped(&report.env.to_string()));
    for warning in report.env.warnings().iter().filter(|text| text.starts_with("WARNING")) {
        let _ = writeln!(out, "<p class=\"warn\">{}</p>", escaped(warning));
    }
    let baseline = report.beside.as_ref().and_then(|beside| beside.baseline.clone());
    let against = format!("against {}", baseline.unwrap_or_else(|| "the row before".to_owned()));
    grid(&mut out, &["row", "what", "then", "now", "95 %", "unit", "n", &against], report.rows.iter().map(row));
    if !report.peers.is_empty() {
        grid(
            &mut out,
            &["peer", "now", "95 %", "unit", "n", "range", "ours is better by"],
            report.peers.iter().map(peer),
        );
    }
    let floor = &report.noise_floor;
    let _ =
        writeln!(out, "<p>Noise floor (equal sides, built separately): {:.1} %, n {}.</p>", floor.percent(), floor.n);
    if report.rows.iter().any(|row| row.now.is_some()) {
        let _ = writeln!(out, "<div class=\"wide\">{}</div>", Chart::of(report, None).svg());
    }
    if let Some(beside) = &report.beside {
        beside.sheets.iter().for_each(|of| sheet(&mut out, of));
        beside.texts.iter().for_each(|lines| _ = writeln!(out, "<pre>{}</pre>", escaped(&lines.join("\n"))));
    }
    if !report.notes.is_empty() {
        out += "<details><summary>Notes</summary><ul>\n";
        report.notes.iter().for_each(|note| _ = writeln!(out, "<li>{}</li>", escaped(note)));
        out += "</ul></details>\n";
    }
    out
}

/// A table cell: text, or a right-aligned figure.
enum Cell {
    Words(String),
    Figure(String),
}

fn figure_cells(figure: &Figure) -> [Cell; 4] {
    let interval = table::interval(table::number(figure.lo), table::number(figure.hi), figure.n);
    [
        Cell::Figure(table::number(figure.median)),
        Cell::Figure(interval),
        Cell::Words(figure.unit.clone()),
        Cell::Figure(figure.n.to_string()),
    ]
}

fn row(row: &Row) -> Vec<Cell> {
    let then = row.then.as_ref().map_or("-".to_owned(), |then| table::number(then.median));
    let mut cells = vec![Cell::Words(row.id.clone()), Cell::Words(row.title.clone()), Cell::Figure(then)];
    let Some(now) = &row.now else {
        cells.extend([Cell::Figure("-".to_owned()), Cell::Words(row.missing.clone().unwrap_or_default())]);
        return cells;
    };
    cells.extend(figure_cells(now));
    cells.push(Cell::Words(row.vs_previous.as_ref().map_or("-".to_owned(), |change| {
        format!("{} {}", table::spread([change.ratio, change.lo, change.hi], change.n, table::times), change.verdict)
    })));
    cells
}

fn peer(peer: &Peer) -> Vec<Cell> {
    let mut cells = vec![Cell::Words(peer.id.clone())];
    cells.extend(figure_cells(&peer.now));
    cells.extend([Cell::Words(table::range(&peer.now)), Cell::Words(table::better_by(peer))]);
    cells
}

fn sheet(out: &mut String, of: &Sheet) {
    use crate::result::Cell as Given;
    let cell = |cell: &Given| match cell {
        Given::Count(count) => Cell::Figure(count.to_string()),
        Given::Number(figure) => Cell::Figure(table::number(*figure)),
        Given::Text(text) => Cell::Words(text.clone()),
    };
    let _ = writeln!(out, "<h3>{}</h3>", escaped(&of.title));
    let head: Vec<&str> = of.head.iter().map(String::as_str).collect();
    grid(out, &head, of.rows.iter().map(|row| row.iter().map(cell).collect()));
}

fn grid(out: &mut String, head: &[&str], rows: impl Iterator<Item = Vec<Cell>>) {
    *out += "<div class=\"wide\"><table><tr>";
    head.iter().for_each(|of| _ = write!(out, "<th>{}</th>", escaped(of)));
    *out += "</tr>\n";
    for row in rows {
        *out += "<tr>";
        for cell in row {
            let _ = match cell {
                Cell::Words(words) => write!(out, "<td>{}</td>", escaped(&words)),
                Cell::Figure(figure) => write!(out, "<td class=\"n\">{}</td>", escaped(&figure)),
            };
        }
        *out += "</tr>\n";
    }
    *out += "</table></div>\n";
}

/// Escapes text for HTML content and quoted attributes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            _ => out.push(c),
        }
    }
    out
}

/// Returns an SVG as a data URL (RFC 2397), percent-encoded.
fn image(svg: &str) -> String {
    let mut out = "data:image/svg+xml,".to_owned();
    for byte in svg.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'/' | b':' | b' ' | b'=' => {
                out.push(byte.into())
            }
            _ => _ = write!(out, "%{byte:02X}"),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::example;

    #[test]
    fn a_report_has_tables_chart_environment_and_notes() {
        let (report, _) = example();
        let mut page = Page::default();
        page.add("b.json", &report.to_json().unwrap()).unwrap();
        let html = page.html("results");
        for part in [
            "<h2 id=\"s0\">example</h2>",
            "<th>ours is better by</th>",
            "<td>lwip.udp.send</td>",
            "<td class=\"n\">2357</td>",
            "five MACs &lt;fixed columns&gt; &amp; all",
            "<svg xmlns",
            "<li>64-byte frames without FCS</li>",
            "Noise floor (equal sides, built separately): 1.0 %, n 30.",
            "<p class=\"env\">b.json</p>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(
            !html.contains("src=\"http") && !html.contains("<script") && !html.contains("@import"),
            "all of it is here"
        );
    }

    #[test]
    fn file_content_is_escaped() {
        let mut page = Page::default();
        page.add("<b>.txt", "1 < 2 && \"x\" </pre><script>alert(1)</script>").unwrap();
        page.add("p.svg", "<svg onload=\"alert(1)\"><script>alert(2)</script></svg>").unwrap();
        page.add("other.json", "{\"a\": \"</pre><script>\"}").unwrap();
        page.add("broken.json", "{").unwrap();
        let html = page.html("<t>");
        assert!(!html.contains("<script") && !html.contains("onload=\"") && !html.contains("<b>"), "{html}");
        assert!(html.contains("data:image/svg+xml,%3Csvg onload=%22alert"), "{html}");
        assert!(html.contains("<title>&lt;t&gt;</title>") && page.len() == 4 && !page.is_empty());
    }

    #[test]
    fn a_row_without_a_figure_states_the_reason() {
        let (mut report, _) = example();
        report.rows = vec![Row::missing("x", "not here", "this machine has <one> core")];
        let mut page = Page::default();
        page.add("a.json", &report.to_json().unwrap()).unwrap();
        let html = page.html("t");
        assert!(html.contains("this machine has &lt;one&gt; core") && !html.contains("<svg"), "{html}");
    }

    #[test]
    fn reports_of_other_versions_are_rejected_and_other_json_is_not() {
        let mut page = Page::default();
        let why = page.add("later.json", "{\"version\": 3, \"name\": \"<x>\", \"rows\": []}").unwrap_err();
        assert!(why.contains("version 3, this program reads version 2"), "{why}");
        assert!(page.html("t").contains("<p class=\"warn\">shown as text: report has version 3"));
        // The output of `linerate gate --json` has rows and is no report.
        page.add("gate.json", "{\"outcome\": \"fine\", \"rows\": []}").unwrap();
    }

    #[test]
    fn differences_in_machine_or_revision_are_reported() {
        let (report, _) = example();
        let mut page = Page::default();
        let mut add = |file: &str, change: &dyn Fn(&mut Environment)| {
            let mut report = report.clone();
            change(&mut report.env);
            page.add(file, &report.to_json().unwrap()).unwrap();
            page.differences()
        };
        assert!(add("a.json", &|_| ()).is_empty() && add("b.json", &|env| env.load = [9.0; 3]).is_empty());
        let found = add("c.json", &|env| env.build.git_rev = "<other>".into());
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("the results differ in revision: ") && found[0].contains(" (a.json, b.json)"));
        let found = add("d.json", &|env| env.cores = 77);
        assert!(found[0].starts_with("the results differ in machine: ") && found[0].contains("77 cores"), "{found:?}");
        assert!(page.html("t").contains("&lt;other&gt; (c.json)"));
    }
}
