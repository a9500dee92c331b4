//! Calls of the socket layer with BSD's semantics. None of them blocks.

use super::charge::{MemoryWait, Shortage};
use super::net::Net;
use super::options::configured;
use super::output::{IpOptions, Over};
use super::queue::Sizes;
use super::{CONFIGS_MAX, Configs, Kind, ListenConfigs, Listening, Options, Sock, Stream, TcpError, mss_of};
use crate::Stack;
use crate::ends::{Domain, SockEnds};
use crate::iface::AtOnce;
use crate::iface::IfaceKind;
use crate::prefixes::AnyPrefix;
use crate::ready::ReadySet;
use crate::sysctls::{Sysctl, Sysctls};
use ::tcp::cc::Algorithm;
use ::tcp::listen::{CookieMode, Limits, Listener};
use ::tcp::{Config, EcnMode, Tail};
use buf::Frame;
use clock::{Duration, Instant};
use lock::{Cx, Locks};
use stats::Stage;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use wire::L4Port;

/// Minimum size of a write, in segments, that begins a new buffer of the send queue. With shorter
/// writes, partly filled buffers would exhaust the pool.
const ALIGNED: usize = 4;

/// Minimum number of bytes for which a large buffer of 64 KiB is used, so that at least a quarter
/// of it is filled.
const WORTH_LARGE: usize = 16 << 10;

/// `SO_LINGER`: maximum time that `close` waits until the peer has acknowledged all data. With
/// `None`, `close` does not wait, and the data is still sent.
pub type Linger = Option<Duration>;

impl<L: Locks> Sock<L> {
    /// Applies the socket options to the connection. Called when the connection begins and when an
    /// option changes.
    pub(super) fn apply_options(&mut self, sysctls: &Sysctls, now: Instant) {
        let options = self.options.as_deref().unwrap_or(&super::NO_OPTIONS);
        let Kind::Stream(stream) = &mut self.kind else { return };
        let tcb = &mut stream.tcb;
        tcb.set_nodelay(options.nodelay);
        tcb.set_cork(options.cork);
        stream.dirty = true;
        let ms = |sysctl: &Sysctl| Duration::from_millis(sysctl.get() as u64);
        let times = (options.keep_idle, options.keep_interval, options.keep_count);
        let times = match times {
            (None, None, None) => None,
            (idle, interval, count) => Some((
                idle.unwrap_or(ms(&sysctls.tcp_keepidle)),
                interval.unwrap_or(ms(&sysctls.tcp_keepintvl)),
                count.unwrap_or(sysctls.tcp_keepcnt.get() as u8),
            )),
        };
        let rare = options.rare_set || times.is_some();
        if options.keepalive || rare {
            tcb.set_keepalive(options.keepalive, times, now);
        }
        if options.user_timeout.is_some() || rare {
            tcb.set_user_timeout(options.user_timeout);
        }
        if let Some(bytes) = options.notsent_lowat {
            tcb.set_notsent_lowat(Some(bytes).filter(|bytes| !matches!(*bytes, 0 | u32::MAX)));
        }
        if let Some(mss) = options.maxseg {
            tcb.set_maxseg(mss);
        }
        if let Some(space) = options.recv_space {
            tcb.set_recv_space(space, false);
        }
        if let Some(space) = options.send_space {
            stream.send.set_space(space);
        }
    }
}

impl<L: Locks> Stack<L> {
    /// Opens a TCP socket. Returns its number, or `None` if there are too many sockets.
    pub fn tcp_open(&self, cx: Cx, domain: Domain) -> Option<usize> {
        let mut sock = Sock::new(Kind::Fresh, domain);
        if domain == Domain::Inet6 && self.sysctls.v6only.on() {
            sock.options = self.tcp.shared_options(cx, Options { v6only: true, ..Options::NONE });
        }
        self.tcp.socks.insert(cx, sock)
    }

    /// Runs `f` on socket `id`. Returns `None` if the socket does not exist or was closed.
    pub fn with_sock<R>(&self, cx: Cx, id: usize, f: impl FnOnce(&mut Sock<L>) -> R) -> Option<R> {
        self.tcp.socks.get(id)?.lock(cx).as_mut().filter(|sock| !sock.orphan).map(f)
    }

    /// Runs `f` on every socket, including those that the process has closed.
    pub fn for_each_sock(&self, cx: Cx, f: impl FnMut(usize, &mut Sock<L>)) {
        self.tcp.socks.for_each(cx, f);
    }

    /// Returns the number of connections in TIME-WAIT.
    pub fn tcp_time_wait_count(&self, cx: Cx) -> usize {
        self.tcp.late.lock(cx).len()
    }

    /// Runs `f` on socket `id`, then sends the segments that result.
    pub(super) fn act<R>(
        &self,
        cx: Cx,
        id: usize,
        f: impl FnOnce(&mut Sock<L>) -> Result<R, TcpError>,
    ) -> Result<R, TcpError> {
        let lap = self.lap(cx);
        let mut slot = self.tcp.socks.get(id).ok_or(TcpError::NoSocket)?.lock(cx);
        let sock = slot.as_mut().filter(|sock| !sock.orphan).ok_or(TcpError::NoSocket)?;
        let cx = match &mut sock.kind {
            Kind::Stream(stream) => stream.on_time(cx),
            _ => cx,
        };
        let result = f(sock);
        self.tcp_charge(sock);
        let over = self.tcp_output(cx, id, sock, AtOnce::Yes);
        drop(slot);
        self.tcp_free(cx, id, over);
        lap.mark(Stage::Socket, 1);
        result
    }

    /// Changes options of socket `id`.
    ///
    /// # Errors
    /// [`TcpError::NoSocket`].
    pub fn tcp_set_options(&self, cx: Cx, id: usize, change: impl FnOnce(&mut Options)) -> Result<(), TcpError> {
        self.act(cx, id, |sock| {
            let mut options = sock.options().clone();
            change(&mut options);
            options.rare_set |= options.keepalive || options.user_timeout.is_some();
            let flush = std::mem::take(&mut options.flush);
            sock.options = self.tcp.shared_options(cx, options);
            sock.apply_options(&self.sysctls, cx.now);
            if let Kind::Stream(stream) = &mut sock.kind
                && flush
            {
                stream.tcb.flush();
            }
            if let Kind::Listening(listening) = &mut sock.kind {
                // Future connections inherit the listener's current options.
                let options = sock.options.as_deref().unwrap_or(&super::NO_OPTIONS);
                listening.configs = self.tcp_listen_configs(cx, options);
                listening.inherited = self.tcp.inherited_options(cx, sock.options.as_ref());
            }
            if let Some(algorithm) = sock.options().congestion
                && let Kind::Stream(stream) = &mut sock.kind
                && stream.tcb.info(cx.now).congestion != algorithm.name()
            {
                stream.tcb.set_congestion(algorithm);
            }
            Ok(())
        })
    }

    /// Makes socket `id` listen with a queue of up to `backlog` connections. If the socket is
    /// already listening, changes the backlog.
    ///
    /// # Errors
    /// [`TcpError`] if the socket cannot listen.
    pub fn tcp_listen(&self, cx: Cx, id: usize, backlog: u32) -> Result<(), TcpError> {
        self.tcp_listen_on(cx, id, backlog, AnyPrefix::All)
    }

    /// Makes socket `id` listen as [`Stack::tcp_listen`] does. If the socket is bound to any port,
    /// it accepts only connections to the addresses of `prefix`.
    ///
    /// # Errors
    /// [`TcpError`] if the socket cannot listen.
    #[inline(never)]
    pub fn tcp_listen_on(&self, cx: Cx, id: usize, backlog: u32, prefix: AnyPrefix) -> Result<(), TcpError> {
        let state = |sock: &mut Sock<L>| (sock.is_bound(), matches!(sock.kind, Kind::Fresh), sock.is_listening());
        let (bound, fresh, listens) = self.with_sock(cx, id, state).ok_or(TcpError::NoSocket)?;
        if !fresh && !listens {
            return Err(TcpError::Already);
        }
        if !bound {
            let domain = self.with_sock(cx, id, |sock| sock.domain()).ok_or(TcpError::NoSocket)?;
            let mut addr = domain.unspecified();
            // Selects a port that is free on any address. Unlike with `bind`, port 0 does not mean
            // any port, even with IP_BINDANY.
            addr.set_port(self.tcp_ephemeral(cx, domain.any(false, L4Port(0)).tuple())?.0);
            self.tcp_bind(cx, id, addr)?;
        }
        if fresh {
            let ends = self.with_sock(cx, id, |sock| sock.ends()).ok_or(TcpError::NoSocket)?;
            self.tcp_may_listen(cx, id, ends, prefix)?;
        }
        let sysctls = &self.sysctls;
        let cookies = match sysctls.tcp_syncookies.get() {
            0 => CookieMode::Never,
            1 => CookieMode::WhenFull,
            _ => CookieMode::Always,
        };
        let backlog = backlog.min(sysctls.tcp_somaxconn.get() as u32);
        let limits = Limits { backlog, syn_queue: sysctls.tcp_syncache.get() as u32, cookies };
        let ends = self.act(cx, id, |sock| match &mut sock.kind {
            Kind::Listening(listening) => {
                listening.listener.set_limits(limits);
                Ok(None)
            }
            Kind::Stream(_) => Err(TcpError::Already),
            Kind::Fresh => {
                let listener = Listener::new(limits, self.tcp.secret);
                let configs = self.tcp_listen_configs(cx, sock.options());
                let ready = VecDeque::new();
                let inherited = self.tcp.inherited_options(cx, sock.options.as_ref());
                let listening = Listening { listener, configs, ready, inherited, held: None, armed: Instant::NEVER };
                sock.kind = Kind::Listening(Box::new(listening));
                Ok(Some(sock.ends()))
            }
        })?;
        if let Some(ends) = ends.filter(|ends| ends.tuple().local_port.0 != 0) {
            ends.tuples().for_each(|tuple| self.tcp.demux.insert(cx, &tuple, id));
        }
        Ok(())
    }

    /// Removes a connection from the accept queue. Returns its socket and the peer's address.
    ///
    /// # Errors
    /// [`TcpError::WouldBlock`] if the queue is empty; [`TcpError::NotListening`].
    pub fn tcp_accept(&self, cx: Cx, id: usize) -> Result<(usize, SocketAddr), TcpError> {
        loop {
            let child = self.act(cx, id, |sock| match &mut sock.kind {
                Kind::Listening(listening) => {
                    let child = listening.ready.pop_front().ok_or(TcpError::WouldBlock)?;
                    listening.listener.on_accepted();
                    Ok(child)
                }
                _ => Err(TcpError::NotListening),
            })?;
            // A connection that was reset in the meantime is also returned, as in Linux. Its first
            // read returns the error.
            if let Some(peer) = self.with_sock(cx, child, |sock| sock.peer_addr()) {
                return Ok((child, peer));
            }
        }
    }

    /// Queues as many of `bytes` for sending as fit into the send buffer. Returns the number of
    /// bytes queued.
    ///
    /// # Errors
    /// [`TcpError::WouldBlock`] without space or memory, [`TcpError::Shut`] after a shutdown, or
    /// the failure of the connection.
    #[inline]
    pub fn tcp_send(&self, cx: Cx, id: usize, bytes: &[u8], push: bool) -> Result<usize, TcpError> {
        self.tcp_send_marked(cx, id, bytes, if push { Tail::Push } else { Tail::More }, false)
    }

    /// Queues data as [`Stack::tcp_send`] does. `tail` specifies the unit that ends with the last
    /// byte, for example a record.
    ///
    /// # Errors
    /// Those of [`Stack::tcp_send`].
    pub fn tcp_send_as(&self, cx: Cx, id: usize, bytes: &[u8], tail: Tail) -> Result<usize, TcpError> {
        self.tcp_send_marked(cx, id, bytes, tail, false)
    }

    /// Queues data as [`Stack::tcp_send`] does, and marks the last byte as urgent.
    ///
    /// # Errors
    /// Those of [`Stack::tcp_send`].
    pub fn tcp_send_urgent(&self, cx: Cx, id: usize, bytes: &[u8]) -> Result<usize, TcpError> {
        self.tcp_send_marked(cx, id, bytes, Tail::Push, true)
    }

    #[inline]
    fn tcp_send_marked(&self, cx: Cx, id: usize, bytes: &[u8], tail: Tail, urgent: bool) -> Result<usize, TcpError> {
        self.act(cx, id, |sock| {
            if let Some(error) = sock.take_error() {
                return Err(error);
            }
            let fixed = sock.options.as_ref().is_some_and(|options| options.send_space.is_some());
            if bytes.len() >= WORTH_LARGE {
                self.tcp_ready_headers(cx, sock);
            }
            let Kind::Stream(stream) = &mut sock.kind else { return Err(TcpError::NotConnected) };
            if !stream.tcb.state().may_queue() {
                return Err(TcpError::Shut);
            }
            if !stream.connected || !stream.tcb.is_unsent_low() {
                return Err(TcpError::WouldBlock);
            }
            let allowed = self.tcp_send_allowance(stream);
            if allowed == 0 && !bytes.is_empty() && stream.send.room() > 0 {
                return Err(self.tcp_starve(cx, id, stream));
            }
            let offered = bytes.get(..allowed).unwrap_or(bytes);
            if !fixed && stream.send.room() < bytes.len() && self.tcp_shortage() < Shortage::Growth {
                let most = self.sysctls.tcp_sendspace_max.get() as u32;
                let wanted = stream.tcb.send_space_wanted().min(most);
                if wanted as usize > stream.send.space() {
                    stream.send.set_space(wanted);
                }
            }
            let sizes = stream.sizes(offered.len());
            let sums = stream.headers.sums(self.epoch());
            self.tcp_charge_ahead(stream, offered.len().min(stream.send.room()));
            let taken = stream.send.append(offered, sizes, sums, |waiting| self.tcp_buffer(cx, sizes, waiting));
            if taken == 0 && !bytes.is_empty() {
                if stream.send.room() > 0 {
                    return Err(self.tcp_starve(cx, id, stream));
                }
                stream.tcb.writer_waits(cx.now);
                return Err(TcpError::WouldBlock);
            }
            self.tcp_charge_exactly(stream);
            if stream.memory_wait == MemoryWait::Starved {
                stream.memory_wait = MemoryWait::Listed;
            }
            if stream.send.len() == taken {
                stream.last_progress = cx.now; // no data was queued before
            }
            match urgent && taken == bytes.len() {
                true => stream.tcb.queued_urgent(taken as u32),
                // The rest of the data follows later, so the record does not end here.
                false if tail == Tail::Record && taken < bytes.len() => stream.tcb.queued_as(taken as u32, Tail::Push),
                false => stream.tcb.queued_as(taken as u32, tail),
            }
            if taken < bytes.len() {
                stream.tcb.writer_waits(cx.now);
            }
            stream.dirty = true;
            Ok(taken)
        })
    }

    /// Prepares the headers of a connection if they are missing or stale. The headers record
    /// whether the port accepts large segments, which must be known before the first data is
    /// queued.
    fn tcp_ready_headers(&self, cx: Cx, sock: &mut Sock<L>) {
        let (ends, options) = (sock.ends(), sock.options.as_deref().unwrap_or(&super::NO_OPTIONS));
        let Kind::Stream(stream) = &mut sock.kind else { return };
        if !stream.headers.are_stale(self.epoch()) {
            return;
        }
        match ends {
            SockEnds::V4(ends) => {
                self.tcp_keep_headers(cx, ends, &mut stream.headers, &IpOptions::of::<u32, L>(options, self));
            }
            SockEnds::V6(ends) => {
                self.tcp_keep_headers(cx, ends, &mut stream.headers, &IpOptions::of::<u128, L>(options, self));
            }
            SockEnds::Both(_) => {} // a connection is not dual-stack
        }
    }

    /// Records that the caller makes a writer wait, although the send queue may have space. The
    /// waiting time is included in `tcpi_sndbuf_limited`.
    pub fn tcp_writer_waits(&self, cx: Cx, id: usize) {
        let _ = self.act(cx, id, |sock| {
            if let Kind::Stream(stream) = &mut sock.kind {
                stream.tcb.writer_waits(cx.now);
            }
            Ok(())
        });
    }

    /// Returns a buffer for data to be sent. It is a large one if enough data is queued for a large
    /// segment.
    #[inline]
    fn tcp_buffer(&self, cx: Cx, sizes: Sizes, waiting: usize) -> Option<Frame> {
        let large = sizes.large > 0 && waiting >= WORTH_LARGE;
        if large && let Some(frame) = self.large_buffer(cx) {
            return Some(frame);
        }
        self.buffer_for(cx, sizes.small)
    }

    /// Copies received bytes into `into`. Returns the number of bytes copied, which is 0 at the end
    /// of the peer's data.
    ///
    /// # Errors
    /// [`TcpError::WouldBlock`] if there is no data, or the failure of the connection.
    #[inline]
    pub fn tcp_recv(&self, cx: Cx, id: usize, into: &mut [u8]) -> Result<usize, TcpError> {
        self.act(cx, id, |sock| {
            let fixed = sock.options.as_ref().is_some_and(|options| options.recv_space.is_some());
            let shut = sock.shut_read;
            let Kind::Stream(stream) = &mut sock.kind else { return Err(TcpError::NotConnected) };
            // A read ends before the urgent byte, and the next read begins with it. No read
            // includes bytes before and after that point (BSD's so_oobmark).
            let mark = stream.tcb.urgent_mark().filter(|mark| *mark > 1).map_or(usize::MAX, |mark| mark as usize - 1);
            let most = into.len().min(mark);
            let read = stream.recv.read(into.get_mut(..most).unwrap_or_default());
            if read > 0 {
                if let Some(space) = stream.tcb.consumed(read as u32, cx.now)
                    && !fixed
                    && self.tcp_may_grow(cx)
                {
                    stream.tcb.set_recv_space(space, true);
                    stream.dirty = true;
                }
                stream.dirty |= stream.tcb.has_output(); // the ACK that opens the window must be sent
                return Ok(read);
            }
            let over = !stream.tcb.state().may_receive();
            if shut || stream.ended {
                return Ok(0); // ignores data that arrived after the end
            }
            match sock.error.take() {
                Some(error) => Err(error.into()),
                None if into.is_empty() || over && stream.connected => Ok(0),
                None if stream.is_stillborn() => Err(TcpError::NotConnected),
                None => Err(TcpError::WouldBlock),
            }
        })
    }

    /// Copies received bytes like [`Stack::tcp_recv`], but leaves them in the queue.
    ///
    /// # Errors
    /// Those of [`Stack::tcp_recv`].
    pub fn tcp_peek(&self, cx: Cx, id: usize, into: &mut [u8]) -> Result<usize, TcpError> {
        self.act(cx, id, |sock| {
            let Kind::Stream(stream) = &mut sock.kind else { return Err(TcpError::NotConnected) };
            match stream.recv.peek(into) {
                0 if sock.shut_read || stream.ended || into.is_empty() => Ok(0),
                0 if sock.error.is_some() => Err(sock.error.take().map_or(TcpError::Reset, TcpError::from)),
                0 if stream.connected && !stream.tcb.state().may_receive() => Ok(0),
                0 if stream.is_stillborn() => Err(TcpError::NotConnected),
                0 => Err(TcpError::WouldBlock),
                read => Ok(read),
            }
        })
    }

    /// Shuts down one or both directions.
    ///
    /// # Errors
    /// [`TcpError::NotConnected`] if the socket has no peer.
    #[inline(never)]
    pub fn tcp_shutdown(&self, cx: Cx, id: usize, read: bool, write: bool) -> Result<(), TcpError> {
        self.act(cx, id, |sock| {
            let Kind::Stream(stream) = &mut sock.kind else { return Err(TcpError::NotConnected) };
            if !stream.has_peer() {
                return Err(TcpError::NotConnected);
            }
            if read {
                let unread = stream.recv.clear();
                stream.tcb.consumed(unread as u32, cx.now);
                sock.shut_read = true;
            }
            if write {
                stream.tcb.shutdown_send(cx.now);
                if stream.send.is_empty() {
                    stream.last_progress = cx.now; // the FIN has just been queued
                }
                stream.dirty = true;
            }
            sock.wake(cx, id);
            Ok(())
        })
    }

    /// Closes socket `id`. Unsent data is still sent unless `abort` is set. Returns `false` if
    /// there is no such socket.
    #[inline(never)]
    pub fn tcp_close(&self, cx: Cx, id: usize, abort: bool) -> bool {
        let Some(slot) = self.tcp.socks.get(id) else { return false };
        let mut slot = slot.lock(cx);
        let Some(sock) = slot.as_mut().filter(|sock| !sock.orphan) else { return false };
        sock.orphan = true;
        if let Some(rest) = &mut sock.rest {
            rest.watch = None;
            if let Some(signal) = rest.signal.take() {
                signal.raise(); // waiting threads then find the socket closed
            }
        }
        let bound = sock.place.is_bound();
        let mut children = VecDeque::new();
        let lingers_not = sock.options().linger == Some(Duration::ZERO);
        let over = match &mut sock.kind {
            Kind::Fresh => Over::gone(bound),
            Kind::Listening(listening) => {
                children = std::mem::take(&mut listening.ready);
                let Listening { listener, configs, .. } = &mut **listening;
                let counts = &self.count(cx).tcp.listen;
                listener.close(tcp::listen::Context { config: &configs.four, counts, now: cx.now, above: None });
                Over::gone(bound)
            }
            Kind::Stream(stream) => {
                let cx = stream.on_time(cx);
                if stream.send.is_empty() {
                    stream.last_progress = cx.now; // the FIN has just been queued
                }
                let reset = if abort || !stream.charge.orphaned(self.sysctls.tcp_max_orphans.get()) {
                    if !abort && stream.tcb.state() != ::tcp::State::Closed {
                        self.count(cx).tcp_memory.orphans_refused.bump();
                    }
                    stream.tcb.abort(cx.now)
                } else {
                    let closed = stream.tcb.close(cx.now);
                    stream.recv.clear();
                    closed.reset
                };
                stream.dirty = true;
                if let Some(reset) = reset {
                    let states = &self.count(cx).tcp.states;
                    match abort {
                        false => states.aborted_on_close.bump(),
                        true if lingers_not => states.aborted_on_linger.bump(),
                        true => {} // a connection of a closed listener
                    }
                    states.dropped.bump();
                    self.tcp_answer(cx, sock, &reset);
                }
                self.tcp_charge(sock);
                self.tcp_output(cx, id, sock, AtOnce::Yes)
            }
        };
        drop(slot);
        self.tcp_free(cx, id, over);
        for child in children {
            self.tcp_close(cx, child, true);
        }
        self.flush(cx);
        true
    }

    /// Adds socket `id` to `set` whenever it becomes ready, and immediately if it is ready now.
    /// `None` stops this.
    ///
    /// # Errors
    ///
    /// [`TcpError::NoSocket`].
    #[inline(never)]
    pub fn tcp_watch(&self, cx: Cx, id: usize, set: Option<Arc<ReadySet<L>>>) -> Result<(), TcpError> {
        self.act(cx, id, |sock| {
            sock.rest().watch = set;
            if sock.is_readable() || sock.is_writable() {
                sock.wake(cx, id);
            }
            Ok(())
        })
    }

    /// Returns the configuration, derived from the sysctls, with which connections over a link with
    /// this MTU begin.
    #[inline(never)]
    pub(super) fn tcp_config<A: Net>(&self, cx: Cx, mtu: usize) -> Arc<Config> {
        self.tcp_config_in::<A>(&mut self.tcp.configs.lock(cx), mss_of::<A>(mtu))
    }

    /// Returns the configurations with which a listener's connections begin, for these options.
    fn tcp_listen_configs(&self, cx: Cx, options: &Options) -> ListenConfigs {
        // Tunnels are left out, since the MTU of a tunnel does not apply to peers that are not
        // reached through it (see [`Stack::fitting`]).
        let on_wires = || self.ifaces.iter().filter(|iface| iface.kind == IfaceKind::Ethernet);
        let four = on_wires().map(|iface| iface.mtu()).min().unwrap_or(1500);
        let six = on_wires().map(|iface| iface.mtu6()).min().unwrap_or(1500);
        ListenConfigs {
            four: configured(self.tcp_config::<u32>(cx, four), options),
            six: configured(self.tcp_config::<u128>(cx, six), options),
        }
    }

    /// Runs `f` with a configuration whose MSS does not matter. `f` must not acquire a lock,
    /// because the lock of the configurations, which is held meanwhile, is the last in the lock
    /// order.
    pub(super) fn with_tcp_config<R>(&self, cx: Cx, f: impl FnOnce(&Config) -> R) -> R {
        let mut configs = self.tcp.configs.lock(cx);
        if configs.generation == self.sysctls.generation()
            && let Some(config) = configs.kept.first()
        {
            return f(config);
        }
        let config = self.tcp_config_in::<u32>(&mut configs, super::BASE_MSS);
        f(&config)
    }

    fn tcp_config_in<A: Net>(&self, configs: &mut Configs, mss: u16) -> Arc<Config> {
        let generation = self.sysctls.generation();
        if configs.generation != generation {
            (configs.generation, configs.kept) = (generation, Vec::new());
        }
        let default_mss = A::default_mss(self);
        let is_it = |config: &&Arc<Config>| (config.mss, config.default_mss) == (mss, default_mss);
        if let Some(config) = configs.kept.iter().find(is_it) {
            return Arc::clone(config);
        }
        let config = Arc::new(self.config_of_sysctls(mss, default_mss));
        if configs.kept.len() < CONFIGS_MAX {
            configs.kept.push(Arc::clone(&config));
        }
        config
    }

    fn config_of_sysctls(&self, mss: u16, default_mss: u16) -> Config {
        let sysctls = &self.sysctls;
        let ms = |sysctl: &crate::sysctls::Sysctl| Duration::from_millis(sysctl.get() as u64);
        Config {
            mss,
            default_mss,
            min_mss: sysctls.tcp_minmss.get() as u16,
            recv_space: sysctls.tcp_recvspace.get() as u32,
            recv_space_max: sysctls.tcp_recvspace_max.get().max(sysctls.tcp_recvspace.get()) as u32,
            send_space: sysctls.tcp_sendspace.get() as u32,
            window_scaling: sysctls.tcp_rfc1323.on(),
            timestamps: sysctls.tcp_rfc1323.get() == 1,
            sack: sysctls.tcp_sack.on(),
            ecn: match sysctls.tcp_ecn.get() {
                0 => EcnMode::Off,
                1 => EcnMode::On,
                _ => EcnMode::Passive,
            },
            algorithm: if sysctls.tcp_cc_cubic.on() { Algorithm::Cubic } else { Algorithm::NewReno },
            initial_window: sysctls.tcp_initcwnd.get() as u8,
            idle_restart: sysctls.tcp_idle_restart.on(),
            limit_growth: sysctls.tcp_rfc3465.on(),
            reduce_cwnd: sysctls.tcp_reduce_cwnd.on(),
            delay_fin_ack: sysctls.tcp_delay_fin_ack.on(),
            rto_max: ms(&sysctls.tcp_rto_max),
            syn_retries: sysctls.tcp_syn_retries.get() as u8,
            synack_retries: sysctls.tcp_synack_retries.get() as u8,
            push_runs: sysctls.tcp_push_runs.get() as u8,
            time_wait: Duration::from_millis(2 * sysctls.tcp_msl.get() as u64),
            delayed_ack_min: ms(&sysctls.tcp_delacktime).min(Duration::from_millis(40)),
            delayed_ack_max: ms(&sysctls.tcp_delacktime),
            keepalive_idle: ms(&sysctls.tcp_keepidle),
            keepalive_interval: ms(&sysctls.tcp_keepintvl),
            keepalive_count: sysctls.tcp_keepcnt.get() as u8,
            mtu_probing: sysctls.tcp_pmtud.on(),
            ..Config::default()
        }
    }
}

impl Stream {
    /// Returns the size limits of pieces for `adding` bytes that are added to the send queue: one
    /// segment, or as many segments as the interface accepts at once.
    #[inline]
    fn sizes(&self, adding: usize) -> Sizes {
        let small = usize::from(self.tcb.mss());
        let aligned = adding >= ALIGNED * small && self.tcb.not_sent() == 0;
        Sizes { small, large: self.headers.large_text(small), aligned }
    }
}
