//! The ring of blocks that a packet socket fills (TPACKET_V3).
//!
//! The kernel packs frames into a block until it is full or its time is up, and then gives it away; whoever has read all of it gives it
//! back. Blocks are filled, and so read, in turn. A block begins with `struct tpacket_block_desc`, whose status word is at byte 8.

use super::map::Map;
use super::{Failure, bind, get, open, set};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Which socket of a fanout group gets a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FanoutMode {
    /// The one of the frame's flow: a hash over addresses and L4 ports, the same for both directions.
    #[default]
    Hash,
    /// One after the other.
    Lb,
    /// The one of the processor that received it.
    Cpu,
    /// The first, until its ring is full; then the next.
    Rollover,
}

/// How a socket is to receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Blocks in the ring.
    pub blocks: u32,
    /// Bytes of a block: whole pages.
    pub block: u32,
    /// Milliseconds after which a block that has a frame is given away though it is not full; at least 1 (0: the kernel's choice).
    pub retire_ms: u32,
    /// A virtio header in front of every frame.
    pub vnet_hdr: bool,
    /// Receive also what is addressed to other stations.
    pub promisc: bool,
    /// Leave out what the interface sends.
    pub ignore_outgoing: bool,
    /// Share the interface's frames with the other sockets of this group.
    pub fanout: Option<(u16, FanoutMode)>,
}

/// How many frames the socket was to get since it was asked last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lost {
    /// Lost: no block was free.
    pub frames: u64,
    /// Times that the ring came to a stand.
    pub stands: u64,
}

/// A socket with its ring.
#[derive(Debug)]
pub struct RxRing {
    map: Map,
    socket: OwnedFd,
    block: usize,
    blocks: usize,
    /// The block that is read, or that is waited for.
    at: usize,
    held: bool,
}

/// Where a block's status word is (`hdr.bh1.block_status`).
const STATUS: usize = 8;

impl RxRing {
    /// Opens a socket on interface number `index`, with a ring. It receives from now on.
    ///
    /// # Errors
    /// The step that failed: `socket` (EPERM: no CAP_NET_RAW), `PACKET_RX_RING` (ENOMEM), `PACKET_FANOUT` (EINVAL: the group is of
    /// another kind) ...
    pub fn open(index: u32, config: &Config) -> Result<RxRing, Failure> {
        let socket = open()?;
        set(&socket, "PACKET_VERSION", libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as i32))?;
        if config.vnet_hdr {
            set(&socket, "PACKET_VNET_HDR", libc::PACKET_VNET_HDR, &1i32)?;
        }
        if config.ignore_outgoing {
            set(&socket, "PACKET_IGNORE_OUTGOING", libc::PACKET_IGNORE_OUTGOING, &1i32)?;
        }
        let frame = 2048; // of no meaning but for a count that must be right
        let request = libc::tpacket_req3 {
            tp_block_size: config.block,
            tp_block_nr: config.blocks,
            tp_frame_size: frame,
            tp_frame_nr: config.block / frame * config.blocks,
            tp_retire_blk_tov: config.retire_ms,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, "PACKET_RX_RING", libc::PACKET_RX_RING, &request)?;
        let (block, blocks) = (config.block as usize, config.blocks as usize);
        let map = Map::new(&socket, block * blocks).map_err(|error| ("mmap of PACKET_RX_RING", error))?;
        // Only now: what came before would wait in a queue that nobody reads.
        bind(socket.as_fd(), index, libc::ETH_P_ALL as u16)?;
        if config.promisc {
            let mode = libc::packet_mreq {
                mr_ifindex: index.cast_signed(),
                mr_type: libc::PACKET_MR_PROMISC as u16,
                mr_alen: 0,
                mr_address: [0; 8],
            };
            set(&socket, "PACKET_ADD_MEMBERSHIP", libc::PACKET_ADD_MEMBERSHIP, &mode)?;
        }
        if let Some((group, mode)) = config.fanout {
            set(&socket, "PACKET_FANOUT", libc::PACKET_FANOUT, &fanout(group, mode, config.ignore_outgoing))?;
        }
        Ok(RxRing { map, socket, block, blocks, at: 0, held: false })
    }

    /// Takes the next block, if the kernel has given it away; true also if it was ours already.
    #[inline]
    pub fn acquire(&mut self) -> bool {
        self.held = self.held || self.map.status(self.at * self.block + STATUS) & libc::TP_STATUS_USER != 0;
        self.held
    }

    /// The block that was taken; nothing if there is none.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        if !self.held {
            return &[];
        }
        let from = self.at * self.block;
        // SAFETY: `held`: the kernel has given this block away, and does not write to it before `release`, which needs `&mut self`.
        unsafe { self.map.bytes(from, from + self.block) }
    }

    /// Have frames been lost up to this block?
    pub fn is_losing(&self) -> bool {
        self.held && self.map.status(self.at * self.block + STATUS) & libc::TP_STATUS_LOSING != 0
    }

    /// Gives the block back and goes on to the next.
    pub fn release(&mut self) {
        if self.held {
            self.map.set_status(self.at * self.block + STATUS, libc::TP_STATUS_KERNEL);
            self.at = if self.at + 1 < self.blocks { self.at + 1 } else { 0 };
            self.held = false;
        }
    }

    /// What was lost since the last time (PACKET_STATISTICS: the kernel begins at 0 again).
    pub fn lost(&self) -> Lost {
        // struct tpacket_stats_v3: tp_packets, tp_drops, tp_freeze_q_cnt
        let [_, drops, stands]: [u32; 3] =
            get(self.socket.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS).unwrap_or_default();
        Lost { frames: drops.into(), stands: stands.into() }
    }
}

impl AsFd for RxRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// PACKET_FANOUT's word: the group, the mode, and that the group too leaves out what is sent (the socket's own option has no say there).
fn fanout(group: u16, mode: FanoutMode, ignore_outgoing: bool) -> u32 {
    let mode = match mode {
        FanoutMode::Hash => libc::PACKET_FANOUT_HASH,
        FanoutMode::Lb => libc::PACKET_FANOUT_LB,
        FanoutMode::Cpu => libc::PACKET_FANOUT_CPU,
        FanoutMode::Rollover => libc::PACKET_FANOUT_ROLLOVER,
    };
    let flags = if ignore_outgoing { libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING } else { 0 };
    u32::from(group) | (mode | flags) << 16
}

/// Opens a socket on interface number `index` without a ring: a read of its file takes a frame, and never waits. What the interface sends
/// is not received.
///
/// # Errors
/// As [`RxRing::open`].
pub fn open_plain(index: u32) -> Result<File, Failure> {
    let socket = open()?;
    set(&socket, "PACKET_IGNORE_OUTGOING", libc::PACKET_IGNORE_OUTGOING, &1i32)?;
    bind(socket.as_fd(), index, libc::ETH_P_ALL as u16)?;
    Ok(File::from(socket))
}

/// May this process open packet sockets at all?
///
/// # Errors
/// EPERM: no CAP_NET_RAW; EAFNOSUPPORT: a kernel without them.
pub fn available() -> io::Result<()> {
    open().map(drop).map_err(|(_, error)| error)
}
