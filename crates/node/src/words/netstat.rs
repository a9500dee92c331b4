//! `netstat`: counters in sentences, pools, ifaces, routes.

use super::parse::Words;
use super::{Ctl, WordError, iproute, route, show};
use lock::Locks;
use serde_json::{Map, Value, json};
use stats::{DropReason, Entry};
use std::collections::BTreeMap;

pub(super) fn run<L: Locks>(ctl: &Ctl<'_, L>, mut words: Words<'_>) -> Result<String, WordError> {
    let mut letters = String::new();
    while let Some(word) = words.take() {
        match word.strip_prefix('-') {
            Some(given) if given.chars().all(|c| "smirn".contains(c)) => letters += given,
            _ => return Err(WordError::unknown("option", word, ["-s", "-m", "-i", "-r", "-n"].into_iter())),
        }
    }
    let has = |letter| letters.contains(letter);
    match () {
        () if has('s') => Ok(sentences(ctl, letters.matches('s').count() > 1)),
        () if has('m') => Ok(show::pools(ctl)),
        () if has('i') => Ok(ifaces(ctl)),
        () if has('r') && ctl.json => iproute::run(ctl, Words::new(&["show"])),
        () if has('r') => Ok(route::show(ctl)),
        () => Err(WordError::missing("-s, -m, -i or -r")),
    }
}

/// What has happened, a sentence each; `all`: also what has not.
fn sentences<L: Locks>(ctl: &Ctl<'_, L>, all: bool) -> String {
    let mut entries = ctl.host.stack.snapshot();
    entries.retain(|entry| all || entry.value > 0);
    let json = || Value::Object(entries.iter().map(|e| (e.name.clone(), e.value.into())).collect::<Map<_, _>>());
    ctl.listing(json, || grouped(&entries))
}

/// One paragraph per module: `inet.ip4`, with what it dropped.
fn grouped(entries: &[Entry]) -> String {
    let mut groups: BTreeMap<&str, String> = BTreeMap::new();
    for entry in entries {
        let module = entry.name.rsplit_once('.').map_or("", |(module, _)| module);
        let module = module.strip_suffix(".in").or(module.strip_suffix(".out")).unwrap_or(module);
        let dropped = DropReason::ALL.iter().any(|why| why.name() == entry.name);
        let sentence = in_a_row(entry.sentence);
        let line = if dropped { format!("dropped: {sentence}") } else { sentence };
        *groups.entry(module).or_default() += &format!("\t{} {line}\n", entry.value);
    }
    groups.iter().map(|(module, lines)| format!("{module}:\n{lines}")).collect()
}

/// A sentence without its capital and its full stop; abbreviations keep theirs.
fn in_a_row(sentence: &str) -> String {
    let sentence = sentence.strip_suffix('.').unwrap_or(sentence);
    let mut chars = sentence.chars();
    let (first, second) = (chars.next(), chars.next());
    match (first, second) {
        (Some(first), Some(second)) if !second.is_uppercase() && !second.is_numeric() => {
            first.to_lowercase().chain(sentence.chars().skip(1)).collect()
        }
        _ => sentence.to_string(),
    }
}

fn ifaces<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let ports = ctl.host.ports();
    let counts = |id| ports.iter().find(|port| port.iface == id).map(|port| port.counts.clone());
    let rows = || ctl.host.stack.ifaces().map(|iface| (iface, counts(iface.id)));
    let row_json = || {
        let row = rows().map(|(iface, counts)| {
            let n = |pick: fn(&port::PortCounts) -> u64| counts.as_ref().map_or(0, |counts| pick(counts));
            json!({
                "ifname": iface.name, "mtu": iface.mtu(), "address": iface.mac.to_string(),
                "addresses": iface.addrs(ctl.cx).iter().map(|a| format!("{}/{}", a.addr, a.len)).collect::<Vec<_>>(),
                "rx": { "packets": n(|c| c.rx.frames.get()), "bytes": n(|c| c.rx.bytes.get()),
                        "errors": n(|c| c.rx.errors.get() + c.rx.malformed.get()), "dropped": n(|c| c.rx.no_buffer.get()) },
                "tx": { "packets": n(|c| c.tx.frames.get()), "bytes": n(|c| c.tx.bytes.get()),
                        "errors": n(|c| c.tx.dropped()) },
            })
        });
        Value::Array(row.collect())
    };
    let text = || {
        let mut out = format!(
            "{:<8} {:>6} {:<18} {:<18} {:>10} {:>6} {:>10} {:>6}\n",
            "Name", "Mtu", "Network", "Address", "Ipkts", "Ierrs", "Opkts", "Oerrs"
        );
        for (iface, counts) in rows() {
            let n = |pick: fn(&port::PortCounts) -> u64| counts.as_ref().map_or(0, |counts| pick(counts));
            let link = format!("<Link#{}>", iface.id.0 + 1);
            let (mac, mtu) = (iface.mac.to_string(), iface.mtu());
            let (ipkts, opkts) = (n(|c| c.rx.frames.get()), n(|c| c.tx.frames.get()));
            let (ierrs, oerrs) = (n(|c| c.rx.errors.get() + c.rx.malformed.get()), n(|c| c.tx.dropped()));
            out += &format!(
                "{:<8} {mtu:>6} {link:<18} {mac:<18} {ipkts:>10} {ierrs:>6} {opkts:>10} {oerrs:>6}\n",
                iface.name
            );
            for addr in iface.addrs(ctl.cx) {
                let network = inet::fib::Prefix::new(addr.addr, addr.len).map(|p| p.to_string()).unwrap_or_default();
                out += &format!("{:<8} {:>6} {network:<18} {}\n", iface.name, "-", addr.addr);
            }
        }
        out
    };
    ctl.listing(row_json, text)
}
