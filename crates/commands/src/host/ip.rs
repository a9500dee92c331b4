//! `ip addr` and `ip link`, with iproute2's text format and the JSON key names of `ip -j`. The
//! modules `iproute` and `ipneigh` implement `ip route` and `ip neigh`.

pub(super) mod list;
pub(super) mod syntax;

pub(crate) use syntax::Options;

use super::context::Ctl;
use super::iface::{change_of, set_mtu};
use super::{fpm, ifconfig, ipneigh, iproute, six, tunnel};
use crate::link::Style;
use crate::parse;
use grammar::{CommandError, Usage, Words};
use list::list;
use lock::Locks;
use syntax::{Family, only_dev, verb};

const OBJECTS: &[&str] = &["address", "addr", "link", "route", "neighbor", "neighbour", "neigh", "nexthop"];

/// Returns the usage of `ip`.
pub(super) fn usage() -> Vec<Usage> {
    let of = |grammar: &str, about| Usage { grammar: grammar.to_string(), about };
    vec![
        of("[-j] [-4|-6] [-s] [-br] [-o] addr|link|route|neigh|nexthop ...", "Objects and verbs may be abbreviated."),
        of("addr [show] [[dev] IF]", "List addresses."),
        of("addr add|replace|del A/LEN dev IF [peer A] [brd +] [label IF]", "Add or remove an address."),
        of("link [show] [[dev] IF]", "List interfaces; -s adds counters."),
        of("link set [dev] IF [up|down] [mtu N] ...", "Configure an interface."),
        of(
            "link add IF type ipip|gre|vxlan|etherip [local A] [remote B] [key N] [id N] [dstport N] ...",
            "Create a tunnel.",
        ),
        of("link del IF", "Remove a tunnel or an interface."),
        of("route [show] ...", "List routes."),
        of(
            "route add|replace|change|append|del DST [via A] [dev IF] [nexthop via A [dev IF] [weight N]] ...",
            "Add or remove a route.",
        ),
        of(
            "route add|replace|del blackhole|unreachable|prohibit|local DST",
            "Add or remove a route without a gateway; local delivers packets for the prefix to this host.",
        ),
        of("route get A [from SRC iif IF] [--why]", "Show the route to an address; --why explains the choice."),
        of("neigh [show] [[dev] IF]", "List neighbors."),
        of("nexthop [show]", "List the next hops of a routing engine."),
        of("neigh add|change|replace|del A lladdr MAC dev IF", "Add or remove a neighbor."),
    ]
}

pub(super) fn run<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, CommandError> {
    let Options { json, family, style } = Options::take(&mut words)?;
    let ctl = Ctl { json: ctl.json || json, statistics: style.statistics, ..*ctl };
    let object = words.next("addr, link, route, neigh or nexthop")?;
    // iproute2 accepts any prefix of a word; if a prefix is ambiguous, the first object in the list
    // applies.
    match OBJECTS.iter().find(|name| !object.is_empty() && name.starts_with(object)).copied() {
        Some("address" | "addr") => addr(&ctl, words, family, style),
        Some("link") => link(&ctl, words, style),
        // iproute2 also infers a route's family from its addresses.
        Some("route") if family == Family::Six || family == Family::Any && begins_with_ip6(&words) => {
            six::ip_route(&ctl, words)
        }
        Some("route") => iproute::run(&ctl, words),
        Some("nexthop") => {
            verb(&mut words, &["show"])?;
            words.end()?;
            fpm::next_hops(&ctl)
        }
        Some(_) => ipneigh::run(&ctl, words, family),
        None => Err(CommandError::unknown(
            "object",
            object,
            ["addr", "address", "link", "route", "neigh", "nexthop"].into_iter(),
        )),
    }
}

/// Returns whether the first address among the words is an IPv6 address. The gateway of an IPv4
/// route may be one.
fn begins_with_ip6(words: &Words<'_>) -> bool {
    let is_ip4 = |word: &str| word.split('/').next().is_some_and(|addr| addr.parse::<std::net::Ipv4Addr>().is_ok());
    let first = words.rest().iter().find(|word| word.contains(':') || is_ip4(word));
    first.is_some_and(|word| word.contains(':'))
}

fn addr<L: Locks>(
    ctl: &Ctl<'_, L>,
    mut words: Words<'_>,
    family: Family,
    style: Style,
) -> Result<String, CommandError> {
    let verb = verb(&mut words, &["show", "add", "replace", "del"])?;
    if verb == "show" {
        let only = only_dev(ctl, &mut words)?;
        return Ok(list(ctl, only, Some(family), style));
    }
    if family == Family::Six || family == Family::Any && words.peek().is_some_and(|word| word.contains(':')) {
        return six::ip_addr(ctl, verb, words);
    }
    let addr = parse::addr(words.next("an address such as 10.0.0.1/24")?, parse::host_len)?;
    let (mut dev, mut peer, mut label) = (None, None, None);
    while let Some(word) = words.take() {
        match word {
            "dev" => dev = Some(ctl.host.iface(words.next("an iface")?)?),
            "brd" | "broadcast" => {
                let own = addr.broadcast().map(|own| own.to_string()).unwrap_or_default();
                parse::only(&mut words, word, &["+", &own], "it is derived from the address")?;
            }
            "scope" => {
                let own = if addr.addr.is_loopback() { "host" } else { "global" };
                parse::only(&mut words, word, &[own], "it is derived from the address")?;
            }
            "label" => label = Some(words.next("the iface's name")?),
            "peer" => {
                let far = parse::addr(words.next("the address of the remote end")?, parse::host_len)?;
                if far.len != 32 {
                    return Err(CommandError::failed(format!(
                        "peer {}/{}: expected a single address, /32",
                        far.addr, far.len
                    )));
                }
                peer = Some(far.addr);
            }
            other => return Err(CommandError::unknown("word", other, ["dev"].into_iter())),
        }
    }
    let dev = dev.ok_or_else(|| CommandError::missing("dev IF"))?;
    if let Some(label) = label.filter(|label| *label != dev.name) {
        return Err(CommandError::failed(format!("label {label}: not supported: addresses have no labels")));
    }
    ctl.host.change_addr(change_of(verb), dev, addr, peer).map(|()| String::new())
}

fn link<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>, style: Style) -> Result<String, CommandError> {
    match verb(&mut words, &["show", "set", "add", "del"])? {
        "show" => {
            let only = only_dev(ctl, &mut words)?;
            return Ok(list(ctl, only, None, style));
        }
        "add" => return tunnel::add(ctl, &mut words).map(|()| String::new()),
        "del" => {
            let dev = only_dev(ctl, &mut words)?.ok_or_else(|| CommandError::missing("an iface"))?;
            return ifconfig::destroy(ctl, dev).map(|()| String::new());
        }
        _ => words.skip("dev"),
    };
    let dev = ctl.host.iface(words.next("an iface")?)?;
    while let Some(word) = words.take() {
        match word {
            "up" | "down" => ctl.host.stack.set_up(ctl.cx, dev.id, word == "up"),
            "mtu" => set_mtu(ctl, dev, words.next("an MTU in bytes")?)?,
            other => return Err(CommandError::unknown("word", other, ["up", "down", "mtu"].into_iter())),
        }
    }
    Ok(String::new())
}
