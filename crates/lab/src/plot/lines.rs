//! Curves over a common axis: one quantity against another, a polyline for each subject, its name where it ends.

use super::Axis;
use super::scale::Scale;
use super::svg::{FAINT, FONT, GAP, INK, LINE, MARGIN, page, stroke, text, text_width, tick_label};
use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
/// Told apart without colour by their names at the right end.
const COLOURS: [&str; 6] = ["#b3261e", "#c77700", "#0b62c4", "#1d7d3f", "#6b3fa0", "#555b63"];

/// One subject.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Its name.
    pub label: String,
    /// Across, up.
    pub points: Vec<(f64, f64)>,
}

/// What is drawn.
#[derive(Debug, Clone, PartialEq)]
pub struct LineChart {
    /// Above everything.
    pub title: String,
    /// What goes across.
    pub across: String,
    /// What goes up.
    pub up: String,
    /// The axis across; the one up is linear.
    pub axis: Axis,
    /// Values across that are marked, each with its label; none: round values.
    pub marks: Vec<(f64, String)>,
    /// The curves.
    pub curves: Vec<Curve>,
    /// Below everything.
    pub foot: Vec<String>,
}

/// Where things are.
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
    /// The picture's text.
    pub fn svg(&self) -> String {
        let (width, height, body) = self.drawn();
        page(width, height, &body)
    }

    /// Width, height, and what is drawn within them.
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

    /// Where each curve's name stands: beside its end, and clear of the others.
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
