//! State of the parser: the position in the tokens, and the compiler.

use crate::filter::error::Refusal;
use crate::filter::primitive::Compiler;
use crate::filter::program::Code;
use crate::filter::token::{Spot, Token};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Maximum nesting of parentheses and negations; bounds the recursion.
const MAX_NESTING: usize = 100;

pub(super) type Parsed<T> = Result<T, Refusal>;

pub(super) struct Parser<'a> {
    tokens: Vec<Spot<'a>>,
    next: usize,
    nesting: usize,
    pub(super) to: Compiler,
}

impl<'a> Parser<'a> {
    pub(super) fn new(tokens: Vec<Spot<'a>>) -> Parser<'a> {
        Parser { tokens, next: 0, nesting: 0, to: Compiler::new() }
    }

    pub(super) fn spot(&self) -> Spot<'a> {
        let end = self.tokens.last().copied().unwrap_or(Spot { token: Token::End, at: 0 });
        self.tokens.get(self.next).copied().unwrap_or(end)
    }

    pub(super) fn peek(&self) -> Token<'a> {
        self.spot().token
    }

    pub(super) fn take(&mut self) -> Spot<'a> {
        let spot = self.spot();
        self.next += 1;
        spot
    }

    pub(super) fn accept(&mut self, token: Token<'_>) -> bool {
        let found = self.peek() == token;
        self.next += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, token: Token<'_>, why: &str) -> Parsed<()> {
        if self.accept(token) { Ok(()) } else { Err(self.refuse(why)) }
    }

    pub(super) fn refuse(&self, why: &str) -> Refusal {
        let found = match self.peek() {
            Token::Foreign(reason) => format!("this word is not supported: {reason}"),
            Token::End => format!("{why}, found the end of the expression"),
            _ => why.to_owned(),
        };
        Refusal::new(self.spot().at, found)
    }

    /// Adds the position `at` to an error of the compiler. Also fails if the program has the
    /// maximum number of instructions.
    pub(super) fn placed(&self, at: usize, made: Result<Code, String>) -> Parsed<Code> {
        let code = made.map_err(|why| Refusal::new(at, why))?;
        if self.to.builder.is_full() { Err(Refusal::new(at, "the expression is too long")) } else { Ok(code) }
    }

    pub(super) fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.nesting == MAX_NESTING {
            return Err(self.refuse("the expression is nested too deeply"));
        }
        self.nesting += 1;
        let made = inner(self);
        self.nesting -= 1;
        made
    }

    pub(super) fn number(&mut self, why: &str) -> Parsed<u32> {
        let Token::Number(number) = self.peek() else { return Err(self.refuse(why)) };
        self.take();
        Ok(number)
    }
}
