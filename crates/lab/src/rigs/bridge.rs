//! A bridge between two in-memory ports, and its address table alone.

use crate::subject::{Reading, Subject, measure};
use crate::{os, timer, tsc};
use anyhow::{Context, ensure};
use bridge::{Bridge, BridgeConfig, Fdb, FdbConfig, Key, Member, PortNo};
use buf::{Burst, Pool, PoolConfig, PoolLocks};
use clock::{Instant, Random};
use port::pair::pair;
use port::{Caps, Port};
use wire::{Mac, hash};

/// Number of frames that wait in a port at the beginning of a round.
const RING: usize = 1024;
const ROUNDS: u64 = if cfg!(debug_assertions) { 4 } else { 16 };
const NOW: Instant = Instant::from_millis(1000);

pub(super) fn station(port: PortNo, n: usize) -> Mac {
    let [.., a, b, c] = n.to_be_bytes();
    Mac([2, 0, port as u8, a, b, c])
}

pub(super) fn table(most: usize) -> FdbConfig {
    // Each build has another key, so that entries do not collide in the same way every time.
    FdbConfig { most, key: hash::Key::random(), ..FdbConfig::new() }
}

/// Rig of a bridge with two ports. Frames go from stations at one port to stations at the other,
/// with learned addresses in random order. The measured part receives a frame from the first port's
/// ring, bridges it, and puts it into the second port's ring. Filling and emptying the rings is not
/// measured.
pub struct BridgeRig {
    id: String,
    bridge: Bridge,
    ports: Vec<Port>,
    /// Far ends of the bridge's ports: the other ends of their rings.
    ends: Vec<Port>,
    out: Vec<Burst>,
    pool: Pool,
    random: Random,
    /// Number of stations at each port.
    stations: usize,
    /// Length of a frame in bytes, without FCS.
    len: usize,
    burst: usize,
}

impl BridgeRig {
    /// Creates a rig with `stations` addresses in all, and frames of `len` bytes without FCS,
    /// received from a port `burst` at a time.
    ///
    /// # Errors
    /// Memory for the buffers cannot be allocated.
    pub fn new(id: &str, stations: usize, len: usize, burst: usize) -> anyhow::Result<BridgeRig> {
        let pool = Pool::new(&PoolConfig { buffers: 2 * RING, locks: PoolLocks::Owner, ..PoolConfig::default() })?;
        let mut bridge = Bridge::new(BridgeConfig { fdb: table(stations) });
        let (ports, ends) = (0..2).map(|at| pair(&format!("p{at}"), RING, Caps::PLAIN)).unzip();
        for port in 0..2 {
            bridge.add(Member::default()).context("cannot add a port to the bridge")?;
            for n in 0..stations / 2 {
                bridge.fdb_mut().learn(Key::new(0, station(port, n)), port, false, NOW);
            }
        }
        ensure!(bridge.fdb().len() == stations / 2 * 2, "{id}: {} of {stations} stations learned", bridge.fdb().len());
        let out = vec![Burst::new(), Burst::new()];
        let (id, random) = (id.to_owned(), Random::new(0));
        Ok(BridgeRig { id, bridge, ports, ends, out, pool, random, stations: stations / 2, len, burst })
    }

    /// Fills the first port's ring with frames for stations at the other port.
    fn fill(&mut self) -> anyhow::Result<()> {
        let mut burst = Burst::new();
        for _ in 0..RING {
            let mut frame = self.pool.get().context("no free buffer in the pool")?;
            let (dst, src) = (self.random.index(self.stations), self.random.index(self.stations));
            let header = [station(1, dst).0, station(0, src).0].concat();
            frame.append(self.len).context("the frame does not fit into the buffer")?[..12].copy_from_slice(&header);
            ensure!(burst.push(frame).is_ok());
            if burst.room() == 0 {
                self.ends[0].tx.tx_burst(&mut burst, NOW);
            }
        }
        self.ends[0].tx.tx_burst(&mut burst, NOW);
        Ok(())
    }

    /// Runs the bridge's loop until no frame is waiting. Returns the number of frames received.
    fn run(&mut self) -> usize {
        let (mut burst, mut came) = (Burst::new(), 0);
        loop {
            let got = self.ports[0].rx.rx_burst(&mut burst, self.burst, NOW);
            if got == 0 {
                return came;
            }
            came += got;
            self.bridge.input(0, &mut burst, NOW, &mut self.out);
            self.ports[1].tx.tx_burst(&mut self.out[1], NOW);
        }
    }

    fn empty(&mut self) -> usize {
        let (mut burst, mut left) = (Burst::new(), 0);
        while self.ends[1].rx.rx_burst(&mut burst, 256, NOW) > 0 {
            left += burst.len();
            burst.clear();
        }
        left
    }
}

impl Subject for BridgeRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let mut all = Reading { ops: 0, ticks: 0, wall_ns: 0, cpu_ns: 0 };
        let (wall, cpu) = (os::monotonic_ns(), os::thread_cpu_ns());
        for _ in 0..ROUNDS {
            self.fill()?;
            let start = tsc::now();
            let came = self.run();
            all.ticks += tsc::now().saturating_sub(start).saturating_sub(timer::cost());
            ensure!((came, self.empty()) == (RING, RING), "{}: {came} of {RING} frames forwarded", self.id);
            all.ops += came as u64;
        }
        (all.wall_ns, all.cpu_ns) = (os::monotonic_ns() - wall, os::thread_cpu_ns() - cpu);
        let dropped = self.bridge.drops().nonzero();
        ensure!(
            dropped.is_empty() && self.bridge.audit().holds(),
            "{}: frames dropped or unaccounted for: {dropped:?}",
            self.id
        );
        Ok(all)
    }
}

/// Properties that the names of a rig's rows state, as counted by its ports and address table, for
/// tests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BridgeFacts {
    /// Number of addresses in the table.
    pub addresses: usize,
    /// Mean length of a frame in bytes, without FCS.
    pub frame: f64,
    /// Mean number of frames per transmitted burst.
    pub burst: f64,
}

impl BridgeRig {
    /// Returns the counts since the rig was built.
    pub fn facts(&self) -> BridgeFacts {
        let sent = &self.ports[1].counts.tx;
        let frames = sent.frames.get() as f64;
        BridgeFacts {
            addresses: self.bridge.fdb().len(),
            frame: sent.bytes.get() as f64 / frames,
            burst: frames / sent.bursts.get() as f64,
        }
    }
}

/// Rig that looks up addresses in the bridge's address table alone, in bursts of 32.
pub struct FdbRig {
    id: String,
    fdb: Fdb,
    keys: Vec<Key>,
}

impl FdbRig {
    /// Creates a table of `addresses` addresses, all of which are looked up in random order.
    ///
    /// # Errors
    /// Some addresses were not learned.
    pub fn new(id: &str, addresses: usize) -> anyhow::Result<FdbRig> {
        let mut fdb = Fdb::new(table(addresses));
        let key = |n| Key::new(0, station(0, n));
        for n in 0..addresses {
            fdb.learn(key(n), 0, false, NOW);
        }
        ensure!(fdb.len() == addresses);
        let mut random = Random::new(0);
        Ok(FdbRig { id: id.to_owned(), fdb, keys: (0..1 << 16).map(|_| key(random.index(addresses))).collect() })
    }

    /// Returns three numbers: addresses in the table, lookups in a trial, and lookups in a trial
    /// that find their address.
    pub fn facts(&self) -> [usize; 3] {
        let mut out = [None; 32];
        let found = self.keys.chunks_exact(out.len()).map(|keys| {
            self.fdb.lookup_burst(keys, NOW, &mut out);
            out.iter().flatten().count()
        });
        [self.fdb.len(), self.keys.len(), found.sum()]
    }
}

impl Subject for FdbRig {
    fn id(&self) -> &str {
        &self.id
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        let (mut out, mut found) = ([None; 32], 0);
        let reading = measure(self.keys.len() as u64, || {
            for keys in self.keys.chunks_exact(out.len()) {
                self.fdb.lookup_burst(keys, NOW, &mut out);
                found += usize::from(std::hint::black_box(&out)[0].is_some());
            }
        });
        ensure!(found == self.keys.len() / out.len(), "{}: address not found in the table", self.id);
        Ok(reading)
    }
}

/// Rig that takes buffers from a pool and returns them, 32 at a time.
pub struct PoolRig {
    pool: Pool,
}

impl PoolRig {
    /// Creates a rig with its own pool.
    ///
    /// # Errors
    /// Memory cannot be allocated.
    pub fn new() -> anyhow::Result<PoolRig> {
        Ok(PoolRig { pool: Pool::new(&PoolConfig { locks: PoolLocks::Owner, ..PoolConfig::default() })? })
    }

    /// Returns the number of buffers taken, and of buffers returned.
    pub fn facts(&self) -> [u64; 2] {
        let stats = self.pool.stats();
        [stats.gets, stats.puts]
    }
}

impl Subject for PoolRig {
    fn id(&self) -> &str {
        "pool"
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        const BURSTS: u64 = 4096;
        let (mut burst, mut got) = (Burst::new(), 0);
        let reading = measure(BURSTS * 32, || {
            for _ in 0..BURSTS {
                got += self.pool.get_burst(32, &mut burst);
                std::hint::black_box(&burst);
                burst.clear();
            }
        });
        ensure!(got as u64 == BURSTS * 32);
        Ok(reading)
    }
}

/// Rig that passes frames through a ring between two ends on one core, 32 at a time.
pub struct RingRig {
    pool: Pool,
}

impl RingRig {
    /// Creates a rig with its own pool.
    ///
    /// # Errors
    /// Memory cannot be allocated.
    pub fn new() -> anyhow::Result<RingRig> {
        Ok(RingRig { pool: Pool::new(&PoolConfig { locks: PoolLocks::Owner, ..PoolConfig::default() })? })
    }
}

impl Subject for RingRig {
    fn id(&self) -> &str {
        "ring"
    }

    fn trial(&mut self) -> anyhow::Result<Reading> {
        const BURSTS: u64 = 4096;
        let (mut to, mut from) = buf::ring::ring(RING);
        let mut burst = Burst::new();
        self.pool.get_burst(32, &mut burst);
        let mut crossed = 0;
        let reading = measure(BURSTS * 32, || {
            for _ in 0..BURSTS {
                crossed += to.push_burst(&mut burst);
                from.pop_burst(&mut burst, 32);
            }
        });
        ensure!(crossed as u64 == BURSTS * 32);
        Ok(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_frames_are_forwarded_and_all_addresses_found() {
        for burst in [1, 32] {
            let reading = BridgeRig::new("bridge", 100, 60, burst).unwrap().trial().unwrap();
            assert_eq!(reading.ops, ROUNDS * RING as u64);
            assert!(reading.ticks > 0 && reading.wall_ns > 0);
        }
        assert_eq!(FdbRig::new("fdb", 1000).unwrap().trial().unwrap().ops, 1 << 16);
        assert_eq!(PoolRig::new().unwrap().trial().unwrap().ops, 1 << 17);
        assert_eq!(RingRig::new().unwrap().trial().unwrap().ops, 1 << 17);
    }
}
