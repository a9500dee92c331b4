//! Line chart: one quantity against another, a polyline for each subject, with its name at the end.

use super::Axis;
use super::scale::Scale;
use super::svg::{FAINT, FONT, GAP, INK, LINE, MARGIN, page, stroke, text, text_width, tick_label};
use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
/// Colours of the curves. The names at the right end distinguish curves without colour.
const COLOURS: [&str; 6] = ["#b3261e", "#c77700", "#0b62c4", "#1d7d3f", "#6b3fa0", "#555b63"];

/// The curve of one subject.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Name of the subject.
    pub label: String,
    /// Points as (x, y).
    pub points: Vec<(f64, f64)>,
}

/// The content of a line chart.
#[derive(Debug, Clone, PartialEq)]
pub struct LineChart {
    /// Title, at the top.
    pub title: String,
    /// Label of the horizontal axis.
    pub across: String,
    /// Label of the vertical axis.
    pub up: String,
    /// Kind of the horizontal axis; the vertical axis is linear.
    pub axis: Axis,
    /// Tick values of the horizontal axis with their labels; empty for round values.
    pub marks: Vec<(f64, String)>,
    /// Curves, one per subject.
    pub curves: Vec<Curve>,
    /// Footer lines, at the bottom.
    pub foot: Vec<String>,
}

/// Position and scales of the plot area.
struct Frame {
    left: f64,
    top: f64,
    across: Scale,
    up: Scale,
}

impl Frame {
    fn x(&self, value: f64) -> f64 {
        self.left + WIDTH * self.across.place(value)
    }

    fn y(&self, value: f64) -> f64 {
        self.top + HEIGHT * (1.0 - self.up.place(value))
    }
}

impl LineChart {
    /// Returns the chart as SVG.
    pub fn svg(&self) -> String {
        let (width, height, body) = self.drawn();
        page(width, height, &body)
    }

    /// Returns width, height and the SVG elements.
    pub(super) fn drawn(&self) -> (f64, f64, String) {
        let values = |of: fn(&(f64, f64)) -> f64| -> Vec<f64> {
            self.curves.iter().flat_map(|curve| &curve.points).map(of).collect()
        };
        let (across, up) = (Scale::new(self.axis, &values(|p| p.0)), Scale::new(Axis::Linear, &values(|p| p.1)));
        let labels: Vec<String> = up.ticks(8).into_iter().map(tick_label).collect();
        let left = MARGIN + text_width(labels.iter().map(String::as_str)) + GAP;
        let frame = Frame { left, top: MARGIN + 2.0 * LINE + 8.0, across, up };
        let mut body = String::new();
        text(&mut body, MARGIN, MARGIN + LINE - 8.0, "start", "bold", INK, &self.title);
        text(&mut body, MARGIN, MARGIN + 2.0 * LINE - 8.0, "start", "normal", INK, &self.up);
        self.grid(&mut body, &frame);
        self.draw(&mut body, &frame);
        let bottom = frame.top + HEIGHT;
        text(&mut body, left + WIDTH / 2.0, bottom + 16.0 + LINE, "middle", "normal", INK, &self.across);
        let mut y = bottom + 16.0 + 2.0 * LINE;
        for line in &self.foot {
            text(&mut body, MARGIN, y, "start", "normal", INK, line);
            y += LINE;
        }
        let names = left + WIDTH + GAP + text_width(self.curves.iter().map(|curve| curve.label.as_str()));
        let words = MARGIN + text_width(self.foot.iter().map(String::as_str));
        (names.max(words) + MARGIN, y - LINE + MARGIN, body)
    }

    fn grid(&self, body: &mut String, frame: &Frame) {
        let bottom = frame.top + HEIGHT;
        for value in frame.up.ticks(8) {
            let y = frame.y(value);
            stroke(body, frame.left, y, frame.left + WIDTH, y, FAINT, 1.0);
            text(body, frame.left - GAP / 2.0, y + 4.5, "end", "normal", INK, &tick_label(value));
        }
        let round = || frame.across.ticks(8).into_iter().map(|value| (value, tick_label(value))).collect();
        let marks: Vec<(f64, String)> = if self.marks.is_empty() { round() } else { self.marks.clone() };
        for (value, label) in &marks {
            let x = frame.x(*value);
            stroke(body, x, frame.top, x, bottom, FAINT, 1.0);
            text(body, x, bottom + 16.0, "middle", "normal", INK, label);
        }
        stroke(body, frame.left, bottom, frame.left + WIDTH, bottom, INK, 1.0);
        stroke(body, frame.left, frame.top, frame.left, bottom, INK, 1.0);
    }

    fn draw(&self, body: &mut String, frame: &Frame) {
        let places = self.name_places(frame);
        for ((curve, colour), place) in self.curves.iter().zip(COLOURS.iter().cycle()).zip(places) {
            let dots = curve.points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
            let dots: Vec<(f64, f64)> = dots.map(|(x, y)| (frame.x(*x), frame.y(*y))).collect();
            let line: Vec<String> = dots.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(
                body,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
                line.join(" ")
            );
            for (x, y) in &dots {
                let _ = writeln!(body, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{colour}\"/>");
            }
            text(body, frame.left + WIDTH + GAP / 2.0, place, "start", "bold", colour, &curve.label);
        }
    }

    /// Returns the y position of each curve's name: next to the end of the curve, without overlaps.
    fn name_places(&self, frame: &Frame) -> Vec<f64> {
        let end = |curve: &Curve| curve.points.last().map_or(frame.top + HEIGHT, |(_, y)| frame.y(*y));
        let mut order: Vec<(usize, f64)> = self.curves.iter().map(end).enumerate().collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1));
        let mut places = vec![0.0; order.len()];
        let mut above = f64::INFINITY;
        for (curve, y) in order {
            above = (y + 4.5).min(above - FONT - 2.0);
            if let Some(place) = places.get_mut(curve) {
                *place = above;
            }
        }
        places
    }
}
