//! Cost ledger of a switch: it counts ticks while it is on, and nothing while it is off.

use super::*;

#[test]
fn the_ledger_accounts_stages_while_enabled() {
    let mut lan = Lan::new(2, 1);
    let talk = |lan: &mut Lan| {
        (0..40).for_each(|_| lan.send(0, &frame(2, 1)));
        lan.turn();
        lan.receive(1);
    };
    talk(&mut lan);
    assert_eq!(lan.switch.costs(), node::switch::SwitchCosts::default(), "off");
    lan.say("show ledger on").unwrap();
    talk(&mut lan);
    lan.say("show ledger off").unwrap();
    let booked = lan.switch.costs();
    talk(&mut lan);
    assert_eq!(lan.switch.costs(), booked, "after it is off, booked ticks remain");
    let said = lan.json("show ledger");
    let stages = said["stages"].as_array().unwrap();
    let units = |stage: &str| {
        stages.iter().find(|row| row["stage"] == stage).unwrap_or_else(|| panic!("{said}"))["units"].clone()
    };
    for stage in ["port.rx", "bridge.input", "port.tx", "dispatch.polling"] {
        assert_eq!(units(stage), 40, "{stage}");
    }
    assert!(units("port.rx.idle").as_u64() > Some(0) && units("port.tx.flush").as_u64() > Some(0));
    let sum: u64 = stages.iter().map(|row| row["ticks"].as_u64().unwrap()).sum();
    assert_eq!((&said["ticks"], &said["frames"]), (&sum.into(), &40.into()));
    assert!(said["readings"].as_u64() > Some(6));
    let number = |key: &str| said[key].as_i64().unwrap();
    assert_eq!(sum as i64 + number("probes") + number("unexplained"), number("total"), "{said}");
    let text = lan.say("show ledger").unwrap();
    assert!(text.contains("bridge.input") && text.contains("readings of the counter"), "{text}");
    assert!(lan.say("show ledger maybe").unwrap_err().contains("'maybe'"));
}
