//! A measurement that cannot end by itself: a subject that panics, or hangs.
//!
//! The program is built to abort on a panic, so neither can be caught. What can be done is done here: the rows that were
//! finished are kept in one place while a study runs, and are printed with the reason before the process ends.

use std::io::Write;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::result::Report;

/// A build or a trial that lasts longer hangs. A child's answer is given up after 120 s, which must come first.
pub const PATIENCE: Duration = Duration::from_secs(180);

struct State {
    /// The side that is being built or tried, and since when.
    doing: String,
    since: Option<Instant>,
    /// The rows finished so far.
    so_far: Option<Report>,
}

static STATE: Mutex<State> = Mutex::new(State { doing: String::new(), since: None, so_far: None });

/// A build or a trial of side `id` begins.
pub(crate) fn doing(id: &str) {
    let mut state = STATE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    state.doing.clear();
    state.doing.push_str(id);
    state.since = Some(Instant::now());
}

/// The rows of a study up to now; `None` where a study has ended.
pub(crate) fn so_far(report: Option<Report>) {
    let mut state = STATE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    state.since = report.is_some().then(Instant::now);
    state.so_far = report;
}

/// From now on a panic, or a trial that lasts longer than `patience`, hands the unfinished report to `print` and ends the
/// process with exit code `code`.
///
/// # Errors
/// No thread.
pub fn install(patience: Duration, code: i32, print: fn(&Report)) -> std::io::Result<()> {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        give_up("panicked", code, print);
    }));
    let watch = move || {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let late = STATE.lock().is_ok_and(|state| state.since.is_some_and(|since| since.elapsed() > patience));
            if late {
                give_up(&format!("has not ended after {} s", patience.as_secs()), code, print);
            }
        }
    };
    dispatch::spawn_worker("alarm", None, move |_| watch()).map(drop)
}

/// Prints what there is and ends the process; returns where no study runs.
fn give_up(why: &str, code: i32, print: fn(&Report)) {
    // A panic while the lock is held must not wait for it.
    let Ok(mut state) = STATE.try_lock() else { return };
    let Some(mut report) = state.so_far.take() else { return };
    let why = format!("{} {why}", state.doing);
    report.notes.push(format!("incomplete: {why}"));
    print(&report);
    let _ = writeln!(std::io::stderr(), "linerate: {why}; the rows above were finished before");
    std::process::exit(code);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::side::Side;
    use crate::study::{Options, Study, Unit};
    use crate::subject;
    use std::process::Command;

    /// Names the fault of the child below.
    const FAULT: &str = "LINERATE_ALARM_TEST";

    /// Not a test of its own: the process that [`a_panic_and_a_hang_end_with_the_rows_finished_before`] starts.
    #[test]
    fn child() {
        let Ok(fault) = std::env::var(FAULT) else { return };
        install(Duration::from_secs(2), 9, |report| print!("{}", crate::table::render(report))).unwrap();
        let mut show = |_| ();
        let mut study = Study::new("faulty", Options::default().run(2), 2, &mut show);
        let good = Side::new("good", || Ok(subject::from_fn("good", || Ok(subject::measure(1, || ())))));
        let group = study.measure(vec![good]);
        study.rows([group.row("good", "a row that was finished", Unit::TICKS)]);
        study.measure(vec![Side::new("bad", move || {
            let fault = fault.clone();
            Ok(subject::from_fn("bad", move || match fault.as_str() {
                "panic" => panic!("on purpose"),
                _ => loop {
                    std::thread::sleep(Duration::from_secs(1));
                },
            }))
        })]);
        unreachable!("the alarm ends the process");
    }

    #[test]
    fn a_panic_and_a_hang_end_with_the_rows_finished_before() {
        for (fault, reason) in [("panic", "bad panicked"), ("hang", "bad has not ended after 2 s")] {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "alarm::tests::child", "--nocapture", "--test-threads=1"]).env(FAULT, fault);
            let output = command.output().unwrap();
            let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert_eq!(output.status.code(), Some(9), "{fault}: {out}{err}");
            assert!(out.contains("a row that was finished") && out.contains(&format!("incomplete: {reason}")), "{out}");
            assert!(err.contains(&format!("linerate: {reason}; the rows above were finished before")), "{err}");
        }
    }
}
