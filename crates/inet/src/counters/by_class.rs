//! Counters of packets for mirrors, by class.

use stats::{Counter, Described};
use wire::control::Control;

/// One counter for each class, with one writer. `POLICED` is true for packets that were not passed
/// because of the rate of their class.
#[derive(Debug)]
pub struct ByClass<const POLICED: bool>([Counter; Control::ALL.len()]);

impl<const POLICED: bool> Default for ByClass<POLICED> {
    fn default() -> Self {
        ByClass(std::array::from_fn(|_| Counter::default()))
    }
}

impl<const POLICED: bool> ByClass<POLICED> {
    pub(crate) fn bump(&self, class: Control) {
        if let Some(counter) = self.0.get(class as usize) {
            counter.bump();
        }
    }

    /// Returns the number of packets of a class.
    pub fn get(&self, class: Control) -> u64 {
        self.0.get(class as usize).map_or(0, Counter::get)
    }
}

impl<const POLICED: bool> Described for ByClass<POLICED> {
    fn visit(&self, each: &mut dyn FnMut(&'static str, &'static str, &'static str, u64)) {
        let (prefix, sentence) = match POLICED {
            false => ("inet.punt", "Packets of this class passed to the mirrors of interfaces."),
            true => ("inet.punt.policed", "Packets of this class not passed because of its rate."),
        };
        for class in Control::ALL {
            each(prefix, class.name(), sentence, self.get(class));
        }
    }
}
