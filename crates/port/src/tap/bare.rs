//! Baseline for TAP ports: writes the frames read from one TAP device to another, and does nothing
//! else.
//!
//! The baseline has a single buffer, and no pool, bursts or counters. It forwards frames of any
//! size with their virtio headers. `linerate bench bridge` compares the port with this baseline
//! (`tap.forward`).

use super::{TapConfig, TapError};
use crate::LINK_LEN;
use crate::offload::large::LARGEST;
use crate::os::tun::{self, Config, VNET_HDR_LEN};
use std::fs::File;
use std::io::{Read, Write};

/// Two TAP devices, and a buffer for frames that pass from one to the other.
#[derive(Debug)]
pub struct Bare {
    from: File,
    to: File,
    buffer: Vec<u8>,
}

/// Maximum number of frames per turn.
const BURST: usize = 64;

impl Bare {
    /// Opens a path from the device `from` to the device `to`, and creates both if necessary. Only
    /// the offloads and `up` of `config` are used.
    ///
    /// # Errors
    /// The same errors as [`super::open`].
    pub fn open(from: &str, to: &str, config: &TapConfig) -> Result<Bare, TapError> {
        let open = |name: &str| {
            let failed = |(step, error)| TapError::new(format!("tap:{name}"), step, error);
            let vnet_hdr = if config.vnet_hdr { VNET_HDR_LEN } else { 0 };
            let ask = Config { vnet_hdr, rx_csum: config.rx_csum != super::RxCsum::Off, rx_large: config.lro };
            let opened = tun::open_tap(name, ask).map_err(failed)?;
            if config.up {
                tun::set_up(name).map_err(|error| failed(("SIOCSIFFLAGS", error)))?;
            }
            Ok(opened.file)
        };
        Ok(Bare { from: open(from)?, to: open(to)?, buffer: vec![0; VNET_HDR_LEN + LARGEST + LINK_LEN] })
    }

    /// Writes up to 64 of the waiting frames to the other device. Returns their number.
    pub fn step(&mut self) -> usize {
        (0..BURST).take_while(|_| self.pass()).count()
    }

    fn pass(&mut self) -> bool {
        let Ok(len) = self.from.read(&mut self.buffer) else { return false };
        self.buffer.get(..len).is_some_and(|frame| self.to.write(frame).is_ok())
    }
}
