//! A filter that drops all frames that a device sends. Measurements of the kernel's own stack send
//! to a device with this filter.
//!
//! The hook is the egress side of the `clsact` qdisc: frames are dropped before the device's queue,
//! when the measured stack has done all of its work. Three classifiers can drop frames. They are
//! tried in order, because the kernel's configuration determines which of them exist: `matchall`
//! with the action `gact`; `bpf` in direct-action mode (one classic instruction, "return
//! TC_ACT_SHOT", which needs no bpf(2) call and therefore no privilege beyond that of the
//! namespace); and `u32` with `gact`.

use super::message::Message;
use super::{Answer, Netlink, NetlinkError};
use std::fmt;

const CLSACT: u32 = 0xffff_fff1; // TC_H_CLSACT
const CLSACT_HANDLE: u32 = 0xffff_0000; // ffff:
const EGRESS: u32 = 0xffff_fff3; // TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS)
const SHOT: u32 = 2; // TC_ACT_SHOT
const ALL: u16 = 3; // ETH_P_ALL

/// Classifier that drops the frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DropBy {
    /// `matchall` with the action `gact drop`.
    Matchall,
    /// `bpf` in direct-action mode.
    Bpf,
    /// `u32` that matches everything, with the action `gact drop`.
    U32,
}

impl DropBy {
    /// All classifiers, in the order in which they are tried.
    pub const ALL: [DropBy; 3] = [DropBy::Matchall, DropBy::Bpf, DropBy::U32];
}

impl fmt::Display for DropBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            DropBy::Matchall => "clsact egress, matchall action drop",
            DropBy::Bpf => "clsact egress, bpf direct-action drop",
            DropBy::U32 => "clsact egress, u32 action drop",
        })
    }
}

/// Reasons why no filter could be set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DropError {
    /// The qdisc `clsact` cannot be added, because the kernel does not have it or the process has
    /// no permission.
    Qdisc(NetlinkError),
    /// No classifier works. Contains each classifier with its error.
    Filters(Vec<(DropBy, NetlinkError)>),
}

impl fmt::Display for DropError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DropError::Qdisc(error) => error.fmt(f),
            DropError::Filters(all) => {
                let all: Vec<_> = all.iter().map(|(_, error)| error.to_string()).collect();
                write!(f, "this kernel has no classifier that can drop frames: {}", all.join("; "))
            }
        }
    }
}

impl std::error::Error for DropError {}

impl Netlink {
    /// Drops all frames that `dev` sends from now on, before they reach its queue. Returns the
    /// classifier used.
    ///
    /// # Errors
    /// The error of the qdisc, or those of all classifiers.
    pub fn add_drop_filter(&mut self, dev: &str) -> Result<DropBy, DropError> {
        let index = self.ifindex(dev).map_err(DropError::Qdisc)?;
        let mut failed = Vec::new();
        self.add_clsact(dev, index).map_err(DropError::Qdisc)?;
        for by in DropBy::ALL {
            match self.add_filter(dev, index, by) {
                Ok(_) => return Ok(by),
                Err(error) => failed.push((by, error)),
            }
        }
        Err(DropError::Filters(failed))
    }

    /// Drops all frames that `dev` sends, as [`Netlink::add_drop_filter`] does, but with the
    /// classifier `by` only.
    ///
    /// # Errors
    /// The kernel's error if it does not support the qdisc or the classifier.
    pub fn add_drop_filter_by(&mut self, dev: &str, by: DropBy) -> Result<(), NetlinkError> {
        let index = self.ifindex(dev)?;
        self.add_clsact(dev, index)?;
        self.add_filter(dev, index, by).map(drop)
    }

    /// Replaces the queue of `dev` with one that drops all frames (`blackhole`), for a kernel that
    /// has none of the classifiers in [`DropBy`].
    ///
    /// # Errors
    /// ENOENT if the kernel does not have the qdisc `blackhole`.
    pub fn set_blackhole(&mut self, dev: &str) -> Result<(), NetlinkError> {
        const ROOT: u32 = 0xffff_ffff; // TC_H_ROOT
        let index = self.ifindex(dev)?;
        let mut message = Message::new(libc::RTM_NEWQDISC, (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16);
        message.tc(index, 0, ROOT, 0);
        message.text(libc::TCA_KIND, "blackhole");
        self.request(message, || format!("set queue of {dev} to blackhole")).map(drop)
    }

    fn add_clsact(&mut self, dev: &str, index: u32) -> Result<(), NetlinkError> {
        let mut message = Message::new(libc::RTM_NEWQDISC, libc::NLM_F_CREATE as u16);
        message.tc(index, CLSACT_HANDLE, CLSACT, 0);
        message.text(libc::TCA_KIND, "clsact");
        match self.request(message, || format!("add qdisc clsact to {dev}")) {
            Err(error) if error.errno != libc::EEXIST => Err(error),
            _ => Ok(()),
        }
    }

    fn add_filter(&mut self, dev: &str, index: u32, by: DropBy) -> Answer {
        let mut message = Message::new(libc::RTM_NEWTFILTER, (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16);
        message.tc(index, 0, EGRESS, 1 << 16 | u32::from(ALL.to_be()));
        message.text(libc::TCA_KIND, kind(by));
        message.nest(libc::TCA_OPTIONS, |options| fill(options, by));
        self.request(message, || format!("add filter {by} to {dev}"))
    }
}

fn kind(by: DropBy) -> &'static str {
    match by {
        DropBy::Matchall => "matchall",
        DropBy::Bpf => "bpf",
        DropBy::U32 => "u32",
    }
}

/// Writes the classifier's own attributes (linux/pkt_cls.h).
fn fill(options: &mut Message, by: DropBy) {
    match by {
        DropBy::Matchall => options.nest(2, gact_drop), // TCA_MATCHALL_ACT
        DropBy::Bpf => {
            let ret = libc::BPF_RET as u16 | libc::BPF_K as u16;
            // Fields of struct sock_filter: code, jt, jf, k.
            let program = [&ret.to_ne_bytes()[..], &[0, 0], &SHOT.to_ne_bytes()[..]].concat();
            options.attr(4, &1u16.to_ne_bytes()); // TCA_BPF_OPS_LEN
            options.attr(5, &program); // TCA_BPF_OPS
            options.attr(8, &1u32.to_ne_bytes()); // TCA_BPF_FLAGS: direct action
        }
        DropBy::U32 => {
            // Fields of struct tc_u32_sel: flags (terminal), offshift, nkeys, pad, offmask, off,
            // offoff, hoff, hmask; then one key (mask, val, off, offmask), all zero, which matches
            // everything.
            let mut selector = [0; 32];
            [selector[0], selector[2]] = [1, 1];
            options.attr(5, &selector); // TCA_U32_SEL
            options.nest(7, gact_drop); // TCA_U32_ACT
        }
    }
}

/// Writes a list with a single action: `gact drop`.
fn gact_drop(actions: &mut Message) {
    actions.nest(1, |action| {
        action.text(1, "gact"); // TCA_ACT_KIND
        action.nest(2, |options| {
            // TCA_ACT_OPTIONS contains TCA_GACT_PARMS with the fields of struct tc_gact: index,
            // capab, action, refcnt, bindcnt.
            let parms: Vec<u8> = [0, 0, SHOT, 0, 0].iter().flat_map(|word: &u32| word.to_ne_bytes()).collect();
            options.attr(2, &parms);
        });
    });
}
