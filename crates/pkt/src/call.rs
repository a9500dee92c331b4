//! Executes the calls of a script on [`socket::Calls`].

use crate::play::{BYTES_MAX, Player};
use crate::script::{Call, Expr, IpVersion};
use crate::segment::{six, text_byte};
use crate::value::{names, value};
use clock::{Duration, Instant};
use inet::tcp::SOCK_BIT;
use inet::udp::Domain;
use socket::{Drive, Errno, Events, Fd, Opt, OptKind, PollFd, RecvFlags, SendFlags};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr};

/// Result of a socket call: the return value, or the errno.
type Done = Result<i64, Errno>;

impl Player<'_> {
    /// Executes a call and compares its result with the script.
    pub(crate) fn call(&self, call: &Call) -> Result<(), String> {
        let done = self.make(call)?;
        if done == Err(Errno::EINTR) {
            let late =
                if call.until.is_some() { "did not return in time" } else { "blocks, expected to return at once" };
            return Err(format!("{}() {late}", call.name));
        }
        let name = |errno: &str| if errno == "EWOULDBLOCK" { "EAGAIN".to_owned() } else { errno.to_owned() };
        let fits = match (&call.returns, &call.errno, done) {
            (Expr::Ellipsis, ..) => true,
            (Expr::Int(-1), Some(errno), Err(came)) => name(errno) == came.name(),
            (Expr::Int(-1), None, Err(_)) => true,
            (stated, None, Ok(came)) => value(stated)? == came,
            _ => false,
        };
        if fits {
            return Ok(());
        }
        let stated = match (&call.returns, &call.errno) {
            (_, Some(errno)) => format!("-1 {errno}"),
            (Expr::Int(value), None) => value.to_string(),
            (other, None) => format!("{other:?}"),
        };
        let came = done.map_or_else(|errno| format!("-1 {errno}"), |value| value.to_string());
        Err(format!("{}() = {came}\n  expected: {stated}\n  actual:   {came}", call.name))
    }

    fn make(&self, call: &Call) -> Result<Done, String> {
        let args = &call.args;
        let arg = |at: usize| args.get(at).ok_or_else(|| format!("{}() has too few arguments", call.name));
        match call.name.as_str() {
            "socket" => {
                let kind = arg(1)?;
                let calls = self.calls();
                let domain = match arg(0)? {
                    Expr::Ellipsis if self.settings.version == IpVersion::V4 => Domain::Inet,
                    Expr::Ellipsis => Domain::Inet6,
                    Expr::Word(word) if word == "AF_INET" => Domain::Inet,
                    Expr::Word(word) if word == "AF_INET6" => Domain::Inet6,
                    other => return Err(format!("socket(): unsupported domain {other:?}")),
                };
                let stream = names(kind).any(|name| name == "SOCK_STREAM");
                if !stream && !names(kind).any(|name| name == "SOCK_DGRAM") {
                    return Err(format!("socket(): unsupported type {kind:?}"));
                }
                let opened = if stream { calls.stream_socket_of(domain) } else { calls.socket_of(domain) };
                if let Ok(fd) = opened
                    && names(kind).any(|name| name == "SOCK_NONBLOCK")
                {
                    let _ = calls.set_option(fd, Opt::NonBlocking(true)); // a new socket accepts this option
                }
                Ok(self.opened(opened, &call.returns))
            }
            "bind" => {
                let fd = self.fd(arg(0)?)?;
                let addr = self.address(fd, arg(1)?, self.settings.local, self.settings.bind_port)?;
                let bound = self.calls().bind(fd, addr);
                if let Ok(addr) = bound {
                    self.state.borrow_mut().bound = addr.port();
                }
                Ok(bound.map(|_| 0))
            }
            "listen" => {
                let backlog = value(arg(1)?)?.clamp(0, u32::MAX.into()) as u32;
                Ok(self.calls().listen(self.fd(arg(0)?)?, backlog).map(|()| 0))
            }
            "accept" | "accept4" => {
                let listener = self.fd(arg(0)?)?;
                let calls = self.calls();
                let accepted = calls.accept(listener).map(|(fd, _)| fd);
                if let Ok(fd) = accepted {
                    let nonblocking = args.get(3).is_some_and(|flags| names(flags).any(|n| n == "SOCK_NONBLOCK"));
                    // A descriptor returned by accept() does not inherit the listener's status
                    // flags.
                    let _ = calls.set_option(fd, Opt::NonBlocking(nonblocking));
                }
                Ok(self.opened(accepted, &call.returns))
            }
            "connect" => {
                let fd = self.fd(arg(0)?)?;
                let addr = self.address(fd, arg(1)?, self.settings.remote, self.settings.connect_port)?;
                Ok(self.calls().connect(fd, addr).map(|()| 0))
            }
            "close" => {
                let closed = self.calls().close(self.fd(arg(0)?)?);
                if closed.is_ok() {
                    self.state.borrow_mut().fds.remove(&value(arg(0)?)?);
                }
                Ok(closed.map(|()| 0))
            }
            "shutdown" => {
                let how = match arg(1)? {
                    Expr::Word(word) if word == "SHUT_RD" => Shutdown::Read,
                    Expr::Word(word) if word == "SHUT_WR" => Shutdown::Write,
                    Expr::Word(word) if word == "SHUT_RDWR" => Shutdown::Both,
                    other => return Err(format!("shutdown(): unknown argument {other:?}")),
                };
                if how != Shutdown::Write {
                    self.state.borrow_mut().streams.remove(&value(arg(0)?)?);
                }
                Ok(self.calls().shutdown(self.fd(arg(0)?)?, how).map(|()| 0))
            }
            "write" | "send" | "sendto" | "writev" | "sendmsg" => self.send(call),
            "read" | "recv" | "recvfrom" | "readv" | "recvmsg" => self.receive(call),
            "poll" => self.poll_call(arg(0)?, arg(2)?),
            "fcntl" => self.fcntl(call),
            "ioctl" => self.ioctl(self.fd(arg(0)?)?, arg(1)?, arg(2)?),
            "setsockopt" => {
                let fd = self.fd(arg(0)?)?;
                Ok(crate::sockopt::set(self, fd, arg(1)?, arg(2)?, arg(3)?)?.map(|()| 0))
            }
            "getsockopt" => {
                let fd = self.fd(arg(0)?)?;
                crate::sockopt::get(self, fd, arg(1)?, arg(2)?, arg(3)?)
            }
            "getsockname" => Ok(self.calls().local_addr(self.fd(arg(0)?)?).map(|_| 0)),
            "getpeername" => Ok(self.calls().peer_addr(self.fd(arg(0)?)?).map(|_| 0)),
            other => Err(format!("unsupported call '{other}()'")),
        }
    }

    /// Stores an opened descriptor under the number that the script states as the result of the
    /// call.
    fn opened(&self, opened: Result<Fd, Errno>, stated: &Expr) -> Done {
        let fd = opened?;
        let number = value(stated).unwrap_or(-1);
        let mut state = self.state.borrow_mut();
        state.fds.insert(number, fd);
        state.streams.insert(number, (0, 0));
        Ok(number)
    }

    /// Returns the descriptor to which a number in the script refers, or an invalid descriptor if
    /// the number is unknown.
    fn fd(&self, expr: &Expr) -> Result<Fd, String> {
        let number = value(expr)?;
        Ok(self.state.borrow().fds.get(&number).copied().unwrap_or(Fd(SOCK_BIT - 1)))
    }

    /// Returns the address that the script passes in a call on `fd`. For `...` this is `addr` and
    /// `port`; otherwise it is the address in a structure. For an IPv6 socket, an IPv4 address
    /// becomes an IPv4-mapped address, and `INADDR_ANY` becomes `::`.
    fn address(&self, fd: Fd, expr: &Expr, addr: IpAddr, port: u16) -> Result<SocketAddr, String> {
        let of_six = self.calls().local_addr(fd).is_ok_and(|own| own.is_ipv6());
        let inside = |names: [&str; 2]| match names.into_iter().find_map(|name| expr.field(name)) {
            Some(Expr::Apply(_, args)) => args.last().cloned(),
            other => other.cloned(),
        };
        let port = match inside(["sin_port", "sin6_port"]) {
            Some(Expr::Int(port)) => u16::try_from(port).map_err(|_| "port exceeds 65535")?,
            _ => port,
        };
        let addr = match inside(["sin_addr", "sin6_addr"]) {
            Some(Expr::Str(text)) => text.parse().map_err(|_| format!("'{text}' is not an IP address"))?,
            Some(Expr::Addr(addr)) => addr.into(),
            Some(Expr::Word(word)) if word == "INADDR_ANY" || word == "in6addr_any" => {
                return Ok(if of_six {
                    (Ipv6Addr::UNSPECIFIED, port).into()
                } else {
                    (Ipv4Addr::UNSPECIFIED, port).into()
                });
            }
            _ => addr,
        };
        let addr = if of_six { six(addr).into() } else { addr };
        Ok(SocketAddr::new(addr, port))
    }

    /// Returns the number of bytes that a call sends or receives, and the call's flags.
    fn sizes(&self, call: &Call) -> Result<(usize, Expr), String> {
        let none = Expr::Int(0);
        let arg = |at: usize| call.args.get(at).unwrap_or(&none);
        let (n, flags) = match call.name.as_str() {
            "writev" | "readv" => (vector(arg(1)), none.clone()),
            "sendmsg" | "recvmsg" => (vector(arg(1).field("msg_iov").unwrap_or(&none)), arg(2).clone()),
            _ => (value(arg(2))?, arg(3).clone()),
        };
        match usize::try_from(n).ok().filter(|n| *n <= BYTES_MAX) {
            Some(n) => Ok((n, flags)),
            None => Err(format!("{n} bytes: at most {BYTES_MAX} per call")),
        }
    }

    fn send(&self, call: &Call) -> Result<Done, String> {
        let (n, names_of) = self.sizes(call)?;
        let number = value(call.args.first().unwrap_or(&Expr::Int(-1)))?;
        let fd = self.fd(&Expr::Int(number))?;
        let mut flags = SendFlags::default();
        for flag in names(&names_of) {
            match flag {
                "MSG_DONTWAIT" => flags.dont_wait = true,
                "MSG_MORE" => flags.more = true,
                "MSG_EOR" => flags.record = true,
                "MSG_OOB" => flags.oob = true,
                "MSG_NOSIGNAL" => {}
                other => return Err(format!("{}(): unsupported flag '{other}'", call.name)),
            }
        }
        let at = self.state.borrow().streams.get(&number).map_or(0, |stream| stream.0);
        let bytes: Vec<u8> = (0..n as u64).map(|i| text_byte((at + i + 1) as u32)).collect();
        let calls = self.calls();
        let sent = match call.args.get(4) {
            Some(to) if call.name == "sendto" && !fd.is_stream() => {
                let addr = self.address(fd, to, self.settings.remote, self.settings.connect_port)?;
                let connected = calls.peer_addr(fd).is_ok() && *to == Expr::Ellipsis;
                if connected { calls.send(fd, &bytes) } else { calls.send_to(fd, &bytes, &addr) }
            }
            _ => calls.send_flags(fd, &bytes, flags),
        };
        if let (Ok(n), Some(stream)) = (sent, self.state.borrow_mut().streams.get_mut(&number)) {
            stream.0 += n as u64;
        }
        Ok(sent.map(|n| n as i64))
    }

    fn receive(&self, call: &Call) -> Result<Done, String> {
        let (n, names_of) = self.sizes(call)?;
        let number = value(call.args.first().unwrap_or(&Expr::Int(-1)))?;
        let fd = self.fd(&Expr::Int(number))?;
        let mut flags = RecvFlags::default();
        for flag in names(&names_of) {
            match flag {
                "MSG_DONTWAIT" => flags.dont_wait = true,
                "MSG_PEEK" => flags.peek = true,
                "MSG_TRUNC" if !fd.is_stream() => flags.trunc = true,
                other => return Err(format!("{}(): unsupported flag '{other}'", call.name)),
            }
        }
        let mut into = vec![0; n];
        let got = self.calls().recv_from_flags(fd, &mut into, flags).map(|(n, _)| n);
        if let Ok(n) = got
            && fd.is_stream()
        {
            self.check_bytes(number, fd, into.get(..n).unwrap_or_default(), flags.peek)?;
        }
        Ok(got.map(|n| n as i64))
    }

    /// Checks that the bytes read are the bytes that the peer sent.
    fn check_bytes(&self, number: i64, fd: Fd, bytes: &[u8], peek: bool) -> Result<(), String> {
        let peer = self.calls().peer_addr(fd).map(|addr| addr.port()).unwrap_or(0);
        let mut state = self.state.borrow_mut();
        let first = state.peer_text(peer);
        let (Some(stream), Some(first)) = (state.streams.get_mut(&number), first) else { return Ok(()) };
        let at = first.wrapping_add(stream.1 as u32);
        let wrong = (0u32..).zip(bytes).find(|(i, byte)| text_byte(at.wrapping_add(*i)) != **byte);
        if let Some((i, _)) = wrong {
            return Err(format!("read() returned a byte that was not sent, at sequence number {}", at.wrapping_add(i)));
        }
        if !peek {
            stream.1 += bytes.len() as u64;
        }
        Ok(())
    }

    fn fcntl(&self, call: &Call) -> Result<Done, String> {
        let (fd, calls) = (self.fd(call.args.first().unwrap_or(&Expr::Int(-1)))?, self.calls());
        match call.args.get(1) {
            Some(Expr::Word(word)) if word == "F_SETFL" => {
                let on = call.args.get(2).is_some_and(|flags| names(flags).any(|name| name == "O_NONBLOCK"));
                Ok(calls.set_option(fd, Opt::NonBlocking(on)).map(|()| 0))
            }
            Some(Expr::Word(word)) if word == "F_GETFL" => {
                let on = calls.option(fd, OptKind::NonBlocking);
                Ok(on.map(|on| if on == Opt::NonBlocking(true) { 0o4002 } else { 2 }))
            }
            other => Err(format!("fcntl(): unsupported command {other:?}")),
        }
    }

    fn ioctl(&self, fd: Fd, what: &Expr, stated: &Expr) -> Result<Done, String> {
        if !fd.is_stream() {
            return Err("ioctl(): datagram sockets are not supported".to_owned());
        }
        let queues =
            self.host.stack.with_sock(self.host.cx(), fd.0 & !SOCK_BIT, |sock| (sock.is_listening(), sock.queues()));
        let came = match (what, queues) {
            (_, None) => return Ok(Err(Errno::EBADF)),
            (Expr::Word(word), Some((true, _))) if word.starts_with("SIOC") => return Ok(Err(Errno::EINVAL)),
            (Expr::Word(word), Some((_, queues))) if word == "SIOCINQ" || word == "FIONREAD" => queues.0,
            (Expr::Word(word), Some((_, queues))) if word == "SIOCOUTQ" => queues.1,
            (other, _) => return Err(format!("ioctl(): unsupported request {other:?}")),
        };
        crate::sockopt::same(came as i64, stated).map(|()| Ok(0))
    }

    fn poll_call(&self, list: &Expr, timeout: &Expr) -> Result<Done, String> {
        let Expr::List(entries) = list else { return Err("poll(): expected a list".to_owned()) };
        let events = |expr: Option<&Expr>| {
            let has = |name: &str| expr.is_some_and(|expr| names(expr).any(|n| n == name));
            Events {
                readable: has("POLLIN"),
                writable: has("POLLOUT"),
                error: has("POLLERR"),
                hangup: has("POLLHUP"),
                peer_closed: has("POLLRDHUP"),
                urgent: has("POLLPRI"),
                invalid: has("POLLNVAL"),
            }
        };
        let mut fds = Vec::new();
        for entry in entries {
            let fd = self.fd(entry.field("fd").ok_or("poll(): fd is missing")?)?;
            fds.push(PollFd { fd, requested: events(entry.field("events")), reported: Events::default() });
        }
        let timeout = value(timeout)?;
        let until = match timeout {
            ..0 => Instant::NEVER,
            ms => self.host.now().after(Duration::from_millis(ms as u64)),
        };
        loop {
            self.calls().poll(&mut fds);
            for poll in &mut fds {
                poll.reported.hangup &= poll.requested.hangup;
                // In C, poll() reports the following two events only if they were requested.
                poll.reported.peer_closed &= poll.requested.peer_closed;
                poll.reported.urgent &= poll.requested.urgent;
            }
            let ready = fds.iter().filter(|poll| poll.reported != Events::default()).count();
            if ready == 0 && self.host.now() < until {
                if self.drive(until).is_none() {
                    return Ok(Err(Errno::EINTR));
                }
                continue;
            }
            for (poll, entry) in fds.iter().zip(entries) {
                let stated = events(entry.field("revents"));
                if entry.field("revents").is_some() && stated != poll.reported {
                    return Err(format!(
                        "poll(): wrong events\n  expected: {stated:?}\n  actual:   {:?}",
                        poll.reported
                    ));
                }
            }
            return Ok(Ok(ready as i64));
        }
    }
}

/// Returns the total length of an I/O vector such as `[{..., 1000}, {..., 20}]`.
fn vector(list: &Expr) -> i64 {
    let Expr::List(entries) = list else { return 0 };
    let lengths = entries.iter().map(|entry| match entry {
        Expr::Braces(parts) => parts.last().and_then(|n| value(n).ok()).unwrap_or(0),
        _ => 0,
    });
    lengths.fold(0, i64::saturating_add)
}
