//! The library as packetdrill uses it: loaded, and called through its table of functions. Also
//! contains a peer that builds and parses TCP segments, over IPv4 or IPv6.
#![allow(unsafe_code, dead_code)]

use libc::{c_int, c_void, sockaddr};
use libloading::Library;
use linerate_packetdrill::face::Interface;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;
use wire::checksum::Partial;
use wire::tcp::{Flags, HEADER_LEN, Header};
use wire::{L4Port, Proto, ip4, ip6};

/// Address families of sockets and packets, like packetdrill's `--ip_version`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    V4,
    Mapped,
    V6,
}

impl Version {
    pub const ALL: [Version; 3] = [Version::V4, Version::Mapped, Version::V6];

    pub fn us(self) -> IpAddr {
        match self {
            Version::V6 => Ipv6Addr::new(0xfd3d, 0x0a0b, 0x17d6, 0, 0, 0, 0, 1).into(),
            _ => Ipv4Addr::new(192, 168, 0, 1).into(),
        }
    }

    pub fn peer(self) -> IpAddr {
        match self {
            Version::V6 => Ipv6Addr::new(0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, 1).into(),
            _ => Ipv4Addr::new(192, 0, 2, 1).into(),
        }
    }

    pub fn domain(self) -> c_int {
        if self == Version::V4 { libc::AF_INET } else { libc::AF_INET6 }
    }

    /// Returns the level of IP options.
    pub fn level(self) -> c_int {
        if self == Version::V4 { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 }
    }
}

pub const PORT: u16 = 8080;
pub const PEER_PORT: u16 = 40_000;

/// An instance of the interface.
pub struct Loaded {
    pub version: Version,
    pub table: Interface,
    _library: Library,
}

// SAFETY: the interface is designed for calls by two threads.
unsafe impl Sync for Loaded {}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: freed once, and not used after.
        unsafe { (self.table.free)(self.table.userdata) }
    }
}

/// A call through the table: `call!(loaded.socket(a, b))`.
macro_rules! call {
    ($loaded:ident.$name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: the arguments are those that the call of this name requires.
        unsafe { ($loaded.table.$name)($loaded.table.userdata, $($argument),*) }
    }};
}

pub(crate) use call;

impl Loaded {
    /// Runs a conversation with each IP version. Segments have the same length in all versions.
    pub fn each(flags: &str, play: impl Fn(&Loaded)) {
        Version::ALL.into_iter().for_each(|version| play(&Loaded::of(version, flags)));
    }

    /// Loads the library that the build of this package has produced.
    pub fn of(version: Version, flags: &str) -> Loaded {
        let mtu = if version == Version::V6 { "mtu=1520," } else { "" };
        let here = std::env::current_exe().unwrap();
        let path = here.parent().unwrap().join("liblinerate_packetdrill.so");
        // SAFETY: our library, which has no initialisers but those of the standard library.
        let library = unsafe { Library::new(&path) }.unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        let flags = CString::new(format!("{mtu}{flags}")).unwrap();
        let mut table = MaybeUninit::<Interface>::uninit();
        // SAFETY: the symbol has this type; the table is filled in.
        let table = unsafe {
            type Init = unsafe extern "C" fn(*const libc::c_char, *mut Interface);
            let init = library.get::<Init>(b"packetdrill_interface_init\0").unwrap();
            init(flags.as_ptr(), table.as_mut_ptr());
            table.assume_init()
        };
        Loaded { version, table, _library: library }
    }

    /// Opens a TCP socket.
    pub fn stream(&self) -> c_int {
        let fd = call!(self.socket(self.version.domain(), libc::SOCK_STREAM, libc::IPPROTO_TCP));
        assert!(fd >= 0, "{}", errno());
        fd
    }

    /// Opens a socket that listens on [`PORT`].
    pub fn listener(&self) -> c_int {
        let fd = self.stream();
        let name = self.name(self.version.us(), PORT);
        assert_eq!(call!(self.bind(fd, address(&name), name.len() as u32)), 0);
        assert_eq!(call!(self.listen(fd, 5)), 0);
        fd
    }

    /// Sends a packet to the host.
    pub fn input(&self, packet: &[u8]) {
        assert_eq!(call!(self.netdev_send(packet.as_ptr().cast(), packet.len())), 0);
    }

    /// Returns the host's next segment and its send time; `None` if no segment will come.
    pub fn output(&self) -> Option<(Seen, i64)> {
        let mut bytes = [0u8; 65_536];
        let (mut len, mut us) = (bytes.len(), 0);
        assert_eq!(call!(self.netdev_receive(bytes.as_mut_ptr().cast(), &raw mut len, &raw mut us)), 0);
        (len > 0).then(|| (Seen::of(&bytes[..len]), us))
    }

    pub fn now(&self) -> i64 {
        let mut tv = libc::timeval { tv_sec: 0, tv_usec: 0 };
        assert_eq!(call!(self.gettimeofday(&raw mut tv, ptr::null_mut())), 0);
        tv.tv_sec * 1_000_000 + tv.tv_usec
    }

    pub fn write(&self, fd: c_int, bytes: &[u8]) -> isize {
        call!(self.write(fd, bytes.as_ptr().cast(), bytes.len()))
    }

    pub fn read(&self, fd: c_int, most: usize) -> Result<Vec<u8>, c_int> {
        let mut bytes = vec![0u8; most];
        let n = call!(self.read(fd, bytes.as_mut_ptr().cast(), most));
        bytes.truncate(usize::try_from(n).map_err(|_| errno())?);
        Ok(bytes)
    }

    pub fn option(&self, fd: c_int, level: c_int, name: c_int) -> Result<c_int, c_int> {
        let (mut value, mut len) = (0 as c_int, 4);
        let into: *mut c_void = (&raw mut value).cast();
        match call!(self.getsockopt(fd, level, name, into, &raw mut len)) {
            0 => Ok(value),
            _ => Err(errno()),
        }
    }

    pub fn set_option(&self, fd: c_int, level: c_int, name: c_int, value: c_int) -> Result<(), c_int> {
        match call!(self.setsockopt(fd, level, name, (&raw const value).cast(), 4)) {
            0 => Ok(()),
            _ => Err(errno()),
        }
    }

    /// Returns a connection that the peer opened and the host accepted, and the sequence numbers of
    /// both sides' next bytes.
    pub fn accepted(&self, listener: c_int) -> (c_int, u32, u32) {
        self.input(&self.packet(Flags::SYN, 1000, 0, &[2, 4, 5, 180]));
        let (synack, _) = self.output().unwrap();
        assert_eq!((synack.flags, synack.ack), (Flags::SYN | Flags::ACK, 1001));
        self.input(&self.packet(Flags::ACK, 1001, synack.seq.wrapping_add(1), &[]));
        let fd = call!(self.accept(listener, ptr::null_mut(), ptr::null_mut()));
        assert!(fd >= 0, "{}", errno());
        (fd, synack.seq.wrapping_add(1), 1001)
    }
}

pub fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap()
}

pub fn address(bytes: &[u8]) -> *const sockaddr {
    bytes.as_ptr().cast()
}

/// A segment from the host.
#[derive(Clone, Debug)]
pub struct Seen {
    pub src: IpAddr,
    /// TOS or traffic class, and TTL or hop limit.
    pub tos: u8,
    pub ttl: u8,
    pub ports: (u16, u16),
    pub flags: Flags,
    pub seq: u32,
    pub ack: u32,
    pub window: u16,
    pub options: Vec<u8>,
    pub text: Vec<u8>,
}

impl Seen {
    fn of(packet: &[u8]) -> Seen {
        let (src, tos, ttl, segment, pseudo) = if ip6::is_version(packet) {
            let ip = ip6::Header::parse(packet).unwrap();
            let segment = ip.payload(packet);
            assert_eq!(ip.next, Proto::TCP);
            let pseudo = pseudo(ip.src.into(), ip.dst.into(), segment);
            (ip.src.into(), ip.traffic_class, ip.hop_limit, segment, pseudo)
        } else {
            let ip = ip4::Header::parse(packet).unwrap();
            let segment = ip.payload(packet);
            let pseudo = pseudo(ip.src.into(), ip.dst.into(), segment);
            (ip.src.into(), ip.tos, ip.ttl, segment, pseudo)
        };
        let tcp = Header::parse(segment).unwrap();
        assert!(wire::tcp::checksum_ok(pseudo, segment));
        Seen {
            src,
            tos,
            ttl,
            ports: (tcp.src.0, tcp.dst.0),
            flags: tcp.flags,
            seq: tcp.seq,
            ack: tcp.ack,
            window: tcp.window,
            options: segment[HEADER_LEN..tcp.header_len].to_vec(),
            text: tcp.payload(segment).to_vec(),
        }
    }
}

fn pseudo(src: IpAddr, dst: IpAddr, segment: &[u8]) -> Partial {
    pseudo_of(src, dst, Proto::TCP, segment.len())
}

fn pseudo_of(src: IpAddr, dst: IpAddr, proto: Proto, len: usize) -> Partial {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Partial::pseudo4(src, dst, proto, len as u16),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Partial::pseudo6(src, dst, proto, len as u32),
        _ => panic!("{src} and {dst} are of two families"),
    }
}

/// Builds a packet of the given protocol from `src` to `dst`.
pub fn ip_packet(src: IpAddr, dst: IpAddr, proto: Proto, payload: &[u8]) -> Vec<u8> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let mut ip = [0; ip4::HEADER_LEN];
            ip4::Header::new(src, dst, proto, payload.len()).unwrap().emit(&mut ip);
            [&ip[..], payload].concat()
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let mut ip = [0; ip6::HEADER_LEN];
            let payload_len = payload.len() as u16;
            let (traffic_class, flow_label, hop_limit) = (0, 0, 64);
            let header = ip6::Header { traffic_class, flow_label, payload_len, next: proto, hop_limit, src, dst };
            header.emit(&mut ip);
            [&ip[..], payload].concat()
        }
        _ => panic!("{src} and {dst} are of two families"),
    }
}

/// Builds a packet with a UDP datagram.
pub fn datagram(from: (IpAddr, u16), to: (IpAddr, u16), payload: &[u8]) -> Vec<u8> {
    let len = wire::udp::HEADER_LEN + payload.len();
    let header = wire::udp::Header { src: L4Port(from.1), dst: L4Port(to.1), len: len as u16, checksum: 0 };
    let mut fixed = [0; wire::udp::HEADER_LEN];
    header.with_checksum(pseudo_of(from.0, to.0, Proto::UDP, len), payload).emit(&mut fixed);
    ip_packet(from.0, to.0, Proto::UDP, &[&fixed[..], payload].concat())
}

impl Loaded {
    /// Returns a `struct sockaddr` of the sockets' address family.
    pub fn name(&self, addr: IpAddr, port: u16) -> Vec<u8> {
        let (family, port) = ((self.version.domain() as u16).to_ne_bytes(), port.to_be_bytes());
        match (addr, self.version) {
            (IpAddr::V4(addr), Version::V4) => [&family[..], &port, &addr.octets(), &[0; 8]].concat(),
            (IpAddr::V4(addr), _) => [&family[..], &port, &[0; 4], &addr.to_ipv6_mapped().octets(), &[0; 4]].concat(),
            (IpAddr::V6(addr), _) => [&family[..], &port, &[0; 4], &addr.octets(), &[0; 4]].concat(),
        }
    }

    /// Builds a segment from the peer to [`PORT`]; `more` contains the options of a SYN, or the
    /// data of other segments.
    pub fn packet(&self, flags: Flags, seq: u32, ack: u32, more: &[u8]) -> Vec<u8> {
        self.packet_between((PEER_PORT, PORT), flags, seq, ack, more)
    }

    pub fn packet_between(&self, ports: (u16, u16), flags: Flags, seq: u32, ack: u32, more: &[u8]) -> Vec<u8> {
        let (us, peer) = (self.version.us(), self.version.peer());
        let options = if flags.contains(Flags::SYN) { more.len() } else { 0 };
        let header = Header {
            src: L4Port(ports.0),
            dst: L4Port(ports.1),
            seq,
            ack,
            header_len: HEADER_LEN + options,
            flags,
            window: 60_000,
            checksum: 0,
            urgent: 0,
        };
        let mut fixed = [0; HEADER_LEN];
        header.emit(&mut fixed);
        let mut segment = [&fixed[..], more].concat();
        let sum = pseudo(peer, us, &segment);
        wire::tcp::fill_checksum(sum, &mut segment);
        ip_packet(peer, us, Proto::TCP, &segment)
    }
}
