//! Group memberships of a socket and their source filters (RFC 3678), for either family.

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
    /// `MCAST_JOIN_SOURCE_GROUP`, `IP_ADD_SOURCE_MEMBERSHIP`: also receives from this source.
    Join,
    /// `MCAST_LEAVE_SOURCE_GROUP`, `IP_DROP_SOURCE_MEMBERSHIP`: removes this source; with the last
    /// source, the group is left.
    Leave,
    /// `MCAST_BLOCK_SOURCE`, `IP_BLOCK_SOURCE`: receives from all sources but this one.
    Block,
    /// `MCAST_UNBLOCK_SOURCE`, `IP_UNBLOCK_SOURCE`: receives from this blocked source again.
    Unblock,
}

impl<L: Locks> Pcb<L> {
    /// Returns whether the socket's memberships accept packets from `source` to `group`, received
    /// by `iface`; `None` stands for any interface.
    pub(crate) fn receives_from(&self, iface: Option<IfaceId>, group: IpAddr, source: IpAddr) -> bool {
        let is_it = |joined: &&Joined| joined.group == group && iface.is_none_or(|iface| iface == joined.iface);
        self.groups().iter().filter(is_it).any(|joined| joined.filter.passes(source))
    }
}

impl<L: Locks> Pcb<L> {
    /// Returns whether no source filter of the socket blocks packets from `source` to `group`. A
    /// raw socket receives from all groups that the host has joined.
    pub(crate) fn is_open_to(&self, group: IpAddr, source: IpAddr) -> bool {
        let mut joined = self.groups().iter().filter(|joined| joined.group == group).peekable();
        joined.peek().is_none() || joined.any(|joined| joined.filter.passes(source))
    }
}

impl<L: Locks> Stack<L> {
    /// Joins a multicast group with socket `id`, on `iface` or, with `None`, on the interface of
    /// the route.
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

    /// Leaves a multicast group, whatever its source filter.
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

    /// Changes the source filter of socket `id` for a group by one source.
    ///
    /// # Errors
    /// [`BindError::Invalid`]: not a group, a source of another family, a group joined in the other
    /// mode, or a group not joined when blocking a source. [`BindError::NotOurs`]: the source is in
    /// the filter already, or is not. [`BindError::TooMany`]: more than [`SOURCES_MAX`].
    /// [`BindError::NoPorts`] if no more groups can be joined.
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

    /// Sets the source filter of socket `id` for a group (RFC 3678 4.2.1): joins the group, changes
    /// the filter or, if it accepts nothing, leaves the group.
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
