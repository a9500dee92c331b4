//! Scripted peer: conversations as text, with one step per line, similar to packetdrill.
//!
//! ```text
//!  < P. 1:1001(1000) ack 1 win 512 = text 0/1000@0 order 1000 READABLE   input, and the reply
//!  <+ ...                                  input together with the next line: no output yet
//!  > . 1:1(0) ack 1001 win 64535           output at this moment, all of it
//!  +200                                    milliseconds pass; timers run when due
//!  write 1000 | read N | shut | close | abort | oob N | timer 200 | state ESTABLISHED | cwnd 10
//! ```
//!
//! Sequence numbers are relative to each side's SYN. A conversation fails if a segment is sent that
//! the script does not list, or if a reply has more parts than the line lists. `! X` is the part of
//! a reply that is sent outside the data stream.

use crate::segment::{Block, Blocks, SegmentOptions, Timestamps};
use crate::{Config, Ecn, Events, IcmpNotice, Out, Reply, Segment, SeqNum, Tcb, Text};
use clock::{Duration, Instant};
use std::collections::VecDeque;
use std::sync::Arc;
use wire::tcp::{Flags, Opt, Options};

pub const ISS: u32 = u32::MAX - 3000;
pub const IRS: u32 = u32::MAX - 1500;

pub struct Talk {
    pub tcb: Tcb,
    pub now: Instant,
    config: Arc<Config>,
    begun: bool,
    sent: VecDeque<(Instant, String)>,
    answer: Option<String>,
    max_text: u32,
    name: &'static str,
}

/// Returns a configuration without timestamps, since most conversations are easier to read without
/// them.
pub fn plain() -> Config {
    Config { timestamps: false, window_scaling: false, recv_space: 64_240, recv_space_max: 64_240, ..Config::default() }
}

fn letters(text: &str) -> Flags {
    let flag = |letter| match letter {
        'F' => Flags::FIN,
        'S' => Flags::SYN,
        'R' => Flags::RST,
        'P' => Flags::PSH,
        '.' => Flags::ACK,
        'U' => Flags::URG,
        'E' => Flags::ECE,
        'W' => Flags::CWR,
        '-' => Flags::default(),
        other => panic!("flag {other}"),
    };
    text.chars().fold(Flags::default(), |flags, letter| flags | flag(letter))
}

fn number(text: &str) -> u32 {
    // Wrapped numbers: negative ones come before the SYN.
    text.parse::<i64>().unwrap_or_else(|_| panic!("a number, not {text:?}")) as u32
}

/// Parses a segment from the peer.
fn parse(line: &str) -> Segment {
    let (head, options) = line.split_once('<').unwrap_or((line, ""));
    let mut words = head.split_whitespace();
    let mut seg = Segment { flags: letters(words.next().expect("flags")), window: 0, ..Segment::default() };
    let range = words.next().expect("sequence numbers");
    let (start, rest) = range.split_once(':').expect("a colon");
    seg.seq = SeqNum(IRS).plus(number(start));
    seg.len = number(rest.split_once('(').expect("a length").1.trim_end_matches(')'));
    while let Some(word) = words.next() {
        match word {
            "ack" => seg.ack = SeqNum(ISS).plus(number(words.next().unwrap())),
            "win" => seg.window = number(words.next().unwrap()) as u16,
            "urg" => seg.urgent = number(words.next().unwrap()) as u16,
            "ce" => seg.ecn = Ecn::Ce,
            other => panic!("unknown word {other}"),
        }
    }
    let mut options = options.trim_end_matches(['>', ' ']).split([',', ' ']).filter(|word| !word.is_empty());
    let (mut parsed, mut blocks) = (SegmentOptions::default(), Vec::new());
    while let Some(word) = options.next() {
        match word {
            "mss" => parsed.mss = Some(number(options.next().unwrap()) as u16),
            "wscale" => parsed.window_scale = Some(number(options.next().unwrap()) as u8),
            "sackOK" => parsed.sack_permitted = true,
            "TS" => {
                let val = number(options.next().unwrap());
                parsed.timestamps = Some(Timestamps { val, ecr: number(options.next().unwrap()) });
            }
            "sack" => {}
            block => {
                let (left, right) = block.split_once(':').expect("a block");
                blocks.push(Block { left: SeqNum(ISS).plus(number(left)), right: SeqNum(ISS).plus(number(right)) });
            }
        }
    }
    parsed.sack = Blocks::new(blocks);
    Segment { options: parsed, ..seg }
}

/// Formats one of our segments.
fn show(out: &Out) -> String {
    let seq = out.seq.0.wrapping_sub(ISS) as i32;
    let mut flags: String = String::new();
    for (flag, letter) in [
        (Flags::FIN, 'F'),
        (Flags::SYN, 'S'),
        (Flags::RST, 'R'),
        (Flags::PSH, 'P'),
        (Flags::ACK, '.'),
        (Flags::URG, 'U'),
        (Flags::ECE, 'E'),
        (Flags::CWR, 'W'),
    ] {
        if out.flags.contains(flag) {
            flags.push(letter);
        }
    }
    let mut text = format!("{flags} {seq}:{}({})", seq + out.text_len as i32, out.text_len);
    if out.flags.contains(Flags::ACK) {
        text += &format!(" ack {}", out.ack.0.wrapping_sub(IRS) as i32);
    }
    text += &format!(" win {}", out.window);
    if out.urgent > 0 {
        text += &format!(" urg {}", out.urgent);
    }
    if out.ecn == Ecn::Ect0 {
        text += " ect0";
    }
    let options: Vec<String> = Options::new(out.options.as_slice())
        .flatten()
        .filter_map(|option| match option {
            Opt::Mss(mss) => Some(format!("mss {mss}")),
            Opt::WindowScale(shift) => Some(format!("wscale {shift}")),
            Opt::SackPermitted => Some("sackOK".to_owned()),
            Opt::Timestamps { val, ecr } => Some(format!("TS {val} {ecr}")),
            Opt::Sack(blocks) => {
                let relative = |number: u32| number.wrapping_sub(IRS) as i32;
                let blocks: Vec<_> = blocks.iter().map(|(l, r)| format!("{}:{}", relative(l), relative(r))).collect();
                Some(format!("sack {}", blocks.join(" ")))
            }
            _ => None,
        })
        .collect();
    if !options.is_empty() {
        text += &format!(" <{}>", options.join(","));
    }
    text
}

/// Formats a reply, except the segment sent outside the stream.
fn say(reply: &Reply) -> String {
    let mut words = Vec::new();
    if let Text::Accept { skip, len, at } = reply.text {
        words.push(format!("text {skip}/{len}@{at}"));
    }
    if reply.in_order > 0 {
        words.push(format!("order {}", reply.in_order));
    }
    if reply.acked > 0 {
        words.push(format!("acked {}", reply.acked));
    }
    words.extend(events(reply.events));
    if let Some(why) = reply.dropped {
        words.push(format!("drop {why:?}"));
    }
    words.join(" ")
}

fn events(events: Events) -> Vec<String> {
    let shown = format!("{events:?}");
    shown
        .trim_matches(['[', ']'])
        .split(", ")
        .map(|name| name.trim_matches('"').to_owned())
        .filter(|n| !n.is_empty())
        .collect()
}

impl Talk {
    pub fn new(name: &'static str, config: Config) -> Talk {
        let config = Arc::new(config);
        let now = Instant::from_millis(10_000);
        let tcb = Tcb::connect(&config, SeqNum(ISS), 0, now);
        Talk { tcb, now, config, begun: false, sent: VecDeque::new(), answer: None, max_text: 0, name }
    }

    fn drain(&mut self) {
        while let Some(out) = self.tcb.poll_segment(self.now, self.max_text) {
            self.sent.push_back((self.now, show(&out)));
            assert!(self.sent.len() < 10_000, "endless output");
        }
        self.tcb.check_invariants();
    }

    fn pass(&mut self, by: Duration, seen: &mut Events) {
        let until = self.now.after(by);
        for _ in 0..100_000 {
            let next = self.tcb.next_timer();
            if next > until {
                self.now = until;
                return;
            }
            self.now = self.now.max(next);
            *seen |= self.tcb.on_timer(self.now);
            self.drain();
        }
        panic!("timers without end");
    }

    /// Runs a script of steps.
    pub fn run(&mut self, script: &str) -> &mut Talk {
        for (at, line) in script.lines().enumerate() {
            let line = line.split("//").next().unwrap().trim().trim_end_matches('=').trim();
            if !line.is_empty() {
                let context = format!("{}, line {}: {line}", self.name, at + 1);
                self.step(line, &context);
            }
        }
        assert!(self.sent.is_empty(), "{}: sent and not stated: {:?}", self.name, self.sent);
        assert_eq!(self.answer, None, "{}: answered", self.name);
        self
    }

    fn step(&mut self, line: &str, context: &str) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == ">" {
            let (when, what) = self.sent.pop_front().unwrap_or_else(|| panic!("{context}: nothing was sent"));
            assert_eq!(what, rest.trim(), "{context}");
            assert_eq!(when, self.now, "{context}: sent at another time");
            return;
        }
        if word == "!" {
            assert_eq!(self.answer.take().as_deref(), Some(rest.trim()), "{context}");
            return;
        }
        assert!(self.sent.is_empty(), "{context}: sent before and not stated: {:?}", self.sent);
        assert_eq!(self.answer, None, "{context}: answered before and not stated");
        let (command, expected) =
            rest.split_once(" = ").or(rest.strip_prefix("= ").map(|e| ("", e))).unwrap_or((rest, ""));
        let command = command.trim();
        let said = match word {
            "<" | "<+" => {
                let said = self.arrive(command);
                if word == "<" {
                    self.drain();
                }
                said
            }
            _ if word.starts_with('+') => {
                let mut seen = Events::NONE;
                let by = Duration::from_secs_f64(word[1..].parse::<f64>().expect("milliseconds") / 1000.0);
                self.pass(by, &mut seen);
                events(seen).join(" ")
            }
            _ => self.call(word, command, context),
        };
        assert_eq!(said, expected.trim(), "{context}");
    }

    fn arrive(&mut self, text: &str) -> String {
        let seg = parse(text);
        let opens = seg.flags == Flags::SYN || seg.flags == Flags::SYN | Flags::ECE | Flags::CWR;
        if !self.begun && opens {
            self.begun = true;
            self.tcb = Tcb::accept(&self.config, SeqNum(ISS), 0, &seg, self.now);
            return String::new();
        }
        let reply = self.tcb.on_segment(&seg, self.now);
        self.answer = reply.answer.as_ref().map(show);
        say(&reply)
    }

    fn call(&mut self, word: &str, rest: &str, context: &str) -> String {
        let first = || number(rest.split_whitespace().next().unwrap_or_else(|| panic!("{context}: a number")));
        let on = rest != "off";
        let mut said = String::new();
        match word {
            "connect" => self.begun = true,
            "write" => self.tcb.queued(first(), true),
            "more" => self.tcb.queued(first(), false),
            // Writes as much as there is room for; the writer has more and waits.
            "fill" => {
                self.tcb.queued(first(), true);
                self.tcb.writer_waits(self.now);
            }
            "oob" => self.tcb.queued_urgent(first()),
            "read" => said = self.tcb.consumed(first(), self.now).map_or(String::new(), |space| space.to_string()),
            "space" => self.tcb.set_recv_space(first(), false),
            "shut" => self.tcb.shutdown_send(self.now),
            "close" => {
                let closed = self.tcb.close(self.now);
                self.answer = closed.reset.as_ref().map(show);
                said = if closed.over { "over".to_owned() } else { String::new() };
            }
            "abort" => self.answer = self.tcb.abort(self.now).as_ref().map(show),
            "nodelay" => self.tcb.set_nodelay(on),
            "cork" => self.tcb.set_cork(on),
            "quickack" => self.tcb.set_quickack(on),
            "tso" => self.max_text = first(),
            "keepalive" => {
                let times: Vec<u64> = rest.split_whitespace().map(|word| word.parse().unwrap()).collect();
                let times = (Duration::from_secs(times[0]), Duration::from_secs(times[1]), times[2] as u8);
                self.tcb.set_keepalive(true, Some(times), self.now);
            }
            "user_timeout" => self.tcb.set_user_timeout(Some(Duration::from_millis(first().into()))),
            "linger2" => self.tcb.set_linger2(Some(Duration::from_millis(first().into()))),
            "pace" => self.tcb.set_pacing(true, Some(first().into())),
            "syncnt" => self.tcb.set_syn_count(first() as u8),
            "icmp" => {
                let words: Vec<&str> = rest.split_whitespace().collect();
                let what = match words[0] {
                    "refused" => IcmpNotice::Refused,
                    "unreachable" => IcmpNotice::Unreachable,
                    "no-neighbor" => IcmpNotice::NoNeighbor,
                    "quench" => IcmpNotice::SourceQuench,
                    mss => IcmpNotice::TooBig { mss: number(mss) as u16 },
                };
                let seen = self.tcb.on_icmp(what, SeqNum(ISS).plus(number(words[1])), self.now);
                said = events(seen).join(" ");
            }
            "renege" => {
                let block = self
                    .tcb
                    .renege()
                    .map(|b| format!("{}:{}", b.left.0.wrapping_sub(IRS), b.right.0.wrapping_sub(IRS)));
                said = block.unwrap_or_default();
            }
            "state" => said = format!("{:?}", self.tcb.state()),
            "timer" => {
                let next = self.tcb.next_timer();
                said = if next == Instant::NEVER {
                    "never".into()
                } else {
                    format!("{}", next.since(self.now).as_millis())
                };
            }
            "mark" => said = format!("{:?}", self.tcb.urgent_mark()),
            _ => said = self.figure(word, context),
        }
        self.drain();
        said
    }

    fn figure(&self, word: &str, context: &str) -> String {
        let info = self.tcb.info(self.now);
        match word {
            "cwnd" => info.snd_cwnd.to_string(),
            "ssthresh" => info.snd_ssthresh.to_string(),
            "ca" => info.ca_state.to_string(),
            "flight" => info.in_flight.to_string(),
            "rto" => info.rto.as_millis().to_string(),
            "busy" => info.busy_time.as_millis().to_string(),
            "rwnd_limited" => info.rwnd_limited.as_millis().to_string(),
            "sndbuf_limited" => info.sndbuf_limited.as_millis().to_string(),
            "srtt" => info.rtt.as_millis().to_string(),
            "mss" => info.snd_mss.to_string(),
            "sacked" => info.sacked.to_string(),
            "lost" => info.lost.to_string(),
            "retrans" => info.retrans.to_string(),
            "unacked" => info.unacked.to_string(),
            "options" => info.options.to_string(),
            "dsack_dups" => info.dsack_dups.to_string(),
            "probes" => info.probes.to_string(),
            "backoff" => info.backoff.to_string(),
            _ => panic!("{context}: unknown"),
        }
    }
}

/// Runs a conversation that begins in ESTABLISHED after a passive open. The peer's window is
/// 65,535, unscaled.
pub fn talk(name: &'static str, script: &str) {
    established(name, plain()).run(script);
}

/// Returns a conversation in ESTABLISHED, with SACK if configured and a round trip of 10 ms.
pub fn established(name: &'static str, config: Config) -> Talk {
    let sack = if config.sack { ",sackOK" } else { "" };
    let mut talk = Talk::new(name, config);
    talk.run(&format!(
        "< S 0:0(0) win 65535 <mss 1000,sackOK>
         > S. 0:0(0) ack 1 win 64240 <mss 1460{sack}>
         +10
         < . 1:1(0) ack 1 win 65535 = WRITABLE ACCEPTABLE
         state = Established"
    ));
    talk
}
