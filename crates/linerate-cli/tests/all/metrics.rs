//! Metrics: figures for Prometheus, compared with `netstat`, and read by promtool and by Prometheus
//! itself. `--metrics` of hosts, bridges and servers, and the key of a file.

use crate::common::{self, has, isolated, linerate, run};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

const FILE: &str = r#"
[[host]]
name = "a"
[[host.iface]]
port = "pair:as"
addresses = ["10.0.0.1/24"]
[[host.service]]
kind = "echo"
[[host]]
name = "b"
locks = "light"
threads = 2
[[host.iface]]
port = "pair:bs"
addresses = ["10.0.0.2/24"]
[[host]]
name = "c"
stacks = 2
[[host.iface]]
port = "pair:cs"
addresses = ["10.0.0.3/24"]
[[switch]]
name = "s"
ports = ["pair:as", "pair:bs", "pair:cs"]
"#;

/// A running network, with the address of its metrics.
struct Network {
    dir: PathBuf,
    child: Child,
    stderr: BufReader<ChildStderr>,
    metrics: String,
}

impl Network {
    fn up(name: &str, metrics: &str) -> Network {
        Network::start(name, FILE, &["--metrics", metrics])
    }

    /// Runs `up` with a file of this `text`, which has the nodes of [`FILE`].
    fn start(name: &str, text: &str, flags: &[&str]) -> Network {
        let dir = std::env::temp_dir().join(format!("lr-metrics-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("up.toml"), text).unwrap();
        let mut command = linerate(&[&["up", "up.toml", "--control-dir", "."], flags].concat());
        let mut child = command.current_dir(&dir).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        let metrics = line.trim().split("metrics at ").nth(1).unwrap_or_else(|| panic!("{line}")).to_owned();
        for _ in 0..5 {
            line.clear();
            stderr.read_line(&mut line).unwrap();
            assert!(line.contains(": running"), "{line}");
        }
        Network { dir, child, stderr, metrics }
    }

    /// Returns the address without scheme and path.
    fn address(&self) -> &str {
        self.metrics.trim_start_matches("http://").trim_end_matches("/metrics")
    }

    fn get(&self, accept: &str) -> String {
        get(self.address(), accept)
    }

    fn ctl(&self, node: &str, words: &[&str]) -> String {
        let url = self.dir.join(format!("{node}.sock")).display().to_string();
        let output = run(&mut linerate(&[&["ctl", "--url", &url], words].concat()));
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        let code = common::wait(&mut self.child);
        let mut rest = String::new();
        let _ = self.stderr.read_to_string(&mut rest);
        let _ = std::fs::remove_dir_all(&self.dir);
        if !std::thread::panicking() {
            assert_eq!(code, Some(0), "{rest}");
        }
    }
}

/// Returns the metrics that are served at `address`.
fn get(address: &str, accept: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nAccept: {accept}\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// Returns the number of samples.
fn samples(text: &str) -> usize {
    text.lines().filter(|line| !line.starts_with('#')).count()
}

/// Returns the value of the only sample that begins with `sample`; `None` if there is none.
fn value(text: &str, sample: &str) -> Option<f64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(sample));
    let (found, more) = (lines.next(), lines.next());
    assert!(more.is_none(), "several {sample}");
    found.map(|value| value.trim().parse().unwrap())
}

#[test]
fn hosts_and_bridges_are_in_one_answer_with_the_values_of_netstat() {
    let network = Network::up("values", "127.0.0.1:0");
    ping(&network);
    let deadline = Instant::now() + common::PATIENCE;
    loop {
        let text = network.get("text/plain");
        let netstat: serde_json::Value = serde_json::from_str(&network.ctl("a", &["-j", "netstat", "-s"])).unwrap();
        let mut wanted: Vec<(String, f64)> =
            ["a", "b", "c", "c.0", "c.1", "s"].map(|node| (format!("linerate_up{{host=\"{node}\"}}"), 1.0)).to_vec();
        wanted.push(("linerate_port_up{host=\"s\",port=\"as\"}".to_owned(), 1.0));
        wanted.push(("linerate_frames_unaccounted{host=\"a\"}".to_owned(), 0.0));
        wanted.push(("linerate_neighbors{host=\"a\",family=\"ipv4\",state=\"incomplete\"}".to_owned(), 0.0));
        for counter in ["inet.icmp4.received", "inet.arp.requests_received", "inet.ip4.sent"] {
            let value = netstat[counter].as_u64().unwrap() as f64;
            wanted.push((format!("linerate_statistic{{host=\"a\",name=\"{counter}\"}}"), value));
        }
        // The hosts a and b have netisr's rows without workstreams of their own, c.1 has those of the stack.
        for (host, workstream) in [("a", 0), ("b", 0), ("c.1", 1)] {
            let netisr: serde_json::Value = serde_json::from_str(&network.ctl(host, &["-j", "netstat", "-Q"])).unwrap();
            let rows: Vec<_> = netisr["workstreams"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|row| row["workstream"] == workstream)
                .collect();
            assert_eq!(rows.len(), 4, "{netisr}");
            for row in rows {
                let labels = format!("{{host=\"{host}\",workstream=\"{workstream}\",protocol={}}}", row["name"]);
                for (metric, column) in [
                    ("dispatched_total", "dispatched"),
                    ("hybrid_dispatched_total", "hybrid-dispatched"),
                    ("queued_total", "queued"),
                    ("handled_total", "handled"),
                    ("drops_total", "queue-drops"),
                    ("queue_length", "length"),
                    ("queue_watermark", "watermark"),
                ] {
                    wanted.push((format!("linerate_isr_{metric}{labels}"), row[column].as_u64().unwrap() as f64));
                }
            }
            if host == "c.1" {
                let own = value(&text, "linerate_dispatcher_frames_total{host=\"c\",worker=\"c.1\"}");
                let received = netisr["dispatched"]["node.split.received"].as_u64().unwrap() as f64;
                wanted.push(("linerate_statistic{host=\"c\",name=\"node.split.received\"}".to_owned(), received));
                assert!(own.is_some(), "{text}");
            }
        }
        let differs = wanted.iter().find(|(sample, expected)| value(&text, sample) != Some(*expected));
        match differs {
            None if value(&text, "linerate_bridge_addresses{host=\"s\"}") >= Some(2.0) => break,
            // Frames may pass between the two requests, and a loaded machine may answer late.
            _ => assert!(Instant::now() < deadline, "{differs:?}\n{text}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let text = network.get("application/openmetrics-text; version=1.0.0");
    assert!(text.ends_with("# EOF\n") && text.contains("# TYPE linerate_drops counter\n"), "{text}");
}

#[test]
fn an_address_in_use_is_an_error_before_anything_runs() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for words in [&["host", "--port", "null:n"][..], &["bridge", "null:a", "null:b"]] {
        let output = run(&mut linerate(&[words, &["--metrics", &address]].concat()));
        let text = String::from_utf8_lossy(&output.stderr);
        let is_it = text.contains(&format!("--metrics {address}")) && text.contains("in use");
        assert!(!output.status.success() && is_it && !text.contains(": running"), "{text}");
    }
    let output = run(&mut linerate(&["host", "--port", "null:n", "--metrics", "9273"]));
    assert!(String::from_utf8_lossy(&output.stderr).contains("127.0.0.1:9273"), "{output:?}");
}

#[test]
fn the_key_of_a_file_serves_and_its_limit_cuts() {
    let text = format!("[metrics]\nlisten = '127.0.0.1:0'\nseries_max = 100\n{FILE}");
    let network = Network::start("key", &text, &[]);
    let metrics = network.get("text/plain");
    assert_eq!(samples(&metrics), 101, "100, and whether samples were left out: {metrics}");
    assert_eq!(value(&metrics, "linerate_metrics_truncated"), Some(1.0));
    let shown = network.ctl("a", &["show", "running-config"]);
    assert!(shown.starts_with("[metrics]\nlisten = \"127.0.0.1:0\"\nseries_max = 100\n"), "{shown}");
}

#[test]
fn the_flag_overrides_the_address_of_the_file() {
    let text = format!("[metrics]\nlisten = 'unix:/nonexistent/metrics'\nseries_max = 50\n{FILE}");
    let network = Network::start("override", &text, &["--metrics", "127.0.0.1:0"]);
    assert_eq!(samples(&network.get("text/plain")), 51, "the limit is that of the file");
    let check = |words: &[&str]| {
        let output = run(linerate(&[&["up", "--check", "up.toml"], words].concat()).current_dir(&network.dir));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(check(&[]).contains("\nmetrics: unix:/nonexistent/metrics; at most 50 samples\n"));
    assert!(check(&["--metrics", "[::1]:9273"]).contains("\nmetrics: [::1]:9273; at most 50 samples\n"));
    let output = run(linerate(&["up", "up.toml"]).current_dir(&network.dir));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("metrics.listen unix:/nonexistent/metrics: "), "{text}");
    std::fs::write(network.dir.join("bad.toml"), "[metrics]\nlisten = '9273'\n[[host]]\n").unwrap();
    let output = run(linerate(&["up", "bad.toml"]).current_dir(&network.dir));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("bad.toml:2: listen = '9273': expected an address with a port"), "{text}");
}

#[test]
fn servers_have_metrics() {
    for words in [
        &["httpd"][..],
        &["ftpd"],
        &["serve", "echo"],
        &["kvd"],
        &["filed"],
        &["iperf3", "-s"],
        &["netserver"],
        &["netrate", "httpd"],
    ] {
        let flags = ["--port", "null:n", "--name", "of", "--set", "stay=on", "--metrics", "127.0.0.1:0"];
        let mut command = linerate(&[words, &flags].concat());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("metrics at http://") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "{words:?} has ended");
        }
        let rest = line.split("http://").nth(1).unwrap();
        let metrics = get(rest.trim().trim_end_matches("/metrics"), "text/plain");
        assert_eq!(value(&metrics, "linerate_up{host=\"of\"}"), Some(1.0), "{words:?}: {metrics}");
        assert!(value(&metrics, "linerate_port_up{host=\"of\",port=\"n\"}").is_some(), "{words:?}: {metrics}");
        let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert_eq!(common::wait(&mut child), Some(0), "{words:?}");
    }
    let output = run(&mut linerate(&["netserver", "--native", "--metrics", "127.0.0.1:0"]));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("netserver --metrics: not supported with --native"), "{text}");
}

#[test]
fn promtool_accepts_the_metrics_and_the_example_rules() {
    if !has("promtool") {
        return println!("skipped: promtool_accepts_the_metrics_and_the_example_rules: promtool is not installed");
    }
    let network = Network::up("promtool", "127.0.0.1:0");
    ["a", "s"].iter().for_each(|node| _ = network.ctl(node, &["show", "ledger", "on"]));
    ping(&network);
    let text = network.get("text/plain");
    assert!(text.contains("linerate_stage_seconds_bucket{"), "{text}");
    let mut promtool = Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).spawn().unwrap();
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(promtool.wait().unwrap().success(), "{text}");
    let examples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/prometheus");
    for words in [&["check", "config", "prometheus.yml"][..], &["test", "rules", "rules_test.yml"]] {
        let output = run(Command::new("promtool").args(words).current_dir(&examples));
        assert!(output.status.success(), "{words:?}: {output:?}");
    }
}

/// Prometheus scrapes the OpenMetrics form, and answers queries with its values.
#[test]
fn prometheus_scrapes_a_network() {
    if !has("prometheus") || !has("promtool") || !has("ip") {
        return println!("skipped: prometheus_scrapes_a_network: prometheus and iproute2 are not both installed");
    }
    isolated("prometheus_scrapes_a_network", || {
        assert!(run(Command::new("ip").args(["link", "set", "lo", "up"])).status.success());
        let network = Network::up("prometheus", "127.0.0.1:9273");
        let config = std::fs::read_to_string(
            PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/prometheus/prometheus.yml"),
        );
        let config = config.unwrap().replace("rule_files:\n  - rules.yml\n", "").replace("5s", "200ms");
        std::fs::write(network.dir.join("prometheus.yml"), config).unwrap();
        let words = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:9090"];
        let mut command = Command::new("prometheus");
        command.args(words).current_dir(&network.dir).stdout(Stdio::null()).stderr(Stdio::null());
        let mut prometheus = command.spawn().unwrap();
        let deadline = Instant::now() + common::PATIENCE;
        let query = |expression: &str| {
            let output = run(Command::new("promtool").args(["query", "instant", "http://127.0.0.1:9090", expression]));
            String::from_utf8(output.stdout).unwrap()
        };
        while query("sum(linerate_up)").split_whitespace().nth(2) != Some("6") {
            assert!(Instant::now() < deadline, "{}", query("linerate_up"));
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(query("linerate_port_receive_packets_total{host=\"s\"}").contains("port=\"as\""));
        // A rate needs two scrapes.
        while !query("rate(linerate_drops_total{host=\"a\"}[1m])").contains("reason=") {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(100));
        }
        for expression in dashboard() {
            let answer = run(Command::new("promtool").args([
                "query",
                "instant",
                "http://127.0.0.1:9090",
                &expression.replace("$host", ".*").replace("$__rate_interval", "1m"),
            ]));
            assert!(answer.status.success(), "{expression}: {answer:?}");
        }
        let _ = prometheus.kill();
        let _ = prometheus.wait();
    });
}

/// Sends requests from the host b to the host a.
fn ping(network: &Network) {
    let url = network.dir.join("b.sock").display().to_string();
    assert!(run(&mut linerate(&["ping", "--url", &url, "-c", "3", "-i", "0.1", "10.0.0.1"])).status.success());
}

/// Each stage of the ledger has a histogram of sampled times, while the ledger is on.
#[test]
fn stages_have_times_while_the_ledger_is_on() {
    let network = Network::up("stages", "127.0.0.1:0");
    ping(&network);
    assert!(!network.get("text/plain").contains("linerate_stage_seconds"), "the ledger is off");
    for node in ["a", "s"] {
        network.ctl(node, &["show", "ledger", "on"]);
    }
    ping(&network);
    let text = network.get("text/plain");
    for (node, stage) in [("a", "inet.ip4.input"), ("s", "bridge.input")] {
        let labels = format!("host=\"{node}\",stage=\"{stage}\"");
        let sample = |name: &str, le: &str| value(&text, &format!("linerate_stage_{name}{{{labels}{le}}}"));
        let packets = sample("packets_total", "").unwrap_or_else(|| panic!("{node} {stage}: {text}"));
        let count = sample("seconds_count", "").unwrap();
        assert!(packets >= 3.0 && count >= 1.0 && count <= packets, "{packets} packets, {count} samples");
        assert_eq!(sample("seconds_bucket", ",le=\"+Inf\""), Some(count));
        let times = ["0.000000016", "0.000001024", "0.000262144"]
            .map(|le| sample("seconds_bucket", &format!(",le=\"{le}\"")).unwrap());
        assert!(times.is_sorted() && times[2] <= count, "{times:?}");
        assert!(sample("seconds_sum", "").unwrap() > 0.0);
    }
}

/// Returns the expressions of the panels of the example dashboard.
fn dashboard() -> Vec<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/prometheus/grafana.json");
    let dashboard: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    targets.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_dashboard_uses_metrics_that_exist() {
    let expressions = dashboard();
    let network = Network::up("dashboard", "127.0.0.1:0");
    let text = network.get("text/plain");
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| c != '_' && !c.is_alphanumeric());
        words.filter(|word| word.starts_with("linerate_")).map(str::to_owned).collect()
    };
    let absent = ["linerate_stage_busy_seconds_total"]; // while the ledger is off
    assert!(expressions.len() >= 12, "{expressions:?}");
    for name in expressions.iter().flat_map(|expression| words(expression)) {
        let is_served = text.lines().any(|line| line.split(['{', ' ']).next() == Some(&name));
        assert!(is_served || absent.contains(&name.as_str()), "{name} is not served:\n{text}");
    }
}
