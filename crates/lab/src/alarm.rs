//! Watchdog: prints the finished rows of a study when a subject panics or hangs.
//!
//! The program is built to abort on a panic, so neither a panic nor a hang can be caught. While a
//! study runs, a static variable contains the rows finished so far and the trials of the current
//! group. They are printed, with the reason, before the process exits.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::os;
use crate::result::Report;
use crate::sample::Sample;

/// Default time limit of a build or a trial. It is longer than the 120 s timeout for a child's
/// answer, so that the child's timeout expires first.
pub const PATIENCE: Duration = Duration::from_secs(180);

struct State {
    /// Identifier of the side that is being built or measured. `since` and `patience` are the start
    /// time and the time limit of this step.
    doing: String,
    since: Option<Instant>,
    patience: Option<Duration>,
    /// Report with the rows finished so far; `None` if no study runs.
    so_far: Option<Report>,
    /// Samples of the current group, as of its last complete round. A group consists of the sides
    /// that are compared with each other.
    under_way: Vec<Sample>,
    /// Process ID of the command line being measured, if there is one.
    command: Option<u32>,
}

static STATE: Mutex<State> = Mutex::new(State {
    doing: String::new(),
    since: None,
    patience: None,
    so_far: None,
    under_way: Vec::new(),
    command: None,
});

/// Records that a build or a trial of side `id` begins; its time limit is `patience`, if any.
pub(crate) fn doing(id: &str, patience: Option<Duration>) {
    let mut state = STATE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    state.doing.clear();
    state.doing.push_str(id);
    (state.since, state.patience) = (Some(Instant::now()), patience);
}

/// Stores the rows of a study so far; `None` at the end of the study. Until the next build or trial
/// begins there is no time limit, since cargo may first spend minutes to build programs for
/// `linerate ladder`.
pub(crate) fn so_far(report: Option<Report>) {
    let mut state = STATE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    state.since = None;
    state.so_far = report;
    state.under_way.clear();
}

/// Stores the complete rounds of the group that is under way, if a study runs.
pub(crate) fn under_way(samples: &[Sample]) {
    let mut state = STATE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if state.so_far.is_some() {
        samples.clone_into(&mut state.under_way);
    }
}

/// Stores the process id of the command line being measured, which is killed if this program gives
/// up; `None` when the command has ended.
pub(crate) fn command(process: Option<u32>) {
    STATE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).command = process;
}

/// Function that prints an unfinished report.
pub type Print = dyn Fn(&Report) + Send + Sync;

/// Installs the watchdog. On a panic or an exceeded time limit, it passes the unfinished report
/// with its trials to `print` and ends the process with exit code `code`.
///
/// # Errors
/// The watchdog thread cannot be started.
pub fn install(code: i32, print: Arc<Print>) -> std::io::Result<()> {
    let on_panic = print.clone();
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        give_up("panicked", code, &*on_panic);
    }));
    let watch = move || {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let late = STATE.lock().ok().and_then(|state| {
                let limit = state.patience?;
                (state.since?.elapsed() > limit).then_some(limit)
            });
            if let Some(limit) = late {
                give_up(&format!("exceeded the time limit of {} s", limit.as_secs()), code, &*print);
            }
        }
    };
    dispatch::spawn_worker("alarm", None, move |_| watch()).map(drop)
}

/// Prints the unfinished report and ends the process; returns if no study runs.
fn give_up(why: &str, code: i32, print: &Print) {
    // try_lock: a panic of the thread that holds the lock must not deadlock.
    let Ok(mut state) = STATE.try_lock() else { return };
    let Some(mut report) = state.so_far.take() else { return };
    if let Some(process) = state.command.take() {
        os::kill_tree(process);
    }
    report.samples.append(&mut state.under_way);
    let why = format!("{} {why}", state.doing);
    report.notes.push(format!("incomplete: {why}"));
    report.note_disturbances();
    print(&report);
    let _ = writeln!(std::io::stderr(), "linerate: {why}; the rows above are complete");
    std::process::exit(code);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run;
    use crate::side::Side;
    use crate::study::{Options, Study, Unit};
    use crate::subject;
    use std::process::Command;

    /// Environment variable with the fault that the child below produces.
    const FAULT: &str = "LINERATE_ALARM_TEST";

    /// Runs as the process that [`faulty`] starts; it tests nothing by itself.
    #[test]
    fn child() {
        let Ok(fault) = std::env::var(FAULT) else { return };
        install(9, Arc::new(|report| print!("{}", crate::table::render(report)))).unwrap();
        let mut show = |_| ();
        let options =
            run::Options { patience: Some(Duration::from_secs(2)), replacements: 0, ..Options::default().run(2) };
        let mut study = Study::new("faulty", options, 2, &mut show);
        let good = Side::new("good", || Ok(subject::from_fn("good", || Ok(subject::measure(1, || ())))));
        let group = study.measure(vec![good]);
        study.rows([group.row("good", "a row that was finished", Unit::TICKS)]);
        study.measure(vec![Side::new("bad", move || {
            let fault = fault.clone();
            Ok(subject::from_fn("bad", move || match fault.as_str() {
                "panic" => panic!("on purpose"),
                // The six trials together exceed the limit, which applies to each single trial.
                "slow" => Ok(subject::measure(1, || std::thread::sleep(Duration::from_millis(450)))),
                _ => loop {
                    std::thread::sleep(Duration::from_secs(1));
                },
            }))
        })]);
        println!("the study ended");
    }

    /// Returns exit code, standard output and standard error of a study with this fault.
    fn faulty(fault: &str) -> (Option<i32>, String, String) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "alarm::tests::child", "--nocapture", "--test-threads=1"]).env(FAULT, fault);
        let output = command.output().unwrap();
        let [out, err] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.code(), out, err)
    }

    #[test]
    fn the_time_limit_is_for_each_trial() {
        let (code, out, err) = faulty("slow");
        assert!(code == Some(0) && out.contains("the study ended"), "{code:?}: {out}{err}");
    }

    #[test]
    fn a_panic_or_hang_ends_with_the_completed_rows() {
        for (fault, reason) in [("panic", "bad panicked"), ("hang", "bad exceeded the time limit of 2 s")] {
            let (code, out, err) = faulty(fault);
            assert_eq!(code, Some(9), "{fault}: {out}{err}");
            assert!(out.contains("a row that was finished") && out.contains(&format!("incomplete: {reason}")), "{out}");
            assert!(err.contains(&format!("linerate: {reason}; the rows above are complete")), "{err}");
        }
    }
}
