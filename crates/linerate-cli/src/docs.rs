//! Generates completions and manual pages from the declarations in `args`.

use crate::args::Cli;
use crate::exit::{Exit, print};
use anyhow::Context;
use clap::CommandFactory;
use std::path::Path;

/// Prints completions for `shell`.
pub fn completions(shell: clap_complete::Shell) -> anyhow::Result<Exit> {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "linerate", &mut out);
    print(&String::from_utf8_lossy(&out)).map(|()| Exit::Fine)
}

/// Prints the keys of topology files in Markdown.
pub fn keys() -> anyhow::Result<Exit> {
    print(&node::config::page::markdown()).map(|()| Exit::Fine)
}

/// Writes a manual page for the program, one for each command, and one for the keys of topology
/// files.
pub fn man(dir: &Path) -> anyhow::Result<Exit> {
    std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    clap_mangen::generate_to(Cli::command(), dir).with_context(|| dir.display().to_string())?;
    let keys = dir.join("linerate-keys.5");
    std::fs::write(&keys, node::config::page::roff()).with_context(|| keys.display().to_string())?;
    Ok(Exit::Fine)
}
