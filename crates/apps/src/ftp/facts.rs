//! Facts (attributes) of a file in the replies to MLST and MLSD (RFC 3659 7.5): type, size, modify,
//! perm.

use crate::date;
use crate::files::{Meta, Uploads};

/// Fact names, in output order.
const NAMES: [&str; 4] = ["type", "size", "modify", "perm"];

/// Facts that are listed for a client: all of them, or those that the client selected by OPTS MLST.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Facts([bool; NAMES.len()]);

impl Default for Facts {
    fn default() -> Facts {
        Facts([true; NAMES.len()])
    }
}

impl Facts {
    /// Parses the argument of OPTS MLST, such as `type;size;`. Unknown names are ignored (RFC 3659
    /// 7.9).
    pub(super) fn chosen(text: &[u8]) -> Facts {
        let is_named =
            |name: &str| text.split(|byte| *byte == b';').any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        Facts(NAMES.map(is_named))
    }

    /// Formats the names of the selected facts for the reply to OPTS MLST, such as `type;size;`.
    pub(super) fn names(&self) -> String {
        NAMES.iter().zip(self.0).filter(|(_, is_wanted)| *is_wanted).map(|(name, _)| format!("{name};")).collect()
    }

    /// Formats the names of all facts for the reply to FEAT, with an asterisk after each selected
    /// one: `type*;size;` (RFC 3659 7.8).
    pub(super) fn feature(&self) -> String {
        let name = |(name, is_wanted): (&&str, bool)| format!("{name}{};", if is_wanted { "*" } else { "" });
        NAMES.iter().zip(self.0).map(name).collect()
    }

    /// Formats the selected facts of a file or directory. Facts with unknown values are omitted.
    pub(super) fn of(&self, meta: &Meta, uploads: Uploads) -> String {
        let values = [
            Some(if meta.is_dir { "dir".to_owned() } else { "file".to_owned() }),
            meta.len.map(|len| len.to_string()),
            meta.modified_s().map(date::ftp),
            Some(perm(meta.is_dir, uploads).to_owned()),
        ];
        let known = NAMES.iter().zip(values).zip(self.0).filter(|(_, is_wanted)| *is_wanted);
        known.filter_map(|((name, value), _)| Some(format!("{name}={};", value?))).collect()
    }
}

/// Returns the value of the fact `perm`: letters for the permitted operations (RFC 3659 7.5.5).
fn perm(is_dir: bool, uploads: Uploads) -> &'static str {
    match (is_dir, uploads) {
        (true, Uploads::Refused) => "el",
        (true, Uploads::New) => "celm",
        (true, Uploads::Replace) => "cdeflmp",
        (false, Uploads::Refused | Uploads::New) => "r",
        (false, Uploads::Replace) => "adfrw",
    }
}
