//! Context in which a command of a host runs, and the type of the functions that run commands.

use clock::Instant;
use grammar::{Args, CommandError, Form, Words, parse_all};
use inet::fib::{IpPrefix, Matched, Prefix};
use inet::iface::IfaceId;
use inet::route::{RouteCount, Via};
use lock::{Cx, Locks};
use node::Host;
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
    /// Set if counters of routes are to be shown.
    pub(crate) statistics: bool,
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

    pub(crate) fn iface_name(&self, id: IfaceId) -> &str {
        self.host.stack.iface(id).map_or("?", |iface| &iface.name)
    }

    /// Returns the source address of packets to `dst` with the next hop `via`. This is the outgoing
    /// iface's address whose prefix contains the gateway (or `dst` if there is no gateway). If
    /// there is no such address, it is the iface's first address.
    pub(crate) fn source_of(&self, via: Via, dst: Ipv4Addr) -> Option<Ipv4Addr> {
        let towards = if let Via::Gateway(_, gateway) = via { gateway } else { dst };
        let addrs = self.host.stack.iface(via.iface()?)?.addrs(self.cx);
        addrs.iter().find(|own| own.contains(towards)).or(addrs.first()).map(|own| own.addr)
    }

    /// Returns the next hop of the own route to exactly `prefix`; `None` if there is none.
    pub(crate) fn route_at(&self, prefix: Prefix) -> Option<Via> {
        self.host.stack.route_at(self.cx, prefix)
    }

    /// Returns the counters of a route; `None` if they are not to be shown.
    pub(crate) fn route_count<A: Matched>(&self, prefix: IpPrefix<A>) -> Option<RouteCount> {
        self.statistics.then(|| self.host.stack.route_count(self.cx, prefix))
    }

    /// Returns the number of seconds until `until`, the end of a lifetime; `None` if the lifetime
    /// is infinite.
    pub(crate) fn seconds_left(&self, until: Instant) -> Option<u64> {
        (until != Instant::NEVER).then(|| until.since(self.cx.now).as_secs())
    }
}
