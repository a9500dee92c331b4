//! Environment of a measurement: machine, kernel, build.
//!
//! [`Environment::detect`] reads /proc, /sys, CPUID and the build script's variables; unavailable
//! values are "n/a" or absent, never an error. [`Environment::warnings`] lists what makes figures
//! of this machine unreliable. The text header is a few lines for readers; the serde form is
//! written to the result file. Nothing here changes the machine.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{timer, tsc};

mod probe;

use probe::Root;

/// Description of the machine and the build that ran a measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// `model name` of /proc/cpuinfo.
    pub cpu: String,
    /// Number of online processors.
    pub cores: u32,
    /// Rate of the tick counter, in ticks per second.
    pub tsc_hz: u64,
    /// Source of [`Environment::tsc_hz`].
    pub tsc_hz_source: String,
    /// Set if the TSC keeps its rate in every power state (CPUID 0x8000_0007).
    pub tsc_invariant: bool,
    /// Source of ticks: RDTSC, or nanoseconds on other architectures.
    pub ticks: String,
    /// Ticks of an empty measured region; subtracted from every reading.
    pub timer_cost_ticks: u64,
    /// Total memory in KiB.
    pub memory_kib: u64,
    /// Number and size of the reserved huge pages, as `<pages> x <KiB> KiB`.
    pub huge_pages: String,
    /// Value of /sys/kernel/mm/transparent_hugepage/enabled: `always`, `madvise`, `never` or `n/a`.
    pub transparent_huge_pages: String,
    /// cpufreq governor of processor 0, or `n/a` (a guest has none).
    pub governor: String,
    /// Signature of the hypervisor, or `none` on bare metal. In a container, `, container` is
    /// appended.
    pub virtualisation: String,
    /// Kernel release, from /proc/sys/kernel/osrelease.
    pub kernel: String,
    /// Congestion control of the kernel's TCP, which applies when the kernel is the peer
    /// (net.ipv4.tcp_congestion_control).
    pub congestion_control: String,
    /// Load averages over 1, 5 and 15 minutes at the time of [`Environment::detect`].
    pub load: [f64; 3],
    /// Set if another linerate was measuring on this machine when this measurement began.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub measured_beside: bool,
    /// Build of this program.
    pub build: Build,
}

/// Build of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// Output of `rustc --version`.
    pub rustc: String,
    /// Target triple of the build.
    pub target: String,
    /// Cargo's base profile: `debug` or `release`.
    pub profile: String,
    /// `-C opt-level`.
    pub opt_level: String,
    /// Set if debug assertions are compiled in.
    pub debug_assertions: bool,
    /// `-C target-cpu`; `generic` if the option was not given.
    pub target_cpu: String,
    /// Commit, with `-dirty` if tracked files differed from it, or `unknown`.
    pub git_rev: String,
}

impl Build {
    /// Returns the build of this program.
    pub fn this() -> Build {
        Build {
            rustc: env!("LAB_RUSTC").into(),
            target: env!("LAB_TARGET").into(),
            profile: env!("LAB_PROFILE").into(),
            opt_level: env!("LAB_OPT_LEVEL").into(),
            debug_assertions: cfg!(debug_assertions),
            target_cpu: env!("LAB_TARGET_CPU").into(),
            git_rev: env!("LAB_GIT_REV").into(),
        }
    }
}

impl Environment {
    /// Reads the environment of this machine. Takes about 20 ms the first time, to measure the tick
    /// rate.
    pub fn detect() -> Environment {
        Environment::read(Path::new("/"))
    }

    /// Reads the environment as [`Environment::detect`], with /proc and /sys below `root`.
    pub fn read(root: &Path) -> Environment {
        let root = Root(root);
        let rate = timer::rate();
        Environment {
            cpu: root.cpu_model(),
            cores: root.cores(),
            tsc_hz: rate.hz,
            tsc_hz_source: rate.source.into(),
            tsc_invariant: tsc::invariant(),
            ticks: tsc::SOURCE.into(),
            timer_cost_ticks: timer::cost(),
            memory_kib: root.meminfo("MemTotal").unwrap_or(0),
            huge_pages: root.huge_pages(),
            transparent_huge_pages: root.transparent_huge_pages(),
            governor: root.line("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            virtualisation: root.virtualisation(tsc::hypervisor()),
            kernel: root.line("proc/sys/kernel/osrelease"),
            congestion_control: root.line("proc/sys/net/ipv4/tcp_congestion_control"),
            load: root.load(),
            measured_beside: false,
            build: Build::this(),
        }
    }

    /// Returns the names and values of the properties that affect figures most; the last one is the
    /// revision. Two measurements are comparable if all values are equal.
    pub fn origin(&self) -> [(&'static str, String); 4] {
        let Build { rustc, target, opt_level, target_cpu, debug_assertions, git_rev, .. } = &self.build;
        let assertions = if *debug_assertions { "ON" } else { "off" };
        [
            ("machine", format!("{}, {} cores, virtualisation {}", self.cpu, self.cores, self.virtualisation)),
            ("kernel", self.kernel.clone()),
            (
                "build",
                format!(
                    "{rustc}, {target}, opt-level {opt_level}, target-cpu {target_cpu}, debug assertions {assertions}"
                ),
            ),
            ("revision", git_rev.clone()),
        ]
    }

    /// Returns the reasons why figures of this environment are unreliable, one sentence each; empty
    /// on a machine and build fit for measuring.
    pub fn warnings(&self) -> Vec<String> {
        let build = &self.build;
        let checks = [
            (build.debug_assertions, "WARNING: not a benchmark build: debug assertions are compiled in".to_owned()),
            (
                !matches!(build.opt_level.as_str(), "2" | "3"),
                format!("WARNING: not a benchmark build: opt-level {}", build.opt_level),
            ),
            (!self.tsc_invariant, "WARNING: the TSC is not invariant: ticks do not measure time".to_owned()),
            (
                self.load[0] > f64::from(self.cores) / 2.0,
                format!("WARNING: the machine is busy: load {:.2} on {} processors", self.load[0], self.cores),
            ),
            (
                self.measured_beside,
                "WARNING: another linerate is measuring on this machine: its load affects these figures".to_owned(),
            ),
            (
                !matches!(self.governor.as_str(), "n/a" | "performance"),
                format!("WARNING: CPU frequency governor '{}': should be 'performance'", self.governor),
            ),
            (build.git_rev.ends_with("-dirty"), "note: built from a tree with uncommitted changes".to_owned()),
            (
                self.virtualisation != "none",
                format!(
                    "note: virtual machine ({}): other guests may use processor time that is not counted as steal",
                    self.virtualisation
                ),
            ),
        ];
        checks.into_iter().filter_map(|(weak, sentence)| weak.then_some(sentence)).collect()
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Environment { build, load, .. } = self;
        let invariant = if self.tsc_invariant { "invariant" } else { "not invariant" };
        writeln!(
            f,
            "cpu     {}, {} cores, governor {}, virtualisation {}",
            self.cpu, self.cores, self.governor, self.virtualisation
        )?;
        writeln!(
            f,
            "ticks   {:.6} GHz ({invariant}; {}), {}; timer {} ticks, subtracted",
            self.tsc_hz as f64 / 1e9,
            self.tsc_hz_source,
            self.ticks,
            self.timer_cost_ticks
        )?;
        writeln!(
            f,
            "memory  {:.1} GiB, huge pages {}, transparent {}",
            self.memory_kib as f64 / 1048576.0,
            self.huge_pages,
            self.transparent_huge_pages
        )?;
        writeln!(
            f,
            "kernel  {}, tcp {}, load {:.2} {:.2} {:.2}",
            self.kernel, self.congestion_control, load[0], load[1], load[2]
        )?;
        writeln!(
            f,
            "build   {}, {}, {}, opt-level {}, target-cpu {}, debug assertions {}, rev {}",
            build.rustc,
            build.target,
            build.profile,
            build.opt_level,
            build.target_cpu,
            if build.debug_assertions { "ON" } else { "off" },
            build.git_rev
        )?;
        self.warnings().iter().try_for_each(|warning| writeln!(f, "{warning}"))
    }
}

#[cfg(test)]
mod tests;
