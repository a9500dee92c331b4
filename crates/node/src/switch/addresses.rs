//! Addresses known to a switch.

use super::Switch;
use bridge::{Entry, LOCAL};
use std::collections::BTreeMap;

impl Switch {
    /// Returns the number of known addresses. Each thread has a replica of the table; the largest
    /// one has received all changes of the others.
    pub fn address_count(&self) -> usize {
        let mut most = 0;
        self.each_thread(|thread| most = most.max(thread.bridge.fdb().len()));
        most
    }

    /// Returns each known address once, with the name of its member and the number of seconds until
    /// it expires. If several threads have an entry for the address, the entry of the thread that
    /// last received a frame from it is used.
    pub fn addresses(&self) -> Vec<(Entry, String, u64)> {
        let members = self.members();
        let mut all: BTreeMap<(u16, [u8; 6]), (Entry, String, u64)> = BTreeMap::new();
        for number in 0..self.threads() {
            let Some(thread) = self.thread(number) else { continue };
            let timeout = thread.bridge.fdb().timeout();
            for entry in thread.bridge.fdb().entries(thread.now()) {
                let name = match members.iter().find(|(port, info)| *port == entry.port && info.is_polled_by(number)) {
                    Some((_, info)) => info.name.clone(),
                    None if entry.port == LOCAL => self.name.clone(),
                    None => continue,
                };
                let left = timeout.saturating_sub(entry.age).as_secs();
                let of = all.entry((entry.key.vid(), entry.key.mac().0)).or_insert_with(|| (entry, name.clone(), left));
                if of.0.heard || entry.age < of.0.age {
                    *of = (entry, name, left);
                }
            }
        }
        all.into_values().collect()
    }
}
