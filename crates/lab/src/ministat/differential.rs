//! Compares this ministat with the installed one on random data and options: standard output,
//! standard error and exit status.
//!
//! Cases in which the original is killed by a signal cannot be compared and are only counted.

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::*;

const TOOL: &str = "/usr/bin/ministat";
const CASES: u64 = 600;

/// SplitMix64 (Steele, Lea, Flood 2014); the seed is the number of the case and is printed on
/// failure.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len() as u64) as usize]
    }

    /// Returns a number uniformly distributed between 0 and 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number that is approximately normally distributed: the sum of twelve uniform ones.
    fn bell(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    fn number(&mut self, shape: u64, scale: f64) -> String {
        match shape {
            0 => format!("{}", self.below(9)),
            1 => format!("{}", self.below(2000) as i64 - 1000),
            2 => format!("{}", scale * (10.0 + self.bell())),
            3 => format!("{:e}", scale * self.bell()),
            4 => format!("{}", f64::from_bits(self.next() & !(1 << 62))),
            5 => format!("{:.2}", scale),
            6 => format!("{}", 1e9 + self.bell()),
            7 => format!("0x{:x}p{}", self.below(99999), self.below(40) as i64 - 20),
            _ => self.pick(&["nan", "inf", "-inf", "1e308", "-1e-320", "1e9999", "7", "-nan", "3"]).to_owned(),
        }
    }

    fn file(&mut self) -> String {
        let shape = if self.one_in(12) { 4 + 4 * self.below(2) } else { self.below(8) };
        let scale = 10f64.powi(self.below(30) as i32 - 12);
        let separator = if self.one_in(12) { self.pick(&[",", ";", ", "]) } else { " " };
        let columns = 1 + self.below(3) * u64::from(separator != " " || self.one_in(3));
        let length =
            if self.one_in(60) { self.below(3) } else { 3 + self.below(40) * (1 + 5 * u64::from(self.one_in(9))) };
        let mut text = String::new();
        for _ in 0..length {
            let words: Vec<String> = (0..columns).map(|_| self.number(shape, scale)).collect();
            text.push_str(self.pick(&["", "", "", "", "", "\t", " "]));
            text.push_str(&words.join(if separator == " " { self.pick(&[" ", "\t", "  "]) } else { separator }));
            text.push_str(self.pick(&[
                "\n",
                "\n",
                "\n",
                "\n",
                "\n",
                "\r\n",
                " \n",
                " # note\n",
                "\n#\n",
                "\n\n",
                "\n   \n",
            ]));
        }
        let noise = if self.one_in(150) { "12x\n" } else { "" };
        text + noise
    }

    fn options(&mut self) -> Vec<String> {
        let mut options = Vec::new();
        while self.one_in(2) {
            let width = self.below(120).to_string();
            let option = match self.below(11) {
                0 => vec!["-n"],
                1 => vec!["-s"],
                2 => vec!["-A"],
                3 | 4 => vec!["-c", self.pick(&["80", "90", "95", "98", "99", "99.5", "9.5e1", "0x50", "50"])],
                5 => vec!["-C", self.pick(&["1", "1", "1", "1", "2", "0", "4294967297"])],
                6 => vec!["-d", self.pick(&[", ", "; \t", " ", " \tab,", ","])],
                7 | 8 => vec!["-w", &width],
                9 => vec![self.pick(&["-sw40", "-nA", "-sc99", "-A", "-s", "--"])],
                _ if self.one_in(9) => {
                    vec![self.pick(&["-q", "--foo", "-w", "-w-3", "-sx", "-c", "-cx", "-c50", "-C1x", "-C", "-d"])]
                }
                _ => vec![],
            };
            options.extend(option.into_iter().map(str::to_owned));
        }
        options
    }
}

/// Returns a command line and the contents of standard input; files are written to `directory`.
fn case(seed: u64, directory: &Path) -> (Vec<OsString>, String) {
    let mut dice = Dice(seed);
    let mut args: Vec<OsString> = dice.options().into_iter().map(OsString::from).collect();
    let stdin = dice.file();
    let sets = if dice.one_in(6) {
        0
    } else if dice.one_in(40) {
        8
    } else {
        1 + dice.below(7)
    };
    for i in 0..sets {
        let path = directory.join(format!("set{i}"));
        fs::write(&path, dice.file()).unwrap();
        args.push(path.into());
    }
    if dice.one_in(20) {
        args.push(dice.pick(&["-", "/nonexistent", "/", "-n", "-s"]).into());
    }
    (args, stdin)
}

fn original(args: &[OsString], stdin: &str) -> Output {
    let mut command = Command::new(TOOL);
    command.args(args).env_remove("POSIXLY_CORRECT").env("LC_ALL", "C");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // the tool may exit without reading it
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

/// Returns whether the original's output is defined: with a width of 0 or 1 it writes outside its
/// buffers, and if it survives, prints arbitrary memory.
fn is_defined(args: &[OsString]) -> bool {
    let words: Vec<_> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    !words.windows(2).any(|pair| pair[0] == "-w" && matches!(pair[1].as_str(), "0" | "1"))
}

fn directory() -> PathBuf {
    let path = std::env::temp_dir().join(format!("lab-ministat-{}", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    path
}

#[test]
fn as_the_installed_tool() {
    if !Path::new(TOOL).exists() {
        println!("skipped: {TOOL} is not installed");
        return;
    }
    let directory = directory();
    let (mut compared, mut died, mut failed) = (0, 0, 0);
    for seed in 0..CASES {
        let (args, stdin) = case(seed, &directory);
        let theirs = original(&args, &stdin);
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let status = run(&args, 74, &mut Streams::with_stdin(stdin.into_bytes()), &mut out, &mut err);
        if theirs.status.signal().is_some() || !is_defined(&args) {
            died += 1;
            continue;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(TOOL, "ministat");
        assert_eq!(text(&out), text(&theirs.stdout), "seed {seed}: {args:?}");
        assert_eq!(text(&err), text(&theirs.stderr), "seed {seed}: {args:?}");
        assert_eq!(Some(i32::from(status)), theirs.status.code(), "seed {seed}: {args:?}");
        compared += 1;
        failed += i32::from(status != 0);
    }
    fs::remove_dir_all(directory).unwrap();
    println!(
        "{compared} cases compared, {failed} of them complaints; {died} not compared: the original is undefined there"
    );
    // checked once with seeds up to 20,000: 18,643 compared, all equal
    assert!(compared as u64 > CASES * 8 / 10 && (compared - failed) as u64 > CASES / 2);
}
