//! Arguments of the commands that use a running host or bridge.

use clap::{Args, FromArgMatches, Subcommand, ValueHint};
use commands::{bridge, host};
use std::path::PathBuf;
use std::time::Duration;

/// Arguments of `ctl`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  linerate ctl --url /tmp/h.sock ifconfig pg0 create inet 1.0.0.1 udp4csum
  echo 'ip -br addr' | linerate ctl --url /tmp/h.sock --wait=5s -f -
  LINERATE_CTL=/tmp/h.sock linerate ctl -j ip route | jq .
  linerate ctl --url /tmp/h.sock help")]
pub struct CtlArgs {
    /// Use this control socket: unix:///path or /path
    #[arg(long, value_name = "URL", env = "LINERATE_CTL", hide_env_values = true)]
    pub url: Option<String>,
    /// Print listings as JSON instead of text
    #[arg(short, long)]
    pub json: bool,
    /// Run the commands in this file, one per line, up to the first error; '-' is standard input
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "words")]
    pub file: Option<PathBuf>,
    /// Continue after errors in --file
    #[arg(long, requires = "file")]
    pub force: bool,
    /// Wait up to this long for the host to start [default: 10s]; without a command, only wait
    #[arg(long, value_name = "DURATION", num_args = 0..=1, require_equals = true,
          default_missing_value = "10s", value_parser = pipe::units::duration)]
    pub wait: Option<Duration>,
    /// Run this control command; 'help' lists all commands
    #[arg(required_unless_present_any = ["file", "wait"], trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// Arguments of the short forms of `ctl`.
#[derive(Args, Debug)]
pub struct ShortArgs {
    /// Use this control socket: unix:///path or /path
    #[arg(long, value_name = "URL", env = "LINERATE_CTL", hide_env_values = true)]
    pub url: Option<String>,
    /// Print listings as JSON instead of text
    #[arg(short, long)]
    pub json: bool,
    /// Pass these arguments to the control command
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// A control command under its own name: `linerate arp -a` for `linerate ctl arp -a`. Hosts and
/// bridges declare the commands, their descriptions and their forms.
#[derive(Debug)]
pub struct ShortCommand {
    pub name: &'static str,
    pub args: ShortArgs,
}

/// Control commands without a short form: other commands send them, or they are available through
/// `ctl` only.
const WITHOUT_SHORT: &[&str] = &["bridge", "capture", "job", "stop", "help"];

impl ShortCommand {
    /// Returns the names of the commands that have a short form.
    pub fn names() -> impl Iterator<Item = &'static str> {
        host::catalog().map(|(name, ..)| name).filter(|name| !WITHOUT_SHORT.contains(name))
    }

    /// Returns the help text that lists the forms of a command on hosts and, if different, on
    /// bridges.
    fn forms(name: &str) -> String {
        let host = host::catalog().find(|(known, ..)| *known == name).map(|(.., forms)| forms).unwrap_or_default();
        let bridge = bridge::catalog().find(|(known, ..)| *known == name).map(|(.., forms)| forms);
        let bridge = bridge.filter(|forms| !forms.is_empty() && *forms != host);
        if host.is_empty() {
            return format!("Runs 'linerate ctl {name}'.");
        }
        let bridge = bridge.map(|forms| format!("\n\nForms on a bridge:\n{}", forms.trim_end())).unwrap_or_default();
        format!("Forms on a host:\n{}{bridge}", host.trim_end())
    }
}

impl Subcommand for ShortCommand {
    fn augment_subcommands(parent: clap::Command) -> clap::Command {
        let commands = host::catalog().filter(|(name, ..)| !WITHOUT_SHORT.contains(name));
        commands.fold(parent, |parent, (name, about, _)| {
            let command = ShortArgs::augment_args(clap::Command::new(name)).about(about);
            let where_forms = format!("'linerate {name} --help' lists the forms of the command.");
            parent.subcommand(command.after_help(where_forms).after_long_help(ShortCommand::forms(name)))
        })
    }

    fn augment_subcommands_for_update(parent: clap::Command) -> clap::Command {
        ShortCommand::augment_subcommands(parent)
    }

    fn has_subcommand(name: &str) -> bool {
        ShortCommand::names().any(|known| known == name)
    }
}

impl FromArgMatches for ShortCommand {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<ShortCommand, clap::Error> {
        let missing = || clap::Error::new(clap::error::ErrorKind::MissingSubcommand);
        let (given, matches) = matches.subcommand().ok_or_else(missing)?;
        let name = ShortCommand::names().find(|name| *name == given).ok_or_else(missing)?;
        Ok(ShortCommand { name, args: ShortArgs::from_arg_matches(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = ShortCommand::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Arguments of `tcpdump`.
#[derive(Args, Debug)]
#[command(after_help = "\
EXPR is a filter as in pcap-filter(7). Ends on Ctrl-C or after -c frames. Times are local (TZ). Frames are shown as \
they pass the port: with checksum offload to the port, the checksum is not yet filled in, and -v reports it as wrong. \
Frames that do not fit the host's buffer (4 MiB unread) are lost; their number is printed at the end. A packet dropped \
after its link header was removed is shown with a link header of zeros.

Examples:
  linerate tcpdump --url /tmp/h.sock -i tap0 -c 10 tcp port 80
  linerate tcpdump --url /tmp/h.sock --dropped -v
  linerate tcpdump --url /tmp/h.sock -w - | wireshark -k -i -")]
pub struct TcpdumpArgs {
    /// Use this control socket: unix:///path or /path
    #[arg(long, value_name = "URL", env = "LINERATE_CTL", hide_env_values = true)]
    pub url: Option<String>,
    /// Capture on this iface of a host or port of a bridge; 'any': all with a port
    #[arg(short, value_name = "IFACE", default_value = "any")]
    pub iface: String,
    /// Capture dropped frames, with the drop reason (a comment in pcapng)
    #[arg(long, conflicts_with_all = ["iface", "read"])]
    pub dropped: bool,
    /// Read the packets of this pcap or pcapng file; '-' is standard input
    #[arg(short, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "iface")]
    pub read: Option<PathBuf>,
    /// List the ports to capture on
    #[arg(short = 'D', long = "list-interfaces")]
    pub list: bool,
    /// Stop after this many frames
    #[arg(short, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Write pcapng (or pcap, to *.pcap) to this file instead of printing; '-' is standard output
    #[arg(short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub write: Option<PathBuf>,
    /// Start a new file when the current one reaches this many million bytes
    #[arg(short = 'C', value_name = "MB", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub size: Option<u64>,
    /// Limit the number of files; then -C overwrites the first file, and -G ends the capture
    #[arg(short = 'W', value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub files: Option<u64>,
    /// Start a new file every SECONDS seconds; FILE may contain strftime(3) conversions
    #[arg(short = 'G', value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    pub seconds: Option<u64>,
    /// Keep this many bytes of each frame; 0: all
    #[arg(short, value_name = "BYTES", default_value_t = node::capture::SNAPLEN, value_parser = snaplen)]
    pub snaplen: u32,
    /// Print the link header too
    #[arg(short = 'e')]
    pub link: bool,
    /// Print the fields of the IP header too
    #[arg(short, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Print the bytes of each frame without the link header; if given twice, with it
    #[arg(short = 'x', action = clap::ArgAction::Count)]
    pub hex: u8,
    /// Print the bytes and ASCII of each frame without the link header; if given twice, with it
    #[arg(short = 'X', action = clap::ArgAction::Count)]
    pub ascii: u8,
    /// Do not print timestamps
    #[arg(short = 't')]
    pub no_time: bool,
    /// Print numbers instead of names; always on
    #[arg(short = 'n', action = clap::ArgAction::Count)]
    pub numbers: u8,
    /// Write each frame at once; always on
    #[arg(short = 'U', visible_short_alias = 'l')]
    pub unbuffered: bool,
    /// Capture frames that match: a pcap-filter(7) expression
    #[arg(value_name = "EXPR")]
    pub expression: Vec<String>,
}

/// Arguments of `why`.
#[derive(Args, Debug)]
#[command(after_help = "\
FLOW is [tcp|udp|icmp|icmp6] A[:PORT] [B[:PORT]], or a filter as in pcap-filter(7). The command captures the flow's \
frames for a while. It prints where they were received, sent or dropped, with the drop reasons, and earlier drops (the \
host keeps a sample). For a host it also prints the route, the neighbor and the sockets; for a bridge, the ports of \
the destination addresses.

Examples:
  linerate why --url /tmp/h.sock udp 10.0.0.2:9
  linerate why --url /tmp/h.sock --for 5s tcp port 80")]
pub struct WhyArgs {
    /// Use this control socket: unix:///path or /path
    #[arg(long, value_name = "URL", env = "LINERATE_CTL", hide_env_values = true)]
    pub url: Option<String>,
    /// Capture for this long or until Ctrl-C; 0s: report earlier drops only
    #[arg(long = "for", value_name = "DURATION", value_parser = pipe::units::duration, default_value = "1s")]
    pub duration: Duration,
    /// Print JSON
    #[arg(short, long)]
    pub json: bool,
    /// Explain this flow
    #[arg(required = true, value_name = "FLOW")]
    pub flow: Vec<String>,
}

/// Help after the options of `ping`.
pub const PING_HELP: &str = "\
Options, as in ping(8): -c COUNT, -i SECONDS, -s BYTES of data, -t TTL, -W SECONDS \
to wait for the last reply, -I IFACE or SOURCE, -M do (do not fragment). A \
link-local address is written A%IFACE. -4 and -6 select the address family of a \
name. Exit code 1: no reply.

Example:
  linerate ping --url /tmp/h.sock -c 3 -i 0.2 10.0.0.1";
/// Help after the options of `traceroute`.
pub const TRACEROUTE_HELP: &str = "\
Options, as in traceroute(8): -f FIRST and -m LAST hop, -q PROBES for each, -w \
SECONDS to wait, -s SOURCE, -4 or -6. Probes are echo requests.

Example:
  linerate traceroute --url /tmp/h.sock 10.0.0.1";

/// Arguments of `ping` and `traceroute`.
#[derive(Args, Debug)]
pub struct PingArgs {
    /// Use this control socket: unix:///path or /path
    #[arg(long, value_name = "URL", env = "LINERATE_CTL", hide_env_values = true)]
    pub url: Option<String>,
    /// Print a JSON object for each reply and one at the end (ping)
    #[arg(short, long)]
    pub json: bool,
    /// Send to this address or name; ping and traceroute options may precede it
    #[arg(required = true, value_name = "HOST", trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<String>,
}

/// Arguments of `nc`.
#[derive(Args, Debug)]
#[command(after_help = "\
Ends when the peer closes the connection. With -u, ends one second after the \
end of input and the last reply.

Example:
  printf 'GET / HTTP/1.0\\r\\n\\r\\n' | linerate nc --url /tmp/h.sock 10.0.0.1 80")]
pub struct NcArgs {
    /// Use this control socket: unix:///path or /path
    #[arg(long, value_name = "URL", env = "LINERATE_CTL", hide_env_values = true)]
    pub url: Option<String>,
    /// Use UDP: each read of the input is sent as one datagram
    #[arg(short)]
    pub udp: bool,
    /// Exit this long after the end of input and the last reply: 500ms, or a number of seconds
    #[arg(short = 'w', value_name = "DURATION", value_parser = seconds)]
    pub idle: Option<Duration>,
    /// Use IPv4
    #[arg(short = '4', conflicts_with = "v6")]
    pub v4: bool,
    /// Use IPv6
    #[arg(short = '6')]
    pub v6: bool,
    /// Connect to this host: an address or a name
    pub host: String,
    /// Connect to this port
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
}

/// Arguments of `nslookup`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  linerate nslookup --url /tmp/h.sock www.example.org")]
pub struct NslookupArgs {
    /// Use this control socket: unix:///path or /path
    #[arg(long, value_name = "URL", env = "LINERATE_CTL", hide_env_values = true)]
    pub url: Option<String>,
    /// Look up this name, or the name of this address
    pub name: String,
    /// Query this name server, ADDRESS or ADDRESS:PORT [default: the host's first]
    pub server: Option<String>,
}

/// Arguments of `http`.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  linerate http --url /tmp/h.sock get http://10.0.0.1/index.html")]
pub struct HttpArgs {
    /// Use this control socket: unix:///path or /path
    #[arg(long, value_name = "URL", env = "LINERATE_CTL", hide_env_values = true)]
    pub url: Option<String>,
    /// Use this HTTP method; only 'get' is supported
    #[arg(value_parser = ["get"])]
    pub method: String,
    /// Get this page, as in http://10.0.0.2:80/index.html
    #[arg(value_name = "PAGE")]
    pub address: String,
    /// Write the page to this file
    #[arg(short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// Print the response headers too
    #[arg(short = 'i')]
    pub head: bool,
}

/// Parses the number of bytes kept of each frame, as for tcpdump's -s: 0 means the default.
fn snaplen(text: &str) -> Result<u32, String> {
    let most = node::capture::SNAPLEN;
    match text.parse() {
        Ok(0) => Ok(most),
        Ok(bytes) if bytes <= most => Ok(bytes),
        _ => Err(format!("expected 0 to {most} bytes")),
    }
}

/// Parses a duration with a unit, or a plain number of seconds as nc accepts.
fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => pipe::units::duration(text).map_err(|why| why.to_string()),
    }
}
