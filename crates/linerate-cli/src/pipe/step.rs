//! Roles of commands in a row, that is, in a pipeline with `+`.

use super::args::StreamArgs;
use super::ends::{From, To};
use super::flow::Make;
use pipe::Stage;

/// Role of a command in a row.
pub(super) enum Step {
    /// Source of frames.
    First(From),
    /// Stage, and the flags of its command.
    Stage(Box<dyn Stage>, StreamArgs),
    /// Function that creates the stage when the row starts, and the flags of its command.
    Make(Make, StreamArgs),
    /// Command that only converts formats, and its flags. Frames pass unchanged.
    Pass(StreamArgs),
    /// Sink of frames.
    Last(To, StreamArgs),
}
