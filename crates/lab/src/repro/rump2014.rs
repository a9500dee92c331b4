//! rump2014: the cost of a UDP `sendto`, measured while design choices are changed one after the
//! other.

use crate::bench;
use crate::ladder;
use crate::result::{Report, Row};
use crate::rigs::{CoresRig, RecvRig};
use crate::run;
use crate::side::Side;
use crate::study::{Options, Progress, Study, Unit};
use crate::timer;
use port::pktgen::Family;

/// Measures rump2014: the ladder (series of settings) of one UDP send, and the two parts that the
/// report announced but did not measure, on receiving and on several cores.
///
/// # Errors
/// Returns no error: a row that could not be measured states the reason instead.
pub fn rump2014(options: &Options, progress: &mut dyn FnMut(Progress)) -> anyhow::Result<Report> {
    let mut study = Study::new("repro rump2014", options.run(20), ladder::parts() + 2, progress);
    study.note(ladder::CONVENTION);
    ladder::climb(&mut study, options.source.clone());
    // The side measurements are not steps of the ladder and are excluded.
    let rows = study.report.rows.iter().filter(|row| !row.id.starts_with("cold.") && !row.id.starts_with("side."));
    let sends = rows.filter_map(|row| row.now.as_ref()).map(|now| now.median).fold(f64::INFINITY, f64::min);
    study.note(format!(
        "fewest ticks per sendto: {sends:.1}, {:.1} M sends/s; the report's best: 2357 cycles, 1.04 M sends/s",
        timer::rate().hz as f64 / sends / 1e6
    ));
    study.part("part 2: receiving");
    let id = "part2.one_thread";
    let group = study.measure(vec![Side::new(id, || RecvRig::new("part2.one_thread", Family::V4, 1))]);
    study.rows([group.row(id, "receive: generator, input and recvfrom on one thread", Unit::MILLIONS)]);
    bench::two_threads(&mut study, "part2.two_threads");
    study.part("part 3: several cores");
    cores(&mut study);
    study.note(
        "the report announced parts 2 and 3 and did not measure them: 'easier and more performance to structure things so that you \
         just run multiple disjoint networking stacks'",
    );
    Ok(study.finish())
}

/// Measures 1 to n disjoint hosts, and one shared host that 1 to n threads enter. Rows with several
/// hosts or threads are compared with the row with one.
fn cores(study: &mut Study<'_>) {
    let options = run::Options { cpu: None, ..study.options().waiting() };
    let most = dispatch::cores().min(4);
    let kinds: [(&str, Make); 2] = [("hosts", hosts), ("shared", shared)];
    for (kind, make) in kinds {
        let ids: Vec<String> = (1..=most).map(|n| format!("part3.{kind}_{n}")).collect();
        let sides = ids.iter().zip(1..).map(|(id, n)| make(id, n)).collect();
        let group = study.compare_with(sides, options.clone());
        let row = |(id, n): (&String, usize)| {
            let title = match (kind, n) {
                ("hosts", 1) => "1 host on one core".to_owned(),
                ("hosts", n) => format!("{n} disjoint hosts on {n} cores"),
                (_, 1) => "one shared host, 1 thread".to_owned(),
                (_, n) => format!("one shared host, {n} threads, one port queue per thread"),
            };
            if n == 1 {
                group.row(id, &title, Unit::MILLIONS)
            } else {
                group.against(id, &title, Unit::MILLIONS, &ids[0])
            }
        };
        let rows: Vec<Row> = ids.iter().zip(1..).map(row).collect();
        study.rows(rows);
    }
}

type Make = fn(&str, usize) -> Side;

fn hosts(id: &str, n: usize) -> Side {
    let name = id.to_owned();
    Side::new(id, move || CoresRig::hosts(&name, n, "locks=up"))
}

fn shared(id: &str, n: usize) -> Side {
    let name = id.to_owned();
    Side::new(id, move || CoresRig::send(&name, n, &format!("locks=light queues={n}")))
}
