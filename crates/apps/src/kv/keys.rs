//! Commands on keys of any type.

use super::Refusal;
use super::command::Call;
use super::strings::after;
use crate::resp::integer;
use linerate::stack::Instant;

type Done = Result<(), Refusal>;

pub(super) fn del(call: &mut Call<'_>) -> Done {
    let gone = call.args.from(1).iter().filter(|name| call.store.remove(name, call.now)).count();
    call.out.count(gone);
    Ok(())
}

pub(super) fn exists(call: &mut Call<'_>) -> Done {
    let there = call.args.from(1).iter().filter(|name| call.store.get(name, call.now).is_some()).count();
    call.out.count(there);
    Ok(())
}

pub(super) fn kind(call: &mut Call<'_>) -> Done {
    let name = call.store.get(call.args.get(1), call.now).map_or("none", |value| value.name());
    call.out.line(name);
    Ok(())
}

pub(super) fn expire(call: &mut Call<'_>) -> Done {
    expire_in(call, 1_000, "expire")
}

pub(super) fn pexpire(call: &mut Call<'_>) -> Done {
    expire_in(call, 1, "pexpire")
}

fn expire_in(call: &mut Call<'_>, unit_ms: u64, command: &'static str) -> Done {
    let name = call.args.get(1);
    let time = integer(call.args.get(2)).ok_or(Refusal::NotInteger)?;
    let done = match u64::try_from(time) {
        // An expiry time in the past deletes the key.
        Err(_) | Ok(0) => call.store.remove(name, call.now),
        Ok(time) => {
            let until = after(call.now, time, unit_ms).ok_or(Refusal::Expire(command))?;
            let is_first = call.store.until(name, call.now) == Some(Instant::NEVER);
            if is_first && !call.store.has_room(name.len(), 1) {
                return Err(Refusal::Full);
            }
            call.store.set_until(name, until, call.now)
        }
    };
    call.out.integer(done.into());
    Ok(())
}

pub(super) fn persist(call: &mut Call<'_>) -> Done {
    let name = call.args.get(1);
    let goes = call.store.until(name, call.now).is_some_and(|until| until != Instant::NEVER);
    call.out.integer((goes && call.store.set_until(name, Instant::NEVER, call.now)).into());
    Ok(())
}

pub(super) fn ttl(call: &mut Call<'_>) -> Done {
    // Milliseconds are rounded to the nearest number of seconds.
    time_left(call, |ms| ms.saturating_add(500) / 1_000)
}

pub(super) fn pttl(call: &mut Call<'_>) -> Done {
    time_left(call, |ms| ms)
}

fn time_left(call: &mut Call<'_>, unit: fn(i64) -> i64) -> Done {
    let left = match call.store.until(call.args.get(1), call.now) {
        None => -2,
        Some(Instant::NEVER) => -1,
        Some(until) => unit(i64::try_from(until.since(call.now).as_millis()).unwrap_or(i64::MAX)),
    };
    call.out.integer(left);
    Ok(())
}

pub(super) fn dbsize(call: &mut Call<'_>) -> Done {
    call.out.count(call.store.len());
    Ok(())
}

pub(super) fn flush(call: &mut Call<'_>) -> Done {
    call.store.clear();
    call.out.ok();
    Ok(())
}
