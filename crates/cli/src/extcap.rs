//! `extcap`: our ports and running hosts as interfaces of Wireshark and tshark, by their protocol for external capture (extcap(4)).
//!
//! Wireshark runs every program of its extcap folder, with flags that begin with `--extcap-` or are `--capture`; `main` puts the
//! word `extcap` in front of those, so a link to the program is all that is to be installed. It asks which interfaces there are, their
//! link types, their options, whether a filter is one, and then, in a process of its own, for frames into a FIFO until that is closed
//! or SIGTERM comes.

mod install;
mod interface;
mod record;

use crate::args::ExtcapArgs;
use crate::exit::{Exit, Fault, print};
use interface::Interface;
use std::ffi::OsString;
use wire::filter::Filter;

/// Are these the words with which Wireshark runs a program of its folder?
pub fn is_called(words: &[OsString]) -> bool {
    let first = words.first().map(|word| word.to_string_lossy());
    first.is_some_and(|first| first.starts_with("--extcap-") || first == "--capture")
}

/// Does what is asked; one thing at a time.
pub fn run(args: &ExtcapArgs) -> anyhow::Result<Exit> {
    if let Some(dir) = &args.install {
        return install::link(dir.as_deref());
    }
    if args.interfaces {
        return print(&interface::list()).map(|()| Exit::Fine);
    }
    let Some(name) = &args.interface else {
        return Err(Fault::usage(
            "nothing to do: give --install, or what Wireshark gives; see 'linerate extcap --help'",
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
    // Only to be judged: silence is consent, the first line of anything else is shown, and the exit code is that of success.
    match filter {
        Err(why) => print(&format!("{why}\n")).map(|()| Exit::Fine),
        Ok(_) if args.filter.is_some() => Ok(Exit::Fine),
        Ok(_) => Err(Fault::usage("--extcap-interface: and what of it? --extcap-dlts, --extcap-config or --capture")),
    }
}
