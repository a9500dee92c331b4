//! Ports of a host: added with their ifaces, and removed.

use super::output::PortOutput;
use super::{AddPortError, Host, OpenOwn, PortInfo};
use crate::capture::Watch;
use crate::config::IfaceConfig;
use crate::inputs::Receiver;
use crate::policy::Policy;
use buf::Pool;
use inet::iface::{IfaceId, Offload, Output};
use lock::Locks;
use port::offload::soft::Soft;
use port::spec::{Kind, Spec};
use port::{Caps, Pairs};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use wire::Mac;

/// Returns the default MTU of an iface: the MTU of the kernel device of its port. A port without a
/// device has only a maximum frame size; its default MTU is at most 1500.
pub(crate) fn default_mtu(config: &IfaceConfig, caps: Caps) -> u16 {
    let kind = Spec::parse(&config.port).map(|spec| spec.port.kind);
    match kind {
        Ok(Kind::Tap | Kind::Tun | Kind::Packet | Kind::Xdp) => caps.mtu,
        _ => caps.mtu.min(1500),
    }
}

/// Receive halves of the queues of a port.
#[derive(Default)]
pub(super) struct Received {
    receivers: Vec<Receiver>,
    infos: Vec<PortInfo>,
}

impl<L: Locks> Host<L> {
    /// Opens the port of `config` and adds an iface for it, with its addresses and settings. On a
    /// multi-queue device, opens one queue for each thread of the host.
    ///
    /// # Errors
    /// Returns an [`AddPortError`], and adds nothing.
    pub fn add_port(&self, config: &IfaceConfig, pairs: &Pairs) -> Result<IfaceId, AddPortError> {
        self.add_port_with(config, pairs, None)
    }

    /// Adds a port as [`Host::add_port`] does, with a policy that applies from the first frame on.
    ///
    /// # Errors
    /// Returns the errors of [`Host::add_port`].
    #[inline(never)]
    pub fn add_port_with(
        &self,
        config: &IfaceConfig,
        pairs: &Pairs,
        policy: Option<&Policy>,
    ) -> Result<IfaceId, AddPortError> {
        let spec = Spec::parse(&config.port)?;
        let name = config.name.clone().unwrap_or_else(|| spec.name.clone());
        if self.stack.iface_named(&name).is_some() {
            return Err(AddPortError::Exists(name));
        }
        let unit = unit_of(&name).unwrap_or(self.ports().len() as u16);
        let mac = config.mac.unwrap_or_else(|| self.mac_of(&name));
        let pool = port::pool_for(&spec, &self.stack.pool, &self.pool_config)?;
        let open = || port::open(&spec, &port::Env { pool: pool.clone(), pairs, mac, unit });
        let queues = {
            let _rights = dispatch::sandbox::port_rights();
            (0..spec.queues().min(self.threads)).map(|_| open()).collect::<Result<Vec<_>, _>>()?
        };
        self.attach_with(&name, mac, queues, config, pool, policy)
    }

    /// Adds an iface for a port that the caller provides; `open` opens the port. The iface has the
    /// name that `config` gives; without one, its name is the port specification.
    ///
    /// # Errors
    /// Returns an [`AddPortError`], and adds nothing.
    pub fn add_own_port(&self, config: &IfaceConfig, open: OpenOwn) -> Result<IfaceId, AddPortError> {
        let failed = |why: std::io::Error| AddPortError::Own { iface: config.port.clone(), why };
        let name = config.name.clone().unwrap_or_else(|| config.port.clone());
        if self.stack.iface_named(&name).is_some() {
            return Err(AddPortError::Exists(name));
        }
        let mac = config.mac.unwrap_or_else(|| self.mac_of(&name));
        let port = open(&self.stack.pool, mac).map_err(failed)?;
        self.attach(&name, mac, port, config)
    }

    /// Adds an iface for an open port.
    ///
    /// # Errors
    /// Returns an [`AddPortError`].
    pub fn attach(
        &self,
        name: &str,
        mac: Mac,
        port: port::Port,
        config: &IfaceConfig,
    ) -> Result<IfaceId, AddPortError> {
        self.attach_with(name, mac, vec![port], config, self.stack.pool.clone(), None)
    }

    /// Adds an iface for the queues of an open port. If the port does not support TSO, large TCP
    /// segments are split into buffers of `pool`.
    #[inline(never)]
    fn attach_with(
        &self,
        name: &str,
        mac: Mac,
        queues: Vec<port::Port>,
        config: &IfaceConfig,
        pool: Pool,
        policy: Option<&Policy>,
    ) -> Result<IfaceId, AddPortError> {
        let refused = |why| AddPortError::Config { iface: name.to_string(), why };
        config.check_on_port().map_err(refused)?;
        let cx = self.cx();
        let caps = queues.first().map_or(Caps::PLAIN, |port| port.caps);
        let tso = caps.tso_max > 0;
        let capable = Offload { tx_ip: caps.tx_ip_csum, tx_l4: caps.tx_l4_csum, rx: caps.rx_csum, tso };
        let mtu = config.mtu.unwrap_or_else(|| default_mtu(config, caps));
        let id = self.stack.add_iface(name, mac, mtu, capable).ok_or(AddPortError::TooMany)?;
        let parts = self.connect(id, name, queues, pool, policy);
        self.stack.set_offload(id, config.offload(capable));
        if let Err(why) = self.configure(cx, id, name, config) {
            self.stack.remove_iface(cx, id);
            return Err(why);
        }
        self.serve(parts);
        self.note_iface(id, config);
        if let Some(mirror) = &config.mirror
            && let Err(why) = self.open_mirror(id, mirror)
        {
            self.remove_port(id);
            return Err(why);
        }
        Ok(id)
    }

    /// Connects an iface with the transmit halves of the queues of its port. Returns the receive
    /// halves.
    pub(super) fn connect(
        &self,
        id: IfaceId,
        name: &str,
        queues: Vec<port::Port>,
        pool: Pool,
        policy: Option<&Policy>,
    ) -> Received {
        let cx = self.cx();
        let watch = Watch::new(id.0, name, &self.captures);
        watch.set_policy(policy);
        let (mut outputs, mut parts) = <(Vec<Box<dyn Output>>, Received)>::default();
        for (queue, port) in queues.into_iter().enumerate() {
            let (watch, counts) = (watch.clone(), port.counts.clone());
            let soft = Soft::new(&port.caps, pool.clone(), counts.clone());
            let (half, admitted) = (port.tx, (0, 0));
            let output = PortOutput { half, soft, watch: watch.clone(), counts: counts.clone(), admitted };
            outputs.push(Box::new(output));
            parts.receivers.push(Receiver {
                iface: id,
                is_mirror: self.is_mirror(id),
                half: port.rx,
                watch,
                counts,
                gave: cx.now,
            });
            let port::Port { spec, caps, counts, nic, .. } = port;
            parts.infos.push(PortInfo { iface: id, queue, spec, caps, counts, nic });
        }
        self.stack.set_outputs(cx, id, outputs);
        parts
    }

    /// Receives frames from the queues of a port from now on.
    pub(super) fn serve(&self, parts: Received) {
        let cx = self.cx();
        parts.receivers.into_iter().for_each(|receiver| self.inputs.add(cx, receiver));
        self.ports.lock().unwrap_or_else(PoisonError::into_inner).extend(parts.infos);
        self.wake(); // to wait for the new port too
    }

    /// Removes the iface of a port, with its addresses and routes, and closes the port. Returns
    /// `false` if the iface has no port of this host.
    pub fn remove_port(&self, id: IfaceId) -> bool {
        let cx = self.cx();
        self.close_mirror(id);
        let mut ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        if ports.iter().all(|port| port.iface != id) {
            return false;
        }
        self.stack.flush_all(cx);
        self.stack.remove_iface(cx, id);
        self.inputs.remove(cx, id);
        self.wake(); // a sleeping thread holds the port's descriptor
        for PortInfo { counts, .. } in ports.extract_if(.., |port| port.iface == id) {
            // The halves of the port no longer exist, so its counters are final.
            for (sum, of) in self.removed.iter().zip([counts.rx.to_host(), counts.tx.from_host()]) {
                sum.fetch_add(of, Ordering::Relaxed);
            }
        }
        true
    }

    /// Returns the frame counts of all removed ports: (frames passed to the stack, frames passed to
    /// the ports).
    pub(crate) fn removed_ports(&self) -> [u64; 2] {
        [0, 1].map(|at| self.removed.get(at).map_or(0, |sum: &AtomicU64| sum.load(Ordering::Relaxed)))
    }
}

/// Returns the number at the end of an iface's name, such as 3 for `pg3`.
pub(crate) fn unit_of(name: &str) -> Option<u16> {
    let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
    name.get(digits..)?.parse().ok()
}
