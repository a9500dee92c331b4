//! Commands on sets, hashes and sorted sets.

use super::Refusal;
use super::command::Call;
use super::lists::{how_many, places};
use super::value::{Members, Score, Sorted};
use crate::resp::integer;
use linerate::sim::Random;

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
    call.out.set(set.map_or(0, Members::len));
    set.into_iter().flat_map(Members::iter).for_each(|(name, ())| call.out.bulk(name));
    Ok(())
}

pub(super) fn spop(call: &mut Call<'_>) -> Done {
    let (name, count, secret) = (call.args.get(1), how_many(call)?, call.store.draw());
    let (out, mut drawn) = (&mut *call.out, Random::new(secret));
    let found = call.store.change(name, call.now, |set: &mut Set| {
        match count {
            None => out.bulk(&set.draw(drawn.bits()).unwrap_or_default()),
            Some(count) => {
                let count = count.min(set.len());
                out.set(count);
                (0..count).for_each(|_| out.bulk(&set.draw(drawn.bits()).unwrap_or_default()));
            }
        }
        Ok(())
    })?;
    if found.is_none() {
        if count.is_some() { call.out.set(0) } else { call.out.nil() }
    }
    Ok(())
}

pub(super) fn srem(call: &mut Call<'_>) -> Done {
    let names = call.args.from(2);
    let gone = call
        .store
        .change(call.args.get(1), call.now, |set: &mut Set| Ok(names.iter().filter(|name| set.remove(name)).count()))?;
    call.out.count(gone.unwrap_or(0));
    Ok(())
}

pub(super) fn hset(call: &mut Call<'_>) -> Done {
    let new = set_fields(call, "HSET")?;
    call.out.count(new);
    Ok(())
}

pub(super) fn hmset(call: &mut Call<'_>) -> Done {
    set_fields(call, "HMSET")?;
    call.out.ok();
    Ok(())
}

/// Sets fields of a hash from the pairs in the arguments; returns the number of new fields.
fn set_fields(call: &mut Call<'_>, command: &'static str) -> Result<usize, Refusal> {
    if !call.args.len().is_multiple_of(2) {
        return Err(Refusal::Arity(command));
    }
    let fields = call.args.from(2);
    call.store.edit(call.args.get(1), call.now, |hash: &mut Hash| {
        Ok(fields.pairs().filter(|(name, text)| hash.insert(name, (*text).into())).count())
    })
}

pub(super) fn hexists(call: &mut Call<'_>) -> Done {
    let hash = call.store.find::<Hash>(call.args.get(1), call.now)?;
    call.out.integer(hash.is_some_and(|hash| hash.get(call.args.get(2)).is_some()).into());
    Ok(())
}

pub(super) fn hmget(call: &mut Call<'_>) -> Done {
    let hash = call.store.find::<Hash>(call.args.get(1), call.now)?;
    call.out.array(call.args.len() - 2);
    for name in call.args.from(2).iter() {
        match hash.and_then(|hash| hash.get(name)) {
            Some(text) => call.out.bulk(text),
            None => call.out.nil(),
        }
    }
    Ok(())
}

pub(super) fn hkeys(call: &mut Call<'_>) -> Done {
    let hash = call.store.find::<Hash>(call.args.get(1), call.now)?;
    call.out.array(hash.map_or(0, Members::len));
    hash.into_iter().flat_map(Members::iter).for_each(|(name, _)| call.out.bulk(name));
    Ok(())
}

pub(super) fn hvals(call: &mut Call<'_>) -> Done {
    let hash = call.store.find::<Hash>(call.args.get(1), call.now)?;
    call.out.array(hash.map_or(0, Members::len));
    hash.into_iter().flat_map(Members::iter).for_each(|(_, text)| call.out.bulk(text));
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
    call.out.map(hash.map_or(0, Members::len));
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
    // If the score of any member is not a number, no member is added.
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
    // A number that is too large for a double is invalid. Infinity can only be given by its name.
    let is_named =
        number.is_finite() || text.iter().any(u8::is_ascii_alphabetic) && !text.iter().any(u8::is_ascii_digit);
    Score::new(number).filter(|_| is_named)
}

pub(super) fn zscore(call: &mut Call<'_>) -> Done {
    let sorted = call.store.find::<Sorted>(call.args.get(1), call.now)?;
    match sorted.and_then(|sorted| sorted.score(call.args.get(2))) {
        Some(score) => call.out.double(score.get()),
        None => call.out.nil(),
    }
    Ok(())
}

pub(super) fn zcard(call: &mut Call<'_>) -> Done {
    let len = call.store.find::<Sorted>(call.args.get(1), call.now)?.map_or(0, Sorted::len);
    call.out.count(len);
    Ok(())
}

pub(super) fn zincrby(call: &mut Call<'_>) -> Done {
    let by = score(call.args.get(2)).ok_or(Refusal::NotFloat)?;
    let (name, member) = (call.args.get(1), call.args.get(3));
    let old = call.store.find::<Sorted>(name, call.now)?.and_then(|sorted| sorted.score(member));
    let sum = Score::new(old.map_or(0.0, Score::get) + by.get()).ok_or(Refusal::NotScore)?;
    call.store.edit(name, call.now, |sorted: &mut Sorted| {
        sorted.insert(member, sum);
        Ok(())
    })?;
    call.out.double(sum.get());
    Ok(())
}

pub(super) fn zrem(call: &mut Call<'_>) -> Done {
    let names = call.args.from(2);
    let gone = call.store.change(call.args.get(1), call.now, |sorted: &mut Sorted| {
        Ok(names.iter().filter(|name| sorted.remove(name)).count())
    })?;
    call.out.count(gone.unwrap_or(0));
    Ok(())
}

/// Options of ZRANGE, which follow the key and the two limits of the range.
#[derive(Default)]
struct RangeWords {
    by_score: bool,
    is_reverse: bool,
    with_scores: bool,
    limit: Option<(i64, i64)>,
}

impl RangeWords {
    fn parse(call: &Call<'_>) -> Result<RangeWords, Refusal> {
        let (mut requested, mut words) = (RangeWords::default(), call.args.from(4).iter());
        while let Some(word) = words.next() {
            match word.to_ascii_uppercase().as_slice() {
                b"BYSCORE" => requested.by_score = true,
                b"REV" => requested.is_reverse = true,
                b"WITHSCORES" => requested.with_scores = true,
                b"LIMIT" => {
                    let (skip, most) = words.next().zip(words.next()).ok_or(Refusal::Syntax)?;
                    let number = |text| integer(text).ok_or(Refusal::NotInteger);
                    requested.limit = Some((number(skip)?, number(most)?));
                }
                _ => return Err(Refusal::Syntax),
            }
        }
        if requested.limit.is_some() && !requested.by_score { Err(Refusal::Limit) } else { Ok(requested) }
    }

    /// Returns the number of members to skip and the maximum number to return. A negative count in
    /// LIMIT returns all members.
    fn limits(&self) -> (usize, usize) {
        let (skip, most) = self.limit.unwrap_or((0, -1));
        // A negative offset returns nothing (redis.io, ZRANGEBYSCORE).
        let most = if skip < 0 { 0 } else { usize::try_from(most).unwrap_or(usize::MAX) };
        (usize::try_from(skip).unwrap_or(0), most)
    }
}

/// Parses a limit of a score range, such as `5` or `(5`. Returns the score and whether it is
/// excluded from the range.
fn score_end(text: &[u8]) -> Result<(Score, bool), Refusal> {
    let (number, is_excluded) = text.strip_prefix(b"(").map_or((text, false), |number| (number, true));
    Ok((score(number).ok_or(Refusal::NotRange)?, is_excluded))
}

pub(super) fn zrange(call: &mut Call<'_>) -> Done {
    let requested = RangeWords::parse(call)?;
    let (first, last) = (call.args.get(2), call.args.get(3));
    // For a reversed score range, the client gives the higher limit first.
    let (low, high) = if requested.is_reverse && requested.by_score { (last, first) } else { (first, last) };
    let found: Vec<(&[u8], Score)> = if requested.by_score {
        let ((from, not_from), (to, not_to)) = (score_end(low)?, score_end(high)?);
        let sorted = call.store.find::<Sorted>(call.args.get(1), call.now)?;
        let within = |(_, score): &(&[u8], Score)| !(not_from && *score == from || not_to && *score == to);
        let all = sorted.into_iter().flat_map(|sorted| sorted.between(from, to)).filter(within);
        let (skip, most) = requested.limits();
        if requested.is_reverse {
            all.rev().skip(skip).take(most).collect()
        } else {
            all.skip(skip).take(most).collect()
        }
    } else {
        let number = |text| integer(text).ok_or(Refusal::NotInteger);
        let (from, to) = (number(low)?, number(high)?);
        let sorted = call.store.find::<Sorted>(call.args.get(1), call.now)?;
        let places = sorted.and_then(|sorted| places(from, to, sorted.len()));
        let (skip, most) = places.map_or((0, 0), |(from, to)| (from, to - from + 1));
        let all = sorted.into_iter().flat_map(Sorted::iter);
        if requested.is_reverse {
            all.rev().skip(skip).take(most).collect()
        } else {
            all.skip(skip).take(most).collect()
        }
    };
    if requested.with_scores {
        call.out.scored(found.into_iter().map(|(name, score)| (name, score.get())));
    } else {
        call.out.array(found.len());
        found.into_iter().for_each(|(name, _)| call.out.bulk(name));
    }
    Ok(())
}

/// Handles ZPOPMIN. Without a count, the reply is a single member and its score in one flat array,
/// even in RESP3.
pub(super) fn zpopmin(call: &mut Call<'_>) -> Done {
    let (name, count) = (call.args.get(1), how_many(call)?);
    let out = &mut *call.out;
    let found = call.store.change(name, call.now, |sorted: &mut Sorted| {
        let popped: Vec<_> = (0..count.unwrap_or(1)).map_while(|_| sorted.pop_first()).collect();
        match (count, popped.as_slice()) {
            (None, [(score, name)]) => {
                out.array(2);
                out.bulk(name);
                out.double(score.get());
            }
            _ => out.scored(popped.iter().map(|(score, name)| (&**name, score.get()))),
        }
        Ok(())
    })?;
    if found.is_none() {
        call.out.array(0);
    }
    Ok(())
}
