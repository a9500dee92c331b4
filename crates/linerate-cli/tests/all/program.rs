//! `run`: unmodified programs on the sockets of a host, with peers of the kernel.

mod states;

use crate::common::{Daemon, has_all, isolated, kernel, linerate, printed, run, run_within, until};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Flags of a host behind the device of [`kernel_side`].
const HOST: [&str; 5] = ["run", "--port", "tap:t0", "--addr", "10.0.0.2/24"];
const LIMIT: Duration = Duration::from_secs(60);

/// Gives the kernel a TAP device with the address 10.0.0.1.
fn kernel_side() {
    kernel("tuntap add dev t0 mode tap");
    kernel("addr add 10.0.0.1/24 dev t0");
    kernel("link set t0 up");
    kernel("link set lo up");
}

/// Returns a command that runs `program` behind the device.
fn behind(program: &[&str]) -> Command {
    linerate(&[&HOST[..], &["--"], program].concat())
}

/// Returns exit code, standard output and standard error of a command.
fn within_limit(command: &mut Command) -> (Option<i32>, String, String) {
    printed(&run_within(command, LIMIT))
}

fn is_answered(port: u16) -> bool {
    run(Command::new("nc").args(["-z", "-w", "1", "10.0.0.2", &port.to_string()])).status.success()
}

/// curl, a client with non-blocking sockets and poll(2).
#[test]
fn a_client_gets_pages_of_a_server_of_the_kernel() {
    let test = "a_client_gets_pages_of_a_server_of_the_kernel";
    isolated(test, || {
        if !has_all(test, &["curl", "nc"]) {
            return;
        }
        kernel_side();
        let page = "HTTP/1.0 200 OK\r\n\r\nhello from the kernel\n";
        let serve = format!("printf '{page}' | nc -l -N 10.0.0.1 8000");
        let server = Daemon::start(Command::new("bash").args(["-c", &serve]));
        let (code, stdout, stderr) =
            within_limit(&mut behind(&["curl", "-sS", "--retry-connrefused", "--retry", "5", "http://10.0.0.1:8000/"]));
        assert_eq!((code, stdout.as_str()), (Some(0), "hello from the kernel\n"), "{stderr}");
        server.terminate();
        // Refused, and a host that does not answer.
        let (code, _, stderr) = within_limit(&mut behind(&["curl", "-sS", "http://10.0.0.1:9/"]));
        assert_eq!(code, Some(7), "{stderr}");
        let (code, _, stderr) = within_limit(&mut behind(&["curl", "-sS", "-m", "1", "http://10.0.0.99/"]));
        assert_eq!(code, Some(28), "{stderr}");
        // A blocking connect, and the audit.
        let (code, _, stderr) = within_limit(&mut linerate(
            &[&HOST[..], &["--audit", "--", "bash", "-c", "exec 3<>/dev/tcp/10.0.0.1/9"]].concat(),
        ));
        assert!(code == Some(1) && stderr.contains("Connection refused"), "{code:?} {stderr}");
        let imbalance = stderr.lines().find_map(|line| line.split_once("imbalance")).map(|(_, count)| count.trim());
        assert_eq!(imbalance, Some("0"), "{stderr}");
    });
}

/// Servers with epoll, several processes, and addresses of peers.
#[test]
fn servers_serve_clients_of_the_kernel() {
    let test = "servers_serve_clients_of_the_kernel";
    isolated(test, || {
        if !has_all(test, &["redis-server", "redis-cli", "iperf3", "nc"]) {
            return;
        }
        kernel_side();
        let redis = ["redis-server", "--port", "6400", "--save", "", "--protected-mode", "no"];
        let server = Daemon::start(behind(&redis).stdout(Stdio::null()));
        until("redis answers", || is_answered(6400));
        let client =
            |words: &[&str]| within_limit(Command::new("redis-cli").args(["-h", "10.0.0.2", "-p", "6400"]).args(words));
        assert_eq!(client(&["set", "key", "value"]).1, "OK\n");
        assert_eq!(client(&["get", "key"]).1, "value\n");
        let list = client(&["client", "list"]).1;
        assert!(list.contains(" addr=10.0.0.1:") && list.contains(" laddr=10.0.0.2:6400 "), "{list}");
        server.terminate();

        let server = Daemon::start(behind(&["iperf3", "-s"]).stdout(Stdio::null()));
        until("iperf3 measures both directions", is_answered_by_iperf3);
        server.terminate();
    });
}

/// Returns whether a short measurement in both directions succeeds.
fn is_answered_by_iperf3() -> bool {
    run(Command::new("iperf3").args(["-c", "10.0.0.2", "-t", "1", "--bidir"])).status.success()
}

/// Both programs are on one host without a port, as an ordinary user.
#[test]
fn programs_of_one_host_reach_each_other() {
    let test = "programs_of_one_host_reach_each_other";
    isolated(test, || {
        if !has_all(test, &["redis-server", "redis-cli"]) {
            return;
        }
        let script = "redis-server --port 6401 --save '' --daemonize no >/dev/null & server=$!
            for i in $(seq 100); do redis-cli -p 6401 ping 2>/dev/null | grep -q PONG && break; sleep 0.1; done
            redis-cli -p 6401 set a b; redis-cli -p 6401 get a; kill $server; wait $server; exit 7";
        let (code, stdout, stderr) = within_limit(&mut linerate(&["run", "--", "bash", "-c", script]));
        assert_eq!((code, stdout.as_str()), (Some(7), "OK\nb\n"), "{stderr}");
    });
}

/// Programs that cannot run, and sockets without a route.
#[test]
fn nothing_passes_the_host_by_and_errors_are_those_of_a_shell() {
    let test = "nothing_passes_the_host_by_and_errors_are_those_of_a_shell";
    isolated(test, || {
        let code = |program: &[&str]| within_limit(&mut linerate(&[&["run", "--"], program].concat()));
        let (is, _, stderr) = code(&["/nonexistent/program"]);
        assert!(is == Some(127) && stderr.contains("run: cannot start /nonexistent/program"), "{stderr}");
        assert_eq!(code(&[concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]).0, Some(126));
        assert_eq!(code(&["bash", "-c", "kill -KILL $$"]).0, Some(137));
        assert_eq!(code(&["true"]).0, Some(0));
        // The namespace has a loopback device alone.
        let (_, stdout, _) = code(&["bash", "-c", "ls /sys/class/net 2>/dev/null; cat /proc/net/dev"]);
        assert!(stdout.contains("lo:") && !stdout.contains("t0:"), "{stdout}");
        let (is, _, stderr) = code(&["bash", "-c", "exec 3<>/dev/udp/10.0.0.1/53"]);
        assert!(is == Some(1) && stderr.contains("Network is unreachable"), "{stderr}");
    });
}

/// A program that moves sockets through all states reports the same behind the filter and on the
/// kernel's sockets.
#[test]
fn sockets_behave_as_those_of_the_kernel_in_every_state() {
    let test = "sockets_behave_as_those_of_the_kernel_in_every_state";
    isolated(test, || {
        kernel("link set lo up");
        let this = std::env::current_exe().unwrap();
        let program = [this.to_str().unwrap(), "--exact", states::NAME, "--nocapture"];
        let reported = |command: &mut Command| {
            let (code, stdout, stderr) = within_limit(command.env(states::IS_PROGRAM, "1"));
            assert_eq!(code, Some(0), "{stdout}{stderr}");
            let lines = stdout.lines().filter_map(|line| line.split_once(states::MARK));
            lines.map(|(_, state)| state.to_owned()).collect::<Vec<_>>()
        };
        let on_kernel = reported(Command::new(program[0]).args(&program[1..]));
        let behind = reported(&mut linerate(&[&["run", "--"], &program[..]].concat()));
        assert!(on_kernel.len() > 20, "{on_kernel:?}");
        assert_eq!(behind, on_kernel);
    });
}
