//! Frames and VLANs drawn from a seed, as input to both bridges.

use crate::common::Rng;
use bridge::Admit;

/// VIDs that are drawn. [`NOBODY`] is never one of them.
const VIDS: [u16; 4] = [1, 10, 20, 4094];
const NOBODY: u16 = 4095;
/// Number of stations that are drawn. With a third as many, no address would be unknown.
const STATIONS: usize = 10;
/// Text in every payload, which distinguishes these frames from those that the kernel itself sends.
pub const MARK: &[u8] = b"twin";
pub const ALL: [u8; 6] = [0xff; 6];

/// A station, by the last byte of its address.
#[derive(Clone, Copy)]
pub struct Station(pub u8);

impl Station {
    pub fn mac(self) -> [u8; 6] {
        [0x02, 0, 0, 0, 1, self.0]
    }
}

/// Returns the address 01-80-C2-00-00-0N, to which no bridge forwards frames (IEEE 802.1Q table
/// 8-1).
pub fn reserved(n: u8) -> [u8; 6] {
    [0x01, 0x80, 0xc2, 0, 0, n]
}

/// VLAN tags of a frame.
#[derive(Clone, Copy)]
pub enum Tags {
    None,
    /// Control information of the tag: priority and VID.
    One(u16),
    /// EtherType of the outer tag, and control information of both tags.
    Two(u16, u16, u16),
}

/// VLANs of one port: VIDs, each with whether frames leave untagged; the PVID; and which frames are
/// admitted.
#[derive(Clone, Default, Debug)]
pub struct Set {
    pub member: Vec<(u16, bool)>,
    pub pvid: Option<u16>,
    pub admit: Admit,
}

/// Bridge for which frames are drawn. Frames that this bridge handles differently on purpose are
/// not drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum For {
    Kernel,
    /// Open vSwitch does not keep the DEI bit (which it uses to mark that a tag is present),
    /// accepts 0x88A8 as a tag as well as 0x8100, and forwards frames from a group address or from
    /// address 0: see `twin::known_differences_from_open_vswitch_occur`.
    OpenVswitch,
}

/// VLANs of the ports.
#[derive(Clone, Copy)]
pub enum Vlans {
    /// Tags are ignored.
    None,
    /// Drawn from the seed.
    Drawn,
    /// Drawn from the seed, with the kinds of port that Open vSwitch has.
    DrawnAsModes,
    /// All ports are tagged members of all VLANs.
    All,
}

impl Vlans {
    /// Returns the VLANs of each port.
    pub fn draw(self, rng: &mut Rng, ports: usize) -> Vec<Set> {
        let of = |_| match self {
            Vlans::None => Set::default(),
            Vlans::Drawn => set(rng),
            Vlans::DrawnAsModes => mode(rng),
            Vlans::All => Set { member: VIDS.iter().map(|vid| (*vid, false)).collect(), ..Set::default() },
        };
        (0..ports).map(of).collect()
    }
}

/// Draws three of the four VLANs, half of them untagged, and in three of four cases a PVID.
fn set(rng: &mut Rng) -> Set {
    let vids: Vec<u16> = VIDS.into_iter().filter(|_| rng.below(4) > 0).collect();
    let member: Vec<_> = vids.into_iter().map(|vid| (vid, rng.below(2) == 0)).collect();
    let pvid = (!member.is_empty() && rng.below(4) > 0).then(|| rng.one(&member).0);
    Set { member, pvid, admit: Admit::All }
}

/// Draws a mode of ovs-vswitchd.conf.db(5), Port, vlan_mode: access, trunk, native-tagged or
/// native-untagged.
fn mode(rng: &mut Rng) -> Set {
    let native = rng.one(&VIDS);
    if rng.below(3) == 0 {
        return Set { member: vec![(native, true)], pvid: Some(native), admit: Admit::Untagged };
    }
    let trunks = VIDS.into_iter().filter(|vid| *vid == native || rng.below(3) > 0).collect::<Vec<_>>();
    let tagged = |vid: u16, untagged: bool| (vid, untagged && vid == native);
    match rng.below(3) {
        0 => Set { member: trunks.into_iter().map(|vid| (vid, false)).collect(), pvid: None, admit: Admit::Tagged },
        kind => Set {
            member: trunks.into_iter().map(|vid| tagged(vid, kind == 1)).collect(),
            pvid: Some(native),
            admit: Admit::All,
        },
    }
}

/// Builds a frame as on a wire, without FCS.
pub fn frame(from: Station, to: [u8; 6], tags: Tags) -> Vec<u8> {
    make(to, from.mac(), tags, 0x88b5, 60)
}

fn make(dst: [u8; 6], src: [u8; 6], tags: Tags, kind: u16, len: usize) -> Vec<u8> {
    let mut bytes = [dst, src].concat();
    let mut put = |word: u16| bytes.extend(word.to_be_bytes());
    match tags {
        Tags::None => {}
        Tags::One(control) => [0x8100, control].into_iter().for_each(&mut put),
        Tags::Two(outer, one, other) => [outer, one, 0x8100, other].into_iter().for_each(&mut put),
    }
    put(kind);
    bytes.extend(MARK);
    let rest = len.saturating_sub(bytes.len());
    bytes.extend((0..rest).map(|at| at as u8));
    bytes
}

/// Draws a frame and the port at which it arrives.
pub fn any(rng: &mut Rng, ports: usize, whose: For) -> (usize, Vec<u8>) {
    let (port, src) = source(rng, ports, whose);
    let len = rng.one(&[64, 65, 128, 600, 1400]);
    // The first value is an EtherType for local experiments (IEEE 802 9.2.3), the other a length
    // (LLC).
    let kind = rng.one(&[0x88b5, 0x88b5, 46]);
    (port, make(destination(rng), src, tags(rng, whose), kind, len))
}

/// Draws a source address and a port: mostly the station's own port, sometimes another, and
/// sometimes an invalid source.
fn source(rng: &mut Rng, ports: usize, whose: For) -> (usize, [u8; 6]) {
    let at = rng.below(STATIONS);
    let port = if rng.below(8) > 0 { at % ports } else { rng.below(ports) };
    let src = match rng.below(40) {
        0..3 if whose == For::OpenVswitch => Station(at as u8).mac(),
        0 => [0; 6],
        1 => [0x01, 0, 0x5e, 0, 0, 1],
        2 => ALL,
        _ => Station(at as u8).mac(),
    };
    (port, src)
}

fn destination(rng: &mut Rng) -> [u8; 6] {
    match rng.below(20) {
        0 => ALL,
        1 => [0x01, 0, 0x5e, 1, 2, rng.below(3) as u8],
        2 => [0x33, 0x33, 0, 0, 0, rng.below(3) as u8],
        // Group 0 is a known difference. The last address is next to the reserved ones.
        3 => reserved(1 + rng.below(16) as u8),
        4 | 5 => [0x02, 0, 0, 9, 9, rng.next() as u8],
        _ => Station(rng.below(STATIONS) as u8).mac(),
    }
}

fn tags(rng: &mut Rng, whose: For) -> Tags {
    let dei = if whose == For::Kernel { 0x1000 } else { 0 };
    let control = |rng: &mut Rng, vid: u16| ((rng.below(16) as u16) << 12) & (0xe000 | dei) | vid;
    match rng.below(10) {
        0..=3 => Tags::None,
        4 => Tags::One(control(rng, 0)),
        5..=7 => {
            let vid = rng.one(&[1, 10, 20, 4094, 5, NOBODY]);
            Tags::One(control(rng, vid))
        }
        _ => {
            let (outer, inner) = (rng.one(&VIDS), rng.one(&VIDS));
            // For Open vSwitch, sometimes an outer tag is added that has only a priority.
            let (kind, outer) = match whose {
                For::Kernel => (rng.one(&[0x8100, 0x88a8]), outer),
                For::OpenVswitch => (0x8100, if rng.below(4) > 0 { outer } else { 0 }),
            };
            Tags::Two(kind, control(rng, outer), control(rng, inner))
        }
    }
}
