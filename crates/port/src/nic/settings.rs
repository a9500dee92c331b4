//! The settings of `nic:`. Each is declared once, in this file. In a port name, a setting is given
//! as an option, without the prefix `nic.`.
//!
//! Settings that may change while the card runs are read again in each burst. The defaults are
//! those of the driver of the report bridge2004 before its optimizations (T1 to T11, as the
//! documentation numbers them), so that each optimization can be enabled alone.

use crate::spec::{Fallback, Form, OptionInfo, Value};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Time at which a setting can be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum When {
    /// Only when the port is opened, by an option in the port's name.
    Open,
    /// Also while the port runs.
    Live,
}

/// Description of a setting.
#[derive(PartialEq, Eq, Debug)]
pub struct SettingInfo {
    /// Option name, form of the values, default and description. The setting's full name is the
    /// option name with the prefix `nic.`.
    pub option: OptionInfo,
    /// Time at which the setting can be changed.
    pub when: When,
    /// Number of the optimization of the report bridge2004 that the setting enables, such as `T1`;
    /// empty if there is none.
    pub tweak: &'static str,
}

/// Value of one setting: a number, a switch as 0 or 1, or a word as its index in the list of words.
#[derive(Debug)]
pub struct Setting(AtomicU64);

impl Setting {
    /// Returns the value.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns whether the value is not 0.
    #[inline(always)]
    pub fn on(&self) -> bool {
        self.get() != 0
    }

    /// Returns the value as a number of frames or descriptors.
    #[inline(always)]
    pub fn size(&self) -> usize {
        self.get() as usize
    }

    /// Sets the value without checks. [`Settings::set`] checks it.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// Reasons why a setting was not changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SettingError {
    /// There is no setting with this name.
    Unknown(String),
    /// The value does not have the form that the setting requires.
    BadValue {
        /// Name of the setting without the prefix `nic.`.
        name: &'static str,
        /// Text of the rejected value.
        found: String,
        /// Form of valid values.
        expected: Form,
    },
    /// The setting can be changed only when the port is opened.
    Running(&'static str),
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingError::Unknown(name) => {
                let all: Vec<&str> = Settings::INFO.iter().map(|info| info.option.name).collect();
                write!(f, "unknown sysctl '{name}'; nic settings, each with the prefix 'nic.': {}", all.join(", "))
            }
            SettingError::BadValue { name, found, expected } => write!(f, "nic.{name}='{found}': expected {expected}"),
            SettingError::Running(name) => {
                write!(f, "nic.{name} can be set only when the port is opened: nic({name}=...):NAME")
            }
        }
    }
}

impl std::error::Error for SettingError {}

macro_rules! settings {
    ($( $field:ident: $when:ident, $tweak:literal, $form:expr, $default:literal, $sentence:literal; )+) => {
        /// The settings of one card and its driver.
        #[derive(Debug)]
        pub struct Settings { $( #[doc = $sentence] pub $field: Setting, )+ }

        impl Settings {
            /// Descriptions of all settings, in the order of [`Settings::list`].
            pub const INFO: &'static [SettingInfo] = &[$( SettingInfo {
                option: OptionInfo {
                    name: stringify!($field),
                    form: $form,
                    fallback: Fallback::Is($default),
                    sentence: $sentence,
                },
                when: When::$when,
                tweak: $tweak,
            } ),+];

            fn cells(&self) -> [&Setting; Settings::INFO.len()] { [$( &self.$field ),+] }

            fn zeroed() -> Settings { Settings { $( $field: Setting(AtomicU64::new(0)), )+ } }
        }
    };
}

const fn upto(min: u64, max: u64) -> Form {
    Form::Count { min, max }
}

const SIZES: Form = Form::Word(&["64", "128", "256", "512", "1024", "2048", "4096"]);

/// Word `pool` of `nic.refill`: receive buffers are taken from the pool one by one.
pub const POOL: u64 = 0;
/// Word `stack` of `nic.refill`: receive buffers are taken in bulk, as pointers only.
pub const STACK: u64 = 1;
/// Word `touch` of `nic.refill`: receive buffers are taken one by one, and each is written to.
pub const TOUCH: u64 = 2;
/// Word `late` of `nic.parse`: the first cache line of a frame is read by the frame's first user.
pub const LATE: u64 = 1;
/// Word `move` of `nic.dma`: buffers are exchanged instead of copying payload.
pub const MOVE: u64 = 1;
/// Word `cold` of `nic.dma`: payload is copied, and the copy is evicted from the caches.
pub const COLD: u64 = 2;
/// Word `poll` of `nic.tx_flush`: TDT is written once per polling round.
pub const AT_POLL: u64 = 1;

settings! {
    rx_tail_batch: Live, "T1", upto(1, 1024), "1",
        "Number of receive descriptors filled per write of the register RDT; at most a quarter of the ring.";
    tx_tail_batch: Live, "T2", upto(1, 1024), "1",
        "Number of transmit descriptors filled per write of the register TDT; at most a quarter of the ring.";
    tx_flush: Live, "T2", Form::Word(&["burst", "poll"]), "burst",
        "Time of writing TDT for the remaining transmit descriptors: after each burst, or once per polling round.";
    tx_rs_every: Live, "T3", upto(1, 1024), "1",
        "Number of transmit descriptors per requested status write-back (RS); at most a quarter of the ring.";
    refill: Live, "T4 T5", Form::Word(&["pool", "stack", "touch"]), "touch",
        "Source of receive buffers. pool: one by one; stack: in bulk, as pointers; touch: one by one, writing to each.";
    parse: Live, "T6", Form::Word(&["early", "late"]), "early",
        "First read of a received frame's first cache line. early: by the driver; late: by the frame's first user.";
    rx_ring: Open, "T7", SIZES, "256", "Number of receive descriptors.";
    tx_ring: Open, "T7", SIZES, "256", "Number of transmit descriptors.";
    prefetch: Live, "T10", upto(0, 32), "0",
        "Number of descriptors ahead whose frame's first cache line is prefetched; 0: off.";
    fetch: Live, "T11", upto(1, 64), "4",
        "Maximum number of descriptors that the card reads from memory at a time (hardware prefetch).";
    dma: Open, "", Form::Word(&["copy", "move", "cold"]), "copy",
        "Transfer of payload. copy: copy it; move: exchange the buffers; cold: copy it and evict it from the caches.";
    reg_read_ns: Live, "", upto(0, 100_000), "875",
        "Modelled duration of a register read, in nanoseconds; 0: none.";
    reg_write_ns: Live, "", upto(0, 100_000), "204",
        "Modelled duration of a register write, in nanoseconds; 0: none.";
    bus: Live, "", Form::Word(&["off", "pcix100", "pcix133"]), "pcix100",
        "Bus model for counting clocks: PCI-X, 64 bits, at 100 or 133 MHz; off: clocks are not counted.";
    bus_pace: Live, "", Form::Switch, "off", "Make the card wait until the modelled bus is free.";
    speed: Open, "", Form::Word(&["0", "1g", "10g", "25g", "100g"]), "0",
        "Speed of the wire in bits per second, which include preamble, FCS and gap; 0: unlimited.";
    pause: Open, "", Form::Word(&["auto", "on", "off"]), "auto",
        "Flow control (IEEE 802.3 annex 31B): frames wait for descriptors, so none is missed; auto: on if speed=0.";
    intr: Open, "T8", Form::Switch, "off", "Sleep until the card interrupts; off: poll the card.";
    itr_us: Live, "", upto(0, 100_000), "0", "Minimum time between two interrupts, in microseconds (ITR).";
    csum: Open, "", Form::Switch, "off", "Fill in and verify checksums on the card.";
    tso: Open, "", Form::Switch, "off", "Split large TCP segments on the card and fill in their checksums.";
    vlan: Open, "", upto(0, 4094), "0",
        "VLAN whose tag the card inserts on sending and strips on receipt; other VLANs are dropped; 0: off.";
}

impl Default for Settings {
    fn default() -> Settings {
        let settings = Settings::zeroed();
        for (info, cell) in Settings::INFO.iter().zip(settings.cells()) {
            if let Some(value) = info.option.default() {
                cell.set(number(&info.option.form, &value));
            }
        }
        settings
    }
}

/// Returns the options of a port name: the settings in this file, followed by `more`. `N` is the
/// total number of options.
pub const fn options<const N: usize>(more: &[OptionInfo]) -> [OptionInfo; N] {
    let none = OptionInfo { name: "", form: Form::Switch, fallback: Fallback::Open, sentence: "" };
    let mut all = [none; N];
    let mut settings = Settings::INFO;
    let mut more = more;
    let mut rest: &mut [OptionInfo] = &mut all;
    while let Some((place, after)) = rest.split_first_mut() {
        if let Some((info, others)) = settings.split_first() {
            *place = info.option;
            settings = others;
        } else if let Some((option, others)) = more.split_first() {
            *place = *option;
            more = others;
        }
        rest = after;
    }
    all
}

fn number(form: &Form, value: &Value) -> u64 {
    match (form, value) {
        (_, Value::Count(n)) => *n,
        (_, Value::Switch(on)) => u64::from(*on),
        (Form::Word(words), Value::Word(word)) => words.iter().position(|w| w == word).unwrap_or(0) as u64,
        _ => 0,
    }
}

fn text(form: &Form, value: u64) -> String {
    match form {
        Form::Word(words) => words.get(value as usize).unwrap_or(&"?").to_string(),
        Form::Switch => if value == 0 { "off" } else { "on" }.to_string(),
        _ => value.to_string(),
    }
}

impl Settings {
    /// Sets the setting called `name` (such as `nic.rx_tail_batch`) from its text, while the card
    /// runs.
    ///
    /// # Errors
    /// The name is unknown, the value does not have the form that the setting requires, or the
    /// setting can be changed only when the port is opened.
    pub fn set(&self, name: &str, value: &str) -> Result<(), SettingError> {
        let (info, cell) = self.find(name)?;
        if info.when == When::Open {
            return Err(SettingError::Running(info.option.name));
        }
        let Some(parsed) = info.option.form.parse(value) else {
            let found = value.to_string();
            return Err(SettingError::BadValue { name: info.option.name, found, expected: info.option.form });
        };
        cell.set(number(&info.option.form, &parsed));
        Ok(())
    }

    /// Sets a setting from an option of the port name, before the card is opened. Ignores options
    /// that are not settings.
    pub fn preset(&self, option: &str, value: &Value) {
        if let Some((info, cell)) = Settings::INFO.iter().zip(self.cells()).find(|(info, _)| info.option.name == option)
        {
            cell.set(number(&info.option.form, value));
        }
    }

    /// Returns the value of the setting called `name`, as text.
    ///
    /// # Errors
    /// The name is unknown.
    pub fn get(&self, name: &str) -> Result<String, SettingError> {
        self.find(name).map(|(info, cell)| text(&info.option.form, cell.get()))
    }

    /// Returns every setting's description and value.
    pub fn list(&self) -> impl Iterator<Item = (&'static SettingInfo, String)> {
        let value = |(info, cell): (&'static SettingInfo, &Setting)| (info, text(&info.option.form, cell.get()));
        Settings::INFO.iter().zip(self.cells()).map(value).collect::<Vec<_>>().into_iter()
    }

    fn find(&self, name: &str) -> Result<(&'static SettingInfo, &Setting), SettingError> {
        let word = name.strip_prefix("nic.").unwrap_or_default();
        let named = |(info, _): &(&SettingInfo, &Setting)| info.option.name == word;
        Settings::INFO.iter().zip(self.cells()).find(named).ok_or_else(|| SettingError::Unknown(name.to_string()))
    }

    /// Returns the numbers of receive and transmit descriptors.
    pub fn rings(&self) -> (usize, usize) {
        (64 << self.rx_ring.get().min(6), 64 << self.tx_ring.get().min(6))
    }

    /// Returns the speed of the wire in bits per second; `None` if it is unlimited.
    pub fn bits_a_second(&self) -> Option<u64> {
        [None, Some(1_000_000_000), Some(10_000_000_000), Some(25_000_000_000), Some(100_000_000_000)]
            .get(self.speed.size())
            .copied()
            .flatten()
    }

    /// Returns whether frames wait on the wire while no descriptors are free for them.
    pub fn pauses(&self) -> bool {
        match self.pause.get() {
            0 => self.bits_a_second().is_none(),
            word => word == 1,
        }
    }
}
