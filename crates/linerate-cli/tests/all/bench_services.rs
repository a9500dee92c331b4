//! `linerate bench services`: one quick run has all rows, each next to the installed server or
//! client. The tests check only that each row has a figure.

use crate::common::{has, linerate, run};
use serde_json::Value;

#[test]
fn every_row_is_measured_beside_its_peer() {
    if let Err(why) = port::os::netns::available() {
        return println!("skipped: bench services: {why}");
    }
    for tool in ["redis-benchmark", "redis-server", "wrk", "nginx", "iperf3", "tcpdump", "ip"] {
        if !has(tool) && !std::path::Path::new("/usr/sbin").join(tool).is_file() {
            return println!("skipped: bench services: {tool} is not installed");
        }
    }
    let output = run(&mut linerate(&["bench", "services", "--quick", "--rounds", "2", "--json"]));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let row = |id: &str| rows.iter().find(|row| row["id"] == id).unwrap_or_else(|| panic!("{id}: {report:#}"));
    for id in [
        "kv.set",
        "kv.get",
        "http.small",
        "iperf3.latency.idle",
        "iperf3.latency.p50",
        "iperf3.latency.p99",
        "iperf3.pacing",
    ] {
        let now = &row(id)["now"];
        assert!(now["median"].as_f64() > Some(0.0) && now["n"].as_u64() == Some(2), "{id}: {report:#}");
    }
    let peers: Vec<&str> =
        report["peers"].as_array().unwrap().iter().map(|peer| peer["id"].as_str().unwrap()).collect();
    assert_eq!(peers, ["redis.kv.set", "redis.kv.get", "nginx.http.small", "iperf3.iperf3.pacing"]);
}
