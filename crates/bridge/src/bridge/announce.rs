//! Replicas: several bridges that are one, each with its own ports' frames, tell each other what they learn.
//!
//! A replica announces an address when it learns it or hears that it moved, and again each quarter of the table's timeout while it is
//! seen, so that the others do not forget it and learn what they missed. What is lost on the way costs a flood, no frame.

use super::Bridge;
use crate::{Cursor, Key, Kind, Learned, PortNo};
use clock::Instant;
use std::collections::VecDeque;

/// Announcements that wait at most.
const MOST: usize = 1024;
/// Entries that are looked at for saying them again, at a time.
const PAGE: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Announced {
    waiting: VecDeque<(Key, PortNo)>,
    /// How far the table was said again, and when that begins anew.
    again: Option<Cursor>,
    due: Instant,
}

impl Announced {
    pub fn note(&mut self, key: Key, port: PortNo, learned: Learned) {
        if matches!(learned, Learned::New | Learned::Moved(_)) {
            self.push(key, port);
        }
    }

    fn push(&mut self, key: Key, port: PortNo) {
        if self.waiting.len() < MOST {
            self.waiting.push_back((key, port));
        }
    }
}

impl Bridge {
    /// From now on what is learned can be taken by [`Bridge::take_announced`].
    pub fn announce(&mut self) {
        self.announced = Some(Announced::default());
    }

    /// What this replica has learned: whose address, at which port.
    pub fn take_announced(&mut self) -> Option<(Key, PortNo)> {
        self.announced.as_mut()?.waiting.pop_front()
    }

    /// What another replica has learned, at a port of its own.
    pub fn hear(&mut self, key: Key, port: PortNo, now: Instant) {
        let sticky = self.member(port).is_some_and(|member| member.sticky);
        self.fdb.learn(key, port, sticky, now);
    }

    /// Says again what is seen at the ports of `own`, a page at a time.
    pub fn announce_again(&mut self, own: &[PortNo], now: Instant) {
        let quarter = self.fdb.timeout() / 4;
        let Some(announced) = &mut self.announced else { return };
        let from = match announced.again {
            Some(from) => from,
            None if now < announced.due => return,
            None => Cursor::default(),
        };
        if announced.waiting.len() > MOST - PAGE - 4 {
            return;
        }
        announced.due = now.after(quarter);
        let fresh =
            |entry: &crate::Entry| entry.kind != Kind::Static && own.contains(&entry.port) && entry.age <= quarter;
        let page = self.fdb.page(from, PAGE, fresh, now);
        announced.again = page.next;
        page.entries.iter().for_each(|entry| announced.push(entry.key, entry.port));
    }
}
