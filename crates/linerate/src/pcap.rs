//! Captures: readers and writers of pcap and pcapng.
//!
//! ```
//! use linerate::pcap::{Format, MAX_SNAPLEN, Reader, Record, Writer};
//!
//! let mut file = Vec::new();
//! let mut writer = Writer::new(&mut file, Format::Pcapng, MAX_SNAPLEN)?;
//! writer.add_interface("tap0")?;
//! writer.write(&Record { ts_ns: 1_500, orig_len: 60, data: &[7; 60], ..Record::default() })?;
//! writer.flush()?;
//! drop(writer);
//!
//! let mut reader = Reader::new(&file[..]);
//! let packet = reader.read()?.expect("one packet was written");
//! assert_eq!((packet.ts_ns, packet.data), (1_500, &[7; 60][..]));
//! assert!(reader.read()?.is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use ::port::pcap::{
    Direction, Fault, Format, Interface, LINKTYPE_ETHERNET, MAX_BLOCK, MAX_SNAPLEN, PcapError, Reader, Record, Section,
    Writer,
};
