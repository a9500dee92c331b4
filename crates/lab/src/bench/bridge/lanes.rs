//! The row `bridge.two_cores`: two switch loops on two cores.

use crate::bench::times_one;
use crate::result::Row;
use crate::rigs::{LanesRig, Leave};
use crate::run;
use crate::side::Side;
use crate::study::{Study, Unit};

const ID: &str = "bridge.two_cores";
const TITLE: &str = "forwarding by two loops on two cores, each with two ports of a switch, relative to one loop";

/// Measures a switch with two loops, compared with one loop, in interleaved trials. Adds notes on
/// the cost of forwarding between loops and of passing frames to a worker.
pub(super) fn row(study: &mut Study<'_>) {
    if dispatch::cores() < 2 {
        return study.rows([Row::missing(ID, TITLE, crate::bench::ONE_CORE)]);
    }
    // The measuring thread sleeps while the loops work, so its CPU share does not show whether a
    // trial was disturbed.
    let options = run::Options { cpu: None, ..study.options().waiting() };
    let (one, two, across, worker) = ("lanes.one", "lanes.two", "lanes.across", "lanes.worker");
    let sides = vec![
        Side::new(one, || LanesRig::new("lanes.one", 1, Leave::Same)),
        Side::new(two, || LanesRig::new("lanes.two", 2, Leave::Same)),
        Side::new(across, || LanesRig::new("lanes.across", 2, Leave::Across)),
        Side::new(worker, || LanesRig::with_workers("lanes.worker", 1)),
    ];
    let group = study.measure_with(sides, options);
    study.rows([Row { id: ID.to_owned(), ..times_one(&group, two, TITLE, one) }]);
    let rate = |id: &str| group.row(id, "", Unit::MILLIONS).now.map_or(f64::NAN, |now| now.median);
    if let (Ok(crossed), Ok(posted)) = (group.ratio(one, across), group.ratio(one, worker)) {
        study.note(format!(
            "{ID}: one loop forwards {:.1} M frames/s, two loops together {:.1}; {:.1} if all frames leave by the \
             other loop's ports, {} times one loop; the loop is that of `linerate bridge`, and frames enter and leave \
             through the rings of pairs of ports, one frame per slot",
            rate(one),
            rate(two),
            rate(across),
            crossed.show(2)
        ));
        study.note(format!(
            "{ID}: a loop that passes its frames to one worker forwards {:.1} M frames/s, {} times one loop without a \
             worker",
            rate(worker),
            posted.show(2)
        ));
    }
}
