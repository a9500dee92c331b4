//! `text:FILE`: frames as lines (the F1 form of ethpipe2013, see [`wire::text`]), read from one file and written to another.
//!
//! ```text
//! text:-                  standard input in, standard output out
//! text:FILE               frames of FILE in; what is sent is discarded
//! text(read=off):FILE     what is sent goes to FILE
//! text(write=OUT):IN      both: two FIFOs are a wire
//! ```
//! Nothing here waits. A FIFO is opened before anybody is at its far end: what is sent until then, and what a slow reader does not
//! take, stays in a megabyte; then the port is full. A line that has not come whole stays until it has; a line that is no frame is
//! counted (`port.rx.malformed`), told ([`RxHalf::remarks`]) and stepped over. The port has ended when its
//! file has, or when who wrote the FIFO is gone; it takes nothing more when who read it is. Stamps are read and not obeyed.

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

/// What is read and written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextConfig {
    /// The file or FIFO to receive from; `-` is standard input.
    pub read: Option<String>,
    /// The file or FIFO to send to; `-` is standard output. Without one, what is sent is counted and discarded.
    pub write: Option<String>,
    /// The first line that is no frame ends the port.
    pub strict: bool,
}

/// A file that cannot be opened.
#[derive(Debug)]
pub struct TextFileError {
    /// The file.
    pub file: String,
    /// Why.
    pub error: io::Error,
}

impl std::fmt::Display for TextFileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "text:{}: {}", self.file, self.error)
    }
}

impl std::error::Error for TextFileError {}

/// Opens a port of lines; received frames get buffers of `pool`. A file that is written is emptied first.
///
/// # Errors
/// Which file cannot be opened, and why.
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
