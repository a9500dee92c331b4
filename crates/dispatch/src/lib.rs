//! When and where work runs: pinned workers.
