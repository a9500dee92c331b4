//! Errors of a pipeline.

use crate::stage::StageError;
use crate::{BadInput, BadOutput};
use std::io;

/// Reason why a pipeline ended early.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Error of reading the input.
    #[error(transparent)]
    Input(#[from] BadInput),
    /// Error of a stage.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// Error of writing the output.
    #[error(transparent)]
    Output(#[from] io::Error),
    /// A frame that the output format cannot represent.
    #[error(transparent)]
    Form(#[from] BadOutput),
}

impl RunError {
    /// Returns whether the reader of the output has closed its pipe.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, RunError::Output(error) | RunError::Stage(StageError::Io(error)) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}
