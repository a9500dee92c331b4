//! Stateless DHCPv6 client of one interface (RFC 8415 6.1): name servers and search domains for a
//! host that gets its addresses from router advertisements.

use clock::{Duration, Instant};
use dhcproto::v6::{DhcpOption, Message, MessageType, ORO, OptionCode};
use dhcproto::{Decodable, Decoder, Encodable};
use std::net::{Ipv6Addr, SocketAddr};
use wire::Mac;

/// Multicast group of all servers and relays (RFC 8415 7.1).
pub(crate) const SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
pub(crate) const CLIENT_PORT: u16 = 546;
pub(crate) const SERVER_PORT: u16 = 547;
/// Time before the first retransmission (RFC 8415 7.6, INF_TIMEOUT), doubled for each further one.
const RETRY: Duration = Duration::from_secs(1);
/// Maximum time between retransmissions (INF_MAX_RT).
const RETRY_MAX: Duration = Duration::from_secs(3600);
/// Default time between requests in seconds, used unless the server sets another (IRT_DEFAULT).
const REFRESH: u32 = 86_400;
/// Minimum time between requests in seconds (IRT_MINIMUM).
const REFRESH_MIN: u32 = 600;

/// Configuration from a server's reply.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Reply {
    pub(crate) name_servers: Vec<SocketAddr>,
    pub(crate) domains: Vec<String>,
}

/// A client of one interface.
#[derive(Debug)]
pub(crate) struct Client {
    mac: Mac,
    xid: [u8; 3],
    /// Start of the current transaction.
    began: Instant,
    /// Time of the next request.
    due: Instant,
    /// Number of unanswered requests; 0 if no transaction is in progress.
    sent: u32,
}

impl Client {
    /// Creates a client that starts with the next [`Client::poll`].
    pub(crate) fn new(mac: Mac) -> Client {
        Client { mac, xid: [0; 3], began: Instant::ZERO, due: Instant::ZERO, sent: 0 }
    }

    /// Returns the time of the next [`Client::poll`].
    pub(crate) fn next(&self) -> Instant {
        self.due
    }

    /// Returns the request that is due. `random` is a fresh unpredictable number.
    pub(crate) fn poll(&mut self, now: Instant, random: u64) -> Option<Vec<u8>> {
        if now < self.due {
            return None;
        }
        if self.sent == 0 {
            let [a, b, c, ..] = random.to_be_bytes();
            (self.xid, self.began) = ([a, b, c], now);
        }
        let pause = RETRY.saturating_mul(1 << self.sent.min(16)).min(RETRY_MAX);
        // The time varies randomly by up to a tenth (RFC 8415 15, RAND).
        let tenth = pause / 10;
        self.due = now.after(pause - tenth + tenth.mul_f64((random % 1000) as f64 / 500.0));
        self.sent += 1;
        let mut message = Message::new_with_id(MessageType::InformationRequest, self.xid);
        let options = message.opts_mut();
        options.insert(DhcpOption::ClientId(self.duid()));
        let hundredths = now.since(self.began).as_millis() / 10;
        options.insert(DhcpOption::ElapsedTime(hundredths.min(u128::from(u16::MAX)) as u16));
        let opts =
            vec![OptionCode::DomainNameServers, OptionCode::DomainSearchList, OptionCode::InformationRefreshTime];
        options.insert(DhcpOption::ORO(ORO { opts }));
        message.to_vec().ok()
    }

    /// Returns the client identifier, a DUID-LL with the Ethernet address (RFC 8415 11.4).
    fn duid(&self) -> Vec<u8> {
        [&[0, 3, 0, 1][..], &self.mac.0].concat()
    }

    /// Processes a datagram from a server; messages for other clients are ignored.
    pub(crate) fn input(&mut self, datagram: &[u8], now: Instant) -> Option<Reply> {
        let message = parse(datagram)?;
        let is_own = self.sent > 0 && message.msg_type() == MessageType::Reply && message.xid() == self.xid;
        // A reply contains the identifiers of both client and server (RFC 8415 16.10).
        let ours = DhcpOption::ClientId(self.duid());
        let has_server = message.opts().get(OptionCode::ServerId).is_some();
        if !is_own || !has_server || message.opts().get(OptionCode::ClientId) != Some(&ours) {
            return None;
        }
        let mut reply = Reply::default();
        let mut refresh = REFRESH;
        for option in message.opts().iter() {
            match option {
                DhcpOption::DomainNameServers(all) => {
                    let usable =
                        all.iter().filter(|addr| !(addr.is_unspecified() || addr.is_multicast() || addr.is_loopback()));
                    reply.name_servers.extend(usable.map(|addr| SocketAddr::new((*addr).into(), 0)));
                }
                DhcpOption::DomainSearchList(names) => {
                    reply.domains.extend(names.iter().map(|name| name.to_ascii()));
                }
                // dhcproto encodes this option but does not decode it.
                DhcpOption::Unknown(unknown) if unknown.code() == OptionCode::InformationRefreshTime => {
                    refresh = unknown.data().first_chunk().map_or(refresh, |seconds| u32::from_be_bytes(*seconds));
                }
                _ => {}
            }
        }
        self.sent = 0;
        self.due = match refresh {
            u32::MAX => Instant::NEVER, // infinity (RFC 8415 21.23)
            seconds => now.after(Duration::from_secs(u64::from(seconds.max(REFRESH_MIN)))),
        };
        Some(reply)
    }
}

/// Options that [`parse`] decodes.
const READ: [OptionCode; 6] = [
    OptionCode::ClientId,
    OptionCode::ServerId,
    OptionCode::ORO,
    OptionCode::DomainNameServers,
    OptionCode::DomainSearchList,
    OptionCode::InformationRefreshTime,
];

/// Parses a message: its type, its transaction identifier, and the options of [`READ`]. Stops at a
/// truncated option. Other options are not decoded, because dhcproto panics if their length is
/// wrong.
pub(crate) fn parse(datagram: &[u8]) -> Option<Message> {
    let (&[kind, xid @ ..], mut rest) = datagram.split_first_chunk::<4>()?;
    let mut message = Message::new_with_id(kind.into(), xid);
    while let Some((&[code, code_low, len, len_low], _)) = rest.split_first_chunk::<4>() {
        let len = 4 + usize::from(u16::from_be_bytes([len, len_low]));
        let Some((option, behind)) = rest.split_at_checked(len) else { break };
        rest = behind;
        if READ.contains(&u16::from_be_bytes([code, code_low]).into())
            && let Ok(option) = DhcpOption::decode(&mut Decoder::new(option))
        {
            message.opts_mut().insert(option);
        }
    }
    Some(message)
}
