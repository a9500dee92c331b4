//! `pktgen:NAME`: a source and sink of UDP frames without any I/O, like pktgenif in Antti Kantee's
//! report of 2014 (rump2014).
//!
//! The source creates frames from a template, and varies flows, destinations, rate and size as
//! configured. By default the template is a datagram from port 12345 of the peer to port 54321 of
//! the host, as in the generator of rump2014. With `id=on` each frame has its own IP identification
//! and header checksum, computed for each frame, as in that generator. With `id=off` only fields
//! that vary are changed, and checksums are updated incrementally; if no field varies, all frames
//! are copies of one template. Results state the mode. The sink counts frames and frees buffers.
//!
//! The addresses determine the address family. IPv6 has no identification and no header checksum,
//! and always has a UDP checksum (RFC 8200 8.1).

mod flow;
mod four;
mod frag;
mod generator;
mod six;
mod source;
mod template;
mod vary;

pub use flow::flow_address;
pub use source::{Family, Order, ROTATION, Source, net};

use crate::null::Nothing;
use crate::{Caps, Port, PortCounts, RxHalf, TxHalf};
use buf::{Burst, Frame, Pool};
use clock::Instant;
use generator::Generator;
use std::sync::Arc;

/// Capabilities of the generator. It has every offload of a NIC, because its frames are never
/// transmitted.
pub const CAPS: Caps = Caps { mtu: 9000, tx_ip_csum: true, tx_l4_csum: true, rx_csum: true, tso_max: 0, lro: false };

/// Opens a generator. If `source` is `None`, the port only discards frames. The buffers of `pool`
/// must be long enough for the frames of the source.
pub fn open(name: &str, source: Option<&Source>, pool: &Pool) -> Port {
    let counts = Arc::new(PortCounts::default());
    let rx: Box<dyn RxHalf> = match source {
        Some(source) => match frag::Fragments::new(source, pool, &counts) {
            Some(fragments) => Box::new(fragments),
            None => match source.family() {
                Family::V4 => Box::new(Generator::<four::Variety>::new(source.clone(), pool.clone(), counts.clone())),
                Family::V6 => Box::new(Generator::<six::Variety>::new(source.clone(), pool.clone(), counts.clone())),
            },
        },
        None => Box::new(Nothing),
    };
    Port {
        name: name.to_string(),
        spec: format!("pktgen:{name}"),
        caps: CAPS,
        rx,
        tx: Box::new(Sink { counts: counts.clone() }),
        counts,
        nic: None,
    }
}

struct Sink {
    counts: Arc<PortCounts>,
}

impl TxHalf for Sink {
    #[inline]
    fn tx_burst(&mut self, from: &mut Burst, _now: Instant) -> usize {
        let (frames, bytes) = (from.len(), from.bytes() as u64);
        self.counts.tx.frames.add(frames as u64);
        self.counts.tx.bytes.add(bytes);
        self.counts.tx.bursts.bump();
        from.clear();
        frames
    }

    #[inline]
    fn tx_one(&mut self, frame: Frame, _now: Instant) -> Result<(), Frame> {
        self.counts.tx.frames.bump();
        self.counts.tx.bytes.add(frame.len() as u64);
        self.counts.tx.bursts.bump();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
