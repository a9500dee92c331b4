//! A live port: polling the driver also runs the card, so the card does not need a thread.

use super::card::{Card, RxEngine, TxEngine};
use super::driver::{RxDriver, TxDriver};
use crate::{RxHalf, TxHalf};
use buf::Burst;
use clock::Instant;
use std::cell::RefCell;
use std::os::fd::BorrowedFd;

/// Returns the halves of a live port.
pub(super) fn halves(rx: RxDriver, tx: TxDriver, card: Card) -> (Rx, Tx) {
    let rx = Rx { driver: rx, engine: RefCell::new(card.rx) };
    (rx, Tx { driver: tx, engine: RefCell::new(card.tx) })
}

/// The receiving half. Computing the next event requires `&mut` access to the engine, because
/// reading a ring updates its cached copy of the other side's index.
pub(super) struct Rx {
    driver: RxDriver,
    engine: RefCell<RxEngine>,
}

pub(super) struct Tx {
    driver: TxDriver,
    engine: RefCell<TxEngine>,
}

impl RxHalf for Rx {
    fn rx_burst(&mut self, into: &mut Burst, most: usize, now: Instant) -> usize {
        self.engine.get_mut().step(now);
        self.driver.rx_burst(into, most, now)
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.driver.wait_fd()
    }

    fn next_event(&self) -> Option<Instant> {
        let arrival = self.engine.borrow_mut().next_event();
        [arrival, self.driver.next_event()].into_iter().flatten().min()
    }

    fn is_gone(&self) -> bool {
        self.engine.borrow().is_gone() && self.driver.held() == 0
    }

    fn is_silent(&self) -> bool {
        self.engine.borrow().is_unplugged()
    }

    fn held(&self) -> usize {
        self.driver.held() + self.engine.borrow().held()
    }
}

impl TxHalf for Tx {
    fn tx_burst(&mut self, from: &mut Burst, now: Instant) -> usize {
        let mut taken = 0;
        loop {
            let n = self.driver.tx_burst(from, now);
            taken += n;
            let moved = self.engine.get_mut().step(now);
            if from.is_empty() || (n == 0 && moved == 0) {
                return taken;
            }
        }
    }

    fn poll(&mut self, now: Instant) {
        self.driver.poll(now);
        self.engine.get_mut().step(now);
        self.driver.poll(now);
    }

    fn next_event(&self) -> Option<Instant> {
        // Unannounced descriptors require a poll, which may happen at any time.
        if self.driver.unannounced() > 0 { Some(Instant::ZERO) } else { self.engine.borrow_mut().next_event() }
    }

    fn is_gone(&self) -> bool {
        self.engine.borrow().is_gone()
    }

    fn held(&self) -> usize {
        self.driver.held()
    }
}
