//! MULTI, EXEC, DISCARD and WATCH: the requests of a transaction are queued and later executed
//! together, unless a watched key was changed in the meantime (redis.io, "Transactions").
//!
//! All clients share one thread, so no request of another client runs between the requests of an
//! EXEC. A request that fails during EXEC does not affect the other requests. If a request could
//! not be queued, the whole transaction is discarded.

use super::Refusal;
use super::command::{self, Call};
use super::roster::Roster;
use super::store::Store;
use crate::resp::{Args, Saved};
use linerate::stack::Instant;

type Done = Result<(), Refusal>;

/// Maximum number of requests in a transaction.
const REQUESTS_MAX: usize = 65_536;
/// Maximum number of bytes of all requests in a transaction.
const BYTES_MAX: usize = 8 << 20;
/// Maximum number of keys that a client may watch.
const WATCHES_MAX: usize = 4096;
/// Maximum number of bytes of the names of all keys that a client watches.
const WATCHED_BYTES_MAX: usize = 1 << 20;

/// Transaction and watched keys of one client.
#[derive(Debug)]
pub struct Session {
    /// Index of the client in the list of clients ([`Roster`]).
    pub at: u32,
    queue: Option<Queue>,
    watches: Vec<(Box<[u8]>, u64)>,
    watched_bytes: usize,
}

#[derive(Debug, Default)]
struct Queue {
    requests: Vec<Saved>,
    held: usize,
    /// Set if a request of the transaction could not be queued.
    is_broken: bool,
}

impl Session {
    /// Creates a session without a transaction or watched keys.
    pub fn new(at: u32) -> Session {
        Session { at, queue: None, watches: Vec::new(), watched_bytes: 0 }
    }

    /// Returns the number of bytes of memory that the session uses.
    pub fn held(&self) -> usize {
        let watches = self.watches.capacity() * size_of::<(Box<[u8]>, u64)>();
        self.queue.as_ref().map_or(0, |queue| queue.held) + watches + self.watched_bytes
    }

    /// Returns whether a transaction has begun, so that requests are queued.
    pub fn is_queuing(&self) -> bool {
        self.queue.is_some()
    }

    /// Marks the transaction as failed because one of its requests was refused.
    pub fn break_off(&mut self) {
        self.queue.iter_mut().for_each(|queue| queue.is_broken = true);
    }

    /// Queues a request, if a transaction has begun.
    ///
    /// # Errors
    /// [`Refusal::Transaction`] if the transaction would become too long.
    pub fn push(&mut self, args: &Args<'_>) -> Done {
        let Some(queue) = &mut self.queue else { return Ok(()) };
        let saved = args.save();
        if queue.requests.len() >= REQUESTS_MAX || queue.held.saturating_add(saved.held()) > BYTES_MAX {
            return Err(Refusal::Transaction);
        }
        queue.held += saved.held();
        queue.requests.push(saved);
        Ok(())
    }

    pub fn unwatch(&mut self, store: &mut Store) {
        std::mem::take(&mut self.watches).iter().for_each(|(name, _)| store.unwatch(name));
        self.watched_bytes = 0;
    }

    /// Discards the transaction and stops watching all keys.
    pub fn discard(&mut self, store: &mut Store) {
        self.queue = None;
        self.unwatch(store);
    }

    /// Copies the values that CLIENT LIST reports into the list of clients.
    pub fn note(&self, roster: &mut Roster) {
        if let Some(client) = roster.get_mut(self.at) {
            client.queued = self.queue.as_ref().map(|queue| queue.requests.len());
            client.watches = self.watches.len();
        }
    }

    fn is_unchanged(&self, store: &mut Store, now: Instant) -> bool {
        self.watches.iter().all(|(name, since)| store.is_unchanged(name, *since, now))
    }
}

pub(super) fn multi(call: &mut Call<'_>) -> Done {
    if call.session.is_queuing() {
        return Err(Refusal::Nested);
    }
    call.session.queue = Some(Queue::default());
    call.out.ok();
    Ok(())
}

pub(super) fn discard(call: &mut Call<'_>) -> Done {
    if !call.session.is_queuing() {
        return Err(Refusal::NoTransaction("DISCARD"));
    }
    call.session.discard(call.store);
    call.out.ok();
    Ok(())
}

pub(super) fn exec(call: &mut Call<'_>) -> Done {
    let Some(queue) = call.session.queue.take() else { return Err(Refusal::NoTransaction("EXEC")) };
    let is_unchanged = call.session.is_unchanged(call.store, call.now);
    call.session.unwatch(call.store);
    if queue.is_broken {
        return Err(Refusal::Aborted);
    }
    if !is_unchanged {
        call.out.nil_array();
        return Ok(());
    }
    call.out.array(queue.requests.len());
    for request in &queue.requests {
        // Replies beyond the buffer limit are discarded, since the client is disconnected.
        if call.out.is_over() {
            break;
        }
        command::answer(&mut Call {
            args: request.args(),
            store: &mut *call.store,
            session: &mut *call.session,
            roster: &mut *call.roster,
            out: &mut *call.out,
            now: call.now,
            facts: call.facts,
            counts: call.counts,
        });
    }
    Ok(())
}

pub(super) fn watch(call: &mut Call<'_>) -> Done {
    if call.session.is_queuing() {
        return Err(Refusal::WatchInside);
    }
    for name in call.args.from(1).iter() {
        let session = &mut *call.session;
        if session.watches.iter().any(|(watched, _)| **watched == *name) {
            continue;
        }
        if session.watches.len() >= WATCHES_MAX || session.watched_bytes + 2 * name.len() > WATCHED_BYTES_MAX {
            return Err(Refusal::Watches);
        }
        session.watched_bytes += 2 * name.len(); // the store holds the name, too
        session.watches.push((name.into(), call.store.watch(name, call.now)));
    }
    call.out.ok();
    Ok(())
}

pub(super) fn unwatch(call: &mut Call<'_>) -> Done {
    call.session.unwatch(call.store);
    call.out.ok();
    Ok(())
}
