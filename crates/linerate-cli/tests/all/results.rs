//! `linerate report` and `linerate gate`, with results that the program has measured itself.

use crate::common::{Dir, linerate, printed as reported, run as ended};
use std::fs;
use std::sync::OnceLock;

fn printed(words: &[&str]) -> (String, String, Option<i32>) {
    let (code, out, err) = reported(&ended(&mut linerate(words)));
    (out, err, code)
}

/// Returns the JSON of a run: the environment of a real run, with rows of `bench bridge`.
fn kept() -> String {
    static KEPT: OnceLock<String> = OnceLock::new();
    let make = || {
        let (out, err, code) = printed(&["ab", "--a", "true", "--b", "true", "--rounds", "1", "--json", "--", "{}"]);
        assert_eq!(code, Some(0), "{err}");
        let mut run: serde_json::Value = serde_json::from_str(&out).unwrap();
        run["name"] = "bench bridge".into();
        run["env"]["cpu"] = "AMD EPYC".into();
        // The environment is that of a release build on a machine without warnings, since another
        // test may measure at the same time.
        run["env"].as_object_mut().unwrap().remove("measured_beside");
        (run["env"]["tsc_invariant"], run["env"]["governor"]) = (true.into(), "n/a".into());
        (run["env"]["build"]["debug_assertions"], run["env"]["build"]["opt_level"]) = (false.into(), "3".into());
        run["noise_floor"] = serde_json::json!({"ratio": 1.0, "lo": 0.99, "hi": 1.01, "n": 30});
        let figure = |median: f64| serde_json::json!({"median": median, "lo": median * 0.99, "hi": median * 1.01, "n": 30, "unit": "ticks/op"});
        let row = |id: &str, median: f64| serde_json::json!({"id": id, "title": id, "then": null, "now": figure(median), "vs_previous": null});
        run["rows"] = serde_json::json!([row("bridge.1k.burst32", 27.0), row("xdp.forward", 2600.0)]);
        run["peers"] = serde_json::json!([{"id": "kernel.xdp.forward", "row": "xdp.forward", "now": figure(2100.0),
            "ratio": {"median": 0.8, "lo": 0.8, "hi": 0.8, "n": 12}}]);
        run["beside"] = serde_json::Value::Null;
        run.to_string()
    };
    KEPT.get_or_init(make).clone()
}

/// Returns the JSON of a run on a machine without warnings, whose first row costs `times` as much.
fn run(times: f64) -> String {
    let mut run: serde_json::Value = serde_json::from_str(&kept()).unwrap();
    run["env"]["load"] = serde_json::json!([0.0, 0.0, 0.0]);
    run["noise_floor"]["lo"] = 0.99.into();
    run["noise_floor"]["hi"] = 1.01.into();
    let rows = run["rows"].as_array_mut().unwrap();
    rows.truncate(1);
    for end in ["median", "lo", "hi"] {
        rows[0]["now"][end] = (rows[0]["now"][end].as_f64().unwrap() * times).into();
    }
    run["peers"] = serde_json::json!([]);
    run.to_string()
}

/// A file that cannot be shown is omitted. Its name is reported, the exit code is 1, and the page
/// has the other files.
#[test]
fn a_broken_result_is_an_error_and_the_others_are_shown() {
    let dir = Dir::new("page-broken");
    fs::write(dir.path("a.txt"), "a\n").unwrap();
    fs::write(dir.path("b.json"), "{\"rows\": [").unwrap();
    for to in [&["-o", "-"][..], &[]] {
        let (_, err, code) = printed(&[&["report", &dir.path("")], to].concat());
        assert!(err.contains("b.json: skipped: the file is truncated: EOF while parsing") && code == Some(1), "{err}");
    }
    assert!(fs::read_to_string(dir.path("index.html")).unwrap().contains("a.txt"));
}

/// A file that cannot be parsed is omitted. The message has the file, the reason and the position,
/// and the exit code is that of a failure.
#[test]
fn a_result_that_is_no_json_is_named_with_its_place() {
    let whole: serde_json::Value = serde_json::from_str(&kept()).unwrap();
    let whole = serde_json::to_string_pretty(&whole).unwrap();
    // The file is truncated in the middle of a key, as by a full disk.
    let cut = whole.find("\"noise_floor\"").unwrap() + 6;
    let head = &whole[..cut];
    let (line, column) = (head.lines().count(), head.lines().last().unwrap().len());
    let cut_short =
        format!("the file is truncated: EOF while parsing a string at line {line} column {column}: measure again");
    let damaged = whole.replacen("\"rows\":", "\"rows\";", 1);
    let before = &damaged[..damaged.find("\"rows\";").unwrap() + 7];
    let (line, column) = (before.lines().count(), before.lines().last().unwrap().len());
    let broken = format!("expected `:` at line {line} column {column}");
    for (name, content, why) in [
        ("cut.json", head, cut_short.as_str()),
        ("broken.json", &damaged, &broken),
        ("empty.json", "", "the file is empty: measure again"),
        ("blank.txt", "\n", "the file is empty: measure again"),
        ("cut.svg", "<svg><rect wid", "the file is truncated: it does not end with a tag: measure again"),
        ("two.json", "{}\n{}\n", "trailing characters at line 2 column 1"),
        ("text.json", "cycles: 27\n", "expected value at line 1 column 1"),
    ] {
        let dir = Dir::new(&format!("no-json-{}", name.replace('.', "-")));
        let at = dir.path("");
        fs::write(dir.path(name), content).unwrap();
        let (out, err, code) = printed(&["report", &at]);
        let nothing = format!("linerate: {at}: no results found (.json, .svg, .txt)\n");
        assert_eq!(err, format!("linerate: {name}: skipped: {why}\n{nothing}"));
        assert_eq!((out.as_str(), code), ("", Some(2)), "nothing to show");
        assert!(fs::metadata(dir.path("index.html")).is_err(), "no page");
        // With another result that can be parsed, the page has that one, and the exit code is that
        // of a failure.
        fs::write(dir.path("whole.json"), &whole).unwrap();
        let (out, err, code) = printed(&["report", &at]);
        assert_eq!((out.as_str(), code), ("", Some(1)));
        assert!(err.starts_with(&format!("linerate: {name}: skipped: {why}\n")), "{err}");
        assert!(err.ends_with("index.html: 1 results\n"), "{err}");
        let html = fs::read_to_string(dir.path("index.html")).unwrap();
        assert!(html.contains("bridge.1k.burst32") && !html.contains(name), "{name}");
    }
}

/// JSON of another version or of another program is shown unchanged, without a table or a chart. A
/// result of another version is reported, and the exit code is that of a failure. `gate` reports
/// the version that it reads.
#[test]
fn json_that_is_no_result_of_this_version_is_shown_as_text() {
    let result: serde_json::Value = serde_json::from_str(&kept()).unwrap();
    let changed = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut other = result.clone();
        change(&mut other);
        other.to_string()
    };
    let reads = |version: &str| format!("report has version {version}, this program reads version 2: measure again");
    for (name, content, why) in [
        ("later.json", changed(&|of| of["version"] = 3.into()), reads("3")),
        ("text.json", changed(&|of| of["version"] = "2".into()), reads("unknown")),
        ("first.json", changed(&|of| _ = of.as_object_mut().unwrap().remove("version")), reads("1")),
        (
            "lacking.json",
            changed(&|of| _ = of.as_object_mut().unwrap().remove("env")),
            "missing field `env`".to_owned(),
        ),
        ("other.json", "{\"a\": [1, 2]}".to_owned(), "not a report: no 'rows'".to_owned()),
        ("list.json", "[1, \"a < b\"]".to_owned(), "not a report: no 'rows'".to_owned()),
    ] {
        let dir = Dir::new(&format!("no-result-{}", name.trim_end_matches(".json")));
        fs::write(dir.path(name), &content).unwrap();
        let (_, err, code) = printed(&["report", &dir.path("")]);
        assert!(err.ends_with("index.html: 1 results\n"), "{name}: {err}");
        let html = fs::read_to_string(dir.path("index.html")).unwrap();
        let is_result = content.contains("\"rows\"");
        assert_eq!(err.starts_with(&format!("linerate: {name}: shown as text: {why}\n")), is_result, "{err}");
        assert_eq!(html.contains("<p class=\"warn\">shown as text: "), is_result, "{html}");
        assert_eq!(code, Some(i32::from(is_result)), "{name}: {err}");
        let escaped = content.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
        assert!(html.contains(&format!("<pre>{escaped}</pre>")) && !html.contains("<table"), "{name}: {html}");
        let (_, err, code) = printed(&["gate", "--baseline", &dir.path(name)]);
        assert_eq!(
            (err, code),
            (format!("linerate: {}: not the JSON result of a run: {why}\n", dir.path(name)), Some(2)),
            "{name}"
        );
    }
}

#[test]
fn results_become_one_page() {
    let dir = Dir::new("page");
    fs::write(dir.path("a.json"), kept()).unwrap();
    fs::write(dir.path("b.txt"), "a < b\n").unwrap();
    fs::write(dir.path("c.svg"), "<svg xmlns=\"http://www.w3.org/2000/svg\"/>").unwrap();
    fs::write(dir.path("d.other"), "left out").unwrap();
    let at = dir.path("");
    let (out, err, code) = printed(&["report", &at, "--title", "what it costs"]);
    assert_eq!((out.as_str(), code), ("", Some(0)), "{err}");
    assert!(err.ends_with("index.html: 3 results\n"), "{err}");
    let html = fs::read_to_string(dir.path("index.html")).unwrap();
    for part in
        ["<title>what it costs</title>", "bridge.1k.burst32", "kernel.xdp.forward", "a &lt; b", "data:image/svg+xml,"]
    {
        assert!(html.contains(part), "{part}");
    }
    assert!(!html.contains("left out") && !html.contains("<script"));
    let (out, _, code) = printed(&["report", &at, "-o", "-"]);
    assert!(out.starts_with("<!DOCTYPE html>") && code == Some(0));
}

/// Results of different machines or revisions are reported on standard error, on the page, and by
/// `gate`, which compares only results of one machine.
#[test]
fn results_of_several_machines_or_revisions_are_named() {
    let dir = Dir::new("several");
    let other = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut other: serde_json::Value = serde_json::from_str(&run(1.0)).unwrap();
        change(&mut other["env"]);
        other.to_string()
    };
    fs::write(dir.path("a.json"), other(&|env| env["build"]["git_rev"] = "aaaaaaa".into())).unwrap();
    let (_, err, code) = printed(&["report", &dir.path("")]);
    assert!(code == Some(0) && !err.contains("the results differ"), "{err}");
    fs::write(dir.path("b.json"), other(&|env| env["build"]["git_rev"] = "bbbbbbb".into())).unwrap();
    let (out, _, code) = printed(&["gate", "--baseline", &dir.path("a.json"), &dir.path("b.json")]);
    assert!(out.contains("\nnote: revision differs: bbbbbbb; baseline: aaaaaaa\n"), "{out}");
    assert_eq!(code, Some(0), "{out}");
    let changed = |env: &mut serde_json::Value| {
        env["build"]["git_rev"] = "bbbbbbb".into();
        env["cpu"] = "Another CPU".into();
    };
    fs::write(dir.path("c.json"), other(&changed)).unwrap();
    let (_, err, code) = printed(&["report", &dir.path("")]);
    assert_eq!(code, Some(0), "{err}");
    let revisions = "the results differ in revision: aaaaaaa (a.json); bbbbbbb (b.json, c.json)";
    assert!(err.contains(&format!("linerate: {revisions}\n")), "{err}");
    assert!(err.contains("linerate: the results differ in machine: AMD EPYC, "), "{err}");
    let html = fs::read_to_string(dir.path("index.html")).unwrap();
    assert!(html.contains(&format!("<p class=\"warn\">{revisions}</p>")), "{html}");
    let (out, _, code) = printed(&["gate", "--baseline", &dir.path("a.json"), &dir.path("c.json")]);
    assert!(out.contains("unfit: cpu differs: Another CPU") && code == Some(3), "{out}");
    // The result is of another measurement, so no row is compared.
    let (name, now) = (dir.path("d.json"), dir.path("a.json"));
    fs::write(&name, run(1.0).replace("bench bridge", "bench udp")).unwrap();
    let (out, err, code) = printed(&["gate", "--baseline", &now, &name]);
    let why = "run of 'bench udp', but the baseline is of 'bench bridge': give a run of 'bench bridge'";
    let why = format!("linerate: {name}: {why}\n");
    assert_eq!((out.as_str(), err, code), ("", why, Some(2)));
}

#[test]
fn a_directory_without_results_is_an_error() {
    let dir = Dir::new("empty");
    let at = dir.path("");
    let (_, err, code) = printed(&["report", &at]);
    assert_eq!(
        (err.as_str(), code),
        (format!("linerate: {at}: no results found (.json, .svg, .txt)\n").as_str(), Some(2))
    );
    let (_, err, code) = printed(&["report", "/nonexistent"]);
    assert_eq!((err.as_str(), code), ("linerate: /nonexistent: No such file or directory (os error 2)\n", Some(1)));
    fs::write(dir.path("a.txt"), [0xff, 0xfe]).unwrap();
    let (_, err, code) = printed(&["report", &at]);
    assert!(err.contains("a.txt: skipped: ") && code == Some(2), "{err}");
}

#[test]
fn a_gate_returns_its_result_as_exit_code() {
    let dir = Dir::new("gate");
    let files: Vec<String> = [1.0, 1.5, 1.05]
        .iter()
        .enumerate()
        .map(|(at, times)| {
            let file = dir.path(&format!("{at}.json"));
            fs::write(&file, run(*times)).unwrap();
            file
        })
        .collect();
    let gate = |now: &[&str], more: &[&str]| {
        let words = [&["gate", "--baseline", &files[0]][..], now, more].concat();
        let (out, err, code) = printed(&words);
        assert_eq!(err, "");
        (out.lines().last().unwrap_or_default().to_owned(), code)
    };
    assert_eq!(gate(&[&files[0]], &[]), ("fine: no row is more than 5 % slower".to_owned(), Some(0)));
    let regression = "regression: more than 5 % slower: bridge.1k.burst32";
    assert_eq!(gate(&[&files[1], &files[1]], &[]), (regression.to_owned(), Some(1)), "slow each time");
    let (alone, code) = gate(&[&files[1]], &[]);
    assert!(alone.contains("slower, in one run only: bridge.1k.burst32") && code == Some(2), "{alone} {code:?}");
    assert_eq!(gate(&[&files[1], &files[0]], &[]).1, Some(0), "slow once");
    assert_eq!(gate(&[&files[2]], &[]).1, Some(2));
    assert_eq!(gate(&[&files[1]], &["--tolerance", "80"]).1, Some(0));
    let (out, _, code) = printed(&["gate", "--baseline", &files[0], &files[1], &files[1], "--json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (json["outcome"].as_str(), json["rows"][0]["says"].as_str(), code),
        (Some("regression"), Some("slower"), Some(1))
    );
    let other = run(1.0).replace("\"AMD EPYC\"", "\"another\"");
    fs::write(dir.path("other.json"), other).unwrap();
    let (out, _, code) = printed(&["gate", "--baseline", &files[0], &dir.path("other.json")]);
    assert!(out.contains("unfit: cpu differs: another; baseline: AMD EPYC\n") && code == Some(3), "{out}");
}

#[test]
fn files_without_a_run_are_rejected() {
    let dir = Dir::new("bad");
    fs::write(dir.path("bad.json"), "{}").unwrap();
    let (_, err, code) = printed(&["gate", "--baseline", &dir.path("nowhere.json")]);
    assert!(err.contains("nowhere.json: No such file") && code == Some(2), "1 is for a run that got slower: {err}");
    let (_, err, code) = printed(&["gate", "--baseline", &dir.path("bad.json")]);
    assert!(
        err.contains("bad.json: not the JSON result of a run: not a report: no 'rows'") && code == Some(2),
        "{err}"
    );
    fs::write(dir.path("name.json"), run(1.0).replace("bench bridge", "repro x")).unwrap();
    let (_, err, code) = printed(&["gate", "--baseline", &dir.path("name.json")]);
    assert!(
        err.contains("the baseline is of 'repro x', which gate cannot run: give the JSON result of a run")
            && code == Some(2),
        "{err}"
    );
    for wrong in ["0", "-1", "nan"] {
        let (_, err, code) = printed(&["gate", "--baseline", &dir.path("name.json"), &format!("--tolerance={wrong}")]);
        assert!(err.contains("--tolerance") && code == Some(2), "{err}");
    }
}

#[test]
fn a_baseline_runs_again_here() {
    let dir = Dir::new("live");
    fs::write(dir.path("other.json"), run(1.0).replace("bench bridge", "bench dispatch")).unwrap();
    let (out, err, code) = printed(&["gate", "--baseline", &dir.path("other.json"), "--quick", "--rounds", "6"]);
    // An unoptimized build on a busy machine yields no verdict, which is reported. One row is not
    // part of this group.
    assert!(out.contains("bridge.1k.burst32") && out.contains("gone") && out.contains("queued.overhead"), "{out}{err}");
    assert!(matches!(code, Some(2 | 3)), "{out}{err}");
}
