//! Starts the program and sends commands to it, with time limits, so that no test can hang.

pub mod bgp;
pub mod driven;
pub mod frr;

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub const PATIENCE: Duration = Duration::from_secs(150);
const INSIDE: &str = "LINERATE_IN_NS";

/// Returns a command that runs `linerate` with `words`.
pub fn linerate(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linerate"));
    command.args(words).env_remove("LINERATE_CTL");
    command
}

/// A running host with its control socket. It is ended when dropped.
pub struct Running {
    pub child: Child,
    pub socket: PathBuf,
    /// Thread that drains standard output: a pipe that is not read blocks the host after 64 KiB.
    stdout: Option<std::thread::JoinHandle<String>>,
    stderr: Option<std::thread::JoinHandle<String>>,
}

impl Running {
    /// Starts `linerate host FLAGS --control SOCKET` and waits until it runs.
    pub fn start(name: &str, flags: &[&str]) -> Running {
        Running::start_as(name, &[&["host"], flags].concat())
    }

    /// Starts `linerate WORDS --control SOCKET`, a command that creates a host from flags, and
    /// waits until it runs.
    pub fn start_as(name: &str, words: &[&str]) -> Running {
        let socket = unused_path(name);
        let path = socket.display().to_string();
        let mut command = linerate(words);
        command.args(["--control", &path]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        lines.read_line(&mut first).unwrap();
        assert!(first.contains("running; control"), "{first}");
        let (stdout, stderr) = (Some(reader(child.stdout.take().unwrap())), Some(reader(lines)));
        Running { child, socket, stdout, stderr }
    }

    pub fn url(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Runs `linerate ctl WORDS`.
    pub fn ctl(&self, line: &str) -> Output {
        let url = self.url();
        let mut words = vec!["ctl", "--url", &url];
        words.extend(line.split_whitespace());
        run(&mut linerate(&words))
    }

    #[track_caller]
    pub fn ok(&self, line: &str) -> String {
        let output = self.ctl(line);
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    pub fn no(&self, line: &str) -> String {
        let output = self.ctl(line);
        assert_eq!(output.status.code(), Some(1), "{line}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    #[track_caller]
    pub fn json(&self, line: &str) -> serde_json::Value {
        serde_json::from_str(&self.ok(&format!("-j {line}"))).unwrap()
    }

    /// Sends SIGINT and waits. Returns the exit code, standard output, and standard error after the
    /// start.
    pub fn interrupt(self) -> (Option<i32>, String, String) {
        // The child has not been waited for, so its process number is not reused.
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        self.wait()
    }

    /// Interrupts the host, which must exit with 0 and account for every frame.
    #[track_caller]
    pub fn end(self) {
        let (code, out, err) = self.interrupt();
        assert!(code == Some(0) && format!("{out}{err}").contains("imbalance           0"), "{out}{err}");
    }

    /// Waits until the host ends by itself. Returns the same values as [`Running::interrupt`].
    pub fn wait(mut self) -> (Option<i32>, String, String) {
        let status = wait(&mut self.child);
        let out = self.stdout.take().unwrap().join().unwrap();
        let err = self.stderr.take().unwrap().join().unwrap();
        (status, out, err)
    }
}

fn reader(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut all = String::new();
        from.read_to_string(&mut all).unwrap();
        all
    })
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// A stock server, killed when dropped.
pub struct Daemon(Child);

impl Daemon {
    /// Starts the server without output.
    #[track_caller]
    pub fn start(command: &mut Command) -> Daemon {
        Daemon(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Starts the stock server of iperf3 and waits until it serves.
    #[track_caller]
    pub fn iperf3() -> Daemon {
        let server = Daemon::start(Command::new("iperf3").arg("-s"));
        // Checks for port 5201 in hexadecimal digits in /proc, since a connection would occupy the
        // server.
        until("iperf3 -s", || std::fs::read_to_string("/proc/self/net/tcp6").unwrap().contains(":1451 "));
        server
    }

    /// Sends a signal to the server.
    #[track_caller]
    pub fn signal(&self, name: &str) {
        let signal = format!("-{name}");
        assert!(Command::new("kill").args([&signal, &self.0.id().to_string()]).status().unwrap().success());
    }

    /// Ends the server by SIGTERM.
    #[track_caller]
    pub fn terminate(mut self) {
        self.signal("TERM");
        wait(&mut self.0);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for the child, for at most [`PATIENCE`].
pub fn wait(child: &mut Child) -> Option<i32> {
    wait_within(child, PATIENCE)
}

fn wait_within(child: &mut Child, patience: Duration) -> Option<i32> {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            end_group(child.id());
            panic!("the program did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a command to its end, for at most [`PATIENCE`].
pub fn run(command: &mut Command) -> Output {
    run_within(command, PATIENCE)
}

/// Runs a command to its end, for at most `patience`.
pub fn run_within(command: &mut Command, patience: Duration) -> Output {
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let read_err = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        err.read_to_end(&mut bytes).unwrap();
        bytes
    });
    let read_out = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        out.read_to_end(&mut bytes).unwrap();
        bytes
    });
    wait_within(&mut child, patience);
    let status = child.wait().unwrap();
    if !status.success() {
        end_group(child.id());
    }
    Output { status, stdout: read_out.join().unwrap(), stderr: read_err.join().unwrap() }
}

/// Kills the remaining process group of a failed command, which would hold the pipes open. After
/// success nothing is killed, since bash does not wait for its `>( )`, whose files must become
/// complete.
fn end_group(leader: u32) {
    let kill = ["-KILL", "--", &format!("-{leader}")];
    let _ = Command::new("kill").args(kill).stderr(Stdio::null()).status();
}

/// Checks that `linerate LINE` ends with `code` and prints one line with `why` on standard error.
#[track_caller]
pub fn refused(line: &str, code: i32, why: &str) {
    let output = run(&mut linerate(&line.split_whitespace().collect::<Vec<_>>()));
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{line}: {printed}");
    assert!(printed.contains(why) && printed.trim_end().lines().count() == 1, "{line}: {printed}");
}

/// Returns a path for temporary files that is unique within the test program.
fn unused_path(name: &str) -> PathBuf {
    static USED: AtomicU32 = AtomicU32::new(0);
    let number = USED.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("lr-cli-{}-{number}-{name}", std::process::id()))
}

/// A directory of one test, which is removed at its end.
pub struct Dir(pub PathBuf);

impl Dir {
    pub fn new(name: &str) -> Dir {
        let dir = unused_path(name);
        std::fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }

    pub fn path(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        std::fs::write(self.0.join(name), text).unwrap();
        self.path(name)
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap()
    }

    pub fn fifo(&self, name: &str) -> String {
        assert!(Command::new("mkfifo").arg(self.path(name)).status().unwrap().success());
        self.path(name)
    }

    /// Returns a command that runs a shell line in this directory, with the built program as
    /// `linerate`.
    pub fn bash(&self, line: &str) -> Command {
        let bin = Path::new(env!("CARGO_BIN_EXE_linerate")).parent().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command.args(["-c", line]).env("PATH", format!("{}:{path}", bin.display())).env("LC_ALL", "C");
        command.env_remove("LINERATE_CTL").current_dir(&self.0);
        command
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A namespace of the kernel with one device, which exists as long as a process holds it.
pub struct Far(Child);

impl Far {
    /// Creates a namespace and moves the device `dev` to it.
    pub fn with(dev: &str) -> Far {
        let far = Far::new();
        kernel(&format!("link set {dev} netns {}", far.0.id()));
        far
    }

    /// Creates a namespace that has only a loopback device.
    pub fn new() -> Far {
        let mut child = Command::new("unshare").args(["-n", "sleep", "3600"]).spawn().unwrap();
        let (ours, own) = ("/proc/self/ns/net", format!("/proc/{}/ns/net", child.id()));
        let deadline = Instant::now() + PATIENCE;
        while std::fs::read_link(ours).unwrap() == std::fs::read_link(&own).unwrap_or_default() {
            assert!(child.try_wait().unwrap().is_none() && Instant::now() < deadline, "no namespace");
            std::thread::sleep(Duration::from_millis(2));
        }
        Far(child)
    }

    /// Returns the path of the namespace.
    pub fn path(&self) -> String {
        format!("/proc/{}/ns/net", self.0.id())
    }

    /// Returns a command that runs `program` in the namespace.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.0.id().to_string(), "-n", program]);
        command
    }

    /// Runs `ip LINE` in the namespace; it must succeed.
    #[track_caller]
    pub fn ip(&self, line: &str) {
        let output = run(self.command("ip").args(line.split_whitespace()));
        assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Creates the device `dev`, and a namespace with its other end, which has the address `addr`.
pub fn station(dev: &str, addr: &str) -> Far {
    kernel(&format!("link add {dev} type veth peer name {dev}p"));
    kernel(&format!("link set {dev} up"));
    let far = Far::with(&format!("{dev}p"));
    far.ip("link set lo up");
    far.ip(&format!("link set {dev}p up"));
    far.ip(&format!("addr add {addr} dev {dev}p"));
    far
}

/// Returns exit code, standard output and standard error of a command.
pub fn printed(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Runs `ip LINE`, which must succeed.
#[track_caller]
pub fn kernel(line: &str) {
    let output = run(Command::new("ip").args(line.split_whitespace()));
    assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Waits until a condition is true, for at most [`PATIENCE`].
#[track_caller]
pub fn until(what: &str, holds: impl FnMut() -> bool) {
    until_every(Duration::from_millis(10), what, holds);
}

/// Waits as [`until`] does for a condition that is expensive to check, with a pause before each
/// check but the first.
#[track_caller]
pub fn until_every(pause: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "timeout: {what}");
        std::thread::sleep(pause);
    }
}

/// Returns how many of the first `count` pings were answered, from the output of `ping -c COUNT -w
/// SECONDS`. Tests give a deadline (`-w`) because `-W` holds only until the first reply: after that,
/// ping waits for the last one no longer than an interval, or two round trips. Until the deadline,
/// ping replaces lost pings by further ones, which are not counted here.
pub fn replies(text: &str, count: usize) -> usize {
    let replies = text.lines().filter(|line| line.contains(" bytes from "));
    let numbers = replies.filter_map(|line| line.split("icmp_seq=").nth(1)?.split(' ').next()?.parse().ok());
    numbers.filter(|number| *number <= count).collect::<HashSet<usize>>().len()
}

/// Returns whether the program is installed.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| Path::new(&dir).join(program).is_file())
}

/// Returns whether all of `tools` are installed; if not, `test` is skipped.
pub fn has_all(test: &str, tools: &[&str]) -> bool {
    let missing = tools.iter().find(|tool| !has(tool));
    if let Some(tool) = missing {
        println!("skipped: {test}: no {tool}");
    }
    missing.is_none()
}

/// Runs `body`, which needs TAP devices, in its own network namespace. The test is skipped if that
/// is not possible. The test program runs again inside the namespace, only for the test `test` of
/// the calling module.
#[track_caller]
pub fn isolated(test: &str, body: impl FnOnce()) {
    isolated_within(PATIENCE, test, body);
}

/// Runs `body` as [`isolated`] does, for at most `patience`.
#[track_caller]
pub fn isolated_within(patience: Duration, test: &str, body: impl FnOnce()) {
    let test = &format!("{}::{test}", module_of(Location::caller().file()));
    if std::env::var(INSIDE).is_ok_and(|inside| inside == *test) {
        return body();
    }
    if let Err(why) = port::os::netns::available() {
        return println!("skipped: {test}: {why}");
    }
    if let Err(why) = std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        return println!("skipped: {test}: /dev/net/tun: {why}");
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(INSIDE, test);
    let output = run_within(port::os::netns::command(&mut command), patience);
    let text = String::from_utf8_lossy(&output.stdout);
    // The error is printed first, before the output of the test harness, which CI shows last.
    print!("{}{text}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "{test} did not pass in its namespace");
}

/// Returns the path of the module with the source file `file`.
fn module_of(file: &str) -> String {
    let (_, below) = file.split_once("/tests/all/").unwrap();
    below.trim_end_matches(".rs").replace('/', "::")
}

/// Random number generator with 64 bits per call (splitmix64).
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// Number in an environment variable, for measurements.
pub fn setting(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}
