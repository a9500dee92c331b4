//! The report's figures compared with ours, line by line.

use super::shares::Taken;
use super::{curl_form, dload_then};
use crate::profile::Bucket;
use crate::result::{Cell, Row, Sheet};
use crate::table::{spread, times};

/// Shares of time that the report states, or that are summed from its profile, as (title, index of
/// the row, the report's figure, bucket).
const SHARES: &[(&str, usize, &str, Bucket)] = &[
    ("A: mutex operations", 0, "3 %", Bucket::Locks),
    ("C: mutex operations", 2, "8.5 %", Bucket::Locks),
    ("A: clock", 0, "2.4 %", Bucket::Time),
    ("B: clock", 1, "1.1 %, division 4.3 %", Bucket::Time),
    ("A: buffers (then: UMA, mbufs)", 0, "10.3 %", Bucket::Allocation),
    ("A: checksum", 0, "13.1 %", Bucket::Checksum),
    ("A: copies and clears", 0, "14.1 %", Bucket::Copy),
    ("A: TCP", 0, "14.7 %", Bucket::Tcp),
    ("A: IP and Ethernet", 0, "10.7 %", Bucket::IpEthernet),
    ("A: routes and neighbors", 0, "7.2 %", Bucket::RouteNeighbor),
    ("A: driver (ours: the port)", 0, "4.1 %", Bucket::Port),
    ("A: thread dispatch (ours: scheduling)", 0, "3.3 %", Bucket::Scheduling),
];

/// Returns the table that compares the report's figures with ours. `rows` must begin with the
/// downloads of A, B and C.
pub(super) fn and_now(rows: &[Row], taken: &[Taken]) -> Sheet {
    let mut lines: Vec<Vec<Cell>> = Vec::new();
    let mut line = |what: &str, then: String, now: String| lines.push(vec![what.into(), then.into(), now.into()]);
    let reason = |row: &Row| row.missing.clone().unwrap_or_else(|| "-".to_owned());
    for (row, (id, then)) in rows.iter().zip([("a", "A: Dload"), ("b", "B: Dload"), ("c", "C: Dload")]) {
        let was = dload_then(id).map_or(String::new(), |k| curl_form(k * 1024.0));
        let is = row.now.as_ref().map_or_else(|| reason(row), |now| curl_form(now.median * 1024.0));
        line(then, was, is);
    }
    for (row, (what, then)) in
        rows.iter().skip(1).zip([("B against A", "0.97x (-3 %)"), ("C against A", "0.93x (-7 %)")])
    {
        let is = row.vs_previous.as_ref().map_or_else(
            || reason(row),
            |change| format!("{} {}", spread([change.ratio, change.lo, change.hi], change.n, times), change.verdict),
        );
        line(what, then.to_owned(), is);
    }
    let divided = rows.iter().find(|row| row.id == "down.undivided").and_then(|row| row.vs_previous.as_ref());
    line(
        "B: load of 64-bit divisions",
        "4.2 %".to_owned(),
        divided.map_or("-".to_owned(), |change| {
            let share = |ratio: f64| (1.0 - 1.0 / ratio) * 100.0;
            spread([change.ratio, change.lo, change.hi].map(share), change.n, |share| format!("{share:.1} %"))
        }),
    );
    for (what, at, then, bucket) in SHARES {
        let now = taken.get(*at).and_then(|taken| taken.share(*bucket));
        line(what, (*then).to_owned(), now.map_or("-".to_owned(), |share| format!("{share:.1} %")));
    }
    let locks = taken.first().and_then(|base| base.locks).map_or("-".to_owned(), |locks| format!("{locks} a host"));
    line("A: locks that exist in the idle state", "about 2000".to_owned(), locks);
    let title = "then and now; then: shares of 2014's profiles, grouped as ours are".to_owned();
    Sheet { title, head: ["what", "then", "now"].map(str::to_owned).to_vec(), rows: lines }
}
