#[cfg(not(loom))]
mod live;
#[cfg(loom)]
mod models;
#[cfg(not(loom))]
mod switching;

#[cfg(not(loom))]
use super::*;

/// An item with a flow and a number.
#[cfg(not(loom))]
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
struct Number {
    flow: u32,
    number: u32,
    /// Flow that a card has computed; `None` if the item does not contain it.
    said: Option<u64>,
}

#[cfg(not(loom))]
impl Item for Number {
    fn flow(&self) -> Option<u64> {
        self.said
    }
}

#[cfg(not(loom))]
fn number(flow: u32, number: u32) -> Number {
    Number { flow, number, said: None }
}

#[cfg(not(loom))]
fn protocols() -> Vec<Protocol<Number>> {
    let cpu = Protocol::new("cpu", 9).by_cpu(|item: &Number| (item.flow > 0).then_some(item.flow as usize));
    vec![Protocol::new("ip", 1).by_flow(|item: &Number| Some(u64::from(item.flow))), Protocol::new("arp", 4), cpu]
}

#[cfg(not(loom))]
fn netisr(workstreams: usize, mode: Mode) -> Arc<Netisr<Number>> {
    Netisr::new(Config { workstreams, mode, ..Config::default() }, protocols()).unwrap()
}
