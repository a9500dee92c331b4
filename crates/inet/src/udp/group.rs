//! Group memberships of a socket and their source filters (RFC 3678), for IPv4 and IPv6.

use super::pcb::Joined;
use super::{BindError, Pcb};
use crate::Stack;
use crate::groups::{FilterMode, SOURCES_MAX, SourceFilter};
use crate::iface::IfaceId;
use lock::{Cx, Locks};
use std::net::IpAddr;

/// Change of a socket's source filter for a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceChange {
    /// `MCAST_JOIN_SOURCE_GROUP`, `IP_ADD_SOURCE_MEMBERSHIP`: also accepts this source.
    Join,
    /// `MCAST_LEAVE_SOURCE_GROUP`, `IP_DROP_SOURCE_MEMBERSHIP`: no longer accepts this source. If
    /// it was the last source, leaves the group.
    Leave,
    /// `MCAST_BLOCK_SOURCE`, `IP_BLOCK_SOURCE`: accepts all sources except this one and others that
    /// are blocked.
    Block,
    /// `MCAST_UNBLOCK_SOURCE`, `IP_UNBLOCK_SOURCE`: accepts this blocked source again.
    Unblock,
}

impl<L: Locks> Pcb<L> {
    /// Returns whether the socket's memberships accept packets from `source` to `group` that were
    /// received on `iface`; `None` means any interface.
    pub(crate) fn receives_from(&self, iface: Option<IfaceId>, group: IpAddr, source: IpAddr) -> bool {
        let is_it = |joined: &&Joined| joined.group == group && iface.is_none_or(|iface| iface == joined.iface);
        self.groups().iter().filter(is_it).any(|joined| joined.filter.passes(source))
    }
}

impl<L: Locks> Pcb<L> {
    /// Returns whether the source filters of the socket, if any, accept packets from `source` to
    /// `group`. A raw socket receives from all groups that the host has joined.
    pub(crate) fn is_open_to(&self, group: IpAddr, source: IpAddr) -> bool {
        let mut joined = self.groups().iter().filter(|joined| joined.group == group).peekable();
        joined.peek().is_none() || joined.any(|joined| joined.filter.passes(source))
    }
}

impl<L: Locks> Stack<L> {
    /// Joins a multicast group with socket `id`, on `iface`. `None` selects the interface of the
    /// route.
    ///
    /// # Errors
    ///
    /// [`BindError::Invalid`] for an address that is not a multicast group, [`BindError::InUse`] if
    /// the socket has already joined, [`BindError::NoPorts`] if no more groups can be joined.
    pub fn udp_join(&self, cx: Cx, id: usize, group: IpAddr, iface: Option<IfaceId>) -> Result<(), BindError> {
        let iface = self.iface_of_group(cx, group, iface)?;
        if self.filter_of(cx, id, group, iface)?.is_some() {
            return Err(BindError::InUse);
        }
        self.set_filter(cx, id, group, iface, SourceFilter::any())
    }

    /// Leaves a multicast group, regardless of its source filter.
    ///
    /// # Errors
    /// [`BindError::NotOurs`] if the socket has not joined the group.
    pub fn udp_leave(&self, cx: Cx, id: usize, group: IpAddr, iface: Option<IfaceId>) -> Result<(), BindError> {
        let joined = |pcb: &mut Pcb<L>| {
            let is_it = |joined: &&Joined| joined.group == group && iface.is_none_or(|i| i == joined.iface);
            pcb.groups().iter().find(is_it).map(|joined| joined.iface)
        };
        let iface = self.with_pcb(cx, id, joined).ok_or(BindError::NoSocket)?.ok_or(BindError::NotOurs)?;
        self.set_filter(cx, id, group, iface, SourceFilter::default())
    }

    /// Adds a source to the source filter of socket `id` for a group, or removes one from it.
    ///
    /// # Errors
    /// [`BindError::Invalid`] for an address that is not a multicast group, a source of another
    /// family, a group that was joined with a filter of the other mode (include or exclude), or
    /// blocking a source of a group that is not joined. [`BindError::NotOurs`] if a source to be
    /// added is already in the filter, or a source to be removed is not. [`BindError::TooMany`] for
    /// more than [`SOURCES_MAX`] sources. [`BindError::NoPorts`] if no more groups can be joined.
    pub fn udp_change_source(
        &self,
        cx: Cx,
        id: usize,
        change: SourceChange,
        (group, source): (IpAddr, IpAddr),
        iface: Option<IfaceId>,
    ) -> Result<(), BindError> {
        use SourceChange::{Block, Join, Leave, Unblock};
        let iface = self.iface_of_group(cx, group, iface)?;
        let before = self.filter_of(cx, id, group, iface)?;
        let mode = if matches!(change, Join | Leave) { FilterMode::Include } else { FilterMode::Exclude };
        let mut filter = match (before, change) {
            (Some(filter), _) if filter.mode == mode => filter,
            (None, Join) => SourceFilter::default(),
            (None, Leave) => return Err(BindError::NotOurs),
            _ => return Err(BindError::Invalid),
        };
        let changed = match change {
            Join | Block => filter.sources.insert(source),
            Leave | Unblock => filter.sources.remove(&source),
        };
        if !changed {
            return Err(BindError::NotOurs);
        }
        self.set_filter(cx, id, group, iface, filter)
    }

    /// Sets the source filter of socket `id` for a group (RFC 3678 4.2.1). Joins the group if
    /// necessary; leaves it if the filter accepts no source.
    ///
    /// # Errors
    /// Those of [`Stack::udp_change_source`].
    pub fn udp_set_filter(
        &self,
        cx: Cx,
        id: usize,
        group: IpAddr,
        iface: Option<IfaceId>,
        filter: SourceFilter,
    ) -> Result<(), BindError> {
        let iface = self.iface_of_group(cx, group, iface)?;
        self.set_filter(cx, id, group, iface, filter)
    }

    /// Returns the source filter of socket `id` for a group (RFC 3678 4.2.2).
    ///
    /// # Errors
    /// [`BindError::NotOurs`] if the socket has not joined the group.
    pub fn udp_filter(
        &self,
        cx: Cx,
        id: usize,
        group: IpAddr,
        iface: Option<IfaceId>,
    ) -> Result<SourceFilter, BindError> {
        let iface = self.iface_of_group(cx, group, iface)?;
        self.filter_of(cx, id, group, iface)?.ok_or(BindError::NotOurs)
    }

    fn iface_of_group(&self, cx: Cx, group: IpAddr, iface: Option<IfaceId>) -> Result<IfaceId, BindError> {
        Ok(match (iface, group) {
            _ if !group.is_multicast() => return Err(BindError::Invalid),
            (Some(iface), _) => iface,
            (None, IpAddr::V4(group)) => self.exit_for(cx, group, None).map_err(BindError::Output)?.iface,
            (None, IpAddr::V6(group)) => self.exit6_for(cx, group, None).map_err(BindError::Output)?.iface,
        })
    }

    fn filter_of(&self, cx: Cx, id: usize, group: IpAddr, iface: IfaceId) -> Result<Option<SourceFilter>, BindError> {
        let found = |pcb: &mut Pcb<L>| {
            let joined = pcb.groups().iter().find(|joined| (joined.iface, joined.group) == (iface, group));
            joined.map(|joined| joined.filter.clone())
        };
        self.with_pcb(cx, id, found).ok_or(BindError::NoSocket)
    }

    #[inline(never)]
    fn set_filter(
        &self,
        cx: Cx,
        id: usize,
        group: IpAddr,
        iface: IfaceId,
        filter: SourceFilter,
    ) -> Result<(), BindError> {
        let is_source =
            |source: &IpAddr| source.is_ipv4() == group.is_ipv4() && !source.is_multicast() && !source.is_unspecified();
        if !filter.sources.iter().all(is_source) {
            return Err(BindError::Invalid);
        }
        if filter.sources.len() > SOURCES_MAX {
            return Err(BindError::TooMany);
        }
        let stays = !filter.is_none();
        if !self.set_membership(cx, id, (iface, group), stays.then(|| filter.clone())) {
            return Err(BindError::NoPorts);
        }
        let set = |pcb: &mut Pcb<L>| {
            let groups = pcb.groups_mut();
            groups.retain(|joined| (joined.iface, joined.group) != (iface, group));
            if stays {
                groups.push(Joined { iface, group, filter });
            }
        };
        self.with_pcb(cx, id, set).ok_or(BindError::NoSocket)?;
        self.flush(cx);
        Ok(())
    }
}
