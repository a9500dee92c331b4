//! Filters: tcpdump expressions, compiled once and evaluated for every frame.
//!
//! An expression (pcap-filter(7)) passes through `lex` and `parse` to `value` and `primitive`,
//! which translate its primitives into a `program`: a list of tests, each with two branches. `run`
//! executes the program on the bytes of an Ethernet frame without FCS. It allocates nothing and
//! does not recurse. A test whose result is already known is not repeated.
//!
//! ```
//! use linerate_wire::filter::Filter;
//!
//! let filter = Filter::compile("tcp port 443 and not net 10")?;
//! assert!(!filter.matches(&[0; 60]));
//!
//! let refused = Filter::compile("tcp port https or and udp").unwrap_err();
//! assert_eq!(
//!     refused.to_string(),
//!     "expected a primitive such as 'host', 'tcp' or 'port'\n  tcp port https or and udp\n                    ^",
//! );
//! # Ok::<(), linerate_wire::filter::FilterError>(())
//! ```
//!
//! # Semantics
//!
//! The same as those of libpcap for Ethernet, including its peculiarities:
//! - `and` and `or` have the same precedence and are left-associative; `not` binds more tightly.
//! - A value inherits the qualifiers before it: `port 80 or 443`, `not host a and b` (not a, and
//!   b).
//! - `less` and `greater` include the given number.
//! - Ports are tested in first fragments of IPv4, and in IPv6 packets whose transport header is
//!   directly after the fixed header. Only a protocol without a port, such as `tcp`, is also
//!   matched after a Fragment header. `tcp[...]` is for IPv4 only.
//! - `vlan`, `mpls` and `pppoes` shift the offsets of everything after them in the text by the
//!   length of their header.
//! - Everything after `%` and `^` is their right operand. If an operator has two operands that load
//!   bytes, only the protocol of the left one is checked: `ip[0] + tcp[0]` matches any IPv4 packet.
//! - A test that reads beyond the frame, or divides by zero, ends the filter: the frame does not
//!   match, even under `not`.
//!
//! # Differences
//!
//! - No names of hosts, networks or Ethernet addresses are looked up. Service names come from a
//!   small table (http, https, ssh, domain, ntp, ...) with Debian's transports, so `port ssh` is
//!   TCP alone. Protocol names come from a table too.
//! - libpcap's optimizer may remove a load whose value is unused, and with it the rejection of a
//!   short frame. Here a frame is treated as with `tcpdump -O`, which disables that optimizer.
//! - Rejected: `protochain`, `gateway`, DECnet addresses, `geneve`, `inbound`, `outbound`,
//!   `ifindex` and everything for link layers other than Ethernet; more than 100 nested parentheses
//!   or signs; very long expressions.
//! - Accepted, but not by libpcap: a value in more than one pair of parentheses, `net ((10))`; a
//!   divisor or shift that is a load, `10 / ip[0]`, which libpcap mistakes for a constant.
//! - `byte 0 & 1` tests that byte of the frame. In libpcap it tests the current contents of a
//!   register.

mod arith;
mod error;
mod lex;
mod names;
mod parse;
mod primitive;
mod program;
mod protocol;
mod run;
#[cfg(test)]
mod tests;
mod token;
mod value;

use alloc::boxed::Box;
use core::str::FromStr;
pub use error::FilterError;

/// A compiled filter expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    insns: Box<[program::Insn]>,
    relations: Box<[arith::Relation]>,
}

/// Maximum length of an expression in bytes.
const MAX_TEXT_LEN: usize = 1 << 16;

impl Filter {
    /// Compiles an expression. An empty or blank one matches every frame.
    ///
    /// # Errors
    /// The position and the reason, if `text` is not a valid expression or uses an unsupported
    /// feature.
    pub fn compile(text: &str) -> Result<Filter, FilterError> {
        let compiled = if text.len() > MAX_TEXT_LEN {
            Err(error::Refusal::new(MAX_TEXT_LEN, "the expression is too long"))
        } else {
            lex::tokens(text).and_then(parse::parse)
        };
        let (made, code) = compiled.map_err(|refusal| FilterError::new(text, refusal.at, refusal.why))?;
        Ok(Filter { insns: made.builder.finish(code).into(), relations: made.relations.into() })
    }

    /// Returns whether a whole frame matches.
    #[inline]
    pub fn matches(&self, frame: &[u8]) -> bool {
        self.matches_captured(frame, frame.len())
    }

    /// Returns whether a frame matches. `captured` is the frame or its beginning. `wire_len` is the
    /// length of the whole frame in bytes, which `len`, `less` and `greater` use.
    #[inline]
    pub fn matches_captured(&self, captured: &[u8], wire_len: usize) -> bool {
        run::run(&self.insns, &self.relations, captured, u32::try_from(wire_len).unwrap_or(u32::MAX))
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    /// Compiles an expression as [`Filter::compile`] does.
    fn from_str(text: &str) -> Result<Filter, FilterError> {
        Filter::compile(text)
    }
}
