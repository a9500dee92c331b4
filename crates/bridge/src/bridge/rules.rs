//! A port's rules: tcpdump's expressions, asked of each frame in order; the first that matches says whether it passes.
//!
//! Rules for what comes in are asked of a frame as it came, before its source is learned; rules for what goes out of a frame as it
//! leaves, its tag put right. Frames for reserved groups and the bridge's own BPDUs are not asked: a rule does not undo a spanning tree.

use super::Bridge;
use crate::PortNo;
use wire::filter::{Filter, FilterError};

/// Rules of one port in one direction, at most.
pub const MAX_RULES: usize = 256;

/// What a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Action {
    /// It passes.
    #[default]
    Pass,
    /// It is dropped.
    Drop,
}

/// Which way frames go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the port into the bridge.
    In,
    /// Out through the port.
    Out,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Asked of a frame.
    pub filter: Filter,
    /// If it matches.
    pub action: Action,
    /// The expression, as it was written.
    pub text: String,
}

impl Rule {
    /// # Errors
    /// `text` is no expression.
    pub fn new(text: &str, action: Action) -> Result<Rule, FilterError> {
        Ok(Rule { filter: Filter::compile(text)?, action, text: text.to_string() })
    }
}

/// What rules did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleCounts {
    /// Frames that passed.
    pub passed: u64,
    /// Frames that were dropped.
    pub dropped: u64,
}

/// Rules in their order, and what becomes of frames that none of them matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    rules: Vec<(Rule, u64)>,
    otherwise: Action,
    counts: RuleCounts,
}

impl Rules {
    /// `None`: more than [`MAX_RULES`].
    pub fn new(rules: Vec<Rule>, otherwise: Action) -> Option<Rules> {
        let rules: Vec<_> = rules.into_iter().map(|rule| (rule, 0)).collect();
        (rules.len() <= MAX_RULES).then_some(Rules { rules, otherwise, counts: RuleCounts::default() })
    }

    /// Each rule and how many frames it matched first.
    pub fn rules(&self) -> impl Iterator<Item = (&Rule, u64)> {
        self.rules.iter().map(|(rule, matched)| (rule, *matched))
    }

    /// What becomes of a frame that none matches.
    pub fn otherwise(&self) -> Action {
        self.otherwise
    }

    /// What they did, all together.
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
    /// Gives a port rules, in the place of what it had; `None`: all passes.
    pub fn set_rules(&mut self, port: PortNo, direction: Direction, rules: Option<Rules>) {
        let Some(extra) = self.extra_mut(port) else { return };
        match direction {
            Direction::In => extra.rules_in = rules,
            Direction::Out => extra.rules_out = rules,
        }
        self.reconsider();
    }

    /// A port's rules.
    pub fn rules(&self, port: PortNo, direction: Direction) -> Option<&Rules> {
        let extra = self.extra(port)?;
        match direction {
            Direction::In => extra.rules_in.as_ref(),
            Direction::Out => extra.rules_out.as_ref(),
        }
    }
}
