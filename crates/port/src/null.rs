//! `null:`: receives nothing and discards everything sent. It is the baseline for the performance
//! of other ports.

use crate::{Caps, Port, PortCounts, RxHalf, TxHalf};
use buf::Burst;
use clock::Instant;
use std::sync::Arc;

/// The receiving half of every port that only sends.
pub(crate) struct Nothing;

/// The transmitting half of every port that only receives. It discards all frames sent.
pub(crate) struct Everything(pub(crate) Arc<PortCounts>);

/// Opens a null port.
pub fn open(name: &str, caps: Caps) -> Port {
    let counts = Arc::new(PortCounts::default());
    Port {
        name: name.to_string(),
        spec: format!("null:{name}"),
        caps,
        rx: Box::new(Nothing),
        tx: Box::new(Everything(counts.clone())),
        counts,
        nic: None,
    }
}

impl RxHalf for Nothing {
    fn rx_burst(&mut self, _into: &mut Burst, _most: usize, _now: Instant) -> usize {
        0
    }

    fn is_silent(&self) -> bool {
        true
    }
}

impl TxHalf for Everything {
    #[inline]
    fn tx_burst(&mut self, from: &mut Burst, _now: Instant) -> usize {
        let (frames, bytes) = (from.len(), from.bytes() as u64);
        self.0.tx.frames.add(frames as u64);
        self.0.tx.bytes.add(bytes);
        self.0.tx.bursts.bump();
        from.clear();
        frames
    }
}
