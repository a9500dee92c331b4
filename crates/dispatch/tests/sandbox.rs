//! Tests the sandbox in a separate process: rights of all threads, allowed and refused system
//! calls.
//!
//! A process cannot leave its sandbox. Each test therefore runs this program again, with the role
//! for [`child`] in an environment variable, and checks its output.
#![allow(unsafe_code)] // unsafe code makes forbidden system calls

use linerate_dispatch::sandbox::{Confine, Needs, Sandbox, User, port_rights, refused};
use std::io;
use std::process::{Command, Output};
use std::sync::mpsc;

const ROLE: &str = "SANDBOX_TEST_ROLE";

/// Runs [`child`] with the given role in a separate process. Returns its output.
fn run(role: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", "child", "--nocapture"]).env(ROLE, role).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{role}: {}: {text}", output.status);
    output
}

fn is_root() -> bool {
    // SAFETY: no arguments, no failure.
    unsafe { libc::geteuid() == 0 }
}

fn sandbox(needs: Needs) -> Sandbox {
    Sandbox { user: None, confine: Confine::On, needs }
}

/// Returns the value of `key` in /proc/self/task/*/status, for each thread of this process.
fn of_threads(key: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks.map(|task| of(&std::fs::read_to_string(task.unwrap().path().join("status")).unwrap(), key)).collect()
}

fn of(status: &str, key: &str) -> String {
    let line = status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {key}")).trim().to_owned()
}

/// Checks that `key` has the value `value` in each thread, and that there are at least `threads`
/// threads.
#[track_caller]
fn all(key: &str, value: &str, threads: usize) {
    let found = of_threads(key);
    assert!(found.len() >= threads, "{found:?}");
    assert!(found.iter().all(|found| found == value), "{key}: {found:?}, not {value}");
}

fn errno(result: libc::c_long) -> Option<i32> {
    (result < 0).then(|| io::Error::last_os_error().raw_os_error().unwrap())
}

fn socket(family: libc::c_int, kind: libc::c_int) -> Option<i32> {
    // SAFETY: the arguments are three numbers; the descriptor is closed when the process ends.
    errno(unsafe { libc::socket(family, kind, 0) }.into())
}

/// Runs the role given in the environment. Does nothing without a role, as in a usual run of the
/// tests.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.as_str() {
        "threads" => threads(),
        "user" => user(),
        "ports" => ports(),
        "kernel" => kernel(),
        "refused" => refused_calls(),
        other => panic!("no role {other}"),
    }
}

/// Threads that run or sleep when the sandbox is entered are confined, and so are threads that
/// start later.
fn threads() {
    let (done, wait) = mpsc::channel::<()>();
    let sleeping = std::thread::spawn(move || _ = wait.recv());
    let spinning = std::thread::spawn(|| {
        while refused() == 0 {
            std::hint::spin_loop();
        }
    });
    assert_eq!(sandbox(Needs::default()).enter().unwrap(), None);
    let (later, until) = mpsc::channel::<()>();
    let begun = std::thread::spawn(move || _ = until.recv());
    for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
        all(set, "0000000000000000", 4);
    }
    if is_root() {
        all("CapBnd", "0000000000000000", 4);
    }
    all("NoNewPrivs", "1", 4);
    all("Seccomp", "2", 4);
    assert_eq!(socket(libc::AF_INET, libc::SOCK_RAW), Some(libc::EPERM));
    drop((done, later));
    sleeping.join().unwrap();
    begun.join().unwrap();
    spinning.join().unwrap();
}

/// User, group and supplementary groups change on all threads. Capabilities for ports stay
/// permitted but are not effective.
fn user() {
    let (done, wait) = mpsc::channel::<()>();
    let other = std::thread::spawn(move || _ = wait.recv());
    let permitted = || u64::from_str_radix(&of_threads("CapPrm")[0], 16).unwrap();
    let before = permitted();
    let user = Some(User { uid: 12_345, gid: 23_456, groups: vec![23_456, 34_567] });
    let needs = Needs { live_ports: true, ..Needs::default() };
    Sandbox { user, needs, confine: Confine::On }.enter().unwrap();
    all("Uid", "12345\t12345\t12345\t12345", 2);
    all("Gid", "23456\t23456\t23456\t23456", 2);
    all("Groups", "23456 34567", 2);
    all("CapEff", "0000000000000000", 2);
    all("CapBnd", "0000000000000000", 2);
    let needed = 1 << 12 | 1 << 13 | 1 << 14 | 1 << 39; // CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK, CAP_BPF
    assert_eq!(permitted(), before & needed, "of {before:x}");
    drop(done);
    other.join().unwrap();
}

/// A port can be opened later. The capabilities for it are effective only while it is opened.
fn ports() {
    sandbox(Needs { live_ports: true, ..Needs::default() }).enter().unwrap();
    assert_eq!(socket(libc::AF_PACKET, libc::SOCK_RAW), Some(libc::EPERM), "CAP_NET_RAW is not effective");
    {
        let _rights = port_rights();
        assert_eq!(socket(libc::AF_PACKET, libc::SOCK_RAW), None);
    }
    assert_eq!(socket(libc::AF_PACKET, libc::SOCK_RAW), Some(libc::EPERM));
    assert_eq!(refused(), 0, "the kernel refused the call, not the filter");
    assert_eq!(socket(libc::AF_INET, libc::SOCK_DGRAM), Some(libc::EPERM));
    assert_eq!(refused(), 1);
}

/// TCP and UDP sockets of the kernel can be opened, raw sockets cannot.
fn kernel() {
    sandbox(Needs { kernel_sockets: true, ..Needs::default() }).enter().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    assert_eq!(refused(), 0);
    assert_eq!(socket(libc::AF_INET, libc::SOCK_RAW), Some(libc::EPERM));
    assert_eq!(socket(libc::AF_NETLINK, libc::SOCK_RAW), Some(libc::EPERM));
    assert_eq!(refused(), 2);
}

/// A call that is not on the list fails with EPERM, is counted, and is reported on standard error.
/// The process continues.
fn refused_calls() {
    sandbox(Needs::default()).enter().unwrap();
    assert_eq!(socket(libc::AF_INET, libc::SOCK_STREAM), Some(libc::EPERM));
    // SAFETY: the calls fail before they access their arguments.
    unsafe {
        let null = std::ptr::null::<libc::c_char>();
        let call = |result: libc::c_long| errno(result);
        assert_eq!(call(libc::syscall(libc::SYS_execve, null, null, null)), Some(libc::EPERM));
        assert_eq!(call(libc::syscall(libc::SYS_ptrace, 0, 0, 0, 0)), Some(libc::EPERM));
        assert_eq!(call(libc::syscall(libc::SYS_unshare, libc::CLONE_NEWUSER)), Some(libc::EPERM));
        assert_eq!(call(libc::syscall(libc::SYS_bpf, 0, null, 0)), Some(libc::EPERM));
        assert_eq!(call(libc::syscall(libc::SYS_capset, null, null)), Some(libc::EPERM));
        assert_eq!(call(libc::syscall(libc::SYS_kill, libc::getppid(), 0)), Some(libc::EPERM));
        assert_eq!(call(libc::syscall(libc::SYS_tgkill, libc::getppid(), 1, 0)), Some(libc::EPERM));
        assert_eq!(call(libc::syscall(libc::SYS_io_uring_setup, 0, null)), Some(libc::EPERM));
        let options = libc::PR_SET_SECUREBITS;
        assert_eq!(call(libc::syscall(libc::SYS_prctl, options, 0, 0, 0, 0)), Some(libc::EPERM));
        // An ioctl that inserts input into a terminal.
        assert_eq!(call(libc::syscall(libc::SYS_ioctl, 0, libc::TIOCSTI, null)), Some(libc::EPERM));
        let (executable, anonymous) = (libc::PROT_READ | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANON);
        assert_eq!(libc::mmap(std::ptr::null_mut(), 4096, executable, anonymous, -1, 0), libc::MAP_FAILED);
        assert_eq!(refused(), 12);
        // The C library then falls back to clone(2).
        assert_eq!(call(libc::syscall(libc::SYS_clone3, null, 0)), Some(libc::ENOSYS));
        let process = libc::SIGCHLD;
        assert_eq!(call(libc::syscall(libc::SYS_clone, process, 0, 0, 0, 0)), Some(libc::EPERM), "no new process");
    }
    assert_eq!(refused(), 13);
    for _ in 0..100 {
        assert_eq!(socket(libc::AF_INET, libc::SOCK_STREAM), Some(libc::EPERM));
    }
    assert_eq!(refused(), 113);
    // The operations that servers need still work.
    let file = std::env::temp_dir().join(format!("sandbox-{}", std::process::id()));
    std::fs::write(&file, "text").unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"text");
    std::fs::remove_file(&file).unwrap();
    std::os::unix::net::UnixDatagram::unbound().unwrap();
    std::thread::spawn(|| std::thread::sleep(std::time::Duration::from_millis(1))).join().unwrap();
    assert_eq!(refused(), 113);
}

#[test]
fn all_threads_lose_their_rights() {
    run("threads");
}

#[test]
fn user_and_groups_change_on_all_threads() {
    if !is_root() {
        println!("skipped: changing the user requires root");
        return;
    }
    run("user");
}

#[test]
fn ports_can_be_opened_later() {
    if !is_root() {
        println!("skipped: a packet socket requires root");
        return;
    }
    run("ports");
}

#[test]
fn a_server_on_the_kernels_sockets_opens_tcp_and_udp() {
    run("kernel");
}

#[test]
fn forbidden_calls_fail_with_a_line_that_names_them() {
    let output = run("refused");
    let text = String::from_utf8_lossy(&output.stderr);
    for name in ["socket", "execve", "ptrace", "unshare", "bpf", "capset", "tgkill", "ioctl", "mmap", "clone"] {
        let line = format!(" ({name}) is not allowed (EPERM); --no-sandbox allows all");
        let is_it = |said: &str| said.starts_with("linerate: sandbox: system call ") && said.ends_with(&line);
        assert!(text.lines().any(is_it), "{name}: {text}");
    }
    assert_eq!(text.matches("is not allowed").count(), 16, "a loop must not fill a log: {text}");
}
