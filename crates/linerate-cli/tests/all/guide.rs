//! Runs the shell blocks of the pages of docs/guide, line by line, in a directory of the test.

use crate::common::{self, has, isolated, run};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the blocks of a page in the language `language`, each with its lines. A line that ends
/// with a backslash is joined with the next one.
fn blocks(page: &str, language: &str) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(root().join("docs/guide").join(page)).unwrap();
    let parts = text.split("\n```").skip(1).step_by(2);
    let of_language = parts.filter_map(|part| part.split_once('\n').filter(|(named, _)| *named == language));
    of_language.map(|(_, code)| code.replace("\\\n", " ").lines().map(str::to_owned).collect()).collect()
}

/// Beginnings of lines that are not run, with the reason.
const NOT_RUN: &[(&str, &str)] = &[
    ("cargo ", "builds the program or an example; .ci/run does"),
    ("sudo ", "changes the system"),
    ("unshare ", "starts a shell; this test runs in such a namespace"),
    ("ip tuntap add tap0", "a command in that shell"),
    ("qemu-system-x86_64 ", "the tests `guest` of the library run it"),
    ("passt ", "the tests `qemu` of the library run it"),
    ("linerate host --port unix:/tmp/passt.sock", "needs passt"),
    ("linerate top ", "needs a terminal; the tests `top` run it"),
    ("linerate profile ", "takes minutes in a build without optimization"),
    ("linerate ab ", "takes minutes in a build without optimization"),
    ("linerate bench ", "takes minutes"),
    ("linerate gate ", "needs the output of `bench`"),
    ("ssh ", "needs another machine"),
];

/// Name of the test's network namespace, in place of the one in a page.
fn netns() -> String {
    format!("lr-guide-{}", std::process::id())
}

/// A page that is being run.
struct Page {
    dir: PathBuf,
    env: BTreeMap<String, String>,
    background: Option<Child>,
}

impl Page {
    fn new(name: &str) -> Page {
        let dir = std::env::temp_dir().join(format!("lr-guide-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for link in ["topo", "crates", "examples"] {
            std::os::unix::fs::symlink(root().join(link), dir.join(link)).unwrap();
        }
        let home = ("HOME".to_owned(), dir.display().to_string());
        Page { dir, env: BTreeMap::from([home]), background: None }
    }

    fn shell(&self, line: &str) -> Command {
        let bin = Path::new(env!("CARGO_BIN_EXE_linerate")).parent().unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        let line = line.replace("/tmp/", &format!("{}/", self.dir.display()));
        let line = line.replace("dataplane", &netns());
        shell.args(["-c", &line]).env("PATH", path).env_remove("LINERATE_CTL").envs(&self.env);
        shell.current_dir(&self.dir);
        shell
    }

    /// Starts a line that runs until it is interrupted, in place of the one before it, and waits
    /// until it runs.
    fn start(&mut self, line: &str) {
        self.stop();
        let ready = self.dir.join("ready");
        let line = match line.starts_with("linerate mount") {
            true => format!("exec {line}"),
            false => format!("exec {line} --ready-fd 9 9> ready"),
        };
        let _ = std::fs::remove_file(&ready);
        let (mut shell, is_mount) = (self.shell(&line), line.contains(" mount "));
        self.background = Some(shell.stdout(Stdio::null()).spawn().unwrap());
        let end = Instant::now() + common::PATIENCE;
        let is_ready = || match is_mount {
            true => self.dir.join("ports/tap0").exists(),
            false => std::fs::metadata(&ready).is_ok_and(|file| file.len() > 0),
        };
        while !is_ready() {
            assert!(Instant::now() < end, "{line}: does not run");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn stop(&mut self) {
        let Some(mut child) = self.background.take() else { return };
        // The child has not been waited for, so its process number is not reused.
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        assert_eq!(common::wait(&mut child), Some(0));
    }

    fn run_line(&mut self, line: &str) {
        if NOT_RUN.iter().any(|(begin, _)| line.starts_with(begin)) {
            return;
        }
        if let Some((name, value)) = line.strip_prefix("export ").and_then(|set| set.split_once('=')) {
            self.env.insert(name.to_owned(), value.replace("/tmp/", &format!("{}/", self.dir.display())));
            return;
        }
        let runs_on = ["linerate host ", "linerate bridge tap:", "linerate up ", "linerate mount "];
        let ends = [" --check", " --sim", " < out"].iter().any(|word| line.contains(word));
        if !ends && runs_on.iter().any(|begin| line.starts_with(begin)) {
            return self.start(line);
        }
        // Measurements of a second instead of five, and a second of those without an end. A device
        // that is set up sends frames.
        let line = line.replace(" -l 5", " -l 1").replace("linerate tcpdump", "timeout -s INT 1 linerate tcpdump");
        let line = line.replace("cat ports/tap0 ", "ip link set tap0 up; cat ports/tap0 ");
        let output = run(&mut self.shell(&line));
        let interrupted = line.starts_with("timeout ") && output.status.code() == Some(124);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() || interrupted, "{line}\n{out}{err}");
    }

    fn run_block(&mut self, lines: &[String]) {
        if lines.iter().any(|line| line.starts_with("ssh ")) {
            return;
        }
        if lines.iter().any(|line| line.ends_with('&')) {
            return self.run_line(&(lines.join("\n") + "\nkill -INT $!; wait"));
        }
        lines.iter().for_each(|line| self.run_line(line));
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if let Some(mut child) = self.background.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// Runs the blocks of the page `name`, after starting `first`.
fn runs(name: &str, first: Option<&str>) {
    let page = format!("{name}.md");
    let mut running = Page::new(name);
    for file in blocks(&page, "toml") {
        std::fs::write(running.dir.join("web.toml"), file.join("\n")).unwrap();
    }
    first.into_iter().for_each(|line| running.start(line));
    blocks(&page, "sh").iter().for_each(|block| running.run_block(block));
    running.stop();
}

/// Pages with shell blocks. Each has a test.
const PAGES: &[&str] = &[
    "bridge-and-router",
    "configuration",
    "first-host",
    "install",
    "measuring",
    "metrics",
    "pipes",
    "programs",
    "routing-engine",
    "service",
    "simulation",
];

#[test]
fn every_page_with_a_shell_block_has_a_test() {
    let entries = std::fs::read_dir(root().join("docs/guide")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut pages: Vec<String> = names.filter(|name| !blocks(name, "sh").is_empty()).collect();
    pages.sort();
    assert_eq!(pages, PAGES.iter().map(|page| format!("{page}.md")).collect::<Vec<_>>());
    let tests = include_str!("guide.rs");
    for page in PAGES {
        assert!(tests.contains(&format!("fn {}()", page.replace('-', "_"))), "{page}: no test");
    }
    let lines: Vec<String> = PAGES.iter().flat_map(|page| blocks(&format!("{page}.md"), "sh").concat()).collect();
    for (begin, _) in NOT_RUN {
        assert!(lines.iter().any(|line| line.starts_with(begin)), "no page has '{begin}'");
    }
}

#[test]
fn bridge_and_router() {
    isolated("bridge_and_router", || runs("bridge-and-router", None));
}

#[test]
fn service() {
    runs("service", None);
}

#[test]
fn configuration() {
    isolated("configuration", || runs("configuration", None));
}

/// The page's Rust program, which the kernel's ping reaches, is replaced by `linerate host`.
#[test]
fn first_host() {
    if !has("ip") || !has("ping") {
        return println!("skipped: first_host: iproute2 and iputils-ping are not both installed");
    }
    isolated("first_host", || runs("first-host", Some("linerate host --port tap:tap0 --addr 10.0.0.2/24")));
}

#[test]
fn install() {
    isolated("install", || runs("install", None));
}

#[test]
fn measuring() {
    if !has("ip") {
        return println!("skipped: measuring: iproute2 is not installed");
    }
    isolated("measuring", || {
        assert!(run(Command::new("ip").args(["link", "set", "lo", "up"])).status.success());
        runs("measuring", None);
    });
}

#[test]
fn metrics() {
    if !has("ip") || !has("curl") || !has("promtool") {
        return println!("skipped: metrics: iproute2, curl and promtool are not all installed");
    }
    isolated("metrics", || {
        assert!(run(Command::new("ip").args(["link", "set", "lo", "up"])).status.success());
        runs("metrics", None);
    });
}

#[test]
fn pipes() {
    if !Path::new("/dev/fuse").exists() || !has("fusermount3") || !has("ip") {
        return println!("skipped: pipes: /dev/fuse, fuse3 and iproute2 are not all there");
    }
    isolated("pipes", || runs("pipes", None));
}

#[test]
fn programs() {
    if !has("redis-server") || !has("redis-cli") {
        return println!("skipped: programs: redis is not installed");
    }
    isolated("programs", || runs("programs", None));
}

#[test]
fn routing_engine() {
    isolated("routing_engine", || {
        if !has("ip") || !run(Command::new("ip").args(["netns", "add", &netns()])).status.success() {
            return println!("skipped: routing_engine: 'ip netns add' is not possible");
        }
        assert!(run(Command::new("ip").args(["netns", "del", &netns()])).status.success());
        assert!(run(Command::new("ip").args(["link", "set", "lo", "up"])).status.success());
        runs("routing-engine", None);
    });
}

#[test]
fn simulation() {
    isolated("simulation", || runs("simulation", None));
}
