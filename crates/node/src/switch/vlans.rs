//! VLANs of a switch's members, and the IGMP and MLD querier, which sends queries in each of them.

use super::Switch;
use bridge::{PortNo, PortVlan, Querier, VlanSet};
use wire::eth::EtherType;

impl Switch {
    /// Turns VLAN filtering on, by tags of the type `tags`, or off. Learned addresses are flushed,
    /// because they belong to other VLANs afterwards.
    pub fn set_vlan_filtering(&self, tags: Option<EtherType>) {
        self.each_thread(|thread| {
            let now = thread.now();
            thread.bridge.set_vlan_filtering(tags);
            thread.bridge.forget(|entry| entry.kind == bridge::Kind::Learned, now);
        });
        self.update_querier();
    }

    /// Changes the VLANs of a member. `change` is called once for each thread.
    pub fn change_vlans(&self, number: PortNo, change: impl Fn(&mut PortVlan)) {
        self.each_thread(|thread| {
            if let Some(mut vlan) = thread.bridge.port_vlan(number).cloned() {
                change(&mut vlan);
                thread.bridge.set_port_vlan(number, vlan);
            }
        });
        self.update_querier();
    }

    /// Returns the settings of the querier; `None` if there is none.
    pub fn querier(&self) -> Option<Querier> {
        self.thread(0).and_then(|thread| thread.bridge.snooping()?.querier.clone())
    }

    /// Sets the querier. Its VLANs are those of the members.
    pub fn set_querier(&self, querier: Querier) {
        let querier = Querier { vids: self.queried_vlans(), ..querier };
        self.each_thread(|thread| {
            let now = thread.now();
            thread.bridge.set_querier(Some(querier.clone()), now);
        });
    }

    /// Updates the VLANs of the querier after a change of VLANs or members.
    pub fn update_querier(&self) {
        if let Some(querier) = self.querier().filter(|querier| querier.vids != self.queried_vlans()) {
            self.set_querier(querier);
        }
    }

    /// Returns the VLANs in which the querier sends queries: those to which a member belongs, or 0
    /// without VLAN filtering. The list is truncated to the maximum of a querier
    /// ([`bridge::Querier::vids`]), which a trunk port of all VLANs would exceed.
    fn queried_vlans(&self) -> Vec<u16> {
        let members = self.members();
        let Some(thread) = self.thread(0) else { return Vec::new() };
        if thread.bridge.vlan_filtering().is_none() {
            return vec![0];
        }
        let all: VlanSet = members
            .iter()
            .filter_map(|(number, _)| thread.bridge.port_vlan(*number))
            .flat_map(|vlan| vlan.member.iter().collect::<Vec<_>>())
            .collect();
        all.iter().take(bridge::MOST_VLANS).collect()
    }
}
