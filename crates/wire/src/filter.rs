//! Filters: tcpdump's expressions, compiled once and asked of every frame.
//!
//! An expression (pcap-filter(7)) goes through `lex` and `parse` to `value` and `primitive`, which know what the words ask
//! of a frame, and becomes a `program`: tests with two ways on. `run` walks it over the bytes of an Ethernet frame
//! without FCS. Nothing is allocated there and nothing recurses; what the way so far has answered is not asked again.
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
//! # What it means
//!
//! What libpcap means for Ethernet, its habits included:
//! - `and` and `or` have the same rank and group from the left; `not` binds tighter.
//! - A value inherits the qualifiers before it: `port 80 or 443`, `not host a and b` (not a, and b).
//! - `less` and `greater` include their number.
//! - Ports are those of IPv4's first fragments, and of IPv6 packets where the transport header follows the fixed
//!   header directly. `tcp` alone looks behind a Fragment header too. `tcp[...]` is IPv4 only.
//! - `vlan`, `mpls` and `pppoes` move everything behind them in the text by their header.
//! - `%` and `^` take all that follows as their right side. Of two operands only the left one's protocol is asked for:
//!   `ip[0] + tcp[0]` is IPv4 of any kind.
//! - A test that reads beyond the frame, or divides by zero, ends the filter with no match, under `not` too.
//!
//! # What differs
//!
//! - Nothing is looked up: no host, network or Ethernet names. Services are a small table (http, https, ssh, domain,
//!   ntp, ...) with Debian's transports, so `port ssh` is TCP alone; so are the names of protocols.
//! - libpcap's optimizer may drop a load whose value it does not need, and with it the rejection of a short frame. Here
//!   a frame is treated as `tcpdump -O` treats it.
//! - Refused: `protochain`, `gateway`, DECnet addresses, `geneve`, `inbound`, `outbound`, `ifindex` and all that other
//!   link layers have; more than 100 parentheses or signs within one another, and very long expressions.
//! - Accepted: a value in more than one pair of parentheses, `net ((10))`; a divisor or shift that is a load,
//!   `10 / ip[0]`, which libpcap mistakes for a constant. `byte 0 & 1` tests that byte.

mod arith;
mod error;
mod lex;
mod names;
mod parse;
mod primitive;
mod program;
mod run;
#[cfg(test)]
mod tests;
mod value;

pub use error::FilterError;
use std::str::FromStr;

/// A compiled expression.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Filter {
    insns: Box<[program::Insn]>,
    relations: Box<[arith::Relation]>,
}

/// The longest expression in bytes.
const MAX_TEXT_LEN: usize = 1 << 16;

impl Filter {
    /// Compiles an expression. Blank text matches every frame.
    ///
    /// # Errors
    /// The place and the reason when `text` is no expression, or asks for what is not done.
    pub fn compile(text: &str) -> Result<Filter, FilterError> {
        let compiled = if text.len() > MAX_TEXT_LEN {
            Err(error::Refusal::new(MAX_TEXT_LEN, "the expression is too long"))
        } else {
            lex::tokens(text).and_then(parse::parse)
        };
        let (made, code) = compiled.map_err(|refusal| FilterError::new(text, refusal.at, refusal.why))?;
        Ok(Filter { insns: made.builder.finish(code).into(), relations: made.relations.into() })
    }

    /// Whether a whole frame matches.
    #[inline]
    pub fn matches(&self, frame: &[u8]) -> bool {
        self.matches_captured(frame, frame.len())
    }

    /// Whether a frame matches whose end may have been cut off: it was `wire_len` bytes long, as `len`, `less` and
    /// `greater` see it, and `captured` is what is left.
    #[inline]
    pub fn matches_captured(&self, captured: &[u8], wire_len: usize) -> bool {
        run::run(&self.insns, &self.relations, captured, u32::try_from(wire_len).unwrap_or(u32::MAX))
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    /// The same as [`Filter::compile`].
    fn from_str(text: &str) -> Result<Filter, FilterError> {
        Filter::compile(text)
    }
}
