//! Intended differences between our router and the kernel's, each with its reason and a packet that
//! shows it.

use super::net::{LINKS, link_to};
use super::packet::{Packet, error_of, header_of, icmp, is_routers, mend, packet_of, sums_verify, tcp};
use super::{Out, Validation};
use std::net::Ipv4Addr;
use wire::{Mac, Proto, eth};

/// A frame, and the packets that each router sent for it.
pub struct Case {
    pub validation: Validation,
    pub from: usize,
    pub came: Vec<u8>,
    pub ours: Out,
    pub theirs: Out,
}

/// A known difference.
pub struct Known {
    pub what: &'static str,
    pub why: &'static str,
    /// Removes the difference from the packets that left, if the packet that arrived shows it.
    alike: fn(came: &Came, ours: &mut Out, theirs: &mut Out),
    /// Returns a packet that shows the difference, and the link by which it arrives.
    pub example: fn() -> (usize, Vec<u8>),
}

/// The frame that arrived, and the link by which it did.
struct Came {
    validation: Validation,
    from: usize,
    frame: Vec<u8>,
}

impl Case {
    /// Returns whether all differences of this case are known.
    pub fn explained(&self) -> bool {
        self.alike_by(KNOWN.iter())
    }

    /// Returns whether all differences are known if `left_out` is not one of the known ones.
    pub fn explained_without(&self, left_out: &Known) -> bool {
        self.alike_by(KNOWN.iter().filter(|known| known.what != left_out.what))
    }

    fn alike_by<'a>(&self, known: impl Iterator<Item = &'a Known>) -> bool {
        // Checksums are checked first, since the adjustments recompute them.
        self.ours.iter().flatten().for_each(|frame| assert!(sums_verify(frame), "our sums: {frame:02x?}"));
        let (mut ours, mut theirs) = (self.ours.clone(), self.theirs.clone());
        let came = Came { validation: self.validation, from: self.from, frame: self.came.clone() };
        known.for_each(|known| (known.alike)(&came, &mut ours, &mut theirs));
        [&mut ours, &mut theirs].into_iter().flatten().for_each(|frames| frames.sort());
        ours == theirs
    }
}

pub const KNOWN: &[Known] = &[
    Known {
        what: "identifications of packets that the routers originate",
        why: "RFC 6864 4.1, 4.2: any value is permitted that is not reused soon",
        alike: |_, ours, theirs| {
            each(ours, theirs, |frame| {
                if is_routers(frame) {
                    set(frame, 4, &[0, 0]);
                }
            });
        },
        example: || (0, Packet::udp(FAR, NOWHERE, 8).frame(0)),
    },
    Known {
        what: "the time in a Timestamp option",
        why: "RFC 791 3.1: the stack does not know midnight UT, which the high bit of its times indicates",
        alike: |came, ours, theirs| {
            let Some(time) = came.time() else { return };
            each(ours, theirs, |frame| {
                if !is_routers(frame) && header_of(frame).is_some_and(|header| header.ihl_len >= time + 4) {
                    set(frame, time, &[0; 4]);
                }
            });
        },
        example: || (0, Packet::udp(FAR, BEHIND, 8).options(&[68, 8, 5, 0, 0, 0, 0, 0]).frame(0)),
    },
    Known {
        what: "the kernel copies a packet's options to the error about it, and quotes less",
        why: "RFC 1812 4.3.2.6 requires that only for source routes, which neither router supports",
        alike: |came, ours, theirs| {
            if !came.has_options() {
                return;
            }
            pairs(ours, theirs, |ours, theirs| {
                strip_options(theirs);
                if theirs.len() < ours.len() {
                    cut(ours, theirs.len());
                }
            });
        },
        example: || (0, Packet::udp(FAR, NOWHERE, 600).options(&[7, 7, 4, 0, 0, 0, 0]).frame(0)),
    },
    Known {
        what: "the kernel quotes options that it has partly filled in, and the old checksum",
        why: "RFC 792: the header of the original datagram is quoted",
        alike: |came, ours, theirs| {
            let Some(header) = header_of(&came.frame).filter(|header| header.ihl_len > 20) else { return };
            let packet = packet_of(&came.frame);
            pairs(ours, theirs, |_, theirs| {
                quoted(theirs, 10, &packet[10..12]);
                quoted(theirs, 20, &packet[20..header.ihl_len]);
            });
        },
        example: || (0, Packet::udp(FAR, NOWHERE, 8).options(&[7, 7, 4, 0, 0, 0, 0]).frame(0)),
    },
    Known {
        what: "in a redirect, the kernel quotes the decremented TTL",
        why: "RFC 792: the header of the original datagram is quoted",
        alike: |came, ours, theirs| {
            pairs(ours, theirs, |ours, theirs| {
                if let Some((5, _)) = error_of(ours) {
                    let packet = packet_of(&came.frame);
                    quoted(theirs, 8, &packet[8..9]);
                    quoted(theirs, 10, &packet[10..12]);
                }
            });
        },
        example: || (0, Packet::udp(STATION, Ipv4Addr::new(10, 2, 9, 9), 8).frame(0)),
    },
    Known {
        what: "the kernel clears the octets after End of Option List",
        why: "RFC 791 3.1: routers do not process these octets",
        alike: |came, ours, _| {
            let Some(end) = came.options_end() else { return };
            each(ours, &mut Out::default(), |frame| {
                if let Some(header) = header_of(frame).filter(|header| !is_routers(frame) && header.ihl_len > end) {
                    set(frame, end, &vec![0; header.ihl_len - end]);
                }
            });
        },
        example: || (0, Packet::udp(FAR, BEHIND, 8).options(&[1, 0, 1, 1]).frame(0)),
    },
    Known {
        what: "in later fragments, the kernel replaces options that are not copied by No Operations",
        why: "RFC 791 3.1: with the copied flag 0 an option is in the first fragment only",
        alike: |came, ours, theirs| {
            if came.has_options() {
                [ours, theirs].into_iter().flatten().for_each(put_together);
            }
        },
        example: || (0, Packet::udp(FAR, BEHIND, 900).options(&[7, 7, 4, 0, 0, 0, 0]).frame(0)),
    },
    Known {
        what: "the kernel treats 0.0.0.0/8 and 240.0.0.0/4 as ordinary networks",
        why: "RFC 6890 tables 1 and 15: not forwardable, no destinations, and sources only of hosts without an address",
        alike: |came, ours, theirs| {
            let reserved = |addr: Ipv4Addr| matches!(addr.octets()[0], 0 | 240..);
            if header_of(&came.frame).is_some_and(|header| reserved(header.src) || reserved(header.dst))
                && is_empty(ours)
            {
                *theirs = Out::default();
            }
        },
        example: || (0, Packet::udp(Ipv4Addr::new(240, 0, 0, 1), BEHIND, 8).frame(0)),
    },
    Known {
        what: "with source validation, the kernel still sends errors about unreachable destinations",
        why: "RFC 1812 5.3.8: a packet that fails source validation SHOULD be silently discarded",
        alike: |came, ours, theirs| {
            let leads = |dst: Ipv4Addr| matches!(dst.octets(), [10, 0..=2, ..]);
            let nowhere = header_of(&came.frame).is_some_and(|header| !leads(header.dst));
            let reported = theirs.iter().flatten().all(|frame| matches!(error_of(frame), Some((3 | 12, _))));
            if came.is_from_elsewhere() && nowhere && reported && is_empty(ours) {
                *theirs = Out::default();
            }
        },
        example: || (1, Packet::udp(FAR, NOWHERE, 8).frame(1)),
    },
    Known {
        what: "the kernel stamps the address of the link on which the packet arrived",
        why: "RFC 1812 4.2.2.2: the address is that of the link on which the packet is sent",
        alike: |came, ours, theirs| {
            let Some(time) = came.time().filter(|_| came.is_stamped_with_address()) else { return };
            each(ours, theirs, |frame| {
                if !is_routers(frame) && header_of(frame).is_some_and(|header| header.ihl_len > time) {
                    set(frame, time - 4, &[0; 4]);
                }
            });
        },
        example: || (0, Packet::udp(FAR, BEHIND, 8).options(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]).frame(0)),
    },
    Known {
        what: "the kernel sends an error about a source route back along the route, if possible",
        why: "RFC 7126 4.3: source routes are not followed",
        alike: |came, ours, theirs| {
            let refused = ours.iter().flatten().all(|frame| error_of(frame).is_some());
            if came.options().iter().any(|(_, option)| matches!(option[0], 131 | 137)) && refused && is_empty(theirs) {
                *ours = Out::default();
            }
        },
        example: || (0, Packet::udp(FAR, BEHIND, 8).options(&[137, 7, 8, 9, 9, 9, 9, 7, 1]).frame(0)),
    },
    Known {
        what: "the kernel copies a packet's options to the reset for it",
        why: "no RFC requires it; RFC 1812 4.3.3.6 requires it only for echo replies (Record Route, Timestamp)",
        alike: |_, _, theirs| {
            each(&mut Out::default(), theirs, |frame| {
                if is_routers(frame) && header_of(frame).is_some_and(|header| header.proto == Proto::TCP) {
                    strip_options(frame);
                }
            });
        },
        example: || {
            let syn = Packet::new(FAR, LINKS[0].addr, Proto::TCP, tcp(FAR, LINKS[0].addr, 2, 0));
            (0, syn.options(&[7, 7, 4, 0, 0, 0, 0]).frame(0))
        },
    },
    Known {
        what: "the times in an echo reply",
        why: "RFC 791 3.1: the stack does not know midnight UT, as in forwarded packets",
        alike: |_, ours, theirs| {
            each(ours, theirs, |frame| {
                if is_routers(frame) && error_of(frame).is_none() {
                    forget_times(frame);
                }
            });
        },
        example: || {
            let ping = Packet::new(FAR, LINKS[0].addr, Proto::ICMP, icmp(8, 0, 1, b"x"));
            (0, ping.options(&[68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0]).frame(0))
        },
    },
    Known {
        what: "the kernel copies the type of service of a segment to the reset for it",
        why: "RFC 9293 3.9.2: no application has set one",
        alike: |_, _, theirs| {
            each(&mut Out::default(), theirs, |frame| {
                if is_routers(frame) && header_of(frame).is_some_and(|header| header.proto == Proto::TCP) {
                    set(frame, 1, &[0]);
                }
            });
        },
        example: || {
            (
                0,
                Packet { tos: 0x10, ..Packet::new(FAR, LINKS[0].addr, Proto::TCP, tcp(FAR, LINKS[0].addr, 2, 0)) }
                    .frame(0),
            )
        },
    },
    Known {
        what: "the kernel forwards packets from a broadcast address of its own links",
        why: "RFC 1812 4.2.2.11: a broadcast address cannot be a source",
        alike: |came, ours, theirs| {
            if header_of(&came.frame).is_some_and(|header| BROADCASTS.contains(&header.src)) && is_empty(ours) {
                *theirs = Out::default();
            }
        },
        example: || (0, Packet::udp(Ipv4Addr::new(10, 0, 4, 255), BEHIND, 8).frame(0)),
    },
    Known {
        what: "the kernel forwards packets with equal source and destination",
        why: "LAND attack: the source is forged, and some hosts reply to themselves endlessly",
        alike: |came, ours, theirs| {
            if header_of(&came.frame).is_some_and(|header| header.src == header.dst) && is_empty(ours) {
                *theirs = Out::default();
            }
        },
        example: || (0, Packet::udp(BEHIND, BEHIND, 8).frame(0)),
    },
    Known {
        what: "the kernel answers a ping to its address in a broadcast frame",
        why: "RFC 1122 3.3.6: a unicast packet in a link broadcast SHOULD be discarded",
        alike: |came, ours, theirs| {
            if came.frame[0] & 1 != 0 && is_empty(ours) {
                *theirs = Out::default();
            }
        },
        example: || {
            let ping = Packet::new(FAR, LINKS[0].addr, Proto::ICMP, icmp(8, 0, 1, b"x"));
            (0, Packet { to: Some(Mac::BROADCAST), ..ping }.frame(0))
        },
    },
    Known {
        what: "the kernel forwards options whose pointer or length ends within an entry, if space is left",
        why: "RFC 791 3.1: entries have four or eight octets each",
        alike: |came, ours, theirs| {
            let refused = ours.iter().flatten().all(|frame| matches!(error_of(frame), Some((12, _))));
            if came.has_odd_entries() && refused && (!is_empty(ours) || !came.may_be_told()) {
                *theirs = ours.clone();
            }
        },
        example: || (0, Packet::udp(FAR, BEHIND, 8).options(&[7, 11, 5, 0, 0, 0, 0, 0, 0, 0, 0]).frame(0)),
    },
    Known {
        what: "for a wrong length, the kernel's error points at the option's type",
        why: "RFC 792: the pointer identifies the octet of the error; 20 is the first option's type",
        alike: |_, ours, theirs| {
            pairs(ours, theirs, |ours, theirs| {
                let at = |frame: &[u8]| {
                    error_of(frame).filter(|(ty, _)| *ty == 12).map(|(_, quote)| (quote - 4, frame[quote - 4]))
                };
                if let (Some((_, our)), Some((place, their))) = (at(ours), at(theirs))
                    && our == their + 1
                {
                    theirs[place] = our;
                    mend(theirs);
                }
            });
        },
        example: || (0, Packet::udp(FAR, BEHIND, 8).options(&[7, 1, 4, 0]).frame(0)),
    },
    Known {
        what: "for a repeated and also invalid option, the kernel's error points at its type",
        why: "RFC 791 3.1: it may occur once; RFC 792: the pointer identifies the octet of one of two errors",
        alike: |came, ours, theirs| {
            pairs(ours, theirs, |ours, theirs| {
                let (Some((12, our)), Some((12, their))) = (error_of(ours), error_of(theirs)) else { return };
                let (our, place) = (ours[our - 4], their - 4);
                let points_at = |(at, option): &(usize, &[u8])| {
                    usize::from(theirs[place]) == *at && (*at..*at + option.len()).contains(&usize::from(our))
                };
                if came.come_again().iter().any(points_at) {
                    theirs[place] = our;
                    mend(theirs);
                }
            });
        },
        example: || {
            let options = [68, 8, 5, 0, 0, 0, 0, 0, 68, 8, 1, 0, 0, 0, 0, 0];
            (0, Packet::udp(FAR, BEHIND, 8).options(&options).frame(0))
        },
    },
];

const FAR: Ipv4Addr = Ipv4Addr::new(10, 1, 1, 1);
const BEHIND: Ipv4Addr = Ipv4Addr::new(10, 2, 1, 1);
const NOWHERE: Ipv4Addr = Ipv4Addr::new(10, 6, 0, 1);
/// Broadcast addresses of the router's links.
const BROADCASTS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 3, 255), Ipv4Addr::new(10, 0, 4, 255)];
const STATION: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 7);

impl Came {
    /// Returns the options of the packet with their offsets; an empty list if the frame is not a
    /// packet.
    fn options(&self) -> Vec<(usize, &[u8])> {
        let packet = packet_of(&self.frame);
        let end = header_of(&self.frame).map_or(20, |header| header.ihl_len);
        let (mut at, mut all) = (20, Vec::new());
        while at < end {
            let len = match packet[at] {
                0 | 1 => 1,
                _ if at + 1 == end => 1,
                _ => usize::from(packet[at + 1]).clamp(1, end - at),
            };
            all.push((at, &packet[at..at + len]));
            if packet[at] == 0 || packet[at] != 1 && len < 2 {
                break;
            }
            at += len;
        }
        all
    }

    fn has_options(&self) -> bool {
        header_of(&self.frame).is_some_and(|header| header.ihl_len > 20)
    }

    /// Returns whether an ICMP error about the packet may be sent. None is sent about later
    /// fragments, errors, and packets to several receivers (RFC 1122 3.2.2).
    fn may_be_told(&self) -> bool {
        let Some(header) = header_of(&self.frame) else { return false };
        let payload = header.payload(packet_of(&self.frame));
        let may_be_error = header.proto == Proto::ICMP && !matches!(payload.first(), Some(0 | 8 | 9 | 10 | 13..=18));
        let to_all = self.frame[0] & 1 != 0
            || header.dst.is_multicast()
            || header.dst.is_broadcast()
            || BROADCASTS.contains(&header.dst);
        link_to(header.src).is_some() && header.frag_off == 0 && !may_be_error && !to_all
    }

    /// Returns whether source validation is on and the source is not valid on the link by which the
    /// packet arrived.
    fn is_from_elsewhere(&self) -> bool {
        let Some(header) = header_of(&self.frame) else { return false };
        let back = link_to(header.src);
        match self.validation {
            Validation::Off => false,
            Validation::Loose => back.is_none(),
            Validation::Strict => back != Some(self.from),
        }
    }

    /// Returns the offset of the next timestamp in the Timestamp option.
    fn time(&self) -> Option<usize> {
        let options = self.options();
        let (at, option) = options.iter().find(|(_, option)| option[0] == 68 && option.len() >= 4)?;
        let place = usize::from(option[2]).checked_sub(1)? + if option[3] & 0xf == 0 { 0 } else { 4 };
        (place + 4 <= option.len()).then_some(at + place)
    }

    /// Returns whether the Timestamp option requests addresses of any router.
    fn is_stamped_with_address(&self) -> bool {
        self.options().iter().any(|(_, option)| option[0] == 68 && option.len() >= 4 && option[3] & 0xf == 1)
    }

    /// Returns the options of a kind that occurred before. Both source routes are of the same kind.
    fn come_again(&self) -> Vec<(usize, &[u8])> {
        let kind = |option: &[u8]| if option[0] == 137 { 131 } else { option[0] };
        let options = self.options();
        let is_second = |at: usize| options[..at].iter().any(|(_, before)| kind(before) == kind(options[at].1));
        (0..options.len()).filter(|at| options[*at].1[0] > 1 && is_second(*at)).map(|at| options[at]).collect()
    }

    /// Returns the offset after the octet that ends the list of options.
    fn options_end(&self) -> Option<usize> {
        self.options().last().filter(|(_, option)| option[0] == 0).map(|(at, _)| at + 1)
    }

    fn has_odd_entries(&self) -> bool {
        self.options().iter().any(|(_, option)| match option {
            [7 | 131 | 137, _, pointer, ..] => pointer % 4 != 0 || option.len() % 4 != 3,
            [68, _, pointer, ..] => pointer % 4 != 1 || option.len() % 4 != 0,
            [148, len, ..] => *len != 4,
            _ => false,
        })
    }
}

fn is_empty(out: &Out) -> bool {
    out.iter().all(Vec::is_empty)
}

fn each(ours: &mut Out, theirs: &mut Out, change: impl Fn(&mut Vec<u8>)) {
    ours.iter_mut().chain(theirs).flatten().for_each(change);
}

/// Applies `change` to the errors that both routers have sent, if they are of the same type.
fn pairs(ours: &mut Out, theirs: &mut Out, change: impl Fn(&mut Vec<u8>, &mut Vec<u8>)) {
    for (ours, theirs) in ours.iter_mut().zip(theirs) {
        let our = ours.iter_mut().find(|frame| error_of(frame).is_some());
        let their = theirs.iter_mut().find(|frame| error_of(frame).is_some());
        if let (Some(our), Some(their)) = (our, their)
            && error_of(our).map(|(ty, _)| ty) == error_of(their).map(|(ty, _)| ty)
        {
            change(our, their);
        }
    }
}

/// Writes into the IP header of a frame and recomputes its checksums.
fn set(frame: &mut [u8], at: usize, bytes: &[u8]) {
    let at = eth::HEADER_LEN + at;
    frame[at..at + bytes.len()].copy_from_slice(bytes);
    mend(frame);
}

/// Writes into the packet that an error quotes, as far as the quote extends.
fn quoted(frame: &mut [u8], at: usize, bytes: &[u8]) {
    let Some((_, quote)) = error_of(frame) else { return };
    for (byte, new) in frame[quote + at..].iter_mut().zip(bytes) {
        *byte = *new;
    }
    mend(frame);
}

fn strip_options(frame: &mut Vec<u8>) {
    let Some(header) = header_of(frame) else { return };
    frame.drain(eth::HEADER_LEN + 20..eth::HEADER_LEN + header.ihl_len);
    frame[eth::HEADER_LEN] = 0x45;
    let len = frame.len();
    cut(frame, len);
}

/// Zeros the times of a Timestamp option: each word with flag 0, each second word with flags 1 and
/// 3 (RFC 791 3.1).
fn forget_times(frame: &mut [u8]) {
    let Some(header) = header_of(frame) else { return };
    let options = &packet_of(frame)[20..header.ihl_len];
    let Some((at, len, flag)) = wire::ip4::raw_options(options).find_map(|option| match option {
        [68, len, _, flags, ..] => Some((option.as_ptr() as usize - options.as_ptr() as usize, *len, flags & 15)),
        _ => None,
    }) else {
        return;
    };
    let (first, step) = if flag == 0 { (4, 4) } else { (8, 8) };
    for time in (first..usize::from(len) - 3).step_by(step) {
        set(frame, 20 + at + time, &[0; 4]);
    }
}

fn cut(frame: &mut Vec<u8>, len: usize) {
    frame.truncate(len);
    let total = (frame.len() - eth::HEADER_LEN) as u16;
    set(frame, 2, &total.to_be_bytes());
}

/// Joins the fragments among the frames into one packet of any length, with the header of the first
/// fragment and all payloads. The frames stay unchanged if the headers of later fragments do not
/// match the first one's.
fn put_together(frames: &mut Vec<Vec<u8>>) {
    let header = |frame: &Vec<u8>| header_of(frame).filter(wire::ip4::Header::is_fragment);
    let mut parts: Vec<_> = frames.extract_if(.., |frame| header(frame).is_some()).collect();
    parts.sort_by_key(|part| header(part).map(|header| header.frag_off));
    match whole(&parts) {
        Some(whole) => frames.push(whole),
        None => frames.extend(parts),
    }
}

fn whole(parts: &[Vec<u8>]) -> Option<Vec<u8>> {
    let (first, later) = parts.split_first()?;
    let (head, mut whole) = (header_of(first)?, first.clone());
    for part in later {
        let (header, packet) = (header_of(part)?, packet_of(part));
        let same = |header: &wire::ip4::Header| {
            (header.tos, header.id, header.df, header.ttl, header.proto, header.src, header.dst)
        };
        let end = usize::from(head.frag_off) + whole.len() - eth::HEADER_LEN - head.ihl_len;
        if !header_of(&whole)?.mf || usize::from(header.frag_off) != end || same(&header) != same(&head) {
            return None;
        }
        let flags = [whole[20] & 0xdf | packet[6] & 0x20, whole[21]];
        whole.extend(header.payload(packet));
        whole[20..22].copy_from_slice(&flags);
    }
    let len = whole.len();
    cut(&mut whole, len);
    Some(whole)
}
