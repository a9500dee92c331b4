//! Table of the ladder's rungs.

/// Method by which a rung of the ladder is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Build {
    /// The dynamic library of this variant (`cargo xtask ladder`).
    Library(&'static str),
    /// The program of this variant (`cargo xtask ladder`).
    Program(&'static str),
    /// Linked into this program; the application sends one datagram per call.
    Linked,
    /// Linked into this program; the application sends 32 datagrams per call.
    LinkedBursts,
}

#[derive(Debug)]
pub(super) struct Step {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// Cycles per send in the report rump2014, and sends per second if the report states them;
    /// `None` for a rung that the report does not have.
    pub(super) then: Option<(f64, Option<f64>)>,
    pub(super) build: Build,
    /// Settings of this step, which override the settings kept from earlier steps.
    pub(super) words: &'static str,
}

impl Step {
    /// Returns whether the step is a side measurement, compared with the final rung and never kept.
    pub(super) fn is_side(&self) -> bool {
        self.id.starts_with("side.")
    }
}

/// Settings of the ladder's first configuration, which correspond to the default build of NetBSD's
/// rump kernel.
pub(super) const START: &str = "locks=light context=call header_cache=off pool=zone clock=timespec offload=off burst=1";

/// Returns a rung of the report rump2014.
const fn then(
    id: &'static str,
    title: &'static str,
    cycles: f64,
    rate: f64,
    build: Build,
    words: &'static str,
) -> Step {
    Step { id, title, then: Some((cycles, Some(rate))), build, words }
}

/// Returns a rung added by this project, for which the report rump2014 has no figure.
const fn ours(id: &'static str, title: &'static str, build: Build, words: &'static str) -> Step {
    Step { id, title, then: None, build, words }
}

use Build::{Library, Linked, LinkedBursts, Program};

pub(super) const STEPS: &[Step] = &[
    then(
        "0.baseline",
        "dynamic library, opt-level 2, 16 units, no LTO; context by three calls, light locks, zone pool",
        4753.0,
        517_827.0,
        Library("baseline"),
        "",
    ),
    then("1.compiler_flags", "code for this CPU (target-cpu=native)", 4994.0, 496_492.0, Library("native"), ""),
    ours("1a.size", "optimised for size (opt-level s)", Library("size"), ""),
    then(
        "2.static",
        "statically linked, not position independent, otherwise as 0.baseline",
        3209.0,
        763_705.0,
        Program("static"),
        "",
    ),
    ours("2a.opt3", "opt-level 3, one codegen unit", Program("opt3"), ""),
    ours("2b.lto", "whole-program optimisation (fat LTO), linked in, position independent", Linked, ""),
    then("3.context_inline", "current context: inlined thread-local", 2737.0, 898_800.0, Linked, "context=inline"),
    ours("3a.context_register", "current context: an argument", Linked, "context=register"),
    then("4.locks_up", "locks up: no atomics", 2517.0, 972_478.0, Linked, "locks=up context=register"),
    then("5.offload", "IPv4 and UDP checksums left to the port", 2357.0, 1_041_834.0, Linked, "offload=on"),
    then(
        "6.other_compiler",
        "profile-guided optimisation (PGO), in place of the report's other compiler",
        2399.0,
        1_020_794.0,
        Program("pgo"),
        "",
    ),
    ours("7.clock_tsc", "clock: the TSC, scaled, read at every call", Linked, "clock=tsc"),
    ours("8.clock_burst", "clock: one reading per 32 calls", Linked, "clock_every=32"),
    ours("9.no_clock", "no clock readings", Linked, "clock=none"),
    ours("10.pool_freelist", "pool: linked freelist", Linked, "pool=freelist"),
    ours("11.pool_stack", "pool: stack of pointers", Linked, "pool=stack"),
    ours("12.header_cache", "headers, route and neighbor cached", Linked, "header_cache=on"),
    ours("13.burst", "one port call per 32 frames", Linked, "burst=32"),
    ours("14.send_burst", "application sends 32 datagrams per call", LinkedBursts, ""),
    ours("side.malloc", "outside the ladder: system malloc for every frame", Linked, "pool=malloc"),
    ours("side.heavy", "outside the ladder: heavy locks", Linked, "locks=heavy"),
    ours("side.light", "outside the ladder: light locks", Linked, "locks=light"),
    ours("side.checksum", "outside the ladder: checksums in software again", Linked, "offload=off"),
];

/// Rungs that are measured with buffers outside the cache.
pub(super) const COLD: &[Step] = &[
    ours("cold.none", "buffers in rotation", Linked, ""),
    ours("cold.prefetch", "buffers in rotation, next one prefetched", Linked, "prefetch=on"),
    ours("cold.huge_pages", "buffers in rotation, pool on 2 MiB pages", Linked, "pages=2m"),
    ours("cold.both", "buffers in rotation, prefetch and 2 MiB pages", Linked, "prefetch=on pages=2m"),
];

/// Bytes of a buffer that a 64-byte frame touches: two cache lines.
pub(super) const TOUCHED: usize = 128;

/// Maximum number of rotated buffers: 1 GiB of buffers, of which frames touch 64 MiB of cache
/// lines. Unoptimized builds, which serve tests only, use fewer.
const MOST: usize = if cfg!(debug_assertions) { 1 << 12 } else { 1 << 19 };

/// Returns the number of buffers to rotate so that the cache lines that frames touch in them exceed
/// a last-level cache of `cache` bytes; at most [`MOST`].
pub(super) fn rotation(cache: usize) -> usize {
    (cache / TOUCHED * 5 / 4).clamp(1 << 12, MOST)
}
