//! The commands: their names, how many arguments, whether they may add, and what they do.
//!
//! Names, replies and the words of errors are those of redis.io's command reference: clients compare them.

use super::store::Store;
use super::{Refusal, keys, lists, members, server, strings};
use crate::resp::{Args, Replies};
use clock::Instant;

/// A request being carried out.
#[derive(Debug)]
pub struct Call<'a> {
    /// The arguments; the first is the name.
    pub args: Args<'a>,
    /// The keys.
    pub store: &'a mut Store,
    /// Where the reply goes.
    pub out: &'a mut Replies,
    /// What time it is.
    pub now: Instant,
    /// What INFO tells.
    pub facts: &'a server::Facts,
}

/// How many arguments a command has, its name counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arity {
    /// So many.
    Exactly(usize),
    /// So many or more.
    AtLeast(usize),
}

/// What may come of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Nothing is changed.
    Reads,
    /// Something is changed, and memory does not grow.
    Writes,
    /// Memory may grow, and these keys may come: refused where it is full.
    Adds(Names),
}

/// Which arguments of a command are keys that it makes where they are not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Names {
    /// The first.
    First,
    /// The first of each two.
    Pairs,
}

/// What a command does.
pub type Run = fn(&mut Call<'_>) -> Result<(), Refusal>;

/// A command.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Its name, in capitals.
    pub name: &'static str,
    /// How many arguments.
    pub arity: Arity,
    /// What may come of it.
    pub effect: Effect,
    run: Run,
}

const fn command(name: &'static str, arity: Arity, effect: Effect, run: Run) -> Command {
    Command { name, arity, effect, run }
}

use Arity::{AtLeast, Exactly};
use Effect::{Adds, Reads, Writes};

/// A command that adds to one key.
const ADDS: Effect = Adds(Names::First);

/// All of them, by name.
pub const COMMANDS: [Command; 49] = [
    command("APPEND", Exactly(3), ADDS, strings::append),
    command("CLIENT", AtLeast(2), Reads, server::client),
    command("COMMAND", AtLeast(1), Reads, server::command),
    command("CONFIG", AtLeast(2), Reads, server::config),
    command("DBSIZE", Exactly(1), Reads, keys::dbsize),
    command("DECR", Exactly(2), ADDS, strings::decr),
    command("DECRBY", Exactly(3), ADDS, strings::decrby),
    command("DEL", AtLeast(2), Writes, keys::del),
    command("ECHO", Exactly(2), Reads, server::echo),
    command("EXISTS", AtLeast(2), Reads, keys::exists),
    command("EXPIRE", Exactly(3), Writes, keys::expire),
    command("FLUSHALL", AtLeast(1), Writes, keys::flush),
    command("FLUSHDB", AtLeast(1), Writes, keys::flush),
    command("GET", Exactly(2), Reads, strings::get),
    command("HDEL", AtLeast(3), Writes, members::hdel),
    command("HGET", Exactly(3), Reads, members::hget),
    command("HGETALL", Exactly(2), Reads, members::hgetall),
    command("HLEN", Exactly(2), Reads, members::hlen),
    command("HSET", AtLeast(4), ADDS, members::hset),
    command("INCR", Exactly(2), ADDS, strings::incr),
    command("INCRBY", Exactly(3), ADDS, strings::incrby),
    command("INFO", AtLeast(1), Reads, server::info),
    command("LLEN", Exactly(2), Reads, lists::llen),
    command("LPOP", AtLeast(2), Writes, lists::lpop),
    command("LPUSH", AtLeast(3), ADDS, lists::lpush),
    command("LRANGE", Exactly(4), Reads, lists::lrange),
    command("MGET", AtLeast(2), Reads, strings::mget),
    command("MSET", AtLeast(3), Adds(Names::Pairs), strings::mset),
    command("PERSIST", Exactly(2), Writes, keys::persist),
    command("PEXPIRE", Exactly(3), Writes, keys::pexpire),
    command("PING", AtLeast(1), Reads, server::ping),
    command("PTTL", Exactly(2), Reads, keys::pttl),
    command("QUIT", AtLeast(1), Reads, server::quit),
    command("RPOP", AtLeast(2), Writes, lists::rpop),
    command("RPUSH", AtLeast(3), ADDS, lists::rpush),
    command("SADD", AtLeast(3), ADDS, members::sadd),
    command("SCARD", Exactly(2), Reads, members::scard),
    command("SELECT", Exactly(2), Reads, server::select),
    command("SET", AtLeast(3), ADDS, strings::set),
    command("SISMEMBER", Exactly(3), Reads, members::sismember),
    command("SMEMBERS", Exactly(2), Reads, members::smembers),
    command("SPOP", AtLeast(2), Writes, members::spop),
    command("STRLEN", Exactly(2), Reads, strings::strlen),
    command("TTL", Exactly(2), Reads, keys::ttl),
    command("TYPE", Exactly(2), Reads, keys::kind),
    command("ZADD", AtLeast(4), ADDS, members::zadd),
    command("ZCARD", Exactly(2), Reads, members::zcard),
    command("ZPOPMIN", AtLeast(2), Writes, members::zpopmin),
    command("ZSCORE", Exactly(3), Reads, members::zscore),
];

/// The longest name.
const NAME_MAX: usize = 16;

/// The command of a name, in any case of letters.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    let mut capitals = [0; NAME_MAX];
    let capitals = capitals.get_mut(..name.len())?;
    capitals.copy_from_slice(name);
    capitals.make_ascii_uppercase();
    let at = COMMANDS.binary_search_by(|command| command.name.as_bytes().cmp(capitals)).ok()?;
    COMMANDS.get(at)
}

/// Carries out a request; the reply is written, unless it is refused.
///
/// # Errors
/// [`Refusal`]: what the reply says instead.
pub fn run(call: &mut Call<'_>) -> Result<(), Refusal> {
    let name = call.args.get(0);
    let command = find(name).ok_or_else(|| Refusal::unknown(name))?;
    let fits = match command.arity {
        Arity::Exactly(n) => call.args.len() == n,
        Arity::AtLeast(n) => call.args.len() >= n,
    };
    if !fits {
        return Err(Refusal::Arity(command.name));
    }
    if let Adds(names) = command.effect
        && !has_room(call, names)
    {
        return Err(Refusal::Full);
    }
    (command.run)(call)
}

fn has_room(call: &mut Call<'_>, names: Names) -> bool {
    let (args, now) = (call.args, call.now);
    let fits = match names {
        Names::First => call.store.has_room_for(std::iter::once(args.get(1)), now),
        Names::Pairs => call.store.has_room_for(args.from(1).pairs().map(|(name, _)| name), now),
    };
    fits && call.store.has_room(args.bytes(), args.len() - 1)
}
