//! Addresses and automatic configuration of a new iface.

use super::{AddPortError, Host};
use crate::config::IfaceConfig;
use inet::iface::{IfaceId, LOOPBACK};
use inet::ip6::{Advertising, IfaceAddr6};
use lock::{Cx, Locks};
use std::net::Ipv6Addr;

impl<L: Locks> Host<L> {
    /// Configures the iface `id`, called `name`. After an error, the caller removes the iface.
    pub(super) fn configure(&self, cx: Cx, id: IfaceId, name: &str, config: &IfaceConfig) -> Result<(), AddPortError> {
        for addr in &config.addresses {
            self.stack.add_addr(cx, id, *addr).map_err(|why| AddPortError::Address {
                iface: name.to_string(),
                why: format!("{}/{}: {why:?}", addr.addr, addr.len),
            })?;
        }
        for addr in &config.addresses6 {
            self.stack.add_addr6(cx, id, *addr).map_err(|why| AddPortError::Address {
                iface: name.to_string(),
                why: format!("{}/{}: {}", addr.addr, addr.len, crate::address::six::refused(why)),
            })?;
        }
        let accept_rtadv = config.accept_rtadv || self.stack.sysctls.accept_rtadv.on();
        if accept_rtadv {
            self.stack.set_accept_rtadv(cx, id, true).map_err(|why| AddPortError::Address {
                iface: name.to_string(),
                why: format!("auto: {}", crate::address::six::refused(why)),
            })?;
        }
        if config.down {
            self.stack.set_up(cx, id, false);
        }
        if config.dhcp {
            let calls = self.shared_calls();
            self.dhcp.start(&calls, id).map_err(|why| AddPortError::Address { iface: name.to_string(), why })?;
        }
        if config.advertise {
            self.stack.set_advertising(cx, id, Some(Advertising::default())).map_err(|why| AddPortError::Address {
                iface: name.to_string(),
                why: format!("advertise: {}", crate::address::six::refused(why)),
            })?;
        }
        if accept_rtadv || !config.addresses6.is_empty() {
            // Adds ::1 with the first IPv6 configuration. If the FIB is full, an address above was
            // already rejected, so the error can be ignored.
            let _ = self.stack.add_addr6(cx, LOOPBACK, IfaceAddr6::new(Ipv6Addr::LOCALHOST, 128));
        }
        Ok(())
    }
}
