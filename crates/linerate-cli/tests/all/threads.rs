//! A host that is run by several threads, at a TAP device with several queues, with the kernel at
//! the other end.

use crate::common::{Dir, isolated, kernel, linerate, run, until};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// Number of flows, large enough that every queue has at least one.
const FLOWS: u16 = 16;
const DATAGRAMS: u32 = 300;

/// Sends numbers over one flow and receives them back in order.
fn talk(port: u16) {
    let socket = UdpSocket::bind(("10.5.0.2", port)).unwrap();
    socket.connect(("10.5.0.1", 7)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    for n in 0..DATAGRAMS {
        let mut got = [0; 8];
        socket.send(&n.to_be_bytes()).unwrap();
        assert_eq!(socket.recv(&mut got).unwrap(), 4);
        assert_eq!(u32::from_be_bytes(*got.first_chunk().unwrap()), n, "flow {port}");
    }
}

/// Returns the cores of a process's thread with that name.
fn cores_of(pid: u32, thread: &str) -> Option<String> {
    let read = |path: &std::path::Path, file| std::fs::read_to_string(path.join(file)).unwrap_or_default();
    let mut tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().map(|task| task.unwrap().path());
    let status = read(&tasks.find(|task| read(task, "comm").trim() == thread)?, "status");
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(line.trim().to_owned())
}

/// Runs a host of `threads` threads, the first pinned; returns its ports and its audit.
fn served(threads: u16) -> (serde_json::Value, serde_json::Value) {
    let (dir, core) = (Dir::new("threads"), dispatch::core_at(0));
    let file = dir.file(
        "host.toml",
        format!(
            "[[host]]\nname = 'wide'\nlocks = 'light'\nthreads = {threads}\ncore = {core}\n\
             [[host.iface]]\nport = 'tap(queues=2):t0'\naddresses = ['10.5.0.1/24', 'fd05::1/64']\n\
             [[host.service]]\nkind = 'echo'\n"
        ),
    );
    let mut up = linerate(&["up", &file, "--control-dir", &dir.path("")]);
    let mut child = up.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let url = format!("unix://{}", dir.path("wide.sock"));
    let ask = |words: &[&str]| {
        let reported = run(&mut linerate(&[&["ctl", "--wait=10s", "--url", &url, "--json"], words].concat()));
        assert!(reported.status.success(), "{reported:?}");
        serde_json::from_slice::<serde_json::Value>(&reported.stdout).unwrap_or_default()
    };
    ask(&["show", "ports"]);
    let lines = ["addr add 10.5.0.2/24 dev t0", "addr add fd05::2/64 dev t0 nodad", "link set t0 up"];
    lines.into_iter().for_each(kernel);
    let behind = (threads > 2).then(|| dispatch::core_at(core + 1).to_string());
    until("a thread on a core behind the first", || cores_of(child.id(), "wide.ports1") == behind);
    assert_eq!(cores_of(child.id(), "wide"), Some(core.to_string()));
    thread::scope(|scope| (0..FLOWS).for_each(|flow| _ = scope.spawn(move || talk(9000 + flow))));
    let ping = |of: &str| run(Command::new("ping").args(["-c1", "-W1", of])).status.success();
    until("an answer over both families", || ping("10.5.0.1") && ping("fd05::1"));
    let (ports, audit) = (ask(&["show", "ports"]), ask(&["audit"]));
    ask(&["stop"]);
    assert_eq!(crate::common::wait(&mut child), Some(0));
    (ports, audit)
}

#[test]
fn two_threads_share_a_tap_of_two_queues() {
    isolated("two_threads_share_a_tap_of_two_queues", || {
        // The threads are the first one, one that serves, and one for a part of the ports. With two
        // threads, there is none for the ports.
        for (threads, queues) in [(3, 2), (2, 2), (1, 1)] {
            let (ports, audit) = served(threads);
            let rows = ports.as_array().unwrap();
            assert_eq!(rows.len(), queues, "{ports}");
            for (at, row) in rows.iter().enumerate() {
                assert_eq!((&row["ifname"], &row["queue"]), (&"t0".into(), &at.into()), "{row}");
                assert!(row["counters"]["port.rx.frames"].as_u64() > Some(0), "nothing came by queue {at}: {ports}");
            }
            let sent: u64 = rows.iter().map(|row| row["counters"]["port.tx.frames"].as_u64().unwrap()).sum();
            assert!(sent >= u64::from(DATAGRAMS) * u64::from(FLOWS), "{ports}");
            for name in ["imbalance", "held"] {
                assert_eq!(audit[name], 0, "{audit}");
            }
            assert_eq!((&audit["ports"]["rx_imbalance"], &audit["ports"]["tx_imbalance"]), (&0.into(), &0.into()));
        }
    });
}
