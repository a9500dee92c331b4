//! Commands about sets, hashes and sorted sets.

use super::Refusal;
use super::command::Call;
use super::lists::how_many;
use super::value::{Members, Score, Sorted};

type Done = Result<(), Refusal>;
type Set = Members<()>;
type Hash = Members<Box<[u8]>>;

pub(super) fn sadd(call: &mut Call<'_>) -> Done {
    let names = call.args.from(2);
    let new = call.store.edit(call.args.get(1), call.now, |set: &mut Set| {
        Ok(names.iter().filter(|name| set.insert(name, ())).count())
    })?;
    call.out.count(new);
    Ok(())
}

pub(super) fn scard(call: &mut Call<'_>) -> Done {
    let len = call.store.find::<Set>(call.args.get(1), call.now)?.map_or(0, Members::len);
    call.out.count(len);
    Ok(())
}

pub(super) fn sismember(call: &mut Call<'_>) -> Done {
    let set = call.store.find::<Set>(call.args.get(1), call.now)?;
    call.out.integer(set.is_some_and(|set| set.get(call.args.get(2)).is_some()).into());
    Ok(())
}

pub(super) fn smembers(call: &mut Call<'_>) -> Done {
    let set = call.store.find::<Set>(call.args.get(1), call.now)?;
    call.out.array(set.map_or(0, Members::len));
    set.into_iter().flat_map(Members::iter).for_each(|(name, ())| call.out.bulk(name));
    Ok(())
}

/// Numbers that follow from the first (xorshift64*), so that members that came one after the other do not leave so.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 |= 1;
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
}

pub(super) fn spop(call: &mut Call<'_>) -> Done {
    let (name, count, secret) = (call.args.get(1), how_many(call)?, call.store.draw());
    let (out, mut drawn) = (&mut *call.out, Draw(secret));
    let found = call.store.change(name, call.now, |set: &mut Set| {
        match count {
            None => out.bulk(&set.draw(drawn.next()).unwrap_or_default()),
            Some(count) => {
                let count = count.min(set.len());
                out.array(count);
                (0..count).for_each(|_| out.bulk(&set.draw(drawn.next()).unwrap_or_default()));
            }
        }
        Ok(())
    })?;
    if found.is_none() {
        if count.is_some() { call.out.array(0) } else { call.out.nil() }
    }
    Ok(())
}

pub(super) fn hset(call: &mut Call<'_>) -> Done {
    if !call.args.len().is_multiple_of(2) {
        return Err(Refusal::Arity("HSET"));
    }
    let fields = call.args.from(2);
    let new = call.store.edit(call.args.get(1), call.now, |hash: &mut Hash| {
        Ok(fields.pairs().filter(|(name, text)| hash.insert(name, (*text).into())).count())
    })?;
    call.out.count(new);
    Ok(())
}

pub(super) fn hget(call: &mut Call<'_>) -> Done {
    let hash = call.store.find::<Hash>(call.args.get(1), call.now)?;
    match hash.and_then(|hash| hash.get(call.args.get(2))) {
        Some(text) => call.out.bulk(text),
        None => call.out.nil(),
    }
    Ok(())
}

pub(super) fn hgetall(call: &mut Call<'_>) -> Done {
    let hash = call.store.find::<Hash>(call.args.get(1), call.now)?;
    call.out.array(hash.map_or(0, |hash| 2 * hash.len()));
    for (name, text) in hash.into_iter().flat_map(Members::iter) {
        call.out.bulk(name);
        call.out.bulk(text);
    }
    Ok(())
}

pub(super) fn hdel(call: &mut Call<'_>) -> Done {
    let names = call.args.from(2);
    let gone = call.store.change(call.args.get(1), call.now, |hash: &mut Hash| {
        Ok(names.iter().filter(|name| hash.remove(name)).count())
    })?;
    call.out.count(gone.unwrap_or(0));
    Ok(())
}

pub(super) fn hlen(call: &mut Call<'_>) -> Done {
    let len = call.store.find::<Hash>(call.args.get(1), call.now)?.map_or(0, Members::len);
    call.out.count(len);
    Ok(())
}

pub(super) fn zadd(call: &mut Call<'_>) -> Done {
    if !call.args.len().is_multiple_of(2) {
        return Err(Refusal::Syntax);
    }
    let members = call.args.from(2);
    // All scores are numbers, or nothing is added.
    if members.pairs().any(|(text, _)| score(text).is_none()) {
        return Err(Refusal::NotFloat);
    }
    let new = call.store.edit(call.args.get(1), call.now, |sorted: &mut Sorted| {
        let scored = members.pairs().filter_map(|(text, name)| Some((score(text)?, name)));
        Ok(scored.filter(|(score, name)| sorted.insert(name, *score)).count())
    })?;
    call.out.count(new);
    Ok(())
}

fn score(text: &[u8]) -> Option<Score> {
    let is_number = text.first().is_some_and(|byte| !byte.is_ascii_whitespace());
    let number: f64 = std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()?;
    // What is too large for a number is none; infinity is asked for by its name.
    let is_named =
        number.is_finite() || text.iter().any(u8::is_ascii_alphabetic) && !text.iter().any(u8::is_ascii_digit);
    Score::new(number).filter(|_| is_named)
}

pub(super) fn zscore(call: &mut Call<'_>) -> Done {
    let sorted = call.store.find::<Sorted>(call.args.get(1), call.now)?;
    match sorted.and_then(|sorted| sorted.score(call.args.get(2))) {
        Some(score) => call.out.score(score.get()),
        None => call.out.nil(),
    }
    Ok(())
}

pub(super) fn zcard(call: &mut Call<'_>) -> Done {
    let len = call.store.find::<Sorted>(call.args.get(1), call.now)?.map_or(0, Sorted::len);
    call.out.count(len);
    Ok(())
}

pub(super) fn zpopmin(call: &mut Call<'_>) -> Done {
    let (name, count) = (call.args.get(1), how_many(call)?.unwrap_or(1));
    let out = &mut *call.out;
    let found = call.store.change(name, call.now, |sorted: &mut Sorted| {
        let count = count.min(sorted.len());
        out.array(2 * count);
        for _ in 0..count {
            let Some((score, name)) = sorted.pop_first() else { break };
            out.bulk(&name);
            out.score(score.get());
        }
        Ok(())
    })?;
    if found.is_none() {
        call.out.array(0);
    }
    Ok(())
}
