//! Validation of the options of a header, with the position of the first error.

use super::HEADER_LEN;
use super::options::{Opt, Options};
use crate::Malformed;

/// An error in the options of a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Octet of the header with the error, counted from 0, as needed for the pointer of a Parameter
    /// Problem message (RFC 792).
    pub octet: u8,
}

/// Checks the options of a header. Each option must be well-formed. Record Route, Internet
/// Timestamp and source routes may each occur at most once (RFC 791 3.1, RFC 1812 5.2.4.1). A
/// router must be able to add its entry: an option must have space for a whole entry or for none,
/// and its overflow counter must be below the maximum.
///
/// # Errors
/// Position of the first error.
pub fn check_options(header: &[u8]) -> Result<(), Fault> {
    let mut options = Options::new(header.get(HEADER_LEN..).unwrap_or_default());
    let mut seen = [false; 3];
    loop {
        let at = header.len().saturating_sub(options.rest.len());
        let fault = |more: usize| Fault { octet: (at + more) as u8 }; // a header has 60 octets
        let Some(item) = options.next() else { return Ok(()) };
        let once = match &item {
            Ok(Opt::RecordRoute(_)) => 0,
            Ok(Opt::Timestamp(_)) => 1,
            Ok(Opt::Lsrr(_) | Opt::Ssrr(_)) => 2,
            Ok(_) => continue,
            Err(Malformed::BadOptionPointer { .. }) => return Err(fault(2)),
            // The error is in the length octet, or in the type octet if there is no length octet.
            Err(_) => return Err(fault(usize::from(at + 1 < header.len()))),
        };
        if seen.get_mut(once).is_some_and(|seen| core::mem::replace(seen, true)) {
            return Err(fault(0));
        }
        match item {
            Ok(Opt::Timestamp(stamps)) if stamps.is_short() => return Err(fault(2)),
            Ok(Opt::Timestamp(stamps)) if stamps.is_overflowing() => return Err(fault(3)),
            _ => {}
        }
    }
}
