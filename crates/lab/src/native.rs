//! The host's own kernel as a measured subject: what the packet costs that we do not send ourselves.
//!
//! [`NativeSend`] runs a child (this program again, see [`child_main_if_asked`]) in a network namespace of its own. There
//! a connected UDP socket sends into a TAP device, and a filter at the device's egress drops every packet: the kernel does
//! all of its own work and no driver's. [`NativeSend::device`] says which filter this kernel has, and whether the kernel
//! computed the checksums. Where no namespace or no TAP can be had, the packets go over loopback to a socket that nobody
//! reads, which contains the receive path, and `device` says that too. [`NativeRecv`] times `recv` alone.
//!
//! Every packet is accounted for: a trial fails unless the device's own statistics grew by as many drops as were sent.
//! The child ends when its socket to the parent closes, however the parent ends.
#![allow(unsafe_code)] // unshare, ioctl, if_nametoindex, sendmmsg and a netlink socket have no safe form in std.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::marker::PhantomData;
use std::mem::zeroed;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::os::{self, Pinned};
use crate::subject::{Reading, Subject, measure};

/// Set in the child's environment; its presence makes [`child_main_if_asked`] serve.
const ASKED: &str = "LINERATE_NATIVE_CHILD";
/// The payload of every row of the comparison: 22 bytes make a 64-byte frame, FCS not counted.
const PAYLOAD: usize = 22;
/// The largest payload in one frame of 1500 bytes.
const LARGEST: usize = 1472;
/// Most messages in one sendmmsg(2): UIO_MAXIOV.
const MOST_AT_ONCE: usize = 1024;
/// The child looks at its socket between runs only, so one run stays near a second.
const MOST_IN_A_RUN: u64 = 1_000_000;
const OURS: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
const THEIRS: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 2);
const THEIR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const DISCARD: u16 = 9; // the L4 port of RFC 863

/// Serves as the child and does not return, if this process was started to be one. A program that uses this module
/// calls it before anything else: before it reads its arguments, and before it starts a thread.
pub fn child_main_if_asked() {
    if std::env::var_os(ASKED).is_some() {
        std::process::exit(if serve().is_ok() { 0 } else { 1 });
    }
}

/// The kernel's connected UDP `send`, 22-byte payload, into a device that drops.
#[derive(Debug)]
pub struct NativeSend {
    worker: Worker,
    job: Job,
    sent: u64,
    dropped: u64,
}

impl NativeSend {
    /// Starts the child and sets its device up. One `send` per packet.
    ///
    /// # Errors
    /// If the child cannot be started, or has neither a TAP nor loopback to send into.
    pub fn start() -> anyhow::Result<NativeSend> {
        let job = Job { count: 20_000, size: PAYLOAD, burst: 1 };
        Ok(NativeSend { worker: Worker::start(&[])?, job, sent: 0, dropped: 0 })
    }

    /// Which device took the packets, what dropped them, who computed the checksums: one sentence.
    pub fn device(&self) -> &str {
        &self.worker.device
    }

    /// Packets sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Packets dropped so far, by the device's own statistics.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Subject for NativeSend {
    fn id(&self) -> &str {
        "kernel.send.csum"
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let done = self.worker.run(self.job)?;
        self.sent += done.reading.ops;
        self.dropped += done.dropped;
        Ok(done.reading)
    }
}

/// What [`native_loop`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NativeLoop {
    /// As [`NativeSend::device`].
    pub device: String,
    /// `send`, or `sendmmsg, <burst> at a time`.
    pub call: String,
    /// Packets sent, and what they took.
    pub reading: Reading,
    /// Packets dropped, by the device's own statistics.
    pub dropped: u64,
}

/// Sends `count` packets of `size` payload bytes through the kernel: `send` each if `burst` is 1, else `sendmmsg`.
///
/// # Errors
/// If the arguments are out of range (`count` at least 1, `size` 1 to 1472, `burst` 1 to 1024), or as [`NativeSend::start`].
pub fn native_loop(count: u64, size: usize, burst: usize) -> anyhow::Result<NativeLoop> {
    repeat(Worker::start(&[])?, Job { count, size, burst })
}

fn repeat(mut worker: Worker, job: Job) -> anyhow::Result<NativeLoop> {
    job.check()?;
    let mut sum = Done { reading: Reading { ops: 0, ticks: 0, wall_ns: 0, cpu_ns: 0 }, dropped: 0 };
    while sum.reading.ops < job.count {
        let count = (job.count - sum.reading.ops).min(MOST_IN_A_RUN);
        let done = worker.run(Job { count, ..job })?;
        sum.dropped += done.dropped;
        add(&mut sum.reading, done.reading);
    }
    let call = if job.burst == 1 { "send".to_owned() } else { format!("sendmmsg, {} at a time", job.burst) };
    Ok(NativeLoop { device: worker.device.clone(), call, reading: sum.reading, dropped: sum.dropped })
}

fn add(sum: &mut Reading, one: Reading) {
    sum.ops += one.ops;
    sum.ticks += one.ticks;
    sum.wall_ns += one.wall_ns;
    sum.cpu_ns += one.cpu_ns;
}

/// The kernel's `recv` call alone: datagrams of 22 bytes wait in a loopback socket, and reading them is timed.
#[derive(Debug)]
pub struct NativeRecv {
    from: UdpSocket,
    to: UdpSocket,
}

/// Datagrams that wait at once: a default receive buffer (212,992 bytes, 768 charged for each) holds 277.
const WAITING: u64 = 128;
const REFILLS: u64 = 100;

impl NativeRecv {
    /// Binds the two sockets on 127.0.0.1, in this process and its own namespace.
    ///
    /// # Errors
    /// What socket(2), bind(2) or connect(2) say.
    pub fn start() -> anyhow::Result<NativeRecv> {
        let to = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("bind a UDP socket on 127.0.0.1")?;
        let from = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("bind a UDP socket on 127.0.0.1")?;
        from.connect(to.local_addr()?).context("connect over loopback")?;
        to.set_read_timeout(Some(Duration::from_secs(1)))?;
        Ok(NativeRecv { from, to })
    }
}

impl Subject for NativeRecv {
    fn id(&self) -> &str {
        "kernel.recv.one_thread"
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let mut sum = Reading { ops: 0, ticks: 0, wall_ns: 0, cpu_ns: 0 };
        for _ in 0..REFILLS {
            for _ in 0..WAITING {
                self.from.send(&[0x5a; PAYLOAD]).context("send over loopback")?;
            }
            let mut bytes = 0;
            let mut buffer = [0; 64];
            let mut drain = || (0..WAITING).try_for_each(|_| self.to.recv(&mut buffer).map(|n| bytes += n));
            let mut outcome = Ok(());
            add(&mut sum, measure(WAITING, || outcome = drain()));
            outcome.context("recv over loopback")?;
            ensure!(
                bytes as u64 == WAITING * PAYLOAD as u64,
                "received {bytes} bytes, not {}",
                WAITING * PAYLOAD as u64
            );
        }
        Ok(sum)
    }
}

/// What the child is asked: `run <count> <size> <burst> <processor>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Job {
    count: u64,
    size: usize,
    burst: usize,
}

impl Job {
    fn check(&self) -> anyhow::Result<()> {
        ensure!(self.count >= 1, "a count of {}: the kernel's loop wants at least 1", self.count);
        ensure!((1..=LARGEST).contains(&self.size), "a payload of {} bytes is not in 1..={LARGEST}", self.size);
        ensure!((1..=MOST_AT_ONCE).contains(&self.burst), "a burst of {} is not in 1..={MOST_AT_ONCE}", self.burst);
        Ok(())
    }
}

/// What it answers: `done <ticks> <wall_ns> <cpu_ns> <errors> <dropped>`, or `failed <why>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Done {
    reading: Reading,
    dropped: u64,
}

#[derive(Debug)]
struct Worker {
    child: Child,
    socket: BufReader<UnixStream>,
    device: String,
}

impl Worker {
    fn start(args: &[&str]) -> anyhow::Result<Worker> {
        ensure!(std::env::var_os(ASKED).is_none(), "main must call lab::native::child_main_if_asked() first");
        let (ours, childs) = UnixStream::pair().context("a socket pair to the child")?;
        // A run takes about a second; set-up a few milliseconds. Longer means that nobody will ever answer.
        ours.set_read_timeout(Some(Duration::from_secs(60)))?;
        let child = Command::new("/proc/self/exe") // also right when the file was replaced meanwhile
            .args(args)
            .env(ASKED, "1")
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(childs)))
            .stdout(Stdio::null())
            .spawn()
            .context("start this program again as the kernel's subject")?;
        let mut worker = Worker { child, socket: BufReader::new(ours), device: String::new() };
        worker.device = worker.answer("device")?;
        Ok(worker)
    }

    fn run(&mut self, job: Job) -> anyhow::Result<Done> {
        let cpu = os::current_cpu().context("which processor is this")?;
        writeln!(self.socket.get_mut(), "run {} {} {} {cpu}", job.count, job.size, job.burst)
            .context("the kernel subject's child is gone")?;
        let answer = self.answer("done")?;
        let [ticks, wall_ns, cpu_ns, errors, dropped] = numbers(&answer)?;
        ensure!(errors == 0, "the kernel refused {errors} of {} packets: {}", job.count, self.device);
        let count = job.count;
        ensure!(dropped >= count, "{dropped} of {count} packets were dropped by the device: {}", self.device);
        Ok(Done { reading: Reading { ops: count, ticks, wall_ns, cpu_ns }, dropped })
    }

    /// The rest of the child's next line, which must start with `word`.
    fn answer(&mut self, word: &str) -> anyhow::Result<String> {
        let mut line = String::new();
        self.socket.read_line(&mut line).context("no answer from the kernel subject's child")?;
        match line.trim_end().split_once(' ') {
            Some((first, rest)) if first == word => Ok(rest.to_owned()),
            Some(("failed", why)) => bail!("{why}"),
            _ => bail!("the child said {line:?}: does main call lab::native::child_main_if_asked() first?"),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.socket.get_ref().shutdown(std::net::Shutdown::Both); // the child's end of file
        let patience = Instant::now() + Duration::from_secs(2);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _ = self.child.kill(); // does nothing to one that has been waited for
        let _ = self.child.wait();
    }
}

fn numbers<const N: usize>(line: &str) -> anyhow::Result<[u64; N]> {
    let values: Result<Vec<u64>, _> = line.split(' ').map(str::parse).collect();
    let values = values.with_context(|| format!("numbers in {line:?}"))?;
    values.try_into().map_err(|_| anyhow::anyhow!("{N} numbers in {line:?}"))
}

fn serve() -> anyhow::Result<()> {
    let mut socket = BufReader::new(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?));
    let mut sink = match Sink::open() {
        Ok(sink) => sink,
        Err(why) => return Ok(writeln!(socket.get_mut(), "failed {}", one_line(&why))?),
    };
    writeln!(socket.get_mut(), "device {}", sink.device)?;
    let mut pinned = None;
    let mut line = String::new();
    while socket.read_line(&mut line)? > 0 {
        match obey(&mut sink, &mut pinned, line.trim_end()) {
            Ok(answer) => writeln!(socket.get_mut(), "done {answer}")?,
            Err(why) => writeln!(socket.get_mut(), "failed {}", one_line(&why))?,
        }
        line.clear();
    }
    Ok(())
}

fn one_line(why: &anyhow::Error) -> String {
    format!("{why:#}").replace('\n', " ")
}

fn obey(sink: &mut Sink, pinned: &mut Option<(usize, Pinned)>, line: &str) -> anyhow::Result<String> {
    let [count, size, burst, cpu] = numbers(line.strip_prefix("run ").context("not `run`")?)?;
    let job = Job { count, size: size as usize, burst: burst as usize };
    job.check()?;
    stay_on(pinned, cpu as usize)?;
    let before = sink.drops.read()?;
    let (reading, errors) = sink.send(job);
    let dropped = sink.drops.read()?.since(before);
    Ok(format!("{} {} {} {errors} {dropped}", reading.ticks, reading.wall_ns, reading.cpu_ns))
}

fn stay_on(pinned: &mut Option<(usize, Pinned)>, cpu: usize) -> anyhow::Result<()> {
    if pinned.as_ref().is_none_or(|(current, _)| *current != cpu) {
        *pinned = None; // before the new one: its drop restores the former set
        let pin = os::pin_to_cpu(cpu).with_context(|| format!("cannot stay on processor {cpu}"))?;
        *pinned = Some((cpu, pin));
    }
    Ok(())
}

/// A connected socket whose packets end in a counter.
struct Sink {
    socket: UdpSocket,
    drops: Drops,
    device: String,
    _held: Held,
}

/// What must stay open for the packets to have somewhere to go.
#[expect(dead_code, reason = "held open, never read")]
enum Held {
    Tap(File),
    Unread(UdpSocket),
}

impl Sink {
    fn open() -> anyhow::Result<Sink> {
        match namespace() {
            Ok(namespace) => tap(namespace).or_else(|why| loopback(&format!("no TAP ({})", one_line(&why)), true)),
            Err(why) => loopback(&format!("no network namespace ({})", one_line(&why)), false),
        }
    }

    fn send(&self, job: Job) -> (Reading, u64) {
        let payload = vec![0x5a; job.size];
        let mut errors = 0;
        let reading = match job.burst {
            1 => measure(job.count, || {
                for _ in 0..job.count {
                    errors += u64::from(!matches!(self.socket.send(&payload), Ok(n) if n == job.size));
                }
            }),
            burst => {
                let mut batch = Batch::new(&payload, burst);
                measure(job.count, || errors = job.count - batch.send(&self.socket, job.count))
            }
        };
        (reading, errors)
    }

    /// Sends a few packets and demands that each is counted as dropped.
    fn prove(&mut self) -> anyhow::Result<()> {
        let before = self.drops.read()?;
        let (_, errors) = self.send(Job { count: 4, size: PAYLOAD, burst: 1 });
        let dropped = self.drops.read()?.since(before);
        ensure!(errors == 0 && dropped >= 4, "4 packets sent, {errors} refused, {dropped} dropped");
        Ok(())
    }
}

/// A network namespace for this process alone, and the way it was had.
fn namespace() -> anyhow::Result<&'static str> {
    let refused = match unshare(libc::CLONE_NEWNET) {
        Ok(()) => return Ok("network namespace"),
        Err(refused) => refused,
    };
    let (uid, gid) = ids();
    unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET)
        .with_context(|| format!("unshare(NEWNET): {refused}; unshare(NEWUSER|NEWNET)"))?;
    for (file, text) in
        [("setgroups", "deny".to_owned()), ("uid_map", format!("0 {uid} 1")), ("gid_map", format!("0 {gid} 1"))]
    {
        std::fs::write(format!("/proc/self/{file}"), text).with_context(|| format!("write /proc/self/{file}"))?;
    }
    Ok("user and network namespace")
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: takes an integer and touches no memory of ours. It concerns the calling thread alone; the child has no other.
    done(unsafe { libc::unshare(flags) })
}

fn ids() -> (u32, u32) {
    // SAFETY: neither takes an argument, fails, or touches memory.
    unsafe { (libc::geteuid(), libc::getegid()) }
}

fn done(answer: libc::c_int) -> io::Result<()> {
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn tap(namespace: &str) -> anyhow::Result<Sink> {
    let mut tap = open_tap("tap0")?;
    let index = index_of("tap0")?;
    // Without it the interface would add its own router solicitations to the drops. Not fatal: they are few.
    let _ = std::fs::write("/proc/sys/net/ipv6/conf/tap0/disable_ipv6", "1");
    let mut route = Route::open()?;
    route.ask(&address(index)).context("address 10.99.0.1/24 on the TAP")?;
    route.ask(&link_up(index)).context("bring the TAP up")?;
    route.ask(&neighbor(index)).context("static neighbor 10.99.0.2")?;
    let socket = connected(OURS, THEIRS, DISCARD)?;
    socket.send(&[0x5a; PAYLOAD]).context("send through the TAP")?;
    let checked = read_back(&mut tap)?;
    let offload = offloads_checksums(&socket, "tap0")?;
    let device = String::new();
    let mut sink = Sink { socket, drops: Drops::Device { route, index }, device, _held: Held::Tap(tap) };
    let filter = drop_everything(&mut sink)?;
    let checksums =
        if offload { "the device takes checksum offload" } else { "no checksum offload, so the kernel computes them" };
    sink.device = format!(
        "TAP in a {namespace} of its own, 64-byte frames without FCS; every packet is dropped by {filter}; {checksums} ({checked})"
    );
    Ok(sink)
}

fn open_tap(name: &str) -> anyhow::Result<File> {
    let tap = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open("/dev/net/tun")
        .context("open /dev/net/tun")?;
    let mut request = ifreq(name);
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes the ifreq, which is valid and outlives the call.
    done(unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF as _, &mut request) }).context("ioctl TUNSETIFF")?;
    Ok(tap)
}

fn ifreq(name: &str) -> libc::ifreq {
    // SAFETY: ifreq is integers, arrays of them and a pointer; all bits zero is valid.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    request
}

fn index_of(name: &str) -> anyhow::Result<u32> {
    let name = std::ffi::CString::new(name)?;
    // SAFETY: `name` is a NUL-terminated string that outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()).context("if_nametoindex"),
        index => Ok(index),
    }
}

/// ETHTOOL_GTXCSUM: does the device ask the kernel to leave checksums to it?
fn offloads_checksums(socket: &UdpSocket, name: &str) -> anyhow::Result<bool> {
    const GET_TX_CHECKSUM: u32 = 0x16;
    let mut value = [GET_TX_CHECKSUM, 0]; // struct ethtool_value
    let mut request = ifreq(name);
    request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    // SAFETY: the ifreq points to an ethtool_value (two u32), as this command wants; both outlive the call.
    done(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &mut request) })
        .context("ioctl ETHTOOL_GTXCSUM")?;
    // SAFETY: `value` is alive; volatile because the compiler does not see the kernel's write through `request`.
    Ok(unsafe { std::ptr::addr_of!(value[1]).read_volatile() } != 0)
}

fn connected(from: Ipv4Addr, to: Ipv4Addr, port: u16) -> anyhow::Result<UdpSocket> {
    let socket = UdpSocket::bind((from, 0)).with_context(|| format!("bind a UDP socket to {from}"))?;
    socket.connect((to, port)).with_context(|| format!("connect to {to}"))?;
    socket.set_write_timeout(Some(Duration::from_secs(1)))?; // a device that holds packets must not hold us
    Ok(socket)
}

/// Finds our datagram among the frames the TAP was given before it had a filter.
fn read_back(tap: &mut File) -> anyhow::Result<&'static str> {
    let mut frame = [0; 2048];
    loop {
        let length = tap.read(&mut frame).context("our datagram did not come out of the TAP")?;
        let frame = &frame[..length];
        if frame.get(12..14) == Some(&[8, 0]) && frame.get(23) == Some(&17) {
            ensure!(length == 64, "the frame has {length} bytes, not 64");
            ensure!(frame[..6] == THEIR_MAC, "the frame goes to another neighbor");
            ensure!(checksums_right(frame), "a checksum of the frame does not verify");
            return Ok("a frame read back carried right ones");
        }
    }
}

/// Of an Ethernet frame with IPv4 without options and UDP: do both checksums verify (RFC 1071)?
fn checksums_right(frame: &[u8]) -> bool {
    let (header, datagram) = frame[14..].split_at(20);
    let pseudo = sum(&header[12..20]) + 17 + datagram.len() as u32;
    fold(sum(header)) == 0xffff && fold(pseudo + sum(datagram)) == 0xffff && datagram[6..8] != [0, 0]
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low))).sum()
}

fn fold(sum: u32) -> u32 {
    let once = (sum & 0xffff) + (sum >> 16);
    (once & 0xffff) + (once >> 16)
}

/// Installs the first filter this kernel has, and proves that it drops. Kernels differ in what they were built with.
///
/// The order is that of cost: a filter before the queue (clsact), then a queue that drops, then a queue that overflows.
/// A classic-BPF program in direct-action mode is taken as it is handed over in the message; one for the bpf system call
/// would need CAP_BPF, which a user namespace does not give.
fn drop_everything(sink: &mut Sink) -> anyhow::Result<String> {
    let Drops::Device { route, index } = &mut sink.drops else { bail!("not a device") };
    let index = *index;
    let mut missing = Vec::new();
    let attempts = match route.ask(&clsact(index)) {
        Ok(()) => vec![
            ("tc clsact + matchall + gact drop", matchall(index)),
            ("tc clsact + u32 + gact drop", u32_any(index)),
            ("tc clsact + cls_bpf direct action (classic BPF: ret TC_ACT_SHOT)", bpf(index)),
            ("the blackhole queue", blackhole(index)),
        ],
        Err(why) => {
            missing.push(format!("clsact: {}", one_line(&why)));
            vec![("the blackhole queue", blackhole(index))]
        }
    };
    for (name, request) in attempts {
        let Drops::Device { route, .. } = &mut sink.drops else { bail!("not a device") };
        match route.ask(&request).and_then(|()| sink.prove()) {
            Ok(()) => return Ok(name.to_owned() + &not_there(&missing)),
            Err(why) => missing.push(format!("{}: {}", name.trim_start_matches("tc clsact + "), one_line(&why))),
        }
    }
    let fill = Job { count: 4096, size: PAYLOAD, burst: 1 };
    sink.send(fill);
    sink.prove().context("nothing in this kernel drops packets")?;
    Ok("its own full queue, which nobody reads".to_owned() + &not_there(&missing))
}

fn not_there(missing: &[String]) -> String {
    if missing.is_empty() { String::new() } else { format!(" (this kernel refused {})", missing.join(", ")) }
}

fn loopback(why: &str, own_namespace: bool) -> anyhow::Result<Sink> {
    if own_namespace {
        Route::open()?.ask(&link_up(1)).context("bring lo up")?; // index 1 in every namespace
    }
    let unread = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("bind a UDP socket on 127.0.0.1")?;
    let port = unread.local_addr()?.port();
    let socket = connected(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, port)?;
    let device = format!(
        "loopback to a full socket that nobody reads ({why}); the figure contains the receive path up to that socket, \
         and no checksum: loopback takes checksum offload"
    );
    let mut sink = Sink { socket, drops: Drops::Socket { port }, device, _held: Held::Unread(unread) };
    let before = sink.drops.read()?;
    for _ in 0..100_000 {
        if sink.drops.read()?.since(before) > 0 {
            sink.prove()?;
            return Ok(sink);
        }
        sink.send(Job { count: 64, size: PAYLOAD, burst: 1 });
    }
    bail!("6.4 million datagrams did not fill a socket's buffer")
}

/// Where drops are counted.
enum Drops {
    /// The statistics of the queues on a device, and its own `drop` column.
    Device { route: Route, index: u32 },
    /// The last column of /proc/net/udp.
    Socket { port: u16 },
}

/// Levels of the kernel's counters, which are 32 bits wide in part and go round.
#[derive(Clone, Copy)]
struct Level {
    narrow: u32,
    wide: u64,
}

impl Level {
    fn since(self, before: Level) -> u64 {
        u64::from(self.narrow.wrapping_sub(before.narrow)) + self.wide.wrapping_sub(before.wide)
    }
}

impl Drops {
    fn read(&mut self) -> anyhow::Result<Level> {
        match self {
            Drops::Device { route, index } => {
                Ok(Level { narrow: route.queue_drops(*index)?, wide: device_drops("tap0")? })
            }
            Drops::Socket { port } => Ok(Level { narrow: socket_drops(*port)?, wide: 0 }),
        }
    }
}

/// Column 12 after the name in /proc/net/dev: packets the driver dropped while transmitting.
fn device_drops(name: &str) -> anyhow::Result<u64> {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").context("read /proc/net/dev")?;
    let row = table.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'));
    let column =
        row.and_then(|row| row.split_whitespace().nth(11)).with_context(|| format!("{name} in /proc/net/dev"))?;
    Ok(column.parse()?)
}

fn socket_drops(port: u16) -> anyhow::Result<u32> {
    let table = std::fs::read_to_string("/proc/thread-self/net/udp").context("read /proc/net/udp")?;
    let local = format!(":{port:04X}");
    let ours = |line: &&str| line.split_whitespace().nth(1).is_some_and(|address| address.ends_with(&local));
    let column = table.lines().find(ours).and_then(|row| row.split_whitespace().last());
    Ok(column.context("our socket in /proc/net/udp")?.parse()?)
}

/// `burst` messages that all carry the same payload.
struct Batch<'a> {
    _payload: PhantomData<&'a [u8]>,
    messages: Vec<libc::mmsghdr>,
    _parts: Vec<libc::iovec>, // the messages point into it, and it into the payload
}

impl<'a> Batch<'a> {
    fn new(payload: &'a [u8], burst: usize) -> Batch<'a> {
        let part = libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() };
        let mut parts = vec![part; burst];
        let message = |part: &mut libc::iovec| {
            // SAFETY: mmsghdr is integers and pointers; all bits zero is valid: no name, no parts, no control data.
            let mut message: libc::mmsghdr = unsafe { zeroed() };
            message.msg_hdr.msg_iov = part;
            message.msg_hdr.msg_iovlen = 1;
            message
        };
        let messages = parts.iter_mut().map(message).collect();
        Batch { _payload: PhantomData, messages, _parts: parts }
    }

    /// Sends `count` datagrams; how many went.
    fn send(&mut self, socket: &UdpSocket, count: u64) -> u64 {
        let mut sent = 0;
        while sent < count {
            let some = (count - sent).min(self.messages.len() as u64);
            // SAFETY: `some` messages are valid; `self` keeps their parts, and borrows the payload, for the whole call.
            // The kernel reads the payload only, although iovec has a `*mut` for it.
            let went = unsafe { libc::sendmmsg(socket.as_raw_fd(), self.messages.as_mut_ptr(), some as u32, 0) };
            match u64::try_from(went) {
                Ok(went) if went > 0 => sent += went,
                _ => break,
            }
        }
        sent
    }
}

// As much of rtnetlink as is needed: linux/rtnetlink.h, linux/pkt_sched.h, linux/pkt_cls.h.
const EGRESS: u32 = 0xffff_fff3; // TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_EGRESS)
const SHOT: u32 = 2; // TC_ACT_SHOT
const CREATE: u16 = (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16;
const OPTIONS: u16 = 2; // TCA_OPTIONS, TCA_ACT_OPTIONS

/// A netlink message in the making: kind, flags, then the body with its attributes.
struct Message {
    kind: u16,
    flags: u16,
    body: Vec<u8>,
}

impl Message {
    fn new(kind: u16, flags: u16, header: &[u8]) -> Message {
        Message { kind, flags, body: header.to_vec() }
    }

    fn with(mut self, attribute: &[u8]) -> Message {
        self.body.extend_from_slice(attribute);
        self
    }

    fn bytes(&self, sequence: u32) -> Vec<u8> {
        let flags = self.flags | libc::NLM_F_REQUEST as u16 | libc::NLM_F_ACK as u16;
        let mut bytes = words(&[16 + self.body.len() as u32]);
        bytes.extend([self.kind, flags].iter().flat_map(|half| half.to_ne_bytes()));
        bytes.extend(words(&[sequence, 0]));
        bytes.extend(&self.body);
        bytes
    }
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// An attribute, padded to four bytes. Nested attributes are the value of their parent.
fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes: Vec<u8> = [4 + value.len() as u16, kind].iter().flat_map(|half| half.to_ne_bytes()).collect();
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn address(index: u32) -> Message {
    let header = [&[libc::AF_INET as u8, 24, 0, 0][..], &index.to_ne_bytes()].concat(); // ifaddrmsg
    let local = attribute(libc::IFA_LOCAL, &OURS.octets());
    Message::new(libc::RTM_NEWADDR, CREATE, &header).with(&local).with(&attribute(libc::IFA_ADDRESS, &OURS.octets()))
}

fn link_up(index: u32) -> Message {
    let up = libc::IFF_UP as u32;
    Message::new(libc::RTM_NEWLINK, 0, &words(&[0, index, up, up])) // ifinfomsg: flags, and which of them change
}

fn neighbor(index: u32) -> Message {
    let family = u32::from_ne_bytes([libc::AF_INET as u8, 0, 0, 0]);
    let state = u32::from_ne_bytes([libc::NUD_PERMANENT as u8, 0, 0, 0]); // then ndm_flags, ndm_type
    Message::new(libc::RTM_NEWNEIGH, CREATE, &words(&[family, index, state]))
        .with(&attribute(libc::NDA_DST, &THEIRS.octets()))
        .with(&attribute(libc::NDA_LLADDR, &THEIR_MAC))
}

/// A tcmsg, and the kind of queue or filter.
fn tc(kind: u16, index: u32, [handle, parent, info]: [u32; 3], name: &[u8]) -> Message {
    Message::new(kind, CREATE, &words(&[0, index, handle, parent, info])).with(&attribute(1, name))
}

fn clsact(index: u32) -> Message {
    tc(libc::RTM_NEWQDISC, index, [0xffff_0000, 0xffff_fff1, 0], b"clsact\0")
}

fn blackhole(index: u32) -> Message {
    let root = 0xffff_ffff;
    let mut message = tc(libc::RTM_NEWQDISC, index, [0, root, 0], b"blackhole\0");
    message.flags = (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16; // the default queue is there already
    message
}

/// A filter at egress for every protocol, with priority 1.
fn filter(index: u32, name: &[u8], options: &[u8]) -> Message {
    let info = 1 << 16 | u32::from((libc::ETH_P_ALL as u16).to_be());
    tc(libc::RTM_NEWTFILTER, index, [0, EGRESS, info], name).with(&attribute(OPTIONS, options))
}

/// The action list with one action in it: gact, drop.
fn gact_drop() -> Vec<u8> {
    let parameters = attribute(2, &words(&[0, 0, SHOT, 0, 0])); // TCA_GACT_PARMS: tc_gact
    attribute(1, &[attribute(1, b"gact\0"), attribute(OPTIONS, &parameters)].concat())
}

fn matchall(index: u32) -> Message {
    filter(index, b"matchall\0", &attribute(2, &gact_drop())) // TCA_MATCHALL_ACT
}

fn u32_any(index: u32) -> Message {
    let terminal_one_key = u32::from_ne_bytes([1, 0, 1, 0]);
    let selector = words(&[terminal_one_key, 0, 0, 0, 0, 0, 0, 0]); // tc_u32_sel and one tc_u32_key that matches anything
    filter(index, b"u32\0", &[attribute(5, &selector), attribute(7, &gact_drop())].concat()) // TCA_U32_SEL, TCA_U32_ACT
}

fn bpf(index: u32) -> Message {
    let ret_k = u64::from((libc::BPF_RET | libc::BPF_K) as u16);
    let program = words(&[ret_k as u32, SHOT]); // one sock_filter: `ret #2`
    let length = attribute(4, &1_u16.to_ne_bytes()); // TCA_BPF_OPS_LEN
    let direct = attribute(8, &words(&[1])); // TCA_BPF_FLAGS: TCA_BPF_FLAG_ACT_DIRECT
    filter(index, b"bpf\0", &[length, attribute(5, &program), direct].concat()) // TCA_BPF_OPS
}

/// A netlink socket to the routing family.
struct Route {
    socket: File,
    sequence: u32,
}

impl Route {
    fn open() -> anyhow::Result<Route> {
        // SAFETY: takes integers; the descriptor is checked and owned by nobody else.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_ROUTE) };
        done(fd).context("a netlink socket")?;
        // SAFETY: `fd` is open (checked above) and ours alone.
        Ok(Route { socket: unsafe { File::from_raw_fd(fd) }, sequence: 0 })
    }

    fn ask(&mut self, message: &Message) -> anyhow::Result<()> {
        self.exchange(message, |_, _| ())
    }

    /// The sum of drops over the queues of device `index`, as `tc -s qdisc` shows them.
    fn queue_drops(&mut self, index: u32) -> anyhow::Result<u32> {
        let mut drops = 0_u32;
        let dump = Message::new(libc::RTM_GETQDISC, libc::NLM_F_DUMP as u16, &words(&[0, index, 0, 0, 0]));
        self.exchange(&dump, |kind, body| {
            if kind == libc::RTM_NEWQDISC && word(body, 4) == Some(index) {
                drops = drops.wrapping_add(body.get(20..).and_then(drops_of_queue).unwrap_or(0));
            }
        })
        .context("statistics of the device's queues")?;
        Ok(drops)
    }

    /// Sends a message and hands what comes back to `each`, up to its acknowledgement.
    fn exchange(&mut self, message: &Message, mut each: impl FnMut(u16, &[u8])) -> anyhow::Result<()> {
        self.sequence += 1;
        self.socket.write_all(&message.bytes(self.sequence))?;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let length = self.socket.read(&mut buffer)?;
            let mut rest = &buffer[..length];
            while let (Some(size), Some(kind)) = (word(rest, 0), half(rest, 4)) {
                let Some(body) = rest.get(16..size as usize) else { bail!("a netlink message of {size} bytes") };
                match libc::c_int::from(kind) {
                    libc::NLMSG_ERROR => return acknowledged(body),
                    libc::NLMSG_DONE => return Ok(()),
                    _ => each(kind, body),
                }
                rest = rest.get((size as usize).next_multiple_of(4)..).unwrap_or(&[]);
            }
        }
    }
}

fn acknowledged(body: &[u8]) -> anyhow::Result<()> {
    match word(body, 0).map(|code| code as i32) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code).into()),
        None => bail!("a netlink acknowledgement without a code"),
    }
}

/// Third word of gnet_stats_queue (TCA_STATS_QUEUE, 3) in TCA_STATS2 (7): qlen, backlog, drops, ...
fn drops_of_queue(attributes: &[u8]) -> Option<u32> {
    word(find(find(attributes, 7)?, 3)?, 8)
}

fn find(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    loop {
        let size = usize::from(half(attributes, 0)?);
        if half(attributes, 2)? & 0x3fff == wanted {
            return attributes.get(4..size);
        }
        attributes = attributes.get(size.next_multiple_of(4).max(4)..)?;
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Started again by the tests below, this test is the child.
    #[test]
    fn the_child() {
        child_main_if_asked();
    }

    fn worker() -> Worker {
        Worker::start(&["native::tests::the_child", "--exact"]).expect("at least loopback")
    }

    #[test]
    fn every_packet_sent_is_dropped_and_counted() {
        let mut worker = worker();
        for burst in [1, 7, 32] {
            let done = worker.run(Job { count: 1000, size: PAYLOAD, burst }).unwrap();
            assert_eq!((done.reading.ops, done.dropped), (1000, 1000), "{}", worker.device);
            assert!(done.reading.ticks > 0 && done.reading.wall_ns > 0);
        }
    }

    #[test]
    fn loopback_serves_where_there_is_no_device() {
        let mut sink = loopback("a test", false).unwrap();
        let before = sink.drops.read().unwrap();
        assert_eq!(sink.send(Job { count: 500, size: PAYLOAD, burst: 1 }).1, 0);
        assert_eq!(sink.drops.read().unwrap().since(before), 500);
    }

    #[test]
    fn a_long_loop_is_made_of_runs() {
        let done = repeat(worker(), Job { count: MOST_IN_A_RUN + 5, size: 1, burst: 64 }).unwrap();
        assert_eq!((done.reading.ops, done.dropped), (MOST_IN_A_RUN + 5, MOST_IN_A_RUN + 5));
        assert_eq!(done.call, "sendmmsg, 64 at a time");
    }

    #[test]
    fn what_cannot_be_sent_is_refused_in_words() {
        for (count, size, burst) in [(0, 22, 1), (1, 0, 1), (1, 1473, 1), (1, 22, 0), (1, 22, 1025)] {
            let why = repeat(worker(), Job { count, size, burst }).unwrap_err().to_string();
            assert!(why.contains("not in") || why.contains("at least 1"), "{why}");
        }
    }

    #[test]
    fn the_child_ends_with_its_socket() {
        let mut worker = worker();
        worker.socket.get_ref().shutdown(std::net::Shutdown::Both).unwrap();
        assert!(worker.child.wait().unwrap().success());
        assert!(worker.run(Job { count: 1, size: 1, burst: 1 }).is_err());
    }

    #[test]
    fn a_program_that_does_not_serve_is_found_out() {
        let why = Worker::start(&["--list"]).unwrap_err().to_string();
        assert!(why.contains("child_main_if_asked"), "{why}");
    }

    #[test]
    fn counters_go_round() {
        let before = Level { narrow: u32::MAX - 1, wide: 7 };
        assert_eq!(Level { narrow: 3, wide: 8 }.since(before), 6);
    }

    #[test]
    fn attributes_are_padded_and_found_again() {
        let nested = attribute(7, &[attribute(1, b"abc"), attribute(3, &words(&[10, 20, 30]))].concat());
        assert_eq!(drops_of_queue(&[attribute(2, b"x"), nested].concat()), Some(30));
        assert_eq!(drops_of_queue(&[4, 0]), None);
        assert_eq!(drops_of_queue(&[0; 64]), None);
    }

    #[test]
    fn a_receiving_trial_reads_what_was_sent() {
        let reading = NativeRecv::start().unwrap().trial().unwrap();
        assert_eq!(reading.ops, WAITING * REFILLS);
    }
}
