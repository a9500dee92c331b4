//! Tests of filters: against a table, a naive evaluator and tcpdump; and rejected expressions.

mod frames;
mod naive;
mod oracle;
mod speed;
mod table;

use super::program::{ACCEPT, Insn, NEXT, REJECT};
use super::{Filter, FilterError};
use proptest::prelude::*;

fn refusal(text: &str) -> FilterError {
    match Filter::compile(text) {
        Err(why) => why,
        Ok(_) => panic!("{:.60} is accepted", text),
    }
}

#[test]
fn errors_have_the_right_position() {
    let cases = [
        ("tcp port x", 9, "expected a port: 'x' is neither a number nor a known service"),
        ("10.0.0.1", 0, "expected a qualifier before this, such as 'host', 'net' or 'port'"),
        ("host a", 5, "expected an address: names such as 'a' are not resolved"),
        ("ip and", 6, "expected a primitive such as 'host', 'tcp' or 'port', found the end of the expression"),
        ("ip proto tcp", 9, "expected a value; a protocol as a value is written with a backslash: '\\tcp'"),
        ("(tcp or udp", 11, "expected 'and', 'or' or ')', found the end of the expression"),
        ("tcp) or udp", 3, "unmatched ')'"),
        ("ip[0:3] = 1", 5, "expected a size of 1, 2 or 4"),
        ("ip[0] / 0 = 1", 6, "division by zero"),
        ("ip[0] + 1", 9, "expected a comparison such as '=' or '>', found the end of the expression"),
        ("host 1.2.3.256", 5, "'1.2.3.256' is not an IPv4 address"),
        ("net 10.1.0.0/8", 4, "the address has bits set outside the mask 255.0.0.0"),
        ("gateway a", 8, "'gateway' is not supported: host names are not resolved"),
        ("ip protochain 6", 14, "'protochain' is not supported: use 'proto'"),
        ("tcp and 80", 8, "no qualifiers before this value to inherit"),
        ("inbound", 0, "this word is not supported: a frame contains neither its direction nor its interface"),
        ("port 08", 5, "'08' has a digit that is not octal"),
        ("len = 4294967296", 6, "'4294967296' does not fit in 32 bits"),
        ("ip \u{e4}", 3, "unexpected character '\u{e4}'"),
        ("mpls and arp", 9, "only IPv4 and IPv6 can be matched below an MPLS label"),
    ];
    for (text, at, why) in cases {
        let error = refusal(text);
        assert_eq!((error.position(), error.reason()), (at, why), "{text}");
    }
}

#[test]
fn the_caret_is_below_the_error() {
    assert_eq!(
        refusal("port 80\tor x y").to_string(),
        "expected a port: 'x' is neither a number nor a known service\n  port 80 or x y\n             ^"
    );
    // Columns are characters.
    assert!(refusal("port \u{e4}").to_string().ends_with("\n  port \u{e4}\n       ^"));
}

#[test]
fn too_long_or_too_deep_expressions_are_rejected() {
    assert_eq!(refusal(&"(".repeat(5000)).reason(), "the expression is nested too deeply");
    assert_eq!(refusal(&"not ".repeat(5000)).reason(), "the expression is nested too deeply");
    assert_eq!(refusal(&format!("{}1 = 1", "- ".repeat(5000))).reason(), "the expression is nested too deeply");
    assert_eq!(refusal(&format!("{}1 = 1", "1 ^ ".repeat(5000))).reason(), "the expression is nested too deeply");
    assert_eq!(refusal(&format!("{}ip", "vlan and ".repeat(6000))).reason(), "the expression is too long");
    assert_eq!(refusal(&"ip or ".repeat(12_000)).reason(), "the expression is too long");
    assert_eq!(refusal(&format!("port 1{}", " or 1".repeat(2000))).reason(), "the expression is too long");
    let deep = format!("ip[0] + {}1{} = 1", "(ip[0] + ".repeat(20), ")".repeat(20));
    assert_eq!(refusal(&deep).reason(), "the arithmetic needs more than 16 values at once");
}

#[test]
fn a_long_chain_is_accepted() {
    for text in ["tcp port 1", "port 1", "host 1.2.3.4"] {
        let (_, value) = text.rsplit_once(' ').unwrap();
        let long = Filter::compile(&format!("{text}{}", format!(" or {value}").repeat(300))).unwrap();
        assert!(long == Filter::compile(text).unwrap(), "a known result is not tested again: {text}");
    }
    assert!(Filter::compile(&format!("host 1.0.0.1{}", " or 10.0.0.1 and 10.0.0.2".repeat(150))).is_ok());
}

#[test]
fn each_ethertype_is_tested_once() {
    let filter = Filter::compile("tcp port 80 or tcp port 443 or udp port 53 or icmp or host 10.0.0.1").unwrap();
    let at_type = filter.insns.iter().filter(|insn| insn.test.at == 10);
    // IPv4, IPv6, ARP, RARP.
    assert_eq!(at_type.count(), 4);
}

/// Returns whether every jump leads forward to an instruction of the program, or out of it, and
/// every instruction is reachable.
fn is_sound(insns: &[Insn]) -> bool {
    let mut reached = vec![false; insns.len()];
    insns.iter().enumerate().all(|(at, insn)| {
        [insn.yes, insn.no].into_iter().all(|target| {
            let to = if target == NEXT { at + 1 } else { usize::from(target) };
            if let Some(there) = reached.get_mut(to) {
                *there = true;
            }
            matches!(target, ACCEPT | REJECT) || (at < to && to < insns.len())
        })
    }) && reached.iter().skip(1).all(|there| *there)
}

/// Words of the language in any order: most texts are rejected, none causes a panic, and all that
/// compile are sound.
fn soup() -> impl Strategy<Value = String> {
    let words: Vec<&str> = include_str!("tests/accepted.txt").split_whitespace().collect();
    prop::collection::vec(prop::sample::select(words), 0..12).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn any_text_compiles_or_is_rejected(text in any::<String>(), ascii in "[ -~]{0,40}", soup in soup()) {
        for text in [text, ascii, soup] {
            match Filter::compile(&text) {
                Ok(filter) => prop_assert!(is_sound(&filter.insns), "{text}"),
                Err(why) => {
                    prop_assert!(why.position() <= text.len());
                    prop_assert!(!why.to_string().is_empty());
                }
            }
        }
    }

    #[test]
    fn any_frame_can_be_matched(frame in prop::collection::vec(any::<u8>(), 0..120), wire_len: u16) {
        for line in include_str!("tests/accepted.txt").lines().filter(|line| !line.starts_with('#')).step_by(7) {
            let filter = Filter::compile(line).unwrap();
            filter.matches(&frame);
            filter.matches_captured(&frame, wire_len.into());
        }
    }
}
