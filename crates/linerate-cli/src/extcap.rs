//! `extcap`: makes ports and running hosts available as interfaces in Wireshark and tshark, with
//! the protocol of external capture programs (extcap(4)).
//!
//! Wireshark runs every program in its extcap directory, with flags that begin with `--extcap-` or
//! are `--capture`. `main` inserts the word `extcap` before them, so a link to the program in that
//! directory is enough. Wireshark first runs the program to list the interfaces, their link types
//! and options, and to check a filter. To capture, it runs the program again; this process writes
//! frames to a FIFO until the FIFO is closed or SIGTERM arrives.

mod install;
mod interface;
mod record;

use crate::args::ExtcapArgs;
use crate::exit::{Exit, Fault, print};
use interface::Interface;
use std::ffi::OsString;
use wire::filter::Filter;

/// Returns whether `words`, the program's arguments, are those with which Wireshark runs an extcap
/// program.
pub fn is_called(words: &[OsString]) -> bool {
    let first = words.first().map(|word| word.to_string_lossy());
    first.is_some_and(|first| first.starts_with("--extcap-") || first == "--capture")
}

/// Performs the action that the flags request.
pub fn run(args: &ExtcapArgs) -> anyhow::Result<Exit> {
    if let Some(dir) = &args.install {
        return install::link(dir.as_deref());
    }
    if args.interfaces {
        return print(&interface::list()).map(|()| Exit::Fine);
    }
    let Some(name) = &args.interface else {
        return Err(Fault::usage(
            "no action: give --install, or the flags of an extcap program; see 'linerate extcap --help'",
        ));
    };
    let interface = Interface::named(name)?;
    if args.dlts {
        return print("dlt {number=1}{name=EN10MB}{display=Ethernet}\n").map(|()| Exit::Fine);
    }
    if args.config {
        return print(&interface.config()).map(|()| Exit::Fine);
    }
    let expression = args.filter.as_deref().unwrap_or_default();
    let filter = Filter::compile(expression);
    if args.capture {
        let filter = filter.map_err(|why| Fault::usage(format!("--extcap-capture-filter: {why}")))?;
        return record::run(&interface, args, expression, &filter);
    }
    // Only a check of the filter is requested. Wireshark interprets empty output as "valid", and
    // shows the first line of other output as the error. The exit code is 0 in both cases.
    match filter {
        Err(why) => print(&format!("{why}\n")).map(|()| Exit::Fine),
        Ok(_) if args.filter.is_some() => Ok(Exit::Fine),
        Ok(_) => Err(Fault::usage("--extcap-interface: also give --extcap-dlts, --extcap-config or --capture")),
    }
}
