//! `dhclient`: DHCP on an interface, with the options of ISC's client.

#[cfg(test)]
mod tests;

use super::context::{Ctl, DONE, HostForm};
use crate::json::set;
use clock::Instant;
use grammar::{CommandError, Form};
use lock::Locks;
use node::dhcp::Status;
use serde_json::{Value, json};
use std::marker::PhantomData;

/// Syntax forms of `dhclient`.
pub(super) struct Forms<L>(PhantomData<L>);

impl<L: Locks> Forms<L> {
    pub(super) const ALL: &[HostForm<L>] = &[
        Form { grammar: "", about: "List the DHCP clients and their leases.", run: |ctl, _| Ok(list(ctl)) },
        Form {
            grammar: "IF",
            about: "Request a lease for an interface, or renew its lease.",
            run: |ctl, args| {
                let (name, calls) = (args.text("IF"), ctl.host.shared_calls());
                let started = ctl.host.dhcp().start(&calls, ctl.host.iface(name)?.id);
                started.map_err(|why| CommandError::failed(format!("{name}: {why}"))).and(DONE)
            },
        },
        Form {
            grammar: "-r IF",
            about: "Release the lease and end the client.",
            run: |ctl, args| {
                let (name, calls) = (args.text("IF"), ctl.host.shared_calls());
                let released = ctl.host.dhcp().release(&calls, ctl.host.iface(name)?.id);
                ctl.host.stack.flush(ctl.cx);
                if released {
                    DONE
                } else {
                    Err(CommandError::failed(format!("{name}: no DHCP client runs on this interface")))
                }
            },
        },
    ];
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
