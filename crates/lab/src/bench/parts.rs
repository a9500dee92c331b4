//! `linerate bench parts`: the cost of single functions and data structures, without ports or
//! hosts: checksums, parsers, a TCP connection, route tables and dataflow; and the throughput of a
//! simulation.

mod dataflow;
mod stream;
mod tcb;

use crate::result::Report;
use crate::rigs::{FibChangeRig, FibRig, Lengths, LoadsRig};
use crate::side::Side;
use crate::study::{Entry, Options, Progress, Study, Unit};
use crate::subject::{from_fn, measure};
use crate::timer;
use anyhow::Context;
use std::hint::black_box;
use wire::checksum::{self, Kind, Partial};
use wire::{Mac, Proto, arp, eth, ip4, tcp, udp};

/// Number of calls per trial of a function that takes some nanoseconds.
const CALLS: u64 = 20_000;
/// Lengths of checksummed data in bytes: a short datagram, a segment, and a jumbo frame.
const LENGTHS: [usize; 3] = [30, 1460, 9000];
const ROUTES: usize = 1_000_000;

/// Throughput in MB/s, 10^6 bytes per second, from ticks per byte.
const MEGABYTES: Unit = Unit { name: "MB/s", of: |ticks| timer::rate().hz as f64 / ticks / 1e6 };

/// Measures all rows of `linerate bench parts`.
///
/// # Errors
/// A test header cannot be built. A row that could not be measured is not an error: it states the
/// reason.
pub fn parts(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let mut study = Study::new("bench parts", options.run(20), 6, progress);
    study.note("data in the first-level cache, one core; TSC ticks per call, segment, lookup, route or frame");
    study.part("checksums");
    let run = study.options();
    for len in LENGTHS {
        study.measure_entries(vec![sum(len), copy_and_sum(len)], run.clone());
    }
    study.part("parsers");
    study.measure_entries(functions()?, run.clone());
    study.part("a TCP connection");
    study.note("tcb.*: one end of a connection without a host; segments are passed to it and taken from it directly");
    study.measure_entries(tcb::entries(), run.clone());
    study.part("route tables");
    let slow = super::run_slow(&study);
    for entry in fib_entries() {
        study.measure_entries(vec![entry], slow.clone());
    }
    study.part("dataflow");
    study.note(
        "dataflow.*: a frame taken from a pool, posted in bursts of 32 and dropped by a worker, over 256 flows; with \
         workers on threads of their own: ticks of wall time",
    );
    dataflow::rows(&mut study);
    study.part("a simulation");
    study.note(
        "sim.*: two hosts and one connection on virtual time in one thread; bytes of the stream per second of real \
         time, written and read by socket calls",
    );
    study.measure_entries(stream::entries(), super::run_slow(&study).one_trial());
    Ok(study.finish())
}

/// Returns a side that calls `call` [`CALLS`] times per trial.
fn side<T>(id: impl Into<String>, call: impl FnMut() -> T + Clone + 'static) -> Side {
    let id = id.into();
    Side::new(id.clone(), move || {
        let mut call = call.clone();
        Ok(from_fn(id.clone(), move || {
            Ok(measure(CALLS, || {
                for _ in 0..CALLS {
                    black_box(call());
                }
            }))
        }))
    })
}

/// Returns `len` bytes of test data that do not repeat at a power of two.
fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 251) as u8).collect()
}

/// Returns the row of a checksum over `len` bytes, with each implementation that this machine
/// supports as a peer.
fn sum(len: usize) -> Entry {
    let id = format!("checksum.{len}");
    let data = bytes(len);
    let kinds = Kind::available().map(|kind| {
        let data = data.clone();
        side(format!("{kind}.{id}"), move || checksum::sum_with(kind, black_box(&data)).finish())
    });
    let kinds: Vec<Side> = kinds.collect();
    let ours = side(id, move || checksum::sum(black_box(&data)).finish());
    Entry::new(ours, format!("Internet checksum of {len} bytes, implementation selected by length")).with_sides(kinds)
}

/// Returns the row for copying `len` bytes while their checksum is computed; the copy alone is
/// measured as a peer.
fn copy_and_sum(len: usize) -> Entry {
    let id = format!("checksum.copy.{len}");
    let (from, mut to) = (bytes(len), vec![0; len]);
    let copy = {
        let (from, mut to) = (from.clone(), to.clone());
        side(format!("copy_alone.{id}"), move || to.copy_from_slice(black_box(&from)))
    };
    let ours = side(id, move || checksum::copy_and_sum(black_box(&mut to), black_box(&from)).finish());
    Entry::new(ours, format!("{len} bytes copied and their checksum computed")).with_sides([copy])
}

/// Returns the rows of functions that parse, write or change a header.
fn functions() -> anyhow::Result<Vec<Entry>> {
    let (src, dst) = ([1, 0, 0, 1].into(), [1, 0, 0, 2].into());
    let header = ip4::Header::new(src, dst, Proto::UDP, 30).context("a header of 20 bytes")?;
    let mut emitted = [0; ip4::HEADER_LEN];
    header.emit(&mut emitted);
    let (frame, packet) = (bytes(64), [&emitted[..], &[0; 30]].concat());
    let datagram = [&[0, 1, 0, 2, 0, 30, 0, 0][..], &[0; 22]].concat();
    let mut segment = vec![0; 30];
    segment[12] = 5 << 4; // header length of 20 bytes
    let addr = [2, 0, 0, 0, 0, 1];
    let request = arp::Packet { op: arp::Op::Request, sha: Mac(addr), spa: src, tha: Mac([0; 6]), tpa: dst }.emit();
    eth::Header::parse(&frame)?;
    arp::Packet::parse(&request)?;
    tcp::Header::parse(&segment)?;
    let (pseudo, udp_header) = (Partial::pseudo4(src, dst, Proto::UDP, 30), udp::Header::parse(&datagram)?);
    let (ip, mut forwarded, udp_bytes) = (packet.clone(), packet, datagram.clone());
    let rows = [
        ("an Ethernet header parsed", side("parse.eth", move || eth::Header::parse(black_box(&frame)))),
        (
            "an IPv4 header parsed and its checksum verified",
            side("parse.ip4", move || ip4::Header::parse(black_box(&ip))),
        ),
        ("a UDP header parsed", side("parse.udp", move || udp::Header::parse(black_box(&udp_bytes)))),
        ("a TCP header parsed", side("parse.tcp", move || tcp::Header::parse(black_box(&segment)))),
        ("an ARP packet parsed", side("parse.arp", move || arp::Packet::parse(black_box(&request)))),
        ("an IPv4 header written with its checksum", side("emit.ip4", move || black_box(&header).emit(&mut emitted))),
        (
            "the checksum of a UDP datagram of 22 bytes written into its header",
            side("emit.udp", move || {
                black_box(&udp_header).with_checksum(black_box(pseudo), black_box(&datagram[8..]))
            }),
        ),
        (
            "the TTL of an IPv4 header decremented, its checksum updated",
            side("decrement_ttl", move || {
                forwarded[8] = 64;
                ip4::decrement_ttl(black_box(&mut forwarded))
            }),
        ),
    ];
    Ok(rows.map(|(title, side)| Entry::new(side, title)).into())
}

/// Returns the rows for route tables whose prefix lengths differ from the Internet's, and for
/// changes of a full table.
fn fib_entries() -> Vec<Entry> {
    let lookup = |id: &'static str, lengths: Lengths, title| {
        let make = move || Ok(FibRig::with_lengths(id, ROUTES, lengths)?.in_bursts_of(32));
        Entry::new(Side::new(id, make), title)
    };
    let change = |len: u8| {
        let id = format!("fib.change.{len}");
        let title = format!("a /{len} added or removed, 1 M routes with the prefix lengths of the Internet's table");
        Entry::new(Side::new(id.clone(), move || FibChangeRig::new(&id, ROUTES, len)), title)
    };
    let loads = Side::new("fib.loads", || Ok(LoadsRig::new("fib.loads")));
    let mut entries = vec![
        Entry::new(loads, "a random load from 64 MB, the lower limit of a lookup among 1 M routes"),
        lookup(
            "fib.1m_host_routes",
            Lengths::Host,
            "longest-prefix lookup, 1 M routes of length 32, an address of each, bursts of 32",
        ),
        lookup(
            "fib.1m_all_lengths",
            Lengths::Uniform,
            "longest-prefix lookup, 1 M routes of lengths 9 to 32, an address of each, bursts of 32",
        ),
    ];
    entries.extend([8, 16, 24, 32].map(change));
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Builds each side of `entries` and runs one trial of it.
    fn tried(entries: Vec<Entry>) {
        for side in crate::study::sides_of(&entries) {
            let reading = side.build().unwrap().trial().unwrap();
            assert!(reading.ops > 0 && reading.ticks > 0, "{}: {reading:?}", side.id());
        }
    }

    #[test]
    fn every_function_is_called() {
        tried([LENGTHS.map(sum), LENGTHS.map(copy_and_sum)].into_iter().flatten().collect());
        tried(functions().unwrap());
        tried(tcb::entries());
        tried(stream::entries());
    }

    #[test]
    fn every_implementation_of_the_checksum_is_a_peer() {
        let sides: BTreeSet<String> =
            crate::study::sides_of(&[sum(30)]).iter().map(|side| side.id().to_owned()).collect();
        let kinds = Kind::available().map(|kind| format!("{kind}.checksum.30"));
        assert_eq!(sides, kinds.chain(["checksum.30".to_owned()]).collect());
    }

    #[test]
    fn dataflow_passes_every_frame() {
        let options = Options { quick: true, rounds: Some(1), ..Options::default() };
        let mut show = |_| ();
        let mut study = Study::new("bench parts", options.run(1), 1, &mut show);
        dataflow::rows(&mut study);
        let report = study.finish();
        assert_eq!(report.rows.len(), 6);
        assert!(report.samples.iter().all(|sample| sample.failed.is_none()), "{:?}", report.samples);
    }
}
