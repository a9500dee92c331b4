//! The other bridge in the comparison: the kernel's or Open vSwitch, over TAP devices whose other
//! ends the test holds.

use super::super::lan::ok;
use super::draw::{MARK, Set};
use super::open_vswitch::OpenVswitch;
use super::ours::received;
use super::{Out, PORTS, Plan};
use crate::common::run;
use buf::{Pool, PoolConfig};
use clock::Instant;
use port::Port;
use port::tap::{self, TapConfig};
use std::process::Command;
use std::time::Duration;

/// Maximum time to wait for a frame. Nearly all frames arrive at once.
const PATIENCE: Duration = Duration::from_millis(500);

const VLANS: &str = "vlan_filtering 1 vlan_default_pvid 0";

/// Returns whether the kernel's bridge has VLANs (CONFIG_BRIDGE_VLAN_FILTERING).
pub fn has_vlans() -> bool {
    let tried = run(Command::new("ip").args(["link", "add", "brv", "type", "bridge"]).args(VLANS.split(' ')));
    tried.status.success() && run(Command::new("ip").args(["link", "del", "brv"])).status.success()
}

/// Implementation of the bridge.
enum Whose {
    Kernel,
    Ovs(OpenVswitch),
}

pub struct Theirs {
    whose: Whose,
    ends: Vec<Port>,
    pool: Pool,
}

impl Theirs {
    /// Creates TAP devices that belong to no bridge.
    fn ends() -> (Vec<Port>, Pool) {
        let pool = Pool::new(&PoolConfig { buffers: 256, ..PoolConfig::default() }).unwrap();
        let config = TapConfig { vnet_hdr: false, up: true, ..TapConfig::default() };
        ok("echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6");
        ((0..PORTS).map(|at| tap::open(&format!("t{at}"), &config, &pool).unwrap()).collect(), pool)
    }

    /// Creates a bridge of Open vSwitch with these VLANs.
    pub fn open_vswitch(sets: &[Set]) -> Theirs {
        let (ends, pool) = Theirs::ends();
        Theirs { whose: Whose::Ovs(OpenVswitch::new(sets)), ends, pool }
    }

    pub fn new(plan: Plan, sets: &[Set]) -> Theirs {
        let (ends, pool) = Theirs::ends();
        let theirs = Theirs { whose: Whose::Kernel, ends, pool };
        let filters = sets.iter().any(|set| !set.member.is_empty());
        theirs.ip(&format!(
            "link add br0 address 02:00:00:00:ff:00 type bridge stp_state 0 forward_delay 0 mcast_snooping 0 \
             no_linklocal_learn 1 ageing_time {} {}",
            plan.age_s * 100,
            if filters { VLANS } else { "" }
        ));
        for (at, set) in sets.iter().enumerate() {
            theirs.ip(&format!("link set t{at} address 02:00:00:00:ff:1{at} master br0"));
            for (vid, untagged) in &set.member {
                let untagged = if *untagged { "untagged" } else { "" };
                let pvid = if set.pvid == Some(*vid) { "pvid" } else { "" };
                ok(&format!("bridge vlan add dev t{at} vid {vid} {pvid} {untagged}"));
            }
        }
        theirs.ip("link set br0 up");
        theirs
    }

    pub fn ip(&self, words: &str) {
        ok(&format!("ip {words}"));
    }

    /// Passes a frame in. Returns the frames that leave, once as many as expected have arrived.
    /// Additional or late frames are found with the next call.
    pub fn pass(&mut self, from: usize, bytes: &[u8], expected: usize) -> Out {
        let mut frame = self.pool.get().unwrap();
        frame.extend(bytes).unwrap();
        assert!(self.ends[from].tx.tx_one(frame, Instant::ZERO).is_ok());
        if let Whose::Ovs(ovs) = &mut self.whose {
            ovs.has_seen_one_more();
        }
        let begun = std::time::Instant::now();
        let mut all: Out = vec![Vec::new(); PORTS];
        loop {
            for (at, all) in all.iter_mut().enumerate() {
                all.extend(self.came(at));
            }
            if all.iter().map(Vec::len).sum::<usize>() >= expected || begun.elapsed() > PATIENCE {
                return all;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    fn came(&mut self, at: usize) -> Vec<Vec<u8>> {
        received(&mut self.ends[at], |bytes| bytes.windows(MARK.len()).any(|part| part == MARK))
    }

    /// Checks that no further frames arrive.
    pub fn quiet(&mut self) {
        std::thread::sleep(Duration::from_millis(100));
        for at in 0..PORTS {
            assert_eq!(self.came(at), Vec::<Vec<u8>>::new());
        }
    }
}

impl Drop for Theirs {
    fn drop(&mut self) {
        if let Whose::Kernel = self.whose {
            let _ = Command::new("ip").args(["link", "del", "br0"]).status();
        }
    }
}
