//! The command table: names, numbers of arguments, effects on memory, and handlers.
//!
//! Names, replies and error texts are those of the redis.io command reference, since clients
//! compare them.

use super::roster::Roster;
use super::store::Store;
use super::transaction::Session;
use super::{KvCounts, Refusal, connection, keys, lists, members, scan, server, strings, transaction};
use crate::resp::{Args, Replies};
use linerate::stack::Instant;

/// Context for executing a request.
#[derive(Debug)]
pub struct Call<'a> {
    /// The arguments; the first one is the command name.
    pub args: Args<'a>,
    pub store: &'a mut Store,
    /// Buffer to which the reply is written.
    pub out: &'a mut Replies,
    pub now: Instant,
    /// Values of the server that INFO reports.
    pub facts: &'a server::Facts,
    /// Transaction and watched keys of the client.
    pub session: &'a mut Session,
    /// List of all clients.
    pub roster: &'a mut Roster,
    /// Counters of refused requests.
    pub counts: &'a KvCounts,
}

/// Permitted number of arguments of a command, including its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arity {
    /// Exactly this number of arguments.
    Exactly(usize),
    /// At least this number of arguments.
    AtLeast(usize),
}

/// Effect of a command on the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Reads data, without changing any.
    Reads,
    /// Changes data, but never uses more memory.
    Writes,
    /// A command that can use more memory or create keys; refused if the store is full.
    Adds,
}

/// Arguments of a command that are keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keys {
    None,
    /// The first argument after the command name is a key.
    First,
    /// All arguments after the command name are keys.
    All,
    /// The first argument of each pair after the command name is a key.
    Pairs,
}

/// Handler of a command.
pub type Run = fn(&mut Call<'_>) -> Result<(), Refusal>;

#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Name of the command, in capitals.
    pub name: &'static str,
    pub arity: Arity,
    /// Effect on the store.
    pub effect: Effect,
    /// Arguments that are keys.
    pub keys: Keys,
    run: Run,
    /// Group to which the command belongs, as COMMAND DOCS reports it.
    pub group: &'static str,
    pub summary: &'static str,
}

const fn command(
    name: &'static str,
    arity: Arity,
    effect: Effect,
    keys: Keys,
    run: Run,
    group: &'static str,
    summary: &'static str,
) -> Command {
    Command { name, arity, effect, keys, run, group, summary }
}

use Arity::{AtLeast, Exactly};
use Effect::{Adds, Reads, Writes};
use Keys::{All, First, Pairs};

/// All commands, sorted by name so that binary search finds them.
pub const COMMANDS: [Command; 78] = [
    command("APPEND", Exactly(3), Adds, First, strings::append, "string", "Append to a string"),
    command("AUTH", AtLeast(2), Reads, Keys::None, connection::auth, "connection", "Authenticate the connection"),
    command(
        "CLIENT",
        AtLeast(2),
        Reads,
        Keys::None,
        connection::client,
        "connection",
        "Get or set information about clients",
    ),
    command("COMMAND", AtLeast(1), Reads, Keys::None, server::command, "server", "List the commands"),
    command("CONFIG", AtLeast(2), Reads, Keys::None, server::config, "server", "Get configuration parameters"),
    command("DBSIZE", Exactly(1), Reads, Keys::None, keys::dbsize, "server", "Count the keys"),
    command("DECR", Exactly(2), Adds, First, strings::decr, "string", "Decrement an integer by one"),
    command("DECRBY", Exactly(3), Adds, First, strings::decrby, "string", "Decrement an integer"),
    command("DEL", AtLeast(2), Writes, All, keys::del, "generic", "Delete keys"),
    command("DISCARD", Exactly(1), Reads, Keys::None, transaction::discard, "transactions", "Discard a transaction"),
    command("ECHO", Exactly(2), Reads, Keys::None, connection::echo, "connection", "Return the given string"),
    command("EXEC", Exactly(1), Reads, Keys::None, transaction::exec, "transactions", "Execute a transaction"),
    command("EXISTS", AtLeast(2), Reads, All, keys::exists, "generic", "Count existing keys"),
    command("EXPIRE", Exactly(3), Writes, First, keys::expire, "generic", "Set a key's time to live in seconds"),
    command("FLUSHALL", AtLeast(1), Writes, Keys::None, keys::flush, "server", "Delete all keys"),
    command("FLUSHDB", AtLeast(1), Writes, Keys::None, keys::flush, "server", "Delete all keys"),
    command("GET", Exactly(2), Reads, First, strings::get, "string", "Get a string"),
    command("GETDEL", Exactly(2), Writes, First, strings::getdel, "string", "Get a string and delete its key"),
    command("GETSET", Exactly(3), Adds, First, strings::getset, "string", "Set a string and get the previous one"),
    command("HDEL", AtLeast(3), Writes, First, members::hdel, "hash", "Delete fields of a hash"),
    command("HELLO", AtLeast(1), Reads, Keys::None, connection::hello, "connection", "Choose the protocol version"),
    command("HEXISTS", Exactly(3), Reads, First, members::hexists, "hash", "Test whether a hash has a field"),
    command("HGET", Exactly(3), Reads, First, members::hget, "hash", "Get a field of a hash"),
    command("HGETALL", Exactly(2), Reads, First, members::hgetall, "hash", "Get all fields of a hash"),
    command("HKEYS", Exactly(2), Reads, First, members::hkeys, "hash", "Get all field names of a hash"),
    command("HLEN", Exactly(2), Reads, First, members::hlen, "hash", "Count the fields of a hash"),
    command("HMGET", AtLeast(3), Reads, First, members::hmget, "hash", "Get several fields of a hash"),
    command("HMSET", AtLeast(4), Adds, First, members::hmset, "hash", "Set fields of a hash"),
    command("HSCAN", AtLeast(3), Reads, First, scan::hscan, "hash", "Iterate over the fields of a hash"),
    command("HSET", AtLeast(4), Adds, First, members::hset, "hash", "Set fields of a hash"),
    command("HVALS", Exactly(2), Reads, First, members::hvals, "hash", "Get all values of a hash"),
    command("INCR", Exactly(2), Adds, First, strings::incr, "string", "Increment an integer by one"),
    command("INCRBY", Exactly(3), Adds, First, strings::incrby, "string", "Increment an integer"),
    command("INFO", AtLeast(1), Reads, Keys::None, server::info, "server", "Get information about the server"),
    command("KEYS", Exactly(2), Reads, Keys::None, scan::keys, "generic", "List the keys that match a pattern"),
    command("LINDEX", Exactly(3), Reads, First, lists::lindex, "list", "Get an element of a list"),
    command("LLEN", Exactly(2), Reads, First, lists::llen, "list", "Count the elements of a list"),
    command("LPOP", AtLeast(2), Writes, First, lists::lpop, "list", "Remove elements from a list's head"),
    command("LPUSH", AtLeast(3), Adds, First, lists::lpush, "list", "Prepend elements to a list"),
    command("LRANGE", Exactly(4), Reads, First, lists::lrange, "list", "Get a range of a list"),
    command("MGET", AtLeast(2), Reads, All, strings::mget, "string", "Get several strings"),
    command("MSET", AtLeast(3), Adds, Pairs, strings::mset, "string", "Set several strings"),
    command("MULTI", Exactly(1), Reads, Keys::None, transaction::multi, "transactions", "Begin a transaction"),
    command("PERSIST", Exactly(2), Writes, First, keys::persist, "generic", "Remove a key's time to live"),
    command("PEXPIRE", Exactly(3), Writes, First, keys::pexpire, "generic", "Set a key's time to live in milliseconds"),
    command("PING", AtLeast(1), Reads, Keys::None, connection::ping, "connection", "Test the connection"),
    command(
        "PSETEX",
        Exactly(4),
        Adds,
        First,
        strings::psetex,
        "string",
        "Set a string and its time to live in milliseconds",
    ),
    command("PTTL", Exactly(2), Reads, First, keys::pttl, "generic", "Get a key's time to live in milliseconds"),
    command("QUIT", AtLeast(1), Reads, Keys::None, connection::quit, "connection", "Close the connection"),
    command("RESET", Exactly(1), Reads, Keys::None, connection::reset, "connection", "Reset the connection's state"),
    command("RPOP", AtLeast(2), Writes, First, lists::rpop, "list", "Remove elements from a list's tail"),
    command("RPUSH", AtLeast(3), Adds, First, lists::rpush, "list", "Append elements to a list"),
    command("SADD", AtLeast(3), Adds, First, members::sadd, "set", "Add members to a set"),
    command("SCAN", AtLeast(2), Reads, Keys::None, scan::scan, "generic", "Iterate over the keys"),
    command("SCARD", Exactly(2), Reads, First, members::scard, "set", "Count the members of a set"),
    command("SELECT", Exactly(2), Reads, Keys::None, connection::select, "connection", "Select the database"),
    command("SET", AtLeast(3), Adds, First, strings::set, "string", "Set a string"),
    command("SETEX", Exactly(4), Adds, First, strings::setex, "string", "Set a string and its time to live in seconds"),
    command("SETNX", Exactly(3), Adds, First, strings::setnx, "string", "Set a string if its key does not exist"),
    command("SISMEMBER", Exactly(3), Reads, First, members::sismember, "set", "Test whether a set has a member"),
    command("SMEMBERS", Exactly(2), Reads, First, members::smembers, "set", "Get all members of a set"),
    command("SPOP", AtLeast(2), Writes, First, members::spop, "set", "Remove random members of a set"),
    command("SREM", AtLeast(3), Writes, First, members::srem, "set", "Remove members of a set"),
    command("SSCAN", AtLeast(3), Reads, First, scan::sscan, "set", "Iterate over the members of a set"),
    command("STRLEN", Exactly(2), Reads, First, strings::strlen, "string", "Get the length of a string"),
    command("TTL", Exactly(2), Reads, First, keys::ttl, "generic", "Get a key's time to live in seconds"),
    command("TYPE", Exactly(2), Reads, First, keys::kind, "generic", "Get the type of a key"),
    command("UNLINK", AtLeast(2), Writes, All, keys::del, "generic", "Delete keys"),
    command("UNWATCH", Exactly(1), Reads, Keys::None, transaction::unwatch, "transactions", "Forget the watched keys"),
    command(
        "WATCH",
        AtLeast(2),
        Reads,
        All,
        transaction::watch,
        "transactions",
        "Watch keys for changes before a transaction",
    ),
    command("ZADD", AtLeast(4), Adds, First, members::zadd, "sorted-set", "Add members to a sorted set"),
    command("ZCARD", Exactly(2), Reads, First, members::zcard, "sorted-set", "Count the members of a sorted set"),
    command("ZINCRBY", Exactly(4), Adds, First, members::zincrby, "sorted-set", "Add to the score of a member"),
    command(
        "ZPOPMIN",
        AtLeast(2),
        Writes,
        First,
        members::zpopmin,
        "sorted-set",
        "Remove the members with the lowest scores",
    ),
    command("ZRANGE", AtLeast(4), Reads, First, members::zrange, "sorted-set", "Get a range of a sorted set"),
    command("ZREM", AtLeast(3), Writes, First, members::zrem, "sorted-set", "Remove members of a sorted set"),
    command("ZSCAN", AtLeast(3), Reads, First, scan::zscan, "sorted-set", "Iterate over the members of a sorted set"),
    command("ZSCORE", Exactly(3), Reads, First, members::zscore, "sorted-set", "Get the score of a member"),
];

/// Maximum length of a command name.
const NAME_MAX: usize = 16;

/// Finds a command by its name, ignoring case.
pub fn find(name: &[u8]) -> Option<&'static Command> {
    let mut capitals = [0; NAME_MAX];
    let capitals = capitals.get_mut(..name.len())?;
    capitals.copy_from_slice(name);
    capitals.make_ascii_uppercase();
    let at = COMMANDS.binary_search_by(|command| command.name.as_bytes().cmp(capitals)).ok()?;
    COMMANDS.get(at)
}

/// Executes a request and writes its reply or an error.
pub fn answer(call: &mut Call<'_>) {
    let Err(why) = run(call) else { return };
    match why {
        Refusal::Full => call.counts.full.bump(),
        _ => call.counts.unserved.bump(),
    }
    call.out.error(why);
}

/// Executes a request, or queues it if the client has begun a transaction.
fn run(call: &mut Call<'_>) -> Result<(), Refusal> {
    let command = match fitting(&call.args) {
        Ok(command) => command,
        Err(why) => {
            // The request is not queued, so the transaction would differ from what the client
            // intended.
            call.session.break_off();
            return Err(why);
        }
    };
    if let Some(client) = call.roster.get_mut(call.session.at) {
        client.command = command.name;
    }
    if !call.session.is_queuing() || matches!(command.name, "MULTI" | "EXEC" | "DISCARD" | "WATCH" | "RESET" | "QUIT") {
        return execute(command, call);
    }
    // HELLO is refused: all replies of an EXEC must use the same protocol version.
    let queued = if command.name == "HELLO" { Err(Refusal::NotInside) } else { call.session.push(&call.args) };
    match queued {
        Ok(()) => call.out.line("QUEUED"),
        Err(why) => {
            call.session.break_off();
            return Err(why);
        }
    }
    Ok(())
}

/// Returns the command whose name is the first argument, if it permits this number of arguments.
fn fitting(args: &Args<'_>) -> Result<&'static Command, Refusal> {
    let command = find(args.get(0)).ok_or_else(|| Refusal::unknown(args))?;
    let fits = match command.arity {
        Arity::Exactly(n) => args.len() == n,
        Arity::AtLeast(n) => args.len() >= n,
    };
    if fits { Ok(command) } else { Err(Refusal::Arity(command.name)) }
}

fn execute(command: &Command, call: &mut Call<'_>) -> Result<(), Refusal> {
    if command.effect == Adds && !has_room(call, command.keys) {
        return Err(Refusal::Full);
    }
    (command.run)(call)
}

fn has_room(call: &mut Call<'_>, keys: Keys) -> bool {
    let (args, now) = (call.args, call.now);
    let fits = match keys {
        Keys::None => true,
        Keys::First => call.store.has_room_for(std::iter::once(args.get(1)), now),
        Keys::All => call.store.has_room_for(args.from(1).iter(), now),
        Keys::Pairs => call.store.has_room_for(args.from(1).pairs().map(|(name, _)| name), now),
    };
    fits && call.store.has_room(args.bytes(), args.len() - 1)
}
