//! `linerate profile`: destinations of the outputs, and the unchanged results of the profiled
//! command.

use std::process::{Command, Output};

fn profile(options: &[&str], command: &[&str]) -> Output {
    let mut linerate = Command::new(env!("CARGO_BIN_EXE_linerate"));
    linerate.arg("profile").args(options).arg("--").args(command).output().unwrap()
}

const SEND: [&str; 4] = ["testtool", "-c", "1000000", "send"];

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_commands_block_comes_first_and_the_tables_after_it() {
    let run = profile(&["--ledger"], &SEND);
    let (out, err) = (text(&run.stdout), text(&run.stderr));
    // Standard error has only the environment of the command.
    assert!(run.status.success() && err.starts_with("\ncpu     ") && !err.contains("linerate: "), "{err}");
    let parts = [
        "aggregate source count: 1000000\n",
        "profile of: testtool -c 1000000 send\n",
        "       perf disabled   coverage: ",
        "name________",
        "bucket______",
        "\nunresolved ",
        "ledger______",
        "inet.udp.output ",
    ];
    let places: Vec<_> =
        parts.iter().map(|part| out.find(part).unwrap_or_else(|| panic!("{part} in\n{out}"))).collect();
    assert!(places.is_sorted(), "{places:?}\n{out}");
    let bucket = |name: &str| out.lines().any(|line| line.starts_with(&format!("{name} ")) && line.contains("%|"));
    // A loaded machine leaves a few hundred samples, among which a small bucket may have none.
    let has_few = out.contains("WARNING: only ");
    let small = ["allocation"].iter().filter(|_| !has_few);
    assert!(["application", "UDP", "time"].iter().chain(small).all(|name| bucket(name)), "{out}");
}

#[test]
fn json_and_folded_are_alone_on_standard_output() {
    let run = profile(&["--json"], &SEND);
    let json: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert!(text(&run.stderr).contains("aggregate source count: 1000000"));
    assert_eq!(json["command"], "testtool -c 1000000 send");
    assert!(json["coverage"].as_u64().unwrap() > 90_000, "{json:#}");
    assert_eq!(json["threads"][0]["name"], "main");
    let run = profile(&["--folded"], &SEND);
    let lines = text(&run.stdout);
    assert!(lines.lines().all(|line| line.starts_with("main;") && !line.contains("aggregate")), "{lines}");
    assert!(lines.contains("programs::testtool::send::run"), "callers are walked: {lines}");
}

#[test]
fn a_difference_is_drawn_and_listed() {
    let dir = std::env::temp_dir().join(format!("linerate-profile-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (before, svg) = (dir.join("before.folded"), dir.join("change.svg"));
    std::fs::write(&before, profile(&["--folded"], &SEND).stdout).unwrap();
    let without = ["testtool", "-c", "1000000", "--set", "net.inet.udp.checksum=0", "send"];
    let run = profile(&["--diff", before.to_str().unwrap(), "--svg", svg.to_str().unwrap()], &without);
    let (out, drawn) = (text(&run.stdout), std::fs::read_to_string(&svg).unwrap());
    std::fs::remove_dir_all(&dir).unwrap();
    assert!(out.contains("|before__|after___|change__|\n"), "{out}");
    assert!(drawn.contains("compared with before") && drawn.trim_end().ends_with("</svg>"));
}

#[test]
fn the_commands_exit_code_and_error_are_kept() {
    let run = profile(&[], &["audit", "--url", "/nonexistent/socket"]);
    assert_eq!(run.status.code(), Some(3));
    assert!(text(&run.stderr).contains("/nonexistent/socket"));
    assert!(text(&run.stdout).contains("profile of: audit"), "what failed is profiled too");
}

#[test]
fn a_hosts_flags_are_its_own() {
    let run = profile(&["--json"], &["host", "--port", "tap:tap0", "--addr", "10.0.0.2"]);
    assert_eq!(run.status.code(), Some(2));
    assert!(text(&run.stderr).contains("10.0.0.2: expected auto, dhcp, or an address with its prefix length"));
}

/// Splits the program as `cargo xtask dist` does, and profiles it with and without the file of its
/// symbols.
#[test]
fn a_stripped_program_reads_its_symbols_from_a_separate_file() {
    if Command::new("objcopy").arg("--version").output().is_err() {
        return println!("skipped: separate symbols: no objcopy here");
    }
    let dir = std::env::temp_dir().join(format!("linerate-split-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let (program, debug) = (dir.join("linerate"), dir.join("linerate.debug"));
    let objcopy = |options: &[&str], output: &std::path::Path| {
        let mut objcopy = Command::new("objcopy");
        let status = objcopy.args(options).arg(env!("CARGO_BIN_EXE_linerate")).arg(output).status();
        assert!(status.unwrap().success(), "{options:?}");
    };
    objcopy(&["--only-keep-debug"], &debug);
    objcopy(&["--strip-all"], &program);
    let functions = || {
        let run = Command::new(&program).args(["profile", "--folded", "--"]).args(SEND).output().unwrap();
        assert!(run.status.success(), "{}", text(&run.stderr));
        text(&run.stdout)
    };
    let with = functions();
    assert!(with.contains("programs::testtool::send::run"), "{with}");
    // The file of another build is not used.
    std::fs::copy(std::env::current_exe().unwrap(), &debug).unwrap();
    let without = functions();
    assert!(without.contains("linerate+0x") && !without.contains("testtool::send"), "{without}");
    std::fs::remove_dir_all(dir).unwrap();
}
