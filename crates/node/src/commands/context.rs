//! Context in which a command of a host runs, and the type of the functions that run commands.

use crate::Host;
use clock::Instant;
use grammar::{Args, CommandError, Form, Words, parse_all};
use inet::fib::Prefix;
use inet::iface::{Iface, IfaceAddr, IfaceId};
use inet::route::{Path, Via};
use lock::{Cx, Locks};
use port::Pairs;
use serde_json::Value;
use std::net::Ipv4Addr;

/// Context in which a command runs: the host, the time, and the output format.
#[derive(Clone, Copy)]
pub(crate) struct Ctl<'a, L: Locks> {
    pub(crate) host: &'a Host<L>,
    pub(crate) pairs: &'a Pairs,
    pub(crate) cx: Cx,
    pub(crate) json: bool,
}

/// A syntax form of a command, with the function that runs it and returns the output.
pub(super) type HostForm<L> = Form<fn(&Ctl<'_, L>, &Args<'_>) -> Result<String, CommandError>>;

/// Result of a command without output.
pub(super) const DONE: Result<String, CommandError> = Ok(String::new());

/// Runs the syntax form that matches `words`.
pub(super) fn one_of<L: Locks>(
    forms: &[HostForm<L>],
    ctl: &Ctl<'_, L>,
    words: Words<'_>,
) -> Result<String, CommandError> {
    let (form, args) = parse_all(forms, words)?;
    (form.run)(ctl, &args)
}

impl<L: Locks> Ctl<'_, L> {
    /// Returns a listing in the requested format: the JSON value from `rows`, or the text from
    /// `text`.
    pub(crate) fn listing(&self, rows: impl FnOnce() -> Value, text: impl FnOnce() -> String) -> String {
        if self.json { format!("{}\n", rows()) } else { text() }
    }

    /// Returns the iface called `name`.
    pub(crate) fn iface(&self, name: &str) -> Result<&Iface<L>, CommandError> {
        let names = self.host.stack.ifaces().map(|iface| iface.name.as_str());
        self.host.stack.iface_named(name).ok_or_else(|| CommandError::unknown("iface", name, names))
    }

    pub(crate) fn iface_name(&self, id: IfaceId) -> &str {
        self.host.stack.iface(id).map_or("?", |iface| &iface.name)
    }

    /// Returns the iface on whose link `addr` is. If the prefixes of several ifaces contain `addr`,
    /// returns the iface with the longest prefix.
    pub(crate) fn link_of(&self, addr: Ipv4Addr) -> Result<IfaceId, CommandError> {
        let ifaces = self.host.stack.ifaces().filter(|iface| iface.kind != inet::iface::IfaceKind::Loopback);
        let mut best: Option<(u8, IfaceId)> = None;
        for iface in ifaces {
            let is_peer = |own: &IfaceAddr| self.host.stack.peer(self.cx, iface.id, own.addr) == Some(addr);
            for own in iface.addrs(self.cx).iter().filter(|own| own.contains(addr) || is_peer(own)) {
                if best.is_none_or(|(len, _)| own.len > len) {
                    best = Some((own.len, iface.id));
                }
            }
        }
        let nowhere = || {
            CommandError::failed(format!("{addr} is not on the link of an interface: add an address on its link first"))
        };
        best.map(|(_, id)| id).ok_or_else(nowhere)
    }

    /// Returns the next hop through `gateway`, on the link of `dev` if given; without a gateway,
    /// the destinations are on that link.
    pub(crate) fn hop(&self, gateway: Option<Ipv4Addr>, dev: Option<IfaceId>) -> Result<Via, CommandError> {
        match (gateway, dev) {
            (Some(gateway), dev) => Ok(Via::Gateway(dev.map_or_else(|| self.link_of(gateway), Ok)?, gateway)),
            (None, Some(dev)) => Ok(Via::Link(dev)),
            (None, None) => Err(CommandError::missing("via GATEWAY or dev IF")),
        }
    }

    /// Returns the source address of packets to `dst` with the next hop `via`. This is the outgoing
    /// iface's address whose prefix contains the gateway (or `dst` if there is no gateway). If
    /// there is no such address, it is the iface's first address.
    pub(crate) fn source_of(&self, via: Via, dst: Ipv4Addr) -> Option<Ipv4Addr> {
        let towards = if let Via::Gateway(_, gateway) = via { gateway } else { dst };
        let addrs = self.host.stack.iface(via.iface()?)?.addrs(self.cx);
        addrs.iter().find(|own| own.contains(towards)).or(addrs.first()).map(|own| own.addr)
    }

    /// Adds or replaces a route with one or several paths.
    pub(crate) fn add_route(&self, prefix: Prefix, paths: &[Path]) -> Result<(), CommandError> {
        let added = match paths {
            [only] => self.host.stack.add_route(self.cx, prefix, only.via),
            _ => self.host.stack.add_paths(self.cx, prefix, paths),
        };
        added.map(drop).map_err(|why| CommandError::failed(format!("{prefix}: {why}")))
    }

    /// Returns the next hop of the route to exactly `prefix`; `None` if there is no such route.
    pub(crate) fn route_at(&self, prefix: Prefix) -> Option<Via> {
        self.host.stack.route_at(self.cx, prefix)
    }

    /// Returns the number of seconds until `until`, the end of a lifetime; `None` if the lifetime
    /// is infinite.
    pub(crate) fn seconds_left(&self, until: Instant) -> Option<u64> {
        (until != Instant::NEVER).then(|| until.since(self.cx.now).as_secs())
    }
}
