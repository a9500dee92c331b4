//! A side of a comparison: a measured subject that is built anew for every round.
//!
//! A subject that is built once has one placement in memory, one set of hash keys and one order of
//! construction; repeated timing does not average these out. When two sides with equal settings
//! were built once and compared over 20 rounds, 20 % of 150 comparisons judged them different. So
//! the runner builds each side for each round, and [`Scatter`] makes the builds differ: Curtsinger
//! and Berger, Stabilizer (ASPLOS 2013); Kalibera and Jones, Rigorous Benchmarking in Reasonable
//! Time (ISMM 2013).

use std::cell::RefCell;
use std::fmt;
use std::rc::{Rc, Weak};

use crate::subject::Subject;
use clock::Random;

type Make = dyn FnMut() -> anyhow::Result<Box<dyn Subject>>;

/// A named builder of a subject.
#[derive(Clone)]
pub struct Side {
    id: String,
    make: Rc<RefCell<Make>>,
}

impl fmt::Debug for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Side").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Side {
    /// Returns a side with identifier `id`; `make` builds a new subject at each call.
    pub fn new<S: Subject + 'static>(
        id: impl Into<String>,
        mut make: impl FnMut() -> anyhow::Result<S> + 'static,
    ) -> Side {
        Side { id: id.into(), make: Rc::new(RefCell::new(move || Ok(Box::new(make()?) as Box<dyn Subject>))) }
    }

    /// Returns a second side with the same settings. Both are built separately, and their
    /// difference is the noise floor.
    pub fn twin(&self) -> Side {
        Side { id: format!("{} (twin)", self.id), make: Rc::clone(&self.make) }
    }

    /// Returns the name of the side in results.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Builds a subject.
    ///
    /// # Errors
    /// The error of the builder function.
    pub fn build(&self) -> anyhow::Result<Box<dyn Subject>> {
        (self.make.borrow_mut())()
    }
}

/// A resource shared by several sides of one round: the first side builds it, and it is freed when
/// the last side is dropped.
pub struct Shared<T> {
    make: Rc<dyn Fn() -> anyhow::Result<T>>,
    built: Rc<RefCell<Weak<RefCell<T>>>>,
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared { make: Rc::clone(&self.make), built: Rc::clone(&self.built) }
    }
}

impl<T> Shared<T> {
    /// Returns a shared resource; `make` builds it once per round.
    pub fn new(make: impl Fn() -> anyhow::Result<T> + 'static) -> Shared<T> {
        Shared { make: Rc::new(make), built: Rc::default() }
    }

    /// Returns the resource of this round, building it if necessary.
    ///
    /// # Errors
    /// The error of the builder function.
    pub fn get(&self) -> anyhow::Result<Rc<RefCell<T>>> {
        if let Some(built) = self.built.borrow().upgrade() {
            return Ok(built);
        }
        let built = Rc::new(RefCell::new((self.make)()?));
        *self.built.borrow_mut() = Rc::downgrade(&built);
        Ok(built)
    }
}

/// Largest size of a freed block that the allocator caches (glibc's tcache: at most 7 blocks of
/// each size, last in, first out). Without scatter, a build would get the addresses of a freed
/// build.
const KEPT_SIZE: usize = 1032;
const SIZE_STEP: usize = 16;
const MOST_KEPT: usize = 7;
/// Maximum number of larger blocks, of 1 KiB to 256 KiB, allocated before a build.
const MOST_LARGE: usize = 24;
/// Maximum number of pages mapped and touched before a build.
const MOST_PAGES: usize = 96;
const PAGE: usize = 4 << 10;
/// Limit of the number of extra stack frames between the runner and a trial.
const MOST_DEPTH: usize = 64;

/// Blocks and pages allocated between the builds of one round, so that each build gets other
/// addresses than the previous one, on the heap, in the page tables and on the stack.
#[derive(Debug)]
pub struct Scatter {
    random: Random,
    held: Vec<Vec<u8>>,
}

impl Scatter {
    /// Returns an empty scatter with the given seed.
    pub fn new(seed: u64) -> Scatter {
        Scatter { random: Random::new(seed), held: Vec::new() }
    }

    /// Allocates a random number of blocks of each size, frees a random half of them, and keeps the
    /// rest and some touched pages until the scatter is dropped.
    pub fn spread(&mut self) {
        let mut sizes = Vec::new();
        for size in (24..=KEPT_SIZE).step_by(SIZE_STEP) {
            sizes.extend(std::iter::repeat_n(size, 1 + self.random.index(MOST_KEPT)));
        }
        for _ in 0..self.random.index(MOST_LARGE + 1) {
            let size = 1024 << self.random.index(8);
            sizes.push(size + self.random.index(size));
        }
        // Zeroed blocks come from calloc, which does not take cached blocks (glibc before 2.41).
        let mut made: Vec<Vec<u8>> = sizes.into_iter().map(|size| std::hint::black_box(vec![1; size])).collect();
        self.random.shuffle(&mut made);
        let half = made.len() / 2;
        self.held.extend(made.drain(half..));
        drop(made);
        let pages = self.random.index(MOST_PAGES + 1);
        let mut touched = vec![0u8; pages * PAGE + 64 * self.random.index(PAGE / 64)];
        touched.iter_mut().step_by(PAGE).for_each(|byte| *byte = 1);
        self.held.push(std::hint::black_box(touched));
    }

    /// Returns a random number of stack frames for [`at_depth`].
    pub fn depth(&mut self) -> usize {
        self.random.index(MOST_DEPTH)
    }
}

/// Runs `work` with `frames` more frames of about 64 bytes on the stack.
#[inline(never)]
pub fn at_depth<T>(frames: usize, work: &mut dyn FnMut() -> T) -> T {
    let mut space = [0u8; 16];
    std::hint::black_box(&mut space);
    if frames == 0 { work() } else { at_depth(frames - 1, work) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject;
    use std::collections::BTreeSet;

    #[test]
    fn every_build_is_new_and_a_twin_shares_the_constructor() {
        let side = Side::new("a", {
            let mut built = 0u64;
            move || {
                built += 1;
                let number = built;
                Ok(subject::from_fn("a", move || Ok(subject::measure(number, || ()))))
            }
        });
        let twin = side.twin();
        assert_eq!((side.id(), twin.id()), ("a", "a (twin)"));
        let ops: Vec<u64> =
            [&side, &twin, &side].iter().map(|side| side.build().unwrap().trial().unwrap().ops).collect();
        assert_eq!(ops, [1, 2, 3]);
    }

    #[test]
    fn shared_values_live_for_one_round() {
        let count = Rc::new(std::cell::Cell::new(0));
        let shared = Shared::new({
            let count = Rc::clone(&count);
            move || Ok(count.replace(count.get() + 1))
        });
        let (first, second) = (shared.get().unwrap(), shared.clone().get().unwrap());
        assert_eq!((*first.borrow(), *second.borrow(), count.get()), (0, 0, 1));
        drop((first, second));
        assert_eq!((*shared.get().unwrap().borrow(), count.get()), (1, 2));
    }

    #[test]
    fn builds_have_different_addresses() {
        // In a process of its own, since other tests leave holes in the heap.
        const ALONE: &str = "LINERATE_TEST_ALONE";
        if std::env::var_os(ALONE).is_none() {
            let mut test = std::process::Command::new(std::env::current_exe().unwrap());
            test.args(["--exact", "side::tests::builds_have_different_addresses"]).env(ALONE, "1");
            let ran = test.output().unwrap();
            let printed = String::from_utf8_lossy(&ran.stdout);
            assert!(ran.status.success() && printed.contains("1 passed"), "{printed}");
            return;
        }
        let (mut heap, mut stack) = (vec![BTreeSet::new(); 4], BTreeSet::new());
        for round in 0..8 {
            // As in the runner, the scatter of a round lives as long as all builds of the round.
            let mut scatter = Scatter::new(round);
            for _ in 0..6 {
                scatter.spread();
                let builds: Vec<Vec<u8>> = [48, 500, 3000, 20_000].map(|size| vec![1; size]).into();
                for (addresses, block) in heap.iter_mut().zip(&builds) {
                    addresses.insert(block.as_ptr().addr());
                }
                at_depth(scatter.depth(), &mut || {
                    let here = 0u8;
                    stack.insert(std::ptr::from_ref(std::hint::black_box(&here)).addr());
                });
            }
        }
        let heap: Vec<usize> = heap.iter().map(BTreeSet::len).collect();
        assert!(heap.iter().all(|&addresses| addresses > 10) && stack.len() > 20, "{heap:?} {}", stack.len());
    }
}
