//! Formats a host's rates as lines, both for a screen and for a file.

use super::rates::Rates;
use super::watched::Watched;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line as Drawn;
use std::time::Duration;

/// Maximum number of drop reasons and stages shown.
const MOST: usize = 10;
/// Maximum width of a bar, in characters.
const BAR: usize = 20;

/// Type of a line, which selects its style.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Title,
    Head,
    Row,
    Bad,
}

/// Line of text with a style.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    kind: Kind,
    text: String,
}

impl Line {
    /// Returns the line as written to a file.
    pub fn text(&self) -> &str {
        self.text.trim_end()
    }

    /// Returns the line as drawn on the screen.
    pub fn drawn(self) -> Drawn<'static> {
        let style = match self.kind {
            Kind::Title => Style::new().add_modifier(Modifier::BOLD),
            Kind::Head => Style::new().add_modifier(Modifier::REVERSED),
            Kind::Row => Style::new(),
            Kind::Bad => Style::new().add_modifier(Modifier::BOLD).fg(ratatui::style::Color::Red),
        };
        Drawn::styled(self.text, style)
    }
}

fn line(kind: Kind, text: String) -> Line {
    Line { kind, text }
}

/// Returns the line that lists the keys.
pub fn keys(interval: Duration, stopped: bool) -> Line {
    let state = if stopped { "stopped" } else { "every" };
    let text = format!(
        "linerate top, {state} {:.1} s   q quit  space stop  l ledger  +/- interval  up/down",
        interval.as_secs_f64()
    );
    line(Kind::Row, text)
}

/// Returns the lines that show the rates of a host, or its error.
pub fn lines(host: &Watched) -> Vec<Line> {
    let title = |more: &str| line(Kind::Title, format!("{}  {more}", host.name));
    match (&host.rates, &host.trouble) {
        (_, Some(why)) => vec![title(""), line(Kind::Bad, format!("  no reply: {why}"))],
        (None, None) => vec![title("reading counters")],
        (Some(rates), None) => {
            let [used, all] = rates.buffers;
            let mut lines = vec![title(&format!("{used} of {all} buffers in use"))];
            ports(rates, host, &mut lines);
            workstreams(rates, &mut lines);
            drops(rates, &mut lines);
            stages(rates, &mut lines);
            lines
        }
    }
}

fn ports(rates: &Rates, host: &Watched, lines: &mut Vec<Line>) {
    let head = format!(
        "  {:<12} {:>9} {:>9} {:>9} {:>9} {:>8}  in + out, recent",
        "port", "in f/s", "in b/s", "out f/s", "out b/s", "lost/s"
    );
    lines.push(line(Kind::Head, head));
    for port in &rates.ports {
        let [rx, rx_bits, tx, tx_bits] = port.rates.map(short);
        let past = lab::table::sparkline(&host.history.of(&port.name));
        let kind = if port.lost > 0.0 || port.gone.is_some() { Kind::Bad } else { Kind::Row };
        let gone = port.gone.as_ref().map(|why| format!("  gone {why}")).unwrap_or_default();
        let lost = short(port.lost);
        lines.push(line(
            kind,
            format!("  {:<12} {rx:>9} {rx_bits:>9} {tx:>9} {tx_bits:>9} {lost:>8}  {past}{gone}", port.name),
        ));
    }
}

fn workstreams(rates: &Rates, lines: &mut Vec<Line>) {
    if rates.work.is_empty() {
        return;
    }
    let head = format!(
        "  {:<12} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8}",
        format!("netisr {}", rates.mode),
        "direct/s",
        "hybrid/s",
        "queued/s",
        "dropped/s",
        "queue",
        "max"
    );
    lines.push(line(Kind::Head, head));
    for work in &rates.work {
        let [direct, hybrid, queued, refused] = work.rates.map(short);
        let [length, most] = work.length;
        let name = format!("{} {}", work.number, work.protocol);
        let kind = if work.rates[3] > 0.0 { Kind::Bad } else { Kind::Row };
        lines.push(line(
            kind,
            format!("  {name:<12} {direct:>9} {hybrid:>9} {queued:>9} {refused:>9} {length:>8} {most:>8}"),
        ));
    }
}

fn drops(rates: &Rates, lines: &mut Vec<Line>) {
    if rates.drops.is_empty() {
        return;
    }
    lines.push(line(Kind::Head, format!("  {:<42} {:>9} {:>12}", "drop reason", "/s", "total")));
    for (name, rate, all) in rates.drops.iter().take(MOST) {
        lines.push(line(Kind::Row, format!("  {name:<42} {:>9} {all:>12}", short(*rate))));
    }
}

fn stages(rates: &Rates, lines: &mut Vec<Line>) {
    if rates.stages.is_empty() {
        return;
    }
    lines.push(line(Kind::Head, format!("  {:<30} {:>10} {:>7}", "stage", "ticks/unit", "share")));
    for stage in rates.stages.iter().take(MOST) {
        let bar = "#".repeat((stage.share * BAR as f64).round() as usize);
        let share = 100.0 * stage.share;
        lines.push(line(Kind::Row, format!("  {:<30} {:>10.1} {share:>6.1}% {bar}", stage.name, stage.each)));
    }
}

/// Formats a number in at most seven characters.
fn short(value: f64) -> String {
    let scaled = [(1e9, " G"), (1e6, " M"), (1e3, " k")].into_iter().find(|(unit, _)| value >= *unit);
    match scaled {
        Some((unit, name)) => {
            format!("{:.4}", value / unit).chars().take(5).collect::<String>().trim_end_matches('.').to_owned() + name
        }
        None if value == 0.0 || value >= 99.95 => format!("{value:.0}"),
        None => format!("{value:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::rates::tests::reading;
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::text::Text;
    use ratatui::widgets::Paragraph;
    use std::time::Instant;

    fn host() -> Watched {
        let start = Instant::now();
        let mut host = Watched::new("/tmp/x/alpha.sock");
        let rates = Rates::between(&reading(start, 0, 0), &reading(start + Duration::from_secs(1), 1_234_500, 50));
        host.history.add(&rates);
        host.rates = Some(rates);
        host
    }

    #[test]
    fn active_counters_have_lines() {
        let text: Vec<String> = lines(&host()).iter().map(|line| line.text().to_owned()).collect();
        assert_eq!(text[0], "alpha  5 of 4096 buffers in use");
        assert!(text[2].starts_with("  eth0           1.234 M   632.0 M   1.234 M   632.0 M  12.34 k"), "{}", text[2]);
        assert!(text[3].starts_with("  netisr deferred"), "{}", text[3]);
        assert_eq!(text[4], "  0 ip                 0         0      50.0         0        3       12");
        assert!(text[6].contains("inet.arp.in.ignored") && text[6].contains("123451"), "{}", text[6]);
        assert_eq!(text[9], "  inet::ip4                            30.0   75.0% ###############");
    }

    #[test]
    fn a_missing_reply_is_shown() {
        let host = Watched { trouble: Some("connection refused".to_owned()), rates: None, ..host() };
        assert_eq!(lines(&host)[1].text(), "  no reply: connection refused");
        let fresh = Watched { rates: None, ..self::host() };
        assert_eq!(lines(&fresh)[0].text(), "alpha  reading counters");
    }

    #[test]
    fn a_screen_of_any_size_is_drawn() {
        for (width, height) in [(100, 30), (20, 3), (1, 1)] {
            let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
            let all = std::iter::once(keys(Duration::from_secs(1), false)).chain(lines(&host()));
            let text = Text::from_iter(all.map(Line::drawn));
            terminal.draw(|frame| frame.render_widget(Paragraph::new(text), frame.area())).unwrap();
            let seen: String = terminal.backend().buffer().content().iter().map(|cell| cell.symbol()).collect();
            assert!(seen.starts_with(if width > 10 { "linerate top" } else { "l" }), "{seen}");
        }
    }

    #[test]
    fn numbers_are_short() {
        let of = [0.0, 0.25, 99.9, 150.4, 999.0, 1000.0, 123_456.0, 99_999_999.0, 1e12];
        assert_eq!(of.map(short), ["0", "0.2", "99.9", "150", "999", "1.000 k", "123.4 k", "100.0 M", "1000 G"]);
    }
}
