//! `nslookup`: queries a name server and prints the records of the answer.

use super::job::{Job, PAUSE, State, end_of};
use crate::args::NslookupArgs;
use crate::exit::{Exit, Fault, notice, print};
use crate::running::Works;
use anyhow::Context;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;
use wire::dns::{self, Answer, Data, Query, ty};

/// Time to wait for an answer before the query is retransmitted.
const WAIT: Duration = Duration::from_secs(2);
/// Maximum number of times a query is sent.
const TRIES: usize = 3;
/// Length of the prefix of a message over TCP: the message length (RFC 1035 4.2.2).
const PREFIX_LEN: usize = 2;

/// A name server.
struct Server {
    name: String,
    port: u16,
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.port),
            false => write!(f, "{}:{}", self.name, self.port),
        }
    }
}

pub(super) fn run(host: &dyn Works, args: &NslookupArgs) -> anyhow::Result<Exit> {
    let given = args.server.as_ref().map(|word| end_of(word, dns::PORT)).transpose()?;
    let (name, port) = given.map_or_else(|| Ok((first_server(host)?, dns::PORT)), Ok::<_, anyhow::Error>)?;
    let server = Server { name, port };
    let (name, types) = match args.name.parse::<IpAddr>() {
        Ok(addr) => (dns::reverse_name(addr), vec![ty::PTR]),
        Err(_) => (args.name.clone(), vec![ty::A, ty::AAAA]),
    };
    if !dns::is_name(&name) {
        return Err(Fault::usage(format!("{name}: not a domain name")));
    }
    let head = format!("Server:\t\t{0}\nAddress:\t{0}#{1}\n\n", server.name, server.port);
    let (mut out, mut found, mut rcode) = (head, 0, 0);
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    for kind in types {
        let answer = match ask(host, &server, &name, kind) {
            Err(why) if found > 0 => {
                notice(&format!("IPv6 addresses are unknown: {why:#}"));
                break;
            }
            answer => answer?,
        };
        if found > 0 && answer.rcode != 0 {
            notice(&format!("IPv6 addresses are unknown: {}", dns::rcode_name(answer.rcode)));
            break;
        }
        rcode = answer.rcode;
        if answer.rcode != 0 {
            break;
        }
        if found == 0 && !answer.authoritative && !answer.records.is_empty() {
            out += "Non-authoritative answer:\n";
        }
        for record in &answer.records {
            let line = match (&record.data, kind) {
                (Data::Address(addr), _) => format!("Name:\t{}\nAddress: {addr}\n", record.name),
                (Data::Name(other), ty::PTR) => format!("{}\tname = {other}.\n", record.name),
                // The answer for AAAA repeats the aliases.
                (Data::Name(_), ty::AAAA) => continue,
                (Data::Name(other), _) => format!("{}\tcanonical name = {other}.\n", record.name),
                (Data::Other(_), _) => continue,
            };
            out += &line;
            found += 1;
        }
    }
    if found > 0 {
        return print(&out).map(|()| Exit::Fine);
    }
    let why = dns::rcode_name(rcode);
    print(&format!("{out}** server can't find {}: {why}\n", args.name)).map(|()| Exit::Failed)
}

/// Returns the host's first name server.
fn first_server(host: &dyn Works) -> anyhow::Result<String> {
    let all = host.ask(&["resolvectl"], false)?;
    let first = all.lines().find_map(|line| line.strip_prefix("nameserver ")?.split(' ').next());
    let first = first.context("the host has no name server: give one, or set one with 'resolvectl dns ADDRESS'")?;
    Ok(first.to_string())
}

/// Sends a query until it is answered; over TCP if the answer was truncated.
fn ask(host: &dyn Works, server: &Server, name: &str, kind: u16) -> anyhow::Result<Answer> {
    let query = Query { id: RandomState::new().hash_one(kind) as u16, name: name.to_string(), ty: kind };
    let mut message = Vec::new();
    query.emit(&mut message).ok_or_else(|| Fault::usage(format!("{name}: not a domain name")))?;
    let job = Job::start(host, &["udp", &server.name, &server.port.to_string()], false)?;
    for _ in 0..TRIES {
        job.write(&message)?;
        let sent = host.now();
        while host.now().saturating_sub(sent) < WAIT && !dispatch::stop_requested() {
            let (state, bytes) = job.read_bytes()?;
            if let State::Failed(why) = state {
                anyhow::bail!("{why}");
            }
            match query.parse_answer(&bytes) {
                Ok(answer) if answer.truncated => return ask_by_tcp(host, server, &query, &message),
                Ok(answer) => return Ok(answer),
                Err(why) if !bytes.is_empty() && why != dns::BadDns::Other => {
                    return Err(why).with_context(|| server.to_string());
                }
                Err(_) => host.pause(PAUSE),
            }
        }
    }
    anyhow::ensure!(!dispatch::stop_requested(), "interrupted");
    anyhow::bail!("{server}: no reply to {TRIES} queries")
}

fn ask_by_tcp(host: &dyn Works, server: &Server, query: &Query, message: &[u8]) -> anyhow::Result<Answer> {
    let job = Job::start(host, &["tcp", &server.name, &server.port.to_string()], false)?;
    let prefixed = [&(message.len() as u16).to_be_bytes()[..], message].concat();
    let (mut rest, mut input, began) = (prefixed.as_slice(), Vec::new(), host.now());
    while host.now().saturating_sub(began) < WAIT * TRIES as u32 && !dispatch::stop_requested() {
        if !rest.is_empty() {
            rest = rest.get(job.write(rest)?..).unwrap_or_default();
        }
        let (state, bytes) = job.read_bytes()?;
        input.extend_from_slice(&bytes);
        let len = input.first_chunk::<PREFIX_LEN>().map(|len| usize::from(u16::from_be_bytes(*len)));
        if let Some(answer) = len.and_then(|len| input.get(PREFIX_LEN..PREFIX_LEN + len)) {
            return query.parse_answer(answer).with_context(|| server.to_string());
        }
        match state {
            State::Running if bytes.is_empty() => host.pause(PAUSE),
            State::Running => {}
            State::Done => anyhow::bail!("{server}: connection closed before the end of the reply"),
            State::Failed(why) => anyhow::bail!("{why}"),
        }
    }
    anyhow::ensure!(!dispatch::stop_requested(), "interrupted");
    anyhow::bail!("{server}: no reply over TCP")
}
