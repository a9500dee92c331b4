//! `linerate netperf`, `netserver` and `netrate`: their output with each placement of the ends, and
//! rejected arguments. The tests check that there is a figure, but not its value, which depends on
//! the machine.

use crate::common;
use crate::common::{Running, linerate, refused, run};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

#[track_caller]
fn printed(line: &str) -> String {
    let output = run(&mut linerate(&line.split_whitespace().collect::<Vec<_>>()));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{line}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn interrupt(child: &Child) {
    // The child has not been waited for, so its process number is not reused.
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
}

/// Replaces each digit by 9, so that only the format of the line remains.
fn form(line: &str) -> String {
    line.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect()
}

#[test]
fn a_stream_has_netperfs_lines() {
    let text = printed("netperf -l 0.2");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..6],
        [
            "TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 10.0.0.2 (10.0.0.2) port 0 AF_INET",
            "Recv   Send    Send                          ",
            "Socket Socket  Message  Elapsed              ",
            "Size   Size    Size     Time     Throughput  ",
            "bytes  bytes   bytes    secs.    10^6bits/sec  ",
            "",
        ]
    );
    assert!(form(lines[6]).starts_with("999999 999999 999999    9.99     ") && lines.len() == 7, "{text}");
}

/// Standard output has only netperf's lines. Warnings about the measurement are on standard error
/// and in the JSON.
#[test]
fn a_report_contains_its_environment() {
    let output = run(&mut linerate(&["netperf", "-t", "TCP_RR", "-l", "-50"]));
    let (text, beside) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(!text.contains("kernel  "), "{text}");
    for part in ["\ncpu     ", "\nkernel  ", "\nbuild   "] {
        assert!(beside.contains(part), "{part}: {beside}");
    }
    let json: Value = serde_json::from_str(&printed("netperf -t TCP_RR -l -50 -j")).unwrap();
    assert!(json["env"]["kernel"].is_string() && json["figure"].as_f64() > Some(0.0), "{json}");
    // An unoptimized build always causes a warning.
    let optimized = ["2", "3"].contains(&json["env"]["build"]["opt_level"].as_str().unwrap());
    assert!(optimized || json["warnings"].to_string().contains("not a benchmark build"), "{json}");
}

#[test]
fn requests_and_datagrams_have_two_lines_of_figures() {
    let text = printed("netperf -t TCP_RR -l -200 -P 0 -- -r 10,20");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("131072 131072 10       20      0.0") && lines[1] == "131072 131072", "{text}");
    let text = printed("netperf -t udp_stream -l 0.1 -P 0 -- -m 1000");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with(" 65507    1000   0.1") && lines[2].is_empty(), "{text}");
    assert!(lines[1].starts_with(" 42080           0.1"), "{text}");
}

#[test]
fn histogram_percentiles_and_confidence() {
    let text = printed("netperf -t TCP_CRR -l -50 -v 2 -i 3,3 -I 99,0.01");
    for part in [
        " : +/-0.005% @ 99% conf.  : histogram\n",
        "!!! WARNING\n!!! Desired confidence was not achieved within the specified iterations.\n",
        "\nHistogram of request/response times\nUNIT_USEC     : ",
        "HIST_TOTAL:      150\np50 ",
        "p99.99 ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn json_of_each_test_at_each_place() {
    for place in ["pair", "pair --threads", "nic", "router", "native", "native --threads"] {
        // The length is a number of transactions where possible, since neither end may run in a
        // short time on a busy machine.
        for (test, length) in [
            ("TCP_STREAM", "-200000"),
            ("TCP_MAERTS", "-200000"),
            ("UDP_STREAM", "0.3"),
            ("TCP_RR", "-50"),
            ("TCP_CC", "-50"),
            ("TCP_CRR", "-50"),
            ("UDP_RR", "-50"),
        ] {
            let json: Value =
                serde_json::from_str(&printed(&format!("netperf -t {test} -l {length} -j --over {place}"))).unwrap();
            assert!(json["figure"].as_f64() > Some(0.0), "{place}: {json}");
            assert!(test != "UDP_STREAM" || json["received"]["messages"].as_u64() > Some(0), "{place}: {json}");
            assert_eq!(
                (&json["test"], &json["runs"], &json["cut"]),
                (&test.into(), &1.into(), &false.into()),
                "{place}"
            );
        }
    }
}

#[test]
fn testtool_moves_datagrams_over_ipv6() {
    for mode in ["send", "recv", "route", "route -p 2"] {
        let json: Value = serde_json::from_str(&printed(&format!("testtool -6 -c 2000 -b 32 -j {mode}"))).unwrap();
        assert_eq!((&json["imbalance"], json["sink_count"].as_u64() >= Some(2000)), (&0.into(), true), "{json}");
    }
    refused("testtool -6 --native send", 1, "over IPv4 only");
}

/// Runs each test and each tool of netrate over IPv6.
#[test]
fn tests_and_tools_run_over_ipv6() {
    const TESTS: [(&str, &str); 4] =
        [("TCP_STREAM", "-200000"), ("UDP_STREAM", "0.3"), ("TCP_CRR", "-50"), ("UDP_RR", "-50")];
    // All tests and tools where they take different ways, and two elsewhere.
    for (place, tests) in [
        ("pair", &TESTS[..]),
        ("nic --threads", &TESTS[2..]),
        ("router", &TESTS[2..]),
        ("router --threads", &TESTS[2..]),
        ("native", &TESTS[..]),
    ] {
        for (test, length) in tests {
            let json: Value =
                serde_json::from_str(&printed(&format!("netperf -6 -t {test} -l {length} -j --over {place}"))).unwrap();
            assert!(json["figure"].as_f64() > Some(0.0), "{place}: {json}");
            assert!(json["host"].as_str().is_some_and(|address| address.contains(':')), "{place}: {json}");
        }
        if tests.len() < TESTS.len() {
            continue;
        }
        for tool in ["tcpconnect -l 0.3", "netblast -l 0.3", "netsend -l 1 -r 100", "tcpp -b 100000 -m 4 -t 9"] {
            printed(&format!("netrate {tool} -6 --over {place}"));
        }
        assert!(
            printed(&format!("netrate http -6 -n 8 -s 0.3 --over {place}")).contains("\n0 errors/second"),
            "{place}"
        );
        assert!(
            printed(&format!("netrate juggle -6 --cycles 50 --over {place}")).contains("\nNUMCYCLES, 50\n"),
            "{place}"
        );
    }
    assert!(printed("netrate tcpp -6 -b 10000 -m 2 -t 5 -M 4").starts_with("50000 bytes transferred in "));
    let text = printed("netperf -6 -l -100000 --over native");
    assert!(text.starts_with("TCP STREAM TEST from ::0 (::) port 0 AF_INET6 to ::1 (::1) port 0 AF_INET6\n"), "{text}");
    refused("netperf -6 -H 10.0.0.1 --over native", 2, "-H 10.0.0.1 is an IPv4 address, but -6 selects IPv6");
    refused("netperf -4 -H ::1 --over native", 2, "-H ::1 is an IPv6 address, but -4 selects IPv4");
    refused("netperf -4 -6", 2, "cannot be used with");
    refused("netperf -H fe80::1 --port pair:x", 2, "link-local: give its interface");
    refused("netperf -H fe80::1%em9 --port pair:x", 2, "no interface 'em9'");
    refused("netrate tcpp -6 -M 2 -l 127.0.0.1", 2, "address family differs");
}

/// Runs both tests between our host and the kernel, and all tests between kernel sockets, over
/// IPv6.
#[test]
fn kernel_and_host_are_client_and_server_over_ipv6() {
    common::isolated("kernel_and_host_are_client_and_server_over_ipv6", || {
        for place in ["tap", "tap --from kernel", "veth", "veth --threads"] {
            for test in ["TCP_RR", "UDP_RR"] {
                let json = printed(&format!("netperf -6 -t {test} -l -50 -j --over {place}"));
                let json: Value = serde_json::from_str(&json).unwrap();
                assert!(json["figure"].as_f64() > Some(0.0), "{place}: {json}");
            }
        }
        let ip = |line: &str| Command::new("ip").args(line.split_whitespace()).status().is_ok_and(|s| s.success());
        let on = ["--port", "tap:lr3", "--mac", "02:00:00:00:00:02", "--addr", "fd09::2/64", "--addr", "10.9.3.2/24"];
        let server = Running::start_as("netserver-six", &[&["netserver"], &on[..]].concat());
        if !(ip("link set lr3 up") && ip("-6 addr add fd09::1/64 dev lr3 nodad") && ip("addr add 10.9.3.1/24 dev lr3"))
        {
            return println!("skipped: no ip(8)");
        }
        common::until("addresses", || {
            let near = Command::new("ip").args(["-6", "addr", "show", "dev", "lr3"]).output().unwrap();
            !server.ok("ip -6 addr").contains("tentative")
                && !String::from_utf8_lossy(&near.stdout).contains("tentative")
        });
        // The link-local address has the kernel's name of the interface. IPv4 reaches the same
        // server.
        for to in ["fd09::2", "fe80::ff:fe00:2%lr3", "10.9.3.2"] {
            for test in ["TCP_STREAM", "UDP_RR"] {
                let length = if test == "UDP_RR" { "-50" } else { "-500000" };
                let json = printed(&format!("netperf -H {to} --over native -t {test} -l {length} -j"));
                let json: Value = serde_json::from_str(&json).unwrap();
                assert!(json["figure"].as_f64() > Some(0.0), "{to}: {json}");
            }
        }
        // A socket with a link-local address is listed with the name of its interface.
        let stream = std::net::TcpStream::connect("[fe80::ff:fe00:2%2]:12865").or_else(|_| {
            let index = std::fs::read_to_string("/sys/class/net/lr3/ifindex").unwrap();
            std::net::TcpStream::connect(format!("[fe80::ff:fe00:2%{}]:12865", index.trim()))
        });
        let stream = stream.unwrap();
        common::until("the connection", || server.ok("ss -6tn").contains("ESTAB"));
        let listed = server.ok("ss -6tn");
        assert!(listed.contains("[fe80::ff:fe00:2]%lr3:12865"), "{listed}");
        assert!(
            !server.ok("ss -4ta").contains("fe80") && server.ok("netstat -n").contains("fe80::ff:fe00:2%lr3.12865")
        );
        drop(stream);
        let (code, out, _) = server.interrupt();
        assert_eq!(code, Some(0), "{out}");
    });
}

/// Our host connects to a netserver on the kernel's sockets, also by its link-local address.
#[test]
fn a_host_measures_the_kernel_over_ipv6() {
    common::isolated("a_host_measures_the_kernel_over_ipv6", || {
        let ip = |line: &str| Command::new("ip").args(line.split_whitespace()).status().is_ok_and(|s| s.success());
        let made = ip("tuntap add lr4 mode tap")
            && ip("link set lr4 address 02:00:00:00:00:01")
            && ip("-6 addr add fd09::1/64 dev lr4 nodad")
            && ip("link set lr4 up");
        if !made {
            return println!("skipped: no ip(8)");
        }
        let (mut server, port) = netserver(&["netserver"]);
        for to in ["fd09::1", "fe80::ff:fe00:1%lr4"] {
            let line =
                format!("netperf --port tap:lr4 --addr fd09::2/64 -H {to} -p {port} -t TCP_RR -l 0.2 -j -- -r 10");
            let json: Value = serde_json::from_str(&printed(&line)).unwrap();
            assert!(json["figure"].as_f64() > Some(0.0) && json["response"] == 10, "{to}: {json}");
        }
        interrupt(&server.0);
        assert_eq!(common::wait(&mut server.0), Some(0));
    });
}

#[test]
fn invalid_arguments_have_exit_code_two() {
    refused("netperf -t TCP_FAST", 2, "TCP_STREAM");
    refused("netperf -- -q", 2, "'-q'");
    refused("netperf -- -r 0", 2, "-r 0: expected 1 to");
    refused("netperf -t UDP_STREAM -- -m 70000", 2, "65507");
    refused("netperf -l 0", 2, "seconds");
    refused("netperf -I 90,5", 2, "95 or 99");
    refused("netperf -v 3", 2, "-v");
    refused("netperf --link speed=9", 2, "speed");
    refused("netperf --over native --link tso=on", 2, "--link");
    refused("netperf --from kernel", 2, "--from");
    refused("netperf -H 10.0.0.9", 2, "requires --over native or --port");
    refused("netperf --port null:a", 2, "-H");
    refused("netrate netblast -s 40000", 2, "32768");
    refused("netrate tcpp -m 2000", 2, "1024");
    refused("netrate http -n 257", 2, "256");
    refused("netrate http here", 2, "begins with /");
    refused(
        "netperf -H 127.0.0.1 -p 1 --over native -P 0",
        1,
        "cannot reach netserver at 127.0.0.1:1: connect: connection refused",
    );
}

#[test]
fn ctrl_c_prints_the_figures_so_far() {
    for place in ["pair", "native --threads", "router --threads"] {
        let words = format!("netperf -t TCP_STREAM -l 60 -j --over {place}");
        let mut command = linerate(&words.split_whitespace().collect::<Vec<_>>());
        let child = command.stdout(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(500));
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(json["cut"] == true && json["elapsed_s"].as_f64() < Some(30.0), "{place}: {json}");
    }
}

/// Starts a far end on the kernel's sockets. Returns it with its L4 port.
fn netserver(words: &[&str]) -> (Server, String) {
    let free = std::net::TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap().port().to_string();
    let mut command = linerate(&[words, &["--native", "-p", &free]].concat());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("L4 port"), "{line}");
    (Server(child), free)
}

/// A far end that is killed when dropped. Otherwise it would keep the pipe of the test's output
/// open.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn two_processes_by_the_kernel() {
    let (mut server, port) = netserver(&["netserver"]);
    for test in ["TCP_STREAM", "TCP_RR", "UDP_RR", "TCP_CRR"] {
        let line = format!("netperf -H 127.0.0.1 -p {port} --over native -t {test} -l 0.1 -j");
        let json: Value = serde_json::from_str(&printed(&line)).unwrap();
        assert!(json["figure"].as_f64() > Some(0.0), "{json}");
    }
    interrupt(&server.0);
    assert_eq!(common::wait(&mut server.0), Some(0));
}

#[test]
fn a_lost_far_end_is_reported() {
    let (mut server, port) = netserver(&["netserver"]);
    let words = format!("netperf -H 127.0.0.1 -p {port} --over native -t TCP_RR -l 30 -D 0.1 -P 0");
    let mut command = linerate(&words.split_whitespace().collect::<Vec<_>>());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    lines.read_line(&mut first).unwrap();
    assert!(first.starts_with("Interim result: "), "the test is under way: {first}");
    server.0.kill().unwrap();
    server.0.wait().unwrap();
    let output = child.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && printed.contains("TCP_RR"), "{printed}");
}

#[test]
fn over_tap_from_both_sides() {
    common::isolated("over_tap_from_both_sides", || {
        for from in ["ours", "kernel"] {
            for test in ["TCP_STREAM", "TCP_MAERTS", "UDP_STREAM", "TCP_RR", "TCP_CRR", "UDP_RR"] {
                let line = format!("netperf -t {test} -l 0.1 -j --over tap --from {from} -- -m 1400");
                let json: Value = serde_json::from_str(&printed(&line)).unwrap();
                assert!(json["figure"].as_f64() > Some(0.0), "{from}: {json}");
            }
        }
    });
}

#[test]
fn over_veth_the_kernel_is_host_router_and_host() {
    common::isolated("over_veth_the_kernel_is_host_router_and_host", || {
        for (test, flags) in [
            ("TCP_STREAM", ""),
            ("TCP_STREAM", "--link tso=off"),
            ("TCP_RR", "--threads"),
            ("TCP_CRR", ""),
            ("UDP_RR", ""),
        ] {
            let line = format!("netperf -t {test} -l 0.2 -j --over veth {flags} -- -r 1,1");
            let json: Value = serde_json::from_str(&printed(&line)).unwrap();
            assert!(json["figure"].as_f64() > Some(0.0), "{flags}: {json}");
        }
        let counted = printed("netrate tcpconnect -l 0.2 --over veth");
        assert!(!counted.starts_with("0 count"), "{counted}");
    });
}

#[test]
fn a_host_serves_the_kernel_over_tap() {
    common::isolated("a_host_serves_the_kernel_over_tap", || {
        let server = Running::start_as("netserver", &["netserver", "--port", "tap:lr0", "--addr", "10.9.0.2/24"]);
        let ip = |line: &str| Command::new("ip").args(line.split_whitespace()).status().is_ok_and(|s| s.success());
        if !(ip("link set lr0 up") && ip("addr add 10.9.0.1/24 dev lr0")) {
            return println!("skipped: no ip(8)");
        }
        let json: Value =
            serde_json::from_str(&printed("netperf -H 10.9.0.2 --over native -t TCP_RR -l 0.2 -j")).unwrap();
        assert!(json["figure"].as_f64() > Some(0.0), "{json}");
        let (code, out, _) = server.interrupt();
        assert_eq!(code, Some(0), "{out}");
    });
}

/// RFC 1122 4.1.3.5: the reply to a request at an alias has the address of the alias. The kernel's
/// socket is connected to that address and drops datagrams from other addresses, so without this
/// rule there would be no responses.
#[test]
fn a_netserver_replies_from_an_alias() {
    common::isolated("a_netserver_replies_from_an_alias", || {
        let server = Running::start_as("netserver-alias", &["netserver", "--port", "tap:lr2", "--addr", "10.9.2.2/24"]);
        let ip = |line: &str| Command::new("ip").args(line.split_whitespace()).status().is_ok_and(|s| s.success());
        if !(ip("link set lr2 up") && ip("addr add 10.9.2.1/24 dev lr2") && ip("addr add 10.8.2.1/24 dev lr2")) {
            return println!("skipped: no ip(8)");
        }
        server.ok("ifconfig lr2 inet 10.9.2.7/24 alias");
        server.ok("ifconfig lr2 inet 10.8.2.7/24 alias");
        for to in ["10.9.2.7", "10.9.2.2", "10.8.2.7"] {
            let line = format!("netperf -H {to} --over native -t UDP_RR -l -50 -j");
            let json: Value = serde_json::from_str(&printed(&line)).unwrap();
            assert_eq!((&json["messages"], &json["cut"]), (&50.into(), &false.into()), "{to}: {json}");
        }
        let (code, out, _) = server.interrupt();
        assert_eq!(code, Some(0), "{out}");
    });
}

#[test]
fn a_host_measures_the_kernel_over_tap() {
    common::isolated("a_host_measures_the_kernel_over_tap", || {
        let ip = |line: &str| Command::new("ip").args(line.split_whitespace()).status().is_ok_and(|s| s.success());
        if !(ip("tuntap add lr1 mode tap") && ip("addr add 10.9.1.1/24 dev lr1") && ip("link set lr1 up")) {
            return println!("skipped: no ip(8)");
        }
        let (mut server, port) = netserver(&["netserver"]);
        let line =
            format!("netperf --port tap:lr1 --addr 10.9.1.2/24 -H 10.9.1.1 -p {port} -t TCP_RR -l 0.2 -j -- -r 10");
        let json: Value = serde_json::from_str(&printed(&line)).unwrap();
        assert!(json["figure"].as_f64() > Some(0.0) && json["response"] == 10, "{json}");
        interrupt(&server.0);
        assert_eq!(common::wait(&mut server.0), Some(0));
    });
}

/// Returns the number in the first line that begins with `before` and ends with `behind`.
#[track_caller]
fn number(text: &str, before: &str, behind: &str) -> u64 {
    let found = text.lines().find_map(|line| line.strip_prefix(before)?.strip_suffix(behind)?.trim().parse().ok());
    found.unwrap_or_else(|| panic!("no {before}{behind}: {text}"))
}

#[test]
fn netrates_tools_print_their_lines() {
    for place in ["pair", "native", "router --threads"] {
        let text = printed(&format!("netrate tcpconnect -l 0.3 --over {place}"));
        assert!(number(&text, "", " count") > 0, "{place}: {text}");
        let text = printed(&format!("netrate netblast -l 0.3 --over {place}"));
        let (calls, errors) = (number(&text, "send calls:", ""), number(&text, "send errors:", ""));
        assert!(calls > errors && text.contains("\napprox error rate: "), "{place}: {text}");
        assert!(
            printed(&format!("netrate tcpp -b 100000 -m 4 -t 9 --over {place}"))
                .starts_with("900000 bytes transferred in ")
        );
        let text = printed(&format!("netrate http -n 8 -s 0.3 --over {place}"));
        assert!(number(&text, "", " transfers/second") > 0 && text.contains("\n0 errors/second"), "{place}: {text}");
        let text = printed(&format!("netrate http -n 2 -s 0.2 --over {place} /nowhere"));
        assert!(text.starts_with("0 transfers/second") && number(&text, "", " errors/second") > 0, "{text}");
    }
    assert_eq!(
        printed("netrate netsend -l 1 -r 100"),
        "Sending packet of payload size 22 every 0.010000000 for 1 seconds\n"
    );
    let text = printed("netrate juggle --cycles 100");
    assert!(text.contains("\nNUMCYCLES, 100\n"), "{text}");
    assert_eq!(text.lines().filter(|line| line.contains(", juggle, ")).count(), 10, "{text}");
    let text = printed("netrate juggle --descriptors --cycles 32");
    for manner in ["juggle", "thread_juggle", "process_juggle"] {
        for channel in ["pipe", "udp", "socket_dgram", "socket_stream"] {
            let lines = text.lines().filter(|line| line.starts_with(&format!("{channel}, {manner}, "))).count();
            assert_eq!(lines, 5, "{channel} {manner}: {text}");
        }
    }
}

/// Flags of tcpp and http, on our stack and on the kernel's.
#[test]
fn netrates_flags_take_effect() {
    for place in ["pair", "native", "nic --threads", "native --threads"] {
        let text = printed(&format!("netrate tcpp -b 10000 -m 2 -t 5 --procs 3 -M 4 -T --over {place}"));
        assert!(text.starts_with("150000 bytes transferred in "), "{place}: {text}");
        let shares =
            text.lines().last().unwrap().split('\t').map(|share| share.trim_end_matches('%').parse::<f64>().unwrap());
        assert!(text.contains("user%\tnice%\tsys%\tintr%\tidle%") && shares.count() == 5, "{place}: {text}");
    }
    for place in ["pair", "native"] {
        let text = printed(&format!("netrate http -t -n 5 -s 0.3 --over {place}"));
        assert!(number(&text, "", " transfers/second") > 0 && text.contains("\n0 errors/second"), "{place}: {text}");
    }
    refused("netrate http -t -n 49", 2, "at most 48");
    refused("netrate http -t --over veth", 2, "over pair, nic or native");
    refused("netrate tcpp --procs 17", 2, "16");
    refused("netrate tcpp --procs 16 -m 100", 2, "maximum of 1024");
    refused("netrate tcpp -M 3 --over veth", 2, "over pair, nic, router or native");
    refused("netrate tcpp -l 127.0.0.1", 2, "-M");
    // An address that the near end does not have.
    refused("netrate tcpp -M 2 -l 10.9.9.9 -b 1", 1, "connect");
}
