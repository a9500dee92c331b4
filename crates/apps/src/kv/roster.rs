//! The list of connected clients, for CLIENT LIST and CLIENT INFO.

use crate::resp::Version;
use crate::streams::Ends;
use linerate::stack::Instant;
use std::fmt::Write;

/// Maximum length of a client or library name in bytes.
const NAME_MAX: usize = 256;

#[derive(Clone, Debug)]
pub struct Client {
    /// Unique id of the client; clients that connect later have higher ids.
    pub id: u64,
    ends: Ends,
    since: Instant,
    /// Time of the client's last activity.
    pub moved: Instant,
    /// Number of queued requests of the client's transaction; `None` if the client has not begun
    /// one.
    pub queued: Option<usize>,
    /// Number of watched keys.
    pub watches: usize,
    /// RESP version that the client uses.
    pub version: Version,
    pub command: &'static str,
    /// Name that the client set by CLIENT SETNAME.
    pub name: String,
    /// Name of the client's library, set by CLIENT SETINFO.
    pub library: String,
    /// Version of the client's library, set by CLIENT SETINFO.
    pub library_version: String,
}

impl Client {
    /// Appends the client's line of CLIENT LIST, with those fields of redis.io's reference that
    /// this server supports.
    fn line(&self, into: &mut String, now: Instant) {
        let flags = if self.queued.is_some() { "x" } else { "N" };
        let queued = self.queued.map_or(-1, |n| i64::try_from(n).unwrap_or(i64::MAX));
        let resp = if self.version == Version::Three { 3 } else { 2 };
        // Writing to a string cannot fail.
        let _ = writeln!(
            into,
            "id={} addr={} laddr={} name={} age={} idle={} flags={flags} db=0 sub=0 psub=0 multi={queued} watch={} \
             cmd={} user=default lib-name={} lib-ver={} resp={resp}",
            self.id,
            self.ends.peer,
            self.ends.local,
            self.name,
            now.since(self.since).as_secs(),
            now.since(self.moved).as_secs(),
            self.watches,
            self.command,
            self.library,
            self.library_version,
        );
    }
}

/// Returns the name if it may appear in a line of CLIENT LIST, that is, if it consists of printable
/// ASCII characters without blanks.
pub fn name(text: &[u8]) -> Option<String> {
    let is_plain = text.len() <= NAME_MAX && text.iter().all(u8::is_ascii_graphic);
    std::str::from_utf8(text).ok().filter(|_| is_plain).map(str::to_owned)
}

/// All connected clients, indexed by channel number.
#[derive(Debug, Default)]
pub struct Roster {
    clients: Vec<Option<Client>>,
    last_id: u64,
}

impl Roster {
    pub fn add(&mut self, at: u32, ends: Ends, now: Instant) {
        self.last_id += 1;
        let client = Client {
            id: self.last_id,
            ends,
            since: now,
            moved: now,
            queued: None,
            watches: 0,
            version: Version::Two,
            command: "NULL",
            name: String::new(),
            library: String::new(),
            library_version: String::new(),
        };
        let at = at as usize;
        if self.clients.len() <= at {
            self.clients.resize_with(at + 1, || None);
        }
        self.clients.iter_mut().skip(at).take(1).for_each(|place| *place = Some(client.clone()));
    }

    pub fn remove(&mut self, at: u32) {
        self.clients.iter_mut().skip(at as usize).take(1).for_each(|place| *place = None);
    }

    pub fn get(&self, at: u32) -> Option<&Client> {
        self.clients.get(at as usize)?.as_ref()
    }

    /// Returns a mutable reference to the client with index `at`.
    pub fn get_mut(&mut self, at: u32) -> Option<&mut Client> {
        self.clients.get_mut(at as usize)?.as_mut()
    }

    /// Returns the number of clients that have connected since the start.
    pub fn come(&self) -> u64 {
        self.last_id
    }

    /// Returns the `CLIENT LIST` line of the client with index `at`.
    pub fn line(&self, at: u32, now: Instant) -> String {
        let mut text = String::new();
        self.get(at).into_iter().for_each(|client| client.line(&mut text, now));
        text
    }

    /// Returns a line of CLIENT LIST for each client, in the order of their ids.
    pub fn lines(&self, now: Instant) -> String {
        let mut all: Vec<&Client> = self.clients.iter().flatten().collect();
        all.sort_by_key(|client| client.id);
        let mut text = String::new();
        all.into_iter().for_each(|client| client.line(&mut text, now));
        text
    }
}
