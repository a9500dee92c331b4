//! Writes the chart as SVG 1.1: rectangles, strokes, circles and monospace text, without script or
//! style sheet.

use std::fmt::Write;

use super::scale::Scale;
use super::{Chart, Line, Panel, Whose};
use crate::table;

pub(super) const FONT: f64 = 13.0;
/// Reserved width of a character. In common monospace fonts a character is 0.6 of its size wide.
const CHAR: f64 = FONT * 0.62;
pub(super) const LINE: f64 = 24.0;
pub(super) const MARGIN: f64 = 16.0;
const AXIS: f64 = 460.0;
pub(super) const GAP: f64 = 21.0;
pub(super) const INK: &str = "#1b1f24";
pub(super) const FAINT: &str = "#d5d9de";
const OURS: &str = "#0b62c4";
const PEERS: &str = "#8a5a00";

/// Horizontal positions shared by all panels.
struct Columns {
    label: f64,
    axis: f64,
    value: f64,
    width: f64,
}

impl Columns {
    fn of(chart: &Chart) -> Columns {
        let lines = || chart.panels.iter().flat_map(|panel| &panel.lines);
        let axis = MARGIN + text_width(lines().map(|line| line.label.as_str())) + GAP;
        let value = axis + AXIS + GAP;
        // The unit is printed under the values.
        let units = chart.panels.iter().map(|panel| panel.unit.as_str());
        let beside = value + text_width(lines().map(|line| line.value.as_str()).chain(units));
        let alone = MARGIN + text_width([chart.title.as_str(), chart.foot.as_str()].into_iter());
        Columns { label: MARGIN, axis, value, width: beside.max(alone) + MARGIN }
    }
}

pub(super) fn text_width<'a>(texts: impl Iterator<Item = &'a str>) -> f64 {
    texts.map(|text| text.chars().count()).max().unwrap_or(0) as f64 * CHAR
}

impl Chart {
    /// Returns the chart as SVG.
    pub fn svg(&self) -> String {
        let columns = Columns::of(self);
        let mut body = String::new();
        let mut y = MARGIN + LINE;
        text(&mut body, columns.label, y - 8.0, "start", "bold", INK, &self.title);
        for panel in &self.panels {
            y = draw_panel(&mut body, panel, &columns, y + 6.0);
        }
        let mut width = columns.width;
        for curves in &self.curves {
            let (across, down, drawn) = curves.drawn();
            let _ = writeln!(body, "<g transform=\"translate(0,{y:.0})\">\n{drawn}</g>");
            (width, y) = (width.max(across), y + down);
        }
        y += LINE;
        text(&mut body, columns.label, y - 6.0, "start", "normal", INK, &self.foot);
        page(width, y + MARGIN, &body)
    }
}

/// Returns a complete SVG document.
pub(super) fn page(width: f64, height: f64, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"monospace\" font-size=\"{FONT}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{body}</svg>\n"
    )
}

/// Draws one panel downward from `top` and returns its lower edge.
fn draw_panel(body: &mut String, panel: &Panel, columns: &Columns, top: f64) -> f64 {
    let scale = Scale::new(panel.axis, &panel.values());
    let bottom = top + LINE * panel.lines.len() as f64;
    let ticks = readable_ticks(&scale, columns.axis);
    for (x, _) in &ticks {
        stroke(body, *x, top, *x, bottom, FAINT, 1.0);
    }
    for (i, line) in panel.lines.iter().enumerate() {
        draw_line(body, line, &scale, columns, top + LINE * (i as f64 + 0.5));
    }
    stroke(body, columns.axis, bottom, columns.axis + AXIS, bottom, INK, 1.0);
    for (x, label) in &ticks {
        text(body, *x, bottom + 16.0, "middle", "normal", INK, label);
    }
    text(body, columns.value, bottom + 16.0, "start", "normal", INK, &panel.unit);
    bottom + LINE
}

/// Returns the ticks with labels that overlap neither the label to the left nor the adjacent
/// columns.
fn readable_ticks(scale: &Scale, left: f64) -> Vec<(f64, String)> {
    let mut free_from = f64::NEG_INFINITY;
    let mut ticks = Vec::new();
    for value in scale.ticks(8) {
        let (x, label) = (left + AXIS * scale.place(value), tick_label(value));
        let half = label.chars().count() as f64 * CHAR / 2.0;
        if x - half >= free_from && x + half <= left + AXIS + GAP - CHAR {
            free_from = x + half + CHAR;
            ticks.push((x, label));
        }
    }
    ticks
}

/// Formats a round value without the padding digits of [`table::number`].
pub(super) fn tick_label(value: f64) -> String {
    let short = crate::cfmt::general(value, 6);
    if short.contains('e') { table::number(value) } else { short }
}

fn draw_line(body: &mut String, line: &Line, scale: &Scale, columns: &Columns, y: f64) {
    let x = |value: f64| columns.axis + AXIS * scale.place(value);
    let (colour, weight) = match line.whose {
        Whose::Ours => (OURS, "bold"),
        Whose::Peers => (PEERS, "normal"),
    };
    text(body, columns.label, y + 4.5, "start", weight, INK, &line.label);
    text(body, columns.value, y + 4.5, "start", weight, colour, &line.value);
    match scale.zero() {
        Some(zero) => stroke(body, columns.axis + AXIS * zero, y, x(line.median), y, FAINT, 6.0),
        None => stroke(body, columns.axis, y, x(line.median), y, FAINT, 1.0),
    }
    let (lo, hi) = (x(line.lo), x(line.hi));
    stroke(body, lo, y, hi, y, colour, 2.0);
    for end in [lo, hi] {
        stroke(body, end, y - 5.0, end, y + 5.0, colour, 1.5);
    }
    let _ = writeln!(body, "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>", x(line.median));
    if let Some(then) = line.then.map(x) {
        let _ = writeln!(
            body,
            "<path d=\"M{:.1} {y:.1}l6 -6l6 6l-6 6z\" fill=\"#ffffff\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
            then - 6.0
        );
    }
}

pub(super) fn stroke(body: &mut String, x1: f64, y1: f64, x2: f64, y2: f64, colour: &str, width: f64) {
    let _ = writeln!(
        body,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>"
    );
}

pub(super) fn text(body: &mut String, x: f64, y: f64, anchor: &str, weight: &str, colour: &str, words: &str) {
    let words = escape(words);
    let _ = writeln!(
        body,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-weight=\"{weight}\" fill=\"{colour}\" xml:space=\"preserve\">{words}</text>"
    );
}

/// Escapes the five special characters of XML. Control characters, which XML 1.0 does not allow,
/// become spaces.
fn escape(words: &str) -> String {
    let mut safe = String::with_capacity(words.len());
    for c in words.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&apos;"),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}
