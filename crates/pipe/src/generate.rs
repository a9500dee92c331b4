//! Generates frames for tests and measurements, as the dummy driver and `pktgen_stdout` of ethpipe
//! do.
//!
//! There are two modes. [`Gen`] builds one frame after the other. [`Gen::fixed`] builds one buffer
//! of frames, which is written repeatedly. The 14 GB/s in the report ethpipe2013 were measured with
//! a repeated buffer.

use crate::output::{self, BadOutput};
use crate::run::{RunError, Source};
use crate::{Encoder, Format, Frames, Time};
use std::net::SocketAddrV4;
use wire::eth::{self, EtherType};
use wire::text::{self, MAX_FRAME, MIN_FRAME, Stamp};
use wire::{L4Port, Mac, Proto, checksum, ip4, udp};

/// Length of the FCS in bytes; lines of text do not contain it.
pub const FCS: usize = 4;
/// Number of bytes on the wire around each frame: preamble, start delimiter and inter-frame gap
/// (IEEE 802.3 3.1, 4.4.2).
pub const AROUND: usize = 20;
/// Target size, in bytes, of the buffer of [`Gen::fixed`] without stamps.
const BUFFER: usize = 1 << 20;
/// Maximum size, in bytes, of the buffer of [`Gen::fixed`] with stamps, which contains all frames
/// of a round.
const MOST: usize = 64 << 20;

/// Properties of the generated frames.
#[derive(Debug, Clone)]
pub struct GenConfig {
    /// Length of a frame in bytes, including the FCS.
    pub size: usize,
    /// Number of frames in a round; 0 for no limit.
    pub count: u64,
    /// Number of rounds to generate.
    pub loops: u64,
    /// Line rate in Mb/s. Frames get stamps as if they arrived back to back at this rate. `None`
    /// for frames without stamps.
    pub mbps: Option<u64>,
    /// Length of a stamp's tick in nanoseconds.
    pub tick_ns: u64,
    /// Destination MAC addresses, used in turn. If the list is empty, frames are sent to the
    /// broadcast address.
    pub dst: Vec<Mac>,
    /// Source MAC address.
    pub src: Mac,
    /// EtherType of frames that are not UDP.
    pub ethertype: EtherType,
    /// Source and destination of the UDP datagrams in the frames; `None` for frames without
    /// UDP.
    pub udp: Option<(SocketAddrV4, SocketAddrV4)>,
}

/// Reason why the requested frames cannot be generated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadGen {
    /// The frame is too short or too long: requested length, minimum and maximum in bytes.
    #[error("frame size '{0}': must be {1} to {2} bytes, FCS included")]
    Size(usize, usize, usize),
    /// A repeated buffer with stamps was requested, but the number of frames is unlimited.
    #[error("--static with -t requires a number of frames (-n)")]
    NoRound,
    /// The frames of a round do not fit into one buffer. Contains their size in bytes.
    #[error("all frames need a buffer of {0} bytes: must be at most {MOST}; reduce the number of frames (-n)")]
    LargeRound(u64),
    /// The output format cannot represent the frames.
    #[error(transparent)]
    Form(BadOutput),
}

/// Generates frames one after the other.
#[derive(Debug)]
pub struct Gen {
    templates: Vec<Vec<u8>>,
    config: GenConfig,
    /// Number of frames built in the current round.
    at: u64,
    /// Number of rounds completed so far.
    rounds: u64,
    made: u64,
}

impl Gen {
    /// Creates a generator of the frames that `config` describes.
    ///
    /// # Errors
    /// The frame size is out of range.
    pub fn new(config: GenConfig) -> Result<Gen, BadGen> {
        let headers = if config.udp.is_some() { MIN_FRAME + ip4::HEADER_LEN + udp::HEADER_LEN } else { MIN_FRAME };
        let len = config.size.saturating_sub(FCS);
        if !(headers..=MAX_FRAME).contains(&len) {
            return Err(BadGen::Size(config.size, headers + FCS, MAX_FRAME + FCS));
        }
        let dst = if config.dst.is_empty() { &[Mac::BROADCAST][..] } else { &config.dst };
        let templates = dst.iter().map(|dst| template(&config, *dst, len)).collect();
        Ok(Gen { templates, config, at: 0, rounds: 0, made: 0 })
    }

    /// Returns the number of frames built so far.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Returns the number of frames in all rounds together; `None` if there is no limit.
    pub fn total(&self) -> Option<u64> {
        (self.config.count > 0).then(|| self.config.count.saturating_mul(self.config.loops))
    }

    fn time(&self) -> Time {
        let Some(mbps) = self.config.mbps else { return Time::None };
        let bits = ((self.config.size + AROUND) * 8) as u128;
        let ticks =
            u128::from(self.at) * bits * 1000 / (u128::from(mbps.max(1)) * u128::from(self.config.tick_ns.max(1)));
        // The first frame of a round resets register 1, to which the stamps of the round are
        // relative.
        Time::Stamp(Stamp::at(1, self.at == 0, ticks as u64))
    }

    /// Appends the next frame to `frames`, which must not be full. Returns false when all frames
    /// have been built.
    fn next(&mut self, frames: &mut Frames) -> bool {
        if self.config.count > 0 && self.at == self.config.count {
            self.rounds += 1;
            self.at = 0;
        }
        if self.rounds >= self.config.loops && self.config.count > 0 {
            self.at = 0;
            return false;
        }
        let time = self.time();
        let turn = (self.made % self.templates.len().max(1) as u64) as usize;
        let Some(template) = self.templates.get(turn) else { return false };
        let Some(room) = frames.room().get_mut(..template.len()) else { return true };
        room.copy_from_slice(template);
        frames.commit(template.len(), time);
        self.at += 1;
        self.made += 1;
        true
    }

    /// Builds one buffer of frames in `format`, to be written repeatedly. Without stamps, each
    /// destination occurs equally often: as often as fits into a buffer of 1 MiB, but at least
    /// once. With stamps, the buffer contains one round.
    ///
    /// # Errors
    /// With stamps, the round has no limit or is too large. With or without stamps, the format may
    /// not be able to represent the frames.
    pub fn fixed(mut self, format: Format) -> Result<Fixed, BadGen> {
        let stamp = if self.config.mbps.is_some() { text::STAMP } else { 0 };
        let line = self.templates.first().map_or(0, |template| text::len(template.len()) + stamp);
        let turns = self.templates.len();
        let wanted = match self.config.mbps {
            None => (BUFFER / line.max(1) / turns.max(1)).max(1) * turns,
            Some(_) => {
                let bytes = self.config.count.saturating_mul(line as u64);
                if self.config.count == 0 {
                    return Err(BadGen::NoRound);
                }
                usize::try_from(bytes)
                    .ok()
                    .filter(|bytes| *bytes <= MOST)
                    .and_then(|_| usize::try_from(self.config.count).ok())
                    .ok_or(BadGen::LargeRound(bytes))?
            }
        };
        let total = self.total();
        (self.config.count, self.config.loops) = (wanted as u64, 1);
        let mut encoder = Encoder::new(format, self.config.tick_ns);
        let (mut frames, mut some, mut bytes) = (Frames::new(), Vec::new(), Vec::new());
        loop {
            let more = self.read(&mut frames).unwrap_or(false);
            let used = encoder.encode(&frames, &mut some).map_err(BadGen::Form)?;
            bytes.extend_from_slice(some.get(..used).unwrap_or_default());
            frames.clear();
            if !more {
                break;
            }
        }
        Ok(Fixed {
            header: output::header(format, None, None),
            frame: bytes.len() / wanted.max(1),
            bytes,
            frames: wanted as u64,
            total,
        })
    }
}

impl Source for Gen {
    fn read(&mut self, frames: &mut Frames) -> Result<bool, RunError> {
        let before = frames.len();
        while !frames.is_full() && self.next(frames) {}
        Ok(frames.len() > before)
    }
}

/// A buffer of frames that the caller writes repeatedly.
#[derive(Debug)]
pub struct Fixed {
    /// Header of the stream, which the caller writes first, and only once.
    pub header: Vec<u8>,
    /// Encoded frames, all of the same length.
    pub bytes: Vec<u8>,
    /// Number of frames in `bytes`.
    pub frames: u64,
    /// Total number of frames to write; `None` for no limit.
    pub total: Option<u64>,
    frame: usize,
}

impl Fixed {
    /// Returns the bytes to write next, after `written` frames have been written, and the number of
    /// frames in them. The number is 0 when all frames have been written.
    pub fn piece(&self, written: u64) -> (&[u8], u64) {
        let left = self.total.map_or(self.frames, |total| total.saturating_sub(written).min(self.frames));
        let end = if left == self.frames { self.bytes.len() } else { left as usize * self.frame };
        (self.bytes.get(..end).unwrap_or_default(), left)
    }
}

/// Builds a frame of `len` bytes to `dst`. All bytes after the headers are zero.
fn template(config: &GenConfig, dst: Mac, len: usize) -> Vec<u8> {
    let mut frame = vec![0; len];
    let ethertype = if config.udp.is_some() { EtherType::IPV4 } else { config.ethertype };
    let Some((header, packet)) = frame.split_first_chunk_mut::<{ eth::HEADER_LEN }>() else { return frame };
    eth::Header { dst, src: config.src, ethertype }.emit(header);
    if let Some((from, to)) = config.udp {
        datagram(packet, from, to);
    }
    frame
}

/// Writes the IPv4 and UDP headers of a datagram that fills `packet`.
fn datagram(packet: &mut [u8], from: SocketAddrV4, to: SocketAddrV4) {
    let Some((header, segment)) = packet.split_first_chunk_mut::<{ ip4::HEADER_LEN }>() else { return };
    let Some(ip) = ip4::Header::new(*from.ip(), *to.ip(), Proto::UDP, segment.len()) else { return };
    ip.emit(header);
    let len = segment.len() as u16;
    let Some((header, payload)) = segment.split_first_chunk_mut::<{ udp::HEADER_LEN }>() else { return };
    let pseudo = checksum::Partial::pseudo4(*from.ip(), *to.ip(), Proto::UDP, len);
    let udp = udp::Header { src: L4Port(from.port()), dst: L4Port(to.port()), len, checksum: 0 };
    udp.with_checksum(pseudo, payload).emit(header);
}

#[cfg(test)]
mod tests;
