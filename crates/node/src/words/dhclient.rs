//! `dhclient`: DHCP on an interface, as ISC's client has it; and `resolvectl`: name servers and search
//! domains, as systemd's has it.

use super::ip::set;
use super::parse::Words;
use super::{Ctl, WordError};
use crate::dhcp::Status;
use clock::Instant;
use inet::resolvers::ResolverSource;
use lock::Locks;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};

/// The grammar of `dhclient`, for `help`.
pub(super) const GRAMMAR: &str = "[[-r] IF]";
/// The sentence, for `help`.
pub(super) const ABOUT: &str = "DHCP: leases; asks for a lease or its extension; -r gives it back.";
/// The grammar of `resolvectl`, for `help`.
pub(super) const RESOLVE_GRAMMAR: &str = "[status] | dns [A...] | domain [DOMAIN...]";
/// The sentence, for `help`.
pub(super) const RESOLVE_ABOUT: &str = "Name servers and search domains: lists them, or sets the configured ones.";

pub(super) fn run<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, WordError> {
    let release = words.skip("-r");
    let Some(name) = words.take() else {
        return if release { Err(WordError::missing("an interface")) } else { Ok(list(ctl)) };
    };
    words.end()?;
    let iface = ctl.iface(name)?;
    let (dhcp, calls) = (ctl.host.dhcp(), ctl.host.shared_calls());
    if release {
        let released = dhcp.release(&calls, iface.id);
        ctl.host.stack.flush(ctl.cx);
        return if released { Ok(String::new()) } else { Err(WordError::failed(format!("{name}: no DHCP client"))) };
    }
    dhcp.start(&calls, iface.id).map_err(|why| WordError::failed(format!("{name}: {why}")))?;
    Ok(String::new())
}

fn list<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let all = ctl.host.dhcp().list();
    let left = |at: Instant| (at != Instant::NEVER).then(|| at.since(ctl.cx.now).as_secs());
    let row = |status: &Status| {
        let mut row = json!({ "ifname": ctl.iface_name(status.iface), "state": status.state });
        if let Some(lease) = &status.lease {
            set(&mut row, "address", lease.addr.addr.to_string());
            set(&mut row, "prefixlen", lease.addr.len);
            set(&mut row, "server", lease.server.to_string());
            set(&mut row, "renew_s", left(lease.renew_at));
            set(&mut row, "expires_s", left(lease.until));
        }
        row
    };
    let line = |status: &Status| {
        let name = ctl.iface_name(status.iface);
        let Some(lease) = &status.lease else { return format!("{name}: {}\n", status.state) };
        let seconds = |at| left(at).map_or("never".to_string(), |left| format!("in {left} s"));
        format!(
            "{name}: {} {}/{} from {}, renewed {}, expires {}\n",
            status.state,
            lease.addr.addr,
            lease.addr.len,
            lease.server,
            seconds(lease.renew_at),
            seconds(lease.until)
        )
    };
    ctl.listing(|| Value::Array(all.iter().map(row).collect()), || all.iter().map(line).collect())
}

pub(super) fn resolvers<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, WordError> {
    let (stack, cx) = (&ctl.host.stack, ctl.cx);
    let all = stack.resolvers(cx);
    let verb = words.take().unwrap_or("status");
    let given = words.rest().to_vec();
    let is_configured = |source: ResolverSource| source == ResolverSource::Configured;
    let mut servers: Vec<SocketAddr> =
        all.servers.iter().filter(|entry| is_configured(entry.source)).map(|entry| entry.value).collect();
    let mut domains: Vec<String> =
        all.domains.iter().filter(|entry| is_configured(entry.source)).map(|entry| entry.value.clone()).collect();
    match (verb, given.is_empty()) {
        ("status", _) => {
            words.end()?;
            return Ok(status(ctl));
        }
        ("dns" | "domain", true) => return Ok(status(ctl)),
        ("dns", false) => {
            let server = |word: &&str| {
                let addr: Result<IpAddr, _> = word.parse();
                addr.map(|addr| SocketAddr::new(addr, 0)).map_err(|_| WordError::bad("address", word, "an IP address"))
            };
            servers = given.iter().map(server).collect::<Result<_, _>>()?;
        }
        ("domain", false) => {
            if let Some(bad) = given.iter().find(|word| !wire::dns::is_name(word)) {
                return Err(WordError::bad("domain", bad, "a domain name"));
            }
            domains = given.iter().map(|word| word.to_string()).collect();
        }
        (other, _) => return Err(WordError::unknown("word", other, ["status", "dns", "domain"].into_iter())),
    }
    stack.set_resolvers(cx, ResolverSource::Configured, &servers, &domains, Instant::NEVER);
    Ok(String::new())
}

fn status<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let all = ctl.host.stack.resolvers(ctl.cx);
    let source = |source: ResolverSource| match source {
        ResolverSource::Configured => "configured".to_string(),
        ResolverSource::Dhcp(id) => format!("DHCP, {}", ctl.iface_name(id)),
        ResolverSource::Dhcp6(id) => format!("DHCPv6, {}", ctl.iface_name(id)),
        ResolverSource::Advertised(id) => format!("router advertisement, {}", ctl.iface_name(id)),
    };
    let servers = all.servers.iter().map(|entry| (ctl.host.ip_text(entry.value), source(entry.source)));
    let domains = all.domains.iter().map(|entry| (entry.value.clone(), source(entry.source)));
    let (servers, domains): (Vec<_>, Vec<_>) = (servers.collect(), domains.collect());
    let rows = |all: &[(String, String)], key: &str| {
        let row = |(value, source): &(String, String)| json!({ key: value, "source": source });
        Value::Array(all.iter().map(row).collect())
    };
    let lines = |all: &[(String, String)], key: &str| {
        all.iter().map(|(value, source)| format!("{key} {value} ({source})\n")).collect::<String>()
    };
    ctl.listing(
        || json!({ "dns": rows(&servers, "address"), "domains": rows(&domains, "domain") }),
        || lines(&servers, "nameserver") + &lines(&domains, "search"),
    )
}
