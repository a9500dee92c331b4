//! The text report in the layout of stock iperf3: a line per stream and interval, sums over the
//! streams, and at the end the totals of sender and receiver.

use super::stream::{Datagrams, Stream};
use super::test::{Role, Test};
use crate::streams::StreamInfo;

/// Counts of one stream in one interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamInterval {
    pub(super) id: u32,
    pub(super) is_sender: bool,
    pub(super) bytes: u64,
    pub(super) retransmits: Option<u64>,
    pub(super) info: Option<StreamInfo>,
    pub(super) datagrams: Datagrams,
}

/// One interval of the report; `from` and `to` are in seconds since counting began.
#[derive(Debug)]
pub(super) struct Interval {
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) is_omitted: bool,
    pub(super) rows: Vec<StreamInterval>,
}

/// Totals of a stream, counted by its sending or its receiving end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EndRow {
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    pub(super) retransmits: Option<u64>,
    pub(super) datagrams: Datagrams,
}

/// Formats a value with a unit, such as `902 MBytes` (powers of 1024) or `7.57 Gbits/sec` (powers
/// of 1000), with a number of up to four characters as in iperf3.
fn scaled(value: f64, step: f64, unit: &str) -> String {
    let mut value = value;
    let mut prefix = "";
    for next in ["K", "M", "G", "T"] {
        if value < step {
            break;
        }
        value /= step;
        prefix = next;
    }
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:>4.digits$} {prefix}{unit}")
}

/// Unit of rates in the report (-f): one of `kmgt` for bits in powers of 1000, or of `KMGT` for
/// bytes in powers of 1024.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateUnit(char);

impl RateUnit {
    /// Returns the unit for a letter of `kmgtKMGT`; `None` for any other letter.
    pub fn new(letter: char) -> Option<RateUnit> {
        "kmgtKMGT".contains(letter).then_some(RateUnit(letter))
    }

    fn text(self, bits_per_s: f64) -> String {
        let RateUnit(letter) = self;
        let power = "KMGT".find(letter.to_ascii_uppercase()).map_or(1, |at| at as i32 + 1);
        let (value, unit) = match letter.is_ascii_uppercase() {
            true => (bits_per_s / 8.0 / 1024f64.powi(power), "Bytes"),
            false => (bits_per_s / 1000f64.powi(power), "bits"),
        };
        let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
        format!("{value:>4.digits$} {}{unit}/sec", letter.to_ascii_uppercase())
    }
}

pub(super) fn rate(bytes: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { bytes as f64 * 8.0 / seconds } else { 0.0 }
}

/// Returns the percentage of datagrams that were lost.
pub(super) fn percent(datagrams: &Datagrams) -> f64 {
    if datagrams.packets == 0 { 0.0 } else { 100.0 * datagrams.lost as f64 / datagrams.packets as f64 }
}

/// Formats two significant digits, like C's `%.2g`.
fn two_digits(value: f64) -> String {
    if value <= 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let exponent = format!("{value:.1e}").split_once('e').and_then(|(_, e)| e.parse::<i32>().ok()).unwrap_or(0);
    if !(-4..2).contains(&exponent) {
        let digits = format!("{value:.1e}");
        let (digits, _) = digits.split_once('e').unwrap_or((&digits, ""));
        let digits = digits.strip_suffix(".0").unwrap_or(digits);
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let places = usize::try_from(1 - exponent).unwrap_or(0);
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn lost_of(datagrams: &Datagrams) -> String {
    let share = two_digits(percent(datagrams));
    format!("  {:5.3} ms  {}/{} ({share}%)  ", datagrams.jitter_s * 1e3, datagrams.lost, datagrams.packets)
}

/// Sums up the datagram counters of several streams; the jitter is their mean, as in stock iperf3.
pub(super) fn sum_of<'a>(all: impl Iterator<Item = &'a Datagrams>) -> Datagrams {
    let mut count = 0.0f64;
    let mut sum = all.fold(Datagrams::default(), |mut sum, one| {
        count += 1.0;
        sum.packets = sum.packets.saturating_add(one.packets);
        sum.lost = sum.lost.saturating_add(one.lost);
        sum.out_of_order = sum.out_of_order.saturating_add(one.out_of_order);
        sum.jitter_s += one.jitter_s;
        sum
    });
    sum.jitter_s /= count.max(1.0);
    sum
}

const RULER: &str = "- - - - - - - - - - - - - - - - - - - - - - - - -";
/// Blanks for columns that only the rows of the other end (sender or receiver) contain.
const BLANK: &str = "                  ";

impl Stream {
    /// Returns the totals of the sending and of the receiving end. `seconds` is the time for which
    /// this side counted.
    pub(super) fn both_ends(&self, seconds: f64) -> [EndRow; 2] {
        let (counted, peer) = (self.counted(), &self.peer);
        let own = EndRow { bytes: self.bytes, seconds, retransmits: self.retransmits(), datagrams: counted };
        let theirs = EndRow {
            bytes: peer.bytes,
            seconds: if peer.seconds > 0.0 { peer.seconds } else { seconds },
            retransmits: peer.retransmits,
            datagrams: Datagrams {
                packets: peer.packets,
                lost: peer.lost,
                jitter_s: peer.jitter_s,
                ..Datagrams::default()
            },
        };
        let [mut sender, receiver] = if self.is_sender { [own, theirs] } else { [theirs, own] };
        (sender.datagrams.lost, sender.datagrams.jitter_s) = (0, 0.0);
        [sender, receiver]
    }
}

impl Test {
    /// Returns the tag of a row in a bidirectional test, which states whether this side sends or
    /// receives on the stream.
    fn tag(&self, is_sender: bool) -> &'static str {
        match (self.params.bidir, self.role, is_sender) {
            (false, ..) => "",
            (true, Role::Client, true) => "[TX-C]",
            (true, Role::Client, false) => "[RX-C]",
            (true, Role::Server, true) => "[TX-S]",
            (true, Role::Server, false) => "[RX-S]",
        }
    }

    pub(super) fn head_lines(&mut self) {
        let heads: Vec<(u32, _)> = self.streams.iter().map(|stream| (stream.id, stream.ends)).collect();
        for (id, ends) in heads {
            let (local, peer) = (ends.local, ends.peer);
            let at =
                format!("local {} port {} connected to {} port {}", local.ip(), local.port(), peer.ip(), peer.port());
            self.line(&format!("[{id:3}] {at}"));
        }
    }

    fn title_line(&mut self, rest: &str) {
        let role = if self.params.bidir { "[Role]" } else { "" };
        self.line(&format!("[ ID]{role} Interval           Transfer     Bitrate{rest}"));
    }

    fn interval_title(&mut self) {
        let (udp, sends) = (self.params.is_udp(), self.sends_at_all());
        self.title_line(match (udp, sends) {
            (true, true) if !self.params.bidir => "         Total Datagrams",
            (true, _) => "         Jitter    Lost/Total Datagrams",
            (false, true) => "         Retr  Cwnd",
            (false, false) => "",
        });
    }

    fn row_line(&mut self, id: &str, is_sender: bool, [from, to]: [f64; 2], bytes: u64, tail: &str) {
        let transfer = scaled(bytes as f64, 1024.0, "Bytes");
        let bits_per_s = rate(bytes, to - from);
        let bitrate = self.unit.map_or_else(|| scaled(bits_per_s, 1000.0, "bits/sec"), |unit| unit.text(bits_per_s));
        let tag = self.tag(is_sender);
        self.line(&format!("[{id:>3}]{tag} {from:6.2}-{to:<6.2} sec  {transfer}  {bitrate}{tail}"));
    }

    pub(super) fn interval_lines(&mut self, interval: &Interval) {
        if !self.is_titled {
            self.is_titled = true;
            self.interval_title();
        } else if self.streams.len() > 1 {
            self.line(RULER);
        }
        let omitted = if interval.is_omitted { "(omitted)" } else { "" };
        let span = [interval.from, interval.to];
        for is_sender in self.directions() {
            let rows: Vec<&StreamInterval> = interval.rows.iter().filter(|row| row.is_sender == is_sender).collect();
            for row in &rows {
                let tail = self.interval_tail(row.is_sender, row.retransmits, row.info, &row.datagrams);
                self.row_line(&row.id.to_string(), is_sender, span, row.bytes, &(tail + omitted));
            }
            if rows.len() > 1 {
                let datagrams = sum_of(rows.iter().map(|row| &row.datagrams));
                let retransmits = rows.iter().map(|row| row.retransmits).sum();
                let tail = self.interval_tail(is_sender, retransmits, None, &datagrams);
                self.row_line("SUM", is_sender, span, rows.iter().map(|row| row.bytes).sum(), &(tail + omitted));
            }
        }
    }

    /// Formats the columns that follow the rate.
    fn interval_tail(
        &self,
        is_sender: bool,
        retransmits: Option<u64>,
        info: Option<StreamInfo>,
        datagrams: &Datagrams,
    ) -> String {
        match (self.params.is_udp(), is_sender) {
            (true, true) if self.params.bidir => format!("            {}  ", datagrams.packets),
            (true, true) => format!("  {}  ", datagrams.packets),
            (true, false) => lost_of(datagrams),
            (false, _) => match (retransmits, info) {
                (Some(n), Some(info)) => format!("  {n:>3}   {}       ", scaled(info.snd_cwnd as f64, 1024.0, "Bytes")),
                (Some(n), None) => format!("  {n:>3}             "),
                (None, _) => BLANK.to_owned(),
            },
        }
    }

    /// Returns both directions (`true`: this side sends), starting with the direction of the first
    /// stream.
    pub(super) fn directions(&self) -> impl Iterator<Item = bool> + use<> {
        let first = self.sends(0);
        [first, !first].into_iter()
    }

    pub(super) fn end_lines(&mut self) {
        let (udp, seconds) = (self.params.is_udp(), self.seconds());
        let is_client = self.role == Role::Client;
        let knows = |stream: &Stream| {
            if is_client { stream.retransmits_of_sender().is_some() } else { stream.retransmits().is_some() }
        };
        let knows = self.streams.iter().any(knows);
        self.line(RULER);
        if self.is_verbose {
            self.line("Test Complete. Summary Results:");
        }
        self.title_line(match (udp, knows) {
            (true, _) => "         Jitter    Lost/Total Datagrams",
            (false, true) => "         Retr",
            (false, false) => "",
        });
        for is_sender in self.directions() {
            let streams = self.streams.iter().filter(|stream| stream.is_sender == is_sender);
            let ends: Vec<(String, [EndRow; 2])> =
                streams.map(|stream| (stream.id.to_string(), stream.both_ends(seconds))).collect();
            for (id, ends) in &ends {
                self.end_pair(id, is_sender, ends);
            }
            if ends.len() > 1 {
                self.end_pair("SUM", is_sender, &sum_of_ends(ends.iter().map(|(_, ends)| ends)));
            }
        }
    }

    /// Prints the totals of a stream. A server prints only the totals of its own end; a client
    /// prints the totals of both ends.
    fn end_pair(&mut self, id: &str, is_sender: bool, [sender, receiver]: &[EndRow; 2]) {
        if is_sender || self.role == Role::Client {
            let tail = if self.params.is_udp() {
                lost_of(&sender.datagrams)
            } else {
                sender.retransmits.map_or_else(|| BLANK.to_owned(), |n| format!("  {n:>3}             "))
            };
            self.row_line(id, is_sender, [0.0, sender.seconds], sender.bytes, &(tail + "sender"));
        }
        if !is_sender || self.role == Role::Client {
            let tail = if self.params.is_udp() { lost_of(&receiver.datagrams) } else { BLANK.to_owned() };
            self.row_line(id, is_sender, [0.0, receiver.seconds], receiver.bytes, &(tail + "receiver"));
        }
    }
}

impl Test {
    /// For each stream with a file, prints which share of the file was sent or received.
    pub(super) fn file_lines(&mut self, name: &str) {
        let of = |stream: &Stream| {
            let size = stream.file.as_ref()?.len()?;
            let percent = (stream.bytes * 100).checked_div(size).unwrap_or(100).min(100);
            let verb = if stream.is_sender { "Sent" } else { "Received" };
            let [moved, size] = [stream.bytes, size].map(|bytes| scaled(bytes as f64, 1024.0, "Bytes"));
            Some(format!("[{:3}] {verb} {moved} / {size} ({percent}%) of {name}", stream.id))
        };
        let lines: Vec<String> = self.streams.iter().filter_map(of).collect();
        lines.iter().for_each(|line| self.line(line));
    }
}

/// Sums up the totals of several streams, separately for sending and receiving ends.
pub(super) fn sum_of_ends<'a>(all: impl Iterator<Item = &'a [EndRow; 2]> + Clone) -> [EndRow; 2] {
    let one = |ends: fn(&'a [EndRow; 2]) -> &'a EndRow| EndRow {
        bytes: all.clone().map(|row| ends(row).bytes).sum(),
        seconds: all.clone().map(|row| ends(row).seconds).fold(0.0, f64::max),
        retransmits: all.clone().map(|row| ends(row).retransmits).sum(),
        datagrams: sum_of(all.clone().map(|row| &ends(row).datagrams)),
    };
    [one(|[sender, _]| sender), one(|[_, receiver]| receiver)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_printed_in_the_requested_unit() {
        // iperf3 3.12 -f: lower case bits and powers of 1000, upper case bytes and powers of 1024.
        for (letter, text) in [
            ('k', "80000 Kbits/sec"),
            ('m', "80.0 Mbits/sec"),
            ('g', "0.08 Gbits/sec"),
            ('t', "0.00 Tbits/sec"),
            ('K', "9766 KBytes/sec"),
            ('M', "9.54 MBytes/sec"),
            ('G', "0.01 GBytes/sec"),
        ] {
            assert_eq!(RateUnit::new(letter).unwrap().text(80e6), text, "{letter}");
        }
        assert!(RateUnit::new('b').is_none());
    }

    #[test]
    fn percentages_match_printf_g() {
        // printf '%.2g'
        for (value, text) in [
            (0.0, "0"),
            (0.046, "0.046"),
            (0.5, "0.5"),
            (1.0, "1"),
            (1.25, "1.2"),
            (9.96, "10"),
            (12.3, "12"),
            (99.4, "99"),
            (99.6, "1e+02"),
            (100.0, "1e+02"),
            (0.00004, "4e-05"),
            (0.000_12, "0.00012"),
        ] {
            assert_eq!(two_digits(value), text, "{value}");
        }
    }
}
