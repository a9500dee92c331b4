//! `netrate juggle`: sends messages to and fro between two descriptors of one kernel, like the
//! FreeBSD program that it imitates.
//!
//! | channel | implementation |
//! |---|---|
//! | pipe | two pipes, one for each direction |
//! | udp | two datagram sockets on loopback |
//! | socket_dgram, socket_stream | a pair of UNIX sockets |
//!
//! Each channel runs in three variants: one thread has both ends (`juggle`), each end has a thread
//! (`thread_juggle`), or each end has a process (`process_juggle`), which has its end as standard
//! input and output. On channels that do not report a close, an empty message signals the end.

use anyhow::{Context, ensure};
use apps::netrate::Out;
use apps::netrate::juggle::{MESSAGE, PIPELINE_MAX, head, line};
use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Timeout for a datagram.
const PATIENCE: Duration = Duration::from_secs(10);

/// Channel over which the messages are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Channel {
    /// Two pipes, one for each direction.
    Pipe,
    /// A pair of UDP sockets on loopback.
    Udp,
    /// A pair of UNIX datagram sockets.
    Datagrams,
    /// A pair of UNIX stream sockets.
    Stream,
}

impl Channel {
    /// All channels, in output order.
    pub const ALL: [Channel; 4] = [Channel::Pipe, Channel::Udp, Channel::Datagrams, Channel::Stream];

    /// Returns the name, as in the first output column.
    pub fn name(self) -> &'static str {
        match self {
            Channel::Pipe => "pipe",
            Channel::Udp => "udp",
            Channel::Datagrams => "socket_dgram",
            Channel::Stream => "socket_stream",
        }
    }

    fn has_datagrams(self) -> bool {
        matches!(self, Channel::Udp | Channel::Datagrams)
    }

    fn open(self) -> io::Result<[End; 2]> {
        fn both<S: Into<OwnedFd>>(one: S, other: S) -> [End; 2] {
            [one, other].map(|socket| End::Socket(File::from(socket.into())))
        }
        Ok(match self {
            Channel::Pipe => {
                let (there, back) = (io::pipe()?, io::pipe()?);
                [End::Pipes(back.0, there.1), End::Pipes(there.0, back.1)]
            }
            Channel::Udp => {
                let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
                let (one, other) = (bind()?, bind()?);
                one.connect(other.local_addr()?)?;
                other.connect(one.local_addr()?)?;
                one.set_read_timeout(Some(PATIENCE))?;
                other.set_read_timeout(Some(PATIENCE))?;
                both(one, other)
            }
            Channel::Datagrams => {
                let (one, other) = UnixDatagram::pair()?;
                one.set_read_timeout(Some(PATIENCE))?;
                other.set_read_timeout(Some(PATIENCE))?;
                both(one, other)
            }
            Channel::Stream => {
                let (one, other) = UnixStream::pair()?;
                both(one, other)
            }
        })
    }
}

/// Placement of the two ends of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// Both ends on one thread.
    One,
    /// The other end on another thread.
    Threads,
    /// The other end in another process.
    Processes,
}

impl Manner {
    /// All variants, in output order.
    pub const ALL: [Manner; 3] = [Manner::One, Manner::Threads, Manner::Processes];

    /// Returns the name, as in the second output column.
    pub fn name(self) -> &'static str {
        match self {
            Manner::One => "juggle",
            Manner::Threads => "thread_juggle",
            Manner::Processes => "process_juggle",
        }
    }
}

/// One end of a channel; messages written here are read at the other end.
enum End {
    Pipes(PipeReader, PipeWriter),
    Socket(File),
}

impl End {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self {
            End::Pipes(_, out) => out.write_all(message),
            End::Socket(socket) => socket.write_all(message),
        }
    }

    fn recv(&mut self, into: &mut [u8; MESSAGE]) -> io::Result<()> {
        match self {
            End::Pipes(from, _) => from.read_exact(into),
            End::Socket(socket) => socket.read_exact(into),
        }
    }

    /// Sends the empty message that signals the end.
    fn say_end(&mut self) {
        if let End::Socket(socket) = self {
            let _ = socket.write(&[]); // fails if the other end is gone
        }
    }

    /// Converts the end to the standard input and output of a process.
    fn into_stdio(self) -> io::Result<[Stdio; 2]> {
        Ok(match self {
            End::Pipes(from, to) => [from.into(), to.into()],
            End::Socket(socket) => [socket.try_clone()?.into(), socket.into()],
        })
    }
}

/// Echoes messages until the end of file.
fn send_back(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut message = [0; MESSAGE];
    loop {
        match from.read_exact(&mut message) {
            Ok(()) => to.write_all(&message)?,
            Err(why) if why.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(why) => return Err(why),
        }
    }
}

/// Runs the other process, whose standard input and output are its end of the channel.
///
/// # Errors
/// A read or write fails.
pub fn partner() -> io::Result<()> {
    let raw = |fd: io::Result<OwnedFd>| fd.map(File::from);
    let from = raw(io::stdin().as_fd().try_clone_to_owned())?;
    send_back(from, raw(io::stdout().as_fd().try_clone_to_owned())?)
}

/// The other end of the channel, and the thread or process that drives it.
enum Other {
    Here(End),
    Thread(Option<std::thread::JoinHandle<io::Result<()>>>),
    Process(Child),
}

/// A channel, with a thread or process that drives each end.
struct Table {
    near: End,
    other: Other,
}

impl Table {
    fn set(channel: Channel, manner: Manner, partner: &dyn Fn() -> Command) -> anyhow::Result<Table> {
        let [near, far] = channel.open().context("cannot create the descriptors")?;
        let other = match manner {
            Manner::One => Other::Here(far),
            Manner::Threads => Other::Thread(Some(
                dispatch::spawn_worker("juggle", None, move |_| match far {
                    End::Pipes(from, to) => send_back(from, to),
                    End::Socket(socket) => send_back(&socket, &socket),
                })
                .context("cannot start the other thread")?,
            )),
            Manner::Processes => {
                let [input, output] = far.into_stdio()?;
                Other::Process(partner().stdin(input).stdout(output).spawn().context("cannot start the other process")?)
            }
        };
        Ok(Table { near, other })
    }

    fn run(&mut self, depth: u32, cycles: usize) -> anyhow::Result<Duration> {
        let (message, mut into) = ([7; MESSAGE], [0; MESSAGE]);
        let start = Instant::now();
        for _ in 0..cycles {
            (0..depth).try_for_each(|_| self.near.send(&message)).context("send")?;
            if let Other::Here(far) = &mut self.other {
                for _ in 0..depth {
                    far.recv(&mut into).and_then(|()| far.send(&into)).context("the other end failed")?;
                }
            }
            for _ in 0..depth {
                self.near.recv(&mut into).context("receive: the other end has ended, or a message was lost")?;
                ensure!(into == message, "the returned message differs from the one sent");
            }
        }
        Ok(start.elapsed())
    }

    fn end(mut self, channel: Channel) -> anyhow::Result<()> {
        if channel.has_datagrams() {
            self.near.say_end();
        }
        drop(self.near);
        match self.other {
            Other::Here(_) => Ok(()),
            Other::Thread(thread) => {
                let ended = thread.map(|thread| thread.join());
                ended.map_or(Ok(()), |ended| Ok(ended.map_err(|_| anyhow::anyhow!("the other thread panicked"))??))
            }
            Other::Process(mut child) => {
                let status = child.wait().context("cannot wait for the other process")?;
                ensure!(status.success(), "the other process failed: {status}");
                Ok(())
            }
        }
    }
}

/// Runs all channels in all variants; `partner` is the command of the other process, which calls
/// [`partner`].
///
/// # Errors
/// A descriptor, thread or process cannot be created or has ended.
pub fn juggle(out: Out<'_>, cycles: usize, partner: &dyn Fn() -> Command) -> anyhow::Result<()> {
    head(out, cycles)?;
    for manner in Manner::ALL {
        for channel in Channel::ALL {
            let mut table = Table::set(channel, manner, partner).with_context(|| channel.name())?;
            for depth in 0..=PIPELINE_MAX {
                let run = || if dispatch::stop_requested() { Ok(None) } else { table.run(depth, cycles).map(Some) };
                if !line(out, [channel.name(), manner.name()], depth, run)? {
                    return table.end(channel);
                }
            }
            table.end(channel).with_context(|| channel.name())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the command of the other process: `cat` echoes pipes and streams, and returns each
    /// datagram as one.
    fn cat() -> Command {
        Command::new("cat")
    }

    #[test]
    fn each_channel_returns_the_messages_sent_in_each_variant() {
        let mut out = Vec::new();
        juggle(&mut out, 20, &cat).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("MESSAGELEN, 128\nNUMCYCLES, 20\nLOOPS, 10\nPIPELINE_MAX, 4\n"), "{text}");
        for manner in Manner::ALL {
            for channel in Channel::ALL {
                for depth in 0..=PIPELINE_MAX {
                    let begins = format!("{}, {}, {depth}, ", channel.name(), manner.name());
                    let line =
                        text.lines().find(|line| line.starts_with(&begins)).unwrap_or_else(|| panic!("{begins}"));
                    let times: Vec<f64> = line.split(", ").skip(3).map(|time| time.parse().unwrap()).collect();
                    assert!(times.len() == 10 && (depth == 0 || times.iter().all(|time| *time > 0.0)), "{line}");
                }
            }
        }
        assert_eq!(text.lines().count(), 7 + 60);
    }

    #[test]
    fn a_partner_that_dies_is_an_error() {
        let mut table = Table::set(Channel::Pipe, Manner::Processes, &|| Command::new("true")).unwrap();
        let why = (0..100).find_map(|_| table.run(1, 10).err()).unwrap();
        assert!(format!("{why:#}").contains("send") || format!("{why:#}").contains("has ended"), "{why:#}");
        assert!(juggle(&mut Vec::new(), 1, &|| Command::new("/nowhere")).is_err());
    }
}
