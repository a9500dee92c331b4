#[cfg(not(loom))]
mod plain {
    use crate::pins::Pins;

    #[test]
    fn nothing_retired_under_a_reader_is_freed() {
        let pins = Pins::new(4);
        let before = pins.pin_at(1);
        let at = pins.retire();
        let after = pins.pin_at(2);
        assert!(pins.passed() < at, "the first reader may hold it");
        drop(before);
        assert!(pins.passed() >= at, "the second began later");
        drop(after);
        assert_eq!(pins.passed(), u64::MAX);
    }

    /// Threads beyond the usual number have slots of their own, which also delay reuse.
    #[test]
    fn extra_readers_delay_freeing() {
        let pins = Pins::new(2);
        let (first, other) = (pins.pin_at(200), pins.pin_at(8));
        let at = pins.retire();
        drop(other);
        assert!(pins.passed() < at);
        drop(first);
        assert_eq!(pins.passed(), u64::MAX);
    }

    #[test]
    fn nested_pins_use_the_outer_pin() {
        let pins = Pins::new(1);
        let outer = pins.pin_at(7);
        drop(pins.pin_at(3));
        let at = pins.retire();
        assert!(pins.passed() < at);
        drop(outer);
        assert!(pins.passed() >= at);
    }
}

#[cfg(loom)]
mod models {
    use crate::pins::Pins;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};

    const ONE: usize = 0;
    const OTHER: usize = 1;
    const REUSED: usize = 99;

    /// A table with one entry, which refers to one of two parts.
    struct Table {
        pins: Pins,
        entry: AtomicUsize,
        parts: [AtomicUsize; 2],
    }

    impl Table {
        fn read(&self, thread: usize) -> usize {
            let _pinned = self.pins.pin_at(thread);
            let at = self.entry.load(Ordering::Acquire);
            self.parts[at].load(Ordering::Acquire)
        }

        /// Redirects the entry, removes the first part, and reuses that part if permitted.
        fn change(&self) {
            self.entry.store(OTHER, Ordering::Release);
            let at = self.pins.retire();
            if self.pins.passed() >= at {
                self.parts[ONE].store(REUSED, Ordering::Release);
            }
        }
    }

    fn table() -> Arc<Table> {
        let parts = [AtomicUsize::new(10), AtomicUsize::new(20)];
        Arc::new(Table { pins: Pins::new(2), entry: AtomicUsize::new(ONE), parts })
    }

    fn reads_beside_a_change(thread: usize) {
        let table = table();
        let theirs = table.clone();
        let writer = loom::thread::spawn(move || theirs.change());
        for _ in 0..2 {
            assert_ne!(table.read(thread), REUSED);
        }
        writer.join().unwrap();
        assert_eq!(table.read(thread), 20);
    }

    #[test]
    fn loom_a_part_is_not_used_again_under_a_reader() {
        loom::model(|| reads_beside_a_change(1));
    }

    /// The reader's slot is created while the writer checks for readers.
    #[test]
    fn loom_a_part_is_not_used_again_under_a_reader_whose_slot_is_new() {
        loom::model(|| reads_beside_a_change(5));
    }

    /// The slots of two readers are created in one new chunk. Each reader finds its own slot,
    /// regardless of which thread creates the chunk.
    #[test]
    fn loom_two_readers_whose_slots_are_new() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let table = table();
            let (theirs, other) = (table.clone(), table.clone());
            let writer = loom::thread::spawn(move || theirs.change());
            let reader = loom::thread::spawn(move || assert_ne!(other.read(4), REUSED));
            assert_ne!(table.read(5), REUSED);
            writer.join().unwrap();
            reader.join().unwrap();
        });
    }
}
