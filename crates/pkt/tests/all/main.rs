//! The scripts in `scripts/`, and the requirements that they show.

mod requirements;
mod scripts;
