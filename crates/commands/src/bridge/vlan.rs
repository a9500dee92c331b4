//! VLANs of members: the parameters of if_bridge, and `bridge vlan` of iproute2.

use super::context::{Control, DONE, Parameter, listing};
use bridge::{Admit, PortNo, PortVlan, Stacked, VlanSet};
use grammar::{Args, CommandError, Form};
use node::switch::{Info, Switch};
use serde_json::{Value, json};
use wire::eth::EtherType;

/// Parameters of `ifconfig` in this module.
pub(super) const FORMS: &[Parameter] = &[
    Form {
        grammar: "vlanfilter [qinq]",
        about: "Turn VLAN filtering on, by 802.1Q tags or by 802.1ad service tags (qinq).",
        run: |of, args| {
            let tags = if args.has("qinq") { EtherType::QINQ } else { EtherType::VLAN };
            of.switch.set_vlan_filtering(Some(tags));
            DONE
        },
    },
    Form {
        grammar: "-vlanfilter [qinq]",
        about: "Turn VLAN filtering off.",
        run: |of, _| {
            of.switch.set_vlan_filtering(None);
            DONE
        },
    },
    Form {
        grammar: "untagged IF 1-4094",
        about: "Set the VLAN of untagged frames at a member.",
        run: |of, args| {
            let pvid = args.int::<u16>("untagged");
            set(of, args, |vlan| vlan.set_untagged(pvid))
        },
    },
    Form {
        grammar: "-untagged IF",
        about: "Remove the VLAN of untagged frames from a member.",
        run: |of, args| set(of, args, |vlan| vlan.set_untagged(0)),
    },
    Form {
        grammar: "tagged IF VLANS",
        about: "Set the VLANs whose frames are tagged at a member.",
        run: |of, args| {
            let list = vlans(args)?;
            set(of, args, |vlan| vlan.set_tagged(&list))
        },
    },
    Form {
        grammar: "+tagged IF VLANS",
        about: "Add VLANs to those whose frames are tagged at a member.",
        run: |of, args| {
            let list = vlans(args)?;
            set(of, args, |vlan| list.iter().for_each(|vid| vlan.member.insert(vid)))
        },
    },
    Form {
        grammar: "-tagged IF VLANS",
        about: "Remove VLANs from a member.",
        run: |of, args| {
            let list = vlans(args)?;
            set(of, args, |vlan| list.iter().for_each(|vid| vlan.member.remove(vid)))
        },
    },
    Form {
        grammar: "admit IF all|tagged|untagged",
        about: "Accept all, only tagged or only untagged frames at a member.",
        run: |of, args| {
            let found = ADMITS.iter().find(|(_, name)| Some(*name) == args.get("admit"));
            set(of, args, |vlan| vlan.admit = found.map_or(Admit::All, |(admit, _)| *admit))
        },
    },
    Form {
        grammar: "[-]ingress IF",
        about: "Drop received frames of VLANs to which the member does not belong.",
        run: |of, args| set(of, args, |vlan| vlan.ingress_filter = args.is_on("ingress")),
    },
    Form {
        grammar: "[-]stacked IF",
        about: "Accept frames with more than one VLAN tag at a member.",
        run: |of, args| {
            let stacked = if args.is_on("stacked") { Stacked::Pass } else { Stacked::Refuse };
            set(of, args, |vlan| vlan.stacked = stacked)
        },
    },
];

const ADMITS: &[(Admit, &str)] = &[(Admit::All, "all"), (Admit::Tagged, "tagged"), (Admit::Untagged, "untagged")];

/// Syntax forms of `bridge vlan`.
pub(super) const BRIDGE: &[Parameter] = &[
    Form {
        grammar: "vlan [show,list]",
        about: "List the VLANs of each member.",
        run: |of, _| Ok(show(of.switch, of.json)),
    },
    Form {
        grammar: "vlan add dev IF vid VLANS [pvid] [untagged]",
        about: "Add VLANs to a member; pvid: also for untagged received frames; untagged: send frames without a tag.",
        run: |of, args| {
            let (list, pvid, untagged) = (listed(args)?, args.has("pvid"), args.has("untagged"));
            set(of, args, |vlan| add(vlan, &list, pvid, untagged))
        },
    },
    Form {
        grammar: "vlan del dev IF vid VLANS [pvid] [untagged]",
        about: "Remove VLANs from a member.",
        run: |of, args| {
            let (list, number) = (listed(args)?, of.member(args)?);
            let there =
                of.switch.thread(0).and_then(|thread| thread.bridge.port_vlan(number).cloned()).unwrap_or_default();
            if let Some(vid) = list.iter().find(|vid| !there.member.contains(*vid)) {
                return Err(CommandError::failed(format!("{} does not belong to VLAN {vid}", args.text("IF"))));
            }
            set(of, args, |vlan| remove(vlan, &list))
        },
    },
];

/// Returns the VLANs given in `bridge vlan add|del`.
fn listed(args: &Args<'_>) -> Result<VlanSet, CommandError> {
    let list = vlans(args)?;
    match args.has("pvid") && list.iter().count() != 1 {
        true => Err(CommandError::failed("pvid: only one VLAN can be a port's pvid")),
        false => Ok(list),
    }
}

fn vlans(args: &Args<'_>) -> Result<VlanSet, CommandError> {
    let word = args.text("VLANS");
    word.parse().map_err(|why| CommandError::bad("VLANs", word, format!("a list such as 1,10-20 ({why})")))
}

/// Changes the VLANs of the member given in a command.
fn set(of: &Control<'_>, args: &Args<'_>, change: impl Fn(&mut PortVlan)) -> Result<String, CommandError> {
    of.switch.change_vlans(of.member(args)?, change);
    DONE
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
    let Some(thread) = switch.thread(0) else { return String::new() };
    let of = |number: PortNo| thread.bridge.port_vlan(number).cloned().unwrap_or_default();
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

/// Returns `vlan untagged N tagged LIST` for a member; `None` without VLAN filtering.
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

/// Returns ` vlanfilter`, or an empty string without VLAN filtering.
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
