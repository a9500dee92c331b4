//! ICMP messages by packetdrill's names, for IPv4 and IPv6.
//!
//! A name belongs to one address family or to both. If a script runs over the other family, the
//! name denotes the corresponding message of that family, as translated by RFC 7915 4.2 and 5.2. A
//! stated MTU includes the IP header of the name's own family; for the other family it is converted
//! by adding or subtracting 20 bytes.

use wire::icmp6::{parameter, time_exceeded, ty, unreachable};

/// Difference between the lengths of IPv6 and IPv4 headers, in bytes.
pub(crate) const HEADERS_DIFFER_BY: u32 = 20;

/// Address family to which a name belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Of {
    Both,
    Four,
    Six,
}

/// Type and code of a message in a packet; `None` if the address family has no such message.
type Wire = Option<(u8, u8)>;

/// Type name, code name, address family of the names, and type and code in IPv4 and in IPv6. If a
/// script states no code, the first entry of the type applies.
type Entry = (&'static str, &'static str, Of, Wire, Wire);

const fn six(ty: u8, code: u8) -> Wire {
    Some((ty, code))
}

const ENTRIES: &[Entry] = &[
    ("unreachable", "net_unreachable", Of::Both, Some((3, 0)), six(ty::UNREACHABLE, unreachable::NO_ROUTE)),
    ("unreachable", "host_unreachable", Of::Four, Some((3, 1)), six(ty::UNREACHABLE, unreachable::ADDRESS)),
    ("unreachable", "protocol_unreachable", Of::Four, Some((3, 2)), six(ty::PARAMETER_PROBLEM, parameter::NEXT_HEADER)),
    ("unreachable", "port_unreachable", Of::Both, Some((3, 3)), six(ty::UNREACHABLE, unreachable::PORT)),
    ("unreachable", "frag_needed", Of::Four, Some((3, 4)), six(ty::TOO_BIG, 0)),
    ("unreachable", "source_route_failed", Of::Four, Some((3, 5)), six(ty::UNREACHABLE, unreachable::NO_ROUTE)),
    ("unreachable", "net_unknown", Of::Four, Some((3, 6)), six(ty::UNREACHABLE, unreachable::NO_ROUTE)),
    ("unreachable", "host_unknown", Of::Four, Some((3, 7)), six(ty::UNREACHABLE, unreachable::NO_ROUTE)),
    ("unreachable", "source_host_isolated", Of::Four, Some((3, 8)), six(ty::UNREACHABLE, unreachable::NO_ROUTE)),
    ("unreachable", "net_prohibited", Of::Four, Some((3, 9)), six(ty::UNREACHABLE, unreachable::ADMIN_PROHIBITED)),
    ("unreachable", "host_prohibited", Of::Four, Some((3, 10)), six(ty::UNREACHABLE, unreachable::ADMIN_PROHIBITED)),
    ("unreachable", "net_unreachable_for_tos", Of::Four, Some((3, 11)), six(ty::UNREACHABLE, unreachable::NO_ROUTE)),
    ("unreachable", "host_unreachable_for_tos", Of::Four, Some((3, 12)), six(ty::UNREACHABLE, unreachable::NO_ROUTE)),
    ("unreachable", "packet_filtered", Of::Four, Some((3, 13)), six(ty::UNREACHABLE, unreachable::ADMIN_PROHIBITED)),
    ("unreachable", "precedence_violation", Of::Four, Some((3, 14)), None),
    ("unreachable", "precedence_cutoff", Of::Four, Some((3, 15)), six(ty::UNREACHABLE, unreachable::ADMIN_PROHIBITED)),
    ("unreachable", "no_route", Of::Six, Some((3, 1)), six(ty::UNREACHABLE, unreachable::NO_ROUTE)),
    ("unreachable", "admin_prohibited", Of::Six, Some((3, 10)), six(ty::UNREACHABLE, unreachable::ADMIN_PROHIBITED)),
    ("unreachable", "not_neighbour", Of::Six, Some((3, 1)), six(ty::UNREACHABLE, unreachable::BEYOND_SCOPE)),
    ("unreachable", "address_unreachable", Of::Six, Some((3, 1)), six(ty::UNREACHABLE, unreachable::ADDRESS)),
    ("packet_too_big", "", Of::Six, Some((3, 4)), six(ty::TOO_BIG, 0)),
    ("source_quench", "", Of::Four, Some((4, 0)), None),
    ("redirect", "", Of::Four, Some((5, 0)), None),
    ("time_exceeded", "ttl_exceeded", Of::Both, Some((11, 0)), six(ty::TIME_EXCEEDED, time_exceeded::HOP_LIMIT)),
    ("time_exceeded", "reassembly", Of::Both, Some((11, 1)), six(ty::TIME_EXCEEDED, time_exceeded::REASSEMBLY)),
    ("time_exceeded", "exceeded_hop_limit", Of::Six, Some((11, 0)), six(ty::TIME_EXCEEDED, time_exceeded::HOP_LIMIT)),
    ("time_exceeded", "exceeded_frag_time", Of::Six, Some((11, 1)), six(ty::TIME_EXCEEDED, time_exceeded::REASSEMBLY)),
    ("parameter_problem", "header_field", Of::Both, Some((12, 0)), six(ty::PARAMETER_PROBLEM, parameter::FIELD)),
    (
        "parameter_problem",
        "unknown_next_header",
        Of::Six,
        Some((3, 2)),
        six(ty::PARAMETER_PROBLEM, parameter::NEXT_HEADER),
    ),
    ("parameter_problem", "unknown_option", Of::Six, None, six(ty::PARAMETER_PROBLEM, parameter::OPTION)),
    ("echo_request", "", Of::Both, Some((8, 0)), six(ty::ECHO_REQUEST, 0)),
    ("echo_reply", "", Of::Both, Some((0, 0)), six(ty::ECHO_REPLY, 0)),
];

/// A message as stated in a script.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Words {
    pub ty: String,
    pub code: Option<String>,
    pub mtu: Option<u32>,
}

/// Header fields of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    pub ty: u8,
    pub code: u8,
    pub mtu: u32,
}

impl Words {
    /// Returns the header fields for IPv6 or IPv4.
    ///
    /// # Errors
    /// Returns a message if the type or code is unknown, or does not exist in this family.
    pub fn message(&self, is_six: bool) -> Result<Message, String> {
        let number = |word: &str, front: &str| word.strip_prefix(front).and_then(|number| number.parse::<u8>().ok());
        let code = self.code.as_deref();
        // packetdrill also accepts numeric names: type_3, code_1.
        if let Some(ty) = number(&self.ty, "type_") {
            let code = code.map_or(Some(0), |code| number(code, "code_"));
            let code = code.ok_or_else(|| format!("'{}': unknown code of ICMP type '{}'", self.shown(), self.ty))?;
            return Ok(Message { ty, code, mtu: self.mtu.unwrap_or(0) });
        }
        let of_type = || ENTRIES.iter().filter(|(ty, ..)| *ty == self.ty);
        let first = of_type().next().ok_or_else(|| format!("unknown ICMP type '{}'", self.ty))?;
        let numbered = code.and_then(|code| number(code, "code_"));
        let found = match code {
            None => Some(first),
            Some(_) if numbered.is_some() => Some(first),
            Some(code) => of_type().find(|(_, name, ..)| *name == code),
        };
        let (.., of, four, six) = found.ok_or_else(|| format!("unknown ICMP code '{}'", self.shown()))?;
        let wire = if is_six { six } else { four };
        let version = if is_six { "IPv6" } else { "IPv4" };
        let (ty, code) = wire.ok_or_else(|| format!("{version} has no ICMP message '{}'", self.shown()))?;
        let mtu = match (of, is_six, self.mtu.unwrap_or(0)) {
            (_, _, 0) => 0,
            (Of::Four, true, mtu) => mtu.saturating_add(HEADERS_DIFFER_BY),
            (Of::Six, false, mtu) => mtu.saturating_sub(HEADERS_DIFFER_BY),
            (_, _, mtu) => mtu,
        };
        Ok(Message { ty, code: numbered.unwrap_or(code), mtu })
    }

    /// Returns the type and code as stated in the script.
    pub fn shown(&self) -> String {
        self.code.as_ref().map_or(self.ty.clone(), |code| format!("{} {code}", self.ty))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str, mtu: Option<u32>) -> Words {
        let (ty, code) = text.split_once(' ').map_or((text, None), |(ty, code)| (ty, Some(code.to_owned())));
        Words { ty: ty.to_owned(), code, mtu }
    }

    #[test]
    fn messages_are_mapped_to_both_families() {
        let cases = [
            ("unreachable", Ok((3, 0)), Ok((1, 0))),
            ("unreachable port_unreachable", Ok((3, 3)), Ok((1, 4))),
            ("unreachable protocol_unreachable", Ok((3, 2)), Ok((4, 1))),
            ("parameter_problem unknown_next_header", Ok((3, 2)), Ok((4, 1))),
            ("parameter_problem", Ok((12, 0)), Ok((4, 0))),
            ("unreachable code_7", Ok((3, 7)), Ok((1, 7))),
            ("type_200 code_2", Ok((200, 2)), Ok((200, 2))),
            ("source_quench", Ok((4, 0)), Err("IPv6 has no ICMP message 'source_quench'")),
            (
                "parameter_problem unknown_option",
                Err("IPv4 has no ICMP message 'parameter_problem unknown_option'"),
                Ok((4, 2)),
            ),
            (
                "unreachable moon",
                Err("unknown ICMP code 'unreachable moon'"),
                Err("unknown ICMP code 'unreachable moon'"),
            ),
        ];
        for (text, four, six) in cases {
            let wire = |is_six| words(text, None).message(is_six).map(|message| (message.ty, message.code));
            assert_eq!((wire(false), wire(true)), (four.map_err(str::to_owned), six.map_err(str::to_owned)), "{text}");
        }
    }

    #[test]
    fn an_mtu_counts_the_header_of_its_own_family() {
        let mtu = |text, is_six| words(text, Some(1300)).message(is_six).unwrap().mtu;
        assert_eq!((mtu("unreachable frag_needed", false), mtu("unreachable frag_needed", true)), (1300, 1320));
        assert_eq!((mtu("packet_too_big", false), mtu("packet_too_big", true)), (1280, 1300));
    }
}
