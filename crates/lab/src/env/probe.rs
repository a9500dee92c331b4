//! Reads single values from /proc and /sys; unavailable ones are "n/a".

use std::fs;
use std::path::Path;

const UNKNOWN: &str = "n/a";

/// The directory that contains `proc` and `sys`: `/`, except in tests.
pub struct Root<'a>(pub &'a Path);

impl Root<'_> {
    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.0.join(path)).ok()
    }

    /// Returns the first line of a file.
    pub fn line(&self, path: &str) -> String {
        let text = self.text(path).unwrap_or_default();
        text.lines().next().map(str::trim).filter(|line| !line.is_empty()).unwrap_or(UNKNOWN).to_owned()
    }

    pub fn cpu_model(&self) -> String {
        let text = self.text("proc/cpuinfo").unwrap_or_default();
        let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        model.map_or(UNKNOWN, |(_, name)| name.trim()).to_owned()
    }

    /// Counts the lines `cpu0`, `cpu1` ... of /proc/stat; falls back to the standard library's
    /// count.
    pub fn cores(&self) -> u32 {
        let text = self.text("proc/stat").unwrap_or_default();
        let is_core =
            |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        match text.lines().filter(is_core).count() {
            0 => std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
            cores => cores as u32,
        }
    }

    /// Returns a value of /proc/meminfo: KiB, or a count for the HugePages lines.
    pub fn meminfo(&self, key: &str) -> Option<u64> {
        let text = self.text("proc/meminfo")?;
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
        value.split_whitespace().next()?.parse().ok()
    }

    pub fn huge_pages(&self) -> String {
        match (self.meminfo("HugePages_Total"), self.meminfo("Hugepagesize")) {
            (Some(pages), Some(size)) => format!("{pages} x {size} KiB"),
            _ => UNKNOWN.into(),
        }
    }

    /// Returns the selected mode, which is the word in brackets, as in `always [madvise] never`.
    pub fn transparent_huge_pages(&self) -> String {
        let line = self.line("sys/kernel/mm/transparent_hugepage/enabled");
        let chosen = line.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        chosen.map_or(UNKNOWN, |(word, _)| word).to_owned()
    }

    pub fn load(&self) -> [f64; 3] {
        let text = self.text("proc/loadavg").unwrap_or_default();
        let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
        std::array::from_fn(|_| numbers.next().unwrap_or(0.0))
    }

    pub fn virtualisation(&self, hypervisor: Option<String>) -> String {
        let machine = hypervisor.unwrap_or_else(|| "none".into());
        let marks = [".dockerenv", "run/.containerenv", "run/systemd/container"];
        let container = marks.iter().any(|mark| self.0.join(mark).exists());
        if container { format!("{machine}, container") } else { machine }
    }
}
