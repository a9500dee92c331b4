//! The grammar: translates tokens to code, from left to right, in one pass.
//!
//! `and` and `or` have the same precedence and are left-associative, as in libpcap; `not` binds
//! more tightly. A value without qualifiers of its own inherits those of the preceding primitive,
//! also through parentheses and `not`. The kind of a parenthesized item (a value, a condition, a
//! number) is known only after the item has been read.

use super::arith::Arith;
use super::error::Refusal;
use super::names;
use super::primitive::{Compiler, Dir};
use super::program::{Code, Test};
use super::protocol::Word;
use super::token::{Key, Spot, Token};
use super::value::{Kind, Prefix, Qualifiers};
use alloc::borrow::ToOwned;
use alloc::vec::Vec;
use arith::{comparison, operator};
use parser::{Parsed, Parser};

mod arith;
mod parser;

/// Kinds of items that are valid at the current position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Allow {
    /// Only a primitive, because there are no qualifiers that a value could inherit.
    Primitive,
    /// Only a value, after qualifiers.
    Value,
    /// A primitive or a value.
    Any,
}

/// An item that was read. Its kind may not be known yet.
enum Item {
    /// A number that may still become a value or part of a relation.
    Number(u32, usize),
    Arith(Arith, usize),
    Condition(Condition),
}

struct Condition {
    code: Code,
    /// Qualifiers that the values after the condition inherit.
    qualifiers: Option<Qualifiers>,
    /// True if the condition consists of values only. Parentheses around it then accept nothing but
    /// values.
    is_value: bool,
}

/// Parses the whole expression; the code is `None` if there are no tokens.
pub(super) fn parse(tokens: Vec<Spot<'_>>) -> Parsed<(Compiler, Option<Code>)> {
    let mut parser = Parser::new(tokens);
    if parser.peek() == Token::End {
        return Ok((parser.to, None));
    }
    let first = parser.condition(None, Allow::Primitive)?;
    let whole = parser.chain(first, None)?;
    match parser.peek() {
        Token::End => Ok((parser.to, Some(whole.code))),
        Token::Close => Err(parser.refuse("unmatched ')'")),
        _ => Err(parser.refuse("expected 'and', 'or' or the end of the expression")),
    }
}

impl<'a> Parser<'a> {
    // Conditions.

    /// Parses `first and ... or ...` to the end of the chain.
    fn chain(&mut self, first: Condition, inherited: Option<Qualifiers>) -> Parsed<Condition> {
        let mut whole = first;
        loop {
            let key = self.peek();
            if !matches!(key, Token::Key(Key::And | Key::Or)) {
                return Ok(whole);
            }
            self.take();
            let allow = if whole.is_value { Allow::Value } else { Allow::Any };
            let then = self.condition(if whole.is_value { inherited } else { whole.qualifiers }, allow)?;
            let code = match key {
                Token::Key(Key::And) => self.to.builder.and(whole.code, then.code),
                _ => self.to.builder.or(whole.code, then.code),
            };
            whole = Condition { code, qualifiers: then.qualifiers, is_value: whole.is_value };
        }
    }

    fn condition(&mut self, inherited: Option<Qualifiers>, allow: Allow) -> Parsed<Condition> {
        let item = self.item(inherited, allow)?;
        self.settle(item, inherited, allow)
    }

    /// Turns an item into a condition. A number is treated as a value if `allow` permits values.
    /// Fails for any other number, and for an arithmetic expression without a comparison.
    fn settle(&mut self, item: Item, inherited: Option<Qualifiers>, allow: Allow) -> Parsed<Condition> {
        match item {
            Item::Condition(condition) => Ok(condition),
            Item::Number(number, at) if allow != Allow::Primitive => {
                self.value(Token::Number(number), at, None, inherited)
            }
            Item::Number(..) => Err(self.refuse("expected a comparison such as '=', or a qualifier before the number")),
            Item::Arith(..) => Err(self.refuse("expected a comparison such as '=' or '>'")),
        }
    }

    /// Parses a primary. If a comparison begins with it, parses the whole comparison.
    fn item(&mut self, inherited: Option<Qualifiers>, allow: Allow) -> Parsed<Item> {
        let primary = self.primary(inherited, allow)?;
        if allow == Allow::Value {
            return Ok(primary);
        }
        let (left, at) = match primary {
            Item::Number(number, at) if self.goes_on() => (Arith::number(number), at),
            Item::Arith(arith, at) => (arith, at),
            other => return Ok(other),
        };
        let left = self.climb(left, 1)?;
        let Some(compare) = comparison(self.peek()) else { return Ok(Item::Arith(left, at)) };
        self.take();
        let right = self.arith(1)?;
        let code = self.to.relation(left, compare, right);
        let code = self.placed(at, code)?;
        Ok(Item::Condition(Condition { code, qualifiers: None, is_value: false }))
    }

    /// Returns whether an arithmetic operator or a comparison follows.
    fn goes_on(&self) -> bool {
        comparison(self.peek()).is_some() || operator(self.peek()).is_some()
    }

    fn primary(&mut self, inherited: Option<Qualifiers>, allow: Allow) -> Parsed<Item> {
        let Spot { token, at } = self.spot();
        match token {
            Token::Key(Key::Not) => {
                self.take();
                let inner = self.nested(|parser| parser.condition(inherited, allow))?;
                Ok(Item::Condition(Condition { code: inner.code.not(), ..inner }))
            }
            Token::Open => self.parenthesis(inherited, allow),
            Token::Number(number) => {
                self.take();
                Ok(Item::Number(number, at))
            }
            Token::Mac(_) | Token::Address6(_) | Token::Dotted(_) | Token::Name(_) => {
                if allow == Allow::Primitive {
                    return Err(self.refuse("expected a qualifier before this, such as 'host', 'net' or 'port'"));
                }
                self.take();
                let prefix = self.prefix(token)?;
                self.value(token, at, prefix, inherited).map(Item::Condition)
            }
            _ if allow == Allow::Value => Err(self.refuse(match token {
                Token::Word(_) => "expected a value; a protocol as a value is written with a backslash: '\\tcp'",
                _ => "expected a value",
            })),
            Token::Key(Key::Len) | Token::Minus => Ok(Item::Arith(self.operand()?, at)),
            Token::Word(word) => {
                self.take();
                if self.peek() == Token::OpenIndex {
                    return Ok(Item::Arith(self.index(word, at)?, at));
                }
                self.primitive(Some(word), at).map(Item::Condition)
            }
            _ => self.primitive(None, at).map(Item::Condition),
        }
    }

    /// Parses an item in parentheses; its content determines its kind.
    fn parenthesis(&mut self, inherited: Option<Qualifiers>, allow: Allow) -> Parsed<Item> {
        self.take();
        let inner = self.nested(|parser| {
            let item = parser.item(inherited, allow)?;
            if parser.peek() == Token::Close && !matches!(item, Item::Condition(_)) {
                return Ok(item);
            }
            let first = parser.settle(item, inherited, allow)?;
            let qualifiers = inherited;
            parser.chain(first, inherited).map(|whole| Item::Condition(Condition { qualifiers, ..whole }))
        })?;
        self.expect(Token::Close, "expected 'and', 'or' or ')'")?;
        Ok(inner)
    }

    /// Parses `/24` or `mask 255.255.255.0` after an address.
    fn prefix(&mut self, address: Token<'_>) -> Parsed<Option<Prefix<'a>>> {
        let dotted = matches!(address, Token::Dotted(_));
        if (dotted || matches!(address, Token::Address6(_))) && self.accept(Token::Divide) {
            let Token::Number(len) = self.peek() else { return Err(self.refuse("expected a prefix length")) };
            self.take();
            return Ok(Some(Prefix::Len(len)));
        }
        if dotted && self.accept(Token::Key(Key::Mask)) {
            let Token::Dotted(mask) = self.peek() else {
                return Err(self.refuse("expected a mask such as 255.255.255.0"));
            };
            self.take();
            return Ok(Some(Prefix::Mask(mask)));
        }
        Ok(None)
    }

    fn value(
        &mut self,
        token: Token<'_>,
        at: usize,
        prefix: Option<Prefix<'_>>,
        inherited: Option<Qualifiers>,
    ) -> Parsed<Condition> {
        let Some(qualifiers) = inherited else {
            return Err(Refusal::new(at, "no qualifiers before this value to inherit"));
        };
        let code = qualifiers.value(&mut self.to, token, prefix);
        let code = self.placed(at, code)?;
        Ok(Condition { code, qualifiers: inherited, is_value: true })
    }

    /// Parses a primitive that begins with a keyword, or with `layer`, a protocol that has been
    /// read.
    fn primitive(&mut self, layer: Option<Word>, at: usize) -> Parsed<Condition> {
        let key = match self.peek() {
            Token::Key(key) => key,
            _ if layer.is_some() => return self.word_alone(layer, at),
            _ => return Err(self.refuse("expected a primitive such as 'host', 'tcp' or 'port'")),
        };
        let made = match key {
            Key::Src | Key::Dst | Key::Host | Key::Net | Key::Port | Key::PortRange => return self.qualified(layer),
            Key::Proto => return self.of_kind(layer, Kind::Proto),
            Key::ProtoChain => return self.of_kind(layer, Kind::ProtoChain),
            Key::Gateway => return self.of_kind(layer, Kind::Gateway),
            Key::Broadcast => self.taken().to.broadcast(layer),
            Key::Multicast => self.taken().to.multicast(layer),
            _ if layer.is_some() => return self.word_alone(layer, at),
            Key::Less => {
                self.number_after("expected a length").map(|most| Ok(self.to.wire_len(|len| len.at_most(most))))?
            }
            Key::Greater => {
                self.number_after("expected a length").map(|least| Ok(self.to.wire_len(|len| len.at_least(least))))?
            }
            Key::Byte => Ok(self.byte()?),
            Key::Vlan => {
                let id = self.taken().optional_number()?;
                self.to.vlan(id)
            }
            Key::Mpls => {
                let label = self.taken().optional_number()?;
                self.to.mpls(label)
            }
            Key::Pppoed => self.taken().to.pppoe_discovery(),
            Key::Pppoes => {
                let session = self.taken().optional_number()?;
                self.to.pppoe_session(session)
            }
            Key::Llc => {
                let kind = self.taken().llc_kind()?;
                self.to.logical_link(kind)
            }
            _ => return Err(self.refuse("expected a primitive such as 'host', 'tcp' or 'port'")),
        };
        let code = self.placed(at, made)?;
        Ok(Condition { code, qualifiers: None, is_value: false })
    }

    fn taken(&mut self) -> &mut Self {
        self.take();
        self
    }

    fn word_alone(&mut self, word: Option<Word>, at: usize) -> Parsed<Condition> {
        let made = word.map_or_else(|| Err("expected a protocol".to_owned()), |word| self.to.protocol(word));
        Ok(Condition { code: self.placed(at, made)?, qualifiers: None, is_value: false })
    }

    /// Parses a primitive that begins with a direction (`src or dst`) or a kind (`host`, `port`).
    fn qualified(&mut self, layer: Option<Word>) -> Parsed<Condition> {
        let dir = self.dir()?.unwrap_or(Dir::Either);
        let kind = match self.peek() {
            Token::Key(Key::Host) => Kind::Host,
            Token::Key(Key::Net) => Kind::Net,
            Token::Key(Key::Port) => Kind::Port,
            Token::Key(Key::PortRange) => Kind::PortRange,
            _ => Kind::Unsaid,
        };
        if kind != Kind::Unsaid {
            self.take();
        }
        self.condition_after(Qualifiers { layer, dir, kind })
    }

    fn of_kind(&mut self, layer: Option<Word>, kind: Kind) -> Parsed<Condition> {
        self.take();
        self.condition_after(Qualifiers { layer, dir: Dir::Either, kind })
    }

    /// Parses the values after qualifiers, which together form a primitive.
    fn condition_after(&mut self, qualifiers: Qualifiers) -> Parsed<Condition> {
        let values = self.nested(|parser| parser.condition(Some(qualifiers), Allow::Value))?;
        Ok(Condition { code: values.code, qualifiers: Some(qualifiers), is_value: false })
    }

    fn dir(&mut self) -> Parsed<Option<Dir>> {
        let (one, other) = match self.peek() {
            Token::Key(Key::Src) => (Dir::Src, Key::Dst),
            Token::Key(Key::Dst) => (Dir::Dst, Key::Src),
            _ => return Ok(None),
        };
        self.take();
        let joined = match self.peek() {
            Token::Key(Key::Or) => Dir::Either,
            Token::Key(Key::And) => Dir::Both,
            _ => return Ok(Some(one)),
        };
        self.take();
        self.expect(Token::Key(other), "expected the opposite direction ('src' or 'dst'), or a value before this")?;
        Ok(Some(joined))
    }

    /// Skips the current word and parses the number after it.
    fn number_after(&mut self, why: &str) -> Parsed<u32> {
        self.take();
        self.number(why)
    }

    /// Parses `vlan 5`, `vlan (5)`, or `vlan` alone.
    fn optional_number(&mut self) -> Parsed<Option<u32>> {
        match self.peek() {
            Token::Number(number) => {
                self.take();
                Ok(Some(number))
            }
            Token::Open => self.nested(|parser| {
                parser.take();
                let number = parser.optional_number()?;
                if number.is_none() {
                    return Err(parser.refuse("expected a number"));
                }
                parser.expect(Token::Close, "expected ')'")?;
                Ok(number)
            }),
            _ => Ok(None),
        }
    }

    fn llc_kind(&mut self) -> Parsed<Option<(u32, u32)>> {
        let name = match self.peek() {
            Token::Name(name) => name,
            Token::Key(Key::Rnr) => "rnr",
            _ => return Ok(None),
        };
        let kind = names::llc_kind(name).ok_or_else(|| self.refuse("expected a kind of LLC frame such as 'i' or 'ui'"));
        self.take();
        kind.map(Some)
    }

    /// Parses `byte 0 = 1`, the old form of `ether[0] = 1`. The operators `&` and `|` test that the
    /// result is not zero.
    fn byte(&mut self) -> Parsed<Code> {
        let at = self.number_after("expected the offset of a byte")?;
        let compare = self.take();
        let number = self.number("expected a number")?;
        let (to, any) = (&mut self.to, u32::MAX);
        Ok(match compare.token {
            Token::Equal => to.link_byte(at, any, |byte| byte.eq(number)),
            Token::Greater => to.link_byte(at, any, |byte| byte.at_most(number)).not(),
            Token::Less => to.link_byte(at, any, |byte| byte.at_least(number)).not(),
            Token::BitAnd => to.link_byte(at, number, |byte| byte.eq(0)).not(),
            Token::BitOr => to.link_byte(at, any, |byte| if number == 0 { byte.eq(0) } else { never(byte) }).not(),
            _ => return Err(Refusal::new(compare.at, "expected one of '=', '<', '>', '&' and '|'")),
        })
    }
}

/// Returns a test that is never true, but that still requires the byte to exist.
fn never(byte: Test) -> Test {
    byte.eq(u32::MAX)
}
