//! Counters of control packets for mirrors, by class.

use stats::{Counter, Described};
use wire::control::ControlClass;

/// Counters of the packets of each class, with one writer.
#[derive(Debug, Default)]
pub struct Punted {
    passed: [Counter; ControlClass::ALL.len()],
    policed: [Counter; ControlClass::ALL.len()],
}

impl Punted {
    /// Counts a packet that was passed to a mirror.
    pub(crate) fn pass(&self, class: ControlClass) {
        self.passed.get(class as usize).into_iter().for_each(Counter::bump);
    }

    /// Counts a packet that was not passed because of the rate of its class.
    pub(crate) fn police(&self, class: ControlClass) {
        self.policed.get(class as usize).into_iter().for_each(Counter::bump);
    }

    /// Returns the numbers of packets of a class that were passed and policed.
    pub fn get(&self, class: ControlClass) -> [u64; 2] {
        [&self.passed, &self.policed].map(|of| of.get(class as usize).map_or(0, Counter::get))
    }
}

impl Described for Punted {
    fn visit(&self, each: &mut dyn FnMut(&'static str, &'static str, &'static str, u64)) {
        for class in ControlClass::ALL {
            let [passed, policed] = self.get(class);
            each("inet.punt", class.name(), "Packets of this class passed to the mirrors of interfaces.", passed);
            each("inet.punt.policed", class.name(), "Packets of this class not passed because of its rate.", policed);
        }
    }
}
