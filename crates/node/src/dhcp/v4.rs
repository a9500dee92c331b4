//! A DHCPv4 client of one interface (RFC 2131 4.4), without sockets.
//!
//! ```text
//!            offer           ACK            free          T1            T2
//!  Selecting ----> Requesting ---> Checking ----> Bound ----> Renewing ----> Rebinding
//!      ^  no ACK, NAK  |    taken  |                ^   ACK      |   ACK        |
//!      +---------------+-----------+                +------------+--------------+
//!      +------------------------------ NAK, end of the lease -------------------+
//! ```
//!
//! Any station on the link can send an answer, because there is no authentication. An answer must
//! therefore repeat the transaction identifier and the MAC address, and [`Lease::of`] checks the
//! values of the lease. A new address is probed with ARP before it is used (RFC 2131 4.4.1), for
//! half a second instead of the six seconds of RFC 5227.

use super::lease::Lease;
use clock::{Duration, Instant};
use dhcproto::Encodable;
use dhcproto::v4::{DhcpOption, Flags, HType, Message, MessageType, Opcode, OptionCode, borrowed};
use std::net::Ipv4Addr;
use wire::Mac;

/// Time before the first retransmission, doubled for each further one (RFC 2131 4.1).
const RETRY: Duration = Duration::from_secs(4);
/// Maximum time between retransmissions.
const RETRY_MAX: Duration = Duration::from_secs(64);
/// Number of unanswered requests for an offer after which the client starts discovery again.
const REQUESTS_MAX: u32 = 4;
/// Minimum time between requests for renewal (RFC 2131 4.4.5).
const RENEWAL_PAUSE_MIN: Duration = Duration::from_secs(60);
/// Number of ARP probes for a new address.
const PROBES: u32 = 2;
/// Time to wait after each probe.
const PROBE_PAUSE: Duration = Duration::from_millis(250);
/// Pause after a NAK and after an address conflict (RFC 2131 3.1, 5). It limits the rate of
/// requests to a server that rejects all of them.
const NAK_PAUSE: Duration = Duration::from_secs(10);
/// Maximum accepted message length (RFC 2132 9.10).
pub(crate) const MESSAGE_MAX: u16 = 1472;
/// Minimum length of a BOOTP message in bytes (RFC 1542 2.1), because relays drop shorter messages.
const MESSAGE_MIN: usize = 300;

/// State of a client (RFC 2131 4.4, figure 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Waits for offers.
    Selecting,
    /// Waits for the acknowledgment of an offer.
    Requesting,
    /// Probes whether another station uses the leased address.
    Checking,
    /// Uses a lease.
    Bound,
    /// Requests renewal of the lease from its server.
    Renewing,
    /// Requests renewal of the lease from any server.
    Rebinding,
    /// Released; sends no requests.
    Stopped,
}

impl State {
    /// Returns the name of the state (RFC 2131, figure 5).
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Selecting => "SELECTING",
            State::Requesting => "REQUESTING",
            State::Checking => "CHECKING",
            State::Bound => "BOUND",
            State::Renewing => "RENEWING",
            State::Rebinding => "REBINDING",
            State::Stopped => "STOPPED",
        }
    }
}

/// Destination of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum To {
    Broadcast,
    Server(Ipv4Addr),
}

/// Action that the owner of a client must perform.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Send(Vec<u8>, To),
    /// Send an ARP probe, to detect another station that uses this address.
    Probe(Ipv4Addr),
    /// Configure this lease; `None` to remove the configuration.
    Configure(Option<Box<Lease>>),
}

/// A client of one interface.
#[derive(Debug)]
pub(crate) struct Client {
    mac: Mac,
    host_name: String,
    xid: u32,
    state: State,
    /// Start of the current transaction.
    began: Instant,
    /// Time of the next message or state change.
    due: Instant,
    /// Number of messages sent in the current state.
    sent: u32,
    /// Offered lease that is being requested or probed; `None` if there is none.
    offer: Option<Lease>,
    lease: Option<Lease>,
}

impl Client {
    /// Creates a client that starts discovery with the next [`Client::poll`].
    pub(crate) fn new(mac: Mac, host_name: &str) -> Client {
        Client {
            mac,
            host_name: host_name.to_string(),
            xid: 0,
            state: State::Selecting,
            began: Instant::ZERO,
            due: Instant::ZERO,
            sent: 0,
            offer: None,
            lease: None,
        }
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    pub(crate) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// Returns the time of the next [`Client::poll`].
    pub(crate) fn next(&self) -> Instant {
        self.due
    }

    /// Returns the actions that are due. `random` is a fresh unpredictable number.
    pub(crate) fn poll(&mut self, now: Instant, random: u64) -> Vec<Action> {
        if now < self.due {
            return Vec::new();
        }
        match self.state {
            State::Selecting => vec![self.discover(now, random)],
            State::Requesting if self.sent >= REQUESTS_MAX => {
                self.start(now);
                self.poll(now, random)
            }
            State::Requesting => vec![self.request(now, random)],
            State::Checking => self.check(now),
            State::Bound => {
                self.enter(State::Renewing, now, random);
                self.poll(now, random)
            }
            State::Renewing | State::Rebinding => self.extend(now, random),
            State::Stopped => {
                self.due = Instant::NEVER;
                Vec::new()
            }
        }
    }

    /// Starts the discovery of servers at the time `at`.
    fn start(&mut self, at: Instant) {
        (self.state, self.due, self.sent, self.offer) = (State::Selecting, at, 0, None);
    }

    /// Enters `state` and starts a new transaction.
    fn enter(&mut self, state: State, now: Instant, random: u64) {
        (self.state, self.due, self.sent) = (state, now, 0);
        (self.xid, self.began) = (random as u32, now);
    }

    /// Returns the time of the next retransmission: after 4, 8, ... 64 s, plus or minus up to a
    /// second.
    fn retry_at(&self, now: Instant, random: u64) -> Instant {
        let pause = RETRY.saturating_mul(1 << self.sent.min(8)).min(RETRY_MAX);
        now.after(pause - Duration::from_secs(1) + Duration::from_millis(random % 2000))
    }

    fn discover(&mut self, now: Instant, random: u64) -> Action {
        if self.sent == 0 {
            self.enter(State::Selecting, now, random);
        }
        self.due = self.retry_at(now, random >> 32);
        self.sent += 1;
        let message = self.message(MessageType::Discover, now);
        Action::Send(encoded(&message), To::Broadcast)
    }

    fn request(&mut self, now: Instant, random: u64) -> Action {
        self.due = self.retry_at(now, random >> 32);
        self.sent += 1;
        let mut message = self.message(MessageType::Request, now);
        if let Some(offer) = &self.offer {
            message.opts_mut().insert(DhcpOption::RequestedIpAddress(offer.addr.addr));
            message.opts_mut().insert(DhcpOption::ServerIdentifier(offer.server));
        }
        Action::Send(encoded(&message), To::Broadcast)
    }

    /// Sends the next ARP probe for the offered address. After the last probe, starts using the
    /// lease.
    fn check(&mut self, now: Instant) -> Vec<Action> {
        let Some(lease) = self.offer.clone() else {
            self.start(now);
            return Vec::new();
        };
        if self.sent > PROBES {
            return self.bind(lease);
        }
        self.sent += 1;
        self.due = now.after(PROBE_PAUSE);
        vec![Action::Probe(lease.addr.addr)]
    }

    /// Declines the offered address, because another station uses it (RFC 2131 3.1, 5). Starts
    /// discovery again after a pause.
    pub(crate) fn decline(&mut self, now: Instant) -> Vec<Action> {
        let Some(lease) = self.offer.take() else { return Vec::new() };
        let mut message = self.message(MessageType::Decline, now);
        message.opts_mut().insert(DhcpOption::RequestedIpAddress(lease.addr.addr));
        message.opts_mut().insert(DhcpOption::ServerIdentifier(lease.server));
        message.opts_mut().remove(OptionCode::ParameterRequestList);
        message.opts_mut().remove(OptionCode::MaxMessageSize);
        self.start(now.after(NAK_PAUSE));
        vec![Action::Send(encoded(&message), To::Broadcast)]
    }

    /// Requests renewal of the lease, or ends the lease when its time has expired.
    fn extend(&mut self, now: Instant, random: u64) -> Vec<Action> {
        let Some(lease) = self.lease.clone() else {
            self.start(now);
            return Vec::new();
        };
        if now >= lease.until {
            self.lease = None;
            self.start(now);
            return vec![Action::Configure(None)];
        }
        if self.state == State::Renewing && now >= lease.rebind_at {
            self.enter(State::Rebinding, now, random);
        }
        let (end, to) = match self.state {
            State::Renewing => (lease.rebind_at, To::Server(lease.server)),
            _ => (lease.until, To::Broadcast),
        };
        // The next request is due after half of the remaining time, at least a minute (RFC 2131
        // 4.4.5).
        let pause = (end.since(now) / 2).max(RENEWAL_PAUSE_MIN);
        self.due = now.after(pause).min(end);
        self.sent += 1;
        let mut message = self.message(MessageType::Request, now);
        message.set_ciaddr(lease.addr.addr);
        vec![Action::Send(encoded(&message), to)]
    }

    /// Starts renewing the lease with the next poll. Without a lease, starts discovery.
    pub(crate) fn start_renewal(&mut self, now: Instant, random: u64) {
        match (&self.lease, self.state) {
            (Some(_), _) => self.enter(State::Renewing, now, random),
            (None, _) => self.start(now),
        }
    }

    /// Releases the lease and stops (RFC 2131 4.4.6).
    pub(crate) fn release(&mut self, now: Instant, random: u64) -> Vec<Action> {
        let lease = self.lease.take();
        (self.state, self.due, self.offer) = (State::Stopped, Instant::NEVER, None);
        let Some(lease) = lease else { return Vec::new() };
        (self.xid, self.began) = (random as u32, now);
        let mut message = self.message(MessageType::Release, now);
        message.set_ciaddr(lease.addr.addr).set_flags(Flags::default());
        message.opts_mut().insert(DhcpOption::ServerIdentifier(lease.server));
        message.opts_mut().remove(OptionCode::ParameterRequestList);
        message.opts_mut().remove(OptionCode::MaxMessageSize);
        vec![Action::Send(encoded(&message), To::Server(lease.server)), Action::Configure(None)]
    }

    /// Processes a datagram from a server. Messages for other clients are ignored.
    pub(crate) fn input(&mut self, datagram: &[u8], now: Instant) -> Vec<Action> {
        let Some(message) = parse(datagram).filter(|message| self.is_answer(message)) else { return Vec::new() };
        let lease = Lease::of(&message, now);
        match (self.state, message.opts().msg_type(), lease) {
            (State::Selecting, Some(MessageType::Offer), Some(offer)) => {
                (self.state, self.due, self.sent, self.offer) = (State::Requesting, now, 0, Some(offer));
                Vec::new()
            }
            (State::Requesting, Some(MessageType::Ack), Some(lease))
                if self.offer.as_ref().is_some_and(|offer| offer.server == lease.server) =>
            {
                // The first probe is counted as sent in advance, because `is_answer` requires a
                // sent message.
                (self.state, self.due, self.sent, self.offer) = (State::Checking, now, 1, Some(lease));
                Vec::new()
            }
            (State::Renewing, Some(MessageType::Ack), Some(lease))
                if self.lease.as_ref().is_some_and(|held| held.server == lease.server) =>
            {
                self.bind(lease)
            }
            (State::Rebinding, Some(MessageType::Ack), Some(lease)) => self.bind(lease),
            (State::Requesting | State::Renewing | State::Rebinding, Some(MessageType::Nak), _) => {
                self.start(now.after(NAK_PAUSE));
                self.lease.take().map(|_| Action::Configure(None)).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns whether `message` is an answer to the last message of this client.
    fn is_answer(&self, message: &Message) -> bool {
        let is_sent = self.sent > 0 && message.opcode() == Opcode::BootReply;
        is_sent && message.xid() == self.xid && message.hlen() == 6 && message.chaddr().starts_with(&self.mac.0)
    }

    fn bind(&mut self, lease: Lease) -> Vec<Action> {
        (self.state, self.due, self.sent, self.offer) = (State::Bound, lease.renew_at, 0, None);
        self.lease = Some(lease.clone());
        vec![Action::Configure(Some(Box::new(lease)))]
    }

    /// Returns a message with the fields and options that all messages of the client have.
    fn message(&self, ty: MessageType, now: Instant) -> Message {
        let mut message = Message::default();
        message
            .set_opcode(Opcode::BootRequest)
            .set_htype(HType::Eth)
            .set_xid(self.xid)
            .set_secs(now.since(self.began).as_secs().min(u64::from(u16::MAX)) as u16)
            // An interface without an address can receive broadcasts only (RFC 2131 4.1).
            .set_flags(if self.lease.is_none() { Flags::default().set_broadcast() } else { Flags::default() })
            .set_chaddr(&self.mac.0);
        let options = message.opts_mut();
        options.insert(DhcpOption::MessageType(ty));
        options.insert(DhcpOption::MaxMessageSize(MESSAGE_MAX));
        options.insert(DhcpOption::ParameterRequestList(vec![
            OptionCode::SubnetMask,
            OptionCode::ClasslessStaticRoute, // before Router (RFC 3442)
            OptionCode::Router,
            OptionCode::DomainNameServer,
            OptionCode::DomainName,
            OptionCode::DomainSearch,
            OptionCode::InterfaceMtu,
            OptionCode::Renewal,
            OptionCode::Rebinding,
        ]));
        if wire::dns::is_host_name(&self.host_name) {
            options.insert(DhcpOption::Hostname(self.host_name.clone()));
        }
        message
    }
}

/// Returns the bytes of a message.
fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = message.to_vec().unwrap_or_default(); // all options fit
    if bytes.len() < MESSAGE_MIN {
        bytes.resize(MESSAGE_MIN, 0);
    }
    bytes
}

/// Options that are read from an answer.
const READ: [OptionCode; 12] = [
    OptionCode::MessageType,
    OptionCode::ServerIdentifier,
    OptionCode::AddressLeaseTime,
    OptionCode::Renewal,
    OptionCode::Rebinding,
    OptionCode::SubnetMask,
    OptionCode::Router,
    OptionCode::ClasslessStaticRoute,
    OptionCode::DomainNameServer,
    OptionCode::DomainName,
    OptionCode::DomainSearch,
    OptionCode::InterfaceMtu,
];

/// Parses an answer: its identifiers, the address, and the options of [`READ`]. Other options are
/// not decoded, because dhcproto panics if their length is wrong. Options that are split into
/// several parts are joined (RFC 3396).
pub(crate) fn parse(datagram: &[u8]) -> Option<Message> {
    // A hardware address of a length other than 6 may extend beyond the message.
    let received = borrowed::Message::new(datagram).ok().filter(|received| received.hlen() == 6)?;
    let mut message = Message::default();
    message
        .set_opcode(received.opcode())
        .set_htype(received.htype())
        .set_xid(received.xid())
        .set_yiaddr(received.yiaddr())
        .set_chaddr(received.chaddr());
    for option in received.opts().filter(|option| READ.contains(&option.code())) {
        if let Ok(option) = option.into_option() {
            message.opts_mut().insert(option);
        }
    }
    Some(message)
}
