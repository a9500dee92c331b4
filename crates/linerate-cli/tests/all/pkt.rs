//! `linerate pkt`: the program runs packetdrill scripts with each IP version.

use crate::common::{linerate, printed, refused, run};
use std::path::Path;

const BOTH: &str = "../pkt/scripts/established/frag_needed.pkt";
const FOUR: &str = "../pkt/scripts/established/source_quench_is_ignored.pkt";
const SIX: &str = "../pkt/scripts/pmtu/floor_v6.pkt";

/// Returns the exit code and the lines of the command, without the times at their ends.
fn played(words: &[&str]) -> (Option<i32>, Vec<String>) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = linerate(&["pkt"]);
    command.args(words).current_dir(root);
    let (code, out, _) = printed(&run(&mut command));
    (code, out.lines().map(|line| line.split(": ").next().unwrap_or(line).to_owned()).collect())
}

#[test]
fn each_ip_version_of_a_script_is_run() {
    let (code, lines) = played(&["--ip-version", "each", BOTH, FOUR, SIX]);
    let expected = [
        format!("ok    {BOTH} (ipv4)"),
        format!("ok    {BOTH} (ipv4-mapped-ipv6)"),
        format!("ok    {BOTH} (ipv6)"),
        format!("ok    {FOUR} (ipv4)"),
        format!("ok    {FOUR} (ipv4-mapped-ipv6)"),
        format!("ok    {SIX} (ipv6)"),
        "6 of 6 scripts passed".to_owned(),
    ];
    assert_eq!((code, lines), (Some(0), expected.to_vec()));
}

/// The version on the command line overrides those of the scripts, as in packetdrill.
#[test]
fn a_version_for_all_scripts() {
    let (code, lines) = played(&[BOTH, SIX]);
    assert_eq!(
        (code, lines),
        (Some(0), vec![format!("ok    {BOTH}"), format!("ok    {SIX}"), "2 of 2 scripts passed".into()])
    );
    let (code, lines) = played(&["--quiet", "--ip-version", "ipv6", BOTH, FOUR]);
    assert_eq!(code, Some(1));
    assert!(
        lines[0].starts_with(&format!("FAIL  {FOUR}:16 (ipv6)")) && lines[1] == "1 of 2 scripts passed",
        "{lines:?}"
    );
}

#[test]
fn invalid_ip_versions_are_rejected() {
    refused(
        "pkt --ip-version ipv5 x.pkt",
        2,
        "unknown IP version 'ipv5': expected ipv4, ipv4-mapped-ipv6 or ipv6, or each",
    );
    refused("pkt --ip-version each --restate-counters x.pkt", 2, "cannot be used with --ip-version each");
}

/// An error that concerns the whole file has no line number.
#[test]
fn a_missing_script_is_named_without_a_line() {
    let (code, lines) = played(&["no/such.pkt"]);
    assert_eq!((code, &lines[0][..]), (Some(1), "wrong no/such.pkt"));
}
