//! Effect of neighbor discovery messages on an entry (RFC 4861 7.2.3, 7.2.5). Unlike ARP packets,
//! these messages do not always make the entry Reachable.
//!
//! There is no state DELAY: a Stale entry in use is probed immediately, as with ARP.

use super::{Learned, Rules, State, Table};
use crate::iface::IfaceId;
use clock::Instant;
use std::net::Ipv6Addr;
use wire::Mac;
use wire::icmp6::nd::Advert;

impl Table<Ipv6Addr> {
    /// Stores the link-layer address that a solicitation contains for its sender. A new or changed
    /// entry is Stale, since reachability is not confirmed.
    pub fn solicited_by(
        &mut self,
        iface: IfaceId,
        addr: Ipv6Addr,
        mac: Mac,
        create: bool,
        now: Instant,
        rules: Rules,
    ) -> Learned {
        let known = self.entries.get(&(iface, addr)).map(|entry| (entry.state, entry.mac));
        if known.is_some_and(|(state, had)| had == mac && state != State::Incomplete) {
            return Learned::Same;
        }
        let learned = self.learn(iface, addr, mac, create, now, rules);
        if !matches!(learned, Learned::Permanent | Learned::Ignored) {
            self.doubt(iface, addr, now);
        }
        learned
    }

    /// Processes an advertisement. An advertisement creates no entry (RFC 4861 7.2.5). It changes
    /// an existing entry only as far as the flags of the advertisement permit.
    pub fn advertised(
        &mut self,
        iface: IfaceId,
        advert: &Advert,
        link: Option<Mac>,
        now: Instant,
        rules: Rules,
    ) -> Learned {
        let key = (iface, advert.target);
        let Some(entry) = self.entries.get_mut(&key) else { return Learned::Ignored };
        let differs = link.is_some_and(|mac| mac != entry.mac);
        match (entry.state, link) {
            (State::Permanent, _) => return if differs { Learned::Permanent } else { Learned::Same },
            (State::Incomplete, None) => return Learned::Ignored,
            (State::Incomplete, Some(mac)) => {
                let learned = self.learn(iface, advert.target, mac, false, now, rules);
                if !advert.solicited {
                    self.doubt(iface, advert.target, now);
                }
                return learned;
            }
            (State::Reachable, Some(_)) if differs && !advert.replaces => {
                self.doubt(iface, advert.target, now); // keep the MAC address, but probe the neighbor
                return Learned::Same;
            }
            (_, Some(_)) if differs && !advert.replaces => return Learned::Ignored,
            _ => {}
        }
        let mac = link.unwrap_or(entry.mac);
        if advert.solicited {
            return self.learn(iface, advert.target, mac, false, now, rules);
        }
        if !differs {
            return Learned::Same;
        }
        let learned = self.learn(iface, advert.target, mac, false, now, rules);
        self.doubt(iface, advert.target, now);
        learned
    }

    /// Marks an entry as Stale, because the neighbor may no longer have this MAC address.
    fn doubt(&mut self, iface: IfaceId, addr: Ipv6Addr, now: Instant) {
        let key = (iface, addr);
        if let Some(entry) = self.entries.get_mut(&key) {
            (entry.state, entry.since) = (State::Stale, now);
            if entry.place.is_none() {
                self.idle.place(key, entry); // an entry never used for sending keeps its position
            }
        }
    }
}
