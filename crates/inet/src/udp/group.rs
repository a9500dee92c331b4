//! Groups that a socket joins: by IGMP of IPv4, by MLD of IPv6.

use super::BindError;
use crate::Stack;
use crate::iface::IfaceId;
use lock::{Cx, Locks};
use std::net::IpAddr;

impl<L: Locks> Stack<L> {
    /// Joins a multicast group with socket `id`, on `iface` or where the routes lead.
    ///
    /// # Errors
    /// [`BindError::Invalid`] for an address that is no group, [`BindError::InUse`] if it is joined already,
    /// [`BindError::NoPorts`] if no more groups can be joined.
    pub fn udp_join(&self, cx: Cx, id: usize, group: IpAddr, iface: Option<IfaceId>) -> Result<(), BindError> {
        if !group.is_multicast() {
            return Err(BindError::Invalid);
        }
        let iface = match (iface, group) {
            (Some(iface), _) => iface,
            (None, IpAddr::V4(group)) => self.exit_for(cx, group, None).map_err(BindError::Output)?.iface,
            (None, IpAddr::V6(group)) => self.exit6_for(cx, group, None).map_err(BindError::Output)?.iface,
        };
        let known = self.with_pcb(cx, id, |pcb| pcb.groups().contains(&(iface, group))).ok_or(BindError::NoSocket)?;
        if known {
            return Err(BindError::InUse);
        }
        let joined = match group {
            IpAddr::V4(group) => self.join_group(cx, iface, group),
            IpAddr::V6(group) => self.join_group6(cx, iface, group),
        };
        if !joined {
            return Err(BindError::NoPorts);
        }
        self.with_pcb(cx, id, |pcb| pcb.groups_mut().push((iface, group)));
        self.flush(cx);
        Ok(())
    }

    /// Leaves a multicast group.
    ///
    /// # Errors
    /// [`BindError::NotOurs`] if it was not joined.
    pub fn udp_leave(&self, cx: Cx, id: usize, group: IpAddr, iface: Option<IfaceId>) -> Result<(), BindError> {
        let left = self
            .with_pcb(cx, id, |pcb| {
                let at = pcb.groups().iter().position(|(on, g)| *g == group && iface.is_none_or(|i| i == *on))?;
                Some(pcb.groups_mut().swap_remove(at))
            })
            .ok_or(BindError::NoSocket)?;
        let (iface, group) = left.ok_or(BindError::NotOurs)?;
        self.leave(cx, iface, group);
        self.flush(cx);
        Ok(())
    }

    /// Ends a socket's membership.
    pub(super) fn leave(&self, cx: Cx, iface: IfaceId, group: IpAddr) {
        match group {
            IpAddr::V4(group) => self.leave_group(cx, iface, group),
            IpAddr::V6(group) => self.leave_group6(cx, iface, group),
        }
    }
}
