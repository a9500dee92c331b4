//! Configuration of a packet port, and of its sockets.

use crate::offload::RxCsum;
use crate::os::packet as os;
use crate::os::packet::rx::FanoutMode;
use crate::os::tun::VNET_HDR_LEN;

/// Minimum size of a slot in bytes: a frame with an MTU of 1500 bytes, and its headers.
pub(super) const SLOT_MIN: usize = 2048;
/// Maximum size of a slot in bytes. A longer frame requires a separate system call.
const SLOT_MAX: usize = 16_384;
/// Maximum size of a slot in bytes if longer frames cannot be read separately. It is enough for the
/// largest packet.
const SLOT_LONGEST: usize = 131_072;

/// Configuration of a packet port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PacketConfig {
    /// Number of slots in the receive ring, rounded up to a power of two: 64 to 65,536. Each slot
    /// holds a frame of the MTU.
    pub rx_ring: u32,
    /// Number of slots in the transmit ring, rounded up to a power of two: 64 to 4096.
    pub tx_ring: u32,
    /// Number and mode of the fanout group, whose ports share the interface's frames; `None` if the
    /// port is in no group.
    pub fanout: Option<(u16, FanoutMode)>,
    /// True to also receive frames addressed to other stations.
    pub promisc: bool,
    /// True to pass frames directly to the driver, bypassing the interface's queueing discipline.
    pub qdisc_bypass: bool,
    /// True to ignore frames that the interface sends.
    pub ignore_outgoing: bool,
    /// True to exchange a virtio header with the kernel. Without it there are no offloads, and
    /// large segments are lost.
    pub vnet_hdr: bool,
    /// Handling of open checksums in received frames. [`RxCsum::Off`] has the same effect as
    /// [`RxCsum::Complete`], because the kernel cannot complete them.
    pub rx_csum: RxCsum,
    /// True to leave checksums of sent frames to the kernel; requires `vnet_hdr`.
    pub tx_csum: bool,
    /// True to send large segments unsplit; requires `tx_csum`.
    pub tso: bool,
    /// True to receive large segments unsplit. Otherwise they are split on receipt.
    pub lro: bool,
}

impl Default for PacketConfig {
    fn default() -> PacketConfig {
        PacketConfig {
            rx_ring: 4096,
            tx_ring: 512,
            fanout: None,
            promisc: true,
            qdisc_bypass: true,
            ignore_outgoing: true,
            vnet_hdr: true,
            rx_csum: RxCsum::default(),
            tx_csum: true,
            tso: true,
            lro: true,
        }
    }
}

impl PacketConfig {
    /// Returns the configuration of the receiving socket, for frames of `longest` bytes.
    pub(super) fn rx(&self, longest: usize) -> os::rx::Config {
        let most = if self.vnet_hdr { SLOT_MAX } else { SLOT_LONGEST };
        let slot = (os::rx::FRONT + longest).next_power_of_two().clamp(SLOT_MIN, most);
        os::rx::Config {
            slots: self.rx_ring.clamp(64, 65_536).next_power_of_two(),
            slot: slot as u32, // within SLOT_LONGEST
            queue_long: self.vnet_hdr,
            vnet_hdr: self.vnet_hdr,
            promisc: self.promisc,
            ignore_outgoing: self.ignore_outgoing,
            fanout: self.fanout,
        }
    }

    /// Returns the configuration of the sending socket, for frames of `longest` bytes.
    pub(super) fn tx(&self, longest: usize) -> os::tx::Config {
        let slot = (os::tx::DATA + VNET_HDR_LEN + longest).next_power_of_two().clamp(SLOT_MIN, SLOT_MAX);
        os::tx::Config {
            slots: self.tx_ring.clamp(64, 4096).next_power_of_two(),
            slot: slot as u32, // within SLOT_MAX
            vnet_hdr: self.vnet_hdr,
            qdisc_bypass: self.qdisc_bypass,
        }
    }
}
