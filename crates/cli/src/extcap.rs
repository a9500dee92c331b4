//! `extcap`: ports and running hosts as interfaces of Wireshark and tshark, by the protocol for
//! external capture (extcap(4)).
//!
//! Wireshark runs every program in its extcap directory, with flags that begin with `--extcap-` or
//! are `--capture`. `main` inserts the word `extcap` before them, so installing means linking the
//! program. Wireshark requests the list of interfaces, their link types, their options and the
//! check of a filter. Then, in a separate process, it requests frames written to a FIFO until the
//! FIFO is closed or SIGTERM arrives.

mod install;
mod interface;
mod record;

use crate::args::ExtcapArgs;
use crate::exit::{Exit, Fault, print};
use interface::Interface;
use std::ffi::OsString;
use wire::filter::Filter;

/// Returns whether these are the words with which Wireshark runs an extcap program.
pub fn is_called(words: &[OsString]) -> bool {
    let first = words.first().map(|word| word.to_string_lossy());
    first.is_some_and(|first| first.starts_with("--extcap-") || first == "--capture")
}

/// Performs the one requested action.
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
    // The filter is only checked: no output means that it is valid, otherwise the first line is
    // shown. The exit code is 0 in both cases.
    match filter {
        Err(why) => print(&format!("{why}\n")).map(|()| Exit::Fine),
        Ok(_) if args.filter.is_some() => Ok(Exit::Fine),
        Ok(_) => Err(Fault::usage("--extcap-interface: also give --extcap-dlts, --extcap-config or --capture")),
    }
}
