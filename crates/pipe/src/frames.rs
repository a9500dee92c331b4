//! A batch of frames in one arena.

use port::pcap::Section;
use std::sync::Arc;
use wire::link::LinkType;
use wire::text::{Arena, MAX_FRAME, MIN_FRAME, SLACK, Stamp};

/// Time when a frame arrived or is due to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Time {
    /// The time is unknown.
    #[default]
    None,
    /// A stamp in ticks of a counter, as in a line of text or a binary record.
    Stamp(Stamp),
    /// Nanoseconds since 1970, as in a capture.
    Wall(u64),
}

impl Time {
    /// Converts the time to a stamp of a counter with ticks of `tick_ns` nanoseconds; `None` if the
    /// time is unknown.
    pub fn stamp(self, tick_ns: u64) -> Option<Stamp> {
        match self {
            Time::None => None,
            Time::Stamp(stamp) => Some(stamp),
            Time::Wall(ns) => Some(Stamp::arrival(ns / tick_ns.max(1))),
        }
    }

    /// Converts the time to nanoseconds; the ticks of a stamp have `tick_ns` nanoseconds. `None` if
    /// the time is unknown.
    pub fn wall_ns(self, tick_ns: u64) -> Option<u64> {
        match self {
            Time::None => None,
            Time::Stamp(stamp) => Some(stamp.ticks().saturating_mul(tick_ns)),
            Time::Wall(ns) => Some(ns),
        }
    }
}

/// Number of free bytes in front of each frame, so that tags can be inserted.
const HEADROOM: usize = 16; // four VLAN tags
/// Size in bytes from which a batch counts as full. A full batch, and the text from which it was
/// decoded, fit into a second-level cache.
const FULL: usize = 256 * 1024;
/// Maximum number of bytes that one frame needs in the buffer.
const MOST: usize = HEADROOM + MAX_FRAME + SLACK;

/// Metadata of a captured packet other than its bytes and time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct About {
    /// Number of bytes at the end of the frame that were not captured.
    pub cut: u32,
    /// Interface at which the packet was captured: an index into the interfaces of
    /// [`Frames::section`].
    pub interface: u32,
    /// Options of the packet's pcapng block, including direction and comments
    /// ([`port::pcap::Record::options`]).
    pub options: Vec<u8>,
    /// Link type and original link header of a packet that was not captured from Ethernet. In the
    /// batch, an Ethernet header replaces this header. `None` for Ethernet.
    pub link: Option<(LinkType, Box<[u8]>)>,
}

/// Default metadata: an Ethernet frame from the first interface, captured completely.
static USUAL: About = About { cut: 0, interface: 0, options: Vec::new(), link: None };

impl About {
    /// Returns the original length, in bytes, of a frame that has `len` bytes in the batch. If an
    /// Ethernet header replaces the link header, the link header is counted instead. Bytes that
    /// were not captured are added. The result is at most 2^32 - 1, the maximum in a capture.
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
    /// Index into the list of metadata, counted from 1; 0 means the default metadata.
    about: u32,
    /// Number of free bytes in front of the frame.
    headroom: u8,
    time: Time,
}

impl Item {
    fn range(&self) -> std::ops::Range<usize> {
        self.at as usize..self.at as usize + self.len as usize
    }
}

/// A batch of frames, in order, with one buffer for all of them. Clearing the batch keeps the
/// buffer for reuse.
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
    /// Creates an empty batch.
    pub fn new() -> Frames {
        Frames { bytes: vec![0; FULL + MOST], end: 0, list: Vec::new(), abouts: Vec::new(), section: None }
    }

    /// Returns the number of frames.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether the batch has no frames.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns whether the batch must be processed before more frames are added. If not, there is
    /// space for at least one more frame of any length.
    pub fn is_full(&self) -> bool {
        self.end >= FULL
    }

    /// Removes all frames. The capture section that [`Frames::describe`] set is kept, because it
    /// belongs to the whole stream.
    pub fn clear(&mut self) {
        self.list.clear();
        self.abouts.clear();
        self.end = 0;
    }

    /// Returns the memory into which the caller writes the next frame: [`MAX_FRAME`] bytes, and
    /// slack that vector stores may overwrite. The slice is empty if the batch is full.
    #[inline]
    pub fn room(&mut self) -> &mut [u8] {
        if self.is_full() {
            return &mut [];
        }
        self.bytes.get_mut(self.end + HEADROOM..self.end + MOST).unwrap_or_default()
    }

    /// Adds the first `len` bytes of [`Frames::room`], which the caller has written, as a frame.
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

    /// Appends a copy of `frame` and returns true. The buffer grows if the batch is full. Returns
    /// false if the frame is shorter than an Ethernet header or longer than [`MAX_FRAME`].
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

    /// Appends a copy of `frame` with its metadata `about`, as [`Frames::push`] does.
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

    /// Appends copies of the frames of `from` with their metadata and capture section.
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

    /// Returns the capture section (file header and interfaces) from which the frames come; `None`
    /// if they do not come from a capture.
    pub fn section(&self) -> Option<&Arc<Section>> {
        self.section.as_ref()
    }

    /// Sets the capture section of the frames unless `section` is `None`.
    pub fn describe(&mut self, section: Option<&Arc<Section>>) {
        if let Some(section) = section {
            self.section = Some(Arc::clone(section));
        }
    }

    /// Returns the original length of each frame in bytes ([`Frames::wire_len`]).
    pub fn wire_lens(&self) -> impl Iterator<Item = usize> {
        (0..self.len()).map(|at| self.wire_len(at))
    }

    /// Returns the original length, in bytes, of the frame at `index`, including its original link
    /// header and the bytes that were not captured.
    pub fn wire_len(&self, index: usize) -> usize {
        let len = self.list.get(index).map_or(0, |item| item.len as usize);
        self.about(index).wire_len(len)
    }

    /// Returns the first link type other than Ethernet among the frames.
    pub fn foreign_link(&self) -> Option<LinkType> {
        if self.abouts.is_empty() {
            return None;
        }
        (0..self.len()).find_map(|at| self.about(at).link.as_ref().map(|(link, _)| *link))
    }

    /// Returns the bytes and the time of the frame at `index`.
    #[inline]
    pub fn get(&self, index: usize) -> Option<(&[u8], Time)> {
        let item = self.list.get(index)?;
        Some((self.bytes.get(item.range())?, item.time))
    }

    /// Iterates over the frames.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Time)> {
        self.list.iter().map(|item| (self.bytes.get(item.range()).unwrap_or_default(), item.time))
    }

    /// Keeps the frames for which `keep` returns true and removes all others. `keep` may also edit
    /// the frame.
    #[inline]
    pub fn retain(&mut self, mut keep: impl FnMut(&mut FrameMut<'_>) -> bool) {
        let Frames { bytes, end, list, abouts, .. } = self;
        list.retain_mut(|item| {
            let mut frame = FrameMut { bytes, end, item, abouts };
            keep(&mut frame)
        });
    }

    /// Calls `change` for each frame. `change` may edit the frame.
    pub fn for_each(&mut self, mut change: impl FnMut(&mut FrameMut<'_>)) {
        self.retain(|frame| {
            change(frame);
            true
        });
    }

    /// Keeps only the first `count` frames.
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

/// Mutable access to one frame of a batch.
#[derive(Debug)]
pub struct FrameMut<'a> {
    bytes: &'a mut Vec<u8>,
    end: &'a mut usize,
    item: &'a mut Item,
    abouts: &'a mut Vec<About>,
}

impl FrameMut<'_> {
    /// Returns the frame's bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(self.item.range()).unwrap_or_default()
    }

    /// Returns the frame's bytes for writing.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.item.range()).unwrap_or_default()
    }

    /// Returns the frame's time.
    pub fn time(&self) -> Time {
        self.item.time
    }

    /// Returns the frame's metadata.
    pub fn about(&self) -> &About {
        (self.item.about as usize).checked_sub(1).and_then(|at| self.abouts.get(at)).unwrap_or(&USUAL)
    }

    /// Records in the metadata that the frame was captured completely.
    fn set_whole(&mut self) {
        if let Some(about) = (self.item.about as usize).checked_sub(1).and_then(|at| self.abouts.get_mut(at)) {
            about.cut = 0;
        }
    }

    /// Sets the frame's time.
    pub fn set_time(&mut self, time: Time) {
        self.item.time = time;
    }

    /// Inserts `n` bytes of undefined content after the first `at` bytes of the frame, and returns
    /// the inserted bytes. Returns `None` without a change if the frame would become too long or
    /// has fewer than `at` bytes, or if `n` exceeds 16.
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

    /// Removes `n` bytes after the first `at` bytes of the frame. Returns false without a change if
    /// fewer than `n` bytes follow, or if the rest would be shorter than an Ethernet header.
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

    /// Shortens the frame to `len` bytes, but not below [`MIN_FRAME`].
    pub fn truncate(&mut self, len: usize) {
        if len < self.item.len as usize {
            self.set_whole();
        }
        self.item.len = self.item.len.min(len.max(MIN_FRAME) as u32);
    }

    /// Appends zeros until the frame has `len` bytes.
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

    /// Moves the frame to the end of the batch's buffer, where it has free bytes in front and can
    /// grow. The memory of the old copy is not reused until the batch is cleared.
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
    fn original_length_is_limited_to_32_bits() {
        let mut frames = Frames::new();
        let about = About { cut: u32::MAX - 60, ..About::default() };
        assert!(frames.push_about(&[7; 60], Time::Wall(0), &about));
        assert_eq!(frames.wire_len(0), u32::MAX as usize);
        frames.for_each(|frame| frame.insert(12, 4).unwrap().copy_from_slice(&[0x81, 0, 0, 7]));
        assert_eq!(frames.wire_len(0), u32::MAX as usize);
        for format in [crate::format::Format::Pcap, crate::format::Format::Pcapng] {
            let mut file = Vec::new();
            let len = crate::output::Encoder::new(format, 1).encode(&frames, &mut file).unwrap();
            let lengths = [64_u32.to_le_bytes(), u32::MAX.to_le_bytes()].concat();
            assert!(file[..len].windows(8).any(|bytes| bytes == lengths), "{format:?}");
        }
    }

    #[test]
    fn repeated_inserts_leave_neighbor_frames_intact() {
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
    fn frame_length_stays_within_limits() {
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
    fn a_full_batch_has_no_room_but_accepts_pushes() {
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
        /// Compares a batch with a vector of frames after the same edits.
        #[test]
        fn edits_match_a_list_model(
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
