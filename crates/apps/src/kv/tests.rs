use super::value::{ELEMENT, Value};
use super::*;
use crate::net::{Net, Rig};

fn config() -> Config {
    Config { key: Key::seeded(1), ..Config::default() }
}

fn rig_of(config: Config) -> Rig<Kv> {
    Rig::new(Kv::new(config), Net::default())
}

/// Sends inline requests as one client and compares the replies, with `|` for CR LF.
fn talk(rig: &mut Rig<Kv>, lines: &[(&str, &str)]) {
    let client = rig.client();
    for (said, heard) in lines {
        let reply = rig.say(client, format!("{said}\r\n").as_bytes()).replace("\r\n", "|");
        assert_eq!(reply, *heard, "{said}");
        assert_eq!(rig.server.app.store.bytes(), rig.server.app.store.count_bytes(), "{said}");
    }
    rig.net.far_reset(client);
    rig.run_until_idle();
}

const WRONG: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value|";

#[test]
fn string_commands() {
    talk(
        &mut rig_of(config()),
        &[
            ("GET a", "$-1|"),
            ("SET a 1", "+OK|"),
            ("get a", "$1|1|"),
            ("SET a 2 NX", "$-1|"),
            ("SET a 3 xx", "+OK|"),
            ("SET b 3 XX", "$-1|"),
            ("SET b 3 NX XX", "-ERR syntax error|"),
            ("SET b 3 NX EX 5", "+OK|"),
            ("SET b 3 EX 5 PX 5", "-ERR syntax error|"),
            ("SET b 3 EX", "-ERR syntax error|"),
            ("SET b 3 EX 0", "-ERR invalid expire time in 'set' command|"),
            ("SET b 3 EX x", "-ERR value is not an integer or out of range|"),
            ("SET b 3 EX 9223372036854775807", "-ERR invalid expire time in 'set' command|"),
            ("TTL b", ":5|"),
            ("SET b 4", "+OK|"),
            ("TTL b", ":-1|"),
            ("INCR a", ":4|"),
            ("INCRBY a 10", ":14|"),
            ("DECR a", ":13|"),
            ("DECRBY a -2", ":15|"),
            ("DECRBY a -9223372036854775808", "-ERR increment or decrement would overflow|"),
            ("INCRBY a 9223372036854775807", "-ERR increment or decrement would overflow|"),
            ("INCR new", ":1|"),
            ("APPEND a bc", ":4|"),
            ("INCR a", "-ERR value is not an integer or out of range|"),
            ("APPEND other x", ":1|"),
            ("STRLEN a", ":4|"),
            ("STRLEN none", ":0|"),
            ("MSET a 1 b", "-ERR wrong number of arguments for 'mset' command|"),
            ("MSET a 1 b 2", "+OK|"),
            ("LPUSH l x", ":1|"),
            ("MGET a b l none", "*4|$1|1|$1|2|$-1|$-1|"),
            ("GET l", WRONG),
            ("INCR l", WRONG),
            ("APPEND l x", WRONG),
            ("SET l text", "+OK|"),
            ("TYPE l", "+string|"),
        ],
    );
}

#[test]
fn list_commands() {
    talk(
        &mut rig_of(config()),
        &[
            ("RPUSH l a b c", ":3|"),
            ("LPUSH l z y", ":5|"),
            ("LRANGE l 0 -1", "*5|$1|y|$1|z|$1|a|$1|b|$1|c|"),
            ("LRANGE l -2 100", "*2|$1|b|$1|c|"),
            ("LRANGE l -100 0", "*1|$1|y|"),
            ("LRANGE l 3 2", "*0|"),
            ("LRANGE l 9 10", "*0|"),
            ("LRANGE l 0 x", "-ERR value is not an integer or out of range|"),
            ("LRANGE l -9223372036854775808 9223372036854775807", "*5|$1|y|$1|z|$1|a|$1|b|$1|c|"),
            ("LRANGE none 0 1", "*0|"),
            ("LPOP l", "$1|y|"),
            ("RPOP l 2", "*2|$1|c|$1|b|"),
            ("LPOP l -1", "-ERR value is out of range, must be positive|"),
            ("LPOP l 1 2", "-ERR syntax error|"),
            ("LPOP none", "$-1|"),
            ("RPOP none 3", "*-1|"),
            ("LPOP l 0", "*0|"),
            ("LLEN l", ":2|"),
            ("LPOP l 99", "*2|$1|z|$1|a|"),
            ("EXISTS l", ":0|"),
            ("LLEN l", ":0|"),
            ("SET t x", "+OK|"),
            ("LPUSH t x", WRONG),
            ("LRANGE t 0 1", WRONG),
            ("LPOP t", WRONG),
            ("DBSIZE", ":1|"),
        ],
    );
}

#[test]
fn set_hash_and_sorted_set_commands() {
    talk(
        &mut rig_of(config()),
        &[
            ("SADD s a b a", ":2|"),
            ("SADD s b", ":0|"),
            ("SCARD s", ":2|"),
            ("SISMEMBER s a", ":1|"),
            ("SISMEMBER none a", ":0|"),
            ("SPOP s 0", "*0|"),
            ("SPOP none", "$-1|"),
            ("SPOP none 2", "*0|"),
            ("SADD one x", ":1|"),
            ("SMEMBERS one", "*1|$1|x|"),
            ("SPOP one", "$1|x|"),
            ("TYPE one", "+none|"),
            ("HSET h a 1 b 2", ":2|"),
            ("HSET h a 3 c", "-ERR wrong number of arguments for 'hset' command|"),
            ("HSET h a longer", ":0|"),
            ("HGET h a", "$6|longer|"),
            ("HGET h none", "$-1|"),
            ("HGET none a", "$-1|"),
            ("HDEL h a x", ":1|"),
            ("HLEN h", ":1|"),
            ("HGETALL h", "*2|$1|b|$1|2|"),
            ("HSET s a 1", WRONG),
            ("SADD h a", WRONG),
            ("ZADD z 2 b 1 a 1.5 c", ":3|"),
            ("ZADD z 3 a 2 b", ":0|"),
            ("ZADD z nan x", "-ERR value is not a valid float|"),
            ("ZADD z 1 x nonsense y", "-ERR value is not a valid float|"),
            ("ZADD z 1", "-ERR wrong number of arguments for 'zadd' command|"),
            ("ZADD z 1 a 2", "-ERR syntax error|"),
            ("ZCARD z", ":3|"),
            ("ZSCORE z a", "$1|3|"),
            ("ZSCORE z x", "$-1|"),
            ("ZPOPMIN z", "*2|$1|c|$3|1.5|"),
            ("ZADD z -0 zero -inf low", ":2|"),
            ("ZPOPMIN z 9", "*8|$3|low|$4|-inf|$4|zero|$1|0|$1|b|$1|2|$1|a|$1|3|"),
            ("ZPOPMIN z", "*0|"),
            ("EXISTS z", ":0|"),
        ],
    );
}

#[test]
fn spop_draws_random_members() {
    let mut rig = rig_of(config());
    let client = rig.client();
    rig.say(client, b"SADD s 0 1 2 3 4 5 6 7 8 9\r\n");
    let drawn = rig.say(client, b"SPOP s 10\r\n");
    let mut members: Vec<&str> = drawn.lines().skip(2).step_by(2).collect();
    assert_ne!(members, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    members.sort();
    assert_eq!(members, ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]);
}

#[test]
fn commands_of_client_handshakes() {
    talk(
        &mut rig_of(config()),
        &[
            ("PING", "+PONG|"),
            ("PING a", "$1|a|"),
            ("PING a b", "-ERR wrong number of arguments for 'ping' command|"),
            ("ECHO \"a b\"", "$3|a b|"),
            ("SELECT 0", "+OK|"),
            ("SELECT 1", "-ERR DB index is out of range|"),
            ("SELECT x", "-ERR value is not an integer or out of range|"),
            ("CONFIG GET save", "*2|$4|save|$0||"),
            ("CONFIG GET appendonly", "*2|$10|appendonly|$2|no|"),
            ("CONFIG GET maxmemory none", "*2|$9|maxmemory|$9|268435456|"),
            ("CONFIG GET", "-ERR wrong number of arguments for 'config|get' command|"),
            ("CONFIG SET a b", "-ERR unknown subcommand 'SET'. Try CONFIG HELP.|"),
            ("CONFIG GET MAXMEM*", "*4|$16|maxmemory-policy|$10|noeviction|$9|maxmemory|$9|268435456|"),
            ("COMMAND COUNT", ":78|"),
            ("COMMAND DOCS get none", "*2|$3|get|*4|$7|summary|$12|Get a string|$5|group|$6|string|"),
            ("COMMAND INFO none dbsize", "*2|*-1|*10|$6|dbsize|:1|*1|+readonly|:0|:0|:0|*2|+@read|+@admin|*0|*0|*0|"),
            ("COMMAND X", "-ERR unknown subcommand 'X'. Try COMMAND HELP.|"),
            ("GETX a 'b c'", "-ERR unknown command 'GETX', with args beginning with: 'a' 'b c' |"),
            ("\"\\r\\n\\x00\"", "-ERR unknown command '\\r\\n\\x00', with args beginning with: |"),
            ("ECHO", "-ERR wrong number of arguments for 'echo' command|"),
        ],
    );
    let mut rig = rig_of(config());
    let client = rig.client();
    let info = rig.say(client, b"INFO\r\n");
    assert!(info.contains("connected_clients:1\r\n") && !info.contains("db0:"), "{info}");
    let info = rig.say(client, b"SET a 1 EX 9\r\nINFO keyspace\r\n");
    assert!(info.ends_with("\r\n# Keyspace\r\ndb0:keys=1,expires=1,avg_ttl=0\r\n\r\n"), "{info}");
    let commands = rig.say(client, b"COMMAND\r\n");
    let (says, len) = crate::resp::reply::first(commands.as_bytes(), 100).unwrap().unwrap();
    assert_eq!((says, len), (crate::resp::reply::Says::Array(78), commands.len()));
    assert!(commands.contains("*10\r\n$3\r\nget\r\n:2\r\n*1\r\n+readonly\r\n:1\r\n:1\r\n:1\r\n"), "{commands}");
    assert!(command::COMMANDS.is_sorted_by_key(|command| command.name));
}

#[test]
fn hello_selects_the_protocol_version() {
    // redis.io, HELLO: the reply is a map, in RESP2 an array; an invalid HELLO changes nothing.
    let hello = |proto: u8, id: u8| {
        let head = if proto == 3 { "%7" } else { "*14" };
        format!(
            "{head}|$6|server|$8|linerate|$7|version|$5|7.0.0|$5|proto|:{proto}|$2|id|:{id}|$4|mode|$10|standalone|\
             $4|role|$6|master|$7|modules|*0|"
        )
    };
    let [first, two, three] = [hello(2, 1), hello(2, 1), hello(3, 1)];
    talk(
        &mut rig_of(config()),
        &[
            ("HELLO", &first),
            ("HELLO 4", "-NOPROTO unsupported protocol version|"),
            ("HELLO 1", "-NOPROTO unsupported protocol version|"),
            ("HELLO x", "-ERR Protocol version is not an integer or out of range|"),
            ("HELLO 3 AUTH root x", "-WRONGPASS invalid username-password pair or user is disabled.|"),
            ("HELLO 3 AUTH default", "-ERR Syntax error in HELLO option 'AUTH'|"),
            ("HELLO 3 NAME x", "-ERR Syntax error in HELLO option 'NAME'|"),
            ("HELLO 3 SETNAME 'a b'", "-ERR Client names cannot contain spaces, newlines or special characters.|"),
            ("GET none", "$-1|"),
            ("HELLO 3 SETNAME me AUTH default any", &three),
            ("CLIENT GETNAME", "$2|me|"),
            // Nulls, maps, sets, doubles, pairs, texts: redis.io, "RESP3".
            ("GET none", "_|"),
            ("RPOP none 3", "_|"),
            ("HSET h a 1", ":1|"),
            ("HGETALL h", "%1|$1|a|$1|1|"),
            ("HGETALL none", "%0|"),
            ("SADD s a", ":1|"),
            ("SMEMBERS s", "~1|$1|a|"),
            ("SPOP s 1", "~1|$1|a|"),
            ("SPOP s 1", "~0|"),
            ("ZADD z 1 a 2.5 b -inf c inf d", ":4|"),
            ("ZSCORE z b", ",2.5|"),
            ("ZSCORE z d", ",inf|"),
            ("ZRANGE z 0 1 WITHSCORES", "*2|*2|$1|c|,-inf|*2|$1|a|,1|"),
            ("ZPOPMIN z", "*2|$1|c|,-inf|"),
            ("ZPOPMIN z 1", "*1|*2|$1|a|,1|"),
            ("ZSCAN z 0 MATCH b", "*2|$1|0|*2|$1|b|$3|2.5|"),
            ("CONFIG GET save", "%1|$4|save|$0||"),
            ("INFO none", "=4|txt:|"),
            ("COMMAND INFO ping", "*1|*10|$4|ping|:-1|~1|+readonly|:0|:0|:0|~2|+@read|+@connection|*0|*0|*0|"),
            ("MULTI", "+OK|"),
            ("GET none", "+QUEUED|"),
            ("HGETALL h", "+QUEUED|"),
            ("EXEC", "*2|_|%1|$1|a|$1|1|"),
            ("RESET", "+RESET|"),
            ("CLIENT GETNAME", "$-1|"),
            ("HELLO 2", &two),
            ("HGETALL h", "*2|$1|a|$1|1|"),
        ],
    );
}

#[test]
fn requests_after_multi_execute_together() {
    talk(
        &mut rig_of(config()),
        &[
            ("EXEC", "-ERR EXEC without MULTI|"),
            ("DISCARD", "-ERR DISCARD without MULTI|"),
            ("MULTI", "+OK|"),
            ("MULTI", "-ERR MULTI calls can not be nested|"),
            ("WATCH a", "-ERR WATCH inside MULTI is not allowed|"),
            ("SET a 1", "+QUEUED|"),
            ("LPUSH a x", "+QUEUED|"),
            ("INCR a", "+QUEUED|"),
            ("PING", "+QUEUED|"),
            // A failing request does not affect the others.
            ("EXEC", &format!("*4|+OK|{WRONG}:2|+PONG|")),
            ("MULTI", "+OK|"),
            ("EXEC", "*0|"),
            ("MULTI", "+OK|"),
            ("SET a 5", "+QUEUED|"),
            ("GET", "-ERR wrong number of arguments for 'get' command|"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors.|"),
            ("MULTI", "+OK|"),
            ("HELLO 3", "-ERR Command not allowed inside a transaction|"),
            ("EXEC", "-EXECABORT Transaction discarded because of previous errors.|"),
            ("MULTI", "+OK|"),
            ("SET a 5", "+QUEUED|"),
            ("DISCARD", "+OK|"),
            ("GET a", "$1|2|"),
        ],
    );
}

#[test]
fn a_watched_key_that_changes_discards_the_transaction() {
    // All kinds of requests that change a key, and requests that do not change it.
    for (before, change, is_kept) in [
        ("SET a 1", "SET a 2", false),
        ("SET a 1", "INCR a", false),
        ("SET a 1", "DEL a", false),
        ("SET a 1", "EXPIRE a 9", false),
        ("SET a 1", "FLUSHALL", false),
        ("DEL a", "LPUSH a x", false),
        ("DEL a", "FLUSHALL", true),
        ("RPUSH a x", "LPOP a", false),
        ("SET a 1 PX 500", "PING", false), // expires
        ("SET a 1", "SET b 1", true),
        ("SET a 1", "GET a", true),
        ("SET a 1", "INCR a x", true),
    ] {
        let mut rig = rig_of(config());
        let (client, other) = (rig.client(), rig.client());
        rig.say(client, format!("{before}\r\nWATCH a a c\r\n").as_bytes());
        rig.say(other, format!("{change}\r\n").as_bytes());
        rig.pass(Duration::from_secs(1));
        let said = rig.say(client, b"MULTI\r\nPING\r\nEXEC\r\n");
        let end = if is_kept { "*1\r\n+PONG\r\n" } else { "*-1\r\n" };
        assert_eq!(said, format!("+OK\r\n+QUEUED\r\n{end}"), "{before}, {change}");
        // EXEC ends the watch.
        rig.say(other, b"SET a 7\r\n");
        assert!(rig.say(client, b"MULTI\r\nEXEC\r\n").ends_with("*0\r\n"));
        assert_eq!(rig.server.app.store.watched(), 0);
    }
    // UNWATCH, DISCARD, RESET and disconnecting also end it.
    let mut rig = rig_of(config());
    let (client, other) = (rig.client(), rig.client());
    for end in ["UNWATCH", "MULTI\r\nDISCARD", "RESET"] {
        rig.say(client, format!("WATCH a\r\n{end}\r\n").as_bytes());
        assert_eq!(rig.server.app.store.watched(), 0, "{end}");
    }
    rig.say(client, b"WATCH a b\r\n");
    rig.say(other, b"WATCH b\r\n");
    rig.net.far_reset(client);
    rig.run_until_idle();
    assert_eq!((rig.server.app.store.watched(), rig.server.app.clients()), (1, 1));
}

#[test]
fn transactions_are_bounded() {
    let mut rig = rig_of(Config { buffers_max: 64 << 20, ..config() });
    let client = rig.client();
    rig.say(client, b"MULTI\r\n");
    let text = "x".repeat(900_000);
    let request = format!("*2\r\n$4\r\nECHO\r\n$900000\r\n{text}\r\n");
    let replies: String = (0..11).map(|_| rig.say(client, request.as_bytes())).collect();
    assert_eq!(replies.matches("+QUEUED").count(), 9, "{replies}");
    assert!(replies.ends_with("-ERR transaction is longer than 65536 requests or 8 MiB\r\n"), "{replies}");
    assert!(rig.server.app.buffers > 8_000_000, "what is queued counts as waiting");
    assert!(rig.say(client, b"EXEC\r\n").starts_with("-EXECABORT "));
    assert!(rig.server.app.buffers < 1_000_000);
    let watch: String = (0..5_000).map(|n| format!("WATCH {n}\r\n")).collect();
    let replies = rig.say(client, watch.as_bytes());
    assert_eq!(replies.matches("+OK").count(), 4096);
    assert!(replies.ends_with("-ERR more than 4096 keys or 1 MiB of names are watched\r\n"), "{replies}");
}

#[test]
fn clients_are_listed() {
    let mut rig = rig_of(config());
    let (client, other) = (rig.client(), rig.client());
    rig.pass(Duration::from_secs(3));
    rig.say(other, b"CLIENT SETINFO LIB-NAME redis-py\r\nCLIENT SETINFO lib-ver 5.0\r\nMULTI\r\nPING\r\n");
    rig.say(client, b"CLIENT SETNAME me\r\n");
    let line = |id: u8, more: &str| format!("id={id} addr=1.0.0.2:5000{id} laddr=1.0.0.1:21 {more}");
    let said = rig.say(client, b"CLIENT LIST\r\n");
    let lines: Vec<&str> = said.lines().skip(1).collect();
    let first = "name=me age=3 idle=0 flags=N db=0 sub=0 psub=0 multi=-1 watch=0 cmd=CLIENT user=default lib-name= \
                 lib-ver= resp=2";
    let second = "name= age=3 idle=0 flags=x db=0 sub=0 psub=0 multi=1 watch=0 cmd=PING user=default \
                  lib-name=redis-py lib-ver=5.0 resp=2";
    assert_eq!(lines, [line(1, first).as_str(), &line(2, second), ""]);
    assert!(rig.say(client, b"CLIENT INFO\r\n").contains(&line(1, "name=me age=3")));
    for (said, heard) in [
        ("CLIENT ID", ":1|"),
        ("CLIENT SETNAME 'a b'", "-ERR Client names cannot contain spaces, newlines or special characters.|"),
        ("CLIENT SETINFO LIB-NAME 'a b'", "-ERR lib-name cannot contain spaces, newlines or special characters.|"),
        ("CLIENT SETINFO LIB x", "-ERR Unrecognized option 'LIB'|"),
        ("CLIENT SETINFO LIB-NAME", "-ERR wrong number of arguments for 'client|setinfo' command|"),
        ("CLIENT NO-EVICT", "-ERR wrong number of arguments for 'client|no-evict' command|"),
        ("CLIENT NO-TOUCH", "-ERR wrong number of arguments for 'client|no-touch' command|"),
        ("CLIENT no-touch on", "+OK|"),
        ("CLIENT TRACKING ON", "-ERR unknown subcommand 'TRACKING'. Try CLIENT HELP.|"),
        (
            "AUTH x",
            "-ERR AUTH <password> called without any password configured for the default user. Are you sure \
                    your configuration is correct?|",
        ),
        ("AUTH default x", "+OK|"),
        ("AUTH root x", "-WRONGPASS invalid username-password pair or user is disabled.|"),
    ] {
        let reply = rig.say(client, format!("{said}\r\n").as_bytes()).replace("\r\n", "|");
        assert_eq!(reply, heard, "{said}");
    }
}

#[test]
fn names_are_found_by_pattern_and_cursor() {
    talk(
        &mut rig_of(config()),
        &[
            ("MSET aa 1", "+OK|"),
            ("KEYS *", "*1|$2|aa|"),
            ("KEYS a?", "*1|$2|aa|"),
            ("KEYS b*", "*0|"),
            ("SCAN 0", "*2|$1|0|*1|$2|aa|"),
            ("SCAN 0 TYPE list", "*2|$1|0|*0|"),
            ("SCAN 0 TYPE STRING MATCH a* COUNT 5", "*2|$1|0|*1|$2|aa|"),
            ("SCAN x", "-ERR invalid cursor|"),
            ("SCAN -1", "-ERR invalid cursor|"),
            ("SCAN 0 COUNT 0", "-ERR syntax error|"),
            ("SCAN 0 COUNT x", "-ERR value is not an integer or out of range|"),
            ("SCAN 0 MATCH", "-ERR syntax error|"),
            ("SADD s x", ":1|"),
            ("SSCAN s 0", "*2|$1|0|*1|$1|x|"),
            ("SSCAN none 0", "*2|$1|0|*0|"),
            ("SSCAN aa 0", WRONG),
            ("HSET h f v", ":1|"),
            ("HSCAN h 0 MATCH f", "*2|$1|0|*2|$1|f|$1|v|"),
            ("HSCAN h 0 TYPE x", "-ERR syntax error|"),
        ],
    );
    let mut rig = rig_of(config());
    let client = rig.client();
    for n in 0..1000 {
        rig.say(client, format!("SET k{n} x\r\n").as_bytes());
    }
    let (mut cursor, mut found, mut calls) = ("0".to_owned(), std::collections::BTreeSet::new(), 0);
    loop {
        let said = rig.say(client, format!("SCAN {cursor} MATCH k?[05] COUNT 100\r\n").as_bytes());
        let lines: Vec<&str> = said.lines().collect();
        found.extend(lines[4..].iter().skip(1).step_by(2).map(|name| (*name).to_owned()));
        (cursor, calls) = (lines[2].to_owned(), calls + 1);
        if cursor == "0" {
            break;
        }
    }
    assert_eq!((found.len(), calls), (18, 10), "{found:?}");
    // A pattern that would block all clients.
    rig.say(client, format!("SET {} x\r\n", "a".repeat(60_000)).as_bytes());
    for request in ["KEYS", "SCAN 0 COUNT 10000 MATCH"] {
        let said = rig.say(client, format!("{request} *{}b\r\n", "a".repeat(5_000)).as_bytes());
        assert_eq!(said, "-ERR the pattern takes too long to match; use SCAN or a shorter one\r\n");
    }
}

#[test]
fn further_string_and_member_commands() {
    talk(
        &mut rig_of(config()),
        &[
            ("SETNX a 1", ":1|"),
            ("SETNX a 2", ":0|"),
            ("GETSET a 3", "$1|1|"),
            ("SETEX a 9 4", "+OK|"),
            ("SET a 5 KEEPTTL GET", "$1|4|"),
            ("TTL a", ":9|"),
            ("SET a 6 KEEPTTL EX 5", "-ERR syntax error|"),
            ("SET a 6 NX GET", "$1|5|"),
            ("SET b 6 XX GET", "$-1|"),
            ("EXISTS b", ":0|"),
            ("PSETEX a 0 4", "-ERR invalid expire time in 'psetex' command|"),
            ("PSETEX a 9000 4", "+OK|"),
            ("GETDEL a", "$1|4|"),
            ("GETDEL a", "$-1|"),
            ("RPUSH l x y", ":2|"),
            ("GETDEL l", WRONG),
            ("GETSET l x", WRONG),
            ("LINDEX l -1", "$1|y|"),
            ("LINDEX l 2", "$-1|"),
            ("LINDEX l -3", "$-1|"),
            ("UNLINK l none", ":1|"),
            ("HMSET h a 1 b 2", "+OK|"),
            ("HMGET h a none b", "*3|$1|1|$-1|$1|2|"),
            ("HMGET none a", "*1|$-1|"),
            ("HEXISTS h a", ":1|"),
            ("HDEL h a", ":1|"),
            ("HKEYS h", "*1|$1|b|"),
            ("HVALS h", "*1|$1|2|"),
            ("SADD s a b", ":2|"),
            ("SREM s a c", ":1|"),
            ("SREM s b", ":1|"),
            ("EXISTS s", ":0|"),
            ("ZADD z 1 a 2 b 2 c 3 d", ":4|"),
            ("ZRANGE z 0 -1", "*4|$1|a|$1|b|$1|c|$1|d|"),
            ("ZRANGE z 1 -2 WITHSCORES", "*4|$1|b|$1|2|$1|c|$1|2|"),
            ("ZRANGE z 0 0 REV", "*1|$1|d|"),
            ("ZRANGE z 5 9", "*0|"),
            ("ZRANGE z (1 2 BYSCORE", "*2|$1|b|$1|c|"),
            ("ZRANGE z +inf (2 BYSCORE REV", "*1|$1|d|"),
            ("ZRANGE z -inf +inf BYSCORE LIMIT 1 2", "*2|$1|b|$1|c|"),
            ("ZRANGE z -inf +inf BYSCORE LIMIT -1 2", "*0|"),
            ("ZRANGE z 3 1 BYSCORE", "*0|"),
            (
                "ZRANGE z 0 1 LIMIT 0 1",
                "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX|",
            ),
            ("ZRANGE z x 1", "-ERR value is not an integer or out of range|"),
            ("ZRANGE z x 1 BYSCORE", "-ERR min or max is not a float|"),
            ("ZINCRBY z 1.5 a", "$3|2.5|"),
            ("ZINCRBY z inf a", "$3|inf|"),
            ("ZINCRBY z -inf a", "-ERR resulting score is not a number (NaN)|"),
            ("ZREM z a b none", ":2|"),
            ("ZRANGE z 0 -1", "*2|$1|c|$1|d|"),
        ],
    );
}

#[test]
fn keys_expire() {
    let mut rig = rig_of(config());
    let client = rig.client();
    assert_eq!(
        rig.say(client, b"SET a 1 PX 1500\r\nSET b 2\r\nEXPIRE b 3\r\nEXPIRE none 3\r\n"),
        "+OK\r\n+OK\r\n:1\r\n:0\r\n"
    );
    assert_eq!(rig.say(client, b"PTTL a\r\nTTL a\r\nTTL b\r\nTTL none\r\n"), ":1500\r\n:2\r\n:3\r\n:-2\r\n");
    rig.pass(Duration::from_millis(1499));
    assert_eq!(rig.say(client, b"GET a\r\n"), "$1\r\n1\r\n");
    rig.pass(Duration::from_millis(1));
    // Expired without being accessed.
    assert_eq!((rig.server.app.keys(), rig.server.app.store.expired()), (1, 1));
    assert_eq!(rig.say(client, b"PERSIST b\r\nPERSIST b\r\nTTL b\r\n"), ":1\r\n:0\r\n:-1\r\n");
    rig.pass(Duration::from_secs(10));
    assert_eq!(rig.say(client, b"EXISTS a b b\r\nEXPIRE b -1\r\nEXISTS b\r\nDBSIZE\r\n"), ":2\r\n:1\r\n:0\r\n:0\r\n");
    assert_eq!(rig.server.app.bytes(), 0);
}

#[test]
fn mass_expiry_is_split_into_steps() {
    let mut rig = rig_of(config());
    let client = rig.client();
    for n in 0..2500 {
        rig.say(client, format!("SET {n} x PX 1000\r\n").as_bytes());
    }
    rig.now = rig.now.after(Duration::from_secs(1));
    // Expired for requests, before being swept.
    rig.server.app.on_timer(rig.now);
    assert_eq!(rig.server.app.keys(), 2500 - SWEEP);
    assert_eq!(rig.say(client, b"EXISTS 2499\r\n"), ":0\r\n");
    while rig.server.next_timer().is_some_and(|at| at <= rig.now) {
        rig.run_until_idle();
    }
    assert_eq!((rig.server.app.keys(), rig.server.app.bytes()), (0, 0));
}

#[test]
fn exceeding_the_memory_limit_is_reported() {
    let mut rig = rig_of(Config { bounds: Bounds { keys: 100, bytes: 100_000 }, ..config() });
    let client = rig.client();
    let full = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    let text = "x".repeat(10_000);
    let set = |n: usize| format!("SET {n} {text}\r\n");
    let replies: String = (0..20).map(|n| rig.say(client, set(n).as_bytes())).collect();
    let taken = replies.matches("+OK").count();
    assert!((6..10).contains(&taken) && replies.ends_with(full), "{taken}: {replies}");
    assert_eq!(rig.server.app.counts.full.get(), 20 - taken as u64);
    assert!(rig.server.app.bytes() <= 100_000);
    // Requests that free memory are never refused.
    assert_eq!(rig.say(client, b"GET 0\r\nDEL 0 1 2\r\n").len(), 10_000 + 10 + 4);
    assert_eq!(rig.say(client, set(0).as_bytes()), "+OK\r\n");
    assert_eq!(rig.say(client, b"FLUSHALL\r\nDBSIZE\r\n"), "+OK\r\n:0\r\n");
    let replies: String = (0..200).map(|n| rig.say(client, format!("LPUSH {n} x\r\n").as_bytes())).collect();
    assert!(replies.contains(":1") && replies.ends_with(full));
    assert_eq!(rig.server.app.keys(), 100);
}

#[test]
fn the_key_limit_is_exact() {
    let mut rig = rig_of(Config { bounds: Bounds { keys: 3, bytes: 100_000 }, ..config() });
    let full = "-OOM command not allowed when used memory > 'maxmemory'.|";
    talk(
        &mut rig,
        &[
            ("SET a 1 PX 1000", "+OK|"),
            ("MSET a 1 b 2 c 3 d 4", full),
            ("MSET b 2 c 3", "+OK|"),
            ("SET d 1", full),
            ("INCR d", full),
            ("LPUSH d x y", full),
            ("EXPIRE d 5", ":0|"),
            // Existing keys do not count again.
            ("MSET a 2 b 3 c 4", "+OK|"),
            ("SET a 5 PX 1000", "+OK|"),
            ("INCR b", ":4|"),
            ("EXPIRE b 5", ":1|"),
            ("DBSIZE", ":3|"),
        ],
    );
    rig.pass(Duration::from_secs(1));
    talk(&mut rig, &[("SET d 1", "+OK|"), ("SET e 1", full), ("DBSIZE", ":3|")]);
    let mut rig = rig_of(Config { bounds: Bounds { keys: 1, bytes: 100_000 }, ..config() });
    talk(&mut rig, &[("SET a 1", "+OK|"), ("SET a 2", "+OK|"), ("SET b 1", full)]);
}

#[test]
fn bounds_for_texts_admit_all_texts_at_full_size() {
    let mut rig = rig_of(Config { bounds: Bounds::for_texts(20, 4, 3_000_000), ..config() });
    let client = rig.client();
    let text = "x".repeat(1_000_000);
    for n in 0..20 {
        let said = rig.say(client, format!("*3\r\n$3\r\nSET\r\n$2\r\n{n:02}\r\n$1000000\r\n{text}\r\n").as_bytes());
        assert_eq!(said, "+OK\r\n", "{n}");
    }
    assert!(rig.say(client, b"SET more x\r\n").starts_with("-OOM "));
    let Bounds { keys, bytes } = Bounds::for_texts(usize::MAX, 16, 1);
    assert_eq!((keys, bytes), (usize::MAX, usize::MAX));
}

#[test]
fn a_growing_string_stays_within_the_memory_limit() {
    let mut rig = rig_of(Config { bounds: Bounds { keys: 10, bytes: 100_000 }, ..config() });
    let client = rig.client();
    let text = "x".repeat(10_000);
    assert_eq!(rig.say(client, format!("SET a {}\r\n", "x".repeat(45_000)).as_bytes()), "+OK\r\n");
    assert_eq!(rig.say(client, format!("SET b {text}\r\n").as_bytes()), "+OK\r\n");
    // The capacity would grow to 90 000 bytes.
    assert!(rig.say(client, b"APPEND a x\r\n").starts_with("-OOM "));
    assert_eq!(rig.say(client, b"STRLEN a\r\nDEL b\r\nAPPEND a x\r\n"), ":45000\r\n:1\r\n:45001\r\n");
    // The capacity suffices now.
    assert_eq!(rig.say(client, format!("APPEND a {}\r\n", "x".repeat(2_000)).as_bytes()), ":47001\r\n");
    assert!(rig.server.app.bytes() <= 100_000);
}

#[test]
fn inline_requests_have_a_length_limit() {
    let mut rig = rig_of(config());
    let client = rig.client();
    let line = |bytes: usize| format!("ECHO {}\r\n", "x".repeat(bytes));
    for bytes in [16 * 1024, 20 * 1024, 64 * 1024 - 10] {
        assert_eq!(rig.say(client, line(bytes).as_bytes()).len(), 1 + 5 + 2 + bytes + 2, "{bytes}");
    }
    let heard = rig.say(client, "x".repeat(70_000).as_bytes());
    assert_eq!(heard, "-ERR Protocol error: too big inline request\r\n");
    assert!(rig.net.far_eof(client));
}

#[test]
fn a_shrunk_list_frees_its_memory() {
    let mut list = value::List::default();
    (0..100_000).for_each(|_| list.push(value::End::Right, b"x"));
    (0..99_999).for_each(|_| drop(list.pop(value::End::Left)));
    let value = Value::List(list);
    assert_eq!(value.cost(), 1 + ELEMENT);
    let Value::List(list) = value else { unreachable!() };
    assert!(list.capacity() < 100);
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let wanted: String = (1..=5000).map(|n| format!(":{n}\r\n")).collect();
    for seed in 1..20 {
        let mut rig = Rig::new(Kv::new(config()), Net { seed, window: 777, ..Net::default() });
        let client = rig.client();
        let requested = b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n".repeat(5000);
        let (mut heard, mut at) = (String::new(), 0);
        while heard.len() < wanted.len() {
            at += rig.net.far_send(client, &requested[at..]);
            rig.run_until_idle();
            heard += &rig.receive(client);
        }
        assert!(heard == wanted, "seed {seed}");
    }
}

#[test]
fn requests_wait_while_the_client_does_not_read() {
    let mut rig = Rig::new(Kv::new(config()), Net { window: 10_000, ..Net::default() });
    let (deaf, other) = (rig.client(), rig.client());
    rig.say(other, format!("SET a {}\r\n", "x".repeat(5_000)).as_bytes());
    for _ in 0..5_000 {
        rig.net.far_send(deaf, b"GET a\r\n");
        rig.run_until_idle();
    }
    let served = rig.server.app.counts.requests.get();
    assert!(served < 30, "{served} of 5000");
    assert_eq!(rig.say(other, b"PING\r\n"), "+PONG\r\n");
    // When the client reads at last, it receives all replies.
    assert!(rig.receive(deaf).len() > 1_000_000);
}

#[test]
fn a_client_exceeding_the_reply_limit_is_reset() {
    let mut rig = rig_of(Config { replies_max: 100_000, ..config() });
    let client = rig.client();
    rig.say(client, format!("SET a {}\r\n", "x".repeat(1_000)).as_bytes());
    rig.say(client, format!("MGET{}\r\n", " a".repeat(200)).as_bytes());
    assert!(rig.net.is_reset(client));
    assert_eq!((rig.server.app.counts.greedy.get(), rig.server.app.buffers), (1, 0));
}

#[test]
fn all_buffers_together_are_bounded() {
    let mut rig = rig_of(Config { buffers_max: 1 << 20, ..config() });
    let clients: Vec<_> = (0..20).map(|_| rig.client()).collect();
    for client in &clients {
        // A long argument that is never completed.
        rig.say(*client, &[&b"*2\r\n$4\r\nECHO\r\n$1000000\r\n"[..], &[b'x'; 100_000]].concat());
        assert!(rig.server.app.buffers <= 1 << 20);
    }
    assert!(rig.server.app.counts.greedy.get() > 5);
    assert!(rig.server.app.clients() > 3);
}

#[test]
fn malformed_input_disconnects_only_its_client() {
    let mut rig = rig_of(config());
    let other = rig.client();
    for (said, heard) in [
        (&b"*1\r\n:1\r\nPING\r\n"[..], "-ERR Protocol error: expected '$', got ':'\r\n"),
        (b"*-99999999999999999999\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
        (b"PING\r\n'a\r\n", "+PONG\r\n-ERR Protocol error: unbalanced quotes in request\r\n"),
        (b"POST / HTTP/1.1\r\nHost: a\r\n\r\nFLUSHALL\r\n", ""),
        (b"QUIT\r\nPING\r\n", "+OK\r\n"),
    ] {
        let client = rig.client();
        assert_eq!(rig.say(client, said), heard);
        assert!(rig.net.far_eof(client), "{}", said.escape_ascii());
    }
    assert_eq!(rig.server.app.counts.malformed.get(), 4);
    assert_eq!(rig.say(other, b"PING\r\n"), "+PONG\r\n");
    assert_eq!(rig.server.app.clients(), 1);
}

#[test]
fn the_longest_idle_client_is_evicted() {
    let mut rig = rig_of(Config { clients_max: 2, ..config() });
    let (idle, other) = (rig.client(), rig.client());
    rig.say(idle, b"CLIENT SETNAME idle\r\nWATCH a\r\nMULTI\r\n");
    rig.pass(Duration::from_secs(2));
    rig.say(other, b"PING\r\n");
    let next = rig.client_from([1, 0, 0, 3]);
    // The next client in the same slot inherits nothing.
    assert_eq!(rig.say(next, b"CLIENT GETNAME\r\nCLIENT ID\r\n"), "$-1\r\n:3\r\n");
    assert!(rig.net.is_reset(idle) && !rig.net.is_reset(other));
    let app = &rig.server.app;
    assert_eq!((app.counts.evicted.get(), app.clients(), app.store.watched()), (1, 2, 0));
    let held: usize = app.conns.iter().map(|(_, conn)| conn.held()).sum();
    assert_eq!(app.buffers, held);
}

#[test]
fn clients_are_limited_and_idle_ones_disconnected() {
    let mut rig = rig_of(Config { clients_max: 3, clients_per_peer: 2, ..config() });
    let first = rig.client();
    rig.client();
    let third = rig.client();
    assert_eq!(rig.receive(third), "-ERR max number of clients reached\r\n");
    let elsewhere = rig.client_from([1, 0, 0, 3]);
    assert_eq!(rig.say(elsewhere, b"PING\r\n"), "+PONG\r\n");
    rig.pass(Duration::from_secs(299));
    assert_eq!(rig.say(first, b"PING\r\n"), "+PONG\r\n");
    rig.pass(Duration::from_secs(2));
    assert_eq!((rig.server.app.clients(), rig.server.app.counts.idle.get()), (1, 2));
    // Requests before the end of input are answered.
    rig.net.far_send(first, b"PING\r\n");
    rig.net.far_shut(first);
    assert_eq!(rig.receive(first), "+PONG\r\n");
    assert_eq!((rig.server.app.clients(), rig.server.app.buffers), (0, 0));
}

/// Default traffic of memtier_benchmark: four threads with 50 connections each, no pipelining, ten
/// GETs per SET of 32 bytes, keys memtier-N, as RESP2 arrays (its redis_protocol::write_command_set
/// and _get).
#[test]
fn default_memtier_traffic_is_served() {
    let mut rig = rig_of(config());
    let clients: Vec<_> = (0..200).map(|_| rig.client()).collect();
    let (mut hits, mut misses) = (0, 0);
    for round in 0..11_u32 {
        for (at, &client) in clients.iter().enumerate() {
            let key = format!("memtier-{}", (at as u32 * 7919 + round / 2) % 300);
            let request = match round % 11 {
                0 => format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n$32\r\n{}\r\n", key.len(), "x".repeat(32)),
                _ => format!("*2\r\n$3\r\nGET\r\n${}\r\n{key}\r\n", key.len()),
            };
            let reply = rig.say(client, request.as_bytes());
            match (round % 11, reply.as_str()) {
                (0, "+OK\r\n") => {}
                (0, other) => panic!("SET: {other}"),
                (_, "$-1\r\n") => misses += 1,
                (_, value) => {
                    assert_eq!(value, format!("$32\r\n{}\r\n", "x".repeat(32)));
                    hits += 1;
                }
            }
        }
    }
    assert_eq!(hits + misses, 2000);
    assert!(hits > 1000 && misses > 0, "{hits} hits, {misses} misses");
    assert_eq!((rig.server.app.clients(), rig.server.app.counts.malformed.get()), (200, 0));
}
