//! `resolvectl`: name servers and search domains, with the commands of systemd's resolvectl(1).

use super::context::{Ctl, DONE, HostForm};
use clock::Instant;
use grammar::{CommandError, Form};
use inet::resolvers::ResolverSource;
use lock::Locks;
use serde_json::{Value, json};
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};

/// Syntax forms of `resolvectl`.
pub(super) struct Forms<L>(PhantomData<L>);

impl<L: Locks> Forms<L> {
    pub(super) const ALL: &[HostForm<L>] = &[
        Form {
            grammar: "[status]",
            about: "List the name servers and search domains, with their sources.",
            run: |ctl, _| Ok(status(ctl)),
        },
        Form {
            grammar: "dns [A...]",
            about: "Set the configured name servers; without A, show the status.",
            run: |ctl, args| {
                if args.rest().is_empty() {
                    return Ok(status(ctl));
                }
                let server = |word: &&str| {
                    let bad = |_| CommandError::bad("address", word, "an IP address");
                    word.parse().map(|addr: IpAddr| SocketAddr::new(addr, 0)).map_err(bad)
                };
                let servers = args.rest().iter().map(server).collect::<Result<Vec<_>, _>>()?;
                configure(ctl, &servers, &configured(ctl).1)
            },
        },
        Form {
            grammar: "domain [DOMAIN...]",
            about: "Set the configured search domains; without DOMAIN, show the status.",
            run: |ctl, args| {
                if args.rest().is_empty() {
                    return Ok(status(ctl));
                }
                if let Some(bad) = args.rest().iter().find(|word| !wire::dns::is_host_name(word)) {
                    return Err(CommandError::bad("domain", bad, "a domain name"));
                }
                let domains: Vec<String> = args.rest().iter().map(|word| word.to_string()).collect();
                configure(ctl, &configured(ctl).0, &domains)
            },
        },
    ];
}

/// Returns the configured name servers and search domains.
fn configured<L: Locks>(ctl: &Ctl<'_, L>) -> (Vec<SocketAddr>, Vec<String>) {
    let all = ctl.host.stack.resolvers(ctl.cx);
    let is_configured = |source: ResolverSource| source == ResolverSource::Configured;
    let servers = all.servers.into_iter().filter(|entry| is_configured(entry.source)).map(|entry| entry.value);
    let domains = all.domains.into_iter().filter(|entry| is_configured(entry.source)).map(|entry| entry.value);
    (servers.collect(), domains.collect())
}

fn configure<L: Locks>(ctl: &Ctl<'_, L>, servers: &[SocketAddr], domains: &[String]) -> Result<String, CommandError> {
    ctl.host.stack.set_resolvers(ctl.cx, ResolverSource::Configured, servers, domains, Instant::NEVER);
    DONE
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
