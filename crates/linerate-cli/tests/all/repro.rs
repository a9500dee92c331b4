//! `linerate repro` rtems2014 and bridge2004 in their shortest form. Every row must be present, or
//! have the reason why it is not. The tests run one after the other, since they are pinned to the
//! same core.

use crate::common::{linerate, run};
use serde_json::Value;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Returns a lock that excludes the other tests of this module.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const VARIANTS: [&str; 14] = [
    "a",
    "b",
    "c",
    "freelist",
    "simd",
    "offload",
    "up",
    "up.freelist",
    "vdso",
    "undivided",
    "bursts",
    "bursts.b",
    "bursts.c",
    "all",
];

#[test]
fn rtems2014_has_its_rows_its_shares_and_the_reports_figures() {
    let _alone = alone();
    let svg = std::env::temp_dir().join(format!("linerate-repro-{}.svg", std::process::id()));
    let file = svg.display().to_string();
    let words = ["repro", "rtems2014", "--quick", "--rounds", "1", "--json", "--svg", &file];
    let output = run(&mut linerate(&words));
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
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
    assert!(profile.iter().any(|line| line.as_str().unwrap().starts_with("inet::")), "{profile:#?}");
}

/// The rungs of the ladder in their order.
const RUNGS: [&str; 10] = [
    "first",
    "t1.rx_tail",
    "t2.tx_tail",
    "t3.rs",
    "t4.cache",
    "t5.stack",
    "t6.late",
    "t7.ring",
    "t9.pages",
    "t10.prefetch",
];
const BESIDE: [&str; 3] = ["t8.polled_1", "t8.intr", "t8.itr"];
const T11: [&str; 2] = ["t11.bus133", "t11.hw_prefetch"];

/// Returns the rungs that can run on this machine. 2 MiB pages may be missing, with the reason in
/// the row.
fn rungs(rows: &[Value]) -> Vec<&'static str> {
    let row = |id: &str| rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("no {id}"));
    let has = |rung: &&str| match row(&format!("p2.{rung}"))["missing"].as_str() {
        Some(why) => {
            assert_eq!(*rung, "t9.pages", "{why}");
            println!("skipped: {rung}: {why}");
            false
        }
        None => true,
    };
    RUNGS.into_iter().filter(has).collect()
}

#[test]
fn bridge2004_has_every_rung_with_two_ports_and_four() {
    let _alone = alone();
    let svg = std::env::temp_dir().join(format!("linerate-bridge-{}.svg", std::process::id()));
    let file = svg.display().to_string();
    let output = run(&mut linerate(&["repro", "bridge2004", "--quick", "--rounds", "1", "--json", "--svg", &file]));
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    let drawn = std::fs::read_to_string(&svg).unwrap();
    std::fs::remove_file(&svg).unwrap();
    assert!(drawn.contains("4 ports: T7 receive rings of 2048") && drawn.trim_end().ends_with("</svg>"));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let row = |id: &str| rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("no {id}"));
    let sheet = |title: &str| {
        let sheets = report["beside"]["sheets"].as_array().unwrap();
        let has = |sheet: &&Value| sheet["title"].as_str().unwrap().starts_with(title);
        sheets.iter().find(has).unwrap_or_else(|| panic!("no {title}"))
    };
    let rungs = rungs(rows);
    for (ports, then, rates) in [("2", 2333.0, [Some(600.0), Some(700.0)]), ("4", 1750.0, [Some(400.0), None])] {
        for rung in rungs.iter().chain(&BESIDE) {
            let id = format!("p{ports}.{rung}");
            assert!(row(&id)["now"]["median"].as_f64() > Some(0.0), "{}", row(&id));
            assert_eq!(row(&id)["vs_previous"].is_null(), *rung == "first");
        }
        for rung in rungs[1..].iter().chain(&BESIDE) {
            assert!(row(&format!("p{ports}.alone.{rung}"))["vs_previous"].is_object());
        }
        assert_eq!(row(&format!("p{ports}.t10.prefetch"))["then"]["median"], then);
        // Rows with `bus_pace` are every rung, T11, and the report's figures for T11.
        for rung in rungs.iter().chain(&T11) {
            let row = row(&format!("p{ports}.bus.{rung}"));
            assert!(row["now"]["median"].as_f64() > Some(0.0) && row["now"]["unit"] == "kframe/s a port", "{row}");
            assert_eq!(row["vs_previous"].is_null(), *rung == "first");
        }
        for (rung, rate) in ["t10.prefetch", "t11.hw_prefetch"].into_iter().zip(rates) {
            assert_eq!(row(&format!("p{ports}.bus.{rung}"))["then"]["median"].as_f64(), rate);
        }
        for rung in T11 {
            assert!(row(&format!("p{ports}.bus.alone.{rung}"))["vs_previous"].is_object());
        }
        let costs = sheet(&format!("{ports} ports, dma=cold"));
        let place = |column: &str| costs["head"].as_array().unwrap().iter().position(|head| head == column).unwrap();
        let line = |rung: &str| {
            let lines = costs["rows"].as_array().unwrap();
            lines.iter().find(|line| line[0] == rung).unwrap_or_else(|| panic!("no {rung}"))
        };
        let number = |rung: &str, column: &str| line(rung)[place(column)].as_f64().unwrap();
        let doorbells = ["first", "t1.rx_tail", "t2.tx_tail"].map(|rung| number(rung, "doorbells"));
        assert_eq!(doorbells, [2.0, 1.015625, 0.03125]);
        assert_eq!(number("first", "write-backs"), 1.25);
        let touched = ["t3.rs", "t4.cache", "t5.stack"]
            .map(|rung| ["headers written", "links read", "from stack"].map(|column| number(rung, column)));
        assert_eq!(touched, [[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]);
        let allows = ["t10.prefetch", T11[0], T11[1]].map(|rung| number(rung, "bus allows Mframe/s"));
        assert!(allows[1] > 1.3 * allows[0] && allows[2] > allows[1], "T10, T11's bus, T11: {allows:?}");
        // Each port misses 1200 frames minus its 255 descriptors. If the card is notified of 64
        // descriptors at a time, it misses 31 more on average.
        let missed = ["first", "t6.late", "t7.ring"]
            .map(|rung| line(rung)[place("missed in 2 ms")].as_str().unwrap().to_owned());
        let expected = if ports == "2" {
            ["1890 of 2400", "1952 of 2400", "0 of 2400"]
        } else {
            ["3780 of 4800", "3904 of 4800", "0 of 4800"]
        };
        assert_eq!(missed, expected);
        let series = sheet(&format!("{ports} ports: ticks of a frame by cause"));
        assert_eq!(series["rows"].as_array().unwrap().len(), rungs.len());
        let notes = report["notes"].as_array().unwrap();
        let says = |text: &str| notes.iter().any(|note| note.as_str().unwrap().contains(text));
        for text in ["of the processor's time", "with waits for the bus of 2004", "T11, thousand frames"] {
            assert!(says(text), "{text}: {notes:#?}");
        }
    }
    assert_eq!(sheet("then and now")["rows"].as_array().unwrap().len(), 2);
    let cores = std::thread::available_parallelism().unwrap().get();
    for ports in ["2", "4"] {
        let two = sheet(&format!("{ports} ports: one loop on one core, two loops on two"));
        assert_eq!(two["rows"].as_array().unwrap().len(), rungs.len());
        for (at, rung) in rungs.iter().enumerate() {
            let row = row(&format!("p{ports}.two.{rung}"));
            if cores < 2 {
                assert!(row["missing"].as_str().unwrap().contains("two loops need two cores"), "{row}");
                continue;
            }
            assert!(row["now"]["median"].as_f64() > Some(0.0) && row["vs_previous"]["verdict"].is_string(), "{row}");
            assert_eq!(row["now"]["unit"], "Mframe/s");
            let place = |column: &str| two["head"].as_array().unwrap().iter().position(|head| head == column).unwrap();
            let cell = |column: &str| &two["rows"][at][place(column)];
            // Half of what a single loop for all ports misses, since the other loop continues.
            let missed = [["945 of 2400", "976 of 2400"], ["1890 of 4800", "1952 of 4800"]][usize::from(ports == "4")];
            let missed = [missed[0], missed[1], &format!("0 of {}", if ports == "4" { 4800 } else { 2400 })];
            let large = at >= rungs.iter().position(|rung| *rung == "t7.ring").unwrap();
            let expected = missed[if large { 2 } else { at.min(1) }];
            assert_eq!(cell("missed in 2 ms by one of two"), expected, "{rung}");
            assert_eq!(cell("alone, two loops"), "-", "left out with --quick");
        }
    }
}

#[test]
fn dma_is_of_bridge2004_only() {
    let output = run(&mut linerate(&["repro", "rump2014", "--dma", "copy"]));
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("only supported by bridge2004"));
}
