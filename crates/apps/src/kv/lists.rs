//! Commands on lists.

use super::Refusal;
use super::command::Call;
use super::value::{End, List};
use crate::resp::integer;

type Done = Result<(), Refusal>;

pub(super) fn lpush(call: &mut Call<'_>) -> Done {
    push(call, End::Left)
}

pub(super) fn rpush(call: &mut Call<'_>) -> Done {
    push(call, End::Right)
}

fn push(call: &mut Call<'_>, end: End) -> Done {
    let items = call.args.from(2);
    let len = call.store.edit(call.args.get(1), call.now, |list: &mut List| {
        items.iter().for_each(|item| list.push(end, item));
        Ok(list.len())
    })?;
    call.out.count(len);
    Ok(())
}

pub(super) fn lpop(call: &mut Call<'_>) -> Done {
    pop(call, End::Left)
}

pub(super) fn rpop(call: &mut Call<'_>) -> Done {
    pop(call, End::Right)
}

fn pop(call: &mut Call<'_>, end: End) -> Done {
    let (name, count) = (call.args.get(1), how_many(call)?);
    let out = &mut *call.out;
    let found = call.store.change(name, call.now, |list: &mut List| {
        match count {
            None => out.bulk(&list.pop(end).unwrap_or_default()),
            Some(count) => {
                let count = count.min(list.len());
                out.array(count);
                (0..count).for_each(|_| out.bulk(&list.pop(end).unwrap_or_default()));
            }
        }
        Ok(())
    })?;
    if found.is_none() {
        if count.is_some() { call.out.nil_array() } else { call.out.nil() }
    }
    Ok(())
}

/// Returns the optional count that follows the key in the arguments, or `None` if there is no
/// count.
pub(super) fn how_many(call: &Call<'_>) -> Result<Option<usize>, Refusal> {
    match call.args.len() {
        2 => Ok(None),
        3 => integer(call.args.get(2)).and_then(|n| usize::try_from(n).ok()).map(Some).ok_or(Refusal::NotPositive),
        _ => Err(Refusal::Syntax),
    }
}

pub(super) fn llen(call: &mut Call<'_>) -> Done {
    let len = call.store.find::<List>(call.args.get(1), call.now)?.map_or(0, List::len);
    call.out.count(len);
    Ok(())
}

pub(super) fn lindex(call: &mut Call<'_>) -> Done {
    let at = integer(call.args.get(2)).ok_or(Refusal::NotInteger)?;
    let Some(list) = call.store.find::<List>(call.args.get(1), call.now)? else {
        call.out.nil();
        return Ok(());
    };
    let at = if at < 0 { at.saturating_add(list.len() as i64) } else { at };
    let found = usize::try_from(at).ok().and_then(|at| list.range(at, at).next());
    match found {
        Some(item) => call.out.bulk(item),
        None => call.out.nil(),
    }
    Ok(())
}

pub(super) fn lrange(call: &mut Call<'_>) -> Done {
    let from = integer(call.args.get(2)).ok_or(Refusal::NotInteger)?;
    let to = integer(call.args.get(3)).ok_or(Refusal::NotInteger)?;
    let Some(list) = call.store.find::<List>(call.args.get(1), call.now)? else {
        call.out.array(0);
        return Ok(());
    };
    match places(from, to, list.len()) {
        Some((from, to)) => {
            call.out.array(to - from + 1);
            list.range(from, to).for_each(|item| call.out.bulk(item));
        }
        None => call.out.array(0),
    }
    Ok(())
}

/// Converts an inclusive range of indexes to positions in a list of `len` elements. Negative
/// indexes count from the end. Returns `None` if the range is empty.
pub(super) fn places(from: i64, to: i64, len: usize) -> Option<(usize, usize)> {
    let len = i64::try_from(len).ok()?;
    let place = |at: i64| if at < 0 { at.saturating_add(len) } else { at };
    let (from, to) = (place(from).max(0), place(to).min(len - 1));
    (from <= to).then_some((from as usize, to as usize))
}
