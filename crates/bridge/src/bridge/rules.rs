//! Packet filter rules of a port: tcpdump expressions that are checked in order. The first match
//! decides.
//!
//! Ingress rules are checked against the frame as received, before its source is learned. Egress
//! rules are checked against the frame as sent, with its final tag. Frames for reserved groups and
//! the bridge's own BPDUs bypass the rules, so that a rule cannot break a spanning tree.

use super::Bridge;
use crate::PortNo;
use wire::filter::{Filter, FilterError};

/// Maximum number of rules for one port and direction.
pub const MAX_RULES: usize = 256;

/// Action of a rule on matching frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Action {
    /// Pass the frame on.
    #[default]
    Pass,
    /// Drop the frame, with a reason.
    Drop,
}

/// Direction of the frames to which a rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the port into the bridge (ingress).
    In,
    /// From the bridge out through the port (egress).
    Out,
}

/// A rule: a filter and an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Filter that selects the frames.
    pub filter: Filter,
    /// Action on the frames that match the filter.
    pub action: Action,
    /// The filter expression as configured.
    pub text: String,
}

impl Rule {
    /// Creates a rule from the filter expression `text`.
    ///
    /// # Errors
    /// Returns an error if `text` is not a valid expression.
    pub fn new(text: &str, action: Action) -> Result<Rule, FilterError> {
        Ok(Rule { filter: Filter::compile(text)?, action, text: text.to_string() })
    }
}

/// Counters of a rule set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleCounts {
    /// Frames that the rules passed.
    pub passed: u64,
    /// Frames that the rules dropped.
    pub dropped: u64,
}

/// Ordered rules, and a default action for frames that match none of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<(Rule, u64)>,
    otherwise: Action,
    counts: RuleCounts,
}

impl Rules {
    /// Creates a rule set; `otherwise` is the default action. Returns `None` if there are more than
    /// [`MAX_RULES`] rules.
    pub fn new(rules: Vec<Rule>, otherwise: Action) -> Option<Rules> {
        let rules: Vec<_> = rules.into_iter().map(|rule| (rule, 0)).collect();
        (rules.len() <= MAX_RULES).then_some(Rules { rules, otherwise, counts: RuleCounts::default() })
    }

    /// Returns each rule with the number of frames that it passed or dropped.
    pub fn rules(&self) -> impl Iterator<Item = (&Rule, u64)> {
        self.rules.iter().map(|(rule, matched)| (rule, *matched))
    }

    /// Returns the default action.
    pub fn otherwise(&self) -> Action {
        self.otherwise
    }

    /// Returns the counters of the whole set.
    pub fn counts(&self) -> RuleCounts {
        self.counts
    }

    pub(super) fn judge(&mut self, frame: &[u8]) -> Action {
        let first = self.rules.iter_mut().find(|(rule, _)| rule.filter.matches(frame));
        let action = first.map_or(self.otherwise, |(rule, matched)| {
            *matched += 1;
            rule.action
        });
        match action {
            Action::Pass => self.counts.passed += 1,
            Action::Drop => self.counts.dropped += 1,
        }
        action
    }
}

impl Bridge {
    /// Replaces the rules of a port. With `None`, all frames pass.
    pub fn set_rules(&mut self, port: PortNo, direction: Direction, rules: Option<Rules>) {
        let Some(extra) = self.extra_mut(port) else { return };
        match direction {
            Direction::In => extra.rules_in = rules,
            Direction::Out => extra.rules_out = rules,
        }
        self.reconsider();
    }

    /// Returns the rules of a port; `None` if it has none.
    pub fn rules(&self, port: PortNo, direction: Direction) -> Option<&Rules> {
        let extra = self.extra(port)?;
        match direction {
            Direction::In => extra.rules_in.as_ref(),
            Direction::Out => extra.rules_out.as_ref(),
        }
    }
}
