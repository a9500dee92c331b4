//! Tests the spanning tree with the kernel's bridge as neighbor, which uses STP. Two links, made of
//! TAP devices in a separate network namespace, connect the two bridges.

use bridge::{Duplex, Effect, Link, PortRole, PortState, Stp, StpConfig, StpPort};
use buf::{Burst, Pool, PoolConfig};
use clock::{Clock, Duration, Instant, Strategy};
use linerate_bridge as bridge;
use port::os::netns;
use port::tap::{self, TapConfig};
use std::process::Command;
use wire::Mac;
use wire::bpdu::{BRIDGE_GROUP, BridgeId};

const INSIDE: &str = "LINERATE_IN_NS";
const TAPS: [&str; 2] = ["tap0", "tap1"];
const UP: Link = Link::Up { duplex: Duplex::Full, speed_kbps: 10_000 };

/// Runs `body` in a separate network namespace. Prints the reason if that is not possible.
fn isolated(test: &str, body: impl FnOnce()) {
    if std::env::var(INSIDE).is_ok_and(|inside| inside == test) {
        return body();
    }
    if let Err(why) = netns::available() {
        return println!("skipped: {test}: {why}");
    }
    let mut cmd = Command::new(std::env::current_exe().unwrap());
    cmd.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(INSIDE, test);
    let output = netns::command(&mut cmd).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{test} did not pass in its namespace (status {})",
        output.status
    );
}

/// Runs `ip` of iproute2 with these arguments. Returns its output, or its error message.
fn ip(words: &str) -> Result<String, String> {
    let output = Command::new("ip").args(words.split(' ')).output().map_err(|why| format!("ip: {why}"))?;
    if !output.status.success() {
        return Err(format!("ip {words}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the word after `what` in the kernel's description of a device.
fn said(device: &str, what: &str) -> String {
    let text = ip(&format!("-d -o link show dev {device}")).unwrap();
    let mut words = text.split_whitespace().skip_while(|word| *word != what);
    words.nth(1).unwrap_or_default().to_owned()
}

/// Returns the states of the kernel's bridge ports. `ip` prints `state` twice for a device: first
/// the state of the device, then that of the bridge port.
fn kernel_states() -> Vec<String> {
    let state = |tap: &&str| {
        let text = ip(&format!("-d -o link show dev {tap}")).unwrap();
        let (_, slave) = text.split_once("bridge_slave state ").unwrap();
        slave.split_whitespace().next().unwrap().to_owned()
    };
    TAPS.iter().map(state).collect()
}

struct Us {
    stp: Stp,
    ports: Vec<port::Port>,
    pool: Pool,
    clock: Clock,
}

impl Us {
    fn new(pool: Pool) -> Result<Us, String> {
        let open = |name: &&str| {
            let config = TapConfig { vnet_hdr: false, up: true, ..TapConfig::default() };
            tap::open(name, &config, &pool).map_err(|why| why.to_string())
        };
        let ports = TAPS.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let clock = Clock::live(Strategy::default());
        let (address, now) = (Mac([2, 0, 0, 0, 0, 1]), clock.now());
        let times = StpConfig { hello_s: 1, max_age_s: 6, forward_delay_s: 4, ..StpConfig::default() };
        let mut stp = Stp::new(StpConfig { address, priority: 0x1000, ..times }, now).unwrap();
        for no in 0..2 {
            stp.add_port(no, StpPort::default(), now).unwrap();
            stp.set_link(no, UP, now);
        }
        Ok(Us { stp, ports, pool, clock })
    }

    fn step(&mut self) {
        let now = self.clock.now();
        for (no, port) in self.ports.iter_mut().enumerate() {
            let mut burst = Burst::new();
            port.rx.rx_burst(&mut burst, 32, now);
            for frame in burst.drain() {
                if frame.bytes().starts_with(&BRIDGE_GROUP.0) {
                    self.stp.on_bpdu(no as u16, frame.bytes(), now);
                }
            }
        }
        self.stp.poll(now);
        while let Some(effect) = self.stp.next_effect() {
            if let Effect::Transmit(no, bpdu) = effect {
                self.send(usize::from(no), &bpdu.emit_frame(Mac([2, 0, 0, 0, 1, no as u8])), now);
            }
        }
    }

    fn send(&mut self, no: usize, bytes: &[u8], now: Instant) {
        let mut frame = self.pool.get().unwrap();
        frame.extend(bytes).unwrap();
        let mut burst = Burst::new();
        burst.push(frame).unwrap();
        self.ports[no].tx.tx_burst(&mut burst, now);
    }

    /// Runs until `so` returns true, and prints the elapsed time. Panics after the time `most`.
    fn until(&mut self, what: &str, most: Duration, mut so: impl FnMut(&Stp) -> bool) {
        let begun = self.clock.now();
        for round in 0.. {
            self.step();
            if round % 20 == 0 && so(&self.stp) {
                return println!("{what}: {:.1?}", self.clock.now().since(begun));
            }
            let took = self.clock.now().since(begun);
            assert!(
                took < most,
                "{what}: {:?} {:?} {:?}",
                kernel_states(),
                self.stp.view(),
                self.stp.ports().collect::<Vec<_>>()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn kernel_bridge() -> Result<(), String> {
    ip("link add br0 type bridge stp_state 1 hello_time 100 max_age 600 forward_delay 400 priority 40960")?;
    ip("link set br0 up")?;
    for tap in TAPS {
        ip(&format!("link set {tap} master br0"))?;
    }
    Ok(())
}

#[test]
fn the_kernels_bridge_and_we_make_one_tree() {
    let name = "the_kernels_bridge_and_we_make_one_tree";
    isolated(name, || {
        let pool = Pool::new(&PoolConfig { buffers: 64, ..PoolConfig::default() }).unwrap();
        let mut us = match Us::new(pool).and_then(|us| kernel_bridge().map(|()| us)) {
            Ok(us) => us,
            Err(why) => return println!("skipped: {name}: {why}"),
        };
        let states = |stp: &Stp| [stp.state(0), stp.state(1)];
        let both = [PortState::Forwarding; 2];
        us.until("we are root, the kernel blocks a port", Duration::from_secs(40), |stp| {
            states(stp) == both && kernel_states() == ["forwarding", "blocking"]
        });
        assert_eq!(said("tap0", "designated_root"), "1000.2:0:0:0:0:1");
        assert!(us.stp.ports().all(|port| !port.rapid && port.role == PortRole::Designated), "both bridges use STP");

        us.stp.set_priority(0xf000, us.clock.now()).unwrap();
        us.until("the kernel is root, we block a port", Duration::from_secs(40), |stp| {
            let roles: Vec<_> = stp.ports().map(|port| (port.role, port.state)).collect();
            let ours = [(PortRole::Root, PortState::Forwarding), (PortRole::Alternate, PortState::Discarding)];
            roles == ours && kernel_states() == ["forwarding", "forwarding"]
        });
        let mac: Mac = said("br0", "link/ether").parse().unwrap();
        assert_eq!(us.stp.view().root, BridgeId::new(0xa000, mac));
        for port in us.stp.ports() {
            assert!(port.counts.config_in > 0 && port.counts.config_out > 0);
            assert_eq!((port.counts.bad, port.counts.old, port.counts.own, port.counts.unsent), (0, 0, 0, 0));
        }
    });
}
