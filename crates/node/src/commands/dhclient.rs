//! `dhclient`: DHCP on an interface, with the options of ISC's client.

use super::Ctl;
use super::ip::set;
use crate::dhcp::Status;
use clock::Instant;
use grammar::{CommandError, Words};
use lock::Locks;
use serde_json::{Value, json};

/// Grammar for `help`.
pub(super) const GRAMMAR: &str = "[[-r] IF]";
/// Description for `help`.
pub(super) const ABOUT: &str = "DHCP: leases; asks for a lease or its extension; -r gives it back.";
pub(super) fn run<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, CommandError> {
    let release = words.skip("-r");
    let Some(name) = words.take() else {
        return if release { Err(CommandError::missing("an interface")) } else { Ok(list(ctl)) };
    };
    words.end()?;
    let iface = ctl.iface(name)?;
    let (dhcp, calls) = (ctl.host.dhcp(), ctl.host.shared_calls());
    if release {
        let released = dhcp.release(&calls, iface.id);
        ctl.host.stack.flush(ctl.cx);
        return if released { Ok(String::new()) } else { Err(CommandError::failed(format!("{name}: no DHCP client"))) };
    }
    dhcp.start(&calls, iface.id).map_err(|why| CommandError::failed(format!("{name}: {why}")))?;
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
