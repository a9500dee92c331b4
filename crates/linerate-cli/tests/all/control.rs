//! A host of the built program, configured and queried through its control socket; invalid clients
//! of that socket; rc scripts.

use crate::common;
use crate::common::{Running, has, linerate, run};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

#[test]
fn a_host_is_configured_and_queried() {
    let host = Running::start("asked", &["--port", "null:n0", "--addr", "10.0.0.1/24", "--service", "echo:7"]);
    assert_eq!(std::fs::metadata(&host.socket).unwrap().permissions().mode() & 0o777, 0o600);
    host.ok("ifconfig pg0 create inet 1.0.0.1 ip4csum udp4csum mtu 9000");
    host.ok("arp -s 1.0.0.2 12:23:34:45:56:00");
    assert_eq!(host.json("ip neigh")[0]["lladdr"], "12:23:34:45:56:00");
    assert_eq!(host.json("ss -ua")[0]["local_port"], 7);
    assert_eq!(host.json("ss -u"), serde_json::json!([]), "as in iproute2, who has no peer is listed with -a or -l");
    assert!(host.no("ifconfig pg0 mutt 9").contains("did you mean 'mtu'?"));
    assert!(host.no("rotue show").contains("did you mean 'route'?"));
    let (code, out, err) = host.interrupt();
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("imbalance           0"), "{out}");
}

#[test]
fn every_listing_is_json_and_jq_can_read_it() {
    let host = Running::start("json", &["--port", "null:n0", "--addr", "10.0.0.1/24", "--route", "default,10.0.0.9"]);
    for line in [
        "ifconfig -a",
        "ip addr",
        "ip link",
        "ip route",
        "ip neigh",
        "arp -a",
        "route show",
        "sysctl -a",
        "netstat -s",
        "netstat -m",
        "netstat -i",
        "netstat -Q",
        "netstat -an",
        "ss",
        "ss -tiepm",
        "ss -s",
        "capture list",
        "show pools",
        "show locks",
        "show ports",
        "show counters",
        "show isr",
        "show ledger",
        "audit",
    ] {
        host.json(line);
    }
    let names = linerate(&["ip", "-j", "--url", &host.url(), "addr"]).output().unwrap();
    assert!(names.status.success());
    if !has("jq") {
        return println!("skipped: jq is not installed");
    }
    let mut jq = Command::new("jq")
        .args(["-r", ".[] | select(.operstate == \"UP\") | .ifname"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    jq.stdin.take().unwrap().write_all(&names.stdout).unwrap();
    assert_eq!(String::from_utf8(jq.wait_with_output().unwrap().stdout).unwrap(), "n0\n");
}

#[test]
fn invalid_requests_at_the_socket_are_harmless() {
    let host = Running::start("strangers", &["--port", "null:n0"]);
    let connect = || {
        let stream = UnixStream::connect(&host.socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    };
    let _silent: Vec<UnixStream> = (0..20).map(|_| connect()).collect();
    let mut half = connect();
    half.write_all(b"ifconfig -").unwrap();
    for (bytes, says) in [
        (b"\x00\x01\xff\xfe garbage \n".to_vec(), "UTF-8"),
        (b"\x1b[31mred\n".to_vec(), "control characters"),
        (vec![b'x'; 70_000], "at most 65536 bytes"),
    ] {
        let mut stream = connect();
        let _ = stream.write_all(&bytes); // the server may end it before it is through
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.starts_with("error ") && answer.contains(says), "{answer:?}");
    }
    assert!(host.ok("sysctl kern.locks").contains("up"));
    half.write_all(b"l\n").unwrap();
    let mut answer = [0; 9];
    half.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ok 7\nlo0 ", "a slow line is still a line");
}

#[test]
fn errors_are_one_line_with_their_exit_codes() {
    for (words, code, says) in [
        (&["sysctl", "-a"][..], 2, "give --url unix:///path, or set LINERATE_CTL"),
        (&["ctl", "--url", "/nonexistent", "audit"], 3, "check that a host runs"),
        (&["ctl", "--url", "tcp://x", "audit"], 2, "expected unix:///path"),
        (&["host", "--port", "tpa:x"], 2, "did you mean 'tap'?"),
        (&["host", "--addr", "10.0.0.1/24"], 2, "give --port first"),
        (&["host", "--port", "null:a", "--addr", "10.0.0.1"], 2, "10.0.0.1/24"),
        (&["host", "--port", "null:a", "--set", "net.inet.ip.tll=3"], 2, "net.inet.ip.ttl"),
        (&["host", "--port", "null:a", "--set", "threads=2"], 2, "locks = 'up' supports one thread"),
        (&["host", "--port", "null:a", "--set", "context=call"], 2, "no effect with locks = 'up'"),
        (&["testtool", "--context", "inline", "send"], 1, "no effect with locks up"),
        (&["testtool", "--context", "curlwp", "send"], 2, "expected register, inline or call"),
        (&["testtool", "--pool", "slab", "send"], 2, "expected stack, freelist, zone or malloc"),
        (&["testtool", "--clock", "sundial", "send"], 2, "sundial"),
        (&["testtool", "--checksum", "crc", "send"], 2, "word64"),
        (&["testtool", "--shared", "recv"], 1, "--shared applies only to route"),
        (&["testtool", "-s", "65508", "recv"], 1, "at most 65507 bytes"),
        (&["testtool", "--native", "--pool", "zone", "send"], 2, "do not apply to the kernel"),
        (&["host", "--port", "null:a", "--offload", "udp4csum"], 1, "null:a does not support udp4csum"),
        (&["host", "--port", "xdp:vx0"], 1, "linerate: host: xdp:vx0: no such interface in this network namespace"),
        (&["cat", "xdp:vx0"], 1, "linerate: port xdp:vx0: no such interface in this network namespace"),
        (
            &["iperf3", "-s", "--port", "xdp:vx0"],
            1,
            "linerate: host: xdp:vx0: no such interface in this network namespace",
        ),
        (&["bridge", "xdp:vx0", "null:b"], 1, "linerate: port xdp:vx0: no such interface in this network namespace"),
        (
            &["host", "--port", "null:a", "--set", "net.isr.dispatch=x"],
            2,
            "net.isr.dispatch 'x': expected direct, hybrid",
        ),
        (&["host", "--port", "null:a", "--service", "chargen"], 2, "expected one of echo, discard, iperf3, netserver"),
        (&["host", "--port", "null:a", "--control", "/dev/null"], 1, "not a socket"),
        (&["up", "/nonexistent.toml"], 2, "No such file"),
        (&["ports", "tpa"], 2, "did you mean 'tap'?"),
        (
            &["hsot"],
            2,
            "unrecognized subcommand 'hsot'; some similar subcommands exist: 'show', 'host'; see 'linerate --help'",
        ),
        (&["host", "--prot", "null:a"], 2, "unexpected argument '--prot' found"),
        (&["host", "--port"], 2, "a value is required for '--port <SPEC>'"),
        (&["up"], 2, "required arguments were not provided: <FILE>; see 'linerate up --help'"),
        (&["testtool", "-b", "many", "send"], 2, "invalid digit found in string; see 'linerate testtool --help'"),
        (&["host", "--port", "null:a", "--set", "threads"], 2, "expected KEY=VALUE"),
    ] {
        let output = run(&mut linerate(words));
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{words:?}: {err}");
        assert!(err.contains(says) && err.starts_with("linerate: ") && err.lines().count() == 1, "{words:?}: {err}");
    }
}

/// Sets every option of testtool's host, and checks that the report's labels are unchanged.
#[test]
fn testtool_accepts_the_factors_of_its_host() {
    let factors = "--locks light --pool freelist --clock ns --context call --checksum word64";
    for mode in ["-c 500 send", "-c 500 -b 32 -s 20000 recv", "-c 500 -p 2 route", "-c 500 -p 2 --shared route"] {
        let words = format!("testtool {factors} {mode}");
        let output = run(&mut linerate(&words.split_whitespace().collect::<Vec<_>>()));
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{words}: {text}{}", String::from_utf8_lossy(&output.stderr));
        for label in ["aggregate sink count: ", "ratio of packets by source/packets by sink (w/ frags): ", "Gbps sink"]
        {
            assert!(text.contains(label) && !text.contains("UNACCOUNTED"), "{words}: {text}");
        }
    }
}

#[test]
fn a_closed_pipe_is_quiet() {
    let script = format!("{} ports | head -1", env!("CARGO_BIN_EXE_linerate"));
    let output = run(Command::new("bash").args(["-o", "pipefail", "-c", &script]));
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
}

/// A capture of five pings is read to its end. The host then ends, and its replies are in the
/// output file.
#[test]
fn a_capture_is_answered_and_the_host_ends() {
    let dir = std::env::temp_dir().join(format!("lr-cli-replay-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let [input, output, cut] = ["in.pcap", "out.pcap", "cut.pcap"].map(|name| dir.join(name).display().to_string());
    let host = ["host", "--addr", "1.0.0.1/8", "--service", "discard:54321", "--set", "net.inet.ip.forwarding=0"];
    let record = format!("tracer(file={input}):pktgen(count=5,rate=1k,dst_mac=02:00:00:00:00:01):pg0");
    let made = run(&mut linerate(&["host", "--port", &record, "--mac", "02:00:00:00:00:01", "--addr", "1.0.0.1/8"]));
    let printed = String::from_utf8(made.stderr).unwrap();
    assert_eq!(made.status.code(), Some(0), "{printed}");
    assert!(printed.ends_with("pg0: port closed: end of input; no port is left, so the host ends\n"), "{printed}");
    let replay = format!("pcap(write={output}):{input}");
    let port = ["--port", &replay, "--mac", "02:00:00:00:00:01"];
    let replayed = run(linerate(&[&host[..1], &port, &host[1..]].concat()).args(["--port", "null:n0"]));
    let audit = String::from_utf8(replayed.stdout).unwrap();
    assert_eq!(replayed.status.code(), Some(0), "{audit}{}", String::from_utf8_lossy(&replayed.stderr));
    assert!(std::fs::metadata(&output).unwrap().len() > 24, "the ARP announcement, at least");
    assert!(audit.contains("imbalance           0") && audit.contains("(read 5)"), "{audit}");
    // A truncated capture is reported as a lost port, and the exit code is 1.
    let bytes = std::fs::read(&input).unwrap();
    std::fs::write(&cut, &bytes[..bytes.len() - 7]).unwrap();
    let broken = run(&mut linerate(&["host", "--port", &format!("pcap:{cut}"), "--addr", "1.0.0.1/8"]));
    let printed = String::from_utf8(broken.stderr).unwrap();
    assert_eq!(broken.status.code(), Some(1), "{printed}");
    assert!(printed.contains("cut.pcap") && printed.ends_with("no port is left, so the host ends\n"), "{printed}");
    // With stay=on the host continues until the stop command.
    let staying = Running::start("stay", &["--port", &format!("pcap:{input}"), "--set", "stay=on"]);
    std::thread::sleep(Duration::from_millis(600));
    assert!(staying.ok("show ports").contains("gone"));
    let (code, _, err) = staying.interrupt();
    assert_eq!((code, err.contains("the host keeps running")), (Some(0), true), "{err}");
    std::fs::remove_dir_all(&dir).unwrap();
}

/// The rc script is called as SCRIPT unix:///path MODE PARALLEL.
#[test]
fn the_rc_script_configures_a_host() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/config.sh");
    for (mode, parallel, ifaces) in [("send", "1", 1), ("recv", "1", 1), ("route", "2", 4)] {
        let host = Running::start(&format!("rc-{mode}"), &["--name", "rc"]);
        let mut rc = Command::new(script);
        rc.args([&host.url(), mode, parallel]).env("LINERATE", env!("CARGO_BIN_EXE_linerate"));
        let output = run(&mut rc);
        assert!(output.status.success(), "{output:?}");
        let forwarding = host.json("sysctl net.inet.ip.forwarding")["net.inet.ip.forwarding"].as_i64();
        assert_eq!(forwarding, Some(i64::from(mode == "route")));
        let addrs = host.json("ip addr");
        assert_eq!(addrs.as_array().unwrap().len(), 1 + ifaces);
        let neighbors = host.json("arp -a");
        for n in 0..ifaces {
            let iface = &addrs[1 + n];
            assert_eq!(iface["ifname"], format!("pg{n}"));
            assert_eq!(iface["mtu"], 9000);
            assert_eq!(iface["addr_info"][0]["local"], format!("{}.0.0.1", n + 1));
            assert_eq!(neighbors[n]["dst"], format!("{}.0.0.2", n + 1));
            assert_eq!(neighbors[n]["lladdr"], format!("12:23:34:45:56:{n:02x}"));
            assert!(host.ok(&format!("ifconfig pg{n}")).contains("enabled=<ip4csum,udp4csum"));
        }
    }
    let nobody = run(Command::new(script)
        .args(["unix:///nonexistent", "send", "1"])
        .env("LINERATE", env!("CARGO_BIN_EXE_linerate")));
    assert_eq!(nobody.status.code(), Some(3), "a script fails with its first failing word");
}

#[test]
fn a_control_socket_is_named_by_path_or_url() {
    let dir = common::Dir::new("control-url");
    for scheme in ["", "unix://"] {
        let url = format!("{scheme}{}", dir.path("host.sock"));
        let mut host = linerate(&["host", "--port", "null:x", "--control", &url]);
        let mut child = host.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let answered = run(&mut linerate(&["ctl", "--wait=10s", "--url", &url, "stop"]));
        assert!(answered.status.success(), "{url}: {answered:?}");
        assert_eq!(common::wait(&mut child), Some(0), "{url}");
    }
    common::refused("host --port null:x --control http://x", 2, "'http://x': not the address of a control socket");
}

#[test]
fn a_file_is_checked_and_run() {
    let dir = std::env::temp_dir().join(format!("lr-cli-up-{}", std::process::id()));
    let topo = concat!(env!("CARGO_MANIFEST_DIR"), "/../../topo/pair.toml");
    let checked = run(&mut linerate(&["up", topo, "--check"]));
    let out = String::from_utf8(checked.stdout).unwrap();
    assert!(out.contains("pair.toml: valid\nhost a: ports pair:") && out.contains("\nhost b: ports pair:"), "{out}");
    let mut up = linerate(&["up", topo, "--control-dir", dir.to_str().unwrap()]);
    let mut child = up.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let url = dir.join("b.sock").display().to_string();
    let deadline = std::time::Instant::now() + common::PATIENCE;
    while !run(&mut linerate(&["audit", "--url", &url])).status.success() {
        assert!(std::time::Instant::now() < deadline, "b did not come up");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(run(&mut linerate(&["ctl", "--url", &url, "stop"])).status.success());
    assert_eq!(common::wait(&mut child), Some(0));
    let mut out = String::new();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(out.matches("imbalance           0").count(), 2, "{out}");
    let _ = std::fs::remove_dir(&dir);
}

/// A reply of a host may be printed on a terminal, so control characters in it are escaped.
#[test]
fn control_characters_of_an_answer_are_escaped() {
    let dir = common::Dir::new("ctl-escapes");
    let path = dir.path("s.sock");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let url = format!("--url={path}");
    // Each of these commands gets the same reply to all of its requests, and interprets it
    // differently.
    let cases: [(&str, &[&str], Option<i32>); 7] = [
        ("ok", &["ctl", &url, "ip", "link"], Some(0)),
        ("error", &["ctl", &url, "ip", "link"], Some(1)),
        ("error", &["ip", &url, "link"], Some(1)),
        ("error", &["ping", &url, "10.0.0.1"], Some(1)),
        ("error", &["why", &url, "10.0.0.1"], Some(1)),
        ("error", &["tcpdump", &url, "-D"], Some(1)),
        ("error", &["tcpdump", &url, "-i", "em0"], Some(1)),
    ];
    for (head, words, code) in cases {
        let host = std::thread::spawn({
            let listener = listener.try_clone().unwrap();
            move || {
                let (mut stream, _) = listener.accept().unwrap();
                let body = "em0\x1b]0;mine\x07\tup\n";
                let _ = stream.read(&mut [0; 64]);
                stream.write_all(format!("{head} {}\n{body}", body.len()).as_bytes()).unwrap();
            }
        });
        let output = run(&mut linerate(words));
        host.join().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        let text = String::from_utf8(printed).unwrap();
        assert_eq!(output.status.code(), code, "{words:?}: {text:?}");
        assert!(text.contains("em0\\u{1b}]0;mine\\u{7}\tup"), "{words:?}: {text:?}");
    }
}

/// A device file that never ends is rejected as input.
#[test]
fn files_without_an_end_are_refused() {
    for (line, code, why) in [
        ("up --check /dev/zero", 2, "/dev/zero: file is larger than 4194304 bytes"),
        ("grep --file /dev/zero /dev/null", 2, "/dev/zero: file is larger than 67108864 bytes"),
    ] {
        common::refused(line, code, why);
    }
    let host = Running::start("endless", &["--port", "null:n0"]);
    common::refused(
        &format!("ctl --url {} -f /dev/zero", host.url()),
        1,
        "/dev/zero: file is larger than 16777216 bytes",
    );
    let (code, out, _) = common::printed(&run(&mut linerate(&["pkt", "/dev/zero"])));
    assert!(code == Some(1) && out.contains("file is larger than 16777216 bytes"), "{out}");
}

/// `--url` and `-j` may precede the command, like options of iproute2.
#[test]
fn flags_may_precede_the_command() {
    let host = Running::start("front", &["--port", "null:n0", "--addr", "10.0.0.1/24"]);
    let url = host.url();
    let (_, behind, _) = common::printed(&run(&mut linerate(&["ip", "--url", &url, "-j", "addr"])));
    for words in [&["--url", &url, "-j", "ip", "addr"][..], &["-j", &format!("--url={url}"), "ip", "addr"]] {
        assert_eq!(common::printed(&run(&mut linerate(words))), (Some(0), behind.clone(), String::new()), "{words:?}");
    }
    for words in [&["--url", &url][..], &["-j"], &["--url"]] {
        assert_eq!(run(&mut linerate(words)).status.code(), Some(2), "{words:?}");
    }
}

/// Many commands use one connection. Errors have file and line. Flags may be anywhere in a line.
#[test]
fn a_file_of_commands_runs_up_to_its_first_error() {
    let dir = common::Dir::new("ctl-batch");
    let host = Running::start("batch", &["--port", "null:n0", "--addr", "10.0.0.1/24"]);
    let url = host.url();
    let file = dir.file("good", "# addresses\n\nip addr add 10.0.1.1/24 dev n0\n-j ip route get 10.0.1.2\n");
    let out = run(&mut linerate(&["ctl", "--url", &url, "-f", &file]));
    let routes: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(routes[0]["prefsrc"], "10.0.1.1");
    let bad = dir.file("bad", "ip addr add 10.0.2.1/24 dev n0\nifconfg n0\nip addr add 10.0.3.1/24 dev n0\n");
    for (flags, code, third) in [(&[][..], 1, false), (&["--force"][..], 1, true)] {
        let out = run(linerate(&["ctl", "--url", &url, "-f", &bad]).args(flags));
        let err = String::from_utf8(out.stderr).unwrap();
        assert_eq!(out.status.code(), Some(code), "{err}");
        assert!(err.contains(&format!("{bad}:2: unknown command 'ifconfg'")), "{err}");
        assert_eq!(host.ok("ip addr").contains("10.0.3.1"), third);
        host.ok("ip addr del 10.0.2.1/24 dev n0");
    }
    let anywhere = [
        &["ip", "-j", "addr", "show", "--url", &url][..],
        &["ip", "addr", "--json", "show", &format!("--url={url}")],
        &["ctl", "ip", "--url", &url, "addr", "-j"],
    ];
    for words in anywhere {
        let out = run(&mut linerate(words));
        assert!(serde_json::from_slice::<serde_json::Value>(&out.stdout).unwrap().is_array(), "{words:?}");
    }
    let none = run(&mut linerate(&["ip", "addr", "--url"]));
    assert_eq!(none.status.code(), Some(2));
    assert_eq!(run(&mut linerate(&["ctl", "--url", &url, "-f", "/nonexistent"])).status.code(), Some(1));
}

/// `ctl --wait` returns once the host replies, and gives up after its time limit. --ready-fd gets a
/// line break.
#[test]
fn ctl_waits_for_a_starting_host() {
    let dir = common::Dir::new("ctl-wait");
    let socket = dir.path("h.sock");
    let line = format!(
        "linerate ctl --url {socket} --wait=10s ip -br link > shown & \
         linerate host --port null:n0 --control {socket} --ready-fd 3 3> ready & wait %1; linerate ctl --url {socket} stop; wait"
    );
    let out = dir.bash(&line).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    assert!(dir.read("shown").contains("n0 "), "{}", dir.read("shown"));
    assert_eq!(dir.read("ready"), "\n");
    for (name, words) in [
        ("up", "up topo.toml --control-dir ."),
        ("bridge", "bridge --stay --control bridge.sock null:n0 null:n1"),
        ("serve", "serve discard --port null:n0 --addr 10.0.0.1/24 --control serve.sock"),
    ] {
        dir.file("topo.toml", "[[host]]\nname = 'up'\n[[host.iface]]\nport = 'null:n0'\n");
        let line = format!(
            "linerate {words} --ready-fd 3 3> {name}.ready & linerate ctl --url ./{name}.sock --wait=10s; \
             for i in $(seq 100); do [ -s {name}.ready ] && break; sleep 0.05; done; linerate ctl --url ./{name}.sock stop; wait; \
             wc -c < {name}.ready"
        );
        let out = dir.bash(&line).output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(text.trim_end().ends_with('1'), "{name}: one byte: {text} {}", String::from_utf8_lossy(&out.stderr));
    }
    // A name without a path refers to a file as soon as that file exists.
    let named = run(&mut dir.bash(
        "linerate ctl --url late.sock --wait=10s ip -br link & sleep 0.3; \
         linerate host --port null:n0 --control ./late.sock > /dev/null & wait %1; code=$?; linerate ctl --url ./late.sock stop; wait; exit $code",
    ));
    assert!(named.status.success() && named.stdout.starts_with(b"lo0 "), "{named:?}");
    let gave_up = run(&mut linerate(&["ctl", "--url", &dir.path("no.sock"), "--wait=50ms"]));
    assert_eq!(gave_up.status.code(), Some(3));
    let native = dir.bash(
        "linerate netserver --native -p 12871 --ready-fd 3 3> native.ready & \
         for i in $(seq 100); do [ -s native.ready ] && break; sleep 0.05; done; kill $!; wait $! && wc -c < native.ready",
    );
    let out = run(&mut { native });
    assert_eq!(String::from_utf8_lossy(&out.stdout).trim(), "1", "{out:?}");
    for (words, says) in [
        ("host --port null:n0 --ready-fd 77", "--ready-fd 77: "),
        ("host --port null:n0 --ready-fd 1", "--ready-fd 1: descriptor belongs to this program"),
        ("netperf --ready-fd 3", "--ready-fd: not supported by clients"),
        ("netperf --control x.sock", "--control: not supported by clients"),
        ("netserver --native --control x.sock", "--control: not supported with --native"),
    ] {
        let refused = run(&mut linerate(&words.split(' ').collect::<Vec<_>>()));
        let err = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(2) && err.contains(says), "{words}: {err}");
    }
}

/// `ip monitor` prints an address that is added and removed.
#[test]
fn changes_are_monitored() {
    let host = Running::start("monitor", &["--port", "null:n0", "--addr", "10.0.0.1/24"]);
    let mut command = linerate(&["ip", "monitor", "address", "route", "--url", &host.url()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (line, lines) = std::sync::mpsc::channel();
    let out = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    std::thread::spawn(move || out.map_while(Result::ok).for_each(|text| drop(line.send(text))));
    // The first comparison prints nothing. It is complete when a change is printed.
    let looks = (1..=200).any(|n| {
        host.ok(&format!("ip addr add 10.1.{n}.1/24 dev n0"));
        lines.recv_timeout(Duration::from_millis(200)).is_ok()
    });
    assert!(looks, "no change is printed");
    let next = || loop {
        let text = lines.recv_timeout(common::PATIENCE).unwrap();
        if text.contains("10.0.7.") {
            return text;
        }
    };
    host.ok("ip addr add 10.0.7.1/24 dev n0");
    assert!(next().contains("n0    inet 10.0.7.1/24"));
    assert!(next().starts_with("10.0.7.0/24 dev n0"));
    host.ok("ip addr del 10.0.7.1/24 dev n0");
    assert!(next().starts_with("Deleted ") && next().starts_with("Deleted 10.0.7.0/24"));
    drop(host);
    assert_eq!(common::wait(&mut child), Some(3));
    let bad = run(&mut linerate(&["ip", "monitor", "adress", "--url", "/nonexistent"]));
    assert!(matches!(bad.status.code(), Some(2 | 3)));
}

/// A client rejects the control socket of another user, even if it can be opened. root accepts all
/// sockets.
#[test]
fn a_host_of_another_user_is_not_trusted() {
    let output = Command::new("id").arg("-u").output().unwrap();
    if output.stdout != b"0\n" || !common::has("setpriv") {
        return println!("skipped: a second user takes root and setpriv");
    }
    let dir = common::Dir::new("ctl-foreign");
    std::fs::set_permissions(&dir.0, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let line = "setpriv --reuid 65534 --clear-groups linerate host --port null:n0 --control ./s.sock & sleep 0.05; \
                for i in $(seq 100); do [ -S s.sock ] && break; sleep 0.05; done; chmod 777 s.sock; \
                linerate ctl --url ./s.sock ip -br link > by_root; \
                setpriv --reuid 65533 --clear-groups linerate ctl --url ./s.sock ip -br link; \
                code=$?; kill -INT %1; wait; exit $code";
    let (code, out, err) = common::printed(&run(&mut dir.bash(line)));
    assert!(code == Some(3) && err.contains("65534") && !out.contains("n0 "), "{code:?} {out} {err}");
    assert!(dir.read("by_root").contains("n0 "));
}
