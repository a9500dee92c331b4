//! Format of the messages on standard error: text, JSON lines, or fields for systemd's journal.

use anyhow::Context;
use node::log::LogEvent;
use serde_json::{Map, Value, json};
use std::io::{self, Write};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::OnceLock;

/// Socket of systemd's journal (systemd-journald(8), "Native journal protocol").
const JOURNAL: &str = "/run/systemd/journal/socket";

/// Value of `--log`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogFormat {
    /// A line of text for each message.
    Text,
    /// A JSON object on a line for each message.
    Json,
    /// Fields, sent to the journal's socket at this path.
    Journal(PathBuf),
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<LogFormat, String> {
        match text.split_once(':').map_or((text, JOURNAL), |(word, path)| (word, path)) {
            ("text", JOURNAL) => Ok(LogFormat::Text),
            ("json", JOURNAL) => Ok(LogFormat::Json),
            ("journal", path) if path.starts_with('/') => Ok(LogFormat::Journal(path.into())),
            _ => Err("expected text, json, journal or journal:PATH".to_string()),
        }
    }
}

/// Destination of messages other than text.
enum Log {
    Json,
    Journal(UnixDatagram),
}

/// The format of all messages of the process; unset for text.
static LOG: OnceLock<Log> = OnceLock::new();

/// Sets the format of all further messages, once. Called before the program drops its privileges.
///
/// # Errors
/// The journal cannot be reached.
pub fn start(format: &LogFormat) -> anyhow::Result<()> {
    let log = match format {
        LogFormat::Text => return Ok(()),
        LogFormat::Json => Log::Json,
        LogFormat::Journal(path) => {
            let connect = || {
                let socket = UnixDatagram::unbound()?;
                socket.set_nonblocking(true)?; // a journal that does not read must not block a host
                socket.connect(path).map(|()| socket)
            };
            Log::Journal(connect().with_context(|| format!("--log journal: {}", path.display()))?)
        }
    };
    let _ = LOG.set(log); // a process sets it once
    Ok(())
}

/// Writes a message without an event.
pub fn message(text: &str) {
    match LOG.get() {
        None => text_line(text),
        Some(log) => log.write(5, &[("event", "notice".to_string())], text),
    }
}

/// Writes an error that ends the program.
pub fn error(text: &str) {
    match LOG.get() {
        None => text_line(text),
        Some(log) => log.write(3, &[("event", "error".to_string())], text),
    }
}

/// Writes an event of a host.
pub fn event(event: &LogEvent) {
    let Some(log) = LOG.get() else { return text_line(&event.to_string()) };
    let mut fields = vec![("event", event.kind.name().to_string()), ("host", event.host.clone())];
    fields.extend(event.fields.iter().cloned());
    // A line of JSON has the host in a field; the journal shows the message alone.
    let text = if matches!(log, Log::Json) { event.text.clone() } else { event.to_string() };
    log.write(if event.kind.is_warning() { 4 } else { 6 }, &fields, &text);
}

/// Writes a line to standard error. Errors are ignored, since there is nowhere to report them.
fn text_line(text: &str) {
    let _ = writeln!(io::stderr(), "linerate: {text}");
}

impl Log {
    /// Writes a message with its priority (syslog(3)) and its fields.
    fn write(&self, priority: u8, fields: &[(&'static str, String)], text: &str) {
        match self {
            Log::Json => {
                let mut row = Map::new();
                row.insert("time".to_string(), json!(jiff::Timestamp::now().to_string()));
                row.insert("priority".to_string(), json!(priority));
                row.extend(fields.iter().map(|(name, value)| (name.to_string(), json!(value))));
                row.insert("message".to_string(), json!(text));
                // One write for each line, so that lines of several threads are not mixed.
                let _ = io::stderr().write_all(format!("{}\n", Value::Object(row)).as_bytes());
            }
            Log::Journal(socket) => {
                let mut record = Vec::new();
                field(&mut record, "MESSAGE", text);
                field(&mut record, "PRIORITY", &priority.to_string());
                field(&mut record, "SYSLOG_IDENTIFIER", "linerate");
                for (name, value) in fields {
                    field(&mut record, &format!("LINERATE_{}", name.to_ascii_uppercase()), value);
                }
                if socket.send(&record).is_err() {
                    text_line(text); // systemd stores standard error in the journal, too
                }
            }
        }
    }
}

/// Appends a field in the journal's format: a value with line breaks has its length in front.
fn field(record: &mut Vec<u8>, name: &str, value: &str) {
    record.extend(name.as_bytes());
    if value.contains('\n') {
        record.push(b'\n');
        record.extend((value.len() as u64).to_le_bytes());
    } else {
        record.push(b'=');
    }
    record.extend(value.as_bytes());
    record.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_parsed() {
        assert_eq!("json".parse(), Ok(LogFormat::Json));
        assert_eq!("journal".parse(), Ok(LogFormat::Journal(JOURNAL.into())));
        assert_eq!("journal:/x/y".parse(), Ok(LogFormat::Journal("/x/y".into())));
        for bad in ["", "xml", "json:/x", "journal:relative"] {
            assert!(bad.parse::<LogFormat>().is_err(), "{bad}");
        }
    }

    #[test]
    fn fields_with_line_breaks_have_a_length() {
        let mut record = Vec::new();
        field(&mut record, "A", "b");
        field(&mut record, "C", "d\ne");
        assert_eq!(record, b"A=b\nC\n\x03\0\0\0\0\0\0\0d\ne\n");
    }
}
