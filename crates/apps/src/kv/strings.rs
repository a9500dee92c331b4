//! Commands on strings.

use super::Refusal;
use super::command::Call;
use super::value::Value;
use crate::resp::integer;
use crate::resp::replies::decimal;
use linerate::stack::Instant;
use std::time::Duration;

/// Maximum length of a string in bytes, equal to the maximum length of an argument.
const TEXT_MAX: usize = 1 << 20;

type Done = Result<(), Refusal>;

pub(super) fn get(call: &mut Call<'_>) -> Done {
    match call.store.find::<Vec<u8>>(call.args.get(1), call.now)? {
        Some(text) => call.out.bulk(text),
        None => call.out.nil(),
    }
    Ok(())
}

pub(super) fn getdel(call: &mut Call<'_>) -> Done {
    get(call)?;
    call.store.remove(call.args.get(1), call.now);
    Ok(())
}

pub(super) fn getset(call: &mut Call<'_>) -> Done {
    get(call)?;
    call.store.set_text(call.args.get(1), call.args.get(2), Instant::NEVER);
    Ok(())
}

pub(super) fn setnx(call: &mut Call<'_>) -> Done {
    let is_new = call.store.get(call.args.get(1), call.now).is_none();
    if is_new {
        call.store.set_text(call.args.get(1), call.args.get(2), Instant::NEVER);
    }
    call.out.integer(is_new.into());
    Ok(())
}

pub(super) fn setex(call: &mut Call<'_>) -> Done {
    set_for(call, 1_000, "setex")
}

pub(super) fn psetex(call: &mut Call<'_>) -> Done {
    set_for(call, 1, "psetex")
}

fn set_for(call: &mut Call<'_>, unit_ms: u64, command: &'static str) -> Done {
    let until = until(call.now, call.args.get(2), unit_ms, command)?;
    call.store.set_text(call.args.get(1), call.args.get(3), until);
    call.out.ok();
    Ok(())
}

/// Parses a time to live in units of `unit_ms` milliseconds. Returns the time at which it ends.
fn until(now: Instant, text: &[u8], unit_ms: u64, command: &'static str) -> Result<Instant, Refusal> {
    let time = integer(text).ok_or(Refusal::NotInteger)?;
    let time = u64::try_from(time).ok().filter(|time| *time > 0).ok_or(Refusal::Expire(command))?;
    after(now, time, unit_ms).ok_or(Refusal::Expire(command))
}

pub(super) fn strlen(call: &mut Call<'_>) -> Done {
    let len = call.store.find::<Vec<u8>>(call.args.get(1), call.now)?.map_or(0, Vec::len);
    call.out.count(len);
    Ok(())
}

pub(super) fn mget(call: &mut Call<'_>) -> Done {
    call.out.array(call.args.len() - 1);
    for name in call.args.from(1).iter() {
        // Keys with a value of another type are treated as missing.
        match call.store.get(name, call.now) {
            Some(Value::Text(text)) => call.out.bulk(text),
            _ => call.out.nil(),
        }
    }
    Ok(())
}

pub(super) fn mset(call: &mut Call<'_>) -> Done {
    if call.args.len().is_multiple_of(2) {
        return Err(Refusal::Arity("MSET"));
    }
    for (name, text) in call.args.from(1).pairs() {
        call.store.set_text(name, text, Instant::NEVER);
    }
    call.out.ok();
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum If {
    Any,
    New,
    There,
}

pub(super) fn set(call: &mut Call<'_>) -> Done {
    let (mut condition, mut time, mut keeps_time, mut gets) = (If::Any, None, false, false);
    let mut words = call.args.from(3).iter();
    while let Some(word) = words.next() {
        match word.to_ascii_uppercase().as_slice() {
            b"NX" if condition != If::There => condition = If::New,
            b"XX" if condition != If::New => condition = If::There,
            b"GET" => gets = true,
            b"KEEPTTL" if time.is_none() => keeps_time = true,
            unit @ (b"EX" | b"PX") if time.is_none() && !keeps_time => {
                let unit_ms = if unit == b"EX" { 1_000 } else { 1 };
                time = Some(until(call.now, words.next().ok_or(Refusal::Syntax)?, unit_ms, "set")?);
            }
            _ => return Err(Refusal::Syntax),
        }
    }
    let name = call.args.get(1);
    let old_until = call.store.until(name, call.now);
    if gets {
        get(call)?;
    }
    if condition == If::Any || old_until.is_some() == (condition == If::There) {
        let kept = old_until.filter(|_| keeps_time);
        call.store.set_text(name, call.args.get(2), time.or(kept).unwrap_or(Instant::NEVER));
        if !gets {
            call.out.ok();
        }
    } else if !gets {
        call.out.nil();
    }
    Ok(())
}

/// Returns the time `time` units of `unit_ms` milliseconds after `now`; `None` on overflow.
pub(super) fn after(now: Instant, time: u64, unit_ms: u64) -> Option<Instant> {
    let until = now.after(Duration::from_millis(time.checked_mul(unit_ms)?));
    (until != Instant::NEVER).then_some(until)
}

pub(super) fn append(call: &mut Call<'_>) -> Done {
    let (name, more) = (call.args.get(1), call.args.get(2));
    let (len, held) = call.store.find(name, call.now)?.map_or((0, 0), |text: &Vec<u8>| (text.len(), text.capacity()));
    let end = len + more.len();
    if end > TEXT_MAX {
        return Err(Refusal::TooLong);
    }
    // A string whose capacity is used up doubles its capacity, which may need more memory than the
    // check for the argument has covered.
    if end > held && !call.store.may_grow(end.max(2 * held) - held) {
        return Err(Refusal::Full);
    }
    let len = call.store.edit(name, call.now, |text: &mut Vec<u8>| {
        text.extend_from_slice(more);
        Ok(text.len())
    })?;
    call.out.count(len);
    Ok(())
}

pub(super) fn incr(call: &mut Call<'_>) -> Done {
    add(call, 1)
}

pub(super) fn decr(call: &mut Call<'_>) -> Done {
    add(call, -1)
}

pub(super) fn incrby(call: &mut Call<'_>) -> Done {
    let by = integer(call.args.get(2)).ok_or(Refusal::NotInteger)?;
    add(call, by)
}

pub(super) fn decrby(call: &mut Call<'_>) -> Done {
    let by = integer(call.args.get(2)).ok_or(Refusal::NotInteger)?;
    add(call, by.checked_neg().ok_or(Refusal::Overflow)?)
}

fn add(call: &mut Call<'_>, by: i64) -> Done {
    let name = call.args.get(1);
    // If the addition fails, the key is not created.
    let old = match call.store.find::<Vec<u8>>(name, call.now)? {
        Some(text) => integer(text).ok_or(Refusal::NotInteger)?,
        None => 0,
    };
    let sum = old.checked_add(by).ok_or(Refusal::Overflow)?;
    call.store.edit(name, call.now, |text: &mut Vec<u8>| {
        text.clear();
        text.extend_from_slice(decimal(sum, &mut [0; 20]));
        Ok(())
    })?;
    call.out.integer(sum);
    Ok(())
}
