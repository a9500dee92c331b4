//! Frames as JSON objects, one a line.
//!
//! ```text
//! {"ts_ns":1700000000000000000,"dst":"ff:ff:ff:ff:ff:ff","src":"00:22:cf:63:96:7b","type":"0x8899","payload":"231E0A"}
//! ```
//!
//! `ts_ns` (nanoseconds) or `stamp` (16 digits, as in a line of text) may be there or not.

use super::Tally;
use super::text::Told;
use crate::{Frames, Time};
use serde_json::Value;
use std::io::Write;
use wire::Mac;
use wire::text::{MAX_READ, Stamp};

/// Reads lines at the front of `text` until `frames` is full or the next line has no end; returns how many bytes they had.
pub(super) fn decode(text: &[u8], frames: &mut Frames, tally: &mut Tally) -> usize {
    let mut from = 0;
    while let Some(rest) = text.get(from..)
        && !frames.is_full()
    {
        let Some(end) = memchr::memchr(b'\n', rest) else {
            if rest.len() <= MAX_READ {
                break;
            }
            tally.lines += 1;
            tally.tell(Told::Json(format!("no newline within {MAX_READ} bytes")));
            return from + MAX_READ + 1;
        };
        let line = rest.get(..end).unwrap_or_default();
        from += end + 1;
        tally.lines += 1;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match frame(line) {
            Ok((bytes, time)) if frames.push(&bytes, time) => {}
            Ok((bytes, _)) => tally.tell(Told::Json(format!("a frame of {} bytes", bytes.len()))),
            Err(why) => tally.tell(Told::Json(why)),
        }
    }
    from
}

fn frame(line: &[u8]) -> Result<(Vec<u8>, Time), String> {
    let object: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let text = |name: &str| object.get(name).and_then(Value::as_str).ok_or(format!("no \"{name}\""));
    let mac = |name: &str| text(name)?.parse::<Mac>().map_err(|_| format!("\"{name}\" is no MAC address"));
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&mac("dst")?.0);
    bytes.extend_from_slice(&mac("src")?.0);
    let ethertype = text("type")?;
    let digits = ethertype.strip_prefix("0x").unwrap_or(ethertype);
    let ethertype = u16::from_str_radix(digits, 16).map_err(|_| "\"type\" is no number of four digits".to_owned())?;
    bytes.extend_from_slice(&ethertype.to_be_bytes());
    let payload = text("payload")?.as_bytes();
    let (pairs, odd) = payload.as_chunks::<2>();
    if !odd.is_empty() {
        return Err("\"payload\" has an odd number of digits".to_owned());
    }
    for pair in pairs {
        let digits = std::str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or("\"payload\" has something else than digits")?);
    }
    let time = match (object.get("ts_ns"), object.get("stamp")) {
        (Some(ns), _) => Time::Wall(ns.as_u64().ok_or("\"ts_ns\" is no number of nanoseconds")?),
        (None, Some(stamp)) => {
            let bits = stamp.as_str().and_then(|digits| u64::from_str_radix(digits, 16).ok());
            Time::Stamp(Stamp(bits.ok_or("\"stamp\" is not 16 digits")?))
        }
        (None, None) => Time::None,
    };
    Ok((bytes, time))
}

/// Appends a frame's line.
pub(crate) fn write(frame: &[u8], time: Time, out: &mut Vec<u8>) {
    let Ok(header) = wire::eth::Header::parse(frame) else { return };
    // Writing to a vector does not fail.
    let _ = match time {
        Time::None => write!(out, "{{"),
        Time::Stamp(stamp) => write!(out, "{{\"stamp\":\"{stamp}\","),
        Time::Wall(ns) => write!(out, "{{\"ts_ns\":{ns},"),
    };
    let ethertype = header.ethertype.0;
    let _ = write!(
        out,
        "\"dst\":\"{}\",\"src\":\"{}\",\"type\":\"0x{ethertype:04x}\",\"payload\":\"",
        header.dst, header.src
    );
    for byte in frame.get(14..).unwrap_or_default() {
        let _ = write!(out, "{byte:02X}");
    }
    out.extend_from_slice(b"\"}\n");
}
