//! Parser for the lines of the control connection (RFC 959 5.3, RFC 2428, RFC 3659).

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A command received from the client. Arguments are the bytes after the first space, unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Command<'a> {
    User(&'a [u8]),
    Pass(&'a [u8]),
    Quit,
    Rein,
    Noop,
    Help,
    Syst,
    Stat(&'a [u8]),
    Feat,
    Opts(&'a [u8]),
    /// ACCT and ALLO: accepted without effect.
    Superfluous,
    Pwd,
    Cwd(&'a [u8]),
    Cdup,
    Type(&'a [u8]),
    Mode(&'a [u8]),
    Stru(&'a [u8]),
    Pasv,
    Epsv(&'a [u8]),
    Port(&'a [u8]),
    Eprt(&'a [u8]),
    Size(&'a [u8]),
    Mdtm(&'a [u8]),
    Rest(&'a [u8]),
    List(&'a [u8]),
    Nlst(&'a [u8]),
    Retr(&'a [u8]),
    Stor(&'a [u8]),
    Appe(&'a [u8]),
    Mlst(&'a [u8]),
    Mlsd(&'a [u8]),
    Dele(&'a [u8]),
    Mkd(&'a [u8]),
    Rmd(&'a [u8]),
    Rnfr(&'a [u8]),
    Rnto(&'a [u8]),
    Abor,
    /// A standard command that this server does not implement (reply 502).
    NotHere,
    Unknown,
}

impl Command<'_> {
    pub(super) fn parse(line: &[u8]) -> Command<'_> {
        use Command as C;
        let (verb, arg) = match line.iter().position(|byte| *byte == b' ') {
            Some(at) => (line.get(..at).unwrap_or_default(), line.get(at + 1..).unwrap_or_default()),
            None => (line, &[][..]),
        };
        match verb.to_ascii_uppercase().as_slice() {
            b"USER" => C::User(arg),
            b"PASS" => C::Pass(arg),
            b"QUIT" => C::Quit,
            b"REIN" => C::Rein,
            b"NOOP" => C::Noop,
            b"HELP" => C::Help,
            b"SYST" => C::Syst,
            b"STAT" => C::Stat(arg),
            b"FEAT" => C::Feat,
            b"OPTS" => C::Opts(arg),
            b"ACCT" | b"ALLO" => C::Superfluous,
            b"PWD" | b"XPWD" => C::Pwd,
            b"CWD" | b"XCWD" => C::Cwd(arg),
            b"CDUP" | b"XCUP" => C::Cdup,
            b"TYPE" => C::Type(arg),
            b"MODE" => C::Mode(arg),
            b"STRU" => C::Stru(arg),
            b"PASV" => C::Pasv,
            b"EPSV" => C::Epsv(arg),
            b"PORT" => C::Port(arg),
            b"EPRT" => C::Eprt(arg),
            b"SIZE" => C::Size(arg),
            b"MDTM" => C::Mdtm(arg),
            b"REST" => C::Rest(arg),
            b"LIST" => C::List(arg),
            b"NLST" => C::Nlst(arg),
            b"RETR" => C::Retr(arg),
            b"STOR" => C::Stor(arg),
            b"APPE" => C::Appe(arg),
            b"MLST" => C::Mlst(arg),
            b"MLSD" => C::Mlsd(arg),
            b"DELE" => C::Dele(arg),
            b"MKD" | b"XMKD" => C::Mkd(arg),
            b"RMD" | b"XRMD" => C::Rmd(arg),
            b"RNFR" => C::Rnfr(arg),
            b"RNTO" => C::Rnto(arg),
            b"ABOR" => C::Abor,
            b"SMNT" | b"STOU" | b"SITE" | b"AUTH" | b"PBSZ" | b"PROT" | b"LANG" | b"HOST" => C::NotHere,
            _ => C::Unknown,
        }
    }
}

/// Parses the argument of PORT: `h1,h2,h3,h4,p1,p2`.
pub(super) fn host_port(arg: &[u8]) -> Option<SocketAddr> {
    let text = std::str::from_utf8(arg).ok()?;
    let mut numbers = text.trim().split(',').map(octet);
    let mut next = || numbers.next().flatten();
    let ip = Ipv4Addr::new(next()?, next()?, next()?, next()?);
    let port = u16::from_be_bytes([next()?, next()?]);
    numbers.next().is_none().then_some(SocketAddr::from((ip, port)))
}

fn octet(text: &str) -> Option<u8> {
    let digits = (1..=3).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

/// Reason for rejecting an EPRT argument.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BadEprt {
    Syntax,
    /// The protocol number is neither 1 (IPv4) nor 2 (IPv6).
    Protocol,
}

/// Parses the argument of EPRT: `|1|132.235.1.2|6275|`, with any printable character as delimiter
/// (RFC 2428 2).
pub(super) fn extended_port(arg: &[u8]) -> Result<SocketAddr, BadEprt> {
    let text = std::str::from_utf8(arg).map_err(|_| BadEprt::Syntax)?.trim();
    let bar = text.chars().next().filter(char::is_ascii_graphic).ok_or(BadEprt::Syntax)?;
    let parts: Vec<&str> = text.split(bar).collect();
    let ["", protocol, ip, port, ""] = parts.as_slice() else { return Err(BadEprt::Syntax) };
    let family = match *protocol {
        "1" | "2" => *protocol,
        other if !other.is_empty() && other.bytes().all(|byte| byte.is_ascii_digit()) => return Err(BadEprt::Protocol),
        _ => return Err(BadEprt::Syntax),
    };
    let ip: IpAddr = ip.parse().map_err(|_| BadEprt::Syntax)?;
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port: u16 = port.parse().ok().filter(|_| digits).ok_or(BadEprt::Syntax)?;
    if ip.is_ipv4() == (family == "1") { Ok(SocketAddr::new(ip, port)) } else { Err(BadEprt::Syntax) }
}

/// Parses the argument of REST, a file offset in bytes.
pub(super) fn offset(arg: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(arg).ok()?.trim();
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Returns the file name in the argument of LIST or NLST, without leading options such as `-l`.
pub(super) fn listed_name(arg: &[u8]) -> &[u8] {
    let mut rest = arg.trim_ascii();
    while rest.first() == Some(&b'-') {
        let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
        rest = rest.get(end..).unwrap_or_default().trim_ascii_start();
    }
    rest
}
