//! Routes of a routing engine, applied from a stream in memory as a host applies FRR's.

use super::route::{prefixes, prefixes6};
use crate::subject::{Reading, Subject, measure};
use anyhow::ensure;
use clock::Instant;
use inet::fib::DEFAULT_LIMIT;
use inet::iface::IfaceId;
use inet::route::Routes;
use node::fpm::{Engine, FpmConfig, Links, Tables};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::fpm::frame;
use wire::rtnetlink::Builder;

/// Number of the protocol BGP (`rtm_protocol`).
const BGP: u8 = 186;
/// Number of next hops of each family.
const NEXT_HOPS: u32 = 16;
/// Number of the next hop whose change `move` measures. All IPv4 routes use it there.
const SHARED: u32 = 1000;

/// Work that a trial measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineWork {
    /// Routes that are new.
    New,
    /// Routes that are the same as before, on the same connection.
    Same,
    /// Routes that are the same as before, on a new connection with other next hop numbers.
    Renumbered,
    /// One change of the next hop that all IPv4 routes have.
    Move,
}

/// Tables of a router with the stream of a routing engine: IPv4 and IPv6 routes with the prefix
/// lengths of the Internet's table, in the order in which `zebra` announces them.
pub struct EngineRig {
    id: String,
    work: EngineWork,
    v4: Routes,
    v6: Routes<u128>,
    links: Links,
    engine: Engine,
    now: Instant,
    /// The stream, with next hop numbers from 0 and from 100.
    streams: [Stream; 2],
    routes: usize,
    turn: usize,
}

struct Stream {
    next_hops: Vec<u8>,
    routes: Vec<u8>,
}

/// Returns the address of next hop `at` in the family of `like`.
fn gateway(like: IpAddr, at: u32) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::from(0xc000_0200 + at).into(),
        IpAddr::V6(_) => Ipv6Addr::from(0x2001_0db8 << 96 | u128::from(at)).into(),
    }
}

impl Stream {
    /// Returns the stream of `routes` IPv4 routes and the share of IPv6 routes of the Internet,
    /// with next hop numbers from `first`.
    fn new(routes: usize, work: EngineWork, first: u32) -> Stream {
        let families = [IpAddr::from([0; 4]), IpAddr::from([0; 16])];
        let hops = (1..).zip(families).flat_map(|(family, like)| {
            (0..NEXT_HOPS).map(move |at| Builder::new_next_hop(first + family * 20 + at, 1, gateway(like, at)))
        });
        let next_hops = hops.map(|hop| frame(&[hop])).collect::<Vec<_>>().concat();
        let mut v4: Vec<_> = prefixes(routes).collect();
        let mut v6: Vec<_> = prefixes6(routes * 22 / 100).collect();
        v4.sort_unstable();
        v6.sort_unstable();
        let id = |family: u32, at: usize| match work {
            EngineWork::Move if family == 1 => SHARED,
            _ => first + family * 20 + at as u32 % NEXT_HOPS,
        };
        let four = v4.into_iter().enumerate().map(|(at, to)| (id(1, at), to.addr().into(), to.len()));
        let six = v6.into_iter().enumerate().map(|(at, to)| (id(2, at), to.addr().into(), to.len()));
        let all = four.chain(six);
        let routes = all.flat_map(|(id, to, len)| frame(&[Builder::new_route(to, len, BGP).nh_id(id)])).collect();
        Stream { next_hops, routes }
    }
}

impl EngineRig {
    /// Creates a rig with `routes` IPv4 routes and the share of IPv6 routes of the Internet.
    ///
    /// # Errors
    /// A route was not accepted.
    pub fn new(id: &str, work: EngineWork, routes: usize) -> anyhow::Result<EngineRig> {
        let streams = [0, 100].map(|first| Stream::new(routes, work, first));
        let mut rig = EngineRig {
            id: id.to_owned(),
            work,
            v4: Routes::new(DEFAULT_LIMIT, 1),
            v6: Routes::new(DEFAULT_LIMIT, 1),
            links: Links::from([(1, IfaceId(1))]),
            engine: Engine::new(FpmConfig::default()),
            now: Instant::from_millis(1),
            streams,
            routes: routes + routes * 22 / 100,
            turn: 0,
        };
        rig.connect();
        rig.apply_next_hops(0);
        if work != EngineWork::New {
            let routes = std::mem::take(&mut rig.streams[0].routes);
            rig.apply(&routes);
            rig.streams[0].routes = routes;
            ensure!(rig.len() == rig.routes, "{} of {} routes", rig.len(), rig.routes);
        }
        Ok(rig)
    }

    fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    fn with<R>(&mut self, f: impl FnOnce(&mut Engine, &mut Tables<'_>) -> R) -> R {
        let EngineRig { v4, v6, links, engine, now, .. } = self;
        f(engine, &mut Tables { v4, v6, links, now: *now })
    }

    fn connect(&mut self) {
        self.with(|engine, tables| engine.connect(tables));
    }

    /// Applies frames, as many at once as a host does under one lock.
    fn apply(&mut self, frames: &[u8]) -> bool {
        let (mut done, mut has_changed) = (0, false);
        while done < frames.len() {
            let (used, changed) = self.with(|engine, tables| engine.apply(&frames[done..], 32, tables));
            done += used.max(1);
            has_changed |= changed;
        }
        has_changed
    }

    fn apply_next_hops(&mut self, stream: usize) {
        let hops = std::mem::take(&mut self.streams[stream].next_hops);
        self.apply(&hops);
        self.streams[stream].next_hops = hops;
        if self.work == EngineWork::Move {
            self.apply(&frame(&[Builder::new_next_hop(SHARED, 1, gateway([0; 4].into(), 0))]));
        }
    }

    /// Removes all routes: the connection ends, and their time is over.
    fn remove_all(&mut self) {
        self.engine.disconnect(self.now);
        self.now = self.now.after(FpmConfig::default().stale);
        while self.with(|engine, tables| engine.turn(tables)) {}
    }
}

impl Subject for EngineRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        self.turn += 1;
        if self.work == EngineWork::Move {
            let moved = frame(&[Builder::new_next_hop(SHARED, 1, gateway([0; 4].into(), self.turn as u32 % 200 + 1))]);
            let (mut has_changed, before) = (false, self.len());
            let reading = measure(1, || has_changed = self.apply(&moved));
            ensure!(has_changed && self.len() == before, "{}: the routes did not move", self.id);
            return Ok(reading);
        }
        let stream = if self.work == EngineWork::Renumbered { self.turn % 2 } else { 0 };
        if self.work == EngineWork::New {
            self.remove_all();
            ensure!(self.len() == 0, "{}: {} routes are left", self.id, self.len());
        } else if self.work == EngineWork::Renumbered {
            self.engine.disconnect(self.now);
        }
        if self.work != EngineWork::Same {
            self.connect();
            self.apply_next_hops(stream);
        }
        let routes = std::mem::take(&mut self.streams[stream].routes);
        let mut has_changed = false;
        let reading = measure(self.routes as u64, || has_changed = self.apply(&routes));
        self.streams[stream].routes = routes;
        ensure!(self.len() == self.routes, "{}: {} of {} routes", self.id, self.len(), self.routes);
        ensure!(has_changed == (self.work == EngineWork::New), "{}: routes have changed", self.id);
        Ok(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_work_is_done_again_and_again() {
        for work in [EngineWork::New, EngineWork::Same, EngineWork::Renumbered, EngineWork::Move] {
            let mut rig = EngineRig::new("engine", work, 1000).unwrap();
            for _ in 0..3 {
                let reading = rig.trial().unwrap();
                assert_eq!(reading.ops, if work == EngineWork::Move { 1 } else { 1220 });
            }
        }
    }
}
