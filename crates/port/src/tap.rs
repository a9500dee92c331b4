//! `tap:NAME`: the kernel's TAP device of that name; what the kernel sends we receive, and the other way round.
//!
//! One read or write per frame, straight into and out of the pool's buffers. With a virtio header the two sides
//! exchange checksum work: a frame the kernel left open is closed here (or trusted, by the knob `rx_csum`), and one
//! that a host flagged `TX_L4_CSUM` is left to the kernel. Large (GSO) frames are not asked for: a buffer holds one
//! frame of the MTU. A device that is deleted while open ends the port: [`RxHalf::is_gone`], counted in
//! `port.rx.errors`.

mod error;
mod vnet;

pub use error::TapError;

use crate::offload;
use crate::os::tun::{self, Config, VNET_HDR_LEN};
use crate::{Caps, Port, PortCounts, RxHalf, TxHalf};
use buf::{Burst, Flags, Frame, Pool};
use clock::Instant;
use std::fs::File;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use wire::{Mac, eth, vlan};

/// What to do with checksums that the kernel left open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RxCsum {
    /// Close them here: right for every use.
    #[default]
    Complete,
    /// Mark them verified and leave them open (`TX_L4_CSUM`): for a host that does not pass frames on.
    Trust,
    /// Have the kernel close them, and verify them like any other.
    Off,
}

/// How the device is to be.
#[derive(Clone, Debug)]
pub struct TapConfig {
    /// Exchange a virtio header with the kernel; without one there are no offloads.
    pub vnet_hdr: bool,
    /// Received open checksums.
    pub rx_csum: RxCsum,
    /// Leave checksums of sent frames to the kernel.
    pub tx_csum: bool,
    /// Set the device's MTU.
    pub mtu: Option<u16>,
    /// Set the MAC address of the kernel's side.
    pub mac: Option<Mac>,
    /// Bring the kernel's side up.
    pub up: bool,
}

impl Default for TapConfig {
    fn default() -> TapConfig {
        TapConfig { vnet_hdr: true, rx_csum: RxCsum::Complete, tx_csum: true, mtu: None, mac: None, up: false }
    }
}

/// Bytes of frame around a packet: an Ethernet header and one VLAN tag.
const AROUND: usize = eth::HEADER_LEN + vlan::TAG_LEN;

/// Opens the device, made if there is none (it then goes when the port is dropped).
///
/// # Errors
/// See [`TapError`]: no /dev/net/tun, no permission, in use, buffers smaller than the MTU.
pub fn open(name: &str, config: &TapConfig, pool: &Pool) -> Result<Port, TapError> {
    let vnet_hdr = if config.vnet_hdr { VNET_HDR_LEN } else { 0 };
    let ask = Config { vnet_hdr, rx_csum: config.vnet_hdr && config.rx_csum != RxCsum::Off };
    let (file, name) = tun::open_tap(name, ask).map_err(|(step, error)| TapError::new(name, step, error))?;
    let failed = |step: &'static str| {
        let name = name.clone();
        move |error| TapError::new(&name, step, error)
    };
    if let Some(mtu) = config.mtu {
        tun::set_mtu(&name, u32::from(mtu)).map_err(failed("SIOCSIFMTU"))?;
    }
    if let Some(mac) = config.mac {
        tun::set_mac(&name, mac).map_err(failed("SIOCSIFHWADDR"))?;
    }
    if config.up {
        tun::set_up(&name).map_err(failed("SIOCSIFFLAGS"))?;
    }
    let mtu = tun::mtu(&name).map_err(failed("SIOCGIFMTU"))?;
    let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
    let (need, have) = (usize::from(mtu) + AROUND, pool.size() - pool.headroom());
    if need > have {
        return Err(TapError::SmallBuffers { name, need, have });
    }
    let caps = Caps {
        mtu,
        tx_ip_csum: false, // a frame that asks for it gets it, in software
        tx_l4_csum: config.vnet_hdr && config.tx_csum,
        rx_csum: ask.rx_csum,
        tso_max: 0,
    };
    let (file, counts) = (Arc::new(file), Arc::new(PortCounts::default()));
    Ok(Port {
        spec: format!("tap:{name}"),
        name,
        caps,
        rx: Box::new(TapRx {
            file: file.clone(),
            pool: pool.clone(),
            counts: counts.clone(),
            vnet_hdr,
            trust: config.rx_csum == RxCsum::Trust,
            gone: None,
        }),
        tx: Box::new(TapTx { file, counts: counts.clone(), vnet_hdr, longest: need, csum: caps.tx_l4_csum }),
        counts,
    })
}

struct TapRx {
    file: Arc<File>,
    pool: Pool,
    counts: Arc<PortCounts>,
    vnet_hdr: usize,
    trust: bool,
    gone: Option<std::io::Error>,
}

/// What one read gave.
enum Got {
    Frame(Frame),
    /// A frame that was no good, dropped.
    Malformed,
    /// Nothing more now.
    Empty,
}

impl TapRx {
    fn read(&mut self) -> Got {
        let Some(mut frame) = self.pool.get() else {
            self.counts.rx.no_buffer.bump();
            return Got::Empty;
        };
        let mut header = [0; VNET_HDR_LEN];
        // The kernel cuts a frame that is too long without a word: the byte behind the buffer tells.
        let mut beyond = [0];
        let room = frame.tailroom();
        let Some(data) = frame.append(room) else { return Got::Empty };
        let len = loop {
            let header = IoSliceMut::new(header.get_mut(..self.vnet_hdr).unwrap_or_default());
            let mut parts = [header, IoSliceMut::new(&mut *data), IoSliceMut::new(&mut beyond)];
            match (&*self.file).read_vectored(&mut parts) {
                Ok(len) => break len,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    if error.kind() != ErrorKind::WouldBlock {
                        self.counts.rx.errors.bump();
                        self.gone = Some(error);
                    }
                    return Got::Empty;
                }
            }
        };
        let len = len.saturating_sub(self.vnet_hdr);
        frame.truncate(len);
        let good =
            (eth::HEADER_LEN..=room).contains(&len) && (self.vnet_hdr == 0 || self.understand(&mut frame, &header));
        if good { Got::Frame(frame) } else { Got::Malformed }
    }

    /// Does and notes what the virtio header says; `false`: it makes no sense.
    fn understand(&self, frame: &mut Frame, header: &[u8; VNET_HDR_LEN]) -> bool {
        let header = vnet::Header::parse(header);
        if header.gso_type != vnet::GSO_NONE {
            return false; // never asked for
        }
        if header.flags & vnet::NEEDS_CSUM != 0 {
            let start = usize::from(header.csum_start);
            let field = start + usize::from(header.csum_offset);
            let place = offload::L4Place { start, field, end: frame.len() };
            if field + 2 > frame.len() {
                return false;
            }
            if self.trust {
                frame.set_flags(frame.flags().with(Flags::TX_L4_CSUM));
            } else if !frame.make_own() || offload::complete_l4(frame.bytes_mut(), place).is_none() {
                return false;
            }
        }
        if header.flags & (vnet::NEEDS_CSUM | vnet::DATA_VALID) != 0 {
            // The IPv4 header's checksum is not spoken of (virtio 1.2, 5.1.6.4): a bridged frame's may be wrong.
            frame.set_flags(frame.flags().with(Flags::RX_L4_OK));
        }
        true
    }
}

impl RxHalf for TapRx {
    fn rx_burst(&mut self, into: &mut Burst, most: usize, _now: Instant) -> usize {
        let (mut frames, mut bytes) = (0, 0);
        let most = if self.gone.is_some() { 0 } else { most.min(into.room()) };
        while frames < most {
            match self.read() {
                Got::Frame(frame) => {
                    frames += 1;
                    bytes += frame.len() as u64;
                    // `most` was limited to the room: the push cannot fail.
                    drop(into.push(frame));
                }
                Got::Malformed => self.counts.rx.malformed.bump(),
                Got::Empty => break,
            }
        }
        self.counts.rx.frames.add(frames as u64);
        self.counts.rx.bytes.add(bytes);
        self.counts.rx.idle.add(u64::from(frames == 0));
        frames
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        self.gone.is_none().then(|| self.file.as_fd())
    }

    fn is_gone(&self) -> bool {
        self.gone.is_some()
    }

    fn why_gone(&self) -> Option<String> {
        self.gone.as_ref().map(|error| format!("the TAP device is gone: {error}"))
    }
}

struct TapTx {
    file: Arc<File>,
    counts: Arc<PortCounts>,
    vnet_hdr: usize,
    longest: usize,
    csum: bool,
}

/// What became of one frame.
enum Sent {
    Yes(usize),
    /// Dropped: too long for the device.
    TooLarge,
    /// Dropped: asks for work that its headers do not allow.
    Malformed,
    /// Dropped: the device failed.
    Error,
    /// The device takes no more now.
    Full,
}

impl TapTx {
    fn write(&self, frame: &mut Frame) -> Sent {
        if frame.len() > self.longest {
            return Sent::TooLarge;
        }
        let Some(header) = self.prepare(frame) else { return Sent::Malformed };
        let header = header.emit();
        let parts = [IoSlice::new(header.get(..self.vnet_hdr).unwrap_or_default()), IoSlice::new(frame.bytes())];
        loop {
            return match (&*self.file).write_vectored(&parts) {
                Ok(_) => Sent::Yes(frame.len()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => Sent::Full,
                Err(_) => Sent::Error,
            };
        }
    }

    /// Does the checksum work that is ours, and says in the header what is the kernel's.
    fn prepare(&self, frame: &mut Frame) -> Option<vnet::Header> {
        let l4 = frame.flags().has(Flags::TX_L4_CSUM);
        if !self.csum || !l4 {
            offload::complete(frame)?;
            return Some(vnet::Header::NONE);
        }
        if frame.flags().has(Flags::TX_IP_CSUM) {
            offload::fill_ip(frame.bytes_mut())?;
            frame.set_flags(frame.flags().without(Flags::TX_IP_CSUM));
        }
        let place = offload::l4_place(frame.bytes())?;
        // What lies behind the packet would be summed too: Ethernet padding is cut off.
        frame.truncate(place.end);
        Some(vnet::Header {
            flags: vnet::NEEDS_CSUM,
            csum_start: place.start as u16, // a frame's headers lie within its first 64 KiB: `longest`
            csum_offset: (place.field - place.start) as u16,
            ..vnet::Header::NONE
        })
    }
}

impl TxHalf for TapTx {
    fn tx_burst(&mut self, from: &mut Burst, _now: Instant) -> usize {
        let (mut taken, mut frames, mut bytes) = (0, 0, 0);
        let tx = &self.counts.tx;
        while let Some(frame) = from.as_mut_slice().first_mut() {
            match self.write(frame) {
                Sent::Yes(len) => (frames, bytes) = (frames + 1, bytes + len as u64),
                Sent::TooLarge => tx.too_large.bump(),
                Sent::Malformed => tx.malformed.bump(),
                Sent::Error => tx.errors.bump(),
                Sent::Full => break,
            }
            drop(from.pop());
            taken += 1;
        }
        tx.frames.add(frames);
        tx.bytes.add(bytes);
        tx.bursts.add(u64::from(taken > 0));
        taken
    }
}

#[cfg(test)]
mod tests;
