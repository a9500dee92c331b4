//! Parsing shared by the objects of `ip` (`addr`, `route` and so on): options, verbs, interfaces
//! and neighbors.

use crate::host::context::Ctl;
use crate::link::Style;
use crate::parse;
use grammar::{CommandError, Form, Words, parse as parse_form};
use inet::iface::{Iface, IfaceId};
use lock::Locks;
use wire::Mac;

/// Address family selected by `-4`, by `-6`, or by neither option.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Any,
    Four,
    Six,
}

/// Options of `ip`, which precede the object.
pub(crate) struct Options {
    pub(crate) json: bool,
    pub(crate) family: Family,
    pub(crate) style: Style,
}

/// Options of `ip`. `-p` and `-d` are accepted and have no effect.
const OPTIONS: &[Form<()>] = &[Form {
    grammar: "[-j,-json] [-4] [-6] [-s,-stats,-statistics] [-br,-brief] [-o,-oneline] [-p,-pretty] [-d,-details]",
    about: "",
    run: (),
}];

impl Options {
    /// Consumes the options.
    ///
    /// # Errors
    /// Returns an error for an unknown option.
    pub(crate) fn take(words: &mut Words<'_>) -> Result<Options, CommandError> {
        let (_, args) = parse_form(OPTIONS, words)?;
        if let Some(option) = words.peek().filter(|word| word.starts_with('-')) {
            let known = ["-j", "-4", "-6", "-s", "-br", "-o", "-p", "-d"];
            return Err(CommandError::unknown("option", option, known.into_iter()));
        }
        let family = match () {
            () if args.has("-6") => Family::Six,
            () if args.has("-4") => Family::Four,
            () => Family::Any,
        };
        let style = Style { statistics: args.has("-s"), brief: args.has("-br"), oneline: args.has("-o") };
        Ok(Options { json: args.has("-j"), family, style })
    }
}

/// Consumes the verb and returns its full name. As in iproute2, a verb may be shortened to a
/// prefix, and a missing verb means `show`.
pub(in crate::host) fn verb<'a>(words: &mut Words<'_>, verbs: &'a [&'a str]) -> Result<&'a str, CommandError> {
    let Some(word) = words.take() else { return Ok("show") };
    let found = match word {
        "list" | "lst" | "ls" | "l" | "s" | "sh" | "sho" => Some("show"),
        "delete" => Some("del"),
        word => verbs.iter().find(|verb| !word.is_empty() && verb.starts_with(word)).copied(),
    };
    let verb = found.and_then(|found| verbs.iter().find(|verb| **verb == found).copied());
    verb.ok_or_else(|| CommandError::unknown("verb", word, verbs.iter().copied().chain(["list"])))
}

/// Parses an optional `[dev] IF`, which limits a listing to one iface.
pub(in crate::host) fn only_dev<'a, L: Locks>(
    ctl: &'a Ctl<'_, L>,
    words: &mut Words<'_>,
) -> Result<Option<&'a Iface<L>>, CommandError> {
    words.skip("dev");
    let only = words.take().map(|name| ctl.host.iface(name)).transpose()?;
    words.end()?;
    Ok(only)
}

/// Parses the words after a neighbor's address: `lladdr MAC`, and `dev IF`, which is required if
/// the address had no zone.
pub(in crate::host) fn neighbor_entry<L: Locks>(
    ctl: &Ctl<'_, L>,
    zone: Option<IfaceId>,
    mut words: Words<'_>,
) -> Result<(Option<Mac>, IfaceId), CommandError> {
    let (mut lladdr, mut dev) = (None, zone);
    while let Some(word) = words.take() {
        match word {
            "lladdr" => lladdr = Some(parse::mac(words.next("a MAC address")?)?),
            "dev" => dev = Some(ctl.host.iface(words.next("an iface")?)?.id),
            "nud" => match words.next("permanent")? {
                "permanent" => {}
                other => return Err(CommandError::bad("nud", other, "permanent, the only state that can be set")),
            },
            other => return Err(CommandError::unknown("word", other, ["lladdr", "dev", "nud"].into_iter())),
        }
    }
    Ok((lladdr, dev.ok_or_else(|| CommandError::missing("dev IF"))?))
}
