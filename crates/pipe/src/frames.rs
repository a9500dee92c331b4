//! A batch of frames in one arena.

use port::pcap::Section;
use std::sync::Arc;
use wire::link::LinkType;
use wire::text::{Arena, MAX_FRAME, MIN_FRAME, SLACK, Stamp};

/// When a frame came, or is to go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Time {
    /// Nobody said.
    #[default]
    None,
    /// As a line of text or a binary record has it.
    Stamp(Stamp),
    /// Nanoseconds since 1970, as a capture has it.
    Wall(u64),
}

impl Time {
    /// As a stamp, by a counter whose tick is `tick_ns`.
    pub fn stamp(self, tick_ns: u64) -> Option<Stamp> {
        match self {
            Time::None => None,
            Time::Stamp(stamp) => Some(stamp),
            Time::Wall(ns) => Some(Stamp::arrival(ns / tick_ns.max(1))),
        }
    }

    /// As nanoseconds, if there is a time.
    pub fn wall_ns(self, tick_ns: u64) -> Option<u64> {
        match self {
            Time::None => None,
            Time::Stamp(stamp) => Some(stamp.ticks().saturating_mul(tick_ns)),
            Time::Wall(ns) => Some(ns),
        }
    }
}

/// In front of each frame, for headers to be pushed.
const HEADROOM: usize = 16; // four VLAN tags
/// What a batch holds, in bytes, before it is full: what a second-level cache holds beside the text it comes from.
const FULL: usize = 256 * 1024;
/// What a frame takes at most.
const MOST: usize = HEADROOM + MAX_FRAME + SLACK;

/// Metadata of a capture's record beside bytes and time, where it differs from the usual.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct About {
    /// Bytes at the frame's end that were not captured.
    pub cut: u32,
    /// The interface: an index into the interfaces of [`Frames::section`].
    pub interface: u32,
    /// Options of its pcapng block, direction and comments among them ([`port::pcap::Record::options`]).
    pub options: Vec<u8>,
    /// The link header in whose place the frame has an Ethernet header.
    pub link: Option<(LinkType, Box<[u8]>)>,
}

/// The usual: an Ethernet frame of the first interface, captured whole.
static USUAL: About = About { cut: 0, interface: 0, options: Vec::new(), link: None };

impl About {
    /// Length on the link of a frame that has `len` bytes here, at most 2^32 - 1: the most that a capture can say, also
    /// of a frame that has become longer since.
    pub fn wire_len(&self, len: usize) -> usize {
        let ours = self.link.as_ref().map_or(0, |_| MIN_FRAME);
        let link = self.link.as_ref().map_or(0, |(_, header)| header.len());
        (len - ours.min(len) + link + self.cut as usize).min(u32::MAX as usize)
    }
}

#[derive(Clone, Copy, Debug)]
struct Item {
    at: u32,
    len: u32,
    /// Index into the batch's list, from 1; 0: the usual.
    about: u32,
    /// Free bytes in front.
    headroom: u8,
    time: Time,
}

impl Item {
    fn range(&self) -> std::ops::Range<usize> {
        self.at as usize..self.at as usize + self.len as usize
    }
}

/// Frames in their order. Emptied, it keeps its memory.
#[derive(Debug)]
pub struct Frames {
    bytes: Vec<u8>,
    end: usize,
    list: Vec<Item>,
    abouts: Vec<About>,
    section: Option<Arc<Section>>,
}

impl Default for Frames {
    fn default() -> Frames {
        Frames::new()
    }
}

impl Frames {
    /// An empty batch.
    pub fn new() -> Frames {
        Frames { bytes: vec![0; FULL + MOST], end: 0, list: Vec::new(), abouts: Vec::new(), section: None }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Is it time to work on these before more come? One more can be added as long as it is not.
    pub fn is_full(&self) -> bool {
        self.end >= FULL
    }

    /// Removes all frames. The description of their origin stays, as it is the stream's.
    pub fn clear(&mut self) {
        self.list.clear();
        self.abouts.clear();
        self.end = 0;
    }

    /// Where the next frame's bytes are to be written: [`MAX_FRAME`] bytes and slack for vectors behind them; nothing when full.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        if self.is_full() {
            return &mut [];
        }
        self.bytes.get_mut(self.end + HEADROOM..self.end + MOST).unwrap_or_default()
    }

    /// What was written to [`Frames::room`] is a frame of `len` bytes.
    #[inline]
    pub fn commit(&mut self, len: usize, time: Time) {
        let at = self.end + HEADROOM;
        self.list.push(Item {
            at: at as u32,
            len: len.min(MAX_FRAME) as u32,
            about: 0,
            headroom: HEADROOM as u8,
            time,
        });
        self.end = at + len.min(MAX_FRAME);
    }

    /// Appends a copy. A batch that is full takes it still, by growing. A frame of fewer bytes than a header, or of too many, is not one:
    /// says whether it was taken.
    pub fn push(&mut self, frame: &[u8], time: Time) -> bool {
        if !(MIN_FRAME..=MAX_FRAME).contains(&frame.len()) {
            return false;
        }
        let at = self.end + HEADROOM;
        if self.bytes.len() < at + frame.len() + SLACK {
            self.bytes.resize((at + MOST) * 2, 0);
        }
        if let Some(room) = self.bytes.get_mut(at..at + frame.len()) {
            room.copy_from_slice(frame);
            self.list.push(Item { at: at as u32, len: frame.len() as u32, about: 0, headroom: HEADROOM as u8, time });
            self.end = at + frame.len();
        }
        true
    }

    /// Appends a copy with its metadata, as [`Frames::push`] does.
    pub fn push_about(&mut self, frame: &[u8], time: Time, about: &About) -> bool {
        let pushed = self.push(frame, time);
        if pushed
            && *about != USUAL
            && let Some(item) = self.list.last_mut()
        {
            self.abouts.push(about.clone());
            item.about = self.abouts.len() as u32;
        }
        pushed
    }

    /// Appends copies of the frames of `from` with their metadata and origin.
    pub fn append(&mut self, from: &Frames) {
        self.describe(from.section());
        for at in 0..from.len() {
            if let Some((bytes, time)) = from.get(at) {
                self.push_about(bytes, time, from.about(at));
            }
        }
    }

    /// Returns the metadata of the frame at `index`.
    #[inline]
    pub fn about(&self, index: usize) -> &About {
        let about = self.list.get(index).map_or(0, |item| item.about as usize);
        about.checked_sub(1).and_then(|at| self.abouts.get(at)).unwrap_or(&USUAL)
    }

    /// Origin of the frames, if they come from a capture.
    pub fn section(&self) -> Option<&Arc<Section>> {
        self.section.as_ref()
    }

    /// Sets the origin of the frames, if there is one.
    pub fn describe(&mut self, section: Option<&Arc<Section>>) {
        if let Some(section) = section {
            self.section = Some(Arc::clone(section));
        }
    }

    /// Lengths that the frames had on their link, in bytes.
    pub fn wire_lens(&self) -> impl Iterator<Item = usize> {
        (0..self.len()).map(|at| self.wire_len(at))
    }

    /// Length that the frame at `index` had on its link, in bytes: captured or not, with its own link header.
    pub fn wire_len(&self, index: usize) -> usize {
        let len = self.list.get(index).map_or(0, |item| item.len as usize);
        self.about(index).wire_len(len)
    }

    /// A link header that is not Ethernet's, among those of all frames.
    pub fn foreign_link(&self) -> Option<LinkType> {
        if self.abouts.is_empty() {
            return None;
        }
        (0..self.len()).find_map(|at| self.about(at).link.as_ref().map(|(link, _)| *link))
    }

    /// The frame at `index`.
    #[inline]
    pub fn get(&self, index: usize) -> Option<(&[u8], Time)> {
        let item = self.list.get(index)?;
        Some((self.bytes.get(item.range())?, item.time))
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Time)> {
        self.list.iter().map(|item| (self.bytes.get(item.range()).unwrap_or_default(), item.time))
    }

    /// Keeps those of which `keep` says so; it may change them.
    #[inline]
    pub fn retain(&mut self, mut keep: impl FnMut(&mut FrameMut<'_>) -> bool) {
        let Frames { bytes, end, list, abouts, .. } = self;
        list.retain_mut(|item| {
            let mut frame = FrameMut { bytes, end, item, abouts };
            keep(&mut frame)
        });
    }

    /// Changes each.
    pub fn for_each(&mut self, mut change: impl FnMut(&mut FrameMut<'_>)) {
        self.retain(|frame| {
            change(frame);
            true
        });
    }

    /// Only the first `count`.
    pub fn truncate(&mut self, count: usize) {
        self.list.truncate(count);
    }
}

impl Arena for Frames {
    #[inline]
    fn room(&mut self) -> &mut [u8] {
        Frames::room(self)
    }

    #[inline]
    fn commit(&mut self, len: usize, stamp: Option<Stamp>) {
        Frames::commit(self, len, stamp.map_or(Time::None, Time::Stamp));
    }
}

/// A frame in its batch.
#[derive(Debug)]
pub struct FrameMut<'a> {
    bytes: &'a mut Vec<u8>,
    end: &'a mut usize,
    item: &'a mut Item,
    abouts: &'a mut Vec<About>,
}

impl FrameMut<'_> {
    /// Its bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(self.item.range()).unwrap_or_default()
    }

    /// The same, to change.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.item.range()).unwrap_or_default()
    }

    /// Its time.
    pub fn time(&self) -> Time {
        self.item.time
    }

    /// Returns its metadata.
    pub fn about(&self) -> &About {
        (self.item.about as usize).checked_sub(1).and_then(|at| self.abouts.get(at)).unwrap_or(&USUAL)
    }

    /// Records that the frame was captured whole.
    fn set_whole(&mut self) {
        if let Some(about) = (self.item.about as usize).checked_sub(1).and_then(|at| self.abouts.get_mut(at)) {
            about.cut = 0;
        }
    }

    /// Gives it another.
    pub fn set_time(&mut self, time: Time) {
        self.item.time = time;
    }

    /// Makes room for `n` bytes behind its first `at`; what they are is undefined. `None`, and no change, if the frame would be too
    /// long or has no `at` bytes, or for more than 16.
    pub fn insert(&mut self, at: usize, n: usize) -> Option<&mut [u8]> {
        let len = self.item.len as usize;
        if at > len || len + n > MAX_FRAME || n > HEADROOM {
            return None;
        }
        if n > usize::from(self.item.headroom) {
            self.move_to_end();
        }
        let from = self.item.at as usize;
        self.bytes.copy_within(from..from + at, from - n);
        self.item.at -= n as u32;
        self.item.len += n as u32;
        self.item.headroom -= n as u8;
        self.bytes.get_mut(from - n + at..from + at)
    }

    /// Takes `n` bytes behind its first `at` out; says whether they were there and a header is left.
    pub fn remove(&mut self, at: usize, n: usize) -> bool {
        let len = self.item.len as usize;
        if at + n > len || len - n < MIN_FRAME {
            return false;
        }
        let from = self.item.at as usize;
        self.bytes.copy_within(from..from + at, from + n);
        self.item.at += n as u32;
        self.item.len -= n as u32;
        self.item.headroom = self.item.headroom.saturating_add(n as u8);
        true
    }

    /// Its first `len` bytes alone; [`MIN_FRAME`] are left in any case.
    pub fn truncate(&mut self, len: usize) {
        if len < self.item.len as usize {
            self.set_whole();
        }
        self.item.len = self.item.len.min(len.max(MIN_FRAME) as u32);
    }

    /// Zeros behind it, up to `len` bytes.
    pub fn pad(&mut self, len: usize) {
        let (have, len) = (self.item.len as usize, len.min(MAX_FRAME));
        if have >= len {
            return;
        }
        self.move_to_end();
        self.set_whole();
        self.item.len = len as u32;
        *self.end = self.item.range().end;
        if let Some(behind) = self.bytes_mut().get_mut(have..) {
            behind.fill(0);
        }
    }

    /// A copy behind all others, with all the headroom there is and room to grow; what it was is left as it is.
    fn move_to_end(&mut self) {
        let old = self.item.range();
        let at = *self.end + HEADROOM;
        if self.bytes.len() < at + MOST {
            self.bytes.resize((at + MOST) * 2, 0);
        }
        *self.end = at + old.len();
        self.bytes.copy_within(old, at);
        (self.item.at, self.item.headroom) = (at as u32, HEADROOM as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(frames: &[&[u8]]) -> Frames {
        let mut out = Frames::new();
        assert!(frames.iter().all(|frame| out.push(frame, Time::None)));
        out
    }

    #[test]
    fn a_frame_grows_in_the_middle_again_and_again_and_its_neighbors_stay() {
        let frame: Vec<u8> = (0..60).collect();
        let mut frames = of(&[&frame, &frame, &frame]);
        let mut expected = frame.clone();
        for round in 0..9_u8 {
            expected.splice(12..12, [0x81, 0, 0, round]);
            let mut at = 0;
            frames.for_each(|frame| {
                if at == 1 {
                    frame.insert(12, 4).unwrap().copy_from_slice(&[0x81, 0, 0, round]);
                }
                at += 1;
            });
        }
        let got: Vec<&[u8]> = frames.iter().map(|(bytes, _)| bytes).collect();
        assert_eq!(got, [&frame[..], &expected, &frame]);
        frames.for_each(|frame| {
            while frame.bytes().len() > 60 {
                assert!(frame.remove(12, 4))
            }
        });
        assert!(frames.iter().all(|(bytes, _)| bytes == frame));
    }

    #[test]
    fn a_frame_is_never_less_than_a_header_nor_more_than_a_line_may_have() {
        let mut frames = of(&[&[1; 14], &[2; MAX_FRAME]]);
        assert!(!frames.push(&[0; 13], Time::None));
        assert!(!frames.push(&[0; MAX_FRAME + 1], Time::None));
        frames.for_each(|frame| {
            assert!(!frame.remove(0, 1) || frame.bytes().len() == MAX_FRAME - 1);
            frame.truncate(3);
            assert_eq!(frame.bytes().len(), 14);
            assert!(frame.insert(15, 1).is_none() && frame.insert(0, 17).is_none());
        });
    }

    #[test]
    fn a_full_batch_has_no_room_but_takes_what_is_pushed() {
        let mut frames = Frames::new();
        while !frames.room().is_empty() {
            assert!(frames.room().len() >= MAX_FRAME + SLACK);
            frames.room()[..2000].fill(7);
            frames.commit(2000, Time::None);
        }
        let full = frames.len();
        for _ in 0..100 {
            assert!(frames.push(&[9; 9000], Time::Wall(3)));
        }
        assert_eq!(
            frames.iter().skip(full).filter(|(bytes, time)| *bytes == [9; 9000] && *time == Time::Wall(3)).count(),
            100
        );
    }

    proptest! {
        /// Against a plain vector of vectors.
        #[test]
        fn edits_are_those_of_a_list(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 14..100), 1..6),
            edits in prop::collection::vec((0..6_usize, 0..4_u8, 0..20_usize, 0..17_usize), 0..30),
        ) {
            let mut model = frames.clone();
            let mut real = of(&frames.iter().map(|frame| &frame[..]).collect::<Vec<_>>());
            for (which, edit, at, n) in edits {
                let mut index = 0;
                real.for_each(|frame| {
                    if index == which {
                        match edit {
                            0 => if let Some(room) = frame.insert(at, n) { room.fill(0xee) },
                            1 => { frame.remove(at, n); }
                            2 => frame.truncate(at + n),
                            _ => frame.pad(at * 10),
                        }
                    }
                    index += 1;
                });
                let Some(frame) = model.get_mut(which) else { continue };
                match edit {
                    0 if at <= frame.len() && n <= 16 => { frame.splice(at..at, vec![0xee; n]); }
                    1 if at + n <= frame.len() && frame.len() - n >= 14 => { frame.drain(at..at + n); }
                    2 => frame.truncate((at + n).max(14)),
                    3 => frame.resize(frame.len().max(at * 10), 0),
                    _ => {}
                }
                let got: Vec<Vec<u8>> = real.iter().map(|(bytes, _)| bytes.to_vec()).collect();
                prop_assert_eq!(&got, &model);
            }
        }
    }
}
