//! `linerate repro NAME`: the table of a published report, with the report's figures and those
//! measured on this machine.

mod bridge2004;
mod ethpipe2013;
mod netisr2005;
mod rtems2014;
mod rump2014;

pub use bridge2004::{bridge2004, bridge2004_in_cache};
pub use ethpipe2013::ethpipe2013;
pub use netisr2005::netisr2005;
pub(crate) use rtems2014::curl;
pub use rtems2014::rtems2014;
pub use rump2014::rump2014;
