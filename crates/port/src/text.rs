//! `text:FILE`: frames as lines of text (see [`wire::text`]), read from one file and written to
//! another.
//!
//! ```text
//! text:-                  standard input in, standard output out
//! text:FILE               frames of FILE in; sent frames are discarded
//! text(read=off):FILE     sent frames go to FILE
//! text(write=OUT):IN      both: two FIFOs form a wire
//! ```
//! No operation of this port blocks. A FIFO can be opened before its other end is. Frames sent
//! before that, and frames that a slow reader has not read, are held in a buffer of one megabyte;
//! when it is full, the port accepts no more frames. An incomplete line stays buffered until the
//! rest arrives. A line that is not a frame is counted (`port.rx.malformed`), reported
//! ([`RxHalf::warnings`]) and skipped. The receiving half ends at the end of its file, or when the
//! FIFO's writer is gone. The sending half ends when the reader is gone. Timestamps are parsed and
//! ignored.

mod lines;
mod rx;
#[cfg(test)]
mod tests;
mod tx;

pub(crate) use lines::{Line, Lines};

use crate::null::Nothing;
use crate::{Caps, Port, PortCounts, RxHalf, TxHalf};
use buf::Pool;
use rx::TextRx;
use std::io;
use std::sync::Arc;
use tx::TextTx;

/// Configuration of a text port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextConfig {
    /// File or FIFO to receive frames from; `-` is standard input. `None` if nothing is received.
    pub read: Option<String>,
    /// File or FIFO to write sent frames to; `-` is standard output. If it is `None`, sent frames
    /// are counted and discarded.
    pub write: Option<String>,
    /// True if the first line that is not a frame ends the port.
    pub strict: bool,
}

/// Error of opening a file.
#[derive(Debug)]
pub struct TextFileError {
    /// Name of the file.
    pub file: String,
    /// Cause of the failure.
    pub error: io::Error,
}

impl std::fmt::Display for TextFileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "text:{}: {}", self.file, self.error)
    }
}

impl std::error::Error for TextFileError {}

/// Opens a text port. Received frames use buffers of `pool`. A file to be written is truncated
/// first.
///
/// # Errors
/// The file that cannot be opened, and the cause.
pub fn open(name: &str, config: &TextConfig, pool: &Pool) -> Result<Port, TextFileError> {
    let counts = Arc::new(PortCounts::default());
    let failed = |file: &str| {
        let file = file.to_string();
        |error| TextFileError { file, error }
    };
    let rx: Box<dyn RxHalf> = match &config.read {
        Some(file) => Box::new(TextRx::open(file, config.strict, pool, &counts).map_err(failed(file))?),
        None => Box::new(Nothing),
    };
    let tx: Box<dyn TxHalf> = match &config.write {
        Some(file) => Box::new(TextTx::open(file, &counts).map_err(failed(file))?),
        None => Box::new(crate::null::Everything(counts.clone())),
    };
    let caps = Caps { mtu: u16::MAX, ..Caps::PLAIN };
    Ok(Port { name: name.to_string(), spec: format!("text:{name}"), caps, rx, tx, counts, nic: None })
}
