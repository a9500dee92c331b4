//! Settings of a test rig, on one line: `locks=light context=call offload=off burst=1 ...`.

use buf::Kind;
use buf::mem::Pages;
use clock::Strategy;
use lock::How;
use port::pktgen::Family;
use std::fmt;
use std::str::FromStr;

/// Kind of locks used by the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LockKind {
    /// No locks: a single thread uses the stack.
    #[default]
    Up,
    /// Light mutexes: one compare-and-swap to lock.
    Light,
    /// Semaphore objects with owner and wait queue.
    Heavy,
}

/// Settings of a rig. The default is the stack's own default configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// `locks=up|light|heavy`: kind of the stack's locks.
    pub locks: LockKind,
    /// `context=register|inline|call`: method of passing the thread's context, by an argument, an
    /// inlined thread-local variable, or function calls. With `locks=up` only `register` is
    /// accepted, since nothing there depends on the running thread.
    pub context: How,
    /// `family=4|6`: IP version of the datagrams.
    pub family: Family,
    /// `offload=on|off`: whether IPv4 and UDP checksums are left to the port.
    pub offload: bool,
    /// `header_cache=on|off`: whether headers, route and neighbor are cached between calls of
    /// `sendto`.
    pub header_cache: bool,
    /// `pool=stack|freelist|zone|malloc`: data structure that stores free buffers. With `malloc`,
    /// each buffer is allocated anew.
    pub pool: Kind,
    /// `pages=4k|2m|1g`: size of the memory pages that contain the buffers.
    pub pages: Pages,
    /// `prefetch=on|off`: whether the next buffer is prefetched into the CPU cache.
    pub prefetch: bool,
    /// `burst=N`: number of frames passed to the port in one call.
    pub burst: usize,
    /// `clock=none|timespec|timespec-tsc|ns|tsc`: the clock that `sendto` reads; `None` for `none`.
    pub clock: Option<Strategy>,
    /// `clock_every=N`: number of calls of `sendto` per reading of the clock.
    pub clock_every: u32,
    /// `rotate=N`: number of frames that the sink keeps before it frees the oldest, so that N + 1
    /// buffers are in use. With 0, the sink keeps no frames.
    pub rotate: usize,
    /// `queues=N`: number of transmit queues of the port; each thread uses one. More than one queue
    /// requires locks.
    pub queues: usize,
    /// `ledger=on|off`: whether the cost ledger is enabled, which counts CPU ticks by processing
    /// stage.
    pub ledger: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            locks: LockKind::Up,
            context: How::Register,
            family: Family::V4,
            offload: false,
            header_cache: true,
            pool: Kind::Stack,
            pages: Pages::Small,
            prefetch: false,
            burst: 1,
            clock: None,
            clock_every: 1,
            rotate: 0,
            queues: 1,
            ledger: false,
        }
    }
}

/// Error for an invalid setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BadSettings(pub String);

impl fmt::Display for BadSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid rig settings: {}", self.0)
    }
}

impl std::error::Error for BadSettings {}

fn switch(key: &str, value: &str) -> Result<bool, BadSettings> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        other => Err(BadSettings(format!("{key}={other}: expected on or off"))),
    }
}

fn number(key: &str, value: &str, least: usize, most: usize) -> Result<usize, BadSettings> {
    let number = value.parse().ok().filter(|n| (least..=most).contains(n));
    number.ok_or_else(|| BadSettings(format!("{key}={value}: expected {least} to {most}")))
}

impl FromStr for Settings {
    type Err = BadSettings;
    fn from_str(line: &str) -> Result<Settings, BadSettings> {
        let mut settings = Settings::default();
        for word in line.split_whitespace() {
            let (key, value) =
                word.split_once('=').ok_or_else(|| BadSettings(format!("'{word}': expected KEY=VALUE")))?;
            match key {
                "locks" => {
                    settings.locks = match value {
                        "up" => LockKind::Up,
                        "light" => LockKind::Light,
                        "heavy" => LockKind::Heavy,
                        other => return Err(BadSettings(format!("locks={other}: expected up, light or heavy"))),
                    }
                }
                "context" => settings.context = value.parse().map_err(BadSettings)?,
                "family" => {
                    settings.family = match value {
                        "4" => Family::V4,
                        "6" => Family::V6,
                        other => return Err(BadSettings(format!("family={other}: expected 4 or 6"))),
                    }
                }
                "offload" => settings.offload = switch(key, value)?,
                "header_cache" => settings.header_cache = switch(key, value)?,
                "pool" => settings.pool = value.parse().map_err(BadSettings)?,
                "pages" => settings.pages = value.parse().map_err(BadSettings)?,
                "prefetch" => settings.prefetch = switch(key, value)?,
                "ledger" => settings.ledger = switch(key, value)?,
                "burst" => settings.burst = number(key, value, 1, 256)?,
                "clock_every" => settings.clock_every = number(key, value, 1, 1024)? as u32,
                "rotate" => settings.rotate = number(key, value, 0, 1 << 20)?,
                "queues" => settings.queues = number(key, value, 1, 64)?,
                "clock" if value == "none" => settings.clock = None,
                "clock" => {
                    settings.clock = Some(value.parse::<Strategy>().map_err(|e| BadSettings(e.to_string()))?);
                }
                other => return Err(BadSettings(format!("unknown setting '{other}'"))),
            }
        }
        if settings.locks == LockKind::Up && settings.context != How::Register {
            let context = settings.context;
            return Err(BadSettings(format!(
                "context={context} has no effect with locks=up, where nothing depends on the running thread: \
                 expected context=register, or locks=light or locks=heavy"
            )));
        }
        if settings.locks == LockKind::Up && settings.queues > 1 {
            let queues = settings.queues;
            return Err(BadSettings(format!(
                "queues={queues} has no effect with locks=up, where one thread uses the first queue: expected queues=1, \
                 or locks=light or locks=heavy"
            )));
        }
        Ok(settings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_parsed_and_invalid_ones_rejected() {
        let got: Settings = "locks=light context=call offload=on burst=32 clock=ns".parse().unwrap();
        assert_eq!((got.locks, got.context, got.offload, got.burst), (LockKind::Light, How::Call, true, 32));
        assert_eq!((got.clock, got.clock_every, got.rotate), (Some(Strategy::NsDivision), 1, 0));
        for bad in [
            "clock_every=0",
            "rotate=-1",
            "queues=0",
            "queues=65 locks=light",
            "locks=none",
            "burst=0",
            "burst=257",
            "colour=red",
            "offload",
            "offload=maybe",
        ] {
            assert!(bad.parse::<Settings>().is_err(), "{bad}");
        }
    }

    #[test]
    fn settings_without_effect_are_rejected() {
        for bad in ["context=call", "locks=up context=inline", "context=inline locks=light locks=up"] {
            let why = bad.parse::<Settings>().unwrap_err().to_string();
            assert!(why.contains("has no effect with locks=up"), "{bad}: {why}");
        }
        let why = "queues=2".parse::<Settings>().unwrap_err().to_string();
        assert!(why.contains("has no effect with locks=up"), "{why}");
        for good in
            ["queues=2 locks=light", "context=register", "context=call locks=light", "locks=heavy context=inline"]
        {
            assert!(good.parse::<Settings>().is_ok(), "{good}");
        }
    }
}
