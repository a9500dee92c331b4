//! rtems2014: FTP downloads of `/dev/zero` and uploads to `/dev/null`, in the report's three
//! configurations and with each improvement that it suggests.
//!
//! [`crate::rigs::ftp_rig`] transfers the bytes between two hosts with equal configurations on one
//! thread. Each row changes something in an earlier row, usually A, and is compared with that row.
//! The shares of time come from a second run under a sampling profiler. If a row, a profile or a
//! session of curl fails, the reason is reported in its place, and the other measurements continue.

pub(crate) mod curl;
mod shares;
mod then;

use crate::profile::Bucket;
use crate::result::{Cell, Report, Row, Sheet};
use crate::rigs::{FTP_BUFFER, Setup, Way, ftp_rig, warm_up};
use crate::run;
use crate::side::Side;
use crate::study::{Group, Options, Progress, Study, Unit};
use crate::timer;
use buf::Kind as PoolKind;
use clock::{Strategy, TimeSource, tsc};
use rung::LockKind;
use shares::Taken;
use wire::checksum;

/// Number of bytes transferred in a trial, which takes 10 to 40 ms.
const BYTES: u64 = 16 << 20;
/// Number of bytes transferred in a trial of a quick run, whose figures are too imprecise to
/// publish.
const BYTES_QUICK: u64 = 512 << 10;

/// Configuration A, which resembles the report's first configuration as closely as possible. One
/// frame at a time passes the stack. Buffers come from a zone, which resembles UMA. Checksums are
/// computed in software by a generic routine. Mutexes are light. The time is kept as seconds and
/// nanoseconds: the clocks of A and B both read the TSC and differ only in this representation.
const A: Setup = Setup {
    locks: LockKind::Light,
    clock: Strategy::TscTimespec,
    pool: PoolKind::Zone,
    checksum: checksum::Kind::Generic16,
    offload: false,
    burst: 1,
};
/// Number of frames taken from a port at a time in the configurations with bursts.
const BURSTS: usize = 32;

/// A row: an earlier row's configuration with a change.
struct Variant {
    id: &'static str,
    title: &'static str,
    setup: Setup,
    /// Identifier of the earlier row, with which this row is compared.
    against: &'static str,
}

fn variants() -> Vec<Variant> {
    let simd = checksum::Kind::available().last().unwrap_or(checksum::Kind::Word64);
    let row = |id, title, against, setup| Variant { id, title, setup, against };
    let bursts = Setup { burst: BURSTS, ..A };
    let all = Setup {
        locks: LockKind::Up,
        clock: Strategy::TscScaled,
        pool: PoolKind::Freelist,
        checksum: simd,
        offload: true,
        burst: BURSTS,
    };
    vec![
        row("a", "A: timespec clock from the TSC, light locks, zone, generic checksum", "a", A),
        row(
            "b",
            "B: 64-bit nanoseconds from the TSC, division at every reading",
            "a",
            Setup { clock: Strategy::NsDivision, ..A },
        ),
        row("c", "C: heavy locks", "a", Setup { locks: LockKind::Heavy, ..A }),
        row("freelist", "A, freelist instead of the zone", "a", Setup { pool: PoolKind::Freelist, ..A }),
        row("simd", "A, vector checksum instead of the generic one", "a", Setup { checksum: simd, ..A }),
        row("offload", "A, checksums left to the port", "a", Setup { offload: true, ..A }),
        row("up", "A, no locks (up)", "a", Setup { locks: LockKind::Up, ..A }),
        row(
            "up.freelist",
            "no locks, freelist instead of the zone",
            "up",
            Setup { locks: LockKind::Up, pool: PoolKind::Freelist, ..A },
        ),
        row("vdso", "A, timespec clock from the kernel", "a", Setup { clock: Strategy::Timespec, ..A }),
        row("undivided", "B, multiplication instead of division", "b", Setup { clock: Strategy::TscScaled, ..A }),
        row("bursts", "A, 32 frames at a time", "a", bursts),
        row("bursts.b", "B, 32 frames at a time", "bursts", Setup { clock: Strategy::NsDivision, ..bursts }),
        row("bursts.c", "C, 32 frames at a time", "bursts", Setup { locks: LockKind::Heavy, ..bursts }),
        row("all", "A, all of these changes together", "a", all),
    ]
}

/// Returns the report's `Dload` (curl's average download speed) in configurations A, B and C, in
/// units of 1024 bytes per second.
fn dload_then(id: &str) -> Option<f64> {
    match id {
        "a" => Some(9101.0),
        "b" => Some(8834.0),
        "c" => Some(8438.0),
        _ => None,
    }
}

/// Formats bytes per second as curl does in its columns: at most five characters, `k` for 1024
/// bytes, truncated and not rounded.
fn curl_form(bytes: f64) -> String {
    const K: u64 = 1024;
    let bytes = bytes.max(0.0) as u64;
    let tenths = |unit: u64| format!("{}.{}", bytes / unit, bytes % unit / (unit / 10));
    match bytes {
        0..100_000 => bytes.to_string(),
        b if b < 10_000 * K => format!("{}k", b / K),
        b if b < 100 * K * K => format!("{}M", tenths(K * K)),
        b if b < 10_000 * K * K => format!("{}M", b / K / K),
        _ => format!("{}G", tenths(K * K * K)),
    }
}

/// Converts ticks per byte to `Dload` (curl's average download speed), in units of 1024 bytes per
/// second.
fn dload(ticks: f64) -> f64 {
    timer::rate().hz as f64 / ticks / 1024.0
}

/// Unit of 1024 bytes per second.
const K: Unit = Unit { name: "k", of: dload };

/// Measures the report's rows and compares them with the report's figures.
///
/// # Errors
/// Returns no error: a row that could not be measured states the reason instead.
pub fn rtems2014(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let bytes = if options.quick { BYTES_QUICK } else { BYTES };
    let variants = variants();
    // Trials of 16 MiB are long enough that two suffice.
    let run_options = run::Options { trials: 2, max_seconds: Some(120.0), ..options.run(20) };
    let mut study = Study::new("repro rtems2014", run_options, 3 + variants.len(), progress);
    let mut groups = Vec::new();
    for way in [Way::Down, Way::Up] {
        study.part(&format!("{}, interleaved", word(way)));
        let side = |variant: &Variant| {
            let (id, setup) = (format!("{}.{}", word(way), variant.id), variant.setup);
            let name = id.clone();
            Side::new(id, move || ftp_rig(&name, setup, way, bytes))
        };
        let group = study.compare(variants.iter().map(side).collect());
        study.rows(carry_rows(way, &variants, &group, tsc::invariant()));
        groups.push(group);
    }
    let mut taken = Vec::new();
    for variant in &variants {
        study.part(&format!("shares of time: {}", variant.title));
        taken.push(shares::take(variant, bytes, options));
    }
    let mut sheets = vec![beside_rows(&variants, &groups, &taken)];
    let then = then::and_now(&study.report.rows, &taken);
    study.part("curl over a TAP");
    sheets.push(curl::rows(&mut study, &variants, options));
    sheets.push(then);
    let env = study.report.env.clone();
    let beside = study.beside();
    beside.baseline = Some("A (bursts.*: bursts; undivided: B; up.freelist: up)".to_owned());
    beside.sheets = sheets;
    beside.texts = taken.first().and_then(|base| base.text(&env)).into_iter().collect();
    notes(&taken, bytes).into_iter().for_each(|note| study.note(note));
    Ok(study.finish())
}

fn word(way: Way) -> &'static str {
    match way {
        Way::Down => "down",
        Way::Up => "up",
    }
}

/// Returns a row of throughput for each variant. The row states a reason if it was not measured, or
/// if its clock is unavailable because the TSC is not `invariant`.
fn carry_rows(way: Way, variants: &[Variant], group: &Group, invariant: bool) -> Vec<Row> {
    let row = |variant: &Variant| {
        let what = if way == Way::Down { "RETR /dev/zero" } else { "STOR /dev/null" };
        let id = |variant: &str| format!("{}.{variant}", word(way));
        let (title, against) = (format!("{what}: {}", variant.title), id(variant.against));
        let base = variants.iter().find(|other| other.id == variant.against);
        let other_clock = base.is_some_and(|base| base.setup.clock != variant.setup.clock);
        let row = match clock_missing(variant.setup.clock, invariant).filter(|_| other_clock) {
            Some(why) => Row::missing(&id(variant.id), &title, why),
            None if variant.against == variant.id => group.row(&id(variant.id), &title, K),
            None => group.against(&id(variant.id), &title, K, &against),
        };
        match dload_then(variant.id).filter(|_| way == Way::Down) {
            Some(then) => row.then(then, "k"),
            None => row,
        }
    };
    variants.iter().map(row).collect()
}

/// Returns the reason why a row whose change is the clock `strategy` cannot be compared, or `None`.
/// `invariant` states whether the TSC is invariant.
fn clock_missing(strategy: Strategy, invariant: bool) -> Option<&'static str> {
    let kernel_instead = strategy.source() == TimeSource::Tsc && !invariant;
    kernel_instead.then_some("the TSC is not invariant: the clock would read the kernel's time, as that of A")
}

/// Returns the table of the rows' costs and of the shares of their time.
fn beside_rows(variants: &[Variant], groups: &[Group], taken: &[Taken]) -> Sheet {
    let mut rows = Vec::new();
    for (at, (variant, taken)) in variants.iter().zip(taken).enumerate() {
        let mut row: Vec<Cell> = vec![variant.id.into()];
        for sample in groups.iter().filter_map(|way| way.samples.get(at)) {
            let ticks = sample.summary().ok().map(|summary| summary.median);
            row.push(ticks.map_or("-".into(), Cell::from));
            row.push(ticks.map_or("-".into(), |ticks| curl_form(dload(ticks) * 1024.0).into()));
        }
        row.extend(COLUMNS.iter().map(|bucket| taken.share(*bucket).map_or("-".into(), Cell::from)));
        row.push(taken.locks.map_or("-".into(), |locks| locks.to_string().into()));
        row.push(taken.per_kib.map_or("-".into(), Cell::from));
        row.push(
            taken.facts.as_ref().and_then(|facts| facts.clock).map_or("-".into(), |clock| clock.to_string().into()),
        );
        row.push(sums(&variant.setup).into());
        rows.push(row);
    }
    let costs = ["row", "down: ticks/byte", "Dload", "up: ticks/byte", "Upload"].into_iter();
    let shares = COLUMNS.iter().map(|bucket| bucket.word());
    let own = ["host's locks", "taken/KiB", "clock", "checksum routine"];
    let head = costs.chain(shares).chain(own).map(str::to_owned).collect();
    let title = "ticks per byte of both hosts together; shares of time in per cent (down, sampled in a separate run); locks of \
                 one host and acquisitions per KiB; the clock in use"
        .to_owned();
    Sheet { title, head, rows }
}

/// Groups of functions that the report discusses.
const COLUMNS: [Bucket; 5] = [Bucket::Locks, Bucket::Time, Bucket::Allocation, Bucket::Checksum, Bucket::Copy];

/// Returns the name of the routine that computes a row's checksums.
fn sums(setup: &Setup) -> String {
    if setup.offload { "left to the port".to_owned() } else { setup.checksum.to_string() }
}

fn notes(taken: &[Taken], bytes: u64) -> Vec<String> {
    let mut notes = vec![
        format!(
            "work: one FTP session per trial (USER, TYPE I, EPSV, RETR /dev/zero or STOR /dev/null), {} KiB measured after the first {} \
             KiB; linerate's ftpd and FTP client, two hosts on one thread, joined by a pair; MTU 1500, timestamps, CUBIC, \
             socket buffers of {} KiB",
            bytes >> 10,
            warm_up(bytes) >> 10,
            FTP_BUFFER >> 10
        ),
        "both hosts have the row's configuration, and the figure includes the work of both; then: one host, a PowerPC MPC8309, \
         against a PC with curl; k is 1024 bytes a second, as curl prints it"
            .to_owned(),
        "all rows copy by the same routine: copy_from_slice, which is the C library's memcpy, in blocks of 2 KiB where \
         the bytes are summed, too"
            .to_owned(),
        "freelist also changes the locking: one list under one light lock, taken for every buffer, instead of a zone with a cache \
         per thread; up.freelist changes the list alone"
            .to_owned(),
        "except in bursts.* and all, frames pass the stack one at a time, with one clock reading each, as in the report; \
         a burst has one clock reading, and its segments of one connection are processed together"
            .to_owned(),
        "A's and B's clocks read the time-stamp counter: A keeps seconds and nanoseconds (two multiplications), B 64-bit \
         nanoseconds (two divisions); undivided against B shows the cost of the divisions alone, vdso that of the kernel's clock"
            .to_owned(),
    ];
    notes.extend(taken.iter().flat_map(|taken| taken.notes.clone()));
    notes
}

#[cfg(test)]
mod tests;
