//! Roles of commands in a row.

use super::args::StreamArgs;
use super::ends::{From, To};
use super::flow::Make;
use pipe::Stage;

/// Role of a command in a row.
pub(super) enum Step {
    /// Source of frames.
    First(From),
    /// Stage that processes frames.
    Stage(Box<dyn Stage>, StreamArgs),
    /// Stage that is created when the row starts.
    Make(Make, StreamArgs),
    /// Frames are passed through unchanged.
    Pass(StreamArgs),
    /// Sink of frames.
    Last(To, StreamArgs),
}
