//! `ss`: the sockets, in iproute2's format. As in iproute2, sockets without a peer are listed only
//! with -l or -a.

mod details;
mod filter;

use super::context::Ctl;
use super::sockets::{self, Netid, SockState, Socket};
use filter::Filter;
use grammar::{CommandError, Usage, Words};
use lock::Locks;
use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use tcp::State;

/// Options of `ss`, one per letter.
#[derive(Clone, Copy, Default)]
struct SsOptions {
    tcp: bool,
    udp: bool,
    listening: bool,
    all: bool,
    timer: bool,
    extended: bool,
    memory: bool,
    process: bool,
    info: bool,
    summary: bool,
    four: bool,
    six: bool,
    headless: bool,
    json: bool,
}

/// Returns the usage of `ss`.
pub(super) fn usage() -> Vec<Usage> {
    let of = |grammar: &str, about| Usage { grammar: grammar.to_string(), about };
    vec![
        of("[-tuln46oemiapHj] [FILTER...]", "List sockets, with ss(8)'s options."),
        of("-s", "Show the number of sockets by kind."),
        of(
            "[state|exclude STATE] [src|dst A[/LEN][:PORT]] [sport|dport = :PORT]",
            "FILTER: conditions, combined with and, or, not and parentheses.",
        ),
    ]
}

pub(super) fn run<L: Locks>(ctl: &Ctl<'_, L>, words: Words<'_>) -> Result<String, CommandError> {
    // A filter may be quoted as one word: ss 'sport = :7'.
    let parts: Vec<&str> = words.rest().iter().flat_map(|word| word.split_whitespace()).collect();
    let mut words = Words::new(&parts);
    let mut requested = SsOptions { json: ctl.json, ..SsOptions::default() };
    while let Some(word) = words.peek().filter(|word| word.starts_with('-')) {
        words.take();
        let letters = word.strip_prefix('-').filter(|letters| !letters.is_empty());
        if !letters.is_some_and(|letters| letters.chars().all(|letter| requested.take(letter))) {
            let known = ["-t", "-u", "-l", "-a", "-n", "-o", "-e", "-m", "-p", "-i", "-s", "-H", "-j", "-4", "-6"];
            return Err(CommandError::unknown("option", word, known.into_iter()));
        }
    }
    let filter = Filter::parse(&mut words)?;
    requested.all |= filter.has_state();
    let sockets = sockets::all(ctl);
    if requested.summary {
        return Ok(summary(&sockets, requested));
    }
    let rows: Vec<&Socket> =
        sockets.iter().filter(|socket| requested.wants(socket) && filter.matches(socket)).collect();
    Ok(listing(ctl, &rows, requested))
}

/// Returns all sockets, for `show sockets`.
pub(super) fn list<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let sockets = sockets::all(ctl);
    listing(ctl, &sockets.iter().collect::<Vec<_>>(), SsOptions { all: true, json: ctl.json, ..SsOptions::default() })
}

impl SsOptions {
    /// Sets the option for a letter. Returns `false` if there is no such option.
    fn take(&mut self, letter: char) -> bool {
        let place = match letter {
            't' => &mut self.tcp,
            'u' => &mut self.udp,
            'l' => &mut self.listening,
            'a' => &mut self.all,
            'o' => &mut self.timer,
            'e' => &mut self.extended,
            'm' => &mut self.memory,
            'p' => &mut self.process,
            'i' => &mut self.info,
            's' => &mut self.summary,
            'H' => &mut self.headless,
            'j' => &mut self.json,
            '4' => &mut self.four,
            '6' => &mut self.six,
            'n' => return true, // names are never looked up
            _ => return false,
        };
        *place = true;
        true
    }

    fn wants(&self, socket: &Socket) -> bool {
        let netid = match socket.netid {
            Netid::Tcp => self.tcp || !self.udp,
            Netid::Udp => self.udp || !self.tcp,
            Netid::Icmp | Netid::Raw => !self.udp && !self.tcp,
        };
        let family = if socket.local.is_ipv6() { self.six || !self.four } else { self.four || !self.six };
        netid
            && family
            && match () {
                () if self.all => true,
                () if self.listening => socket.state.is_waiting(),
                () => socket.state.is_connected(),
            }
    }

    /// Returns whether the options add a second line per socket.
    fn has_below(&self) -> bool {
        self.memory || self.info
    }
}

fn listing<L: Locks>(ctl: &Ctl<'_, L>, rows: &[&Socket], requested: SsOptions) -> String {
    if requested.json {
        return format!("{}\n", Value::Array(rows.iter().map(|row| to_json(ctl, row)).collect()));
    }
    let (mut out, name) = (String::new(), ctl.host.stack.name.as_str());
    if !requested.headless {
        let process = if requested.process { " Process" } else { "" };
        out += &format!(
            "{:<5} {:<10} {:>6} {:>6} {:>22} {:>22}{process}\n",
            "Netid", "State", "Recv-Q", "Send-Q", "Local Address:Port", "Peer Address:Port"
        );
    }
    for row in rows {
        out += &format!(
            "{:<5} {:<10} {:>6} {:>6} {:>22} {:>22}",
            word(row.netid),
            row.state.ss(),
            row.recv_q,
            row.send_q,
            end(ctl, row.local),
            end(ctl, row.peer)
        );
        if requested.process
            && let Some(fd) = row.fd
        {
            out += &format!(" users:((\"{name}\",pid={},fd={fd}))", std::process::id());
        }
        if requested.timer {
            out += &details::timer(row);
        }
        if requested.extended {
            out += &details::extended(row);
        }
        out.push('\n');
        if requested.has_below() {
            let memory = if requested.memory { details::memory(row) } else { String::new() };
            let info = if requested.info { details::info(row) } else { String::new() };
            if !(memory.is_empty() && info.is_empty()) {
                out += &format!("\t{memory}{info}\n");
            }
        }
    }
    out
}

fn word(netid: Netid) -> &'static str {
    match netid {
        Netid::Raw => "raw",
        Netid::Icmp => "icmp",
        Netid::Udp => "udp",
        Netid::Tcp => "tcp",
    }
}

/// Returns an address and port, such as `10.0.0.1:80`, `[fd00::1]:80` or `[fe80::1]%tap0:80`. The
/// port of an unbound or unconnected socket is `*`.
fn end<L: Locks>(ctl: &Ctl<'_, L>, end: SocketAddr) -> String {
    let text = ctl.host.ip_text(end);
    let addr = match (end.is_ipv6(), text.split_once('%')) {
        (true, Some((addr, iface))) => format!("[{addr}]%{iface}"),
        (true, None) => format!("[{text}]"),
        (false, _) => text,
    };
    if end.port() == 0 { format!("{addr}:*") } else { format!("{addr}:{}", end.port()) }
}

fn to_json<L: Locks>(ctl: &Ctl<'_, L>, row: &Socket) -> Value {
    let peer = (row.peer.port() != 0).then_some(row.peer);
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| drop(out.insert(key.to_string(), value));
    put("netid", word(row.netid).into());
    put("state", row.state.ss().into());
    put("recv_q", row.recv_q.into());
    put("send_q", row.send_q.into());
    put("local", ctl.host.ip_text(row.local).into());
    put("local_port", row.local.port().into());
    put("peer", peer.map(|peer| ctl.host.ip_text(peer)).into());
    put("peer_port", peer.map(|peer| peer.port()).into());
    put("fd", row.fd.into());
    put("recv_limit", row.memory.recv_space.into());
    match row.netid {
        Netid::Udp | Netid::Icmp | Netid::Raw => put("recv_datagrams", row.datagrams.into()),
        Netid::Tcp => {
            put("timer", details::timer_json(row));
            put("skmem", details::memory_json(row));
            put("syn_recv", row.embryonic.map(|(now, _)| now).into());
            put("syn_queue", row.embryonic.map(|(_, most)| most).into());
            put("tcp_info", row.info.as_ref().map_or(Value::Null, |info| details::info_json(info, row.state)));
        }
    }
    Value::Object(out)
}

/// Returns the summary of `-s`: the number of sockets of each kind.
fn summary(sockets: &[Socket], requested: SsOptions) -> String {
    let count = |is: &dyn Fn(&Socket) -> bool| sockets.iter().filter(|socket| is(socket)).count();
    let tcp = |state: State| count(&|s| s.netid == Netid::Tcp && s.state == SockState::Tcp(state));
    let syn_recv = tcp(State::SynReceived); // these have no socket yet
    let all_tcp = count(&|s| s.netid == Netid::Tcp) - syn_recv;
    let udp = count(&|s| s.netid == Netid::Udp);
    let remembered = [SockState::Tcp(State::TimeWait), SockState::Tcp(State::SynReceived)];
    let orphaned = count(&|s| s.netid == Netid::Tcp && s.fd.is_none() && !remembered.contains(&s.state));
    let listening = count(&|s| s.state == SockState::Listen);
    let (estab, closed, timewait) = (tcp(State::Established), tcp(State::Closed), tcp(State::TimeWait));
    if requested.json {
        let tcp = json!({ "total": all_tcp, "estab": estab, "closed": closed, "orphaned": orphaned,
            "timewait": timewait, "listen": listening, "syn_recv": syn_recv });
        return format!("{}\n", json!({ "total": all_tcp + udp, "tcp": tcp, "udp": { "total": udp } }));
    }
    format!(
        "Total: {}\nTCP:   {all_tcp} (estab {estab}, closed {closed}, orphaned {orphaned}, timewait {timewait}, \
         listen {listening}, synrecv {syn_recv})\nUDP:   {udp}\n",
        all_tcp + udp
    )
}
