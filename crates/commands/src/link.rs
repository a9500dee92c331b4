//! Links as listed by `ip link` and `netstat -i`: the ifaces of a host, the ports of a bridge.

use inet::iface::Traffic;
use port::PortCounts;
use serde_json::{Value, json};

/// Style of `ip` listings: options -s, -br and -o.
#[derive(Clone, Copy, Default)]
pub(crate) struct Style {
    /// Include counters in the output.
    pub(crate) statistics: bool,
    /// Print one short line per link.
    pub(crate) brief: bool,
    /// Print one line per entry, with a backslash in place of each inner line break.
    pub(crate) oneline: bool,
}

/// Packet counters of one direction.
#[derive(Clone, Copy, Default)]
pub(crate) struct Direction {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) errors: u64,
    /// Packets dropped because no buffer or queue space was available.
    pub(crate) dropped: u64,
    /// Packets lost before they reached the port (`missed` in [`PortCounts`]).
    pub(crate) missed: u64,
}

impl From<&Traffic> for Direction {
    fn from(traffic: &Traffic) -> Direction {
        let (packets, bytes, errors) = (traffic.packets.get(), traffic.bytes.get(), traffic.errors.get());
        Direction { packets, bytes, errors, ..Direction::default() }
    }
}

/// Packet counters of a link.
#[derive(Clone, Copy, Default)]
pub(crate) struct LinkCounters {
    pub(crate) rx: Direction,
    pub(crate) tx: Direction,
}

impl LinkCounters {
    /// Returns the counters of a port.
    pub(crate) fn through(counts: &PortCounts) -> LinkCounters {
        let (rx, tx) = (&counts.rx, &counts.tx);
        let received = Direction {
            packets: rx.frames.get(),
            bytes: rx.bytes.get(),
            errors: rx.errors.get() + rx.malformed.get(),
            dropped: rx.no_buffer.get(),
            missed: rx.missed.get(),
        };
        let sent =
            Direction { packets: tx.frames.get(), bytes: tx.bytes.get(), errors: tx.dropped(), ..Direction::default() };
        LinkCounters { rx: received, tx: sent }
    }

    /// Adds the counters of another queue of this port.
    pub(crate) fn add(&mut self, other: LinkCounters) {
        for (way, more) in [(&mut self.rx, other.rx), (&mut self.tx, other.tx)] {
            way.packets += more.packets;
            way.bytes += more.bytes;
            way.errors += more.errors;
            way.dropped += more.dropped;
            way.missed += more.missed;
        }
    }

    /// Returns the lines with counters that `ip -s link` prints, in iproute2's columns.
    fn text(&self) -> String {
        let table = |name: &str, last: [&str; 2], values: [u64; 6]| {
            let heads = ["bytes", "packets", "errors", "dropped", last[0], last[1]];
            let values = values.map(|value| value.to_string());
            let widths: Vec<usize> =
                heads.iter().zip(&values).map(|(head, value)| head.len().max(value.len())).collect();
            let row = |cells: &[&str]| -> String {
                cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$} ")).collect()
            };
            let cells: Vec<&str> = values.iter().map(String::as_str).collect();
            format!("    {name}: {}\n        {}\n", row(&heads), row(&cells))
        };
        let (rx, tx) = (self.rx, self.tx);
        table("RX", ["missed", "mcast"], [rx.bytes, rx.packets, rx.errors, rx.dropped, rx.missed, 0])
            + &table("TX", ["carrier", "collsns"], [tx.bytes, tx.packets, tx.errors, tx.dropped, 0, 0])
    }

    /// Returns the object `stats64` of `ip -j -s`.
    fn json(&self) -> Value {
        let (rx, tx) = (self.rx, self.tx);
        json!({
            "rx": { "bytes": rx.bytes, "packets": rx.packets, "errors": rx.errors, "dropped": rx.dropped,
                    "over_errors": rx.missed, "multicast": 0 },
            "tx": { "bytes": tx.bytes, "packets": tx.packets, "errors": tx.errors, "dropped": tx.dropped,
                    "carrier_errors": 0, "collisions": 0 },
        })
    }
}

pub(crate) struct Link {
    /// Index of the link, from 1.
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) flags: Vec<&'static str>,
    pub(crate) mtu: usize,
    /// Bridge to which the link belongs as a port; `None` if it is not a bridge port.
    pub(crate) master: Option<String>,
    /// Operational state of RFC 2863, as Linux names it.
    pub(crate) state: &'static str,
    /// Link type: `ether`, `loopback`, `gre` and so on.
    pub(crate) kind: &'static str,
    /// The link's own address, and its broadcast address or, for a tunnel, the address of the
    /// remote end. `None` for a port without an address.
    pub(crate) addresses: Option<(String, String)>,
    /// Set if the link is a tunnel, so that the second address is the address of the remote end.
    pub(crate) is_tunnel: bool,
    /// Details of a tunnel or port, as a line of text and as the JSON object `linkinfo`.
    pub(crate) info: Option<(String, Value)>,
    pub(crate) passed: LinkCounters,
}

impl Link {
    /// Returns the text that `ip link` prints for the link.
    pub(crate) fn text(&self, style: Style) -> String {
        let (index, name, mtu, state) = (self.index, &self.name, self.mtu, self.state);
        let flags = self.flags.join(",");
        let address = self.addresses.as_ref().map_or("", |(own, _)| own);
        if style.brief {
            return format!("{name:<16} {state:<14} {address} <{flags}> \n");
        }
        let master = self.master.as_ref().map(|master| format!(" master {master}")).unwrap_or_default();
        let mut out = format!("{index}: {name}: <{flags}> mtu {mtu}{master} state {state}\n    link/{}", self.kind);
        if let Some((own, other)) = &self.addresses {
            out += &format!(" {own} {} {other}", if self.is_tunnel { "peer" } else { "brd" });
        }
        out.push('\n');
        out += self.info.as_ref().map_or("", |(text, _)| text);
        if style.statistics {
            out += &self.passed.text();
        }
        if style.oneline { one_line(&out) } else { out }
    }

    /// Returns the JSON object of the link in `ip -j link`.
    pub(crate) fn json(&self, style: Style) -> Value {
        let (address, broadcast) = self.addresses.clone().unzip();
        let mut row = json!({
            "ifindex": self.index, "ifname": self.name, "flags": self.flags, "mtu": self.mtu,
            "operstate": self.state, "link_type": self.kind, "address": address, "broadcast": broadcast,
        });
        let mut set = |key: &str, value: Value| super::json::set(&mut row, key, value);
        if let Some(master) = &self.master {
            set("master", master.as_str().into());
        }
        if self.is_tunnel {
            set("link_pointtopoint", true.into());
        }
        if let Some((_, info)) = &self.info {
            set("linkinfo", info.clone());
        }
        if style.statistics {
            set("stats64", self.passed.json());
        }
        row
    }

    /// Returns the header of `netstat -i`.
    pub(crate) fn netstat_head() -> String {
        format!(
            "{:<8} {:>6} {:<18} {:<18} {:>10} {:>6} {:>10} {:>6}\n",
            "Name", "Mtu", "Network", "Address", "Ipkts", "Ierrs", "Opkts", "Oerrs"
        )
    }

    /// Returns the line of the link in `netstat -i`.
    pub(crate) fn netstat(&self) -> String {
        let Link { name, mtu, passed: LinkCounters { rx, tx }, .. } = self;
        let (link, address) = (format!("<Link#{}>", self.index), self.addresses.as_ref().map_or("-", |(own, _)| own));
        format!(
            "{name:<8} {mtu:>6} {link:<18} {address:<18} {:>10} {:>6} {:>10} {:>6}\n",
            rx.packets, rx.errors, tx.packets, tx.errors
        )
    }

    /// Returns the JSON object of the link in `netstat -i`, with the given network-layer addresses.
    pub(crate) fn netstat_json(&self, addresses: &[String]) -> Value {
        let LinkCounters { rx, tx } = self.passed;
        json!({
            "ifname": self.name, "mtu": self.mtu, "address": self.addresses.as_ref().map(|(own, _)| own),
            "addresses": addresses,
            "rx": { "packets": rx.packets, "bytes": rx.bytes, "errors": rx.errors, "dropped": rx.dropped },
            "tx": { "packets": tx.packets, "bytes": tx.bytes, "errors": tx.errors },
        })
    }
}

/// Joins the lines of an entry into one, as `ip -o` does. Each line break except the last becomes a
/// backslash.
pub(crate) fn one_line(text: &str) -> String {
    text.trim_end_matches('\n').replace('\n', "\\") + "\n"
}
