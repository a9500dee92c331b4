//! Parser of arithmetic: operators by precedence, and loads by index.

use super::parser::{Parsed, Parser};
use crate::filter::arith::{Arith, Binary, Compare};
use crate::filter::error::Refusal;
use crate::filter::protocol::Word;
use crate::filter::token::{Key, Spot, Token};

impl Parser<'_> {
    pub(super) fn arith(&mut self, least: u8) -> Parsed<Arith> {
        let first = self.operand()?;
        self.climb(first, least)
    }

    /// Parses operators of at least the precedence `least`, by precedence climbing. `%` and `^`
    /// have no precedence in libpcap's grammar: they are accepted anywhere, and everything after
    /// them is their right operand.
    pub(super) fn climb(&mut self, left: Arith, least: u8) -> Parsed<Arith> {
        let mut left = left;
        while let Some((op, rank)) = operator(self.peek()).filter(|(_, rank)| *rank >= least) {
            let at = self.take().at;
            let right = self.nested(|parser| parser.arith(if rank == UNRANKED { 1 } else { rank + 1 }))?;
            let shift = matches!(op, Binary::ShiftLeft | Binary::ShiftRight);
            match right.constant() {
                Some(0) if matches!(op, Binary::Div | Binary::Mod) => {
                    return Err(Refusal::new(at, "division by zero"));
                }
                Some(bits) if shift && bits > 31 => return Err(Refusal::new(at, "shift by more than 31 bits")),
                _ => left = left.binary(op, right),
            }
        }
        Ok(left)
    }

    pub(super) fn operand(&mut self) -> Parsed<Arith> {
        let Spot { token, at } = self.spot();
        match token {
            Token::Number(number) => {
                self.take();
                Ok(Arith::number(number))
            }
            Token::Key(Key::Len) => {
                self.take();
                Ok(Arith::wire_len())
            }
            Token::Minus => {
                self.take();
                // A sign binds more tightly than all operators with a precedence.
                self.nested(|parser| parser.arith(UNRANKED)).map(Arith::negate)
            }
            Token::Open => {
                self.take();
                let inner = self.nested(|parser| parser.arith(1))?;
                self.expect(Token::Close, "expected an operator or ')'")?;
                Ok(inner)
            }
            Token::Word(word) => {
                self.take();
                self.index(word, at)
            }
            _ => Err(self.refuse("expected a number, 'len' or a protocol's bytes such as 'ip[0]'")),
        }
    }

    /// Parses `[index]` or `[index:size]` after a protocol.
    pub(super) fn index(&mut self, word: Word, at: usize) -> Parsed<Arith> {
        self.expect(Token::OpenIndex, "expected '['")?;
        let index = self.nested(|parser| parser.arith(1))?;
        let size = if self.accept(Token::Colon) {
            let at = self.spot().at;
            match self.number("expected a size of 1, 2 or 4")? {
                size @ (1 | 2 | 4) => size as u8,
                _ => return Err(Refusal::new(at, "expected a size of 1, 2 or 4")),
            }
        } else {
            1
        };
        self.expect(Token::CloseIndex, "expected an operator, ':' or ']'")?;
        self.to.load(word, index, size).map_err(|why| Refusal::new(at, why))
    }
}

const UNRANKED: u8 = 6;

pub(super) fn operator(token: Token<'_>) -> Option<(Binary, u8)> {
    Some(match token {
        Token::BitOr => (Binary::Or, 1),
        Token::BitAnd => (Binary::And, 2),
        Token::ShiftLeft => (Binary::ShiftLeft, 3),
        Token::ShiftRight => (Binary::ShiftRight, 3),
        Token::Plus => (Binary::Add, 4),
        Token::Minus => (Binary::Sub, 4),
        Token::Times => (Binary::Mul, 5),
        Token::Divide => (Binary::Div, 5),
        Token::Modulo => (Binary::Mod, UNRANKED),
        Token::BitXor => (Binary::Xor, UNRANKED),
        _ => return None,
    })
}

pub(super) fn comparison(token: Token<'_>) -> Option<Compare> {
    Some(match token {
        Token::Equal => Compare::Equal,
        Token::Unequal => Compare::Unequal,
        Token::Greater => Compare::Greater,
        Token::GreaterEqual => Compare::GreaterEqual,
        Token::Less => Compare::Less,
        Token::LessEqual => Compare::LessEqual,
        _ => return None,
    })
}
