//! Frames of FRR's Forwarding Plane Manager protocol (FPM), by which `zebra` sends routes to a
//! forwarding plane over TCP.
//!
//! A frame has a header of 4 bytes (version, type, and length including the header, in network byte
//! order) and contains messages of [`crate::rtnetlink`]. `zebra` sends one frame for each
//! operation; the messages of a frame are one change, such as the removal of a route and the new
//! route to the same prefix. Source: FRR, `fpm/fpm.h`, and streams recorded from FRR 8.4.4.

use crate::rtnetlink::Builder;
use alloc::vec::Vec;
use core::{error, fmt};

#[cfg(test)]
mod tests;

/// Length in bytes of a frame's header.
pub const HEADER_LEN: usize = 4;
/// Maximum length of a frame in bytes, with its header.
pub const FRAME_MAX: usize = u16::MAX as usize;

const VERSION: u8 = 1;
const NETLINK: u8 = 1;

/// Reason why a stream is not FPM. The next frame cannot be found after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FpmError {
    /// The version is not 1.
    Version(u8),
    /// The frame does not contain netlink messages (type 1). Type 2 is protobuf.
    Type(u8),
    /// The length is shorter than the header.
    Length(u16),
}

impl fmt::Display for FpmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FpmError::Version(version) => write!(f, "FPM version {version} is not supported, only 1"),
            FpmError::Type(2) => f.write_str("FPM with protobuf is not supported: load dplane_fpm_nl in zebra"),
            FpmError::Type(ty) => write!(f, "FPM message type {ty} is not supported, only 1 (netlink)"),
            FpmError::Length(len) => write!(f, "FPM frame length {len} is shorter than its header"),
        }
    }
}

impl error::Error for FpmError {}

/// Splits the first frame off a stream: returns its netlink messages, and leaves what follows in
/// `bytes`. Returns `None` if the frame is incomplete.
///
/// # Errors
/// Returns an [`FpmError`] if the header is invalid.
pub fn split<'s>(bytes: &mut &'s [u8]) -> Result<Option<&'s [u8]>, FpmError> {
    let Some((&[version, ty, high, low], _)) = bytes.split_first_chunk::<HEADER_LEN>() else { return Ok(None) };
    let len = u16::from_be_bytes([high, low]);
    if version != VERSION {
        return Err(FpmError::Version(version));
    }
    if ty != NETLINK {
        return Err(FpmError::Type(ty));
    }
    if usize::from(len) < HEADER_LEN {
        return Err(FpmError::Length(len));
    }
    let Some((frame, rest)) = bytes.split_at_checked(usize::from(len)) else { return Ok(None) };
    *bytes = rest;
    Ok(frame.get(HEADER_LEN..))
}

/// Returns a frame with these messages, for tests and measurements. They must fit into
/// [`FRAME_MAX`] bytes.
pub fn frame(messages: &[Builder]) -> Vec<u8> {
    let mut bytes = Vec::from([VERSION, NETLINK, 0, 0]);
    messages.iter().for_each(|message| message.emit(&mut bytes));
    let len = (bytes.len() as u16).to_be_bytes();
    bytes.iter_mut().skip(2).zip(len).for_each(|(byte, of)| *byte = of);
    bytes
}

/// Returns the number of bytes at the front of a stream that are whole frames.
///
/// # Errors
/// Returns the length of the frames before an invalid header, and the [`FpmError`].
pub fn whole_frames(bytes: &[u8]) -> Result<usize, (usize, FpmError)> {
    let mut rest = bytes;
    loop {
        match split(&mut rest) {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(bytes.len() - rest.len()),
            Err(why) => return Err((bytes.len() - rest.len(), why)),
        }
    }
}
