//! Captures: readers and writers of pcap and pcapng.
//!
//! ```
//! use linerate::pcap::{Format, Reader, Record, Writer};
//! # use linerate::pcap;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let _ = pcap::MAX_SNAPLEN;
//! # Ok(())
//! # }
//! ```

pub use ::port::pcap::{
    Direction, Fault, Format, Interface, LINKTYPE_ETHERNET, MAX_BLOCK, MAX_SNAPLEN, PcapError, Reader, Record, Section,
    Writer,
};
