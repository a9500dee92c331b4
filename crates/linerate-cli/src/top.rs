//! `top` of running hosts: shows live rates of their ports, workstreams, drops and stages.
//!
//! ```text
//! control sockets -> Reading (a host's counters) -> Rates (of two readings) -> lines -> screen,
//! batch, or JSON
//! ```

mod rates;
mod view;
mod watched;

use crate::control::own_control_dir;
use crate::exit::{Exit, Fault, print};
use crate::pipe::{TopArgs, WatchArgs};
use anyhow::Context;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::text::Text;
use ratatui::widgets::Paragraph;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};
use watched::Watched;

/// Polling interval of the keyboard.
const KEYS: Duration = Duration::from_millis(50);

/// Returns whether the arguments request the counters of running hosts, rather than statistics of a
/// stream of frames.
pub fn is_meant(args: &TopArgs) -> bool {
    let WatchArgs { url, batch, .. } = &args.watch;
    !url.is_empty() || *batch || (args.stream.files.is_empty() && io::stdin().is_terminal())
}

/// Runs `top` on running hosts.
pub fn run(args: &TopArgs) -> anyhow::Result<Exit> {
    let WatchArgs { url, batch, interval, times, ledger } = &args.watch;
    let mut hosts: Vec<Watched> = urls(url)?.iter().map(|url| Watched::new(url)).collect();
    let mut answered = 0;
    for host in &mut hosts {
        answered += usize::from(host.look());
    }
    if answered == 0 {
        let why = hosts.iter().filter_map(|host| host.trouble.clone()).collect::<Vec<_>>().join("; ");
        return Err(Fault { exit: Exit::Nobody, what: format!("top: no host answers: {why}") }.into());
    }
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    if *ledger {
        hosts.iter().for_each(|host| host.set_ledger(true));
    }
    let mut watch = Watch { hosts, interval: *interval, times: *times, json: args.json };
    let done = if *batch || args.json || !io::stdout().is_terminal() { watch.batch() } else { watch.screen() };
    if *ledger {
        watch.hosts.iter().for_each(|host| host.set_ledger(false));
    }
    done
}

/// Returns the control sockets to watch: those given, else the one in $LINERATE_CTL, else all
/// sockets in the directory that `linerate up` uses.
fn urls(given: &[String]) -> anyhow::Result<Vec<String>> {
    if !given.is_empty() {
        return Ok(given.iter().map(|url| crate::control::socket_of(url)).collect());
    }
    if let Some(url) = std::env::var("LINERATE_CTL").ok().filter(|url| !url.is_empty()) {
        return Ok(vec![crate::control::socket_of(&url)]);
    }
    let dir = own_control_dir();
    let sockets = std::fs::read_dir(&dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<String> = sockets
        .filter(|path| path.extension().is_some_and(|kind| kind == "sock"))
        .map(|path| path.display().to_string())
        .collect();
    found.sort();
    if found.is_empty() {
        let what = format!("top: no running host in {}: give --url, or frames on standard input", dir.display());
        return Err(Fault { exit: Exit::Nobody, what }.into());
    }
    Ok(found)
}

/// Sleeps for `time`; returns `false` if a stop is requested.
fn slept(time: Duration) -> bool {
    let until = Instant::now() + time;
    while Instant::now() < until && !dispatch::stop_requested() {
        std::thread::sleep(KEYS.min(until.saturating_duration_since(Instant::now())));
    }
    !dispatch::stop_requested()
}

struct Watch {
    hosts: Vec<Watched>,
    interval: Duration,
    times: Option<u64>,
    json: bool,
}

impl Watch {
    /// Reads the counters of all hosts; returns whether any host replied.
    fn look(&mut self) -> bool {
        self.hosts.iter_mut().fold(false, |any, host| host.look() | any)
    }

    /// Prints the rates of all hosts after each interval, as text or as JSON lines.
    fn batch(&mut self) -> anyhow::Result<Exit> {
        let mut left = self.times.unwrap_or(u64::MAX);
        while left > 0 && slept(self.interval) {
            left -= 1;
            let any = self.look();
            let mut out = String::new();
            for host in &self.hosts {
                match (self.json, &host.rates) {
                    (true, Some(rates)) => out += &format!("{}\n", rates.json(&host.name)),
                    (true, None) => {}
                    (false, _) => view::lines(host).iter().for_each(|line| out += &format!("{}\n", line.text())),
                }
            }
            print(&if self.json { out } else { out + "\n" })?;
            if !any {
                return Ok(Exit::Nobody);
            }
        }
        Ok(Exit::Fine)
    }

    /// Shows the full-screen view until q or Ctrl-C is pressed, or after the requested number of
    /// updates.
    fn screen(&mut self) -> anyhow::Result<Exit> {
        let mut terminal = ratatui::try_init().context("cannot open the terminal")?;
        let done = self.show(&mut terminal);
        ratatui::restore();
        done
    }

    fn show(&mut self, terminal: &mut ratatui::DefaultTerminal) -> anyhow::Result<Exit> {
        let (mut next, mut first, mut stopped) = (Instant::now() + self.interval, 0u16, false);
        let mut left = self.times.unwrap_or(u64::MAX);
        loop {
            if !stopped && Instant::now() >= next {
                if !self.look() {
                    return Ok(Exit::Nobody);
                }
                left -= 1;
                next = Instant::now() + self.interval;
            }
            let lines: Vec<_> = self.hosts.iter().flat_map(view::lines).collect();
            let most = (lines.len() as u16).saturating_sub(1);
            first = first.min(most);
            let text = Text::from_iter(
                std::iter::once(view::keys(self.interval, stopped)).chain(lines).map(view::Line::drawn),
            );
            terminal.draw(|frame| frame.render_widget(Paragraph::new(text).scroll((first, 0)), frame.area()))?;
            if left == 0 || dispatch::stop_requested() {
                return Ok(Exit::Fine);
            }
            if !event::poll(KEYS)? {
                continue;
            }
            let Event::Key(key) = event::read()? else { continue };
            if key.kind != KeyEventKind::Press {
                continue;
            }
            match key.code {
                KeyCode::Char('q') | KeyCode::Esc => return Ok(Exit::Fine),
                KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Ok(Exit::Fine),
                KeyCode::Char(' ') => stopped = !stopped,
                KeyCode::Char('l') => self.toggle_ledger(),
                KeyCode::Char('+') => self.interval = (self.interval / 2).max(Duration::from_millis(100)),
                KeyCode::Char('-') => self.interval = (self.interval * 2).min(Duration::from_secs(60)),
                KeyCode::Down | KeyCode::Char('j') => first = first.saturating_add(1),
                KeyCode::Up | KeyCode::Char('k') => first = first.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn toggle_ledger(&self) {
        let on = !self.hosts.iter().any(Watched::has_ledger);
        self.hosts.iter().for_each(|host| host.set_ledger(on));
    }
}
