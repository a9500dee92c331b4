//! Captures of frames at the ports of a host.

use crate::Error;
use crate::pcap::{Direction, LINKTYPE_ETHERNET, Record, Writer};
use lock::Locks;
use node::capture::{BYTES_MAX, CAPTURES_MAX, CaptureReader, Fate, READ_MAX};
use std::io::{self, Write};
use wire::filter::Filter;

/// A copy of a frame that passed a port.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CapturedFrame {
    /// Time at which the frame passed the port, in nanoseconds of the host's clock.
    pub time_ns: u64,
    /// Interface that the frame passed.
    pub iface: String,
    /// Direction in which the frame passed.
    pub direction: Direction,
    /// The frame, without FCS. Checksums that the port fills in are not included.
    pub bytes: Vec<u8>,
}

/// Copies of the frames that pass the ports of a host and match a filter.
///
/// Up to 4 MiB of copies wait to be read. Further frames are not copied, but counted
/// ([`Capture::missed`]). Received frames are copied before the [policy](crate::policy) of the
/// port, sent frames after it. Dropping the capture ends it.
///
/// ```
/// use linerate::filter::Filter;
/// use linerate::net::UdpSocket;
/// use linerate::pcap::{Format, MAX_SNAPLEN, Writer};
/// use linerate::Host;
///
/// let a = Host::builder().port("pair:cable").addr("10.0.0.1/24").build()?;
/// let b = Host::builder().port("pair:cable").addr("10.0.0.2/24").build()?;
/// let mut capture = a.capture(&Filter::compile("udp and host 10.0.0.2 and port 9")?)?;
/// let (from, to) = (UdpSocket::bind(&a, "10.0.0.1:0")?, UdpSocket::bind(&b, "10.0.0.2:9")?);
/// from.send_to(b"hello", "10.0.0.2:9")?;
/// to.recv(&mut [0; 16])?;
///
/// let mut file = Vec::new();
/// let mut writer = Writer::new(&mut file, Format::Pcapng, MAX_SNAPLEN)?;
/// writer.add_interface("cable")?;
/// assert_eq!(capture.write_to(&mut writer)?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Capture {
    reader: CaptureReader,
    missed: u64,
}

impl Capture {
    pub(crate) fn open<L: Locks>(host: &node::Host<L>, filter: &Filter) -> Result<Capture, Error> {
        let opened = host.capture(filter.clone()).map(|reader| Capture { reader, missed: 0 });
        opened.ok_or_else(|| Error::rejected("capture", format!("{CAPTURES_MAX} captures are open; drop one of them")))
    }

    /// Returns the frames copied since the last call, without waiting.
    pub fn read(&mut self) -> Vec<CapturedFrame> {
        let mut frames = Vec::new();
        // The number of batches is limited to those of a full capture, since frames may arrive as
        // fast as they are read.
        for _ in 0..=BYTES_MAX / READ_MAX {
            let batch = self.reader.read();
            self.missed = batch.missed;
            if batch.frames.is_empty() {
                break;
            }
            frames.extend(batch.frames.into_iter().filter_map(|frame| match frame.fate {
                Fate::Passed(direction) => {
                    Some(CapturedFrame { time_ns: frame.at_ns, iface: frame.iface, direction, bytes: frame.data })
                }
                Fate::Dropped(_) => None,
            }));
        }
        frames
    }

    /// Writes the frames copied since the last call to a capture file, as frames of its first
    /// interface, and flushes it. Returns their number.
    ///
    /// # Errors
    /// The errors of the writer. The frames are then lost.
    pub fn write_to<W: Write>(&mut self, writer: &mut Writer<W>) -> io::Result<usize> {
        let frames = self.read();
        for CapturedFrame { time_ns, direction, bytes, .. } in &frames {
            let (ts_ns, orig_len, direction, linktype) = (*time_ns, bytes.len() as u32, *direction, LINKTYPE_ETHERNET);
            writer.write(&Record { ts_ns, orig_len, data: bytes, linktype, direction, ..Record::default() })?;
        }
        writer.flush()?;
        Ok(frames.len())
    }

    /// Returns the number of matching frames that were not copied, as of the last read.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}
