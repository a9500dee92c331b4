//! Entries that a router adds to the options of a forwarded packet: Record Route and Internet
//! Timestamp (RFC 791 3.1, RFC 1812 5.3.13.5, .6).

use super::{HEADER_LEN, Header, Opt, fill_checksum};
use crate::{Layer, Malformed};
use core::net::Ipv4Addr;

/// Address and time that a router records in the options of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Scribe {
    /// Address of the outgoing interface.
    pub addr: Ipv4Addr,
    /// Milliseconds since midnight UT. If the high bit is set, the time has another base (RFC 791
    /// 3.1).
    pub millis: u32,
}

/// Adds the entries that a packet's options request, and updates the checksum. `is_own` must return
/// whether an address belongs to this router.
///
/// # Errors
/// The option has some space, but not for a whole entry, or the overflow counter has its maximum
/// value. RFC 791 requires that such a packet is discarded.
pub fn record(packet: &mut [u8], scribe: Scribe, is_own: &dyn Fn(Ipv4Addr) -> bool) -> Result<(), Malformed> {
    let header = Header::parse(packet)?;
    let Some(header) = packet.get_mut(..header.ihl_len) else { return Ok(()) };
    let mut rest = header.get_mut(HEADER_LEN..).unwrap_or_default();
    while let Some(&kind) = rest.first() {
        let len = match kind {
            Opt::END => break,
            Opt::NOP => 1,
            _ => rest.get(1).map_or(0, |len| usize::from(*len)).max(2),
        };
        let bad = Malformed::BadOptionLen { layer: Layer::Ip4, kind, len: len as u8 };
        let (option, after) = core::mem::take(&mut rest).split_at_mut_checked(len).ok_or(bad)?;
        write(option, scribe, is_own).ok_or(bad)?;
        rest = after;
    }
    fill_checksum(header);
    Ok(())
}

/// Adds the entry to a single option; [`record`] calls this for all options of a packet.
///
/// # Errors
/// Fails under the same conditions as [`record`].
pub fn record_option(option: &mut [u8], scribe: Scribe, is_own: &dyn Fn(Ipv4Addr) -> bool) -> Result<(), Malformed> {
    let (kind, len) = (option.first().copied().unwrap_or_default(), option.len() as u8);
    write(option, scribe, is_own).ok_or(Malformed::BadOptionLen { layer: Layer::Ip4, kind, len })
}

fn write(option: &mut [u8], scribe: Scribe, is_own: &dyn Fn(Ipv4Addr) -> bool) -> Option<()> {
    match *option.first()? {
        Opt::RECORD_ROUTE => route(option, scribe),
        Opt::TIMESTAMP => stamp(option, scribe, is_own),
        _ => Some(()),
    }
}

/// Splits options into the bytes of each option, up to the end of the list or to a malformed
/// option.
pub fn raw_options(mut options: &[u8]) -> impl Iterator<Item = &[u8]> {
    core::iter::from_fn(move || {
        let len = match *options.first()? {
            Opt::END => return None,
            Opt::NOP => 1,
            _ => usize::from(*options.get(1)?).max(2),
        };
        let (option, rest) = options.split_at_checked(len)?;
        options = rest;
        Some(option)
    })
}

/// Returns the four octets at the octet number `pointer` of an option, counted from 1.
fn at(option: &mut [u8], pointer: usize) -> Option<&mut [u8; 4]> {
    option.get_mut(pointer.checked_sub(1)?..)?.first_chunk_mut()
}

fn route(option: &mut [u8], scribe: Scribe) -> Option<()> {
    let pointer = usize::from(*option.get(2)?);
    if pointer > option.len() {
        return Some(()); // full: stays unchanged
    }
    *at(option, pointer)? = scribe.addr.octets();
    *option.get_mut(2)? = pointer as u8 + 4;
    Some(())
}

fn stamp(option: &mut [u8], scribe: Scribe, is_own: &dyn Fn(Ipv4Addr) -> bool) -> Option<()> {
    let (pointer, overflow) = (usize::from(*option.get(2)?), *option.get(3)?);
    if pointer > option.len() {
        // Counts one more host that found no space. With prespecified addresses (flag 3) no host
        // lacks space.
        if overflow & 0x0f != 3 {
            *option.get_mut(3)? = overflow.checked_add(0x10)?;
        }
        return Some(());
    }
    let (addressed, wanted) = match overflow & 0x0f {
        0 => (0, true),
        1 => {
            let room = at(option, pointer + 4).is_some();
            *at(option, pointer).filter(|_| room)? = scribe.addr.octets();
            (4, true)
        }
        3 => (4, is_own(Ipv4Addr::from(*at(option, pointer)?))),
        _ => return Some(()),
    };
    if wanted {
        *at(option, pointer + addressed)? = scribe.millis.to_be_bytes();
        *option.get_mut(2)? = (pointer + addressed) as u8 + 4;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

    fn recorded(options: &[u8]) -> Result<Vec<u8>, Malformed> {
        let mut packet = vec![0; HEADER_LEN];
        let header =
            Header::new(Ipv4Addr::new(1, 1, 1, 1), Ipv4Addr::new(2, 2, 2, 2), crate::Proto::UDP, options.len())
                .unwrap();
        header.emit(packet.first_chunk_mut().unwrap());
        packet.extend(options);
        packet[0] = 0x40 | ((HEADER_LEN + options.len()) / 4) as u8;
        record(&mut packet, Scribe { addr: ME, millis: 0x8000_0001 }, &|addr| addr == ME)?;
        assert!(crate::ip4::header_checksum_ok(&packet, packet.len()));
        Ok(packet.split_off(HEADER_LEN))
    }

    // RFC 1812 5.3.13.5.
    #[test]
    fn a_route_is_recorded_while_there_is_room() {
        assert_eq!(recorded(&[7, 7, 4, 0, 0, 0, 0, 0]).unwrap(), [7, 7, 8, 10, 0, 0, 1, 0]);
        assert_eq!(recorded(&[1, 7, 7, 8, 9, 9, 9, 9]).unwrap(), [1, 7, 7, 8, 9, 9, 9, 9], "full");
        assert!(recorded(&[7, 6, 4, 0, 0, 0, 0, 0]).is_err(), "room for half an address");
        assert!(recorded(&[7, 0, 4, 0]).is_err());
        assert!(recorded(&[7, 9, 4, 0]).is_err(), "longer than the header");
    }

    // RFC 1812 5.3.13.6.
    #[test]
    fn a_time_is_stamped_as_the_flag_says() {
        assert_eq!(recorded(&[68, 8, 5, 0, 0, 0, 0, 0]).unwrap(), [68, 8, 9, 0, 0x80, 0, 0, 1]);
        assert_eq!(
            recorded(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap(),
            [68, 12, 13, 1, 10, 0, 0, 1, 0x80, 0, 0, 1]
        );
        assert_eq!(
            recorded(&[68, 12, 5, 3, 10, 0, 0, 1, 0, 0, 0, 0]).unwrap(),
            [68, 12, 13, 3, 10, 0, 0, 1, 0x80, 0, 0, 1]
        );
        assert_eq!(
            recorded(&[68, 12, 5, 3, 10, 0, 0, 2, 0, 0, 0, 0]).unwrap(),
            [68, 12, 5, 3, 10, 0, 0, 2, 0, 0, 0, 0]
        );
        assert_eq!(recorded(&[68, 8, 9, 0x10, 0, 0, 0, 0]).unwrap(), [68, 8, 9, 0x20, 0, 0, 0, 0], "full: counted");
        let prespecified = [68, 12, 13, 0x13, 9, 9, 9, 9, 0, 0, 0, 1];
        assert_eq!(recorded(&prespecified).unwrap(), prespecified, "full, but nobody lacks room");
        assert!(recorded(&[68, 8, 9, 0xf0, 0, 0, 0, 0]).is_err(), "the count is full");
        assert!(recorded(&[68, 8, 5, 1, 0, 0, 0, 0]).is_err(), "room for an address without its time");
    }
}
