//! Lengths, bytes at an offset, and arithmetic with comparisons.

use super::{Compiler, MAX_LENGTH, Outcome, carried};
use crate::filter::arith::{Arith, Binary, Compare, Guard, Op, Relation, STACK};
use crate::filter::program::{Code, Test};
use crate::filter::protocol::Word;
use alloc::format;
use alloc::string::String;
use alloc::vec;

impl Compiler {
    pub fn wire_len(&mut self, of: impl FnOnce(Test) -> Test) -> Code {
        self.builder.test(of(Test::wire_len()))
    }

    /// Compiles `byte AT ...`: the byte at `at` of the link header.
    pub fn link_byte(&mut self, at: u32, mask: u32, of: impl FnOnce(Test) -> Test) -> Code {
        self.builder.test(of(Test::field(self.link.header.saturating_add(at), 1, mask)))
    }

    /// Compiles `word[index:size]`.
    pub fn load(&self, word: Word, index: Arith, size: u8) -> Result<Arith, String> {
        let packet = self.link.packet();
        let constant = index.constant();
        let Arith { guards, mut ops, depth } = index;
        let (load, guards) = match word {
            Word::Link => (Op::Load { base: self.link.header, size }, guards),
            Word::Icmp6 => (
                Op::Load { base: packet + 40, size },
                [guards.as_slice(), &[Guard::Carries(Word::Ip6), Guard::Next(58)]].concat(),
            ),
            network if carried(network).is_some_and(|ethertype| ethertype > MAX_LENGTH) => {
                (Op::Load { base: packet, size }, [guards.as_slice(), &[Guard::Carries(network)]].concat())
            }
            transport => {
                let proto =
                    transport_number(transport).ok_or_else(|| format!("'{}' cannot be indexed", transport.name()))?;
                (
                    Op::LoadTransport { ip: packet, size },
                    [&[Guard::Carries(Word::Ip)], guards.as_slice(), &[Guard::FirstOf(proto)]].concat(),
                )
            }
        };
        match constant.and_then(|index| fixed(index, load)) {
            Some(test) => ops = vec![Op::Field(test)],
            None => ops.push(load),
        }
        Ok(Arith { guards, ops, depth })
    }

    /// Compiles `left compare right`. The guards of both sides are checked first.
    pub fn relation(&mut self, left: Arith, compare: Compare, right: Arith) -> Outcome {
        let limit = right.constant();
        let simple = limit.and_then(|limit| Some((simple(&left.ops)?, limit)));
        let both = left.beside(right);
        let mut guarded: Option<Code> = None;
        for guard in &both.guards {
            let code = self.guard(*guard)?;
            guarded = Some(match guarded {
                Some(before) => self.builder.and(before, code),
                None => code,
            });
        }
        let compared = match simple {
            Some((test, limit)) => match compare {
                Compare::Equal => self.builder.test(test.eq(limit)),
                Compare::Unequal => self.builder.test(test.eq(limit)).not(),
                Compare::Greater => self.builder.test(test.at_most(limit)).not(),
                Compare::GreaterEqual => self.builder.test(test.at_least(limit)),
                Compare::Less => self.builder.test(test.at_least(limit)).not(),
                Compare::LessEqual => self.builder.test(test.at_most(limit)),
            },
            None => {
                if both.depth > STACK {
                    return Err(format!("the arithmetic needs more than {STACK} values at once"));
                }
                let which = u16::try_from(self.relations.len()).map_err(|_| "too many comparisons")?;
                self.relations.push(Relation { ops: both.ops.into(), compare });
                self.builder.test(Test::relation(which))
            }
        };
        Ok(match guarded {
            Some(guarded) => self.builder.and(guarded, compared),
            None => compared,
        })
    }

    fn guard(&mut self, guard: Guard) -> Outcome {
        match guard {
            Guard::Carries(word) => self.protocol(word),
            Guard::FirstOf(proto) => {
                let carrier = self.builder.test(self.byte(9).eq(proto.into()));
                Ok(self.all(&[self.packet(6, 2, 0x1fff).eq(0)], carrier))
            }
            Guard::Next(proto) => Ok(self.builder.test(self.byte(6).eq(proto.into()))),
        }
    }
}

/// Returns the test for a load with a constant index.
fn fixed(index: u32, load: Op) -> Option<Test> {
    match load {
        Op::Load { base, size } => Some(Test::field(base.checked_add(index)?, size, u32::MAX)),
        // With a larger index, the sum could wrap around and point into the header.
        Op::LoadTransport { ip, size } if index <= 0xffff => Some(Test::transport(ip, index, size, u32::MAX)),
        _ => None,
    }
}

/// Returns the test for a field at a fixed offset, with or without a mask. Most arithmetic has this
/// form and then needs only one instruction.
fn simple(ops: &[Op]) -> Option<Test> {
    match ops {
        [Op::Field(test)] => Some(*test),
        [field @ .., Op::With(Binary::And, mask)] => {
            let test = simple(field)?;
            Some(Test { mask: test.mask & mask, ..test })
        }
        _ => None,
    }
}

fn transport_number(word: Word) -> Option<u8> {
    Some(match word {
        Word::Sctp => 132,
        Word::Tcp => 6,
        Word::Udp => 17,
        Word::Icmp => 1,
        Word::Igmp => 2,
        Word::Igrp => 9,
        Word::Pim => 103,
        Word::Vrrp | Word::Carp => 112,
        _ => return None,
    })
}
