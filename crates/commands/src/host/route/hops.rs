//! Next hops of `route` commands of both address families.

use crate::host::context::Ctl;
use grammar::{Args, CommandError};
use inet::route::{Path, Via};
use lock::Locks;

/// Returns the next hop that an option such as `-interface` or `-reject` selects; `None` if the
/// next hop is a gateway. A gateway given with `-reject`, `-prohibit` or `-blackhole` has no
/// effect, as in route(8).
pub(in crate::host) fn via_of<L: Locks, G>(ctl: &Ctl<'_, L>, args: &Args<'_>) -> Result<Option<Via<G>>, CommandError> {
    const KINDS: [&str; 4] = ["-interface", "-reject", "-prohibit", "-blackhole"];
    let mut given = KINDS.into_iter().filter(|name| args.has(name));
    let (first, second) = (given.next(), given.next());
    if let (Some(first), Some(second)) = (first, second) {
        return Err(CommandError::failed(format!("{first} and {second} exclude each other")));
    }
    let gateway = args.rest().first();
    match (first, gateway) {
        (Some("-interface"), Some(extra)) => Err(CommandError::too_much(extra)),
        (Some("-interface"), None) => Ok(Some(Via::Link(ctl.host.iface(args.text("IF"))?.id))),
        (Some("-reject"), _) => Ok(Some(Via::Reject)),
        (Some("-prohibit"), _) => Ok(Some(Via::Prohibit)),
        (Some(_), _) => Ok(Some(Via::Blackhole)),
        (None, Some(_)) => Ok(None),
        (None, None) => {
            Err(CommandError::missing("a gateway's address, -interface IF, -reject, -prohibit or -blackhole"))
        }
    }
}

/// Returns whether a route uses exactly the gateways `gateways`. `via` is the route's next hop, and
/// `paths` are its paths if it has several. If `gateways` is empty, any route matches.
pub(in crate::host) fn is_by<G: PartialEq>(via: Via<G>, paths: &[Path<G>], gateways: &[G]) -> bool {
    let leads = |path: &Path<G>| matches!(&path.via, Via::Gateway(_, by) if gateways.contains(by));
    match via {
        _ if gateways.is_empty() => true,
        Via::Gateway(_, by) => *gateways == [by],
        Via::Paths(_) => paths.len() == gateways.len() && paths.iter().all(leads),
        _ => false,
    }
}
