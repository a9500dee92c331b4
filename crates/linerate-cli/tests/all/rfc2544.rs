//! `linerate rfc2544` in its quick form, on our bridge in memory, and rejected arguments. The tests
//! check no figures, which depend on the machine.

use crate::common;
use crate::common::{linerate, refused, run};
use serde_json::Value;

#[test]
fn our_bridge_has_all_tables() {
    let words = ["rfc2544", "--quick", "--size", "64,1518", "--max-rate", "2000", "--duration", "50ms"];
    let output = run(&mut linerate(&words));
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    for part in
        ["throughput (26.1)", "latency (26.2)", "loss rate (26.3)", "back-to-back frames (26.4)", "include the FCS"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part}: {text}"));
    assert!(at("\nkernel  ") < at("\nbuild   ") && at("\nbuild   ") < at("\ndevice: "), "{text}");
}

#[test]
fn json_and_a_chart_of_both_directions() {
    let svg = std::env::temp_dir().join(format!("linerate-rfc2544-{}.svg", std::process::id()));
    let file = svg.display().to_string();
    let words =
        "rfc2544 --quick --dut loop --size 128 --test throughput,latency --max-rate 1M --duration 50ms --bidirectional";
    let words: Vec<&str> = words.split_whitespace().chain(["--json", "--svg", &file]).collect();
    let output = run(&mut linerate(&words));
    assert!(output.status.success(), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["ways"], &json["cut"], &json["sizes"][0]["size"]), (&2.into(), &Value::Null, &128.into()));
    assert!(json["env"]["cores"].is_u64() && json["warnings"].is_array(), "{json}");
    assert_eq!(json["sizes"][0]["max"], 844, "1 Mbit/s of 148 bytes each");
    assert!(json["sizes"][0]["throughput"]["trials"].as_array().is_some_and(|trials| !trials.is_empty()), "{json}");
    let drawn = std::fs::read_to_string(&svg).unwrap();
    std::fs::remove_file(&svg).unwrap();
    assert!(drawn.contains("128 bytes") && drawn.ends_with("</svg>\n"));
}

#[test]
fn our_bridge_carries_frames_of_ipv6() {
    let words = "rfc2544 -6 --quick --test loss --max-rate 2000 --duration 50ms --bidirectional --json";
    let output = run(&mut linerate(&words.split_whitespace().collect::<Vec<_>>()));
    assert!(output.status.success(), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let sizes: Vec<u64> = json["sizes"].as_array().unwrap().iter().map(|size| size["size"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [84, 128, 256, 512, 1024, 1280, 1518]);
    assert!(json["cut"].is_null() && json["sizes"][0]["loss"][0]["sent"].as_u64() > Some(0), "{json}");
    refused("rfc2544 -6 --size 64", 2, "at least 84 bytes");
}

#[test]
fn two_cards_on_one_wire() {
    let words = "rfc2544 nic(wire=w):em0 nic(wire=w):em1 --quick --size 64 --test loss --max-rate 1000 --duration 50ms";
    let output = run(&mut linerate(&words.split_whitespace().collect::<Vec<_>>()));
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("A nic(wire=w):em0, B nic(wire=w):em1"), "{text}");
}

#[test]
fn invalid_measurements_are_rejected() {
    refused("rfc2544 null:a", 2, "only one port is given");
    refused("rfc2544 tap:lr0 tap(up=on):lr0", 2, "the same port is given twice");
    refused("rfc2544 null:a null:b", 2, "null:a: port never receives frames");
    refused("rfc2544 pair:a pair:b", 2, "the other end is not open in this process");
    refused("rfc2544 pair:a pair:a --size 9018", 2, "MTU 1500");
    refused("rfc2544 --size 63", 2, "frame size must be 64 to 9018 bytes, FCS included");
    refused("rfc2544 --test speed", 2, "back-to-back");
    refused("rfc2544 pktgen:a pktgen:b --quick --size 64 --max-rate 100", 1, "arrived at pktgen:b");
    refused("rfc2544 nonsense:a null:b", 2, "nonsense");
}

#[test]
fn ctrl_c_prints_the_results_so_far() {
    let words = "rfc2544 --size 64 --max-rate 1000 --test throughput,loss --duration 60s";
    let mut command = linerate(&words.split_whitespace().collect::<Vec<_>>());
    let child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(700));
    // The child has not been waited for, so its process number is not reused.
    let kill = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("cut short: stopped"), "{output:?}");
}

#[test]
fn the_kernels_bridge_between_two_taps() {
    common::isolated("the_kernels_bridge_between_two_taps", || {
        let ip = |line: &str| {
            let done = std::process::Command::new("ip").args(line.split_whitespace()).status();
            done.is_ok_and(|status| status.success())
        };
        if !ip("link add br0 type bridge forward_delay 0") {
            return println!("skipped: no bridge, or no ip(8)");
        }
        let lines = ["tuntap add t0 mode tap", "tuntap add t1 mode tap", "link set t0 master br0 up"];
        assert!(lines.into_iter().all(ip) && ip("link set t1 master br0 up") && ip("link set br0 up"));
        for family in ["-4", "-6"] {
            let words =
                "rfc2544 tap:t0 tap:t1 --quick --size 84,1518 --test loss --max-rate 500 --json --bidirectional";
            let output = run(&mut linerate(&words.split_whitespace().chain([family]).collect::<Vec<_>>()));
            assert!(output.status.success(), "{output:?}");
            let json: Value = serde_json::from_slice(&output.stdout).unwrap();
            for size in 0..2 {
                let first = &json["sizes"][size]["loss"][0];
                assert!(first["sent"].as_u64() > Some(0) && first["lost"].as_u64() < first["sent"].as_u64(), "{json}");
            }
        }
    });
}
