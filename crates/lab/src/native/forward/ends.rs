//! The two ends of an idle switch: where one frame is put in, and where it comes out.

use super::devices::{frame, receiver, sender};
use anyhow::{Context, bail};
use buf::{Burst, Pool};
use clock::Instant;
use port::Port;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};

/// Bytes of the Ethernet header, behind which a frame has its number.
const HEADER: usize = 14;

/// Frames enter left and leave right.
pub enum Ends {
    /// Packet sockets at the kernel's side of TAP devices.
    Taps { left: File, right: File },
    /// Network cards at the far ends of wires.
    Cards { left: Port, right: Port, pool: Pool },
}

impl Ends {
    /// At the TAP devices `left` and `right`.
    pub fn taps() -> anyhow::Result<Ends> {
        Ok(Ends::Taps { left: sender("left")?, right: receiver("right")? })
    }

    /// Puts frame `number` in.
    pub fn put(&mut self, number: u64) -> anyhow::Result<()> {
        let mut bytes = frame(0, 0, 0);
        bytes[HEADER..HEADER + 8].copy_from_slice(&number.to_ne_bytes());
        match self {
            Ends::Taps { left, .. } => left.write_all(&bytes).context("a frame into the left device"),
            Ends::Cards { left, pool, .. } => {
                let mut frame = pool.get().context("a buffer")?;
                frame.extend(&bytes).context("room")?;
                let refused = left.tx.tx_one(frame, Instant::ZERO).is_err();
                anyhow::ensure!(!refused, "the left card takes no frame");
                Ok(())
            }
        }
    }

    /// Takes a frame out, if there is one; its number.
    pub fn take(&mut self) -> anyhow::Result<Option<u64>> {
        match self {
            Ends::Taps { right, .. } => {
                let mut bytes = [0; 2048];
                match right.read(&mut bytes) {
                    Ok(len) => Ok(bytes.get(..len).and_then(number)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
                    Err(error) => bail!("a frame from the right device: {error}"),
                }
            }
            Ends::Cards { left, right, .. } => {
                let mut burst = Burst::new();
                left.rx.rx_burst(&mut burst, 1, Instant::ZERO); // its card works within the calls
                burst.clear();
                right.rx.rx_burst(&mut burst, 1, Instant::ZERO);
                Ok(burst.as_slice().first().and_then(|frame| number(frame.bytes())))
            }
        }
    }
}

fn number(frame: &[u8]) -> Option<u64> {
    frame.get(HEADER..HEADER + 8)?.try_into().ok().map(u64::from_ne_bytes)
}
