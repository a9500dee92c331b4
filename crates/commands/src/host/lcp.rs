//! `show lcp`: the mirrors of ifaces and the control packets passed to them.

use super::context::Ctl;
use grammar::CommandError;
use lock::Locks;
use node::PuntStatus;
use node::mirror::MirrorStatus;
use port::mirror::MirrorState;
use serde_json::{Value, json};
use std::fmt::Write;

fn none() -> CommandError {
    CommandError::failed("this host has no mirrors: set the key mirror of an iface, or use --mirror")
}

/// Shows the mirrors, and the rate and counters of each class of control packets.
pub(super) fn shown<L: Locks>(ctl: &Ctl<'_, L>) -> Result<String, CommandError> {
    let (mirrors, classes) = (ctl.host.mirror_status(), ctl.host.punt_status());
    if mirrors.is_empty() {
        return Err(none());
    }
    let injected = ctl.host.stack.counter("inet.mirror.injected");
    let json = || {
        json!({
            "mirrors": mirrors.iter().map(|mirror| mirror_json(ctl, mirror)).collect::<Vec<_>>(),
            "injected": injected,
            "classes": classes.iter().map(class_json).collect::<Vec<_>>(),
        })
    };
    let text = || mirrors_text(ctl, &mirrors) + &classes_text(&classes);
    Ok(ctl.listing(json, text))
}

fn state(mirror: &MirrorStatus) -> &'static str {
    match (mirror.state, mirror.has_carrier) {
        (MirrorState::Gone, _) => "gone",
        (MirrorState::Down, _) => "down",
        (MirrorState::Up, false) => "no-carrier",
        (MirrorState::Up, true) => "up",
    }
}

fn mirror_json<L: Locks>(ctl: &Ctl<'_, L>, mirror: &MirrorStatus) -> Value {
    let [passed, sent] = mirror.frames;
    json!({
        "iface": ctl.iface_name(mirror.iface), "mirror": mirror.device, "netns": mirror.netns,
        "ifindex": mirror.index, "state": state(mirror), "passed": passed, "injected": sent, "fault": mirror.fault,
    })
}

fn class_json(class: &PuntStatus) -> Value {
    json!({ "class": class.class.name(), "rate": class.rate, "passed": class.passed, "policed": class.policed })
}

fn mirrors_text<L: Locks>(ctl: &Ctl<'_, L>, mirrors: &[MirrorStatus]) -> String {
    let mut out = "iface           mirror          netns        ifindex state          passed   injected\n".to_string();
    for mirror in mirrors {
        let MirrorStatus { device, netns, index, .. } = mirror;
        let (iface, state, [passed, sent]) = (ctl.iface_name(mirror.iface), state(mirror), mirror.frames);
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{iface:<15} {device:<15} {netns:<12} {index:>7} {state:<10} {passed:>10} {sent:>10}");
        if let Some(why) = &mirror.fault {
            let _ = writeln!(out, "    {why}");
        }
    }
    out
}

fn classes_text(classes: &[PuntStatus]) -> String {
    let mut out = "\nclass      rate/s      passed     policed\n".to_string();
    for PuntStatus { class, rate, passed, policed } in classes {
        let rate = if *rate == 0 { "-".to_string() } else { rate.to_string() };
        let _ = writeln!(out, "{:<7} {rate:>9} {passed:>11} {policed:>11}", class.name());
    }
    out
}
