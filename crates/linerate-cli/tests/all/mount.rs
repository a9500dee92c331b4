//! `linerate mount`: ports as files that ordinary programs read and write.

use crate::common;
use crate::common::{has, isolated, linerate, run};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A mount, which is ended when dropped.
struct Mount {
    child: Child,
    dir: PathBuf,
    stderr: Option<BufReader<std::process::ChildStderr>>,
}

const FRAME: &str = "FFFFFFFFFFFF 0022CF63967B 8899 23 1E";
/// Time limit in seconds for each command, longer than any of them needs, so that a hang is an
/// error.
const BOUND: &str = "20";

/// Mounts. Returns `None` and prints the reason if mounting is not possible.
fn mount(name: &str, words: &[&str]) -> Option<Mount> {
    if let Err(why) = File::options().read(true).write(true).open("/dev/fuse") {
        println!("skipped: {name}: /dev/fuse: {why}");
        return None;
    }
    let dir = std::env::temp_dir().join(format!("lr-mount-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let mut command = linerate(&["mount", &dir.display().to_string()]);
    let mut child = command.args(words).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    if line.contains("cannot mount") {
        println!("skipped: {name}: {line}");
        common::wait(&mut child);
        return None;
    }
    assert!(line.contains(": mounted; files "), "{line}");
    Some(Mount { child, dir, stderr: Some(stderr) })
}

impl Mount {
    fn file(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn stats(&self, name: &str) -> serde_json::Value {
        let text = std::fs::read_to_string(self.file("stats").join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// Runs a shell line in the directory, with a time limit.
    fn sh(&self, line: &str) -> String {
        let output = run(Command::new("timeout").args([BOUND, "sh", "-c", line]).current_dir(&self.dir));
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Sends a signal and waits. Returns the exit code, and standard error after the first line.
    fn end(mut self, signal: &str) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        let mut printed = String::new();
        self.stderr.take().unwrap().read_to_string(&mut printed).unwrap();
        (common::wait(&mut self.child), printed)
    }

    fn is_mounted(&self) -> bool {
        is_mounted(&self.dir)
    }
}

fn is_mounted(dir: &Path) -> bool {
    std::fs::read_to_string("/proc/self/mounts").unwrap().contains(&dir.display().to_string())
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if self.is_mounted() {
            let _ = Command::new("umount").args(["-l"]).arg(&self.dir).status();
        }
        let _ = std::fs::remove_dir(&self.dir);
    }
}

/// The usual case: a user without privileges, fusermount3, and a /dev/fuse that everyone may open
/// (here in the test's own mount namespace).
#[test]
fn an_ordinary_user_mounts_and_reads() {
    let test = "an_ordinary_user_mounts_and_reads";
    for tool in ["fusermount3", "setpriv", "unshare"] {
        if !has(tool) {
            return println!("skipped: {test}: no {tool}");
        }
    }
    if !Path::new("/dev/fuse").exists() {
        return println!("skipped: {test}: no /dev/fuse");
    }
    let root = run(Command::new("unshare").args(["-m", "true"]).stderr(Stdio::null()));
    if !root.status.success() {
        return println!("skipped: {test}: no mount namespace to be had; the other tests here mount as who runs them");
    }
    let dir = std::env::temp_dir().join(format!("lr-mount-{}-user", std::process::id()));
    std::fs::create_dir_all(dir.join("m")).unwrap();
    // Other users cannot read the directory of the build.
    std::fs::copy(env!("CARGO_BIN_EXE_linerate"), dir.join("linerate")).unwrap();
    let outside = "mount --make-rprivate / && mknod fuse c 10 229 && chmod 666 fuse && mount --bind fuse /dev/fuse && \
         chmod 755 . linerate && chown nobody m && exec setpriv --reuid nobody --regid nogroup --clear-groups sh -c \"$INSIDE\"";
    let inside = "id -un; ./linerate mount m 'pktgen(size=22):pg0' & mount=$!; \
         n=0; until [ -e m/pg0 ] || [ $((n += 1)) = 100 ]; do sleep 0.1; done; \
         head -c 181 m/pg0; kill -TERM $mount; wait $mount; echo ended $?; ls m";
    let mut command = Command::new("timeout");
    command.args([BOUND, "unshare", "-m", "sh", "-c", outside]).env("INSIDE", inside).current_dir(&dir);
    let output = run(&mut command);
    std::fs::remove_dir_all(&dir).unwrap();
    let (printed, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = printed.lines().collect();
    assert!(matches!(lines[..], ["nobody", line, "ended 0"] if line.len() == 180), "{printed}{why}");
}

#[test]
fn programs_read_whole_frames() {
    let Some(mount) = mount("read", &["pktgen(size=22):pg0"]) else { return };
    assert_eq!(
        mount.sh("ls"),
        "global_time\nlocal_time1\nlocal_time2\nlocal_time3\nlocal_time4\nlocal_time5\nlocal_time6\nlocal_time7\npg0\nrpg0\nstats\n"
    );
    let lines = mount.sh("cat pg0 | head -5");
    assert_eq!((lines.lines().count(), lines.lines().next().unwrap().len()), (5, 30 + 3 * 50));
    // As with ethpipe's driver, each read returns slightly less than requested, since frames are
    // not split.
    let printed = mount.sh("dd if=pg0 of=/dev/null bs=1M count=3 2>&1");
    let whole = ((1 << 20) - 1) / 181 * 181;
    assert!(printed.contains("0+3 records in") && printed.contains(&format!("{} bytes", 3 * whole)), "{printed}");
    // Records of 76 bytes: 64 of them fill a power of two times 19, so none is split.
    let mut file = File::open(mount.file("rpg0")).unwrap();
    let mut buf = vec![0; 1 << 20];
    for size in [4096, 76, 1 << 20] {
        let len = file.read(&mut buf[..size]).unwrap();
        // A buffer that does not begin at a page boundary results in two requests of the maximum
        // size, and the first may end the read.
        assert!(len.is_multiple_of(76) && len + 76 + 4096 > size && (size > 4096 || len == size / 76 * 76), "{len}");
        assert_eq!(buf[..4], [0x76, 0x37, 64, 0]);
    }
    // If the buffer is smaller than a frame, the frame is read in pieces, and none is lost.
    let line = mount.sh("read line < pg0 && echo \"$line\"");
    assert_eq!(line.len(), 181);
    let stats = mount.stats("pg0");
    assert_eq!((&stats["overflow"], &stats["refused"], &stats["unread"].is_u64()), (&0.into(), &0.into(), &true));
    let failed = run(Command::new("timeout").args([BOUND, "sh", "-c", "echo 1 > nothing"]).current_dir(&mount.dir));
    assert!(!failed.status.success(), "there are no other files");
    let (code, printed) = mount.end("-TERM");
    assert_eq!((code, printed.as_str()), (Some(0), ""));
}

#[test]
fn two_readers_get_the_same() {
    let Some(mount) = mount("two", &["--numbered", "pktgen(size=22,rate=2000):pg0"]) else { return };
    // Both files are open before the first read. The second may miss the frames that arrive between
    // the two opens, which may be many on a busy machine.
    let two = mount.sh(
        "exec 3< 0 4< 0; f=/tmp/lr-mount-a-$$; cat <&3 | head -2000 | tail -100 > $f; cat <&4 | head -2000 | grep -xFcf $f; rm $f",
    );
    assert_eq!(two, "100\n");
}

#[test]
fn lost_frames_of_a_slow_reader_are_counted() {
    let Some(mount) = mount("slow", &["--ring", "262144", "--numbered", "pktgen(size=22,rate=2000):pg0"]) else {
        return;
    };
    let slow = File::open(mount.file("0")).unwrap();
    let read = mount.sh("cat 0 | head -c 1000000 | wc -l");
    assert!(read.trim().parse::<u64>().unwrap() > 5000, "{read}");
    let stats = mount.stats("0");
    assert_eq!(stats["readers"].as_array().unwrap().len(), 1, "{stats}");
    drop(slow);
    let mut late = File::open(mount.file("0")).unwrap();
    mount.sh("cat 0 | head -c 1000000 > /dev/null");
    let mut buf = vec![0; 1 << 20];
    assert!(late.read(&mut buf).unwrap() > 0);
    let stats = mount.stats("0");
    assert!(stats["readers"][0]["overflow"].as_u64().unwrap() > 1000, "{stats}");
    let (code, printed) = mount.end("-INT");
    assert_eq!(code, Some(0));
    assert!(printed.contains("frames lost before a slow reader"), "{printed}");
}

#[test]
fn a_reader_waits_and_a_signal_ends_it() {
    let Some(mount) = mount("wait", &["null:n0", "pktgen(rate=4):slow"]) else { return };
    // A sink returns no frames. A non-blocking read without frames returns at once.
    let mut file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(mount.file("slow")).unwrap();
    let mut buf = [0; 4096];
    let start = Instant::now();
    let mut waits = 0;
    while let Err(error) = file.read(&mut buf) {
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
        waits += 1;
        assert!(start.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(5));
    }
    // poll(2) returns when a frame arrives, before its timeout.
    for _ in 0..2 {
        let fd = std::os::fd::AsFd::as_fd(&file);
        let ready = dispatch::wait_readable(&[fd], Some(Duration::from_secs(10))).unwrap();
        assert_eq!(ready, [true]);
        assert!(file.read(&mut buf).unwrap() > 0);
    }
    let fd = std::os::fd::AsFd::as_fd(&file);
    let ready = dispatch::wait_readable(&[fd], Some(Duration::from_millis(1))).unwrap();
    assert!(waits > 0 || ready == [false] || start.elapsed() > Duration::from_millis(500));
    // A blocked reader is interrupted by a signal.
    let mut cat = Command::new("cat").arg(mount.file("n0")).stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(cat.try_wait().unwrap(), None, "it waits");
    assert!(Command::new("kill").args(["-TERM", &cat.id().to_string()]).status().unwrap().success());
    assert_eq!(common::wait(&mut cat), None, "ended by the signal");
    // The mount ends although a reader waits, and the reader gets end of file.
    let mut cat = Command::new("cat").arg(mount.file("n0")).stdout(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let dir = mount.dir.clone();
    drop(file);
    assert_eq!(mount.end("-TERM"), (Some(0), String::new()));
    assert_eq!(common::wait(&mut cat), Some(0));
    assert!(!is_mounted(&dir));
}

#[test]
fn written_frames_are_sent_and_invalid_lines_are_not() {
    isolated("written_frames_are_sent_and_invalid_lines_are_not", || {
        let Some(mount) = mount("write", &["-t", "tap:tap0"]) else { return };
        let mut netlink = port::os::netlink::Netlink::open().unwrap();
        netlink.set_up("tap0").unwrap();
        let sent = |n: u64| {
            let deadline = Instant::now() + Duration::from_secs(10);
            while mount.stats("tap0")["sent"] != n {
                assert!(Instant::now() < deadline, "{}", mount.stats("tap0"));
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        mount.sh(&format!("echo '{FRAME}' > tap0"));
        sent(1);
        mount.sh(&format!("printf '{FRAME}\\n{FRAME}\\n{FRAME}\\n{FRAME}\\n{FRAME}\\n' > tap0"));
        sent(6);
        // A line in two writes, and one without a line break.
        mount.sh("exec 3> tap0; printf 'FFFFFFFFFFFF 0022CF' >&3; printf '63967B 8899 23 1E' >&3");
        sent(7);
        let mut file = File::options().write(true).open(mount.file("tap0")).unwrap();
        assert_eq!(file.write(b"nothing of that\n").unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
        let mixed = format!("{FRAME}\nnothing\n{FRAME}\n");
        assert_eq!(file.write(mixed.as_bytes()).unwrap(), mixed.len());
        sent(9);
        assert_eq!(mount.stats("tap0")["bad_lines"], 2);
        assert_eq!(std::io::Seek::rewind(&mut file).unwrap_err().raw_os_error(), Some(libc::ESPIPE));
        drop(file);
        timed(&mount);
        let (code, printed) = mount.end("-INT");
        assert_eq!(code, Some(0), "{printed}");
        assert!(printed.contains("2 written lines are not valid frames; first error: "), "{printed}");
    });
}

/// Frames with timestamps leave at their times, as observed by a listener on the device.
fn timed(mount: &Mount) {
    if !has("tcpdump") {
        return println!("skipped: tcpdump is not installed");
    }
    let mut tcpdump = Command::new("timeout");
    tcpdump.args([
        BOUND,
        "tcpdump",
        "-i",
        "tap0",
        "--immediate-mode",
        "-l",
        "-tt",
        "-n",
        "-c",
        "3",
        "-Q",
        "in",
        "ether proto 0x8899",
    ]);
    let mut child = tcpdump.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut printed = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    printed.read_line(&mut line).unwrap();
    while !line.contains("listening") {
        assert!(printed.read_line(&mut line).unwrap() > 0, "{line}");
    }
    // The first frame leaves at once and sets register 1 to the current time. The others leave 100
    // ms and 300 ms later. A tick is 8 ns.
    let at = |ms: u64| format!("{:016X}", 1_u64 << 56 | (ms * 1_000_000 / 8));
    let lines = format!("1100000000000000 {FRAME}\n{} {FRAME}\n{} {FRAME}\n", at(100), at(300));
    std::fs::write(mount.file("tap0"), lines).unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    common::wait(&mut child);
    let times: Vec<f64> = text.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect();
    assert_eq!(times.len(), 3, "{text}");
    let (first, second) = (times[1] - times[0], times[2] - times[1]);
    println!("behind the first: {:.6} s, {:.6} s", first, first + second);
    assert!((0.0995..0.15).contains(&first) && (0.15..0.25).contains(&second), "{times:?}");
    let register = std::fs::read_to_string(mount.file("local_time1")).unwrap();
    let now = std::fs::read_to_string(mount.file("global_time")).unwrap();
    let ticks = |text: &str| u64::from_str_radix(text.trim(), 16).unwrap();
    let since = (ticks(&now) - ticks(&register)) * 8;
    assert!((300_000_000..20_000_000_000).contains(&since), "{since}");
    mount.sh("echo 123abc > local_time7");
    assert_eq!(mount.sh("cat local_time7"), "0000000000123ABC\n");
    assert_eq!(std::fs::write(mount.file("local_time7"), "xyz").unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
}

#[test]
fn a_capture_is_read_to_its_end_and_the_mount_ends() {
    let file = std::env::temp_dir().join(format!("lr-mount-{}.pcap", std::process::id()));
    let made = run(linerate(&["conv", "-o", "pcap"]).stdin(Stdio::null()));
    assert!(made.status.success(), "{made:?}");
    let mut conv = linerate(&["conv", "-i", "text", "-o", "pcap"]);
    let mut conv = conv.stdin(Stdio::piped()).stdout(File::create(&file).unwrap()).spawn().unwrap();
    let lines = format!("{FRAME}\n").repeat(20_000);
    conv.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert_eq!(common::wait(&mut conv), Some(0));
    let Some(mut mount) = mount("pcap", &["--numbered", &format!("pcap:{}", file.display())]) else { return };
    assert_eq!(mount.sh("cat 0 | md5sum"), {
        let mut sum = Command::new("md5sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        sum.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        String::from_utf8(sum.wait_with_output().unwrap().stdout).unwrap()
    });
    assert_eq!(common::wait(&mut mount.child), Some(0), "all is read: it ends by itself");
    assert!(!mount.is_mounted());
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn a_stale_mount_is_distinguished_from_a_live_one() {
    let Some(mut first) = mount("stale", &["null:n0"]) else { return };
    let dir = first.dir.display().to_string();
    let second = run(&mut linerate(&["mount", &dir, "null:n1"]));
    let printed = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1));
    assert!(printed.contains("already mounted"), "{printed}");
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    let third = run(&mut linerate(&["mount", &dir, "null:n1"]));
    let printed = String::from_utf8_lossy(&third.stderr).into_owned();
    assert_eq!(third.status.code(), Some(1));
    assert!(printed.contains("program has ended") && printed.contains("fusermount3 -u"), "{printed}");
    assert!(Command::new("umount").arg(&dir).status().unwrap().success());
    let wrong = run(&mut linerate(&["mount", "/nowhere", "null:n1"]));
    assert_eq!(wrong.status.code(), Some(1));
    let twice = run(&mut linerate(&["mount", &dir, "null:n1", "null:n1"]));
    assert_eq!(twice.status.code(), Some(2), "{twice:?}");
}

/// A mount reports a frame that is too long for its port, and ends with exit code 1.
#[test]
fn frames_that_are_too_long_are_a_failure() {
    for (bytes, code) in [(60, 0), (70_000, 1)] {
        let Some(mount) = mount("too-long", &["--at-once", "null:n0"]) else { return };
        let line = format!("FFFFFFFFFFFF 0022CF63967B 8899{}\n", " 1E".repeat(bytes));
        std::fs::write(mount.file("n0"), line).unwrap();
        let began = Instant::now();
        while mount.stats("n0")["sent"].as_u64() == Some(0) && mount.stats("n0")["too_long"].as_u64() == Some(0) {
            assert!(began.elapsed() < Duration::from_secs(20), "{}", mount.stats("n0"));
            std::thread::sleep(Duration::from_millis(5));
        }
        let (ended, printed) = mount.end("-INT");
        assert_eq!(
            (ended, printed.contains("1 frames not sent: longer than the port's maximum")),
            (Some(code), code == 1),
            "{printed}"
        );
    }
}
