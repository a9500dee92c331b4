//! `nslookup`: a query to a name server by UDP, and its records.

use super::{Job, State, end_of};
use crate::args::NslookupArgs;
use crate::exit::{Exit, Fault, notice, print};
use crate::running::Works;
use anyhow::Context;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddrV4};
use std::time::Duration;
use wire::dns::{self, Answer, Data, ty};

/// Time to wait for an answer before the query is sent again.
const WAIT: Duration = Duration::from_secs(2);
/// Times that a query is sent.
const TRIES: usize = 3;

pub(super) fn run(host: &dyn Works, args: &NslookupArgs) -> anyhow::Result<Exit> {
    let server = end_of(&args.server, dns::PORT)?;
    let (name, types) = match args.name.parse::<IpAddr>() {
        Ok(addr) => (dns::reverse_name(addr), vec![ty::PTR]),
        Err(_) => (args.name.clone(), vec![ty::A, ty::AAAA]),
    };
    let head = format!("Server:\t\t{}\nAddress:\t{}#{}\n\n", server.ip(), server.ip(), server.port());
    let (mut out, mut found, mut rcode) = (head, 0, 0);
    dispatch::install_stop_handler().context("cannot catch Ctrl-C")?;
    for kind in types {
        let answer = match ask(host, server, &name, kind) {
            Err(why) if found > 0 => {
                notice(&format!("the IPv6 addresses are not known: {why:#}"));
                break;
            }
            answer => answer?,
        };
        if found > 0 && answer.rcode != 0 {
            notice(&format!("the IPv6 addresses are not known: {}", error(answer.rcode)));
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
                // The answer for IPv6 says the other names once more.
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
    print(&format!("{out}** server can't find {}: {}\n", args.name, error(rcode))).map(|()| Exit::Failed)
}

/// The name of a response code; of 0, for an answer without the records.
fn error(rcode: u8) -> String {
    match rcode {
        0 => "No answer".to_string(),
        2 => "SERVFAIL".to_string(),
        3 => "NXDOMAIN".to_string(),
        5 => "REFUSED".to_string(),
        code => format!("response code {code}"),
    }
}

/// Sends a query until it is answered.
fn ask(host: &dyn Works, server: SocketAddrV4, name: &str, kind: u16) -> anyhow::Result<Answer> {
    let mut query = Vec::new();
    let id = RandomState::new().hash_one(kind) as u16;
    dns::emit_query(id, name, kind, &mut query).ok_or_else(|| Fault::usage(format!("{name}: not a domain name")))?;
    let (addr, port) = (server.ip().to_string(), server.port().to_string());
    let job = Job::start(host, &["udp", &addr, &port], false)?;
    for _ in 0..TRIES {
        job.write(&query)?;
        let sent = host.now();
        while host.now().saturating_sub(sent) < WAIT && !dispatch::stop_requested() {
            let (state, bytes) = job.read_bytes()?;
            if let State::Failed(why) = state {
                anyhow::bail!("{why}");
            }
            match dns::parse_answer(&bytes, id) {
                Ok(answer) if answer.truncated => {
                    anyhow::bail!("{server}: the answer does not fit a datagram, and TCP is not asked");
                }
                Ok(answer) => return Ok(answer),
                Err(why) if !bytes.is_empty() && why != dns::BadDns::Other => {
                    return Err(why).with_context(|| server.to_string());
                }
                Err(_) => host.pause(super::PAUSE),
            }
        }
    }
    anyhow::ensure!(!dispatch::stop_requested(), "interrupted");
    anyhow::bail!("{server}: no answer to {TRIES} queries")
}
