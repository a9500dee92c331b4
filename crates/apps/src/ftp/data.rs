//! Content of a data connection: a file or listing sent to the client, or a file received from it,
//! one buffer at a time.

use super::facts::Facts;
use crate::date;
use crate::files::{Listing, Meta, Refusal, Sink, Source, Uploads};

/// Number of bytes of listing or converted text generated at a time.
const TEXT: usize = 32 * 1024;

#[derive(Debug)]
pub(super) enum Job {
    Out(Outgoing),
    In(Incoming),
}

/// Data sent to the client.
#[derive(Debug)]
pub(super) struct Outgoing {
    from: Origin,
    /// Generated text; the bytes before `at` are already sent.
    text: Vec<u8>,
    at: usize,
    pub(super) bytes: u64,
}

#[derive(Debug)]
enum Origin {
    /// TYPE I (binary): the file's bytes unchanged.
    Image(Source),
    /// TYPE A (text): each LF is sent as CR LF (RFC 959 3.1.1.1).
    Text(Source),
    List {
        listing: Listing,
        /// Directory part of the client's argument, written before each name.
        prefix: String,
        form: Form,
    },
    Lines,
}

/// Format of the lines of a listing.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// NLST: the name only.
    Name,
    /// LIST: like `ls -l`. The value is the current time in seconds since 1970.
    Long(u64),
    /// MLSD: the selected facts (RFC 3659 7.5), then the name.
    Facts(Facts, Uploads),
}

impl Outgoing {
    fn new(from: Origin) -> Outgoing {
        Outgoing { from, text: Vec::new(), at: 0, bytes: 0 }
    }

    pub(super) fn image(source: Source) -> Outgoing {
        Outgoing::new(Origin::Image(source))
    }

    pub(super) fn text(source: Source) -> Outgoing {
        Outgoing::new(Origin::Text(source))
    }

    /// Sends the listing of a directory, with `prefix` before each name.
    pub(super) fn list(listing: Listing, prefix: String, form: Form) -> Outgoing {
        Outgoing::new(Origin::List { listing, prefix, form })
    }

    /// Sends a listing that consists of a single entry.
    pub(super) fn entry(name: &str, meta: &Meta, form: Form) -> Outgoing {
        let mut out = Outgoing::new(Origin::Lines);
        out.text = entry_line(name, meta, form).into_bytes();
        out
    }

    /// Generates more text if all previously generated text was sent.
    pub(super) fn prepare(&mut self) -> Result<(), Refusal> {
        if self.at < self.text.len() {
            return Ok(());
        }
        self.text.clear();
        self.at = 0;
        match &mut self.from {
            Origin::Image(source) => drop(source.peek()?),
            Origin::Text(source) => {
                let bytes = source.peek()?;
                let some = bytes.get(..TEXT).unwrap_or(bytes);
                for &byte in some {
                    if byte == b'\n' {
                        self.text.push(b'\r');
                    }
                    self.text.push(byte);
                }
                let n = some.len();
                source.advance(n);
            }
            Origin::List { listing, prefix, form } => {
                while self.text.len() < TEXT {
                    let Some((name, meta)) = listing.next() else {
                        listing.finish()?;
                        break;
                    };
                    let name = format!("{prefix}{name}");
                    self.text.extend_from_slice(entry_line(&name, &meta, *form).as_bytes());
                }
            }
            Origin::Lines => {}
        }
        Ok(())
    }

    /// Returns the bytes to send next. [`Outgoing::prepare`] must be called first; an empty result
    /// then means the end of the data.
    pub(super) fn output(&mut self) -> &[u8] {
        match &mut self.from {
            Origin::Image(source) => source.peek().unwrap_or_default(),
            _ => self.text.get(self.at..).unwrap_or_default(),
        }
    }

    pub(super) fn advance(&mut self, n: usize) {
        self.bytes = self.bytes.saturating_add(n as u64);
        match &mut self.from {
            Origin::Image(source) => source.advance(n),
            _ => self.at = self.at.saturating_add(n),
        }
    }
}

/// Formats a line of a listing.
fn entry_line(name: &str, meta: &Meta, form: Form) -> String {
    let now_s = match form {
        Form::Name => return format!("{name}\r\n"),
        Form::Facts(facts, uploads) => return format!("{} {name}\r\n", facts.of(meta, uploads)),
        Form::Long(now_s) => now_s,
    };
    let kind = if meta.is_dir { "drwxr-xr-x" } else { "-rw-r--r--" };
    let date = date::ls(meta.modified_s().unwrap_or(0), now_s);
    format!("{kind}   1 ftp      ftp      {:>12} {date} {name}\r\n", meta.len.unwrap_or(0))
}

/// Data received from the client.
#[derive(Debug)]
pub(super) struct Incoming {
    sink: Sink,
    is_text: bool,
    /// Set if the last byte received was a CR, which is not written yet because it may begin a line
    /// end.
    had_cr: bool,
    pub(super) bytes: u64,
}

impl Incoming {
    pub(super) fn new(sink: Sink, is_text: bool) -> Incoming {
        Incoming { is_text: is_text && !sink.is_null(), sink, had_cr: false, bytes: 0 }
    }

    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if !self.is_text {
            return self.sink.write(bytes);
        }
        let mut plain = Vec::with_capacity(bytes.len() + 1);
        for &byte in bytes {
            if self.had_cr && byte != b'\n' {
                plain.push(b'\r');
            }
            self.had_cr = byte == b'\r';
            if !self.had_cr {
                plain.push(byte);
            }
        }
        self.sink.write(&plain)
    }

    /// Completes the file at the end of the data: writes a final CR that was not written yet.
    pub(super) fn finish(&mut self) -> Result<(), Refusal> {
        if std::mem::take(&mut self.had_cr) { self.sink.write(b"\r") } else { Ok(()) }
    }
}
