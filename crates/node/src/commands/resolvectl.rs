//! `resolvectl`: name servers and search domains, with the commands of systemd's program.

use super::Ctl;
use clock::Instant;
use grammar::{CommandError, Words};
use inet::resolvers::ResolverSource;
use lock::Locks;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};

/// Grammar for `help`.
pub(super) const GRAMMAR: &str = "[status] | dns [A...] | domain [DOMAIN...]";
/// Description for `help`.
pub(super) const ABOUT: &str = "Name servers and search domains: lists them, or sets the configured ones.";

pub(super) fn run<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, CommandError> {
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
                addr.map(|addr| SocketAddr::new(addr, 0))
                    .map_err(|_| CommandError::bad("address", word, "an IP address"))
            };
            servers = given.iter().map(server).collect::<Result<_, _>>()?;
        }
        ("domain", false) => {
            if let Some(bad) = given.iter().find(|word| !wire::dns::is_host_name(word)) {
                return Err(CommandError::bad("domain", bad, "a domain name"));
            }
            domains = given.iter().map(|word| word.to_string()).collect();
        }
        (other, _) => return Err(CommandError::unknown("word", other, ["status", "dns", "domain"].into_iter())),
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
