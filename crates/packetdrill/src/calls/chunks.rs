//! Send buffer accounting of stream sockets, as in Linux.
//!
//! A chunk corresponds to one `struct sk_buff` of Linux. The send buffer is checked when a chunk
//! begins, not for each byte. A chunk of at most half the largest window that the peer has
//! advertised is accepted as a whole, and so is data that completes the previous chunk. The
//! overhead of each chunk is part of the used space. `TCP_NOTSENT_LOWAT` is also checked when a
//! chunk begins. (Linux: tcp_sendmsg, tcp_send_mss, sk_stream_memory_free.)

use super::{Done, raw};
use crate::door::State;
use inet::tcp::SOCK_BIT;
use libc::c_int;
use socket::{Opt, SendFlags};
use tcp::Tail;

/// Maximum number of bytes of a chunk: one large segment for a port with TSO.
const MOST: usize = 65_536 - 320;
/// Overhead of a chunk in bytes (struct sk_buff, doubled for a clone, and space for headers).
const COST: usize = 1280;
/// Size of the stack's own send queue in bytes. It is so large that it never limits a writer.
pub(crate) const QUEUE: usize = 64 << 20;

/// Data that the stack has accepted, and limits for the next chunk, all in bytes.
struct Held {
    queued: usize,
    not_sent: usize,
    goal: usize,
    half_window: usize,
}

impl State {
    fn held(&self, id: usize) -> Done<Held> {
        let held = |sock: &mut inet::tcp::Sock<lock::Light>| {
            let Some(tcb) = sock.tcb() else { return Held { queued: 0, not_sent: 0, goal: 1, half_window: 0 } };
            let (window, mss) = (tcb.max_window() as usize, usize::from(tcb.mss()).max(1));
            let half = if window > 536 { window / 2 } else { window };
            let goal = (MOST.min(half.max(68)) / mss * mss).max(mss);
            Held { queued: sock.queues().1, not_sent: tcb.not_sent() as usize, goal, half_window: window / 2 }
        };
        self.host.stack.with_sock(self.host.cx(), id, held).ok_or(libc::EBADF)
    }

    /// Returns the send buffer size that `SO_SNDBUF` reports.
    pub fn send_buffer(&self, token: c_int) -> Done<usize> {
        let socket = self.files.get(token)?;
        let first = self.host.stack.sysctls.tcp_sendspace.get() as usize;
        Ok(socket.send_buffer.unwrap_or(socket.grown.max(first)))
    }

    /// Grows a send buffer of default size to two windows, if a writer waits and the congestion
    /// window has space (Linux: tcp_new_space, tcp_sndbuf_expand).
    fn grow(&mut self, token: c_int) -> Done<()> {
        let most = self.host.stack.sysctls.tcp_sendspace_max.get() as usize;
        let socket = self.files.get(token)?;
        if !socket.no_space || socket.send_buffer.is_some() {
            return Ok(());
        }
        let Ok(info) = self.host.calls().tcp_info(socket.fd) else { return Ok(()) };
        if info.unacked < info.snd_cwnd {
            // The data buffer of a segment is rounded up to a power of two, to which the size of
            // its descriptor is added.
            let per_segment = (info.snd_mss as usize + 640).next_power_of_two() + 256;
            let wanted = (2 * info.snd_cwnd.max(10) as usize * per_segment).min(most);
            let socket = self.files.socket(token)?;
            socket.grown = socket.grown.max(wanted);
        }
        Ok(())
    }

    fn cost(held: &Held) -> usize {
        held.queued + COST * held.queued.div_ceil(held.goal.max(1))
    }

    /// Returns whether a new chunk may begin.
    fn is_free(&self, token: c_int, held: &Held) -> Done<bool> {
        let low = self.files.get(token)?.lowat.unwrap_or(self.lowat) as usize;
        Ok(State::cost(held) < self.send_buffer(token)? && held.not_sent < low)
    }

    /// Returns whether there is enough space to wake a writer: a third of the buffer, and half of
    /// the limit on unsent data.
    pub fn is_roomy(&mut self, token: c_int, id: usize) -> Done<bool> {
        self.grow(token)?;
        let held = self.held(id)?;
        let socket = self.files.get(token)?;
        let (cost, low) = (State::cost(&held), socket.lowat.unwrap_or(self.lowat) as usize);
        Ok(self.send_buffer(token)?.saturating_sub(cost) >= cost / 2 && held.not_sent * 2 < low)
    }

    /// Returns whether a writer waits and there is still too little space to wake it.
    pub fn is_starved(&mut self, token: c_int) -> bool {
        let Ok(socket) = self.files.get(token) else { return false };
        socket.no_space && self.is_roomy(token, socket.fd.0 & !SOCK_BIT) == Ok(false)
    }

    /// Accepts as many of `bytes` as fit the send buffer. Returns their number.
    pub fn send_chunks(&mut self, token: c_int, bytes: &[u8], flags: c_int) -> Done<usize> {
        let id = self.files.get(token)?.fd.0 & !SOCK_BIT;
        let last_tail = match flags {
            _ if flags & libc::MSG_MORE != 0 => Tail::More,
            _ if flags & libc::MSG_EOR != 0 => Tail::Record,
            _ => Tail::Push,
        };
        if bytes.is_empty() || flags & libc::MSG_OOB != 0 {
            let how = SendFlags { oob: flags & libc::MSG_OOB != 0, dont_wait: true, ..SendFlags::default() };
            return self.host.calls().send_flags(self.files.get(token)?.fd, bytes, how).map_err(raw);
        }
        self.grow(token)?;
        let mut sent = 0;
        while sent < bytes.len() {
            let held = self.held(id)?;
            let socket = self.files.get(token)?;
            let tail = socket.tail.min(held.not_sent);
            let mut room = if tail == 0 { 0 } else { held.goal.saturating_sub(tail) };
            let mut before = tail;
            if room == 0 {
                if !self.is_free(token, &held)? {
                    return self.wait_for_room(token, id, sent);
                }
                (room, before) = (held.goal, 0);
            }
            let n = room.min(bytes.len() - sent);
            let unpushed = socket.unpushed + n;
            let forced = unpushed > held.half_window;
            let how = match sent + n == bytes.len() {
                true if last_tail == Tail::More && forced => Tail::Push,
                true => last_tail,
                false if before + n == held.goal && forced => Tail::Record,
                false => Tail::Part,
            };
            let piece = bytes.get(sent..sent + n).unwrap_or_default();
            let took = match self.host.stack.tcp_send_as(self.host.cx(), id, piece, how) {
                Ok(took) => took,
                Err(_) if sent > 0 => return Ok(sent), // the next call reports it
                Err(error) => return Err(raw(error.into())),
            };
            sent += took;
            let socket = self.files.socket(token)?;
            socket.tail = before + took;
            socket.unpushed = if matches!(how, Tail::Push | Tail::Record) { 0 } else { unpushed };
            // The end of a record also ends the chunk.
            if how == Tail::Record {
                socket.tail = held.goal;
            }
        }
        Ok(sent)
    }

    /// Pushes the accepted data and registers the writer for a notification, when no new chunk may
    /// begin.
    fn wait_for_room(&mut self, token: c_int, id: usize, sent: usize) -> Done<usize> {
        let cx = self.host.cx();
        if sent > 0 {
            // An empty send cannot fail.
            let _ = self.host.stack.tcp_send_as(cx, id, &[], Tail::Push);
            self.files.socket(token)?.unpushed = 0;
        }
        self.host.stack.tcp_writer_waits(cx, id);
        self.files.socket(token)?.no_space = true;
        if sent > 0 { Ok(sent) } else { Err(libc::EAGAIN) }
    }
}

/// Socket option that removes the limit of the stack's own send queue.
pub(crate) const UNLIMITED: Opt = Opt::SendBuffer(QUEUE);
