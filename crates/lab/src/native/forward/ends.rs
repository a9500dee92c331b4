//! The two ends of an idle switch: one where a frame is sent, one where it is received.

use super::devices::{frame, receiver, sender};
use anyhow::{Context, bail};
use buf::{Burst, Pool, PoolConfig, PoolLocks};
use clock::{Clock, Strategy};
use node::switch::Switch;
use port::nic::{self, Settings};
use port::{Port, Spec};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};

/// Length of the Ethernet header in bytes; the number of the frame follows it.
const HEADER: usize = 14;

/// Ends of the path through the switch: frames enter at `left` and leave at `right`.
pub enum Ends {
    /// Packet sockets on the kernel's side of TAP devices.
    Taps { left: File, right: File },
    /// Emulated network cards.
    Cards(Box<Cards>),
}

/// Emulated cards that are connected by a wire to the cards of the switch.
pub struct Cards {
    left: Port,
    right: Port,
    pool: Pool,
    clock: Clock,
}

impl Ends {
    /// Opens packet sockets at the TAP devices `left` and `right`.
    pub fn taps() -> anyhow::Result<Ends> {
        Ok(Ends::Taps { left: sender("left")?, right: receiver("right")? })
    }

    /// Attaches two interrupting cards to the switch, each on its own wire.
    pub fn cards(switch: &Switch) -> anyhow::Result<Ends> {
        let pool = Pool::new(&PoolConfig { locks: PoolLocks::Light, ..PoolConfig::default() })?;
        let far = |name: &str| {
            let (near, far) = nic::wire(nic::WIRE_SLOTS);
            switch.attach(card(&format!("{name}1"), near, switch.pool())?, Some(0))?;
            card(&format!("{name}0"), far, &pool)
        };
        let (left, right) = (far("left")?, far("right")?);
        Ok(Ends::Cards(Box::new(Cards { left, right, pool, clock: Clock::live(Strategy::TscScaled) })))
    }

    /// Sends a frame that contains `number`.
    pub fn put(&mut self, number: u64) -> anyhow::Result<()> {
        let mut bytes = frame(0, 0, 0);
        bytes[HEADER..HEADER + 8].copy_from_slice(&number.to_ne_bytes());
        match self {
            Ends::Taps { left, .. } => left.write_all(&bytes).context("cannot write a frame to the left device"),
            Ends::Cards(cards) => cards.put(&bytes),
        }
    }

    /// Receives a frame, if there is one, and returns its number.
    pub fn take(&mut self) -> anyhow::Result<Option<u64>> {
        match self {
            Ends::Taps { right, .. } => {
                let mut bytes = [0; 2048];
                match right.read(&mut bytes) {
                    Ok(len) => Ok(bytes.get(..len).and_then(number)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
                    Err(error) => bail!("cannot read a frame from the right device: {error}"),
                }
            }
            Ends::Cards(cards) => Ok(cards.take()),
        }
    }
}

impl Cards {
    fn put(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let mut frame = self.pool.get().context("no free buffer in the pool")?;
        frame.extend(bytes).context("the frame does not fit into the buffer")?;
        let refused = self.left.tx.tx_one(frame, self.clock.now()).is_err();
        anyhow::ensure!(!refused, "the left card rejected the frame");
        Ok(())
    }

    fn take(&mut self) -> Option<u64> {
        let (mut burst, now) = (Burst::new(), self.clock.now());
        self.left.tx.poll(now); // steps the card, which works only during a call
        self.right.rx.rx_burst(&mut burst, 1, now);
        burst.as_slice().first().and_then(|frame| number(frame.bytes()))
    }
}

fn number(frame: &[u8]) -> Option<u64> {
    frame.get(HEADER..HEADER + 8)?.try_into().ok().map(u64::from_ne_bytes)
}

/// Opens a card whose register accesses cost no time, since only the wake-up of the switch is
/// measured.
fn card(name: &str, end: nic::End, pool: &Pool) -> anyhow::Result<Port> {
    let (spec, settings) =
        (Spec::parse(&format!("nic(intr=on,reg_read_ns=0,reg_write_ns=0):{name}"))?, Settings::default());
    spec.port.options().for_each(|(option, value)| settings.preset(option, value));
    Ok(nic::open(name, settings, 1500, Some(end), pool)?)
}
