//! Reads and writes frames as JSON objects, one per line.
//!
//! ```text
//! {"ts_ns":1700000000000000000,"dst":"ff:ff:ff:ff:ff:ff","src":"00:22:cf:63:96:7b","type":"0x8899","payload":"231E0A"}
//! ```
//!
//! Optional keys are `ts_ns` (nanoseconds) or `stamp` (16 digits, as in a line of text); `orig_len`
//! (bytes on the wire), if fewer were captured; `direction` (`inbound` or `outbound`) and
//! `comments` (a list of strings) of a packet in a capture. `interface` is the name of the
//! interface in a capture. It is written if known, and ignored when reading. A packet of a link
//! type other than Ethernet is written with `link` in place of `dst` and `src`; such a line cannot
//! be read.

use super::tally::{Tally, Warned};
use crate::{About, Frames, Time};
use port::pcap::{Direction, notes};
use serde_json::Value;
use std::io::Write;
use wire::Mac;
use wire::text::{MAX_READ, Stamp};

/// Decodes lines at the start of `text` until `frames` is full or the next line is incomplete.
/// Returns the number of bytes consumed.
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
            tally.warn(Warned::Json(format!("no newline within {MAX_READ} bytes")), frames.len());
            return from + MAX_READ + 1;
        };
        let line = rest.get(..end).unwrap_or_default();
        from += end + 1;
        tally.lines += 1;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        match frame(line) {
            Ok((bytes, time, about)) if frames.push_about(&bytes, time, &about) => {}
            Ok((bytes, ..)) => {
                tally.warn(Warned::Json(format!("frame of {} bytes: must be 14 to 262144", bytes.len())), frames.len())
            }
            Err(why) => tally.warn(Warned::Json(why), frames.len()),
        }
    }
    from
}

fn frame(line: &[u8]) -> Result<(Vec<u8>, Time, About), String> {
    let object: Value = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let text =
        |name: &str| object.get(name).and_then(Value::as_str).ok_or(format!("\"{name}\" is missing or not a string"));
    let mac = |name: &str| text(name)?.parse::<Mac>().map_err(|_| format!("\"{name}\" is not a MAC address"));
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&mac("dst")?.0);
    bytes.extend_from_slice(&mac("src")?.0);
    let ethertype = text("type")?;
    let digits = ethertype.strip_prefix("0x").unwrap_or(ethertype);
    let ethertype =
        u16::from_str_radix(digits, 16).map_err(|_| "\"type\" is not four hexadecimal digits".to_owned())?;
    bytes.extend_from_slice(&ethertype.to_be_bytes());
    let payload = text("payload")?.as_bytes();
    let (pairs, odd) = payload.as_chunks::<2>();
    if !odd.is_empty() {
        return Err("\"payload\" has an odd number of digits".to_owned());
    }
    for pair in pairs {
        let digits = std::str::from_utf8(pair).ok().filter(|pair| pair.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.ok_or("\"payload\" is not hexadecimal digits only")?);
    }
    let time = match (object.get("ts_ns"), object.get("stamp")) {
        (Some(ns), _) => Time::Wall(whole(ns).ok_or("\"ts_ns\" is not a number of nanoseconds")?),
        (None, Some(stamp)) => {
            let bits = stamp.as_str().and_then(|digits| u64::from_str_radix(digits, 16).ok());
            Time::Stamp(Stamp(bits.ok_or("\"stamp\" is not 16 hexadecimal digits")?))
        }
        (None, None) => Time::None,
    };
    let cut = match object.get("orig_len") {
        None => 0,
        Some(len) => {
            let len = whole(len).and_then(|len| u32::try_from(len).ok());
            len.ok_or("\"orig_len\" is not a number of bytes")?.saturating_sub(bytes.len() as u32)
        }
    };
    let mut options = Vec::new();
    if let Some(list) = object.get("comments") {
        let list = list.as_array().ok_or("\"comments\" is not a list")?;
        for comment in list {
            let comment = comment.as_str().ok_or("\"comments\" contains a value that is not a string")?;
            if !notes::push_comment(&mut options, comment) {
                return Err("\"comments\" contains a string of more than 65535 bytes".to_owned());
            }
        }
    }
    let direction = match object.get("direction").map(Value::as_str) {
        None => Direction::Unknown,
        Some(Some("inbound")) => Direction::Inbound,
        Some(Some("outbound")) => Direction::Outbound,
        Some(_) => return Err("\"direction\" is neither inbound nor outbound".to_owned()),
    };
    notes::push_direction(&mut options, direction);
    Ok((bytes, time, About { cut, options, ..About::default() }))
}

/// Returns the value of a JSON number if it is an integer, in any notation: 17, 1.7e1, 17.0 (RFC
/// 8259 6).
fn whole(value: &Value) -> Option<u64> {
    if let Some(number) = value.as_u64() {
        return Some(number);
    }
    // Numbers with an exponent are parsed as floating-point numbers, which above 2^53 are rounded.
    // The program that wrote such a number has probably rounded it already.
    let number = value
        .as_f64()
        .filter(|number| number.fract() == 0.0 && (0.0..18_446_744_073_709_551_616.0).contains(number))?;
    Some(number as u64)
}

/// Appends the JSON line of a frame to `out`.
pub(crate) fn write(frame: &[u8], time: Time, about: &About, interface: Option<String>, out: &mut Vec<u8>) {
    let Ok(header) = wire::eth::Header::parse(frame) else { return };
    // Writing to a vector does not fail.
    let _ = match time {
        Time::None => write!(out, "{{"),
        Time::Stamp(stamp) => write!(out, "{{\"stamp\":\"{stamp}\","),
        Time::Wall(ns) => write!(out, "{{\"ts_ns\":{ns},"),
    };
    let _ = match &about.link {
        // A packet without an Ethernet header cannot be read again as a frame.
        Some((link, _)) => write!(out, "\"link\":\"{}\",", link.name()),
        None => write!(out, "\"dst\":\"{}\",\"src\":\"{}\",", header.dst, header.src),
    };
    let _ = write!(out, "\"type\":\"0x{:04x}\",", header.ethertype.0);
    if about.cut > 0 {
        let _ = write!(out, "\"orig_len\":{},", about.wire_len(frame.len()));
    }
    if let Some(interface) = interface {
        let _ = write!(out, "\"interface\":{},", Value::from(interface));
    }
    let _ = match notes::direction(&about.options) {
        Direction::Unknown => Ok(()),
        Direction::Inbound => write!(out, "\"direction\":\"inbound\","),
        Direction::Outbound => write!(out, "\"direction\":\"outbound\","),
    };
    let comments: Vec<String> = notes::comments(&about.options).collect();
    if !comments.is_empty() {
        let _ = write!(out, "\"comments\":{},", Value::from(comments));
    }
    out.extend_from_slice(b"\"payload\":\"");
    for byte in frame.get(14..).unwrap_or_default() {
        let _ = write!(out, "{byte:02X}");
    }
    out.extend_from_slice(b"\"}\n");
}
