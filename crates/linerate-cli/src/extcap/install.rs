//! Installs a link to this program in Wireshark's extcap directory.

use crate::exit::{Exit, Fault, print};
use anyhow::Context;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Creates a symbolic link to this program in `dir`, or without `dir` in the user's own extcap
/// directory.
pub fn link(dir: Option<&Path>) -> anyhow::Result<Exit> {
    let dir = dir.map_or_else(own_folder, |dir| Ok(dir.to_path_buf()))?;
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    let link = dir.join("linerate");
    match fs::symlink_metadata(&link) {
        Ok(there) if !there.is_symlink() => {
            return Err(anyhow::anyhow!("{}: exists and is not a symbolic link: remove it first", link.display()));
        }
        Ok(_) => fs::remove_file(&link).with_context(|| link.display().to_string())?,
        Err(_) => {}
    }
    std::os::unix::fs::symlink(&program, &link).with_context(|| link.display().to_string())?;
    print(&format!("{} -> {}\n", link.display(), program.display())).map(|()| Exit::Fine)
}

/// Returns the user's extcap directory as `tshark -G folders` reports it, since it differs between
/// versions of Wireshark.
fn own_folder() -> anyhow::Result<PathBuf> {
    let ask =
        |program| Command::new(program).args(["-G", "folders"]).output().ok().filter(|said| said.status.success());
    let said = ask("tshark").or_else(|| ask("wireshark"));
    let said =
        said.ok_or_else(|| Fault::usage("--install: cannot run tshark or wireshark to find the folder: give DIR"))?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    folder_in(&said).ok_or_else(|| Fault::usage("--install: no folder in output of 'tshark -G folders': give DIR"))
}

/// Finds the extcap directory in `said`, the output of `tshark -G folders`. Versions up to 4.0
/// report only the configuration directory that contains it.
fn folder_in(said: &str) -> Option<PathBuf> {
    let reported = |what: &str| {
        let mut lines = said.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(name, _)| name.trim().eq_ignore_ascii_case(what)).map(|(_, path)| PathBuf::from(path.trim()))
    };
    reported("Personal Extcap path").or_else(|| Some(reported("Personal configuration")?.join("extcap")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extcap_folder_is_found_in_old_and_new_output() {
        let old = "Temp:                \t/tmp\nPersonal configuration:\t/h/.config/wireshark\nExtcap path:\t/usr/lib/extcap\n";
        assert_eq!(folder_in(old).unwrap(), Path::new("/h/.config/wireshark/extcap"));
        let new =
            "Personal configuration:\t/h/.config/wireshark\nPersonal Extcap path:\t/h/.local/lib/wireshark/extcap\n";
        assert_eq!(folder_in(new).unwrap(), Path::new("/h/.local/lib/wireshark/extcap"));
        assert_eq!(folder_in("Usage: tshark"), None);
    }
}
