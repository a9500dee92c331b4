//! `reload`, `commit-confirmed`, `commit`, `write` and `show running-config`: the configuration of
//! a running host and its file.

use super::context::{Ctl, DONE, HostForm};
use clock::Duration;
use grammar::{CommandError, Form};
use lock::Locks;
use node::reload::{Change, Plan, ReloadError};
use serde_json::{Value, json};
use std::marker::PhantomData;
use std::path::Path;

/// Maximum time of `commit-confirmed`.
const CONFIRM_MAX: Duration = Duration::from_secs(86_400);

/// Syntax forms of `reload`.
pub(super) struct ReloadForms<L>(PhantomData<L>);

impl<L: Locks> ReloadForms<L> {
    pub(super) const ALL: &[HostForm<L>] = &[Form {
        grammar: "[--dry-run]",
        about: "Change the host to its file, all or nothing; --dry-run only shows the changes.",
        run: |ctl, args| {
            if args.has("--dry-run") {
                return planned(ctl);
            }
            ctl.host.reload(ctl.pairs).map(|changes| changes_made(ctl, &changes)).map_err(failed)
        },
    }];
}

/// Syntax forms of `commit-confirmed`.
pub(super) struct ConfirmForms<L>(PhantomData<L>);

impl<L: Locks> ConfirmForms<L> {
    pub(super) const ALL: &[HostForm<L>] = &[Form {
        grammar: "TIME",
        about: "Reload the file, and go back after TIME (60s, 10m) unless 'commit' confirms it.",
        run: |ctl, args| {
            let time = time(args.text("TIME"))?;
            ctl.host.commit_confirmed(ctl.pairs, time).map(|changes| changes_made(ctl, &changes)).map_err(failed)
        },
    }];
}

/// Syntax forms of `write`.
pub(super) struct WriteForms<L>(PhantomData<L>);

impl<L: Locks> WriteForms<L> {
    pub(super) const ALL: &[HostForm<L>] = &[Form {
        grammar: "[FILE]",
        about: "Save the running configuration to the host's file (the old one gets .1), or to FILE.",
        run: |ctl, args| {
            let path = args.get("FILE").map(Path::new);
            if let Some(path) = path.filter(|path| path.is_relative()) {
                return Err(CommandError::bad("file", &path.display().to_string(), "an absolute path"));
            }
            let (path, other) = ctl.host.save(path).map_err(failed)?;
            let path = path.display().to_string();
            Ok(ctl.listing(
                || json!({ "file": path, "omitted": other }),
                || {
                    let note = |other: &String| format!("not saved, since a file has no keys for it: {other}\n");
                    let before = match args.get("FILE") {
                        None => format!(" without comments; the file before it is {path}.1"),
                        Some(_) => String::new(),
                    };
                    format!("saved {path}{before}\n") + &other.iter().map(note).collect::<String>()
                },
            ))
        },
    }];
}

/// Confirms the configuration of `commit-confirmed`.
pub(super) fn commit<L: Locks>(ctl: &Ctl<'_, L>) -> Result<String, CommandError> {
    ctl.host.commit().map_err(failed)?;
    DONE
}

/// Shows the running configuration: as the text of a file, or as a JSON string with that text.
pub(super) fn running<L: Locks>(ctl: &Ctl<'_, L>) -> String {
    let text = ctl.host.running_toml();
    ctl.listing(|| json!({ "toml": text }), || text.clone())
}

fn planned<L: Locks>(ctl: &Ctl<'_, L>) -> Result<String, CommandError> {
    let Plan { changes, restart } = ctl.host.planned_reload().map_err(failed)?;
    if !restart.is_empty() {
        return Err(failed(ReloadError::Restart(restart)));
    }
    Ok(changes_made(ctl, &changes))
}

fn changes_made<L: Locks>(ctl: &Ctl<'_, L>, changes: &[Change]) -> String {
    let lines: Vec<String> = changes.iter().map(Change::to_string).collect();
    ctl.listing(
        || Value::Array(lines.iter().map(|line| json!({ "change": line })).collect()),
        || match lines.is_empty() {
            true => "nothing to change\n".to_string(),
            false => lines.iter().map(|line| format!("{line}\n")).collect(),
        },
    )
}

fn failed(why: ReloadError) -> CommandError {
    CommandError::failed(why)
}

fn time(word: &str) -> Result<Duration, CommandError> {
    let expected = || CommandError::bad("time", word, "1s to 86400s, as in 60s, 10m or 1h");
    let number = word.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match word.strip_prefix(number).unwrap_or_default() {
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        _ => return Err(expected()),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).ok_or_else(expected)?;
    let time = Duration::from_secs(seconds);
    if time.is_zero() || time > CONFIRM_MAX { Err(expected()) } else { Ok(time) }
}
