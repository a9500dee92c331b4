//! `linerate repro rtems2014`, in its shortest form: every row is there, or says why it is not.

mod common;

use common::{linerate, run};
use serde_json::Value;

const VARIANTS: [&str; 13] = [
    "a",
    "b",
    "c",
    "freelist",
    "simd",
    "offload",
    "up",
    "up.freelist",
    "undivided",
    "bursts",
    "bursts.b",
    "bursts.c",
    "all",
];

#[test]
fn rtems2014_has_its_rows_its_shares_and_the_reports_figures() {
    let svg = std::env::temp_dir().join(format!("linerate-repro-{}.svg", std::process::id()));
    let file = svg.display().to_string();
    let words = ["repro", "rtems2014", "--quick", "--rounds", "1", "--json", "--svg", &file];
    let output = run(&mut linerate(&words));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let drawn = std::fs::read_to_string(&svg).unwrap();
    std::fs::remove_file(&svg).unwrap();
    assert!(drawn.contains("RETR /dev/zero: C, 32 frames at a time") && drawn.trim_end().ends_with("</svg>"));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let row = |id: &str| rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("no {id}"));
    for id in VARIANTS.iter().flat_map(|id| [format!("down.{id}"), format!("up.{id}")]) {
        assert!(row(&id)["now"]["median"].as_f64() > Some(0.0), "{id}: {}", row(&id));
    }
    for (id, then) in [("a", 9101.0), ("b", 8834.0), ("c", 8438.0)] {
        for way in ["down", "curl.down"] {
            assert_eq!(row(&format!("{way}.{id}"))["then"]["median"], then);
        }
    }
    for id in ["curl.down.a", "curl.up.all"] {
        match row(id)["missing"].as_str() {
            Some(why) => println!("skipped: {id}: {why}"),
            None => assert!(row(id)["now"]["median"].as_f64() > Some(0.0), "{}", row(id)),
        }
    }
    let sheet = &report["beside"]["sheets"][0];
    let place = |column: &str| sheet["head"].as_array().unwrap().iter().position(|head| head == column).unwrap();
    let cell = |row: usize, column: &str| &sheet["rows"][row][place(column)];
    assert_eq!((cell(0, "row"), cell(0, "checksum routine")), (&"a".into(), &"generic16".into()));
    assert_eq!(cell(5, "checksum routine"), "left to the port");
    let shares = ["locks", "time", "allocation", "checksum", "copy"].map(|share| cell(0, share).as_f64().unwrap());
    assert!(shares.iter().sum::<f64>() > 10.0 && shares.iter().sum::<f64>() <= 100.0, "{shares:?}");
    let profile = report["beside"]["texts"][0].as_array().unwrap();
    assert!(profile.iter().any(|line| line.as_str().unwrap().starts_with("       perf disabled   coverage: ")));
    assert!(profile.iter().any(|line| line.as_str().unwrap().starts_with("wire::checksum")), "{profile:#?}");
}

#[test]
fn a_profile_of_it_goes_without_its_own() {
    let output = run(&mut linerate(&["profile", "--json", "--", "repro", "rtems2014", "--quick", "--rounds", "1"]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("a: no shares of time: a profile runs already"), "{said}");
    let profile: Value = serde_json::from_slice(&output.stdout).unwrap();
    let buckets: Vec<&str> =
        profile["buckets"].as_array().unwrap().iter().filter_map(|bucket| bucket["name"].as_str()).collect();
    assert!(["checksum", "copy", "locks", "TCP"].iter().all(|bucket| buckets.contains(bucket)), "{buckets:?}");
}
