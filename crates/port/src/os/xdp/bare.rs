//! The rings of an AF_XDP socket without frames and without a pool: a loop through which buffer
//! addresses cycle. The difference between a port and this loop is the cost of the port.
//!
//! A buffer is put into the fill ring and comes back with a frame. The frame's two MAC addresses
//! are swapped, and the buffer is put into the transmit ring. It comes back through the completion
//! ring, and starts again.

use super::frames::open_patiently;
use super::{Ask, CHUNK_MIN, Failure, Memory, Queue, wake_rx, wake_tx};
use buf::mem::{Pages, Region};
use std::os::fd::{AsFd, BorrowedFd};

/// Number of buffers, as many as in a default pool.
const BUFFERS: usize = 4096;

/// A loop over one queue, with its own memory.
pub struct Circle {
    // Field order: the rings are unmapped and the socket is closed before the memory is freed.
    queue: Queue,
    region: Region,
    /// Addresses of free buffers.
    free: Vec<u64>,
    always: bool,
    fill: usize,
}

impl Circle {
    /// Opens the queue and gives the kernel `fill` buffers to be filled.
    ///
    /// # Errors
    /// The failed step and its error.
    pub fn open(ask: &Ask, fill: usize) -> Result<Circle, Failure> {
        let region = Region::map(BUFFERS * CHUNK_MIN, Pages::Small).map_err(|error| ("mmap", error))?;
        let len = BUFFERS * CHUNK_MIN;
        let memory = Memory { base: region.base(), len, chunk: CHUNK_MIN, headroom: 0, unaligned: false };
        // SAFETY: the region outlives the socket and its rings (field order), and a buffer is
        // accessed only while this process owns it according to the rings.
        let queue = unsafe { open_patiently(&memory, ask) }?;
        let free = (0..BUFFERS).map(|i| (i * CHUNK_MIN) as u64).collect();
        let mut circle = Circle { queue, region, free, always: ask.wakeup == super::Wakeup::Always, fill: 0 };
        circle.fill = fill;
        circle.refill(fill);
        Ok(circle)
    }

    /// Returns the socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.queue.socket.as_fd()
    }

    fn refill(&mut self, n: usize) {
        let n = (self.queue.fill.room(n as u32) as usize).min(n);
        for _ in 0..n {
            let Some(address) = self.free.pop() else { break };
            self.queue.fill.write(address);
        }
        self.queue.fill.publish();
        if self.queue.fill.wants_wakeup() {
            wake_rx(self.queue.socket.as_fd());
        }
    }

    /// Sends up to `most` received frames back. Returns their number.
    pub fn turn(&mut self, most: usize) -> usize {
        while let Some(address) = self.queue.done.read() {
            self.free.push(address & !(CHUNK_MIN as u64 - 1));
        }
        self.queue.done.release();
        let room = (self.queue.tx.room(most as u32) as usize).min(most);
        let mut came = 0;
        while came < room {
            let Some(desc) = self.queue.rx.read() else { break };
            self.swap(desc);
            self.queue.tx.write(libc::xdp_desc { options: 0, ..desc });
            came += 1;
        }
        self.queue.rx.release();
        self.kick();
        self.refill(came);
        came
    }

    fn kick(&mut self) {
        self.queue.tx.publish();
        if !self.always && !self.queue.tx.wants_wakeup() {
            return;
        }
        let mut waiting = self.queue.tx.waiting();
        while waiting > 0 {
            let _ = wake_tx(self.queue.socket.as_fd());
            let left = self.queue.tx.waiting();
            if left >= waiting {
                break;
            }
            waiting = left;
        }
    }

    fn swap(&self, desc: libc::xdp_desc) {
        let (at, len) = (desc.addr as usize, desc.len as usize);
        if len < 12 || at + len > BUFFERS * CHUNK_MIN {
            return;
        }
        // SAFETY: the buffer is inside the region, and the kernel has returned it, so nothing else
        // uses it now.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.region.base().as_ptr().add(at), len) };
        super::swap_macs(bytes);
    }
}
