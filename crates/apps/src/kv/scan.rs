//! KEYS and the SCAN commands: return names that match a pattern, either all at once or in steps
//! with a cursor.
//!
//! A cursor is a position in a table, which is scanned from its end to its start
//! ([`crate::table::Table::scan`]). Names that exist from the first call to the last are always
//! returned, even if other names are added or removed in between.

use super::Refusal;
use super::command::Call;
use super::value::{Members, Sorted, Value};
use crate::glob::{Exhausted, Fuel, Glob};

type Done = Result<(), Refusal>;

/// Maximum number of pattern matching steps per request. This many steps take some tenths of a
/// second.
const FUEL: Fuel = Fuel(1 << 26);
/// Default value of SCAN's option COUNT: number of names that one call visits (redis.io, SCAN).
const COUNT: usize = 10;

pub(super) fn keys(call: &mut Call<'_>) -> Done {
    let (pattern, mut fuel) = (Glob::of_keys(call.args.get(1)), FUEL);
    let (mut names, mut is_undecided) = (Vec::new(), false);
    call.store.scan(0, usize::MAX, call.now, |name, _| {
        match pattern.matches(name, &mut fuel) {
            Ok(is_one) => names.extend(is_one.then_some(name)),
            Err(Exhausted) => is_undecided = true,
        }
        !is_undecided
    });
    if is_undecided {
        return Err(Refusal::Pattern);
    }
    call.out.array(names.len());
    names.into_iter().for_each(|name| call.out.bulk(name));
    Ok(())
}

/// Cursor and options of a SCAN command.
struct ScanOptions<'a> {
    cursor: u64,
    pattern: Option<Glob<'a>>,
    count: usize,
    /// Type of the values whose keys are returned (option TYPE, SCAN only).
    kind: Option<&'a [u8]>,
    fuel: Fuel,
    is_undecided: bool,
}

impl<'a> ScanOptions<'a> {
    /// Parses the arguments from index `from` on; the first of them is the cursor. `takes_kind`
    /// permits the option TYPE.
    fn parse(call: &Call<'a>, from: usize, takes_kind: bool) -> Result<ScanOptions<'a>, Refusal> {
        let cursor = std::str::from_utf8(call.args.get(from)).ok().and_then(|text| text.parse().ok());
        let cursor = cursor.ok_or(Refusal::Cursor)?;
        let mut requested =
            ScanOptions { cursor, pattern: None, count: COUNT, kind: None, fuel: FUEL, is_undecided: false };
        let rest = call.args.from(from + 1);
        if !rest.len().is_multiple_of(2) {
            return Err(Refusal::Syntax);
        }
        for (word, value) in rest.pairs() {
            match word.to_ascii_uppercase().as_slice() {
                b"MATCH" => requested.pattern = Some(Glob::of_keys(value)),
                b"COUNT" => {
                    let count = crate::resp::integer(value).ok_or(Refusal::NotInteger)?;
                    let count = usize::try_from(count).ok().filter(|count| *count > 0);
                    requested.count = count.ok_or(Refusal::Syntax)?;
                }
                b"TYPE" if takes_kind => requested.kind = Some(value),
                _ => return Err(Refusal::Syntax),
            }
        }
        Ok(requested)
    }

    /// Returns whether a name matches the pattern. If the permitted steps are used up, returns
    /// `false` and marks the scan as undecided.
    fn wants(&mut self, name: &[u8]) -> bool {
        match self.pattern.map_or(Ok(true), |pattern| pattern.matches(name, &mut self.fuel)) {
            Ok(is_one) => is_one,
            Err(Exhausted) => {
                self.is_undecided = true;
                false
            }
        }
    }
}

pub(super) fn scan(call: &mut Call<'_>) -> Done {
    let mut requested = ScanOptions::parse(call, 1, true)?;
    let mut names = Vec::new();
    let cursor = call.store.scan(requested.cursor, requested.count, call.now, |name, value| {
        let is_kind = requested.kind.is_none_or(|kind| kind.eq_ignore_ascii_case(value.name().as_bytes()));
        if is_kind && requested.wants(name) {
            names.push(name);
        }
        !requested.is_undecided
    });
    if requested.is_undecided {
        return Err(Refusal::Pattern);
    }
    begin(call.out, cursor);
    call.out.array(names.len());
    names.into_iter().for_each(|name| call.out.bulk(name));
    Ok(())
}

fn begin(out: &mut crate::resp::Replies, cursor: u64) {
    out.array(2);
    out.bulk(cursor.to_string().as_bytes());
}

pub(super) fn sscan(call: &mut Call<'_>) -> Done {
    members(call, |value, requested, found| match value {
        Value::Set(set) => Some(set_scan(set, requested, found)),
        _ => None,
    })
}

pub(super) fn hscan(call: &mut Call<'_>) -> Done {
    members(call, |value, requested, found| {
        let Value::Hash(hash) = value else { return None };
        let (cursor, count) = (requested.cursor, requested.count);
        Some(hash.scan(cursor, count, |name, text| {
            if requested.wants(name) {
                found.extend([Element::Bytes(name), Element::Bytes(text)]);
            }
            !requested.is_undecided
        }))
    })
}

pub(super) fn zscan(call: &mut Call<'_>) -> Done {
    members(call, |value, requested, found| match value {
        Value::Sorted(sorted) => Some(sorted_scan(sorted, requested, found)),
        _ => None,
    })
}

fn set_scan<'v>(set: &'v Members<()>, requested: &mut ScanOptions<'_>, found: &mut Vec<Element<'v>>) -> u64 {
    let (cursor, count) = (requested.cursor, requested.count);
    set.scan(cursor, count, |name, ()| {
        found.extend(requested.wants(name).then_some(Element::Bytes(name)));
        !requested.is_undecided
    })
}

fn sorted_scan<'v>(sorted: &'v Sorted, requested: &mut ScanOptions<'_>, found: &mut Vec<Element<'v>>) -> u64 {
    let (cursor, count) = (requested.cursor, requested.count);
    sorted.scan(cursor, count, |name, score| {
        if requested.wants(name) {
            found.extend([Element::Bytes(name), Element::Number(score.get())]);
        }
        !requested.is_undecided
    })
}

/// Element of a SCAN command's reply.
enum Element<'v> {
    Bytes(&'v [u8]),
    Number(f64),
}

/// Handles a SCAN command for the members of one value. `walk` visits members and returns the next
/// cursor, or `None` if the value has a type on which the command cannot operate.
fn members(
    call: &mut Call<'_>,
    walk: impl for<'v> Fn(&'v Value, &mut ScanOptions<'_>, &mut Vec<Element<'v>>) -> Option<u64>,
) -> Done {
    let mut requested = ScanOptions::parse(call, 2, false)?;
    let mut found = Vec::new();
    let cursor = match call.store.get(call.args.get(1), call.now) {
        Some(value) => walk(value, &mut requested, &mut found).ok_or(Refusal::WrongType)?,
        None => 0,
    };
    if requested.is_undecided {
        return Err(Refusal::Pattern);
    }
    begin(call.out, cursor);
    call.out.array(found.len());
    for element in found {
        match element {
            Element::Bytes(bytes) => call.out.bulk(bytes),
            Element::Number(number) => call.out.bulk_double(number),
        }
    }
    Ok(())
}
