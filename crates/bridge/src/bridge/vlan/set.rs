//! A set of VLANs, one bit each, written as `1,10-20`.

use std::str::FromStr;
use std::{error, fmt};

/// Highest VLAN ID.
const LAST: u16 = 4094;

/// A set of VLAN IDs from 1 to 4094.
#[derive(Clone, PartialEq, Eq)]
pub struct VlanSet(Box<[u64; 64]>);

impl Default for VlanSet {
    fn default() -> VlanSet {
        VlanSet(Box::new([0; 64]))
    }
}

impl VlanSet {
    /// Returns the set of all VLANs.
    pub fn all() -> VlanSet {
        (1..=LAST).collect()
    }

    /// Returns whether `vid` is in the set.
    #[inline]
    pub fn contains(&self, vid: u16) -> bool {
        self.0.get(usize::from(vid >> 6)).is_some_and(|word| word >> (vid & 63) & 1 != 0)
    }

    /// Adds `vid`; ignores an invalid VLAN ID.
    pub fn insert(&mut self, vid: u16) {
        if let Some(word) = self.0.get_mut(usize::from(vid >> 6)).filter(|_| (1..=LAST).contains(&vid)) {
            *word |= 1 << (vid & 63);
        }
    }

    /// Removes `vid`.
    pub fn remove(&mut self, vid: u16) {
        if let Some(word) = self.0.get_mut(usize::from(vid >> 6)) {
            *word &= !(1 << (vid & 63));
        }
    }

    /// Returns the VLANs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        (1..=LAST).filter(|vid| self.contains(*vid))
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

impl FromIterator<u16> for VlanSet {
    fn from_iter<I: IntoIterator<Item = u16>>(vids: I) -> VlanSet {
        let mut set = VlanSet::default();
        vids.into_iter().for_each(|vid| set.insert(vid));
        set
    }
}

impl fmt::Display for VlanSet {
    /// Formats the set as ranges, such as `1,10-20`. An empty set results in an empty string.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        let mut vids = self.iter().peekable();
        while let Some(first) = vids.next() {
            let mut last = first;
            while let Some(next) = vids.next_if_eq(&(last + 1)) {
                last = next;
            }
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for VlanSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VlanSet({self})")
    }
}

/// Error: the text does not describe a set of VLANs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadVlans;

impl fmt::Display for BadVlans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid VLAN set: expected numbers from 1 to 4094 and ranges, such as 1,10-20")
    }
}

impl error::Error for BadVlans {}

impl FromStr for VlanSet {
    type Err = BadVlans;

    /// Parses the text format of [`VlanSet`], such as `1,10-20`. Also accepts `all`, and the empty
    /// string for an empty set.
    fn from_str(text: &str) -> Result<VlanSet, BadVlans> {
        let mut set = VlanSet::default();
        if text == "all" {
            return Ok(VlanSet::all());
        }
        for part in text.split(',').filter(|_| !text.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(BadVlans);
            }
            (first..=last).for_each(|vid| set.insert(vid));
        }
        Ok(set)
    }
}

fn number(text: &str) -> Result<u16, BadVlans> {
    text.parse().ok().filter(|vid| (1..=LAST).contains(vid)).ok_or(BadVlans)
}
