//! Link layer protocols, and encapsulations that shift the offsets of everything after them.

use super::{
    AARP, ATALK, Compiler, IP, IP_OVER_LLC, IP6, IPX, IPX_ETHERTYPE, ISO, Link, MAX_DEPTH, MAX_LENGTH, Medium, NETBEUI,
    Outcome, STP,
};
use crate::filter::program::{Code, Test};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;

impl Compiler {
    /// Compiles `ether proto N`: an EtherType, or an 802.2 SAP if `N` is at most 1500.
    pub fn link_type(&mut self, proto: u32) -> Outcome {
        if self.link.labels > 0 {
            return self.under_labels(proto);
        }
        if self.link.medium == Medium::Ppp {
            let test = self.ethertype().eq(ppp_protocol(proto));
            return Ok(self.builder.test(test));
        }
        let (ethertype, is_802_3) = (self.ethertype(), self.ethertype().at_most(MAX_LENGTH));
        Ok(match proto {
            ISO | IP_OVER_LLC | NETBEUI => {
                let short = self.builder.test(is_802_3);
                self.all(&[self.llc(0, 2, 0xffff).eq(proto << 8 | proto)], short)
            }
            IPX => {
                let typed = self.builder.test(ethertype.eq(IPX_ETHERTYPE));
                let short = self.builder.test(is_802_3);
                let snap = self.snap(0, IPX_ETHERTYPE);
                let raw = self.any(self.llc(0, 1, 0xff).eq(IPX), &[self.llc(0, 2, 0xffff).eq(0xffff)]);
                let inner = self.builder.or(snap, raw);
                let inner = self.builder.and(short, inner);
                self.builder.or(typed, inner)
            }
            ATALK | AARP => {
                let short = self.builder.test(is_802_3);
                let snap = self.snap(if proto == ATALK { 0x08_0007 } else { 0 }, proto);
                let inner = self.builder.and(short, snap);
                let typed = self.builder.test(ethertype.eq(proto));
                self.builder.or(inner, typed)
            }
            service if service <= MAX_LENGTH => {
                let short = self.builder.test(is_802_3);
                self.all(&[Test::field(self.link.ethertype + 2, 1, 0xff).eq(service)], short)
            }
            _ => self.builder.test(ethertype.eq(proto)),
        })
    }

    /// Tests for an 802.2 SNAP header with this organization code and protocol (RFC 1042).
    fn snap(&mut self, organization: u32, proto: u32) -> Code {
        let tail = self.builder.test(self.llc(4, 4, u32::MAX).eq(organization << 16 | proto));
        self.all(&[self.llc(0, 4, u32::MAX).eq(0xaaaa_0300 | organization >> 16)], tail)
    }

    /// Tests for IPv4 or IPv6 after an MPLS label. No field contains the protocol there, so the
    /// bottom-of-stack bit and the version nibble are tested.
    fn under_labels(&mut self, proto: u32) -> Outcome {
        let version = match proto {
            IP => 0x40,
            IP6 => 0x60,
            _ => return Err("only IPv4 and IPv6 can be matched below an MPLS label".to_owned()),
        };
        let bottom = Test::field(self.link.packet() - 2, 1, 0x01).eq(0x01);
        let bottom = self.builder.test(bottom);
        Ok(self.all(&[self.packet(0, 1, 0xf0).eq(version)], bottom))
    }

    /// Compiles `llc` and `llc KIND`.
    pub fn logical_link(&mut self, kind: Option<(u32, u32)>) -> Outcome {
        self.on_ethernet("llc")?;
        let short = self.builder.test(self.ethertype().at_most(MAX_LENGTH));
        let raw = self.builder.test(self.llc(0, 2, 0xffff).eq(0xffff)).not();
        let llc = self.builder.and(short, raw);
        Ok(match kind {
            Some((value, mask)) => self.all(&[self.llc(2, 1, mask).eq(value)], llc),
            None => llc,
        })
    }

    pub(super) fn on_ethernet(&self, what: &str) -> Result<(), String> {
        match self.link.medium {
            Medium::Ethernet => Ok(()),
            Medium::Ppp => Err(format!("'{what}' cannot follow 'pppoes': it does not exist in PPP")),
        }
    }

    pub fn vlan(&mut self, id: Option<u32>) -> Outcome {
        if self.link.labels > 0 {
            return Err("'vlan' cannot follow 'mpls'".to_owned());
        }
        self.on_ethernet("vlan")?;
        let tagged = self.ethertype();
        let mut code = self.any(tagged.eq(0x8100), &[tagged.eq(0x88a8), tagged.eq(0x9100)]);
        if let Some(id) = id {
            at_most(id, 0xfff, "VLAN ID")?;
            code = self.all(&[self.packet(0, 2, 0xfff).eq(id)], code);
        }
        self.link.ethertype += 4;
        self.link.payload += 4;
        self.not_too_deep()?;
        Ok(code)
    }

    pub fn mpls(&mut self, label: Option<u32>) -> Outcome {
        let mut code = if self.link.labels > 0 {
            let more = Test::field(self.link.packet() - 2, 1, 0x01).eq(0);
            self.builder.test(more)
        } else {
            self.link_type(if self.link.medium == Medium::Ppp { 0x0281 } else { 0x8847 })?
        };
        if let Some(label) = label {
            at_most(label, 0xf_ffff, "MPLS label")?;
            code = self.all(&[self.packet(0, 4, 0xffff_f000).eq(label << 12)], code);
        }
        self.link.labels += 1;
        self.not_too_deep()?;
        Ok(code)
    }

    pub fn pppoe_discovery(&mut self) -> Outcome {
        self.link_type(0x8863)
    }

    pub fn pppoe_session(&mut self, id: Option<u32>) -> Outcome {
        let mut code = self.link_type(0x8864)?;
        if let Some(id) = id {
            at_most(id, 0xffff, "PPPoE session ID")?;
            code = self.all(&[self.packet(0, 4, 0xffff).eq(id)], code);
        }
        let header = self.link.packet() + 6;
        self.link = Link { medium: Medium::Ppp, header, ethertype: header, payload: header + 2, labels: 0 };
        self.not_too_deep()?;
        Ok(code)
    }

    fn not_too_deep(&self) -> Result<(), String> {
        if self.link.packet() < MAX_DEPTH { Ok(()) } else { Err("too many headers".to_owned()) }
    }
}

/// Returns the PPP protocol number for an EtherType or 802.2 SAP (RFC 1661 2).
fn ppp_protocol(proto: u32) -> u32 {
    match proto {
        IP => 0x21,
        IP6 => 0x57,
        0x6003 => 0x27,
        ATALK => 0x29,
        0x0600 => 0x25,
        ISO => 0x23,
        STP => 0x31,
        IPX => 0x2b,
        other => other,
    }
}

fn at_most(number: u32, most: u32, what: &str) -> Result<(), String> {
    if number <= most { Ok(()) } else { Err(format!("{what} {number}: must be at most {most}")) }
}
