//! Loom models: all interleavings of callers and a worker.

use super::super::workstream::{Ending, Next, Workstream};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use std::collections::VecDeque;

fn model(bound: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(bound);
    model.check(check);
}

/// Runs `work` and checks that no other thread works in the workstream.
fn alone(inside: &AtomicUsize, work: impl FnOnce()) {
    assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "two are at work in one workstream");
    work();
    inside.fetch_sub(1, Ordering::Relaxed);
}

type Seen = Arc<loom::sync::Mutex<Vec<u32>>>;

/// Runs a worker until the end.
fn work(stream: &Workstream<u32>, inside: &AtomicUsize, seen: &Seen) {
    loop {
        if stream.start() {
            let mut local = VecDeque::new();
            while stream.next(&mut local).is_some() {
                alone(inside, || seen.lock().unwrap().extend(local.drain(..)));
            }
        }
        if stream.sleep() == Next::End {
            return;
        }
    }
}

fn hybrid(stream: &Workstream<u32>, value: u32, inside: &AtomicUsize, seen: &Seen) {
    match stream.begin() {
        Some(_turn) => alone(inside, || seen.lock().unwrap().push(value)),
        None => stream.put(0, &mut VecDeque::from([value]), 10),
    }
}

#[test]
fn loom_netisr_no_item_is_forgotten_and_the_worker_does_not_sleep_over_one() {
    model(3, || {
        let stream = Arc::new(Workstream::new(2));
        let (inside, seen) = (Arc::new(AtomicUsize::new(0)), Seen::default());
        let (theirs, within, saw) = (stream.clone(), inside.clone(), seen.clone());
        let worker = loom::thread::spawn(move || work(&theirs, &within, &saw));
        stream.put(0, &mut VecDeque::from([0]), 10);
        stream.put(0, &mut VecDeque::from([1]), 10);
        stream.end(Ending::Finish);
        worker.join().unwrap();
        assert_eq!(*seen.lock().unwrap(), [0, 1]);
    });
}

#[test]
fn loom_netisr_hybrid_keeps_order_and_is_alone() {
    model(3, || {
        let stream = Arc::new(Workstream::new(1));
        let (inside, seen) = (Arc::new(AtomicUsize::new(0)), Seen::default());
        let (theirs, within, saw) = (stream.clone(), inside.clone(), seen.clone());
        let worker = loom::thread::spawn(move || work(&theirs, &within, &saw));
        stream.put(0, &mut VecDeque::from([0]), 10);
        hybrid(&stream, 1, &inside, &seen);
        hybrid(&stream, 2, &inside, &seen);
        stream.end(Ending::Finish);
        worker.join().unwrap();
        assert_eq!(*seen.lock().unwrap(), [0, 1, 2]);
    });
}

#[test]
fn loom_netisr_two_callers_and_a_worker_lose_nothing() {
    model(2, || {
        let stream = Arc::new(Workstream::new(2));
        let (inside, seen) = (Arc::new(AtomicUsize::new(0)), Seen::default());
        let (theirs, within, saw) = (stream.clone(), inside.clone(), seen.clone());
        let worker = loom::thread::spawn(move || work(&theirs, &within, &saw));
        let (other, within, saw) = (stream.clone(), inside.clone(), seen.clone());
        let caller = loom::thread::spawn(move || hybrid(&other, 7, &within, &saw));
        stream.put(1, &mut VecDeque::from([0]), 10);
        caller.join().unwrap();
        stream.end(Ending::Finish);
        worker.join().unwrap();
        let mut seen = seen.lock().unwrap().clone();
        seen.sort_unstable();
        assert_eq!(seen, [0, 7]);
    });
}

/// A worker that ends its turn after each queue, like one with other work in its thread, must not
/// sleep while items wait.
#[test]
fn loom_netisr_a_worker_that_pauses_sleeps_over_nothing() {
    model(3, || {
        let stream = Arc::new(Workstream::new(2));
        let (inside, seen) = (Arc::new(AtomicUsize::new(0)), Seen::default());
        let (theirs, within, saw) = (stream.clone(), inside.clone(), seen.clone());
        let worker = loom::thread::spawn(move || {
            loop {
                let mut local = VecDeque::new();
                if theirs.start() && theirs.next(&mut local).is_some() {
                    alone(&within, || saw.lock().unwrap().extend(local.drain(..)));
                    theirs.pause();
                }
                if !theirs.has_waiting() && theirs.sleep() == Next::End {
                    return;
                }
            }
        });
        stream.put(0, &mut VecDeque::from([0]), 10);
        stream.put(1, &mut VecDeque::from([1]), 10);
        stream.put(0, &mut VecDeque::from([2]), 10);
        stream.end(Ending::Finish);
        worker.join().unwrap();
        let mut seen = seen.lock().unwrap().clone();
        assert!(seen.iter().position(|n| *n == 0) < seen.iter().position(|n| *n == 2), "{seen:?}");
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2]);
    });
}
