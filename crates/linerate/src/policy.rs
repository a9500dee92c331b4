//! Policies: which flows the stations behind a port may open, and how much they may transfer.
//!
//! A host that connects a virtual machine or a container to the outside receives all packets of
//! that station at one port. A [`Policy`] for this port decides about each flow before any other
//! part of the host processes it. The decision may use addresses, ports, and the domain name that
//! the station looked up. It applies to what the host's sockets and forwarders receive, and to what
//! the host forwards.
//!
//! ```
//! use linerate::Host;
//! use linerate::net::{TcpListener, TcpStream};
//! use linerate::policy::{Decision, Policy, Quota};
//! use std::io::ErrorKind;
//!
//! let policy = Policy::new(|flow| match (flow.destination.port(), flow.name.as_deref()) {
//!     (53, _) | (_, Some("example.org")) => Decision::Allow,
//!     (80, _) => Decision::Allow,
//!     _ => Decision::Refuse,
//! });
//! let policy = policy.upload(Quota::rate(1_000_000)).download(Quota::total(1_000_000_000));
//!
//! let gateway = Host::builder().port("pair:vm").addr("10.0.0.1/24").policy(&policy).build()?;
//! let vm = Host::builder().port("pair:vm").addr("10.0.0.2/24").build()?;
//! let listeners = [TcpListener::bind(&gateway, "10.0.0.1:80")?, TcpListener::bind(&gateway, "10.0.0.1:22")?];
//!
//! assert!(TcpStream::connect(&vm, "10.0.0.1:80").is_ok());
//! let refused = TcpStream::connect(&vm, "10.0.0.1:22").unwrap_err();
//! assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
//! assert_eq!(policy.counts().refused.get(), 1);
//! # drop(listeners);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Names
//!
//! The policy reads DNS responses over UDP, in flows that the station opened and that the hook, the
//! function passed to [`Policy::new`], allowed. A hook that relies on names should allow port 53 of
//! trusted servers only. Several names may have one address; the flow then has the last of these
//! names that the station looked up. The station is identified by its MAC address, so names apply
//! to its IPv4 and IPv6 addresses. All stations behind a port for IP packets have one MAC address.
//! Names from DNS over TCP, TLS or HTTPS are not seen.
//!
//! # Limits
//!
//! Addresses are not verified: a station may use any source address. A hook can compare
//! `flow.source` with the addresses of its guest, and the sysctls `net.inet.ip.source_validation`
//! and `net.inet6.ip6.source_validation` drop sources that belong to other interfaces. Quotas apply
//! to each address, or to each IPv6 prefix of 64 bits, and not to a machine. All packets of a
//! tunnel belong to one flow.
//!
//! The tables of a policy are shared among its stations: at most 65,536 flows
//! ([`Policy::max_flows`]), 8,192 names, and 4,096 addresses with quotas. A station that fills them
//! affects the others, so tenants should have policies of their own. If quotas limit a total, the
//! table of addresses is never cleared.

pub use ::node::policy::{Decision, Flow, FlowState, Policy, PolicyCounts, Quota, SOURCES_MAX, Volume};
pub use ::wire::Proto;
