//! Job for a peer given by name. Looks up the name, then runs the job with the addresses found.

use clock::Instant;
use lock::Locks;
use node::jobs::{Around, End, Work};
use socket::resolve::Lookup;
use std::net::SocketAddr;

/// Constructor of a job's work from the best address of a name and the list of its other addresses.
pub(crate) type Make<L> = Box<dyn FnOnce(SocketAddr, &[SocketAddr]) -> Box<dyn Work<L>> + Send>;

pub(crate) struct Named<L: Locks> {
    stage: Stage<L>,
    is_finished: bool,
}

enum Stage<L: Locks> {
    Lookup(Box<Lookup>, Option<Make<L>>),
    Work(Box<dyn Work<L>>),
}

impl<L: Locks> Named<L> {
    pub(crate) fn new(lookup: Lookup, make: Make<L>) -> Named<L> {
        Named { stage: Stage::Lookup(Box::new(lookup), Some(make)), is_finished: false }
    }
}

impl<L: Locks> Work<L> for Named<L> {
    fn turn(&mut self, around: &Around<'_, L>, out: &mut String) -> Option<End> {
        if let Stage::Lookup(lookup, make) = &mut self.stage {
            let addrs = match lookup.turn(around.calls)? {
                Ok(addrs) => addrs,
                Err(why) => return Some(End::Failed(why.to_string())),
            };
            let (first, others) = addrs.split_first()?; // a successful lookup has an address
            let mut work = make.take()?(*first, others);
            if self.is_finished {
                work.finish();
            }
            self.stage = Stage::Work(work);
        }
        match &mut self.stage {
            Stage::Work(work) => work.turn(around, out),
            Stage::Lookup(..) => None,
        }
    }

    fn next(&self) -> Instant {
        match &self.stage {
            Stage::Lookup(lookup, _) => lookup.next(),
            Stage::Work(work) => work.next(),
        }
    }

    /// Passes input to the job's work. Accepts 0 bytes until the name is resolved.
    fn write(&mut self, bytes: &[u8]) -> Result<usize, String> {
        match &mut self.stage {
            Stage::Lookup(..) => Ok(0),
            Stage::Work(work) => work.write(bytes),
        }
    }

    fn finish(&mut self) {
        self.is_finished = true;
        if let Stage::Work(work) = &mut self.stage {
            work.finish();
        }
    }

    fn close(&mut self, around: &Around<'_, L>) {
        match &mut self.stage {
            Stage::Lookup(lookup, _) => lookup.close(around.calls),
            Stage::Work(work) => work.close(around),
        }
    }
}
