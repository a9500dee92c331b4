//! Runs the test rig of this crate, the send path of one host, as a separate program. The command
//! `linerate ladder` starts it for the build variants that are executables.
//!
//! `linerate-rung SETTINGS` builds the rig and executes `trial` commands from standard input until
//! end of file ([`linerate_rung::serve`]). `linerate-rung --profile N SETTINGS` sends N datagrams
//! and exits, which is the training run for profile-guided optimization.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.as_slice() {
        [flag, n, settings @ ..] if flag == "--profile" => profile(n, &settings.join(" ")),
        settings => linerate_rung::serve::serve(&settings.join(" ")).map_err(|why| why.to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("linerate-rung: {why}");
            ExitCode::FAILURE
        }
    }
}

fn profile(n: &str, settings: &str) -> Result<(), String> {
    let n: u64 = n.parse().map_err(|_| format!("--profile '{n}': must be a number"))?;
    let settings = settings.parse().map_err(|bad: linerate_rung::BadSettings| bad.to_string())?;
    let sent = linerate_rung::AnyRig::new(&settings)?.send(n, &linerate_rung::serve::PAYLOAD);
    if sent == n { Ok(()) } else { Err(format!("{sent} of {n} datagrams sent")) }
}
