//! Compares random expressions with an evaluator that interprets their tree on the frame, as the
//! manual page describes it.

use super::frames;
use crate::filter::Filter;
use proptest::prelude::*;
use std::fmt;

#[derive(Clone, Debug)]
pub(super) enum Number {
    Is(u32),
    Len,
    Load(&'static str, Box<Number>, u8),
    Negated(Box<Number>),
    Of(&'static str, Box<Number>, Box<Number>),
}

#[derive(Clone, Debug)]
pub(super) enum Condition {
    Ip,
    Ip6,
    Tcp,
    Udp,
    Host(&'static str, [u8; 4]),
    Port(&'static str, u16),
    PortRange(u16, u16),
    EtherDst(u8),
    Less(u32),
    Compare(&'static str, Number, Number),
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Is(value) => write!(f, "{value:#x}"),
            Number::Len => f.write_str("len"),
            Number::Load(proto, index, 1) => write!(f, "{proto}[{index}]"),
            Number::Load(proto, index, size) => write!(f, "{proto}[{index} : {size}]"),
            Number::Negated(value) => write!(f, "- ({value})"),
            Number::Of(op, left, right) => write!(f, "(({left}) {op} ({right}))"),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Ip => f.write_str("ip"),
            Condition::Ip6 => f.write_str("ip6"),
            Condition::Tcp => f.write_str("tcp"),
            Condition::Udp => f.write_str("udp"),
            Condition::Host(dir, [a, b, c, d]) => write!(f, "{dir} host {a}.{b}.{c}.{d}"),
            Condition::Port(dir, port) => write!(f, "{dir} port {port}"),
            Condition::PortRange(low, high) => write!(f, "udp src portrange {low}-{high}"),
            Condition::EtherDst(last) => write!(f, "ether dst 2:0:0:0:0:{last:x}"),
            Condition::Less(most) => write!(f, "less {most}"),
            Condition::Compare(op, left, right) => write!(f, "{left} {op} {right}"),
            Condition::Not(inner) => write!(f, "not ({inner})"),
            Condition::And(left, right) => write!(f, "({left}) and ({right})"),
            Condition::Or(left, right) => write!(f, "({left}) or ({right})"),
        }
    }
}

/// Result for a frame that does not match because the expression reads beyond it or divides by
/// zero, wherever that occurs.
struct Rejected;

type Answer<T> = Result<T, Rejected>;

struct Frame<'a>(&'a [u8]);

impl Frame<'_> {
    fn load(&self, at: u64, size: u8) -> Answer<u32> {
        let mut value = 0;
        for nth in 0..u64::from(size) {
            value = value << 8 | u32::from(*self.0.get((at + nth) as usize).ok_or(Rejected)?);
        }
        Ok(value)
    }

    fn is_type(&self, ethertype: u32) -> Answer<bool> {
        Ok(self.load(12, 2)? == ethertype)
    }

    fn transport(&self) -> Answer<u32> {
        Ok((self.load(14, 1)? & 15) * 4)
    }

    fn is_first(&self, proto: u32) -> Answer<bool> {
        Ok(self.load(23, 1)? == proto && self.load(20, 2)? & 0x1fff == 0)
    }

    /// Returns whether the payload of IPv4 or IPv6 is `proto`. In IPv6 it may follow a Fragment
    /// header.
    fn carries(&self, proto: u32) -> Answer<bool> {
        if self.is_type(0x0800)? {
            return Ok(self.load(23, 1)? == proto);
        }
        Ok(self.is_type(0x86dd)? && {
            let next = self.load(20, 1)?;
            next == proto || (next == 44 && self.load(54, 1)? == proto)
        })
    }

    fn either(&self, dir: &str, src: u64, dst: u64, mut of: impl FnMut(u64) -> Answer<bool>) -> Answer<bool> {
        Ok(match dir {
            "src" => of(src)?,
            "dst" => of(dst)?,
            _ => of(src)? || of(dst)?,
        })
    }

    fn ports(&self, protos: &[u32], dir: &str, within: impl Fn(u32) -> bool) -> Answer<bool> {
        if self.is_type(0x0800)? {
            let proto = self.load(23, 1)?;
            return Ok(protos.contains(&proto) && self.is_first(proto)? && {
                let at = 14 + u64::from(self.transport()?);
                self.either(dir, at, at + 2, |at| Ok(within(self.load(at, 2)?)))?
            });
        }
        Ok(self.is_type(0x86dd)?
            && protos.contains(&self.load(20, 1)?)
            && self.either(dir, 54, 56, |at| Ok(within(self.load(at, 2)?)))?)
    }

    /// Returns whether the protocol from which `number` reads is present. If it has two operands,
    /// only the left one is checked.
    fn is_there(&self, number: &Number) -> Answer<bool> {
        Ok(match number {
            Number::Is(_) | Number::Len => true,
            Number::Negated(inner) => self.is_there(inner)?,
            Number::Of(_, left, _) => self.is_there(left)?,
            Number::Load("tcp", index, _) => self.is_type(0x0800)? && self.is_there(index)? && self.is_first(6)?,
            Number::Load("udp", index, _) => self.is_type(0x0800)? && self.is_there(index)? && self.is_first(17)?,
            Number::Load("ip", index, _) => self.is_there(index)? && self.is_type(0x0800)?,
            Number::Load("ip6", index, _) => self.is_there(index)? && self.is_type(0x86dd)?,
            Number::Load(_, index, _) => self.is_there(index)?,
        })
    }

    fn number(&self, number: &Number) -> Answer<u32> {
        Ok(match number {
            Number::Is(value) => *value,
            Number::Len => self.0.len() as u32,
            Number::Negated(inner) => 0u32.wrapping_sub(self.number(inner)?),
            Number::Load(proto, index, size) => {
                let index = self.number(index)?;
                let at = match *proto {
                    "ether" => u64::from(index),
                    "ip" | "ip6" => 14 + u64::from(index),
                    _ => 14 + u64::from(index.wrapping_add(self.transport()?)),
                };
                self.load(at, *size)?
            }
            Number::Of(op, left, right) => {
                let (left, right) = (self.number(left)?, self.number(right)?);
                match *op {
                    "+" => left.wrapping_add(right),
                    "-" => left.wrapping_sub(right),
                    "*" => left.wrapping_mul(right),
                    "/" | "%" if right == 0 => return Err(Rejected),
                    "/" => left / right,
                    "%" => left % right,
                    "&" => left & right,
                    "|" => left | right,
                    "^" => left ^ right,
                    "<<" | ">>" if right > 31 => 0,
                    "<<" => left << right,
                    _ => left >> right,
                }
            }
        })
    }

    fn holds(&self, condition: &Condition) -> Answer<bool> {
        Ok(match condition {
            Condition::Ip => self.is_type(0x0800)?,
            Condition::Ip6 => self.is_type(0x86dd)?,
            Condition::Tcp => self.carries(6)?,
            Condition::Udp => self.carries(17)?,
            Condition::Host(dir, address) => {
                let same = |at| Ok(self.load(at, 4)? == u32::from_be_bytes(*address));
                match self.load(12, 2)? {
                    0x0800 => self.either(dir, 26, 30, same)?,
                    0x0806 | 0x8035 => self.either(dir, 28, 38, same)?,
                    _ => false,
                }
            }
            Condition::Port(dir, port) => self.ports(&[6, 17, 132], dir, |found| found == u32::from(*port))?,
            Condition::PortRange(low, high) => {
                let (low, high) = (u32::from(*low.min(high)), u32::from(*low.max(high)));
                self.ports(&[17], "src", |found| (low..=high).contains(&found))?
            }
            Condition::EtherDst(last) => self.load(2, 4)? == u32::from(*last) && self.load(0, 2)? == 0x0200,
            Condition::Less(most) => self.0.len() as u32 <= *most,
            Condition::Compare(op, left, right) => {
                self.is_there(left)? && self.is_there(right)? && {
                    let (left, right) = (self.number(left)?, self.number(right)?);
                    match *op {
                        "=" => left == right,
                        "!=" => left != right,
                        "<" => left < right,
                        "<=" => left <= right,
                        ">" => left > right,
                        _ => left >= right,
                    }
                }
            }
            Condition::Not(inner) => !self.holds(inner)?,
            Condition::And(left, right) => self.holds(left)? && self.holds(right)?,
            Condition::Or(left, right) => self.holds(left)? || self.holds(right)?,
        })
    }
}

fn numbers() -> impl Strategy<Value = Number> {
    let leaf = prop_oneof![
        (0u32..80).prop_map(Number::Is),
        any::<u32>().prop_map(Number::Is),
        Just(Number::Len),
        (
            prop::sample::select(vec!["ip", "tcp", "udp", "ether", "ip6"]),
            0u32..40,
            prop::sample::select(vec![1u8, 2, 4])
        )
            .prop_map(|(proto, index, size)| Number::Load(proto, Box::new(Number::Is(index)), size)),
    ];
    let op = prop::sample::select(vec!["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"]);
    leaf.prop_recursive(3, 8, 2, move |inner| {
        prop_oneof![
            4 => (op.clone(), inner.clone(), inner.clone())
                .prop_map(|(op, left, right)| Number::Of(op, Box::new(left), Box::new(right))),
            1 => inner.clone().prop_map(|inner| Number::Negated(Box::new(inner))),
            1 => (prop::sample::select(vec!["ip", "tcp", "ether"]), inner)
                .prop_map(|(proto, index)| Number::Load(proto, Box::new(index), 1)),
        ]
    })
}

pub(super) fn conditions() -> impl Strategy<Value = Condition> {
    let dir = || prop::sample::select(vec!["src", "dst", "src or dst"]);
    let port = || prop::sample::select(vec![443u16, 80, 53, 22, 12345, 40000, 0]);
    let leaf = prop_oneof![
        Just(Condition::Ip),
        Just(Condition::Ip6),
        Just(Condition::Tcp),
        Just(Condition::Udp),
        (dir(), prop::sample::select(vec![[1, 0, 0, 1], [1, 0, 0, 2], [10, 0, 0, 1], [10, 1, 2, 3]]))
            .prop_map(|(dir, address)| Condition::Host(dir, address)),
        (dir(), port()).prop_map(|(dir, port)| Condition::Port(dir, port)),
        (port(), port()).prop_map(|(low, high)| Condition::PortRange(low, high)),
        (1u8..4).prop_map(Condition::EtherDst),
        (30u32..160).prop_map(Condition::Less),
        (prop::sample::select(vec!["=", "!=", "<", "<=", ">", ">="]), numbers(), numbers())
            .prop_map(|(op, left, right)| Condition::Compare(op, left, right)),
    ];
    leaf.prop_recursive(5, 24, 2, |inner| {
        let two = (inner.clone(), inner.clone());
        prop_oneof![
            inner.prop_map(|inner| Condition::Not(Box::new(inner))),
            two.clone().prop_map(|(left, right)| Condition::And(Box::new(left), Box::new(right))),
            two.prop_map(|(left, right)| Condition::Or(Box::new(left), Box::new(right))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn compiled_and_walked_agree(condition in conditions()) {
        let text = condition.to_string();
        let filter = match Filter::compile(&text) {
            Ok(filter) => filter,
            // An invalid constant as divisor or shift, or more values than fit on the stack.
            Err(why) => {
                let reason = why.reason();
                prop_assert!(["division", "shift", "the arithmetic"].iter().any(|start| reason.starts_with(start)), "{why}");
                return Ok(());
            }
        };
        for of in frames::all().iter().step_by(3) {
            let expected = Frame(&of.frame).holds(&condition).unwrap_or(false);
            prop_assert_eq!(filter.matches(&of.frame), expected, "{} on {}", text, of.name);
        }
    }
}
