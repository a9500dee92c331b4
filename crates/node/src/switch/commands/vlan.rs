//! VLANs of members: the parameters of if_bridge, and `bridge vlan` of iproute2.

use super::super::Switch;
use super::bridge::dev;
use super::{Info, listing, member, snoop};
use crate::commands::parse;
use bridge::{Admit, PortNo, PortVlan, Stacked, VlanSet};
use grammar::{CommandError, Words};
use serde_json::{Value, json};
use wire::eth::EtherType;

/// Parameters of `ifconfig` handled here.
pub(super) const WORDS: &[&str] = &["vlanfilter", "untagged", "tagged", "+tagged", "admit", "ingress", "stacked"];

const ADMITS: &[(Admit, &str)] = &[(Admit::All, "all"), (Admit::Tagged, "tagged"), (Admit::Untagged, "untagged")];

/// Applies an `ifconfig` parameter, enabled or disabled.
pub(super) fn change(switch: &Switch, name: &str, on: bool, words: &mut Words<'_>) -> Result<(), CommandError> {
    if name == "vlanfilter" {
        let tags = if words.skip("qinq") { EtherType::QINQ } else { EtherType::VLAN };
        filter(switch, on.then_some(tags));
        return Ok(());
    }
    let (number, _) = member(switch, words.next("a member")?)?;
    if name == "untagged" {
        let pvid = if on { parse::number("vlan", words.next("a VLAN")?, 1, 4094)? as u16 } else { 0 };
        set(switch, number, |vlan| give_untagged(vlan, pvid));
        return Ok(());
    }
    match name {
        "admit" => {
            let word = words.next("all, tagged or untagged")?;
            let found = ADMITS.iter().find(|(_, name)| *name == word);
            let (admit, _) = found.ok_or_else(|| CommandError::bad(name, word, "all, tagged or untagged"))?;
            set(switch, number, |vlan| vlan.admit = *admit);
            return Ok(());
        }
        "ingress" => {
            set(switch, number, |vlan| vlan.ingress_filter = on);
            return Ok(());
        }
        "stacked" => {
            set(switch, number, |vlan| vlan.stacked = if on { Stacked::Pass } else { Stacked::Refuse });
            return Ok(());
        }
        _ => {}
    }
    let list: VlanSet = vlans(words.next("VLANs such as 1,10-20, or all")?)?;
    set(switch, number, |vlan| match (name, on) {
        ("tagged", true) => {
            let untagged = vlan.untagged.clone();
            vlan.member = list.iter().chain(untagged.iter()).collect();
        }
        ("tagged", false) => list.iter().for_each(|vid| vlan.member.remove(vid)),
        _ => list.iter().for_each(|vid| vlan.member.insert(vid)),
    });
    Ok(())
}

fn vlans(word: &str) -> Result<VlanSet, CommandError> {
    word.parse().map_err(|why| CommandError::bad("VLANs", word, format!("a list such as 1,10-20 ({why})")))
}

/// Enables or disables VLAN filtering. Learned addresses are flushed, since they belong to other
/// VLANs then.
fn filter(switch: &Switch, tags: Option<EtherType>) {
    switch.each_lane(|lane| {
        let now = lane.now();
        lane.bridge.set_vlan_filtering(tags);
        lane.bridge.forget(|entry| entry.kind == bridge::Kind::Learned, now);
    });
    snoop::vlans_changed(switch);
}

/// Returns the VLANs to query: those that some member is in, or 0 without VLAN filtering. A trunk
/// of all VLANs exceeds the limit of a querier ([`bridge::Querier::vids`]).
pub(super) fn asked_in(switch: &Switch) -> Vec<u16> {
    let members = switch.members();
    let Some(lane) = switch.lane(0) else { return Vec::new() };
    if lane.bridge.vlan_filtering().is_none() {
        return vec![0];
    }
    let all: VlanSet = members
        .iter()
        .filter_map(|(number, _)| lane.bridge.port_vlan(*number))
        .flat_map(|vlan| vlan.member.iter().collect::<Vec<_>>())
        .collect();
    all.iter().take(bridge::MOST_VLANS).collect()
}

/// Makes `pvid` the untagged VLAN of a port in both directions; 0: none.
fn give_untagged(vlan: &mut PortVlan, pvid: u16) {
    vlan.member.remove(vlan.pvid);
    vlan.untagged.remove(vlan.pvid);
    vlan.pvid = pvid;
    if pvid > 0 {
        vlan.member.insert(pvid);
        vlan.untagged.insert(pvid);
    }
    vlan.admit = if pvid > 0 { Admit::All } else { Admit::Tagged };
}

fn set(switch: &Switch, number: PortNo, change: impl Fn(&mut PortVlan)) {
    switch.each_lane(|lane| {
        if let Some(mut vlan) = lane.bridge.port_vlan(number).cloned() {
            change(&mut vlan);
            lane.bridge.set_port_vlan(number, vlan);
        }
    });
    snoop::vlans_changed(switch);
}

/// Runs `bridge vlan show | add|del dev IF vid N[-M] [pvid] [untagged]`.
pub(super) fn run(switch: &Switch, json: bool, mut words: Words<'_>) -> Result<String, CommandError> {
    match words.take().unwrap_or("show") {
        "show" | "list" => words.end().map(|()| show(switch, json)),
        verb @ ("add" | "del") => {
            let (number, _) = dev(switch, &mut words)?;
            match words.next("vid and a VLAN")? {
                "vid" => {}
                other => return Err(CommandError::unknown("word", other, std::iter::once("vid"))),
            }
            let list = vlans(words.next("a VLAN, or two as in 10-20")?)?;
            let (mut pvid, mut untagged) = (false, false);
            while let Some(word) = words.take() {
                match word {
                    "pvid" => pvid = true,
                    "untagged" => untagged = true,
                    other => return Err(CommandError::unknown("word", other, ["pvid", "untagged"].into_iter())),
                }
            }
            if pvid && list.iter().count() != 1 {
                return Err(CommandError::failed("one VLAN alone can be a port's pvid"));
            }
            if verb == "del" {
                let there = switch.lane(0).and_then(|lane| lane.bridge.port_vlan(number).cloned()).unwrap_or_default();
                if let Some(vid) = list.iter().find(|vid| !there.member.contains(*vid)) {
                    return Err(CommandError::failed(format!("VLAN {vid} is not on that port")));
                }
            }
            set(switch, number, |vlan| match verb {
                "add" => add(vlan, &list, pvid, untagged),
                _ => remove(vlan, &list),
            });
            Ok(String::new())
        }
        other => Err(CommandError::unknown("verb", other, ["show", "add", "del"].into_iter())),
    }
}

fn add(vlan: &mut PortVlan, list: &VlanSet, pvid: bool, untagged: bool) {
    for vid in list.iter() {
        vlan.member.insert(vid);
        vlan.untagged.remove(vid);
        if untagged {
            vlan.untagged.insert(vid);
        }
        if pvid {
            vlan.pvid = vid;
            vlan.admit = Admit::All;
        } else if vlan.pvid == vid {
            vlan.pvid = 0;
        }
    }
}

fn remove(vlan: &mut PortVlan, list: &VlanSet) {
    for vid in list.iter() {
        vlan.member.remove(vid);
        vlan.untagged.remove(vid);
        if vlan.pvid == vid {
            vlan.pvid = 0;
        }
    }
}

fn show(switch: &Switch, json: bool) -> String {
    let members = switch.members();
    let Some(lane) = switch.lane(0) else { return String::new() };
    let of = |number: PortNo| lane.bridge.port_vlan(number).cloned().unwrap_or_default();
    let row = |(number, info): &(PortNo, Info)| {
        let vlan = of(*number);
        let one = |vid: u16| {
            let flags: Vec<&str> = [(vlan.pvid == vid, "PVID"), (vlan.untagged.contains(vid), "Egress Untagged")]
                .into_iter()
                .filter_map(|(is, name)| is.then_some(name))
                .collect();
            json!({ "vlan": vid, "flags": flags })
        };
        json!({ "ifname": info.name, "vlans": vlan.member.iter().map(one).collect::<Value>() })
    };
    let text = |(number, info): &(PortNo, Info)| {
        let vlan = of(*number);
        let mut name = info.name.clone();
        let mut out = String::new();
        for vid in vlan.member.iter() {
            let pvid = if vlan.pvid == vid { " PVID" } else { "" };
            let untagged = if vlan.untagged.contains(vid) { " Egress Untagged" } else { "" };
            out += &format!("{:<17} {vid}{pvid}{untagged}\n", std::mem::take(&mut name));
        }
        out
    };
    listing(
        json,
        || members.iter().map(row).collect(),
        || format!("{:<17} vlan-id\n", "port") + &members.iter().map(text).collect::<String>(),
    )
}

/// Returns `vlan untagged N tagged LIST` for a member, with VLAN filtering.
pub(super) fn describe_port(bridge: &bridge::Bridge, number: PortNo) -> Option<String> {
    bridge.vlan_filtering()?;
    let vlan = bridge.port_vlan(number)?;
    let tagged: VlanSet = vlan.member.iter().filter(|vid| !vlan.untagged.contains(*vid)).collect();
    let untagged = if vlan.pvid > 0 { format!(" untagged {}", vlan.pvid) } else { String::new() };
    let tagged = if tagged.is_empty() { String::new() } else { format!(" tagged {tagged}") };
    let admit = if vlan.pvid == 0 { Admit::Tagged } else { Admit::All };
    let admit = if vlan.admit == admit { String::new() } else { format!(" admit {}", admit_word(vlan.admit)) };
    let ingress = if vlan.ingress_filter { "" } else { " -ingress" };
    let stacked = if vlan.stacked == Stacked::Pass { " stacked" } else { "" };
    Some(format!("\t        vlan{untagged}{tagged}{admit}{ingress}{stacked}\n"))
}

fn admit_word(admit: Admit) -> &'static str {
    ADMITS.iter().find(|(known, _)| *known == admit).map_or("all", |(_, word)| word)
}

/// Returns ` vlanfilter`, with VLAN filtering.
pub(super) fn describe(bridge: &bridge::Bridge) -> &'static str {
    match bridge.vlan_filtering() {
        Some(EtherType::QINQ) => " vlanfilter qinq",
        Some(_) => " vlanfilter",
        None => "",
    }
}

pub(super) fn port_json(bridge: &bridge::Bridge, number: PortNo) -> Value {
    let Some(vlan) = bridge.port_vlan(number).filter(|_| bridge.vlan_filtering().is_some()) else { return Value::Null };
    json!({ "pvid": vlan.pvid, "member": vlan.member.to_string(), "untagged": vlan.untagged.to_string(),
            "admit": admit_word(vlan.admit), "ingress": vlan.ingress_filter, "stacked": vlan.stacked == Stacked::Pass })
}
